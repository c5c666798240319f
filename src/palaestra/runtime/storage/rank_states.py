"""The states of all ranks in one checkpoint: rank 0's whole, and of the others what differs from it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from palaestra.parallel import ranks
from palaestra.runtime.storage.shared_tensors import Shared
from palaestra.runtime.storage.tensor_files import State, flatten, restore

RankState = dict[str, Any]
"""A rank's state as text, with the tensors that rank 0 does not have."""


def gather_states(state: Mapping[str, State]) -> list[RankState]:
    """Returns, on rank 0, the states of the other ranks; on these an empty list. Each sends only tensors that rank 0
    does not have.
    """
    if ranks.size() == 1:
        return []
    tensors: dict[str, Tensor] = {}
    content = flatten(_plain(state), tensors)
    digests = {name: _digest(tensor) for name, tensor in tensors.items()}
    known = ranks.from_first(digests)
    differ = {name: tensor.cpu() for name, tensor in tensors.items() if known.get(name) != digests[name]}
    found = ranks.to_first({"content": json.dumps(content), "tensors": differ})
    return [] if found is None else found[1:]


def whole_state(first: Mapping[str, State], part: RankState) -> dict[str, State]:
    """Returns a rank's state, from rank 0's and what differs."""
    tensors: dict[str, Tensor] = {}
    flatten(_plain(first), tensors)
    return restore(json.loads(part["content"]), {**tensors, **part["tensors"]})


def _plain(value: State) -> State:
    """Returns a state in which a `Shared` is a dict of its tensors."""
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
    return hashlib.sha256(
        kind + (whole.reshape(-1).view(torch.uint8).numpy().tobytes() if whole.numel() else b"")
    ).hexdigest()
