"""Slider of a run's checkpoints, whose models play."""

from __future__ import annotations

from nicegui import ui

from palaestra.runtime.playback.sources import steps_of
from palaestra.runtime.storage.run_folder import RunFolder
from palaestra.web.layout import card
from palaestra.web.watch.watched import WatchedPlayback


class StepsCard:
    """Exchanges the models of a run for those of another step. It is hidden as long as there is only one step.

    The steps are those that there are: a run that learns saves more, and deletes old ones.
    """

    def __init__(self, watched: WatchedPlayback) -> None:
        self._watched, self._steps = watched, list[int]()
        with card("Watch it learn") as self._card:
            self._where = ui.label().classes("text-sm p-message").props("data-mark=step")
            self._slider = ui.slider(min=0, max=1, value=1).props("markers snap data-mark=checkpoints")
            self._slider.on("change", lambda event: self._show(int(event.args)))
        self.refresh()
        if watched.source.run is not None:
            ui.timer(0.1, lambda: self._show(int(self._slider.value)), once=True)

    def refresh(self) -> None:
        """Offers the steps that there are now; the chosen one stays, or the nearest to it."""
        source = self._watched.source
        steps = [] if source.run is None else steps_of(RunFolder(source.results, source.run))
        self._card.set_visibility(len(steps) > 1)
        if steps == self._steps:
            return
        self._steps, wanted = steps, source.step
        position = len(steps) if wanted is None else min(range(len(steps)), key=lambda number: abs(steps[number] - wanted), default=0)
        self._slider.props(f"max={max(len(steps), 1)}")
        self._slider.set_value(position)

    async def _show(self, position: int) -> None:
        newest = position >= len(self._steps)
        step = None if newest else self._steps[position]
        self._where.set_text("Newest models; newer ones follow" if step is None else f"Step {step:,}")
        if (error := await self._watched.show_step(step)) is not None:
            self._where.set_text(error)
