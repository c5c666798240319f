"""Results as pandas' data frames, if pandas is installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.core.errors import PluginError, RunError
from palaestra.core.files import explain
from palaestra.core.metrics import REWARD

if TYPE_CHECKING:
    import pandas

    from palaestra.runtime.logging.history import History


def data_frame(columns: Mapping[str, Sequence[Any] | np.ndarray]) -> pandas.DataFrame:
    """Returns a data frame of these columns. Raises PluginError if pandas is not installed."""
    return _pandas().DataFrame(dict(columns))


def frame_of_file(file: Path) -> pandas.DataFrame:
    """Returns the table of a CSV file. Raises PluginError without pandas, and RunError if the file is missing."""
    try:
        return _pandas().read_csv(file)
    except OSError as error:
        raise RunError(f"cannot read {file}: {explain(error)}") from error


def _pandas() -> Any:
    if find_spec("pandas") is None:
        raise PluginError("frame() needs pandas, which is not installed: pip install pandas")
    import pandas

    return pandas


def metrics_frame(runs: Mapping[Any, History], key: str = "") -> pandas.DataFrame:
    """Returns all metrics: a row for each behavior and step, with a column for each tag; `key` names the first column,
    which tells runs apart."""
    rows: list[dict[str, Any]] = []
    for run, history in runs.items():
        for behavior, tagged in history.items():
            found: dict[tuple[float, float], dict[str, Any]] = {}
            for tag, points in tagged.items():
                for step, seconds, value in zip(points.step, points.seconds, points.value, strict=True):
                    head = {**({key: run} if key else {}), "behavior": behavior, "step": int(step), "seconds": seconds}
                    found.setdefault((step, seconds), head)[tag] = value
            rows += [found[at] for at in sorted(found)]
    names = dict.fromkeys(name for row in rows for name in row)
    head = [*([key] if key else []), "behavior", "step", "seconds"]
    rest = [name for name in names if name not in head]
    order = [*head, *sorted(rest, key=lambda name: (name != REWARD, not name.startswith("Environment/")))]
    return data_frame({name: [row.get(name, np.nan) for row in rows] for name in order})
