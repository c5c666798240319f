"""What holds for all built-in worlds: sensors and actions, teams, areas on their own, frames, parameters, and rules."""

import re
from pathlib import Path

import pytest
import torch
from envs.builtin.worlds import NAMES, chance, change, made, nothing, slots_of

from palaestra.core.timestep import Action, TimeStep
from palaestra.runtime.play.brain_assignment import BrainAssignment, BrainSpec
from palaestra.runtime.play.evaluation import play, results
from palaestra.runtime.play.players import Players

SENSORS = Path(__file__).with_name("sensors.txt")
"""Sensors and actions of every behavior, by Unity's names and in its order."""


@pytest.mark.parametrize("name", NAMES)
def test_agents_see_and_do_what_unitys_do(name: str):
    lines = []
    for behavior, spec in made(name, 1).behaviors.items():
        seen = ", ".join(f"{obs.name} {'x'.join(map(str, obs.shape))}{' (goal)' * obs.goal}" for obs in spec.obs)
        lines.append(f"{name}/{behavior}: {seen}; {spec.action.continuous} numbers, choices {[*spec.action.branches]}")
    assert lines == [line for line in SENSORS.read_text().splitlines() if line.startswith(f"{name}/")]


@pytest.mark.parametrize(
    ("name", "behavior", "teams", "groups"),
    [
        ("DungeonEscape", "DungeonEscape", [0] * 6, [0, 0, 0, 1, 1, 1]),
        ("PushBlockCollab", "PushBlockCollab", [0] * 6, [0, 0, 0, 1, 1, 1]),
        ("SoccerTwos", "SoccerTwos", [0, 0, 1, 1] * 2, [0, 0, 1, 1, 2, 2, 3, 3]),
        ("StrikersVsGoalie", "Striker", [0] * 4, [0, 0, 2, 2]),
        ("StrikersVsGoalie", "Goalie", [1] * 2, [1, 3]),
        ("Tennis", "Tennis", [0, 1] * 2, [-1] * 4),
        ("RingOut", "RingOut", [0, 1, 2] * 2, [-1] * 6),
    ],
)
def test_teams_and_groups_are_those_of_an_area(name: str, behavior: str, teams: list[int], groups: list[int]):
    step = made(name, 2).reset(0)[behavior]
    assert step.team.tolist() == teams
    assert step.group.tolist() == groups
    assert step.area.tolist() == sorted([0, 1] * (len(teams) // 2))
    assert step.acting.all()


def equal(few: dict[str, TimeStep], many: dict[str, TimeStep]) -> bool:
    """Whether the first areas of one run are those of another."""
    return all(
        torch.equal(mine, theirs[: len(mine)])
        for behavior, step in few.items()
        for mine, theirs in zip(
            (*step.obs, step.reward, step.group_reward, step.terminated, step.truncated),
            (
                *many[behavior].obs,
                *(getattr(many[behavior], name) for name in ("reward", "group_reward", "terminated", "truncated")),
            ),
            strict=True,
        )
    )


@pytest.mark.parametrize("name", NAMES)
def test_an_area_depends_on_the_seed_and_its_number_alone(name: str):
    few = made(name, 2)
    many = made(name, 5)
    assert equal(few.reset(5), many.reset(5))
    generator = torch.Generator().manual_seed(0)
    for _ in range(30):
        actions = chance(many, generator)
        rows = {behavior: slots_of(few, behavior) for behavior in actions}
        mine = {
            behavior: Action(action.continuous[: rows[behavior]], action.discrete[: rows[behavior]])
            for behavior, action in actions.items()
        }
        assert equal(few.step(mine), many.step(actions))


@pytest.mark.parametrize("name", [name for name in NAMES if name != "Basic"])
def test_another_seed_begins_otherwise(name: str):
    env = made(name, 3)
    assert not equal(env.reset(5), env.reset(6))


FRAMES = sorted({line.partition("/")[0] for line in SENSORS.read_text().splitlines() if "Stacking" in line})


@pytest.mark.parametrize("name", [name for name in FRAMES if name != "Visual3DBall"])
def test_frames_are_stacked_the_oldest_first_after_zeros(name: str):
    env = made(name, 2)
    steps = [env.reset(1)]
    generator = torch.Generator().manual_seed(0)
    steps += [env.step(chance(env, generator)) for _ in range(2)]
    changed = False
    for behavior, spec in env.behaviors.items():
        for k, obs in enumerate(spec.obs):
            if found := re.match(r"StackingSensor_size(\d+)", obs.name):
                first, second, third = (
                    step[behavior].obs[k].view(len(step[behavior].area), int(found[1]), -1) for step in steps
                )
                assert not first[:, :-1].any()
                assert first[:, -1].any()
                assert torch.equal(second[:, :-1], first[:, 1:])
                assert torch.equal(third[:, :-1], second[:, 1:])
                changed = changed or not torch.equal(third[:, -1], second[:, -1])
    assert changed


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("Basic", "RingOut", "Tennis")])
def test_an_episode_is_cut_in_its_last_decision_which_is_no_end(name: str):
    env = made(name, 2)
    env.reset(1)
    assert env.most_decisions is not None
    begun = env.state_dict()
    last = (env.most_decisions - 1) * env.age_per_decision
    for age, is_cut in ((last - env.age_per_decision, False), (last, True)):
        env.load_state_dict({**begun, "age": torch.full_like(begun["age"], age)})
        steps = env.step(nothing(env)).values()
        assert not any(step.terminated.any() for step in steps)
        assert sum(int(step.truncated.sum()) for step in steps) == is_cut * sum(len(step.area) for step in steps) // (
            len(env.behavior_names) or 1
        )
        assert all(step.final_obs.slots.tolist() == step.truncated.nonzero()[:, 0].tolist() for step in steps)
    assert (env.state_dict()["age"] < env.age_per_decision).all()


