"""Settings of a run.

`yaml_file` reads a file and knows each key's line; `draft` applies flags and `--set` to it; `tree` has the classes; `setting_errors` and
`warnings` put problems into words; `loading` joins them.
"""

from palaestra.runtime.settings.loading import Loaded, behavior_settings, load, to_yaml
from palaestra.runtime.settings.tree import CheckpointSettings, EngineSettings, EnvSettings, RunSettings, TorchSettings, json_schema
from palaestra.trainers.behavior_settings import BehaviorSettings

__all__ = [
    "BehaviorSettings",
    "CheckpointSettings",
    "EngineSettings",
    "EnvSettings",
    "Loaded",
    "RunSettings",
    "TorchSettings",
    "behavior_settings",
    "json_schema",
    "load",
    "to_yaml",
]
