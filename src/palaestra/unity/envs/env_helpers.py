"""Functions that name agents with their behavior and convert their steps to dictionaries."""

from __future__ import annotations

from typing import Any

import numpy as np

from palaestra.core import specs
from palaestra.envs.spaces.behavior_spaces import BehaviorSpaces
from palaestra.unity.base_env import BehaviorSpec, DecisionSteps, TerminalSteps

_ID = "?agent_id="


def agent_name(behavior: str, agent: int) -> str:
    """Returns an agent's name, such as 'Ball?team=0?agent_id=3'."""
    return f"{behavior}{_ID}{agent}"


def split_agent(name: str) -> tuple[str, int]:
    """Returns the behavior and id of an agent's name."""
    behavior, _, agent = name.rpartition(_ID)
    return behavior, int(agent)


def observation(obs: list[np.ndarray], mask: list[np.ndarray] | None) -> Any:
    """Returns the only array, a list of several arrays, or with a mask a dictionary: the arrays, and the action mask of
    each branch (True: forbidden)."""
    if mask is not None:
        return {"observation": obs, "action_mask": mask}
    return obs if len(obs) > 1 else obs[0]


def spaces_of(spec: BehaviorSpec) -> BehaviorSpaces:
    """Returns a behavior's spaces for the current interfaces of Gymnasium and PettingZoo."""
    obs = [specs.ObsSpec(each.name or f"obs_{i}", tuple(each.shape)) for i, each in enumerate(spec.observation_specs)]
    action = specs.ActionSpec(spec.action_spec.continuous_size, tuple(spec.action_spec.discrete_branches))
    return BehaviorSpaces(specs.BehaviorSpec(tuple(obs), action))


def turns(steps: DecisionSteps | TerminalSteps, behavior: str) -> dict[str, tuple[Any, float, bool, dict[str, Any]]]:
    """Returns each agent's observation, reward, done flag and info, by agent name."""
    ended = isinstance(steps, TerminalSteps)
    out = {}
    for agent in steps:
        step = steps[agent]
        info = {"behavior_name": behavior, "group_id": step.group_id, "group_reward": step.group_reward}
        if ended:
            info["interrupted"] = bool(steps[agent].interrupted)
        out[agent_name(behavior, int(agent))] = (
            observation(step.obs, getattr(step, "action_mask", None)),
            step.reward,
            ended,
            info,
        )
    return out
