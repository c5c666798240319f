"""The card that stops, saves and changes a run while it learns."""

from __future__ import annotations

import math
from pathlib import Path

from nicegui import run as worker
from nicegui import ui

from palaestra.core.display import shortened
from palaestra.core.errors import PalaestraError
from palaestra.runtime.control.run_requests import RunAnswer, RunRequest, answers, ask
from palaestra.runtime.monitor.run_facts import LessonStatus
from palaestra.runtime.monitor.run_status import RunStatus
from palaestra.web.layout import card, complain, dialog_of, marked, marked_label, quiet

SCHEDULES = {"learning_rate": "Learning rate", "beta": "Entropy (beta)", "epsilon": "Clip range (epsilon)"}
MOST = 6
"""Requests whose outcome is shown."""


class ControlCard:
    """Buttons that send requests, which the run reads within a second, and the outcomes of the last requests."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._answers: list[RunAnswer] = []
        with card("While it learns") as self._card:
            self._buttons = ui.column().classes("w-full gap-2")
            with self._buttons:
                with ui.row().classes("gap-2"):
                    stop = ui.button("Stop", icon="stop", color="negative", on_click=self._stop)
                    marked(stop, "stop", props="dense no-caps")
                    save = ui.button("Save now", icon="save", on_click=lambda: self._ask(RunRequest("save")))
                    marked(save, "save", props="dense no-caps")
                with ui.row().classes("w-full items-center gap-2 no-wrap"):
                    what = ui.select(SCHEDULES, value="learning_rate")
                    self._what = marked(what, "change-what", "grow", "dense outlined")
                    self._value = marked(ui.input("New value"), "change-value", "w-28", "dense outlined")
                    marked(ui.button("Change", on_click=self._change), "change", props="dense no-caps")
                quiet(
                    "A value that is given here stays constant, also after the run is resumed. New values of "
                    "parameters apply from the next episodes on."
                )
            self._outcome = marked_label("outcome", "text-sm whitespace-pre-line")

    def show(self, status: RunStatus, lessons: list[LessonStatus], parameters: list[str]) -> None:
        """Offers the possible changes; only a learning run accepts requests."""
        self._buttons.visible = status.state == "learning" and status.source == "Palaestra"
        self._card.visible = self._buttons.visible or bool(self._answers)
        options = SCHEDULES | {f"parameter:{name}": f"Parameter {name}" for name in parameters}
        options |= {f"lesson:{one.parameter}": f"Lesson of {one.parameter} (from 1 to {one.count})" for one in lessons}
        if options != self._what.options:
            self._what.set_options(options, value=self._what.value if self._what.value in options else "learning_rate")

    async def refresh(self) -> None:
        """Shows the outcomes of requests."""
        found = (await worker.io_bound(answers, self._run) or [])[-MOST:]
        if found != self._answers:
            self._answers = found
            lines = [f"{'Done' if one.done else 'Refused'} at step {one.step:,}: {one.outcome}" for one in found]
            self._outcome.set_text("\n".join(reversed(lines)))

    async def _stop(self) -> None:
        with dialog_of("Stop the run?") as dialog:
            ui.label("It saves everything and ends; Resume continues it.").classes("text-sm")
            with ui.row():
                stop = ui.button("Stop it", color="negative", on_click=lambda: dialog.submit(True))
                marked(stop, "stop-it", props="dense no-caps")
                ui.button("Let it learn", on_click=lambda: dialog.submit(False)).props("flat dense no-caps")
        if await dialog:
            await self._ask(RunRequest("stop"))

    async def _change(self) -> None:
        try:
            value = float(str(self._value.value).replace(",", "."))
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            complain(f"'{shortened(str(self._value.value))}' is no number")
            return
        match str(self._what.value).split(":", 1):
            case ["parameter", name]:
                await self._ask(RunRequest("parameter", name=name, value=value))
            case ["lesson", name]:
                await self._ask(RunRequest("lesson", name=name, value=value - 1))
            case [name, *_]:
                await self._ask(RunRequest("hyperparameter", name=name, value=value))

    async def _ask(self, request: RunRequest) -> None:
        try:
            await worker.io_bound(ask, self._run, request)
        except PalaestraError as error:
            complain(str(error))
            return
        ui.notify("Asked; the run answers within seconds")
