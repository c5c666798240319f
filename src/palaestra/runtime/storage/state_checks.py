"""Checks that the state in a checkpoint has the form that a run writes.

The hashes of a checkpoint show that nothing has changed since it was written, not that a run wrote it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from palaestra.runtime.logging.statistics import Statistics

_SHAPE = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)
Count = Annotated[int, Field(ge=0, lt=1 << 62)]


class _BehaviorCollector(BaseModel):
    model_config = _SHAPE
    decisions: Count
    buffer: dict[str, Any] | None
    meter: dict[str, Any]


class _Collector(BaseModel):
    model_config = _SHAPE
    behaviors: dict[str, _BehaviorCollector]
    steps: dict[str, dict[str, Any]]


class _Statistics(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")  # numbers that games send may be infinite
    periods: dict[str, dict[str, dict[str, Any] | list[Any] | bool]]
    since_update: dict[str, Annotated[list[float], Field(min_length=2, max_length=2)]]
    recent: dict[str, list[Any]]


class _Course(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")
    newest: list[Annotated[list[float], Field(min_length=3, max_length=3)]]
    best: float | None
    best_step: Count
    ending: str = ""
    reason: str = ""
    mixed: bool = False


class _Best(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")
    value: float | None
    step: Count
    due: Count
    measured: Annotated[int, Field(ge=-1)]


class _SelfPlayBehavior(BaseModel):
    model_config = _SHAPE
    elo: float
    elos: dict[str, float]
    ghost_step: Count
    numbers: list[int]
    snapshots: dict[str, dict[str, Any]]


class _SelfPlay(BaseModel):
    model_config = _SHAPE
    learning: int | None
    sides: list[tuple[str, int] | list[Any]]
    behaviors: dict[str, _SelfPlayBehavior]


class _Obs(BaseModel):
    model_config = _SHAPE
    name: str
    shape: tuple[Count, ...]


class _Action(BaseModel):
    model_config = _SHAPE
    continuous: Count
    branches: tuple[Count, ...]


class _Spec(BaseModel):
    model_config = _SHAPE
    obs: tuple[_Obs, ...]
    action: _Action
    steady: bool


class _Run(BaseModel):
    """State of the run; later versions may add keys."""

    model_config = _SHAPE
    collector: _Collector
    statistics: _Statistics
    elapsed: Annotated[float, Field(ge=0)]
    threads: Count | None
    seed: Annotated[int, Field(ge=-(1 << 62), lt=1 << 62)]
    self_play: _SelfPlay | None = None
    lessons: dict[str, Any] | None = None
    stop_when: dict[str, _Course] = Field(default_factory=dict)
    keep_best: dict[str, _Best] = Field(default_factory=dict)
    specs: dict[str, _Spec] = Field(default_factory=dict)


class _Learner(BaseModel):
    """State of a behavior."""

    model_config = _SHAPE
    trainer: dict[str, Any]
    next_summary: Count
    next_checkpoint: Count


def check_state(state: Mapping[str, Any]) -> None:
    """Raises ValueError, which names the key, for a state that no run can have written."""
    if "run" not in state:
        raise ValueError("the checkpoint has no part 'run'")
    for name, part in state.items():
        try:
            (_Run if name == "run" else _Learner).model_validate(part)
            if name == "run":
                Statistics().load_state_dict(part["statistics"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"{name}.statistics: {error}") from error
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            raise ValueError(f"{'.'.join(map(str, (name, *first['loc'])))}: {first['msg']}") from error
