from inspect import signature

import numpy as np
import pytest
import torch
from sdk_play import Walker, rows

from palaestra import sdk
from palaestra.core.errors import EnvError
from palaestra.core.timestep import Action
from palaestra.envs.base import Env
from palaestra.runtime.environments.make import make_env
from palaestra.testing import check_env


class Lost(Walker):
    """Starts anywhere; its episode ends where it leaves -1..1."""

    behavior = sdk.Behavior("Lost", observations=2, continuous=1)
    max_step = 20

    def on_episode_begin(self) -> None:
        self.at = self.academy.random.uniform(-0.5, 0.5)

    def on_action_received(self, actions: sdk.Actions) -> None:
        self.at += 0.3 * actions.continuous[0]
        self.add_reward(-abs(self.at))
        if abs(self.at) > self.academy.environment_parameters.get_with_default("edge", 1.0):
            self.academy.stats_recorder.add("Lost/At", self.at, sdk.StatAggregationMethod.MOST_RECENT)
            self.end_episode()

    def heuristic(self, actions: sdk.Actions) -> None:
        actions.continuous[0] = -self.at


@sdk.game(parameters={"edge": 1.0})
def lost(academy: sdk.Academy, agents: int = 1, period: int = 1) -> None:
    """Finds its way."""
    for _ in range(agents):
        academy.add(Lost(decision_period=period))


class Chooser(Walker):
    """Asks on every second step, may not choose 0; ends after five choices."""

    behavior = sdk.Behavior("Chooser", observations=2, branches=3)
    decision_period = 2

    def write_action_mask(self, mask: sdk.ActionMask) -> None:
        mask.set_action_enabled(0, 0, False)

    def on_action_received(self, actions: sdk.Actions) -> None:
        self.at += actions.discrete[0]
        if self.step_count > 10:
            self.end_episode()


@sdk.game(parameters={"edge": 0.8})
def mixed(academy: sdk.Academy) -> None:
    academy.add(Lost())
    academy.add(Chooser())


def act(number: float, slots: int) -> Action:
    return Action(torch.full((slots, 1), number), torch.zeros(slots, 0, dtype=torch.int64))


@pytest.mark.parametrize("areas", [1, 3])
def test_games_keep_the_contract_of_an_environment(areas: int):
    check_env(lost(areas=areas, agents=2))
    check_env(mixed(areas=areas))


def test_it_is_all_that_an_environment_may_be():
    env = lost()
    assert isinstance(env, Env)
    assert env.traits.measures
    assert env.traits.has_heuristic
    assert (env.traits.summary, dict(env.parameters), list(env.behaviors)) == (
        "Finds its way.",
        {"edge": 1.0},
        ["Lost"],
    )


def test_an_episode_that_ends_has_its_final_observation_and_the_next_ones_first():
    env = lost()
    env.reset(seed=1)
    step, returns = None, 0.0
    for _ in range(20):
        step = env.step({"Lost": act(1.0, 1)})["Lost"]
        returns += float(step.reward)
        if step.terminated.any():
            break
    assert step is not None
    assert step.terminated.tolist() == [True]
    assert step.acting.tolist() == [True]
    assert float(step.final_obs.obs[0][0, 0]) > 1
    assert -0.5 <= float(step.obs[0][0, 0]) <= 0.5
    assert returns < 0


def test_agents_of_all_areas_share_one_table_and_each_says_which_area_is_its():
    env = lost(areas=3, agents=2)
    step = env.reset(seed=1)["Lost"]
    assert sorted(step.area[step.acting].tolist()) == [0, 0, 1, 1, 2, 2]
    assert len(set(step.obs[0][step.acting, 0].tolist())) == 6


def test_areas_with_decisions_at_different_steps_share_every_tick():
    env = lost(areas=2, period=7)
    env.reset(seed=1)
    for _ in range(30):
        step = env.step({"Lost": act(0.2, 2)})["Lost"]
        assert (step.acting | step.terminated | step.truncated).sum() == 2


def test_a_seed_repeats_the_stream_even_after_a_reset():
    env = lost(areas=2)
    other = lost(areas=2)

    def stream(env: Env, seed: int) -> list[list[float]]:
        seen = [env.reset(seed)["Lost"].obs[0][:, 0].tolist()]
        return [*seen, *(env.step({"Lost": act(0.4, 2)})["Lost"].obs[0][:, 0].tolist() for _ in range(30))]

    first = stream(env, 5)
    assert stream(env, 5) == first
    assert stream(other, 5) == first
    assert stream(other, 6) != first


def test_parameters_hold_in_their_area_and_outlive_a_reset():
    env = lost(areas=2)
    env.set_parameters({"edge": torch.tensor([100.0, 0.0])})
    env.reset(seed=1)
    step = env.step({"Lost": act(0.0, 2)})["Lost"]
    assert step.terminated[step.area == 1].all()
    assert not step.terminated[step.area == 0].any()
    env.set_parameters({"edge": torch.tensor([0.0, 100.0])})
    step = env.step({"Lost": act(0.0, 2)})["Lost"]
    assert step.area[step.terminated].tolist() == [0]


def test_a_game_that_declares_its_parameters_takes_no_others_and_one_that_does_not_takes_any():
    with pytest.raises(EnvError, match=r"game 'lost' has no parameter 'edg'; did you mean 'edge'"):
        lost().set_parameters({"edg": torch.ones(1)})
    edges = []
    env = sdk.game(lambda academy: (academy.add(Lost()), edges.append(academy)))()
    env.set_parameters({"any": torch.ones(1)})
    env.reset(seed=1)
    assert edges[-1].environment_parameters.keys() == ["any"]


