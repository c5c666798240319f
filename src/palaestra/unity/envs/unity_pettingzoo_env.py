"""PettingZoo's current interfaces, parallel and AEC, for a BaseEnv. They need the package pettingzoo."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
from gymnasium import error, spaces
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils.conversions import parallel_to_aec

from palaestra.envs.spaces.behavior_spaces import BehaviorSpaces
from palaestra.unity.base_env import ActionTuple, BaseEnv
from palaestra.unity.envs.env_helpers import spaces_of, split_agent
from palaestra.unity.envs.unity_parallel_env import UnityParallelEnv

Values = dict[str, Any]


class UnityToPettingZooWrapper(ParallelEnv[str, Any, Any]):
    """Parallel environment of all agents of a BaseEnv, named '<behavior>?agent_id=<id>'.

    An agent whose episode ends leaves until `reset`; a new id is a new agent. One observation is a Box, several are a
    Dict; with discrete actions an agent observes a dictionary of `observation` and `action_mask`, in which 1 is
    allowed. With hybrid actions the mask is in infos instead, in the form that `action_space.sample` takes.
    """

    def __init__(self, env: BaseEnv, seed: int | None = None) -> None:
        """Wraps an environment and begins its first episodes; `seed` seeds the action spaces."""
        self._old = UnityParallelEnv(env, seed)
        self._seed = seed
        self._left = set[str]()
        self.metadata = {"name": "unity", "render_modes": [], "is_parallelizable": True}
        self.render_mode = None
        self._old.reset()
        self.possible_agents = list(self._old.agents)
        self.agents = []
        self._behaviors: dict[str, BehaviorSpaces] = {}
        self._observation_spaces: dict[str, spaces.Space[Any]] = {}
        self._action_spaces: dict[str, spaces.Space[Any]] = {}
        self._specs = env.behavior_specs
        self._last: dict[str, tuple[Any, Values]] = {}
        self._seen: Values = {}
        """Observations of the last tick by agent, also of agents that were removed but are still in the game."""

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """Returns an agent's observation space, always the same object. Raises KeyError for an unknown behavior."""
        if agent not in self._observation_spaces:
            behavior = self._behavior(agent)
            shown = deepcopy(behavior.observation)
            if behavior.spec.action.branches and not behavior.spec.action.continuous:
                shown = spaces.Dict({"observation": shown, "action_mask": behavior.mask_space()})
            self._observation_spaces[agent] = shown
        return self._observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """Returns an agent's action space, always the same object. Raises KeyError for an unknown behavior."""
        if agent not in self._action_spaces:
            space = self._action_spaces[agent] = deepcopy(self._behavior(agent).action)
            if self._seed is not None:
                space.seed(self._seed)
        return self._action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Values, dict[str, Values]]:
        """Begins new episodes. The arguments are not used: UnityEnvironment(seed=...) sets a game's seed."""
        shown = self._old.reset()
        infos = self._old.infos
        self._seen = shown
        self._left.clear()
        self.agents = list(self._old.agents)
        self._note_new()
        self._last = {
            agent: (self._observe(agent, shown[agent]), self._info(agent, shown[agent], infos[agent]))
            for agent in self.agents
        }
        return {agent: obs for agent, (obs, _) in self._last.items()}, {
            agent: info for agent, (_, info) in self._last.items()
        }

    def step(
        self, actions: Values
    ) -> tuple[Values, dict[str, float], dict[str, bool], dict[str, bool], dict[str, Values]]:
        """Steps with actions by agent; agents without an action get zeros and the first allowed choices. Infos have
        behavior_name, group_id and group_reward.

        Raises gymnasium.error.ResetNeeded if no agents are left, and InvalidAction for an action that does not fit.
        """
        if not self.agents:
            raise error.ResetNeeded(
                "every agent's episode has ended, or none has begun: call reset() before the next step()"
            )
        chosen = {agent: self._action(agent, action) for agent, action in actions.items()}
        idle = {agent: self._idle(agent, old) for agent, old in self._seen.items() if agent not in chosen}
        seen, rewards, dones, infos = self._old.step({**idle, **chosen})
        self._seen = seen
        shown = [agent for agent in seen if agent not in self._left]
        last = {agent: infos[agent].pop("final_observation", seen[agent]) for agent in shown}
        obs = {agent: self._observe(agent, last[agent]) for agent in shown}
        infos = {agent: self._info(agent, last[agent], infos[agent]) for agent in shown}
        cut = {agent: dones[agent] and infos[agent]["interrupted"] for agent in shown}
        ended = {agent: dones[agent] and not cut[agent] for agent in shown}
        self._left |= {agent for agent in shown if dones[agent]}
        earned = {agent: float(rewards[agent]) for agent in shown}
        for agent in self.agents:
            if agent not in seen:  # it requests no decision on this tick, and remains as it was
                obs[agent], infos[agent], earned[agent] = *self._last[agent], 0.0
                cut[agent] = ended[agent] = False
        self._last = {agent: (obs[agent], infos[agent]) for agent in obs}
        self.agents = [agent for agent in obs if not (cut[agent] or ended[agent])]
        self._note_new()
        return obs, earned, ended, cut, infos

    def render(self) -> None:
        """Does nothing: a game draws in its own window."""

    def close(self) -> None:
        """Closes the environment; may be called again."""
        self._old.close()

    def _note_new(self) -> None:
        self.possible_agents.extend(agent for agent in self.agents if agent not in self.possible_agents)

    def _behavior(self, agent: str) -> BehaviorSpaces:
        name = split_agent(agent)[0]
        if name not in self._behaviors:
            self._behaviors[name] = spaces_of(self._specs[name])
        return self._behaviors[name]

    def _observe(self, agent: str, old: Any) -> Any:
        behavior = self._behavior(agent)
        columns = old["observation"] if isinstance(old, dict) else old
        shown = behavior.observe(columns if isinstance(columns, list) else [columns])
        if not behavior.spec.action.branches or behavior.spec.action.continuous:
            return shown
        return {"observation": shown, "action_mask": behavior.mask(_allowed(behavior, old))}

    def _info(self, agent: str, old: Any, info: Values) -> Values:
        behavior = self._behavior(agent)
        if not (behavior.spec.action.branches and behavior.spec.action.continuous):
            return info
        return {**info, "action_mask": behavior.hybrid_mask(_allowed(behavior, old))}

    def _action(self, agent: str, action: Any) -> ActionTuple:
        if agent not in self.agents:
            raise KeyError(f"'{agent}' is none of the agents that are there ({', '.join(self.agents)})")
        continuous, discrete = self._behavior(agent).read_action(agent, action)
        return ActionTuple(continuous[None], discrete[None].astype(np.int32))

    def _idle(self, agent: str, old: Any) -> ActionTuple:
        behavior = self._behavior(agent)
        spec = behavior.spec.action
        allowed = _allowed(behavior, old)
        choices = (
            [int(mask.argmax()) for mask in np.split(allowed, np.cumsum(spec.branches)[:-1])] if spec.branches else []
        )
        return ActionTuple(np.zeros((1, spec.continuous), np.float32), np.array([choices], np.int32))


def unity_aec_env(env: BaseEnv, seed: int | None = None) -> AECEnv[str, Any, Any]:
    """Returns an AEC environment: the agents of UnityToPettingZooWrapper act one after another in each step."""
    return parallel_to_aec(UnityToPettingZooWrapper(env, seed))


def _allowed(behavior: BehaviorSpaces, old: Any) -> np.ndarray:
    """Returns the choices that the old wrapper's mask allows: all if the agent's episode ended."""
    if isinstance(old, dict) and old["action_mask"] is not None:
        return ~np.concatenate([np.asarray(mask, np.bool_) for mask in old["action_mask"]])
    return np.ones(behavior.spec.action.choices, np.bool_)
