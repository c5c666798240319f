"""The settings of a run: the tree, and how a file, flags and `--set` become one."""

from __future__ import annotations

from palaestra.runtime.settings_tree import (
    BehaviorSettings,
    CheckpointSettings,
    EngineSettings,
    EnvSettings,
    RunSettings,
    TorchSettings,
)

__all__ = ["BehaviorSettings", "CheckpointSettings", "EngineSettings", "EnvSettings", "RunSettings", "TorchSettings"]
