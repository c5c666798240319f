"""The card that starts a run in a built-in environment, with its own settings."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import yaml
from nicegui import run as worker
from nicegui import ui

from palaestra.core.errors import PalaestraError
from palaestra.core.plugins import registry
from palaestra.runtime.settings.examples import made_for
from palaestra.web.layout import address, complain, marked, quiet
from palaestra.web.starting.started_runs import start_run

FIRST = "3DBall"
"""The environment to begin with: it learns within seconds."""
AREAS = "16"
"""Areas that are shown of a run that was just started."""


class StartCard:
    """Buttons that start a training and show it."""

    def __init__(self, results: Path) -> None:
        self._results = results
        with ui.row().classes("w-full items-center gap-3"):
            first = ui.button(f"Train {FIRST} now", icon="play_arrow", on_click=lambda: self._start(FIRST))
            marked(first, "train-first", props="no-caps unelevated")
            quiet("or")
            self._env = ui.select(sorted(registry("envs").names()), label="Environment", with_input=True)
            marked(self._env, "train-env", "p-select", "dense outlined options-dense")
            other = ui.button("Train it", on_click=lambda: self._start(str(self._env.value or "")))
            marked(other, "train", props="no-caps flat").bind_enabled_from(self._env, "value", bool)

    async def _start(self, env: str) -> None:
        try:
            run_id = await worker.io_bound(start_in, self._results, env)
        except PalaestraError as error:
            complain(str(error))
            return
        if run_id is not None:  # else the page is ending
            ui.navigate.to(address("/watch", run=run_id, areas=AREAS))


def start_in(results: Path, env: str) -> str:
    """Starts a run in a built-in environment with its shipped settings, under a name that is free, and returns it.
    Raises ConfigError or RunError.
    """
    run_id = free_name(results, env)
    start_run(results, run_id, settings_for(env))
    return run_id


def free_name(results: Path, wanted: str) -> str:
    """Returns a name for a run that no other has: `wanted`, or with a number behind it."""
    names = (wanted if number == 1 else f"{wanted}-{number}" for number in count(1))
    return next(name for name in names if not (results / name).exists())


def settings_for(env: str) -> dict[str, Any]:
    """Returns the settings shipped for a built-in environment, which name it; without an example it alone is named."""
    example = made_for(env)
    tree: Any = yaml.safe_load(example.read_text(encoding="utf-8")) if example is not None else {}
    return {**tree, "env_settings": {**(tree.get("env_settings") or {}), "env_path": env}}
