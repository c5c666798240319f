"""ONNX metadata that describes the environment a model was trained in.

The model's tensors follow Unity's conventions: actions within -1..1, discrete choices from 0. The metadata says how the
environment's own observations and actions map to them; Unity ignores it, `load_policy` reads it.
"""

from __future__ import annotations

import json
from collections.abc import Container, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from palaestra.core.specs import BehaviorSpec, RawAction, RawObs

KEY = "palaestra"


@dataclass(frozen=True, slots=True)
class ModelNotes:
    """The metadata of one model; fields that are missing in its file are empty or None."""

    names: tuple[str, ...] = ()  # observation names, in the order of obs_0, obs_1 ...
    raw: tuple[RawObs | None, ...] = ()  # the environment's own form of each observation, in the same order
    low: tuple[float, ...] | None = None  # lower bound of each continuous action
    high: tuple[float, ...] | None = None
    starts: tuple[int, ...] | None = None  # the environment's number for the first choice of each branch
    action: RawAction | None = None  # the environment's own form of an action
    unread: tuple[
        bool, ...
    ] = ()  # of each observation, whether its input is there for Unity alone, and nothing reads it


def write_notes(spec: BehaviorSpec, read: Container[int] | None = None) -> dict[str, str]:
    """Returns the metadata to store in the file of a policy with this spec. `read`: the observations that the policy
    reads; None: all."""
    action = spec.action
    notes = {
        "observations": [
            {"name": obs.name}
            | ({} if obs.raw is None else {"raw": asdict(obs.raw)})
            | ({} if read is None or i in read else {"unread": True})
            for i, obs in enumerate(spec.obs)
        ],
        "actions": {key: value for key in ("low", "high", "starts") if (value := getattr(action, key)) is not None}
        | ({} if action.raw is None else {"raw": asdict(action.raw)}),
    }
    return {KEY: json.dumps(notes)}


def read_notes(metadata: Mapping[str, str]) -> ModelNotes:
    """Reads a model file's metadata. Missing or damaged metadata gives empty notes."""
    try:
        notes = json.loads(metadata.get(KEY, "{}"))
        observations = notes.get("observations", [])
        actions = notes.get("actions", {})
        low, high, starts = (None if key not in actions else tuple(actions[key]) for key in ("low", "high", "starts"))
        return ModelNotes(
            tuple(str(obs["name"]) for obs in observations),
            tuple(raw_obs(obs.get("raw")) for obs in observations),
            None if low is None else tuple(float(value) for value in low),
            None if high is None else tuple(float(value) for value in high),
            None if starts is None else tuple(int(value) for value in starts),
            raw_action(actions.get("raw")),
            tuple(bool(obs.get("unread")) for obs in observations),
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return ModelNotes()


def raw_obs(saved: Mapping[str, Any] | None) -> RawObs | None:
    """Rebuilds a RawObs from its `dataclasses.asdict` form, also after a round trip through JSON."""
    if saved is None:
        return None
    fields = _with_tuples(saved)
    rows = tuple((str(key), raw) for key, one in fields.pop("rows", ()) if (raw := raw_obs(one)) is not None)
    return RawObs(**fields, rows=rows)


def raw_action(saved: Mapping[str, Any] | None) -> RawAction | None:
    """Rebuilds a RawAction from its `dataclasses.asdict` form, also after a round trip through JSON."""
    if saved is None:
        return None
    fields = _with_tuples(saved)
    parts = fields.pop("parts", None)
    return RawAction(
        **fields, parts=None if parts is None else tuple(raw for one in parts if (raw := raw_action(one)) is not None)
    )


def _with_tuples(saved: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in saved.items()}
