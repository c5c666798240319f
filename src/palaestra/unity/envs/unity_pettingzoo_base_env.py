"""Base class of the wrappers with PettingZoo's APIs (before 1.22): agents by name, their spaces, and ticks."""

from __future__ import annotations

import atexit
from typing import Any

import numpy as np
from gymnasium import error, spaces

from palaestra.unity.base_env import ActionSpec, ActionTuple, BaseEnv, BehaviorSpec
from palaestra.unity.envs.env_helpers import agent_name, split_agent, turns
from palaestra.unity.logging_util import get_logger
from palaestra.unity.side_channel.side_channel import SideChannel


class UnityPettingzooBaseEnv:
    """Agents are named '<behavior>?agent_id=<id>'; they join when they appear and leave when done."""

    def __init__(self, env: BaseEnv, seed: int | None = None, metadata: dict[str, Any] | None = None) -> None:
        """Wraps an environment; `seed` seeds the action spaces."""
        super().__init__()
        atexit.register(self.close)
        self._env: BaseEnv | None = env
        self.metadata = metadata
        self._seed = seed
        self._spaces: dict[str, tuple[Any, Any]] = {}
        """Spaces of observations and actions by behavior."""
        self.agents: list[str] = []
        """Current agents, sorted."""
        self.possible_agents: list[str] = []
        """Agents since the last reset, sorted; more may appear."""
        self.observation_spaces: dict[str, Any] = {}
        self.action_spaces: dict[str, Any] = {}
        """Spaces by agent, of all agents since the last reset."""
        self.rewards: dict[str, Any] = {}
        """Rewards of this tick by agent; an agent's reward becomes zero once the agent has acted."""
        self.dones: dict[str, bool] = {}
        """Whether the episode ended on this tick, by agent."""
        self.infos: dict[str, dict[str, Any]] = {}
        """Infos by agent: behavior_name, group_id, group_reward, and `interrupted` if the episode ended."""
        self._cumulative_rewards: dict[str, Any] = {}
        """Rewards in the attribute that PettingZoo reads; they are not zeroed after a turn."""
        self._observations: dict[str, Any] = {}
        self._new_episodes: dict[str, tuple[Any, dict[str, Any]]] = {}
        """First observation and info of the new episode, for agents whose episode ended on this tick."""
        self._rows: dict[str, int] = {}
        """Row of each agent in the DecisionSteps of its behavior."""
        self._actions: dict[str, ActionTuple] = {}
        """Actions of this tick by behavior; zeros where none were given."""
        self._begun = not env.behavior_specs
        """True once the steps of the first episode have been read."""
        if self._begun:
            env.step()
            self._read_steps()
        for behavior, spec in env.behavior_specs.items():
            self._spaces.setdefault(behavior, _spaces(spec, seed))

    def observation_space(self, agent: str) -> Any:
        """Returns the space of an agent's behavior, also for agents yet to appear. Raises KeyError."""
        return self._spaces[split_agent(agent)[0]][0]

    def action_space(self, agent: str) -> Any:
        """Returns the space of an agent's behavior, also for agents yet to appear. Raises KeyError."""
        return self._spaces[split_agent(agent)[0]][1]

    @property
    def side_channel(self) -> dict[str, SideChannel]:
        """Side channels of the environment, by class name."""
        manager = getattr(self._opened(begun=False), "side_channel_manager", None)
        return {} if manager is None else {type(channel).__name__: channel for channel in manager.channels.values()}

    @property
    def num_agents(self) -> int:
        """Number of current agents."""
        return len(self.agents)

    @property
    def max_num_agents(self) -> int:
        """Number of agents since the last reset."""
        return len(self.possible_agents)

    @property
    def unwrapped(self) -> UnityPettingzooBaseEnv:
        """This environment, without PettingZoo's wrappers."""
        return self

    def reset(self) -> Any:
        """Begins new episodes for all agents."""
        self._opened(begun=False).reset()
        self._begun = True
        self.possible_agents = []
        self.observation_spaces = {}
        self.action_spaces = {}
        self._read_steps()

    def seed(self, seed: int | None = None) -> None:
        """Warns that the seed cannot be set: an environment takes its seed when it is made."""
        get_logger(__name__).warning(
            f"the seed {seed} is not used: give it to UnityEnvironment, and to this wrapper for its spaces"
        )

    def render(self, mode: str = "human") -> None:
        """Does nothing: a game draws in its own window."""

    def state(self) -> None:
        """Returns None: there is no global state."""

    def close(self) -> None:
        """Closes the environment; may be called again."""
        atexit.unregister(self.close)
        env = self._env
        self._env = None
        if env is not None:
            env.close()

    def _opened(self, *, begun: bool = True) -> BaseEnv:
        if self._env is None:
            raise error.Error("the environment is closed; make another")
        if begun and not self._begun:
            raise error.Error("there are no agents before the first reset(): call it before step()")
        return self._env

    def _tick(self) -> None:
        env = self._opened()
        for behavior, actions in self._actions.items():
            env.set_actions(behavior, actions)
        env.step()
        self._read_steps()

    def _read_steps(self) -> None:
        """Stores this tick's steps; of an agent with an end and a decision, the decision in `_new_episodes`."""
        env = self._opened()
        self._new_episodes = {}
        self._rows = {}
        self._actions = {}
        self._observations = {}
        self.rewards = {}
        self.dones = {}
        self.infos = {}
        for behavior, spec in env.behavior_specs.items():
            self._spaces.setdefault(behavior, _spaces(spec, self._seed))
            decisions, terminals = env.get_steps(behavior)
            self._actions[behavior] = spec.action_spec.empty_action(len(decisions))
            self._rows |= {agent_name(behavior, int(agent)): row for agent, row in decisions.agent_id_to_index.items()}
            ended = turns(terminals, behavior)
            asking = turns(decisions, behavior)
            self._new_episodes |= {agent: (asking[agent][0], asking[agent][3]) for agent in asking if agent in ended}
            for agent, (obs, reward, done, info) in {**asking, **ended}.items():
                self.observation_spaces[agent], self.action_spaces[agent] = self._spaces[behavior]
                self._observations[agent] = obs
                self.rewards[agent] = reward
                self.dones[agent] = done
                self.infos[agent] = info
        self.agents = sorted(self._observations)
        self.possible_agents = sorted(self.action_spaces)
        self._cumulative_rewards = dict(self.rewards)

    def _act(self, agent: str, action: Any) -> None:
        """Stores an agent's action. Raises gymnasium.error.Error if it is outside the agent's space."""
        behavior, _ = split_agent(agent)
        spec = self._opened().behavior_specs[behavior].action_spec
        try:
            row = _row(action, spec)
        except (TypeError, ValueError, IndexError):
            row = None
        if row is None or not _fits(row, spec):
            space = self.action_space(agent)
            raise error.Error(f"agent {agent} was given the action {action!r}; expected one of {space}")
        actions = self._actions[behavior]
        at = self._rows[agent]
        actions.continuous[at] = row.continuous[0]
        actions.discrete[at] = row.discrete[0]