@pytest.mark.parametrize("name", ["3DBall", "FoodCollector", "PushBlock", "RingOut", "Tennis"])
def test_parameters_are_those_of_the_next_episode_in_their_order(name: str):
    env = made(name, 2)
    env.reset(0)
    defaults = [default for default, _, _ in env.parameter_ranges.values()]
    others = [0.5 * (default + most) for default, _, most in env.parameter_ranges.values()]
    env.set_parameters({key: torch.full((2,), value) for key, value in zip(env.parameters, others, strict=True)})
    assert env.state_dict()["parameters"][1].tolist() == pytest.approx(defaults)
    env.reset(0)
    assert env.state_dict()["parameters"][1].tolist() == pytest.approx(others)


@pytest.mark.parametrize("name", ["FoodCollector", "PushBlockCollab"])
def test_a_grid_cleared_cell_by_cell_is_that_painted_anew(name: str):
    env = made(name, 3)
    again = made(name, 3)
    env.reset(5)
    again.reset(5)
    generator = torch.Generator().manual_seed(1)
    for _ in range(59):
        env.step(chance(env, generator))
    before = env.state_dict()
    actions = chance(env, generator)
    (step,) = env.step(actions).values()
    # more than are recorded: all are cleared
    again.load_state_dict({**before, "written": torch.full_like(before["written"], 10_000)})
    (fresh,) = again.step(actions).values()
    assert torch.equal(step.obs[0], fresh.obs[0])
    assert step.obs[0].sum() > 0


RULES = [  # a world, its parameters, and the share of episodes that earn more than so much
    ("3DBall", {}, 1.0, 99.9),
    ("3DBallHard", {}, 1.0, 99.9),
    ("Basic", {}, 1.0, 0.929),
    ("CartPole", {}, 1.0, 499.0),
    ("GridWorld", {}, 0.97, 0.7),
    ("GridWorld", {"gridSize": 10.0, "numPlusGoals": 3.0, "numExGoals": 4.0}, 0.97, 0.7),
    ("GridWorld", {"gridSize": 3.0}, 0.97, 0.7),
    ("Hallway", {}, 1.0, 0.8),
    ("PushBlock", {}, 1.0, 4.7),
    ("PushBlock", {"block_scale": 4.0, "dynamic_friction": 1.0, "static_friction": 1.0}, 1.0, 4.7),
    ("Pyramids", {}, 0.9, 1.4),
    ("WallJump", {}, 0.9, 0.5),
]


