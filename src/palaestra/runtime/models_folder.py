"""The ONNX models of a behavior: `<run>/<Behavior>/<Behavior>-<step>.onnx`, and `<run>/<Behavior>.onnx` at the end."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PureWindowsPath

from palaestra.core.errors import RunError
from palaestra.runtime.files import explain, file_name, write_whole
from palaestra.runtime.status import Model, TrainingStatus


class ModelsFolder:
    """Where models go, how many stay, and their list in the training status."""

    def __init__(self, run: Path, behavior: str, keep: int, status: TrainingStatus) -> None:
        """Keeps the `keep` newest; all of them when it is 0 or less."""
        self._run, self._behavior, self._keep, self._status = run, behavior, keep, status
        self._name = file_name(behavior)
        self.folder = run / self._name

    def path(self, step: int) -> Path:
        """Where the model of `step` is to be written; its folder exists. Raises RunError."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"cannot make {self.folder}: {explain(error)}") from error
        return self.folder / f"{self._name}-{step}.onnx"

    def add(self, file: Path, step: int, reward: float | None) -> None:
        """Lists a written model, saves the status, and only then deletes those that dropped out of the list. Raises RunError."""
        dropped = self._status.add(self._behavior, Model.of(file, step, reward), self._keep)
        self._status.save()
        kept = {name for model in self._status.models(self._behavior) for name in _names(model)}
        for name in {name for model in dropped for name in _names(model)} - kept:
            with suppress(OSError):  # it may be gone, or open in another program
                (self.folder / name).unlink()

    def final(self, file: Path, step: int, reward: float | None) -> Path:
        """Copies the last model to `<run>/<Behavior>.onnx` and lists it. Raises RunError."""
        target = self._run / f"{self._name}.onnx"
        try:
            write_whole(target, file.read_bytes())
        except OSError as error:
            raise RunError(f"cannot copy {file} to {target}: {explain(error)}") from error
        self._status.set_final(self._behavior, replace(Model.of(file, step, reward), file_path=target.as_posix()))
        self._status.save()
        return target


def _names(model: Model) -> set[str]:
    """Its files' names alone: they lie in this folder, wherever the run was when it wrote the list, on whatever system."""
    return {PureWindowsPath(path).name for path in (model.file_path, *model.auxillary_file_paths)} - {""}