def test_what_games_measure_has_its_kind():
    env = lost()
    env.reset(seed=1)
    while not env.step({"Lost": act(1.0, 1)})["Lost"].terminated.any():
        pass
    (measured,) = env.take_measurements()
    assert (measured.name, measured.kind) == ("Lost/At", "latest")
    assert measured.value > 1
    assert env.take_measurements() == []


def test_the_heuristic_answers_for_those_that_ask():
    env = lost(areas=2)
    step = env.reset(seed=1)["Lost"]
    action = env.heuristic("Lost")
    assert action is not None
    torch.testing.assert_close(action.continuous[:, 0], -step.obs[0][:, 0])
    env = mixed()
    env.reset(seed=1)
    assert env.heuristic("Chooser") is None


def test_a_class_without_a_heuristic_beside_one_that_has_it_is_named():
    @sdk.game
    def two(academy: sdk.Academy) -> None:
        academy.add(Lost())
        academy.add(Walker(behavior=Lost.behavior))

    env = two()
    env.reset(seed=1)
    with pytest.raises(EnvError, match=r"behavior 'Lost', agent 1 \(Walker\) has no heuristic; write 'def heuristic"):
        env.heuristic("Lost")


def test_errors_name_the_area_where_there_are_several():
    env = lost(areas=2)
    env.reset(seed=1)
    with pytest.raises(
        EnvError, match=r"behavior 'Lost', agent 0 \(Lost of area 1\) received continuous action 0 = 2.0"
    ):
        env.step({"Lost": Action(torch.tensor([[0.0], [2.0]]), torch.zeros(2, 0, dtype=torch.int64))})


def test_masks_and_teams_arrive_in_the_table():
    env = mixed()
    steps = env.reset(seed=1)
    assert steps["Chooser"].action_mask is not None
    assert steps["Chooser"].action_mask.tolist() == [[False, True, True]]
    assert steps["Lost"].team.tolist() == [0]


def test_a_game_draws_itself_where_it_can():
    @sdk.game
    def drawn(academy: sdk.Academy) -> None:
        academy.add(Lost())
        academy.render = lambda: np.full((2, 2, 3), academy.area, np.uint8)

    assert drawn(areas=2).render(1).tolist() == [[[1] * 3] * 2] * 2
    with pytest.raises(EnvError, match=r"game 'lost' cannot be drawn; set academy\.render"):
        lost().render(0)


def test_the_games_options_are_those_of_its_function():
    assert list(signature(lost).parameters) == ["areas", "agents", "period"]
    assert lost(agents=3).reset(seed=0)["Lost"].acting.sum() == 3
    env = make_env("python:test_sdk_env:lost", areas=2, options={"agents": 2})
    assert env.num_areas == 2
    with pytest.raises(EnvError, match="takes no option 'agent'; did you mean 'agents'"):
        make_env("python:test_sdk_env:lost", options={"agent": 2})


def test_what_a_game_function_raises_says_so():
    @sdk.game
    def broken(academy: sdk.Academy) -> None:
        raise OSError("no level file")

    with pytest.raises(EnvError, match="game 'broken' could not be made: OSError: no level file"):
        broken()
    with pytest.raises(EnvError, match="takes no academy"):
        sdk.game(lambda: None)
    with pytest.raises(EnvError, match="0 areas"):
        lost(areas=0)


def test_a_closed_game_has_its_on_close_functions_called_once():
    closed = []

    @sdk.game
    def careful(academy: sdk.Academy) -> None:
        academy.add(Lost())
        academy.on_close(lambda: closed.append(academy.area))

    env = careful(areas=2)
    env.close()
    env.close()
    assert closed == [0, 1]


def test_a_game_cannot_be_saved():
    env = lost()
    assert env.state_dict() == {}
    env.load_state_dict({})
    with pytest.raises(EnvError, match="cannot be restored"):
        env.load_state_dict({"x": torch.zeros(1)})


def test_numbers_of_agents_are_unique_over_areas():
    areas = lost.make_areas(areas=3, agents=2)
    assert sorted(row[0] for row in rows(areas.advance())) == [0, 1, 2, 3, 4, 5]
    assert [agent.id for agent in areas.academies[1].agents] == [0, 1]


def test_each_area_draws_a_parameter_whenever_the_game_asks_for_it():
    academies = []
    env = sdk.game(lambda academy: (academy.add(Lost()), academies.append(academy)))(areas=2)
    env.draw_parameter("any", "uniform", [2.0, 3.0], [5, 6])
    env.draw_parameter("other", "multirangeuniform", [0.0, 1.0, 7.0, 8.0], [5, 6])
    env.reset(seed=1)
    drawn = [[area.environment_parameters.get_with_default("any", 0.0) for _ in range(20)] for area in academies[-2:]]
    assert all(2 <= value <= 3 for area in drawn for value in area)
    assert len({value for area in drawn for value in area}) == 40
    others = [academies[-1].environment_parameters.get_with_default("other", 0.0) for _ in range(20)]
    assert all(0 <= value <= 1 or 7 <= value <= 8 for value in others)
    with pytest.raises(EnvError, match="has no parameter 'edg'"):
        lost().draw_parameter("edg", "gaussian", [0.0, 1.0], [1])
