"""Finds the run whose networks a new one starts from: in the results folder, or on the Hugging Face Hub."""

from __future__ import annotations

from pathlib import Path

from palaestra.hub.names import is_hub_name
from palaestra.runtime.storage.run_folder import RunFolder


def origin_folder(results: Path, run_id: str) -> RunFolder:
    """Returns the folder of the run that `--initialize-from` names; of one on the Hub, the newest checkpoint is downloaded."""
    if is_hub_name(run_id):
        place = local_folder(run_id)
        return RunFolder(place.parent, place.name)
    return RunFolder(results, run_id)


def local_folder(path: str) -> Path:
    """Returns the folder that `init_path` means; one on the Hub is downloaded. Raises HubError or ConfigError."""
    if is_hub_name(path):
        from palaestra.hub.fetching import fetch_checkpoint

        return fetch_checkpoint(path)
    return Path(path)
