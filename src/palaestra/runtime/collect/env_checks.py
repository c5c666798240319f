"""Checks the tables of an environment before a trainer learns from them."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from palaestra.core.errors import EnvError, NotFinite
from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import TimeStep
from palaestra.data.rollout import Rollout


def check_shapes(name: str, spec: BehaviorSpec, step: TimeStep) -> None:
    """Raises EnvError if the columns of a behavior's first table do not match its spec. Reads no numbers."""
    slots = len(step.reward)
    wanted = {f"observation '{obs.name}'": (slots, *obs.shape) for obs in spec.obs}
    if len(step.obs) != len(wanted):
        raise EnvError(
            f"behavior '{name}': {len(step.obs)} observations received; its spec has {len(wanted)} "
            f"({', '.join(wanted)})"
        )
    given = dict(zip(wanted, step.obs, strict=True))
    if step.action_mask is not None:
        wanted["action_mask"] = (slots, spec.action.choices)
        given["action_mask"] = step.action_mask
    for column in ("acting", "terminated", "truncated"):
        wanted[column] = (slots,)
        given[column] = getattr(step, column)
    for what, column in given.items():
        if tuple(column.shape) != wanted[what]:
            raise EnvError(
                f"behavior '{name}': {what} has shape {tuple(column.shape)}; expected {wanted[what]} ({slots} slots)"
            )
        if what.startswith("observation") and column.dtype != torch.float32:
            raise EnvError(f"behavior '{name}': {what} has type {column.dtype}; expected torch.float32")


def check_step(name: str, spec: BehaviorSpec, step: TimeStep) -> None:
    """Raises NotFinite or EnvError for numbers that would damage a policy. Is called on every tick, on the CPU only."""
    for i, obs in enumerate(step.obs):
        if not math.isfinite(obs.sum()):
            refuse(name, f"observation '{spec.obs[i].name}'", obs)
    if not math.isfinite(step.reward.sum() + step.group_reward.sum()):
        refuse(name, "reward", step.reward)
        refuse(name, "group reward", step.group_reward)
    if step.action_mask is not None:
        check_mask(name, spec, step.action_mask, step.acting)


def check_rollout(name: str, spec: BehaviorSpec, rollout: Rollout) -> None:
    """Checks a whole rollout at once, for accelerators, where checking every tick would mean waiting for the device."""
    time, slots = rollout.shape
    agents = torch.arange(slots, device=rollout.reward.device).repeat(time)
    for i, obs in enumerate(rollout.obs):
        refuse(name, f"observation '{spec.obs[i].name}'", obs.flatten(0, 1), agents)
    refuse(name, "reward", rollout.reward.flatten(0, 1), agents)
    refuse(name, "group reward", rollout.group_reward.flatten(0, 1), agents)
    if rollout.action_mask is not None:
        mask = rollout.action_mask.flatten(0, 1)
        decided = torch.ones_like(mask[:, 0])
        if rollout.lengths is not None:
            decided = (torch.arange(time, device=mask.device).unsqueeze(1) < rollout.lengths).flatten()
        check_mask(name, spec, mask, decided, agents)


def check_ends(name: str, spec: BehaviorSpec, rollout: Rollout) -> None:
    """Raises NotFinite for final observations that would damage a bootstrapped value. Called once a rollout."""
    agents = rollout.final_rows % rollout.shape[1]
    for i, obs in enumerate(rollout.final_obs):
        refuse(name, f"at a truncated episode's end, observation '{spec.obs[i].name}'", obs, agents)


def refuse(name: str, what: str, values: Tensor, agents: Tensor | None = None) -> None:
    """Raises NotFinite for the first number in (rows, ...) that is not finite. `agents`: (rows,), if known."""
    bad = (~values.isfinite()).nonzero()
    if len(bad):
        row, *index = bad[0].tolist()
        value = float(values[tuple(bad[0])])
        raise NotFinite(
            name, row if agents is None else int(agents[row]), what + "".join(f"[{i}]" for i in index), value
        )


def check_mask(name: str, spec: BehaviorSpec, mask: Tensor, acting: Tensor, agents: Tensor | None = None) -> None:
    """Raises EnvError if a mask leaves an acting agent no choice in a branch."""
    for branch, allowed in enumerate(mask.split(spec.action.branches, 1)):
        stuck = (~allowed.any(1)) & acting
        if stuck.any():
            row = int(stuck.nonzero()[0])
            agent = row if agents is None else int(agents[row])
            raise EnvError(
                f"behavior '{name}', agent {agent}: all {allowed.shape[1]} actions of branch {branch} "
                f"are masked; the environment must leave at least one choice allowed in each branch"
            )
