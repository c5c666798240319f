import numpy as np
import pytest
import torch
from envs.builtin.worlds import made, still
from envs.crowd_env import Crowd

from palaestra.core.errors import EnvError
from palaestra.core.plugins import registry
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.builtin.ball.env import Ball, VisualBall
from palaestra.envs.builtin.soccer.env import SoccerTwos
from palaestra.runtime.environments.make import make_env
from palaestra.testing import check_env

MANY = [True, True, False] * 2
FEW = [False, False, True] * 2


def actions(number: float, choice: int) -> Action:
    return Action(torch.full((6, 1), number), torch.full((6, 1), choice, dtype=torch.int64))


def crowd(lengths: tuple[float, float] = (1.0, 2.0)) -> tuple[Crowd, dict[str, TimeStep]]:
    env = Crowd(2)
    env.set_parameters({"length": torch.tensor(lengths)})
    return env, env.reset(0)


def test_an_environment_of_several_agents_and_behaviors_keeps_the_contract():
    check_env(Crowd(3), ticks=20)


def test_agents_of_an_area_sit_side_by_side_and_act_in_the_behavior_that_they_play():
    _, steps = crowd()
    assert steps["Many"].area.tolist() == [0, 0, 0, 1, 1, 1]
    assert steps["Many"].acting.tolist() == MANY
    assert steps["Few"].acting.tolist() == FEW
    assert steps["Few"].obs[0][:, 1].tolist() == [0, 1, 2] * 2
    assert steps["Few"].obs[1].shape == (6, 2, 1)


def test_an_agent_gets_the_actions_of_its_behavior_and_its_rewards_stay_there():
    env, _ = crowd((9, 9))
    steps = env.step({"Many": actions(0.5, 1), "Few": actions(0.25, 3)})
    assert steps["Many"].reward.tolist() == [1.5, 1.5, 0, 1.5, 1.5, 0]
    assert steps["Few"].reward.tolist() == [0, 0, 3.25] * 2


def test_ends_and_rewards_stand_where_the_agent_played_and_acting_where_it_plays_now():
    env, _ = crowd((1, 2))
    steps = env.step({"Many": actions(0.5, 0), "Few": actions(0.25, 0)})
    many = steps["Many"]
    few = steps["Few"]
    assert many.terminated.tolist() == [True, True, False, False, False, False]
    assert few.truncated.tolist() == [False, False, True, False, False, False]
    assert (many.final_obs.slots.tolist(), few.final_obs.slots.tolist()) == ([0, 1], [2])
    assert many.final_obs.obs[0].tolist() == [[1, 0], [1, 1]]
    assert few.final_obs.obs[1].tolist() == [[[1], [0]]]
    assert many.reward.tolist() == [0.5, 0.5, 0, 0.5, 0.5, 0]
    assert many.acting.tolist() == [False, False, True, True, True, False]
    assert few.acting.tolist() == [True, True, False, False, False, True]


