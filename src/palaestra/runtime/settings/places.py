"""Where in the tree of settings a key belongs that stands elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel

from palaestra.models.settings import NetworkSettings
from palaestra.runtime.settings.tree import RunSettings
from palaestra.runtime.settings.yaml_file import Key
from palaestra.trainers.behavior import BehaviorSettings
from palaestra.trainers.settings import TRAINERS


def hint(path: Key, tree: Any, sentence: str) -> str:
    """The sentence about an unknown key at `path`, with the whole path of one of that name, or nearly so, that lies elsewhere.

    A near key of its own section, which the sentence names already, is meant rather than a near one elsewhere.
    """
    key, places = str(path[-1])[:100], dict(_places(path, tree))
    near = [key] if key in places else [] if "did you mean" in sentence else get_close_matches(key, places, n=1, cutoff=0.8)
    return f"{sentence.partition(';')[0]}; did you mean '{places[near[0]]}'?" if near else sentence


def _places(path: Key, tree: Any) -> Iterator[tuple[str, str]]:
    """Each known key and the full path that it is meant by: within the same behavior, or the only one, and in the sections of a run."""
    for section, field in RunSettings.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel) and section != "default_settings":
            yield from ((key, f"{section}.{key}") for key in kind.model_fields)
    behaviors = tree.get("behaviors") if isinstance(tree, dict) else None
    names = list(behaviors) if isinstance(behaviors, dict) else []
    if path[0] == "default_settings":
        head, block = "default_settings", tree.get("default_settings")
    else:
        name = path[1] if path[0] == "behaviors" and len(path) > 2 else names[0] if len(names) == 1 else "*"
        head, block = f"behaviors.{name}", behaviors.get(name) if isinstance(behaviors, dict) else None
    trainer = block.get("trainer_type") if isinstance(block, dict) else None
    hyperparameters = TRAINERS.get(trainer if isinstance(trainer, str) else "ppo") or TRAINERS["ppo"]
    yield from ((key, f"{head}.network_settings.memory.{key}") for key in ("memory_size", "sequence_length"))
    yield from ((key, f"{head}.network_settings.{key}") for key in NetworkSettings.model_fields)
    yield from ((key, f"{head}.hyperparameters.{key}") for key in hyperparameters.model_fields)
    yield from ((key, f"{head}.{key}") for key in BehaviorSettings.model_fields)
