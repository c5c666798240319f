"""Agents by a text that names their behavior as well, and their columns as dictionaries."""

from __future__ import annotations

from typing import Any

import numpy as np

from palaestra.unity.base_env import DecisionSteps, TerminalSteps

_ID = "?agent_id="


def agent_name(behavior: str, agent: int) -> str:
    """Such as 'Ball?team=0?agent_id=3'."""
    return f"{behavior}{_ID}{agent}"


def split_agent(name: str) -> tuple[str, int]:
    """Behavior and id."""
    behavior, _, agent = name.rpartition(_ID)
    return behavior, int(agent)


def observation(obs: list[np.ndarray], mask: list[np.ndarray] | None) -> Any:
    """The view alone, a list of several, or with its action mask (True: forbidden) where there are branches."""
    if mask is not None:
        return {"observation": obs, "action_mask": mask}
    return obs if len(obs) > 1 else obs[0]


def turns(steps: DecisionSteps | TerminalSteps, behavior: str) -> dict[str, tuple[Any, float, bool, dict[str, Any]]]:
    """Of each agent, by its name: what it sees, its reward, whether its episode ended, and its info."""
    ended = isinstance(steps, TerminalSteps)
    out = {}
    for agent in steps:
        step = steps[agent]
        info = {"behavior_name": behavior, "group_id": step.group_id, "group_reward": step.group_reward}
        if ended:
            info["interrupted"] = bool(steps[agent].interrupted)
        out[agent_name(behavior, int(agent))] = (observation(step.obs, getattr(step, "action_mask", None)), step.reward, ended, info)
    return out
