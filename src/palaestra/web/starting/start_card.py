"""The card that starts a run in a built-in environment with its own settings, or leads to the form of all."""

from __future__ import annotations

from pathlib import Path

from nicegui import run as worker
from nicegui import ui

from palaestra.core.errors import PalaestraError
from palaestra.core.plugins import registry
from palaestra.web.layout import address, complain, marked, quiet
from palaestra.web.starting.origins import free_name, settings_for
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
            for text, mark, act in (
                ("Train it", "train", lambda: self._start(str(self._env.value))),
                ("Settings first", "train-form", lambda: ui.navigate.to(address("/new", env=str(self._env.value)))),
            ):
                button = marked(ui.button(text, on_click=act), mark, props="no-caps flat")
                button.bind_enabled_from(self._env, "value", bool)

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
