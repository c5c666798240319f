"""Self-play of unusual games: teams of several behaviors, behaviors that come late, sides without opponents, other
settings on resume.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from duel_env import Duel
from rumble_env import Relay, Unseparated
from small_runs import state
from test_self_play_runs import behavior_state, config, elo_of, train
from tiny_envs import spec_of, table

from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.builtin.ball.env import Ball
from palaestra.envs.transfer import Transfer
from palaestra.envs.wrapper import EnvWrapper
from palaestra.models.sac_networks import SoftActorCritic
from palaestra.models.settings import NetworkSettings
from palaestra.parallel.rank_group import ALONE
from palaestra.runtime.collect.acting_policy import brains_of
from palaestra.runtime.collect.learner import Learner
from palaestra.runtime.environments import run_env
from palaestra.runtime.logging.statistics import Statistics
from palaestra.runtime.parts.journal import Journal
from palaestra.runtime.self_play.match_ratings import MatchRatings
from palaestra.runtime.self_play.opponent_policy import MixedPolicy
from palaestra.runtime.self_play.player_ratings import PlayerRatings
from palaestra.runtime.self_play.self_play_behavior import SelfPlayBehavior
from palaestra.runtime.self_play.sides import Side, Sides
from palaestra.runtime.self_play.slot_players import SlotPlayers
from palaestra.runtime.storage.snapshots import SnapshotFiles
from palaestra.scenario.ratings import START, Skill
from palaestra.scenario.self_play_schedule import EXPLOITER, FIRST_FIXED, LEARNING, NEWEST
from palaestra.scenario.settings import SelfPlaySettings
from palaestra.trainers.soft.held_noise import policy_of


def test_a_team_of_several_behaviors_has_one_turn(tmp_path):
    tree = config("Goalie", "Striker", steps=400)
    result = train(tree, "mixed_teams", tmp_path)
    assert state(result.folder)["run"]["parts"]["self_play"]["learning"] == 1
    assert [behavior_state(result, name)["schedule"]["changes"] for name in ("Goalie", "Striker")] == [1, 1]


def test_who_has_learned_everything_ends_no_turn_of_its_team(tmp_path):
    tree = config("Goalie", "Striker", steps=400)
    tree["behaviors"]["Goalie"]["max_steps"] = 100
    result = train(tree, "mixed_teams", tmp_path)
    assert behavior_state(result, "Striker")["schedule"]["changes"] == 1


def test_several_opponents_share_what_one_game_changes(tmp_path):
    result = train(config("Goalie", "Striker", steps=4), "mixed_teams", tmp_path, num_areas=1)
    for name in ("Goalie", "Striker"):
        assert abs(elo_of(result, name) - 1200) <= 0.75  # 1/2 by its own game, 1/4 as another's opponent


def test_a_team_without_opponents_keeps_its_rating(tmp_path):
    result = train(config("Fighter", steps=100), "one_team", tmp_path)
    assert elo_of(result, "Fighter") == 1200


def test_decisions_of_fixed_policies_are_no_steps_of_a_behavior_that_learned_everything(tmp_path):
    tree = config("Pair", "Giant", steps=600)
    tree["behaviors"]["Giant"]["max_steps"] = 100
    result = train(tree, "two_against_one", tmp_path)
    assert result.steps["Giant"] < 200
    assert behavior_state(result, "Giant")["fixed_steps"] > 200


class Shrinking(Duel):
    """A second behavior comes three ticks after each reset, with fewer agents each time."""

    parameters = {"p": 0.0}  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__(4)
        self.behaviors = {**self.behaviors, "Late": self.behaviors["Duel"]}
        self.resets = 0

    def set_parameters(self, values: Mapping[str, torch.Tensor]) -> None:
        pass

    def reset(self, seed: int) -> dict[str, TimeStep]:
        self.ticks = 0
        self.resets = self.resets + 1
        return super().reset(seed)

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        self.ticks = self.ticks + 1
        steps = super().step(actions)
        slots = 8 // self.resets
        late = self._met(torch.zeros(slots), list(range(slots)) if self.ticks > 3 else [])
        return steps if self.ticks < 3 else {**steps, "Late": late}


def test_a_behavior_may_come_with_fewer_agents_after_a_reset(tmp_path):
    tree = config("Duel", "Late", steps=600)
    tree["behaviors"]["Late"]["max_steps"] = 20
    criteria = {"measure": "progress", "behavior": "Duel", "threshold": 0.3, "require_reset": True}
    lessons = [{"name": "a", "value": 0.0, "completion_criteria": criteria}, {"name": "b", "value": 1.0}]
    tree["environment_parameters"] = {"p": {"curriculum": lessons}}
    env = Shrinking()
    assert train(tree, "", tmp_path, env=env).finished
    assert env.resets == 2


@pytest.mark.few(1)
@pytest.mark.parametrize(("out", "learns"), [("Giant", "Pair"), ("Pair", "Giant")])
def test_a_run_goes_on_where_a_behavior_plays_itself_no_more(out, learns, tmp_path):
    train(config("Pair", "Giant"), "two_against_one", tmp_path, until=400)
    tree = config("Pair", "Giant")
    del tree["behaviors"][out]["self_play"]
    result = train(tree, "two_against_one", tmp_path, resume=True)
    assert result.finished
    assert result.steps[learns] >= 900


def test_a_behavior_that_comes_late_is_waited_for_and_keeps_its_snapshots(tmp_path):
    tree = config("Pair", "Giant", steps=600)
    before = train(tree, "latecomers", tmp_path, until=400)
    steps = SnapshotFiles(before.folder).steps("Giant")
    assert len(steps) > 2
    result = train(tree, "latecomers", tmp_path, resume=True)
    assert result.finished
    assert SnapshotFiles(result.folder).steps("Giant")[: len(steps)] == steps


def test_opponents_that_are_no_more_are_replaced(tmp_path):
    with_one = config("Fighter", self_play={"opponents": ["rumble_env:quarter"]})
    train(with_one, "symmetric", tmp_path, until=400)
    assert train(config("Fighter"), "symmetric", tmp_path, resume=True).finished


def test_players_that_are_no_more_give_way_to_those_chosen_without_a_draw_that_other_ranks_do_not_make():
    fighter: Any = SimpleNamespace(settings=SelfPlaySettings(), exploiter=None)
    sides = Sides({"Fighter": fighter}, ALONE, print)
    sides.all = [Side("Fighter", team) for team in range(2)]
    sides.chosen = np.array([LEARNING, 5])
    players = np.array([[EXPLOITER, NEWEST], [NEWEST, EXPLOITER], [LEARNING, FIRST_FIXED]])
    assert sides.able(players).tolist() == [[LEARNING, NEWEST], [NEWEST, 5], [LEARNING, 5]]


def test_who_was_knocked_out_early_counts_in_the_skills(tmp_path):
    result = train(config("Fighter", steps=300), "knockout", tmp_path)
    assert behavior_state(result, "Fighter")["ratings"]["skills"]["-1"]["mean"] != START


def rated(players: list[int], rewards: list[float]) -> dict[int, Skill]:
    """Skills after a game of three sides, one agent each, that began as equals."""
    return played(players, rewards)[0]


def played(
    players: list[int], rewards: list[float], shared: bool = False
) -> tuple[dict[int, Skill], list[tuple[str, int, float]], list[float]]:
    """Also the results of the learning policy, and those of its exploiter. `shared`: opponents change by agent."""
    env = EnvWrapper(Ball(areas=1))
    env.traits = replace(env.traits, shared_areas=shared)
    ratings = PlayerRatings(cast(Learner, SimpleNamespace(rating=None)), 1200.0, ALONE)
    for number in set(players):
        if number != LEARNING:
            ratings.admit(number)
        ratings.set_skill(number, Skill(deviation=2.0))
    learner = SimpleNamespace(spec=SimpleNamespace(steady=False))

    def judge(*game: Any) -> None:
        games.append(game)

    games: list[Any] = []
    exploits: list[float] = []
    fighter = SimpleNamespace(
        ratings=ratings,
        settings=SelfPlaySettings(),
        learner=learner,
        games=SimpleNamespace(add=judge),
        exploiter=SimpleNamespace(add=exploits.append),
    )
    sides = Sides({"Fighter": cast(SelfPlayBehavior, fighter)}, ALONE, print)
    sides.all = [Side("Fighter", team) for team in range(3)]
    step = replace(
        table(torch.zeros(3, 1), terminated=[0, 1, 2]),
        reward=torch.tensor(rewards),
        area=torch.zeros(3, dtype=torch.int64),
        team=torch.arange(3),
    )
    slots = SlotPlayers(env, sides)
    slots.begin({"Fighter": step})
    slots.register({"Fighter": step})
    sides.chosen = np.array(players)
    slots.assign({"Fighter": step}, None)
    over = slots.areas.over({"Fighter": step})
    MatchRatings(sides, slots, Journal(Statistics()), print).rate({"Fighter": step}, over)
    return {number: ratings.skill_of(number) for number in set(players)}, games, exploits


def test_a_player_of_two_sides_is_rated_by_both():
    won = rated([LEARNING, LEARNING, 0], [1, -1, -1])
    lost = rated([LEARNING, LEARNING, 0], [-1, -1, 1])
    assert won == rated([LEARNING, LEARNING, 0], [-1, 1, -1])
    assert won[LEARNING].mean > START > won[0].mean
    assert lost[LEARNING].mean < START < lost[0].mean
    # equals win two games of three on two sides of three: on average nothing is learned of either
    assert 2 * won[LEARNING].mean + lost[LEARNING].mean == pytest.approx(3 * START, abs=0.05)
    assert 2 * won[0].mean + lost[0].mean == pytest.approx(3 * START, abs=0.05)


def test_each_player_of_three_sides_is_judged_by_who_got_more():
    assert played([LEARNING, 4, 0], [-1, -1, 1])[1] == [("Fighter", 4, 0.5), ("Fighter", 0, 0.0)]
    assert played([5, 4, LEARNING], [-1, -1, 1])[1:] == ([("Fighter", 5, 1.0), ("Fighter", 4, 1.0)], [])


def test_an_exploiter_is_judged_against_every_other_side_and_the_newest_policy_is_not():
    assert played([NEWEST, EXPLOITER, NEWEST], [-1, 0.5, 1])[1:] == ([], [1.0, 0.0])
    assert played([EXPLOITER, NEWEST, NEWEST], [0, 0, -1])[1:] == ([], [0.5, 1.0])


def test_where_opponents_change_by_agent_the_sign_of_its_own_reward_judges():
    assert played([LEARNING, 4, 0], [-1, -1, 1], shared=True)[1] == [("Fighter", 4, 0.0), ("Fighter", 0, 0.0)]
    assert played([LEARNING, 4, 4], [2, -1, 0], shared=True)[1] == [("Fighter", 4, 1.0), ("Fighter", 4, 1.0)]
    assert played([NEWEST, EXPLOITER, NEWEST], [-1, 0.5, 1], shared=True)[2] == [1.0]


def test_exploiters_play_their_shares_of_the_episodes_on_each_side_in_turn():
    def behavior(share: float | None) -> Any:
        exploiter = None if share is None else {"share": share}
        learner = SimpleNamespace(training=True, spec=SimpleNamespace(steady=True))
        return SimpleNamespace(settings=SelfPlaySettings.model_validate({"exploiter": exploiter}), learner=learner)

    sides = Sides({"A": behavior(0.4), "B": behavior(None), "C": behavior(0.2)}, ALONE, print)
    sides.all = [Side("A", 0), Side("A", 1), Side("B", 2), Side("C", 3)]
    assert sides.exploited_shares == pytest.approx([0.2, 0.2, 0.0, 0.2])
    sides.chosen = np.array([LEARNING, 5, 6, 7])
    step = replace(table(torch.zeros(4, 1)), area=torch.zeros(4, dtype=torch.int64), team=torch.arange(4))
    slots = SlotPlayers(EnvWrapper(Ball(areas=4000)), sides, seed=1)
    slots.begin({"A": step})
    slots.assign({"A": step}, None)
    rows = [tuple(row) for row in slots.of_areas.tolist()]
    shares = {row: rows.count(row) / 4000 for row in rows}
    played = [tuple(EXPLOITER if i == side else NEWEST for i in range(4)) for side in (0, 1, 3)]
    assert shares.keys() == {(LEARNING, 5, 6, 7), *played}
    assert [shares[row] for row in played] == pytest.approx([0.2] * 3, abs=0.02)
    cast(Any, sides.behaviors["C"]).learner.training = False
    assert sides.exploited_shares == pytest.approx([0.2, 0.2, 0.0, 0.0])
    greedy = Sides({"A": behavior(0.6), "C": behavior(0.6)}, ALONE, print)
    greedy.all = [Side("A", 0), Side("C", 1)]
    assert greedy.exploited_shares == pytest.approx([0.45, 0.45])  # policies learn from the rest


def test_a_player_of_all_sides_is_not_rated():
    assert rated([LEARNING] * 3, [1, -1, -1]) == {LEARNING: Skill(deviation=2.0)}


def test_agents_may_come_as_others_end(tmp_path):
    result = train(config("Duel", steps=300), "", tmp_path, env="python:growing_duels:growing")
    assert result.finished
    assert elo_of(result, "Duel") != 1200


def test_who_rests_between_episodes_plays_as_it_was_decided_last(tmp_path):
    env = Unseparated([("Fighter", 0, 1), ("Fighter", 1, 2)], rests=True)
    tree = config("Fighter", steps=120, self_play={"swap_steps": 10, "team_change": 50})
    saved = state(train(tree, "", tmp_path, env=env).folder)["run"]["parts"]["self_play"]
    assert saved["behaviors"]["Fighter"]["schedule"]["changes"] > 0
    assert torch.equal(saved["players"]["Fighter"][-1], saved["chosen"])


def test_three_teams_have_an_elo_where_nobody_tells_who_plays_whom(tmp_path):
    env = Unseparated([("Fighter", team, 1) for team in (0, 1, 2)], rests=False)
    result = train(config("Fighter", steps=100), "", tmp_path, env=env)
    assert '"Self-play/ELO"' in (result.folder / "metrics.jsonl").read_text()


def test_on_an_accelerator_too_slots_of_a_shared_area_are_areas_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setattr(run_env, "on_device", lambda env, device: Transfer(env, torch.device(device)))
    result = train(
        config("Duel", steps=600, self_play={"team_change": 150}), "", tmp_path, env="python:growing_duels:side_by_side"
    )
    saved = state(result.folder)["run"]["parts"]["self_play"]
    assert saved["behaviors"]["Duel"]["schedule"]["changes"] == 3
    assert saved["players"]["Duel"].shape[1] == 2  # by slot, and not by area


def test_areas_whose_episodes_never_end_are_warned_of(tmp_path, capsys):
    train(config("Fighter", steps=300), "", tmp_path, env=Relay(2, [("Fighter", 0, 1), ("Fighter", 1, 1)]), quiet=False)
    told = " ".join(capsys.readouterr().out.split())
    assert told.count("agents begin new episodes one by one, so that the episode of a whole area never ends") == 1


def test_arenas_of_one_academy_go_on_each_by_itself(tmp_path):
    result = train(
        config("Duel", steps=600, self_play={"team_change": 150}), "", tmp_path, env="python:growing_duels:side_by_side"
    )
    saved = state(result.folder)["run"]["parts"]["self_play"]
    learns = [side[1] for side in saved["sides"]].index(saved["learning"])
    assert saved["behaviors"]["Duel"]["schedule"]["changes"] == 3
    assert (saved["players"]["Duel"][:, learns] == -1).sum() > 3
    judged = saved["behaviors"]["Duel"]["pool"]["rates"]["Duel"].values()
    assert sum(games for _, _, games in judged) > 0


@torch.no_grad()
def test_what_is_learned_from_has_no_held_noise_where_fixed_opponents_play_all_slots():
    network = SoftActorCritic(spec_of((2,), continuous=1, branches=(2,)), NetworkSettings(hidden_units=8))
    policy = policy_of(network, torch.Generator(), deterministic=False, longest=3)
    answer = Action(torch.zeros(4, 1), torch.ones(4, 1, dtype=torch.int64))
    brain: Any = SimpleNamespace(see=lambda step: None, answer=lambda step: answer)
    unused: Any = None
    mixed = MixedPolicy(policy, unused, [brain])
    mixed.assign(np.full(4, FIRST_FIXED))
    decision = mixed.choose(table(torch.zeros(4, 2))).decision()
    assert decision.recurrent_state.shape == mixed.blank(table(torch.zeros(4, 2))).recurrent_state.shape == (4, 0)
    assert decision.action.discrete.all()


def test_checkpoints_hold_the_random_numbers_of_fixed_opponents():
    opponents: Any = ["an opponent"]
    unused: Any = None
    assert brains_of(MixedPolicy(unused, unused, opponents)) == opponents
