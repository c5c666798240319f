"""Writes `docs/reference/settings.md` from the settings classes: `python docs/make_settings.py`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from palaestra.core.settings import Settings
from palaestra.models.settings import MemorySettings, NetworkSettings
from palaestra.rewards.settings import REWARDS, PriorDataSettings
from palaestra.runtime.settings import CheckpointSettings, EngineSettings, EnvSettings, RunSettings, TorchSettings
from palaestra.runtime.settings.search_settings import RangeSettings, SearchSettings
from palaestra.scenario.ending_settings import KeepBestSettings, StopSettings
from palaestra.scenario.settings import (
    SAMPLERS,
    CompletionCriteriaSettings,
    ExploiterSettings,
    LessonSettings,
    PrioritySettings,
    SamplerSettings,
    SelfPlaySettings,
)
from palaestra.trainers.behavior_settings import BehaviorSettings
from palaestra.trainers.settings import TRAINERS, BehavioralCloningSettings
from palaestra.trainers.symmetry.mirror_settings import MirrorActions, MirrorRule, MirrorSettings

PAGE = Path(__file__).parent / "reference" / "settings.md"

HEAD = """\
# Settings

*Made from the settings classes by `docs/make_settings.py`; edit the sentences there.*

Settings are ML-Agents' YAML. Omitted keys have their defaults. Flags override the file, and `--set PATH=VALUE`
overrides both: `--set behaviors.3DBall.hyperparameters.batch_size=256`. `behaviors.*` means every behavior.
`palaestra config FILE` prints a file with every default, and `palaestra schema` writes a JSON schema for editors.

"""

SECTIONS: list[tuple[str, type[Settings]]] = [
    ("The file", RunSettings),
    ("`behaviors.NAME` and `default_settings`", BehaviorSettings),
    *((f"`hyperparameters` with `trainer_type: {name}`", settings) for name, settings in TRAINERS.items()),
    ("`network_settings`", NetworkSettings),
    ("`network_settings.memory`", MemorySettings),
    *((f"`reward_signals.{name}`", settings) for name, settings in REWARDS.items()),
    ("`stop_when`", StopSettings),
    ("`keep_best`", KeepBestSettings),
    ("`hyperparameters.prior_data` (sac)", PriorDataSettings),
    ("`behavioral_cloning`", BehavioralCloningSettings),
    ("`mirror`", MirrorSettings),
    ("`mirror.observations.NAME`, and of actions", MirrorRule),
    ("`mirror.actions`", MirrorActions),
    ("`self_play`", SelfPlaySettings),
    ("`self_play.priority`", PrioritySettings),
    ("`self_play.exploiter`", ExploiterSettings),
    ("`environment_parameters.NAME` as a sampler", SamplerSettings),
    *((f"`sampler_parameters` with `sampler_type: {name}`", settings) for name, settings in SAMPLERS.items()),
    ("`environment_parameters.NAME.curriculum`, each lesson", LessonSettings),
    ("`completion_criteria` of a lesson", CompletionCriteriaSettings),
    ("`env_settings`", EnvSettings),
    ("`engine_settings`", EngineSettings),
    ("`checkpoint_settings`", CheckpointSettings),
    ("`torch_settings`", TorchSettings),
    ("`search`, for `palaestra tune`", SearchSettings),
    ("`search.space.PATH`", RangeSettings),
]


def page() -> str:
    """Returns the whole page."""
    return HEAD + "\n".join(section(title, settings) for title, settings in SECTIONS)


def section(title: str, settings: type[Settings]) -> str:
    """Returns a heading, the sentence of the class, and its fields."""
    sentence = " ".join((settings.__doc__ or "").split())
    return "\n".join(
        [f"## {title}", sentence, "", "| key | type | default | |", "|---|---|---|---|", *rows(settings), ""]
    )


def rows(settings: type[Settings]) -> Iterator[str]:
    """Yields a row for each field."""
    for name, field in settings.model_fields.items():
        cells = (f"`{name}`", kind(field), default(field), " ".join((field.description or "").split()))
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def kind(field: FieldInfo) -> str:
    """Returns a field's type and range in words."""
    words = " or ".join(dict.fromkeys(_kinds(field.annotation)))
    signs = {"gt": ">", "ge": "≥", "lt": "<", "le": "≤"}
    bounds = [
        f"{sign} {getattr(rule, key)}" for rule in field.metadata for key, sign in signs.items() if hasattr(rule, key)
    ]
    return ", ".join([words, *bounds])


def _kinds(annotation: Any) -> Iterator[str]:
    words = {bool: "bool", int: "integer", float: "number", str: "string", NoneType: "null"}
    origin = get_origin(annotation)
    if annotation in words:
        yield words[annotation]
    elif origin is Literal:
        yield ", ".join(f"`{choice}`" for choice in get_args(annotation))
    elif origin in (Union, UnionType):
        for each in get_args(annotation):
            yield from _kinds(each)
    elif origin is tuple:
        yield "list"
    elif hasattr(annotation, "__metadata__"):  # Annotated
        yield from _kinds(annotation.__origin__)
    else:
        yield "section"


def default(field: FieldInfo) -> str:
    """Returns a field's default as YAML; '' for sections, whose keys have their own."""
    value = field.get_default(call_default_factory=True)
    if field.is_required():
        return "*required*"
    return "" if isinstance(value, Settings | dict) else f"`{json.dumps(value)}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
