"""The rewards in a model card: from an evaluation, or from the last summary of training."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from palaestra.core.errors import PalaestraError
from palaestra.core.files import file_name, read_lines
from palaestra.core.metrics import GROUP_REWARD, REWARD
from palaestra.hub.contents import STATUS
from palaestra.parallel.closing import closing_safely
from palaestra.runtime.logging.history import read_history
from palaestra.runtime.logging.trackers import METRICS
from palaestra.runtime.logging.waiting import on_stderr
from palaestra.runtime.play.evaluation import SideEpisodes, evaluate
from palaestra.runtime.play.run_models import Models, open_for
from palaestra.runtime.storage.status import TrainingStatus


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the card's table."""

    behavior: str
    trainer: str
    model: str  # path within the run
    step: int | None
    mean: float | None
    std: float | None
    episodes: int | None
    evaluated: bool  # False: the numbers are of training
    elo: float | None  # of self-play

    @property
    def reward(self) -> str:
        """The mean with its spread, in the form that the Hub's leaderboards read."""
        if self.mean is None:
            return ""
        return f"{self.mean:.2f}" if self.std is None else f"{self.mean:.2f} +/- {self.std:.2f}"


def rows_of(models: Models, evaluations: Mapping[str, SideEpisodes]) -> list[Row]:
    """Returns a row for each behavior of a run."""
    assert models.settings is not None
    assert models.folder is not None
    status = TrainingStatus(models.folder / STATUS)
    status.load()
    last = last_summaries(models.folder)
    rows = list[Row]()
    for name, file in models.files.items():
        block = models.settings.behaviors.get(name, models.settings.default_settings)
        trainer = "" if block is None else block.trainer_type
        path = file.relative_to(models.folder).as_posix()
        step = _step(status, name, file)
        elo = status.elo(name)
        played = [result for side, result in evaluations.items() if side == name or side.startswith(f"{name}?team=")]
        if played:
            returns = np.concatenate([result.rewards for result in played])
            rows.append(
                Row(name, trainer, path, step, float(returns.mean()), float(returns.std()), len(returns), True, elo)
            )
        else:
            summary = last.get(name) or last.get(file_name(name)) or {}
            episodes = summary.get("episodes")
            known = (summary.get("mean"), summary.get("std"), None if episodes is None else int(episodes))
            rows.append(Row(name, trainer, path, step, *known, False, elo))
    return rows


def _step(status: TrainingStatus, behavior: str, file: Path) -> int | None:
    final = status.final(behavior)
    listed = [*status.models(behavior), *([final] if final else ())]
    return next((model.steps for model in listed if Path(model.file_path).name == file.name), None)


def evaluations_of(models: Models, episodes: int, seed: int = 0) -> dict[str, SideEpisodes]:
    """Plays the models as `palaestra evaluate` does. Raises PalaestraError."""
    env = open_for(models, None, None, min(episodes, 100), seed)
    with closing_safely(env, "the environment", on_stderr):
        return evaluate(env, models.policies(seed), episodes, seed=seed)


def last_summaries(run: Path) -> dict[str, dict[str, float]]:
    """Returns mean, spread and number of episodes in each behavior's last rewarded summary; empty without metrics."""
    found: dict[str, dict[str, float]] = {}
    if (run / METRICS).is_file():
        for line in read_lines(run / METRICS):
            row = _row(line)
            mean = _number(row.get(GROUP_REWARD, row.get(REWARD)))
            if mean is not None:
                spread = None if GROUP_REWARD in row else _number(row.get("std"))
                numbers = {"mean": mean, "std": spread, "episodes": _number(row.get("episodes"))}
                found[str(row.get("behavior"))] = {key: value for key, value in numbers.items() if value is not None}
        return found
    try:
        history = read_history(run)
    except PalaestraError:
        return {}
    for name, tagged in history.items():
        points = tagged.get(GROUP_REWARD) or tagged.get(REWARD)
        if points is not None and len(points.value):
            found[name] = {"mean": float(points.value[-1])}
    return found


def _row(line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return row if isinstance(row, dict) else {}


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
