"""Settings of a run.

`yaml_file` reads a file with the line of each key; `sourced` applies flags and `--set`; `tree` has the settings
classes; `setting_errors` and `warnings` report problems; `loading` combines them.
"""

from palaestra.runtime.settings.loading import Loaded, behavior_seed, behavior_settings, load, to_yaml
from palaestra.runtime.settings.tree import (
    CheckpointSettings,
    EngineSettings,
    EnvSettings,
    RunSettings,
    TorchSettings,
    json_schema,
)
from palaestra.trainers.behavior_settings import BehaviorSettings

__all__ = [
    "BehaviorSettings",
    "CheckpointSettings",
    "EngineSettings",
    "EnvSettings",
    "Loaded",
    "RunSettings",
    "TorchSettings",
    "behavior_seed",
    "behavior_settings",
    "json_schema",
    "load",
    "to_yaml",
]