@pytest.mark.parametrize(("name", "parameters", "share", "least"), RULES)
def test_a_rule_earns_what_its_world_has(name: str, parameters: dict[str, float], share: float, least: float):
    env = made(name, 30)
    env.set_parameters({key: torch.full((30,), value) for key, value in parameters.items()})
    players = Players(env, BrainAssignment([BrainSpec("heuristic")], env).brain, lambda agents: 60)
    play(env, players, 1)
    for found in results(players).values():
        assert (found.returns > least).mean() >= share


@pytest.mark.parametrize(
    ("name", "decisions", "least"),
    [("DungeonEscape", 300, 1.7), ("FoodCollector", 300, 10.0), ("PushBlockCollab", 500, 7.0)],
)
def test_a_rule_of_several_agents_earns_more_than_so_much_each(name: str, decisions: int, least: float):
    env = made(name, 16)
    ((behavior, step),) = env.reset(1).items()
    earned = torch.zeros(len(step.area))
    for _ in range(decisions):
        action = env.heuristic(behavior)
        assert action is not None
        step = env.step({behavior: action})[behavior]
        earned += step.reward + step.group_reward
    assert earned.mean() > least


def wins(name: str, areas: int, decisions: int, team: int | None) -> torch.Tensor:
    """Games that each team wins; one plays by the rule, the others by chance, or all by chance."""
    env = made(name, areas)
    env.reset(1)
    if "age" in env.state_dict():
        change(env, age=torch.arange(areas) * (env.most_decisions or 0) // areas)
    generator = torch.Generator().manual_seed(0)
    won = torch.zeros(max(env.teams) + 1)
    for _ in range(decisions):
        actions = chance(env, generator)
        for behavior, action in actions.items():
            rule = env.heuristic(behavior)
            assert rule is not None
            teams = [env.teams[k] for k in range(env.agents) if not env.roles or env.roles[k] == behavior]
            mine = torch.tensor([own == team for own in teams]).repeat(areas)[:, None]
            continuous = torch.where(mine, rule.continuous, action.continuous)
            actions[behavior] = Action(continuous, torch.where(mine, rule.discrete, action.discrete))
        for step in env.step(actions).values():
            earned = step.reward + step.group_reward
            ended = step.terminated | step.truncated
            for number in step.team.unique().tolist():
                members = int((step.team == number).sum()) / areas
                won[number] += int(((step.team == number) & ended & (earned > 0)).sum()) / members
    return won


@pytest.mark.parametrize(
    ("name", "areas", "decisions", "team", "share"),
    [
        ("RingOut", 100, 250, 0, 0.9),
        ("RingOut", 100, 250, 1, 0.9),
        ("RingOut", 100, 250, 2, 0.9),
        ("SoccerTwos", 32, 150, 0, 0.95),
        ("SoccerTwos", 32, 150, 1, 0.95),
        ("StrikersVsGoalie", 96, 80, 0, 0.8),
        ("StrikersVsGoalie", 96, 650, 1, 0.9),  # the Goalie's are those without a goal
        ("Tennis", 200, 150, 0, 0.8),
        ("Tennis", 200, 150, 1, 0.8),
    ],
)
def test_a_rule_beats_chance_from_every_place(name: str, areas: int, decisions: int, team: int, share: float):
    won = wins(name, areas, decisions, team)
    assert won[team] > share * won.sum() > 50


@pytest.mark.parametrize(
    ("name", "areas", "decisions", "least"),
    [("RingOut", 500, 300, 2000), ("SoccerTwos", 128, 600, 40), ("Tennis", 500, 150, 3000)],
)
def test_chance_wins_as_often_in_every_team(name: str, areas: int, decisions: int, least: int):
    won = wins(name, areas, decisions, None)
    assert won.sum() > least
    assert (won - won.mean()).abs().max() < 3.3 * won.mean() ** 0.5


@pytest.mark.slow
def test_chance_scores_now_and_then_so_that_strikers_and_goalie_have_something_to_learn():
    won = wins("StrikersVsGoalie", 96, 1000, None)
    assert 0.1 < won[0] / won.sum() < 0.6


@pytest.mark.parametrize("name", NAMES)
def test_a_rule_is_for_its_own_behaviors_alone(name: str):
    env = made(name, 1)
    env.reset(0)
    assert env.heuristic("Other") is None
    assert env.traits.has_heuristic is all(env.heuristic(behavior) is not None for behavior in env.behaviors)
    assert env.traits.timed
    assert env.tick_seconds
