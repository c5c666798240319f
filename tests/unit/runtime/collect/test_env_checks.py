import sys
from typing import Any

import pytest
import torch
from tiny_envs import Bandit, decide, table

from palaestra.core.errors import EnvError, NotFinite
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.core.timestep import TimeStep
from palaestra.data.rollout import Rollout
from palaestra.data.steady_buffer import SteadyBuffer
from palaestra.envs.guarded import Guarded
from palaestra.runtime.collect.env_checks import check_ends, check_rollout, check_step

SPEC = BehaviorSpec((ObsSpec("eyes", (3,)), ObsSpec("camera", (1, 2, 2))), ActionSpec(branches=(2, 3)), steady=True)
NAN = float("nan")
INF = float("inf")


def views(rows: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.rand(rows, 3), torch.rand(rows, 1, 2, 2)


def step_with(**columns: Any) -> TimeStep:
    step = table(views(), mask=torch.ones(4, 5, dtype=torch.bool))
    return TimeStep(**{**{name: getattr(step, name) for name in step.__slots__}, **columns})


def rollout_of(*steps: TimeStep) -> Rollout:
    generator = torch.Generator()
    buffer = SteadyBuffer(steps[0], decide(steps[0], generator), len(steps))
    for step, following in zip(steps, (*steps[1:], step_with()), strict=True):
        buffer.open(step, decide(step, generator))
        buffer.complete(following)
    return buffer.take(step_with())


def test_finite_numbers_pass():
    check_step("Walker", SPEC, step_with())
    check_rollout("Walker", SPEC, rollout_of(step_with(), step_with()))
    check_ends("Walker", SPEC, rollout_of(step_with()))


def test_numbers_whose_sum_overflows_pass():
    check_step("Walker", SPEC, step_with(reward=torch.full((4,), 3e38)))
    check_step("Walker", SPEC, step_with(obs=(torch.full((4, 3), -3e38), views()[1])))


@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_an_observation_is_named_with_behavior_agent_and_index(value: float):
    eyes, camera = views()
    eyes[2, 1] = value
    with pytest.raises(NotFinite, match=rf"behavior 'Walker', agent 2: observation 'eyes'\[1\] is {value}"):
        check_step("Walker", SPEC, step_with(obs=(eyes, camera)))


def test_a_pixel_is_named_by_channel_row_and_column():
    eyes, camera = views()
    camera[3, 0, 1, 0] = NAN
    with pytest.raises(NotFinite, match=r"agent 3: observation 'camera'\[0\]\[1\]\[0\] is nan"):
        check_step("Walker", SPEC, step_with(obs=(eyes, camera)))


@pytest.mark.parametrize(("column", "name"), [("reward", "reward"), ("group_reward", "group reward")])
def test_a_reward_is_named_with_behavior_and_agent(column: str, name: str):
    values = torch.tensor([0.0, NAN, 0.0, INF])
    with pytest.raises(NotFinite, match=f"behavior 'Walker', agent 1: {name} is nan"):
        check_step("Walker", SPEC, step_with(**{column: values}))


def test_opposite_infinities_are_seen():
    with pytest.raises(NotFinite, match="agent 0: reward is inf"):
        check_step("Walker", SPEC, step_with(reward=torch.tensor([INF, -INF, 0, 0])))
    infinite = torch.tensor([0, 0, INF, 0])
    with pytest.raises(NotFinite, match="agent 2: reward is inf"):
        check_step("Walker", SPEC, step_with(reward=infinite, group_reward=-infinite))


def test_a_branch_without_a_choice_is_named_with_behavior_and_agent():
    mask = torch.ones(4, 5, dtype=torch.bool)
    mask[1, 2:] = False
    with pytest.raises(EnvError, match="behavior 'Walker', agent 1: all 3 actions of branch 1 are masked"):
        check_step("Walker", SPEC, step_with(action_mask=mask))


def test_an_agent_that_does_not_act_may_have_no_choice():
    mask = torch.ones(4, 5, dtype=torch.bool)
    mask[1] = False
    check_step("Walker", SPEC, step_with(action_mask=mask, acting=torch.tensor([True, False, True, True])))


@pytest.mark.parametrize(("column", "name"), [("reward", "reward"), ("group_reward", "group reward")])
def test_a_whole_rollout_names_the_agent_of_a_bad_reward(column: str, name: str):
    bad = step_with(**{column: torch.tensor([0, 0, NAN, 0])})
    with pytest.raises(NotFinite, match=f"agent 2: {name} is nan"):
        check_rollout("Walker", SPEC, rollout_of(step_with(), step_with(), bad))


def test_a_whole_rollout_names_the_agent_of_a_bad_observation_or_mask():
    eyes, camera = views()
    eyes[1, 2] = INF
    with pytest.raises(NotFinite, match=r"agent 1: observation 'eyes'\[2\] is inf"):
        check_rollout("Walker", SPEC, rollout_of(step_with(), step_with(obs=(eyes, camera))))
    mask = torch.ones(4, 5, dtype=torch.bool)
    mask[3, :2] = False
    with pytest.raises(EnvError, match="agent 3: all 2 actions of branch 0 are masked"):
        check_rollout("Walker", SPEC, rollout_of(step_with(), step_with(action_mask=mask)))


def test_a_bad_last_view_of_a_truncated_episode_is_named():
    eyes, camera = views(1)
    eyes[0, 2] = NAN
    cut = table(views(), truncated=[3], final_obs=(eyes, camera), mask=torch.ones(4, 5, dtype=torch.bool))
    with pytest.raises(
        NotFinite, match=r"behavior 'Walker', agent 3: at a truncated episode's end, observation 'eyes'\[2\] is nan"
    ):
        check_ends("Walker", SPEC, rollout_of(step_with(), step_with(), cut))


def test_rows_of_a_rollout_that_no_decision_filled_may_have_no_choice():
    rollout = rollout_of(step_with(), step_with())
    assert rollout.action_mask is not None
    rollout.action_mask[1, 2] = False
    lengths = torch.tensor([2, 2, 1, 2])
    columns = {name: getattr(rollout, name) for name in rollout.__slots__}
    check_rollout("Walker", SPEC, Rollout(**{**columns, "lengths": lengths}))
    with pytest.raises(EnvError, match="agent 2"):
        check_rollout("Walker", SPEC, rollout)


class Leaves(Bandit):
    def step(self, actions):
        sys.exit("bye")


def test_an_environment_that_ends_the_process_is_named():
    with pytest.raises(
        EnvError, match=r"leaves raised an error in step: SystemExit: bye \(.*test_env_checks.py, line \d+\)"
    ):
        Guarded(Leaves(1, branches=(2,)), "leaves").step({})


class Confused(Bandit):
    def heuristic(self, behavior: str, slots: Any = None) -> Any:
        return {}[behavior]

    def take_measurements(self) -> Any:
        return 1 / 0


def test_errors_in_optional_methods_are_named_as_well():
    env = Guarded(Confused(1, branches=(2,)), "mine")
    with pytest.raises(EnvError, match=r"mine raised an error in heuristic: KeyError: 'Bandit'"):
        env.heuristic("Bandit")
    with pytest.raises(EnvError, match="mine raised an error in take_measurements: ZeroDivisionError"):
        env.take_measurements()
