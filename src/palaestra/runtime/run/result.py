"""The result of a training, which prints as a table and shows its curve in a notebook. Needs no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.core.errors import RunError
from palaestra.core.files import best_file
from palaestra.core.metrics import ELO, GROUP_REWARD, REWARD
from palaestra.runtime.logging.history import History, find_tags, read_history, tags
from palaestra.runtime.presentation.data_frames import metrics_frame
from palaestra.runtime.presentation.inline_curves import svg
from palaestra.runtime.presentation.result_tables import ResultTable
from palaestra.runtime.presentation.shown import Shown

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

NONE = (np.empty(0), np.empty(0))
"""The empty curve of a behavior without this metric."""


@dataclass(frozen=True, slots=True, repr=False)
class Result(Shown):
    """Results of a training: models, steps, rewards and the run's folder.

    It can be given, instead of a run's name, to `evaluate`, `record`, `plot`, `export`, `compare`, `distill` and
    `load_policy`, and to settings that name a run.
    """

    folder: Path
    """The run's folder, such as results/pole."""
    steps: dict[str, int]
    """Decisions of each behavior."""
    rewards: dict[str, float | None]
    """Mean return of the episodes in each behavior's last summary; `evaluate` measures the final policy."""
    episodes: dict[str, int]
    """Number of episodes in `rewards`."""
    models: dict[str, Path]
    """The final model (.onnx) of each behavior."""
    finished: bool
    """Whether the run reached its end; False: it was stopped early, and can be resumed."""
    signal: int | None = None
    """Number of the signal that stopped the run."""
    endings: dict[str, str] = field(default_factory=dict)
    """By behavior, "goal" or "no progress", if stop_when ended its training."""
    success_rates: dict[str, float] = field(default_factory=dict)
    """Share of successful episodes in each behavior's last summary, if the environment reports success."""
    unwritten: tuple[str, ...] = ()
    """Behaviors whose final model could not be written."""
    env: Any = field(default=None, compare=False)
    """The environment that was given to `train` as an object or a function; None if it was given by name."""

    @property
    def run_id(self) -> str:
        """The run's name."""
        return self.folder.name

    @property
    def best(self) -> dict[str, Path]:
        """The best model of each behavior, according to `keep_best`; empty without this setting."""
        return {name: file for name in self.steps if (file := best_file(self.folder, name)).is_file()}

    def frame(self) -> pandas.DataFrame:
        """Returns all metrics as a data frame: a row for each behavior and summary, a column for each metric. Raises
        PluginError if pandas is not installed, and RunError before the first summary."""
        return metrics_frame({self.run_id: read_history(self.folder)})

    def plot(self, *metrics: str) -> Figure:
        """Draws these metrics, given by names or patterns such as 'Losses/*'; by default the most important ones.
        Raises RunError before the first summary."""
        from palaestra.runtime.plots.curves import environment_name, learning_curves, overview

        history = read_history(self.folder)
        if not metrics:
            return overview(history, self.run_id, environment_name([self.folder]))
        return learning_curves({self.run_id: history}, find_tags(metrics, tags([history])))

    def _line(self) -> str:
        parts = [f"{name} {steps:,} steps{self._reward(name)}" for name, steps in self.steps.items()]
        return f"{self.folder}: {self._state()}; {', '.join(parts[:3])}{' ...' if len(parts) > 3 else ''}"

    def _reward(self, name: str) -> str:
        reward = self.rewards.get(name)
        return "" if reward is None else f", reward {reward:.3f}"

    def _state(self) -> str:
        if self.endings:
            return "; ".join(dict.fromkeys(f"ended early ({ending})" for ending in self.endings.values()))
        return "finished" if self.finished else "stopped"

    def _tables(self) -> Sequence[ResultTable]:
        head = ["behavior", "steps", "reward", "success", "episodes", "model"]
        rows = [
            [
                name,
                f"{steps:,}",
                "-" if (reward := self.rewards.get(name)) is None else f"{reward:.3f}",
                "" if (share := self.success_rates.get(name)) is None else f"{100 * share:.0f} %",
                str(self.episodes.get(name, 0)),
                "not written" if name in self.unwritten else str(self.models.get(name, "-")),
            ]
            for name, steps in self.steps.items()
        ]
        return [ResultTable(head, rows, title=f"{self.folder}: {self._state()}")]

    def _inline(self) -> str:
        history = self._history()
        tag = next((one for one in (ELO, GROUP_REWARD, REWARD) if any(one in of for of in history.values())), None)
        if tag is None:
            return ""
        curves = {name: (of[tag].step, of[tag].value) if tag in of else NONE for name, of in history.items()}
        return svg(curves, tag.rpartition("/")[2])

    def _history(self) -> History:
        try:
            return read_history(self.folder)
        except RunError:  # no summary yet, or the folder is gone
            return {}