def test_a_parameter_is_one_value_an_area_and_takes_hold_at_its_next_episode():
    env, _ = crowd((1, 2))
    env.set_parameters({"length": torch.tensor([2.0, 1.0])})
    both = {"Many": actions(0, 0), "Few": actions(0, 0)}
    areas = [
        sorted({slot // 3 for step in env.step(both).values() for slot in step.final_obs.slots.tolist()})
        for _ in range(4)
    ]
    assert areas == [[0], [1], [0, 1], [1]]


def test_a_queue_holds_the_values_of_the_next_episodes_and_then_begins_again():
    env, _ = crowd((1, 1))
    both = {"Many": actions(0, 0), "Few": actions(0, 0)}
    for length in (2.0, 1.0):  # the second time with episodes begun, in the middle of the queue
        queue = torch.full((2, env.traits.queue_length), length)
        queue[:, 0] = 3.0
        queue[1, 2] = 4.0
        env.queue_parameters({"length": queue})
        begun = env.episodes.tolist()
        taken = [[], []]
        while len(taken[0]) < env.traits.queue_length + 2 or len(taken[1]) < env.traits.queue_length + 2:
            env.step(both)
            for area in (0, 1):
                if env.episodes[area] > begun[area]:
                    taken[area].append(float(env.state_dict()["length"][area]))
            begun = env.episodes.tolist()
        for area in (0, 1):
            row = queue[area].tolist()
            assert taken[area][: env.traits.queue_length + 2] == [*row, *row[:2]]
    with pytest.raises(EnvError, match=r"shape \(2,\), expected 32 values an area, \(2, 32\)"):
        env.queue_parameters({"length": torch.ones(2)})
    with pytest.raises(EnvError, match="'length' is -1, expected a number within"):
        env.queue_parameters({"length": torch.full((2, env.traits.queue_length), -1.0)})


def test_actions_of_a_behavior_in_which_nobody_acts_may_be_left_out():
    env, _ = crowd((1, 1))
    state = env.state_dict()
    env.load_state_dict({**state, "plays": torch.zeros_like(state["plays"])})
    env.step({"Many": actions(0, 0)})
    with pytest.raises(EnvError, match="no actions for behavior 'Few'"):
        env.step({"Many": actions(0, 0)})


def test_an_action_that_is_no_number_names_the_behavior_and_the_agent():
    env, _ = crowd((9, 9))
    with pytest.raises(
        EnvError,
        match=r"'Few', agent [25]: action \[nan\] and \[1\] must be finite numbers and choices of branches \(4,\)",
    ):
        env.step({"Many": actions(0, 1), "Few": actions(float("nan"), 1)})


def test_hybrid_actions_of_a_wrong_shape_are_refused():
    env, _ = crowd()
    with pytest.raises(EnvError, match=r"'Many': actions have shape \(6, 2\), expected \(6, 1\)"):
        env.step({"Many": Action(torch.zeros(6, 1), torch.zeros(6, 2, dtype=torch.int64)), "Few": actions(0, 0)})


def test_areas_are_drawn_from_the_rows_of_all_their_agents_in_the_order_asked_for():
    env, _ = crowd((9, 9))
    numbers = Action(torch.arange(6.0)[:, None] / 10, torch.zeros(6, 1, dtype=torch.int64))
    env.step({"Many": numbers, "Few": numbers})
    (agents,) = env.drawing(np.array([1, 0])).solids
    assert agents.slot is not None
    assert agents.slot.tolist() == [[3, 4, 5], [0, 1, 2]]
    assert agents.position[..., 0].tolist() == pytest.approx(np.array([[0.3, 0.4, 0.5], [0.0, 0.1, 0.2]]))
    assert (agents.position[..., 1] == 1).all()


def test_an_area_that_does_not_exist_cannot_be_drawn():
    env, _ = crowd((9, 9))
    for area in (-1, 2):
        with pytest.raises(EnvError, match=f"Crowd has no area {area}, only 0 to 1"):
            env.drawing(np.array([0, area]))


def test_staggered_episodes_end_at_different_times_and_the_next_ones_have_all_theirs():
    env = made("GridWorld", 40)
    times = []
    for seed in (1, 1, 2):
        env.reset(seed)
        env.stagger(seed)
        ends = [[] for _ in range(40)]
        for tick in range(1, 300):
            step = still(env)
            for slot in step.truncated.nonzero().flatten().tolist():
                ends[slot].append(tick)
        times.append([of_area[0] for of_area in ends])
        assert all(of_area[k + 1] - of_area[k] == 100 for of_area in ends for k in range(len(of_area) - 1))
    assert times[0] == times[1] != times[2]
    assert min(times[0]) < 20
    assert 80 < max(times[0]) <= 100


def test_episodes_without_a_time_limit_cannot_be_staggered():
    env = made("RingOut", 2)
    env.reset(0)
    with pytest.raises(EnvError, match="no time limit"):
        env.stagger(0)


@pytest.mark.parametrize("name", registry("envs").names())
def test_messages_name_the_environment_as_it_was_asked_for(name: str):
    # two names of one class
    titles = ("CooperativePushBlock", "PushBlockCollab") if name == "PushBlockCollab" else (name,)
    with pytest.raises(EnvError) as raised:
        make_env(name, areas=0)
    assert str(raised.value).startswith(tuple(f"{title} with 0 areas" for title in titles))


def test_a_world_has_the_columns_of_its_groups_and_one_for_each_last_observation():
    names = [name for name in SoccerTwos.program.world.vars if "obs" in name or name in ("reward", "pending", "ball")]
    seen = ["obs_ahead", "obs_behind", "obs_truth"]
    assert names == ["reward", "pending", "ball", *seen, *(f"final_{name}" for name in seen)]


def test_an_environment_like_another_differs_in_what_it_says_itself():
    assert VisualBall.episode == Ball.episode
    assert VisualBall.rule is Ball.rule
    assert (VisualBall.behavior, VisualBall.default_areas) == ("Visual3DBall", 8)
    assert VisualBall.program is not Ball.program
