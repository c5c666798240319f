"""The JSON schema of a settings file, for editors."""

from __future__ import annotations

from typing import Any

from palaestra.core.plugins import registry
from palaestra.rewards.settings import REWARDS
from palaestra.runtime.settings.tree import RunSettings
from palaestra.trainers.settings import TRAINERS

OPEN = {"type": ["object", "null"]}
"""Section whose keys are known only to a class of the user's."""


def json_schema() -> dict[str, Any]:
    """Returns the schema: every key with its type, range, default and sentence. Settings of plug-ins are left open."""
    plugins = [name for name in registry("rewards").names() if name not in REWARDS]
    schema = RunSettings.model_json_schema()
    definitions = schema["$defs"]
    for base in ("Settings", "SignalSettings", "UnreadSignalSettings"):
        definitions.pop(base, None)
    behavior = definitions["BehaviorSettings"]
    behavior["properties"]["hyperparameters"] = {
        "description": behavior["properties"]["hyperparameters"]["description"],
        "type": "object",
    }
    behavior["allOf"] = [_where_trainer_is(name, settings.__name__) for name, settings in TRAINERS.items()]
    behavior["properties"]["trainer_type"]["examples"] = list(TRAINERS)
    behavior["properties"]["reward_signals"].pop("additionalProperties")
    behavior["properties"]["reward_signals"] |= {
        "properties": {name: _or_empty(settings.__name__) for name, settings in REWARDS.items()} | dict.fromkeys(plugins, OPEN),
        "patternProperties": {".:.": OPEN},
        "additionalProperties": False,
        "minProperties": 1,
    }
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Palaestra settings"}


def _where_trainer_is(name: str, definition: str) -> dict[str, Any]:
    return {
        "if": {"properties": {"trainer_type": {"const": name}}, "required": ["trainer_type"]},
        "then": {"properties": {"hyperparameters": {"$ref": f"#/$defs/{definition}"}}},
    }


def _or_empty(definition: str) -> dict[str, Any]:
    return {"anyOf": [{"$ref": f"#/$defs/{definition}"}, {"type": "null"}]}
