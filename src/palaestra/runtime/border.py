"""What comes from an environment is checked before anything is learned from it."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from palaestra.core.errors import EnvError, NotFinite
from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import TimeStep
from palaestra.data.rollout import Rollout


def check_step(name: str, spec: BehaviorSpec, step: TimeStep) -> None:
    """Raises NotFinite or EnvError for numbers that would poison a policy. Reads the tables: for the CPU, on every tick."""
    for i, obs in enumerate(step.obs):
        if not math.isfinite(obs.sum()):
            refuse(name, f"observation '{spec.obs[i].name}'", obs)
    if not math.isfinite(step.reward.sum() + step.group_reward.sum()):
        refuse(name, "reward", step.reward)
        refuse(name, "group reward", step.group_reward)
    if step.action_mask is not None:
        check_mask(name, spec, step.action_mask, step.acting)


def check_rollout(name: str, spec: BehaviorSpec, rollout: Rollout) -> None:
    """The same for a whole rollout, once: for accelerators, where a look at every tick would mean waiting for it."""
    time, slots = rollout.shape
    agents = torch.arange(slots, device=rollout.reward.device).repeat(time)
    for i, obs in enumerate(rollout.obs):
        refuse(name, f"observation '{spec.obs[i].name}'", obs.flatten(0, 1), agents)
    refuse(name, "reward", rollout.reward.flatten(0, 1), agents)
    refuse(name, "group reward", rollout.group_reward.flatten(0, 1), agents)
    if rollout.action_mask is not None:
        mask = rollout.action_mask.flatten(0, 1)
        check_mask(name, spec, mask, torch.ones_like(mask[:, 0]), agents)


def check_ends(name: str, spec: BehaviorSpec, rollout: Rollout) -> None:
    """Raises NotFinite for last views that would poison a bootstrap. Once a rollout: only there are they read."""
    agents = rollout.final_rows % rollout.shape[1]
    for i, obs in enumerate(rollout.final_obs):
        refuse(name, f"at a truncated episode's end, observation '{spec.obs[i].name}'", obs, agents)


def refuse(name: str, what: str, values: Tensor, agents: Tensor | None = None) -> None:
    """Raises NotFinite for the first number of (rows, ...) that is none; `agents` (rows,): whose they are, where not one a row."""
    bad = (~values.isfinite()).nonzero()
    if len(bad):
        row, *index = bad[0].tolist()
        value = float(values[tuple(bad[0])])
        raise NotFinite(name, row if agents is None else int(agents[row]), what + "".join(f"[{i}]" for i in index), value)


def check_mask(name: str, spec: BehaviorSpec, mask: Tensor, acting: Tensor, agents: Tensor | None = None) -> None:
    """Raises EnvError where a branch leaves an acting agent no choice."""
    for branch, allowed in enumerate(mask.split(spec.action.branches, 1)):
        stuck = (~allowed.any(1)) & acting
        if stuck.any():
            row = int(stuck.nonzero()[0])
            agent = row if agents is None else int(agents[row])
            raise EnvError(
                f"behavior '{name}', agent {agent}: all {allowed.shape[1]} actions of branch {branch} "
                f"are masked; the environment must leave at least one choice allowed in each branch"
            )
