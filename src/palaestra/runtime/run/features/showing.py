"""Writes a run's policies for those who watch it learn."""

from __future__ import annotations

from time import perf_counter

from palaestra.core.errors import PalaestraError
from palaestra.runtime.collect.learner import Learner
from palaestra.runtime.parts.part import RunPart
from palaestra.runtime.run.training_run import Run
from palaestra.runtime.storage.live_models import LiveModels

LEAST = 0.4
"""Seconds between two models of a behavior."""
MOST_SHARE = 0.02
"""Share of the time that writing them may take."""


class Showing(RunPart):
    """Writes a model after an update while someone watches, and nothing otherwise."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._models = None if run.inference else run.group.first(lambda: LiveModels(run.folder.path))
        self._next: dict[str, float] = {}

    def started(self) -> None:
        """Drops what an earlier run of this name has left, or what this one has not reached."""
        if self._models is not None:
            self._models.drop_after(self._run.step if self._run.saved.checkpoint is not None else -1)

    def updated(self, learner: Learner) -> None:
        """Writes the policy if someone watches, and not too often."""
        began = perf_counter()
        if self._models is None or began < self._next.get(learner.name, 0.0):
            return
        self._next[learner.name] = began + LEAST / 4
        if not self._models.watched:
            return
        try:
            from palaestra.onnx_export import onnx

            network = learner.trainer.network
            self._models.add(
                learner.name, learner.step, lambda path: onnx.export(network, learner.spec, path, for_unity=False)
            )
        except (PalaestraError, OSError, ImportError, RuntimeError, ValueError) as problem:
            self._run.console.detail(f"'{learner.name}' is not shown while it learns: {problem}")
            self._models = None
            return
        spent = perf_counter() - began
        self._next[learner.name] = began + max(LEAST, spent / MOST_SHARE)
