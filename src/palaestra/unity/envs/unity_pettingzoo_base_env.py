"""Base class of the wrappers with PettingZoo's APIs (before 1.22): agents by name, their spaces, and ticks."""

from __future__ import annotations

import atexit
from typing import Any

import numpy as np
from gymnasium import error, spaces

from palaestra.unity.base_env import ActionSpec, ActionTuple, BaseEnv
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
        self._action_spaces: dict[str, Any] = {}
        self._observation_spaces: dict[str, Any] = {}
        self._possible: dict[str, None] = {}
        self._agents: list[str] = []
        self._observations: dict[str, Any] = {}
        self._rewards: dict[str, Any] = {}
        self._earned: dict[str, Any] = {}
        """Rewards that are not zeroed after a turn."""
        self._dones: dict[str, bool] = {}
        self._infos: dict[str, dict[str, Any]] = {}
        self._new_episodes: dict[str, tuple[Any, dict[str, Any]]] = {}
        """First observation and info of the new episode of agents whose old one ended on this tick."""
        self._rows: dict[str, int] = {}
        """Row of each agent in the DecisionSteps of its behavior."""
        self._actions: dict[str, ActionTuple] = {}
        """Actions of this tick by behavior; zeros where none were given."""
        self._begun = not env.behavior_specs
        """True once the steps of a first episode have been read."""
        if self._begun:
            env.step()
            self._read_steps()
        for behavior in env.behavior_specs:
            self._make_spaces(behavior)

    @property
    def observation_spaces(self) -> dict[str, Any]:
        """Spaces by agent, of all agents since the last reset."""
        return {agent: self.observation_space(agent) for agent in self._possible}

    @property
    def action_spaces(self) -> dict[str, Any]:
        """Spaces by agent, of all agents since the last reset."""
        return {agent: self.action_space(agent) for agent in self._possible}

    def observation_space(self, agent: str) -> Any:
        """Returns the space of an agent's behavior, also for agents yet to appear. Raises KeyError."""
        return self._observation_spaces[split_agent(agent)[0]]

    def action_space(self, agent: str) -> Any:
        """Returns the space of an agent's behavior, also for agents yet to appear. Raises KeyError."""
        return self._action_spaces[split_agent(agent)[0]]

    @property
    def side_channel(self) -> dict[str, SideChannel]:
        """Side channels of the environment, by class name."""
        manager = getattr(self._loaded(), "side_channel_manager", None)
        return {} if manager is None else {type(channel).__name__: channel for channel in manager.channels.values()}

    @property
    def possible_agents(self) -> list[str]:
        """Agents since the last reset, sorted; more may appear."""
        return sorted(self._possible)

    @property
    def agents(self) -> list[str]:
        """Current agents, sorted."""
        return sorted(self._agents)

    @property
    def num_agents(self) -> int:
        """Number of current agents."""
        return len(self._agents)

    @property
    def max_num_agents(self) -> int:
        """Number of agents since the last reset."""
        return len(self._possible)

    @property
    def unwrapped(self) -> UnityPettingzooBaseEnv:
        """This environment, without PettingZoo's wrappers."""
        return self

    @property
    def rewards(self) -> dict[str, Any]:
        """Rewards of this tick by agent; zeros once an agent has acted."""
        return dict(self._rewards)

    @property
    def _cumulative_rewards(self) -> dict[str, Any]:
        """Reward of each agent since its last turn, where PettingZoo expects it."""
        return self._earned

    @property
    def dones(self) -> dict[str, bool]:
        """Whether the episode ended on this tick, by agent."""
        return dict(self._dones)

    @property
    def infos(self) -> dict[str, dict[str, Any]]:
        """Infos by agent: behavior_name, group_id, group_reward, and `interrupted` if the episode ended."""
        return dict(self._infos)

    def reset(self) -> Any:
        """Begins new episodes for all agents."""
        self._loaded().reset()
        self._begun = True
        self._possible = {}
        self._read_steps()

    def seed(self, seed: int | None = None) -> None:
        """Warns that the seed cannot be set: environments take it when they are made."""
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

    def _loaded(self) -> BaseEnv:
        if self._env is None:
            raise error.Error("the environment is closed; make another")
        return self._env

    def _check_begun(self) -> None:
        self._loaded()
        if not self._begun:
            raise error.Error("there are no agents before the first reset(): call it before step()")

    def _tick(self) -> None:
        env = self._loaded()
        for behavior, actions in self._actions.items():
            env.set_actions(behavior, actions)
        env.step()
        self._read_steps()

    def _read_steps(self) -> None:
        """Stores this tick's steps; of an agent with an end and a decision, the decision in `_new_episodes`."""
        env = self._loaded()
        self._agents = []
        self._new_episodes = {}
        self._rows = {}
        self._actions = {}
        self._observations = {}
        self._rewards = {}
        self._dones = {}
        self._infos = {}
        for behavior in env.behavior_specs:
            self._make_spaces(behavior)
            decisions, terminals = env.get_steps(behavior)
            self._actions[behavior] = env.behavior_specs[behavior].action_spec.empty_action(len(decisions))
            self._rows.update(
                {agent_name(behavior, int(agent)): row for agent, row in decisions.agent_id_to_index.items()}
            )
            ended = turns(terminals, behavior)
            asking = turns(decisions, behavior)
            self._new_episodes.update(
                {agent: (asking[agent][0], asking[agent][3]) for agent in asking if agent in ended}
            )
            for agent, (obs, reward, done, info) in {**asking, **ended}.items():
                self._possible[agent] = None
                self._agents.append(agent)
                self._observations[agent] = obs
                self._rewards[agent] = reward
                self._dones[agent] = done
                self._infos[agent] = info
        self._earned = dict(self._rewards)

    def _make_spaces(self, behavior: str) -> None:
        if behavior in self._action_spaces:
            return
        spec = self._loaded().behavior_specs[behavior]
        boxes = [_observation_box(each.shape) for each in spec.observation_specs]
        obs: Any = boxes[0] if len(boxes) == 1 else spaces.Tuple(boxes)
        if spec.action_spec.discrete_size:
            masks = [spaces.MultiBinary(size) for size in spec.action_spec.discrete_branches]
            obs = spaces.Dict({"observation": spaces.Tuple(boxes), "action_mask": spaces.Tuple(masks)})
        self._observation_spaces[behavior] = obs
        self._action_spaces[behavior] = _action_space(spec.action_spec)
        if self._seed is not None:
            self._action_spaces[behavior].seed(self._seed)

    def _act(self, agent: str, action: Any) -> None:
        """Stores an agent's action. Raises gymnasium.error.Error if it is outside the agent's space."""
        behavior, _ = split_agent(agent)
        spec = self._loaded().behavior_specs[behavior].action_spec
        space = self.action_space(agent)
        try:
            row = _row(action, spec)
        except (TypeError, ValueError, IndexError):
            row = None
        if row is None or not _fits(row, spec):
            raise error.Error(f"agent {agent} was given the action {action!r}; expected one of {space}")
        actions = self._actions[behavior]
        at = self._rows[agent]
        actions.continuous[at] = row.continuous[0]
        actions.discrete[at] = row.discrete[0]

    def _forget(self, agent: str) -> None:
        self._agents.remove(agent)
        for kept in (self._observations, self._rewards, self._earned, self._dones, self._infos):
            del kept[agent]


def _observation_box(shape: tuple[int, ...]) -> spaces.Box:
    image = len(shape) == 3
    return spaces.Box(0.0 if image else -np.inf, 1.0 if image else np.inf, shape, np.float32)


def _action_space(spec: ActionSpec) -> Any:
    """Returns the action space. Continuous actions are float32; the original's int32 would allow only -1, 0 and 1."""
    box = spaces.Box(-1.0, 1.0, (spec.continuous_size,), np.float32)
    if not spec.discrete_size:
        return box
    if spec.continuous_size:
        return spaces.Tuple((box, spaces.MultiDiscrete(list(spec.discrete_branches))))
    return (
        spaces.Discrete(spec.discrete_branches[0])
        if spec.discrete_size == 1
        else spaces.MultiDiscrete(list(spec.discrete_branches))
    )


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
