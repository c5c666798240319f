"""The run of a tracking service that belongs to a run of ours: its id, kept in `run_logs/<tracker>.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from palaestra.core.errors import PluginError
from palaestra.core.files import read_whole_text, write_whole
from palaestra.runtime.logging.tracker import TrackedRun


class RunIds:
    """Reads and writes the file with a service's run id, so that a resumed run goes on in the same run of the
    service.
    """

    def __init__(self, run: TrackedRun, tracker: str, place: Mapping[str, str | None]) -> None:
        """`place`: where the service keeps the run, such as its project. An id that belongs elsewhere is not used."""
        self._file = run.folder / "run_logs" / f"{tracker}.json"
        self._place = {key: value for key, value in place.items() if value is not None}
        self._resumed = bool(run.resumed)

    def find(self) -> str | None:
        """Returns the id of the run that is resumed; None: a new run begins."""
        if not self._resumed:
            return None
        try:
            stored = json.loads(read_whole_text(self._file))
            same = all(stored.get(key) == value for key, value in self._place.items())
            return stored["id"] if same and isinstance(stored["id"], str) else None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None

    def keep(self, run_id: str, **more: str | None) -> None:
        """Stores the id, where the run is, and anything else that helps to find it."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        whole = {"id": run_id, **self._place, **{key: value for key, value in more.items() if value is not None}}
        write_whole(self._file, json.dumps(whole, indent=2).encode() + b"\n")


def import_service(tracker: str, *modules: str) -> Any:
    """Imports the packages of a tracker and returns the first. Raises PluginError, which says how to install them."""
    try:
        first, *_ = [import_module(module) for module in modules]
        return first
    except ImportError as error:
        missing = (
            f"the package '{error.name}' is not installed" if isinstance(error, ModuleNotFoundError) else str(error)
        )
        raise PluginError(
            f"tracker '{tracker}': {missing}; install it with: pip install 'palaestra[{tracker}]'"
        ) from error


def group_of(run_id: str) -> str | None:
    """Returns the first part of a run id such as 'sweep/seed-1'; None if it has one part."""
    above, slash, _ = run_id.rpartition("/")
    return above if slash else None


def flat(tree: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Returns nested settings by their paths, such as 'behaviors.3DBall.max_steps'."""
    leaves: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            leaves.update(flat(value, f"{above}{key}."))
        else:
            leaves[f"{above}{key}"] = value
    return leaves


def videos_in(folder: Path) -> list[Path]:
    """Returns the recordings in a run's folder, such as those of `palaestra record`."""
    return sorted(file for kind in ("gif", "mp4", "webm") for file in folder.glob(f"*.{kind}"))
