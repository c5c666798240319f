"""The settings of a run.

`yaml_file` reads a file and knows each key's line; `draft` lays flags and `--set` over it; `tree` has the classes;
`available` refuses what cannot be had yet; `errors` and `warnings` put what is wrong into words; `loading` joins them.
"""

from palaestra.runtime.settings.loading import Loaded, behavior, load, to_yaml
from palaestra.runtime.settings.schema import json_schema
from palaestra.runtime.settings.tree import CheckpointSettings, EngineSettings, EnvSettings, RunSettings, TorchSettings
from palaestra.trainers.behavior_settings import BehaviorSettings

__all__ = [
    "BehaviorSettings",
    "CheckpointSettings",
    "EngineSettings",
    "EnvSettings",
    "Loaded",
    "RunSettings",
    "TorchSettings",
    "behavior",
    "json_schema",
    "load",
    "to_yaml",
]
