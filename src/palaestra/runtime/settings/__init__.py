"""Settings of a run.

`yaml_file` reads a file with the line of each key; `sourced` applies flags and `--set`; `tree` has the settings
classes; `setting_errors` and `warnings` report problems; `loading` combines them.
"""

from palaestra.runtime.settings.loading import Loaded as Loaded
from palaestra.runtime.settings.loading import behavior_seed as behavior_seed
from palaestra.runtime.settings.loading import behavior_settings as behavior_settings
from palaestra.runtime.settings.loading import load as load
from palaestra.runtime.settings.loading import to_yaml as to_yaml
from palaestra.runtime.settings.loading import whose_reward as whose_reward
from palaestra.runtime.settings.tree import CheckpointSettings as CheckpointSettings
from palaestra.runtime.settings.tree import EngineSettings as EngineSettings
from palaestra.runtime.settings.tree import EnvSettings as EnvSettings
from palaestra.runtime.settings.tree import RunSettings as RunSettings
from palaestra.runtime.settings.tree import TorchSettings as TorchSettings
from palaestra.runtime.settings.tree import json_schema as json_schema
from palaestra.trainers.behavior_settings import BehaviorSettings as BehaviorSettings
