"""The rules of one `TimeStep`: shapes, dtypes, devices, finite numbers, and columns that agree with one another."""

from __future__ import annotations

import torch
from torch import Tensor

from palaestra.core.errors import EnvError
from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import FinalObs, TimeStep

COLUMNS = {
    "acting": torch.bool,
    "reward": torch.float32,
    "group_reward": torch.float32,
    "terminated": torch.bool,
    "truncated": torch.bool,
    "area": torch.int64,
    "team": torch.int64,
    "group": torch.int64,
}


def check_table(step: TimeStep, spec: BehaviorSpec, device: torch.device, areas: int, where: str) -> None:
    """Raises EnvError for the first rule that the table breaks; its message begins with `where`."""
    if not isinstance(step, TimeStep):
        raise EnvError(f"{where}: a {type(step).__name__} was returned; expected a TimeStep")
    if not isinstance(step.acting, Tensor) or step.acting.ndim != 1:
        raise EnvError(f"{where}: acting is {_found(step.acting)}; expected torch.bool (slots,)")
    slots = len(step.acting)
    for name, dtype in COLUMNS.items():
        _expect(getattr(step, name), dtype, (slots,), device, f"{where}: {name}")
    _check_lost(step, spec, device, where)
    if step.success is not None:
        _expect(step.success.nan_to_num(), torch.float32, (slots,), device, f"{where}: success")
    _check_obs(step.obs, spec, slots, device, f"{where}: obs")
    _check_mask(step, spec, device, where)
    _check_ends(step, spec, device, where)
    _check_numbers(step, spec, areas, where)


def _expect(column: Tensor, dtype: torch.dtype, shape: tuple[int, ...], device: torch.device, where: str) -> None:
    on = (
        device
        if device.index is not None or not isinstance(column, Tensor)
        else torch.device(device.type, column.device.index)
    )
    if not isinstance(column, Tensor) or column.dtype != dtype or column.shape != shape or column.device != on:
        raise EnvError(f"{where} is {_found(column)}; expected {dtype} {shape} on {device}")
    if dtype == torch.float32 and not bool(column.isfinite().all()):
        place = (~column.isfinite()).nonzero()[0].tolist()
        raise EnvError(
            f"{where}{place} is {column[tuple(place)].item()}; expected finite numbers, also in rows of inactive slots"
        )


def _found(column: object) -> str:
    return (
        f"{column.dtype} {tuple(column.shape)} on {column.device}"
        if isinstance(column, Tensor)
        else f"a {type(column).__name__}"
    )


def _check_obs(obs: tuple[Tensor, ...], spec: BehaviorSpec, rows: int, device: torch.device, where: str) -> None:
    if not isinstance(obs, tuple) or len(obs) != len(spec.obs):
        found = f"{len(obs)} of them" if isinstance(obs, tuple) else f"a {type(obs).__name__}"
        raise EnvError(f"{where} is {found}; the spec has a tuple of {len(spec.obs)}")
    for i, (column, one) in enumerate(zip(obs, spec.obs, strict=True)):
        _expect(column, torch.float32, (rows, *one.shape), device, f"{where}[{i}] '{one.name}'")
        if one.is_visual and column.numel() and bool(((column < 0) | (column > 1)).any()):
            least = column.min().item()
            most = column.max().item()
            raise EnvError(f"{where}[{i}] '{one.name}' holds {least:g}..{most:g}; an image lies within 0..1")


def _check_mask(step: TimeStep, spec: BehaviorSpec, device: torch.device, where: str) -> None:
    if step.action_mask is None:
        return
    _expect(step.action_mask, torch.bool, (len(step.acting), spec.action.choices), device, f"{where}: action_mask")
    for branch, allowed in enumerate(step.action_mask.split(spec.action.branches, 1)):
        stuck = (step.acting & ~allowed.any(1)).nonzero()
        if len(stuck):
            raise EnvError(
                f"{where}: agent {stuck[0].item()} may choose nothing in branch {branch}; a mask allows at least one "
                "choice"
            )


def _check_lost(step: TimeStep, spec: BehaviorSpec, device: torch.device, where: str) -> None:
    if step.lost is None:
        return
    _expect(step.lost, torch.bool, (len(step.acting),), device, f"{where}: lost")
    if spec.steady:
        raise EnvError(f"{where}: lost is a column; expected None, as no episode of a steady behavior breaks off")
    if bool((both := step.lost & (step.terminated | step.truncated)).any()):
        slot = both.nonzero()[0].item()
        raise EnvError(
            f"{where}: slot {slot} is lost and ended; an episode that ended counts, one that is lost does not"
        )


def _check_ends(step: TimeStep, spec: BehaviorSpec, device: torch.device, where: str) -> None:
    if bool((both := step.terminated & step.truncated).any()):
        slot = both.nonzero()[0].item()
        raise EnvError(
            f"{where}: slot {slot} is terminated and truncated; an episode that terminated cannot also be truncated"
        )
    final_obs = step.final_obs
    if not isinstance(final_obs, FinalObs) or not isinstance(final_obs.slots, Tensor):
        raise EnvError(f"{where}: final_obs is a {type(final_obs).__name__}; expected FinalObs")
    rows = len(final_obs.slots)
    _expect(final_obs.slots, torch.int64, (rows,), device, f"{where}: final_obs.slots")
    _check_obs(final_obs.obs, spec, rows, device, f"{where}: final_obs.obs")
    if device.type == "cpu":
        expected = (step.terminated | step.truncated).nonzero()[:, 0]
        rule = "the slots where terminated or truncated, rising"
    else:
        expected = torch.arange(len(step.acting), device=device)
        rule = "every slot, in order"
    if not torch.equal(final_obs.slots, expected):
        raise EnvError(f"{where}: final_obs.slots is {final_obs.slots.tolist()}; expected {expected.tolist()} ({rule})")


def _check_numbers(step: TimeStep, spec: BehaviorSpec, areas: int, where: str) -> None:
    if spec.steady and not bool(step.acting.all()):
        slot = (~step.acting).nonzero()[0].item()
        raise EnvError(f"{where}: slot {slot} is not acting; every slot of a steady behavior acts on every tick")
    if bool((wrong := (step.area < 0) | (step.area >= areas)).any()):
        raise EnvError(f"{where}: area {step.area[wrong][0].item()} does not exist; there are 0 to {areas - 1}")
    if bool((wrong := step.group < -1).any()):
        raise EnvError(
            f"{where}: group {step.group[wrong][0].item()}; expected 0 or more, or -1 for an agent on its own"
        )
    if bool((step.team < 0).any()):
        raise EnvError(f"{where}: team {step.team.min().item()}; expected 0 or more")
