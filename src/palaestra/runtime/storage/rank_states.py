"""The states of all ranks in one checkpoint: rank 0's complete state, and the differences of the other ranks'
states."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from palaestra.parallel.rank_group import RankGroup
from palaestra.parallel.rank_setup import own_of
from palaestra.runtime.storage.shared_tensors import Shared
from palaestra.runtime.storage.tensor_files import State, flatten, restore

RankState = dict[str, Any]
"""A rank's state as text, with the tensors that rank 0 does not have."""


def with_other_ranks(state: dict[str, Any], group: RankGroup) -> dict[str, Any]:
    """Returns the state for a checkpoint: rank 0's state, with the decisions of all ranks, and the differences of the
    other ranks. All ranks take part."""
    others = group.of_others(lambda: _differing(state, group))
    if not others:
        return state
    run = state["run"]
    behaviors = run["collector"]["behaviors"]
    own = {name: one["decisions"] for name, one in behaviors.items()}
    total = run["meetings"]["total"]
    behaviors = {name: {**one, "decisions": total.get(name, one["decisions"])} for name, one in behaviors.items()}
    saved = {"own": own, "others": others}
    return {**state, "run": {**run, "collector": {**run["collector"], "behaviors": behaviors}, "ranks": saved}}


def number_of_ranks(state: Mapping[str, Any]) -> int:
    """Returns the number of ranks that saved this state."""
    return len(state["run"]["ranks"]["others"]) + 1 if "ranks" in state["run"] else 1


def state_of_rank(state: Mapping[str, Any], group: RankGroup) -> dict[str, Any]:
    """Returns this rank's state from a checkpoint of the same number of ranks."""
    run = dict(state["run"])
    if "ranks" not in run:
        return dict(state)
    saved = run["ranks"]
    other = own_of([None, *saved["others"]], group)
    if other is not None:
        return whole_state(state, other)
    behaviors = run["collector"]["behaviors"]
    behaviors = {
        name: {**one, "decisions": saved["own"].get(name, one["decisions"])} for name, one in behaviors.items()
    }
    return {**state, "run": {**run, "collector": {**run["collector"], "behaviors": behaviors}}}


def _differing(state: Mapping[str, State], group: RankGroup) -> RankState:
    """Returns this rank's state for rank 0, with only the tensors that rank 0 does not have."""
    tensors: dict[str, Tensor] = {}
    content = flatten(_plain(state), tensors)
    digests = {name: _digest(tensor) for name, tensor in tensors.items()}
    known = group.from_first(digests)
    differ = {name: tensor.cpu() for name, tensor in tensors.items() if known.get(name) != digests[name]}
    return {"content": json.dumps(content), "tensors": differ}


def whole_state(first: Mapping[str, State], part: RankState) -> dict[str, State]:
    """Returns a rank's state, made from rank 0's state and the differences."""
    tensors: dict[str, Tensor] = {}
    flatten(_plain(first), tensors)
    return restore(json.loads(part["content"]), {**tensors, **part["tensors"]})


def _plain(value: State) -> State:
    if isinstance(value, Shared):
        return dict(value.tensors)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return (
            type(value)(_plain(item) for item in value)
            if not hasattr(value, "_fields")
            else tuple(_plain(item) for item in value)
        )
    return value


def _digest(tensor: Tensor) -> str:
    whole = tensor.detach().cpu().contiguous()
    kind = f"{whole.dtype}{tuple(whole.shape)}".encode()
    content = whole.reshape(-1).view(torch.uint8).numpy().tobytes() if whole.numel() else b""
    return hashlib.sha256(kind + content).hexdigest()
