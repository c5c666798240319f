"""Runs of a second: settings, and what they leave, in forms that can be compared."""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import yaml

from palaestra.runtime.logging.tracker import TrackedRun
from palaestra.runtime.settings import BehaviorSettings, RunSettings
from palaestra.runtime.storage.checkpoints import Checkpoints


def settings(behavior: str, max_steps: int = 300, **rest: Any) -> dict[str, Any]:
    """A settings tree that trains in moments."""
    block = {
        "trainer_type": "ppo",
        "hyperparameters": {"batch_size": 32, "buffer_size": 128},
        "network_settings": {"hidden_units": 16, "num_layers": 1},
        "max_steps": max_steps,
        "summary_freq": 100,
        **rest,
    }
    return {"behaviors": {behavior: block}}


def tracked_run(
    folder: Path, resumed: Mapping[str, int] | None = None, info: Callable[[str], object] = print, **rest: Any
) -> TrackedRun:
    """The run that a tracker is made for, with default settings."""
    return TrackedRun(folder, RunSettings(default_settings=BehaviorSettings()), resumed or {}, info, **rest)


def write(file: str, tree: dict[str, Any]) -> str:
    """The tree as a YAML file; its name."""
    Path(file).write_text(yaml.safe_dump(tree), encoding="utf-8")
    return file


def contents(folder: Path) -> dict[str, str]:
    """A hash of every file below, and of every folder its name."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        if path.is_file()
        else "folder"
        for path in sorted(folder.rglob("*"))
    }


def read_progress(run: Path) -> dict[str, Any] | None:
    """The content of `progress.json`; None before there is any."""
    file = run / "run_logs" / "progress.json"
    return json.loads(file.read_text()) if file.is_file() else None


def state(run: Path) -> dict[str, Any]:
    """All that the newest checkpoint of a run holds but its clock."""
    whole: Any = Checkpoints(run / "checkpoints", 0).load().state
    del whole["run"]["elapsed"]
    return whole


def differences(left: Any, right: Any, at: str = "") -> list[str]:
    """Where two states differ by as much as a bit."""
    if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
        return [] if left.dtype == right.dtype and torch.equal(left, right) else [at]
    if isinstance(left, dict) and isinstance(right, dict) and left.keys() == right.keys():
        return [place for key in left for place in differences(left[key], right[key], f"{at}.{key}")]
    if isinstance(left, (list, tuple)) and type(left) is type(right) and len(left) == len(right):
        return [
            place for i, pair in enumerate(zip(left, right, strict=True)) for place in differences(*pair, f"{at}[{i}]")
        ]
    same = left == right or (left != left and right != right)  # NaN is like NaN
    return [] if type(left) is type(right) and same else [f"{at}: {left!r} and {right!r}"]