def _spaces(spec: BehaviorSpec, seed: int | None) -> tuple[Any, Any]:
    """Returns the spaces of observations and of actions, float32: the original has int32, so -1, 0 and 1 only."""
    boxes = []
    for each in spec.observation_specs:
        low, high = (0.0, 1.0) if len(each.shape) == 3 else (-np.inf, np.inf)
        boxes.append(spaces.Box(low, high, each.shape, np.float32))
    obs: Any = boxes[0] if len(boxes) == 1 else spaces.Tuple(boxes)
    action: Any = spaces.Box(-1.0, 1.0, (spec.action_spec.continuous_size,), np.float32)
    if branches := list(spec.action_spec.discrete_branches):
        masks = spaces.Tuple([spaces.MultiBinary(size) for size in branches])
        obs = spaces.Dict({"observation": spaces.Tuple(boxes), "action_mask": masks})
        choice = spaces.MultiDiscrete(branches)
        if spec.action_spec.continuous_size:
            action = spaces.Tuple((action, choice))
        else:
            action = choice if len(branches) > 1 else spaces.Discrete(branches[0])
    if seed is not None:
        action.seed(seed)
    return obs, action


def _row(action: Any, spec: ActionSpec) -> ActionTuple:
    """Converts a number, a list, an array, a pair of both parts, or an ActionTuple."""
    if isinstance(action, ActionTuple):
        return action
    continuous = np.zeros((1, 0))
    discrete = np.zeros((1, 0))
    if spec.continuous_size and spec.discrete_size:
        continuous, discrete = (np.asarray(part).reshape(1, -1) for part in action)
    elif spec.continuous_size:
        continuous = np.asarray(action, np.float32).reshape(1, -1)
    else:
        discrete = np.asarray(action).reshape(1, -1)
    return ActionTuple(continuous, discrete)


def _fits(action: ActionTuple, spec: ActionSpec) -> bool:
    if action.continuous.shape != (1, spec.continuous_size) or action.discrete.shape != (1, spec.discrete_size):
        return False
    in_branches = (action.discrete >= 0) & (action.discrete < np.array(spec.discrete_branches, np.int32))
    return bool((np.abs(action.continuous) <= 1).all() and in_branches.all())
