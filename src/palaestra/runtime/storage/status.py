"""Reads and writes `run_logs/training_status.json`: a run's models and lessons, for ML-Agents' tools."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from palaestra.core.errors import RunError
from palaestra.core.files import explain, read_whole_text, write_whole
from palaestra.core.versions import MLAGENTS, palaestra_version

FORMAT = "0.3.0"


@dataclass(frozen=True, slots=True)
class Model:
    """Model file of a run; the fields have the names of the JSON (ML-Agents misspells one of them)."""

    steps: int
    file_path: str
    reward: float | None  # mean return since the last policy update; None: no episode ended
    creation_time: float  # unix seconds
    auxillary_file_paths: tuple[str, ...] = ()

    @classmethod
    def of(cls, file: Path, step: int, reward: float | None) -> Model:
        """Returns the entry of a model that was just written."""
        return cls(step, file.as_posix(), None if reward is None or not math.isfinite(reward) else reward, time.time())


class TrainingStatus:
    """Content of the file. In this file, behaviors and environment parameters share one namespace, as in ML-Agents."""

    def __init__(self, file: Path) -> None:
        """Starts empty; `load` reads the file."""
        self.file = file
        self._data: dict[str, Any] = {}

    def load(self) -> list[str]:
        """Reads the file; returns warnings about versions that differ. Raises RunError for an invalid file."""
        if not self.file.exists():
            return [
                f"{self.file} is missing: the list of models starts empty; lessons and ratings are those of the "
                "checkpoint"
            ]
        try:
            data = json.loads(read_whole_text(self.file))
            if not isinstance(data, dict) or not all(isinstance(value, dict) for value in data.values()):
                raise ValueError("it is no JSON object whose values are objects")
            for behavior in data:
                _models(data[behavior])
        except OSError as error:
            raise RunError(f"cannot read {self.file}: {explain(error)}") from error
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise RunError(
                f"{self.file} is damaged ({error}); remove it to resume without its list of models"
            ) from error
        self._data = data
        return _version_warnings(self.file, data.get("metadata"))

    def models(self, behavior: str) -> list[Model]:
        """Returns the listed models of a behavior, oldest first."""
        return _models(self._data.get(behavior, {}))

    def behaviors(self) -> list[str]:
        """Returns the behaviors with models, in the order of their first model."""
        return [
            name for name, section in self._data.items() if isinstance(section, dict) and section.get("checkpoints")
        ]

    def final(self, behavior: str) -> Model | None:
        """Returns the final model of a behavior."""
        final = self._data.get(behavior, {}).get("final_checkpoint")
        return None if final is None else _model(final)

    def add(self, behavior: str, model: Model, keep: int) -> list[Model]:
        """Adds a model, replacing one of the same step. Returns the models to remove: the oldest beyond `keep` (<= 0:
        none), and all models of later steps, which were written before the run was resumed from an earlier step."""
        before = self.models(behavior)
        kept = [old for old in before if old.steps < model.steps] + [model]
        kept = kept[-keep:] if keep > 0 else kept
        self._section(behavior)["checkpoints"] = [asdict(one) for one in kept]
        return [old for old in before if old not in kept]

    def set_final(self, behavior: str, model: Model) -> None:
        """Sets the final model of a behavior."""
        self._section(behavior)["final_checkpoint"] = asdict(model)

    def set_best(self, behavior: str, model: Model) -> None:
        """Sets the best model of a behavior; its reward is the value that `keep_best` compares."""
        self._section(behavior)["best_checkpoint"] = asdict(model)

    def lesson(self, parameter: str) -> int | None:
        """Returns the lesson that an environment parameter has reached."""
        return self._data.get(parameter, {}).get("lesson_num")

    def set_lesson(self, parameter: str, number: int) -> None:
        """Sets the lesson that an environment parameter has reached."""
        self._section(parameter)["lesson_num"] = number

    def set_ending(self, behavior: str, ending: str, reason: str) -> None:
        """Sets why `stop_when` ended the training of a behavior early."""
        self._section(behavior)["ending"] = {"why": ending, "reason": reason}

    def forget_endings(self, behaviors: Iterable[str]) -> None:
        """Removes the values that `set_ending` wrote, because the run continues."""
        for behavior in behaviors:
            self._data.get(behavior, {}).pop("ending", None)

    def elo(self, behavior: str) -> float | None:
        """Returns the rating of a behavior in self-play."""
        return self._data.get(behavior, {}).get("elo")

    def set_elo(self, behavior: str, rating: float) -> None:
        """Sets the rating of a behavior in self-play."""
        self._section(behavior)["elo"] = rating

    def save(self) -> None:
        """Writes the file completely or not at all. Raises RunError."""
        body = {**{key: value for key, value in self._data.items() if key != "metadata"}, "metadata": _metadata()}
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self.file, json.dumps(body, indent=4).encode())
        except OSError as error:
            raise RunError(f"cannot write {self.file}: {explain(error)}") from error

    def _section(self, name: str) -> dict[str, Any]:
        return self._data.setdefault(name, {})


def _version_warnings(file: Path, metadata: Mapping[str, str] | None) -> list[str]:
    if metadata is None:
        return [f"{file} does not name the version that wrote it: parts of the run may continue differently"]
    names = {"mlagents_version": "ML-Agents", "palaestra_version": "Palaestra", "torch_version": "PyTorch"}
    return [
        f"the run was saved with {names[key]} {metadata[key]} (this is {here}): parts of it may continue differently"
        for key, here in _metadata().items()
        if key in names and metadata.get(key, here) != here
    ]


def _metadata() -> dict[str, str]:
    return {
        "stats_format_version": FORMAT,
        "mlagents_version": MLAGENTS,
        "palaestra_version": palaestra_version(),
        "torch_version": torch.__version__,
    }


def _models(section: dict[str, Any]) -> list[Model]:
    return [_model(entry) for entry in section.get("checkpoints", [])]


def _model(entry: dict[str, Any]) -> Model:
    auxiliary: Sequence[str] = entry.get("auxillary_file_paths") or ()
    steps = int(entry["steps"])
    created = float(entry["creation_time"])
    return Model(steps, str(entry["file_path"]), entry.get("reward"), created, tuple(auxiliary))
