"""Writes the models of a run; if a model cannot be written, the training continues."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PureWindowsPath

from palaestra.core.errors import PalaestraError, RunError
from palaestra.core.files import best_file, explain, file_name, write_whole
from palaestra.models.trunk import Trunk
from palaestra.runtime.collect.learner import Learner
from palaestra.runtime.environments.make import is_game
from palaestra.runtime.parts.run_context import RunContext
from palaestra.runtime.storage.status import Model, TrainingStatus


class ModelWriter:
    """Writes the ONNX models of a run's behaviors, and their list in `training_status.json`."""

    def __init__(self, context: RunContext, show: Callable[[str, Path, int, bool], object]) -> None:
        """`show` is called with behavior, file and step of each model written, and whether it is the final one."""
        self._folder = context.folder
        self._console = context.console
        env = context.settings.env_settings.env_path
        self._for_unity = env is None or is_game(env)  # the Editor's has no name
        self._show = show
        self.status = context.status
        self._last: dict[str, tuple[int, Path]] = {}  # step and file of the newest model that this process wrote

    def write(self, learner: Learner, reward: float | None) -> Path | None:
        """Writes and checks `<Behavior>/<Behavior>-<step>.onnx`. Returns None if writing failed, which is logged."""
        path = self._write(learner, learner.trainer.network, reward)
        if path is not None:
            self._console.info(f"Exported {path}")
        return path

    def _write(self, learner: Learner, network: Trunk, reward: float | None) -> Path | None:
        folder = self._models(learner)
        try:
            from palaestra.onnx_export import check, onnx

            path = folder.path(learner.step)
            onnx.export(network, learner.spec, path, for_unity=self._for_unity)
            error = check.compare(network, learner.spec, path)
            folder.add(path, learner.step, reward)
        except (PalaestraError, OSError, ImportError, RuntimeError, ValueError) as problem:
            self._console.warning(
                f"the model of '{learner.name}' at step {learner.step} could not be written: {problem}; training "
                f"continues, and 'palaestra export {self._folder.path}' repeats it later"
            )
            return None
        self._last[learner.name] = (learner.step, path)
        self._console.detail(f"{path} differs from the network by at most {error:.1e}")
        self._show(learner.name, path, learner.step, False)
        return path

    def write_final(self, learner: Learner, reward: float | None) -> Path | None:
        """Writes the model after the last update and its copy `<run>/<Behavior>.onnx`."""
        network = learner.process.newest_network()
        step, path = self._last.get(learner.name, (None, None))
        if step != learner.step or network is not learner.trainer.network:
            path = self._write(learner, network, reward)
        if path is None:
            return None
        final = self._models(learner).final(path, learner.step, reward)
        self._show(learner.name, final, learner.step, True)
        return final

    def write_best(self, learner: Learner, network: Trunk, value: float) -> Path | None:
        """Writes `<run>/<Behavior>-best.onnx`. Returns None if writing failed, which is logged."""
        target = best_file(self._folder.path, learner.name)
        try:
            from palaestra.onnx_export import onnx

            with tempfile.TemporaryDirectory() as place:
                path = Path(place) / target.name
                onnx.export(network, learner.spec, path, for_unity=self._for_unity)
                write_whole(target, path.read_bytes())
            self.status.set_best(learner.name, Model.of(target, learner.step, value))
            self.status.save()
        except (PalaestraError, OSError, ImportError, RuntimeError, ValueError) as problem:
            sentence = f"the best model of '{learner.name}' could not be written: {problem}"
            self._console.warning(f"{sentence}; training continues")
            return None
        self._show(learner.name, target, learner.step, False)
        return target

    def final(self, learner: Learner) -> Path | None:
        """Returns `<run>/<Behavior>.onnx` if it was written at the behavior's current step."""
        listed = self.status.final(learner.name)
        path = self._folder.path / f"{file_name(learner.name)}.onnx"
        return path if listed is not None and listed.steps == learner.step and path.is_file() else None

    def finals(self, learners: Mapping[str, Learner]) -> dict[str, Path]:
        """Returns the final models if all belong to their learners' current steps, as after resuming; else an empty
        dictionary."""
        there = {name: self.final(learner) for name, learner in learners.items()}
        return {} if None in there.values() else {name: path for name, path in there.items() if path is not None}

    def _models(self, learner: Learner) -> ModelsFolder:
        return ModelsFolder(self._folder.path, learner.name, learner.settings.keep_checkpoints, self.status)


class ModelsFolder:
    """Folder of a behavior's models: their names, the number to keep, and their list in the training status."""

    def __init__(self, run: Path, behavior: str, keep: int, status: TrainingStatus) -> None:
        """Keeps the newest `keep` models, or all if it is 0 or less."""
        self._run = run
        self._behavior = behavior
        self._keep = keep
        self._status = status
        self._name = file_name(behavior)
        self.folder = run / self._name

    def path(self, step: int) -> Path:
        """Returns the path for the model of `step`, and makes its folder. Raises RunError."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"cannot make {self.folder}: {explain(error)}") from error
        return self.folder / f"{self._name}-{step}.onnx"

    def add(self, file: Path, step: int, reward: float | None) -> None:
        """Lists a model that was written, saves the status, then deletes the models that were dropped from the list.
        Raises RunError."""
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
    return {PureWindowsPath(path).name for path in (model.file_path, *model.auxillary_file_paths)} - {""}
