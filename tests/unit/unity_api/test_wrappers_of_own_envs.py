"""The wrappers around a BaseEnv of a user's own, which does no more than the original's wrappers ask of one."""

from typing import Any

import gymnasium
import numpy as np
import pytest

from palaestra.unity.base_env import (
    ActionSpec,
    ActionTuple,
    BaseEnv,
    BehaviorSpec,
    DecisionSteps,
    DimensionProperty,
    ObservationSpec,
    ObservationType,
    TerminalSteps,
)
from palaestra.unity.envs.unity_aec_env import UnityAECEnv
from palaestra.unity.envs.unity_gym_env import UnityToGymWrapper
from palaestra.unity.envs.unity_parallel_env import UnityParallelEnv

NAME = "Walker?team=0"
SPEC = BehaviorSpec(
    [ObservationSpec((2,), (DimensionProperty.NONE,), ObservationType.DEFAULT, "place")],
    ActionSpec.create_continuous(1),
)


class OwnEnv(BaseEnv):
    """Agents 3, 4 and 10; each earns its id a tick, and the last leaves after three ticks. Steps have lists of ids,
    after `reset` only.
    """

    def __init__(self, agents: int = 3) -> None:
        self.ids = [3, 4, 10][:agents]
        self.tick = 0
        self.begun = False
        self.closed = False
        self.told: list[list[float]] = []

    @property
    def behavior_specs(self) -> Any:
        return {NAME: SPEC}

    def reset(self) -> None:
        self.tick = 0
        self.begun = True

    def step(self) -> None:
        if not self.begun:
            raise RuntimeError("step before reset")
        self.tick += 1

    def close(self) -> None:
        self.closed = True

    def set_actions(self, behavior_name: str, action: ActionTuple) -> None:
        assert behavior_name == NAME
        self.told.append(action.continuous[:, 0].tolist())

    def set_action_for_agent(self, behavior_name: str, agent_id: int, action: ActionTuple) -> None:
        raise NotImplementedError

    def get_steps(self, behavior_name: str) -> tuple[DecisionSteps, TerminalSteps]:
        if not self.begun:
            raise RuntimeError("steps before reset")
        ended = self.ids[-1:] if self.tick == 3 else []
        there = [one for one in self.ids if one not in ended and (self.tick < 3 or one != self.ids[-1])]
        return DecisionSteps(*self._columns(there), None, *self._groups(there)), self._terminals(ended)  # type: ignore[arg-type]

    def _terminals(self, ids: list[int]) -> TerminalSteps:
        obs, reward, agents = self._columns(ids)
        return TerminalSteps(obs, reward, [False] * len(ids), agents, *self._groups(ids))  # type: ignore[arg-type]

    def _columns(self, ids: list[int]) -> tuple[Any, Any, Any]:
        earned = ids if self.tick else [0] * len(ids)
        return (
            [np.array([[one, self.tick] for one in ids], np.float32).reshape(-1, 2)],
            np.array(earned, np.float32),
            list(ids),
        )

    def _groups(self, ids: list[int]) -> tuple[list[int], Any]:
        return [0] * len(ids), np.zeros(len(ids), np.float32)


def named(agent: int) -> str:
    return f"{NAME}?agent_id={agent}"


@pytest.mark.parametrize("wrapper", [UnityAECEnv, UnityParallelEnv])
def test_an_environment_that_was_never_reset_can_be_wrapped(wrapper: Any):
    env = wrapper(OwnEnv())
    assert (env.agents, env.possible_agents, env.num_agents, env.max_num_agents) == ([], [], 0, 0)
    assert env.action_space(named(3)).shape == (1,)
    assert env.unwrapped is env
    env.reset()
    assert env.agents == env.possible_agents == sorted([named(3), named(4), named(10)])
    assert (env.num_agents, env.max_num_agents) == (3, 3)


@pytest.mark.parametrize("wrapper", [UnityAECEnv, UnityParallelEnv])
def test_an_environment_that_was_reset_before_can_be_wrapped(wrapper: Any):
    own = OwnEnv()
    own.reset()
    own.step()
    env = wrapper(own)
    env.reset()
    assert env.num_agents == 3


def test_no_agent_can_act_before_the_first_reset():
    for env, action in ((UnityAECEnv(OwnEnv()), None), (UnityParallelEnv(OwnEnv()), {named(3): [0.0]})):
        with pytest.raises(gymnasium.error.Error, match="reset"):
            env.step(action)  # type: ignore[arg-type]


def test_all_agents_act_at_once_through_set_actions():
    own = OwnEnv()
    env = UnityParallelEnv(own)
    env.reset()
    views, rewards, dones, _ = env.step({named(4): [0.5], named(10): np.array([-1.0])})
    assert own.told == [[0.0, 0.5, -1.0]]
    assert views[named(4)].tolist() == [4, 1]
    assert rewards == {named(3): 3, named(4): 4, named(10): 10}
    assert not any(dones.values())


def test_one_after_the_other_they_act_through_set_actions_too():
    own = OwnEnv()
    env = UnityAECEnv(own)
    env.reset()
    for i, agent in zip(range(3), env.agent_iter(), strict=False):
        assert agent == named([3, 4, 10][i])
        env.step([i / 4])
    assert own.told == [[0.0, 0.25, 0.5]]


def test_rewards_are_zero_after_a_turn_and_last_still_has_them():
    env = UnityAECEnv(OwnEnv())
    env.reset()
    total = dict.fromkeys(env.agents, 0.0)
    for _ in range(6):
        for agent, reward in env.rewards.items():
            total[agent] += reward
        before = env.rewards[env.agent_selection]
        _, earned, _, _ = env.last()
        assert earned in (0, before) or before == 0
        env.step([0.0])
    assert env.rewards == {named(3): 3, named(4): 4, named(10): 10}
    assert total == {named(3): 3, named(4): 4, named(10): 10}
    env.step([0.0])
    assert set(env.rewards.values()) == {0.0}
    assert env.last()[1] == 4


def test_one_that_ended_takes_none_and_leaves():
    env = UnityAECEnv(OwnEnv())
    env.reset()
    for _ in range(11):
        env.step([0.0])
    assert env.last()[2]
    assert env.agent_selection == named(10)
    with pytest.raises(gymnasium.error.Error, match="takes no action but None"):
        env.step([0.0])
    env.step(None)
    assert env.agents == [named(3), named(4)]
    assert named(10) not in env.dones
    assert env.max_num_agents == 3


def test_one_that_ended_is_not_among_those_who_go_on():
    env = UnityParallelEnv(OwnEnv())
    env.reset()
    for _ in range(3):
        _, _, dones, _ = env.step({agent: [0.0] for agent in env.agents})
    assert dones[named(10)]
    assert env.agents == [named(3), named(4)]


def test_an_own_environment_of_one_agent_is_one_of_gym():
    own = OwnEnv(agents=1)
    env = UnityToGymWrapper(own)
    assert env.reset().tolist() == [3, 0]
    view, reward, done, _ = env.step([0.5])
    assert (view.tolist(), reward, done, own.told) == ([3, 1], 3.0, False, [[0.5]])


@pytest.mark.parametrize("wrapper", [UnityAECEnv, UnityParallelEnv])
def test_a_wrapper_is_of_no_use_after_close(wrapper: Any):
    own = OwnEnv()
    env = wrapper(own)
    env.reset()
    env.close()
    env.close()
    assert own.closed
    for use in (env.reset, lambda: env.step(None), lambda: env.side_channel):
        with pytest.raises(gymnasium.error.Error):
            use()
