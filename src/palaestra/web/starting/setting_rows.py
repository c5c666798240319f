"""Rows of a form of settings, read from their classes: what a person may change, with its default and its
description."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from palaestra.core.settings import Settings
from palaestra.rewards.settings import REWARDS, ExtrinsicSettings
from palaestra.runtime.settings import EnvSettings, TorchSettings
from palaestra.trainers.behavior_settings import BehaviorSettings, hyperparameters_class
from palaestra.trainers.settings import TRAINERS

Path = tuple[str, ...]
Kind = Literal["switch", "choice", "number", "text", "section"]
ENV = ("num_areas", "num_envs", "seed", "env_options")
"""Settings of the environment that a form shows; the other settings are those of the copied run."""
UNSET = object()


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting of a form."""

    path: Path
    """Keys of the setting's path in the file."""
    kind: Kind
    sentence: str
    default: Any
    choices: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Returns the keys below the behavior, joined by dots."""
        return ".".join(self.path[2:] if self.path[0] == "behaviors" else self.path)


def rows_of(tree: Mapping[str, Any], behavior: str) -> list[SettingRow]:
    """Returns the settings of a behavior and of the run, in the order of their classes."""
    at = ("behaviors", behavior)
    given = value_at(tree, at)
    rows = list(_rows(BehaviorSettings, given if isinstance(given, Mapping) else {}, at))
    env = value_at(tree, ("env_settings",))
    found = _rows(EnvSettings, env if isinstance(env, Mapping) else {}, ("env_settings",))
    rows += [row for row in found if row.path[1] in ENV]
    return [*rows, *_rows(TorchSettings, {}, ("torch_settings",))]


def _rows(kind: type[Settings], given: Mapping[str, Any], at: Path) -> Iterator[SettingRow]:
    for name, field in kind.model_fields.items():
        path, sentence = (*at, name), " ".join((field.description or "").split())
        value = given.get(name)
        inner = value if isinstance(value, Mapping) else {}
        if name == "hyperparameters" and kind is BehaviorSettings:
            yield from _rows(_hyperparameters(given), inner, path)
        elif name == "reward_signals" and kind is BehaviorSettings:
            for signal in inner or ("extrinsic",):
                own = inner.get(signal)
                yield from _rows(
                    REWARDS.get(signal, ExtrinsicSettings), own if isinstance(own, Mapping) else {}, (*path, signal)
                )
        elif name == "trainer_type":
            yield SettingRow(path, "choice", sentence, "ppo", tuple(TRAINERS))
        elif (section := _section(field.annotation)) is not None:
            optional = field.get_default(call_default_factory=True) is None
            if optional:
                yield SettingRow(path, "section", sentence, None)
            if not optional or isinstance(value, Mapping):
                yield from _rows(section, inner, path)
        else:
            default = None if field.is_required() else field.get_default(call_default_factory=True)
            form, choices = _form(field.annotation)
            yield SettingRow(path, form, sentence, default, choices)


def _hyperparameters(given: Mapping[str, Any]) -> type[Settings]:
    trainer = str(given.get("trainer_type", "ppo"))
    return hyperparameters_class(trainer if trainer in TRAINERS else "ppo")


def _section(annotation: Any) -> type[Settings] | None:
    """Returns the class of a section, also of a section that may be null."""
    if hasattr(annotation, "__metadata__"):
        return _section(annotation.__origin__)
    kinds = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    return next((one for one in kinds if isinstance(one, type) and issubclass(one, Settings)), None)


def _form(annotation: Any) -> tuple[Kind, tuple[str, ...]]:
    kinds = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    choices = tuple(str(one) for kind in kinds if get_origin(kind) is Literal for one in get_args(kind))
    plain = [kind for kind in kinds if kind is not NoneType and get_origin(kind) is not Literal]
    if choices and not plain:
        return "choice", choices
    if plain == [bool]:
        return "switch", ()
    return ("number" if plain and set(plain) <= {int, float} else "text"), ()


def value_at(tree: Mapping[str, Any], path: Path) -> Any:
    """Returns the value of a tree at a path; UNSET without a value."""
    place: Any = tree
    for key in path:
        if not isinstance(place, Mapping) or key not in place:
            return UNSET
        place = place[key]
    return place


def put(tree: dict[str, Any], path: Path, value: Any) -> None:
    """Sets a value in a tree, and makes the sections that lead to it; UNSET removes the value, and sections that become
    empty."""
    *above, last = path
    place = tree
    for key in above:
        inner = place.get(key)
        if not isinstance(inner, dict):
            if value is UNSET:
                return
            inner = place[key] = {}
        place = inner
    if value is not UNSET:
        place[last] = value
        return
    place.pop(last, None)
    if not place and len(above) > 2:
        put(tree, tuple(above), UNSET)


def as_text(value: Any) -> str:
    """Returns a value in the form in which a person types it: lists and maps as JSON, '' for null."""
    if value is None or value is UNSET:
        return ""
    return value if isinstance(value, str) else json.dumps(value)
