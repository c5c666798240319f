"""Writes the models of a run; a model that cannot be written never ends the training that made it."""

from __future__ import annotations

from pathlib import Path

from palaestra.core.errors import PalaestraError
from palaestra.runtime.console import Console
from palaestra.runtime.files import file_name
from palaestra.runtime.folder import RunFolder
from palaestra.runtime.learner import Learner
from palaestra.runtime.models_folder import ModelsFolder
from palaestra.runtime.status import TrainingStatus


class ModelWriter:
    """The ONNX models of all behaviors of a run, and their list in `training_status.json`."""

    def __init__(self, folder: RunFolder, console: Console) -> None:
        self._folder, self._console = folder, console
        self.status = TrainingStatus(folder.logs / "training_status.json")
        self._last: dict[str, tuple[int, Path]] = {}  # step and file of the newest model that this process wrote

    def write(self, learner: Learner, reward: float | None) -> Path | None:
        """`<Behavior>/<Behavior>-<step>.onnx`, checked against the network. None where it failed, which is logged."""
        folder = self._models(learner)
        try:
            from palaestra.export import check, onnx

            path, network = folder.path(learner.step), learner.trainer.network
            onnx.export(network, learner.spec, path)
            error = check.compare(network, learner.spec, path)
            folder.add(path, learner.step, reward)
        except (PalaestraError, OSError, ImportError, RuntimeError, ValueError) as problem:
            self._console.warning(
                f"the model of '{learner.name}' at step {learner.step} could not be written: {problem}; training goes on, and "
                f"'palaestra export {self._folder.path}' repeats it later"
            )
            return None
        self._last[learner.name] = (learner.step, path)
        self._console.info(f"Exported {path} (differs from the network by at most {error:.1e})")
        return path

    def write_final(self, learner: Learner, reward: float | None) -> Path | None:
        """The last model, and its copy `<run>/<Behavior>.onnx`."""
        step, path = self._last.get(learner.name, (None, None))
        if step != learner.step:
            path = self.write(learner, reward)
        return None if path is None else self._models(learner).final(path, learner.step, reward)

    def final(self, learner: Learner) -> Path | None:
        """`<run>/<Behavior>.onnx` where it is that of the step the behavior is at."""
        listed = self.status.final(learner.name)
        path = self._folder.path / f"{file_name(learner.name)}.onnx"
        return path if listed is not None and listed.steps == learner.step and path.is_file() else None

    def write_status(self) -> None:
        """The list of models, as it stands."""
        self.status.save()

    def _models(self, learner: Learner) -> ModelsFolder:
        return ModelsFolder(self._folder.path, learner.name, learner.settings.keep_checkpoints, self.status)
