"""The card that records a person's episodes as demonstrations."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from nicegui import ui

from palaestra.core.errors import PalaestraError
from palaestra.web.layout import card, complain, marked_label, quiet
from palaestra.web.people.played_game import Person
from palaestra.web.recorded.demo_files import demo_path


class DemoCard:
    """Buttons that record, drop and save the episodes of the person at this window."""

    def __init__(self, results: Path, person: Callable[[], Person | None]) -> None:
        self._results = results
        self._person = person
        with card("Demonstration"):
            self._recorded = marked_label("recorded", "text-sm")
            self._recorded.set_text("0 episodes")
            with ui.row().classes("gap-1"):
                for text, icon, mark, click in (
                    ("Record", "fiber_manual_record", "record", lambda person: person.takes.start()),
                    ("Stop", "stop", "stop-recording", lambda person: person.takes.stop()),
                    ("Drop the last", "undo", "drop", self._drop),
                ):
                    ui.button(text, icon=icon, on_click=partial(self._call, click)).props(
                        f"flat dense no-caps data-mark={mark}"
                    )
            quiet("Recording begins with the next episode; 'Restart' starts one.")
            with ui.row().classes("w-full items-center gap-2 no-wrap"):
                self._file = ui.input("Name").props("dense outlined data-mark=demo-name").classes("grow")
                ui.button("Save", on_click=lambda: self._call(self._save)).props("dense no-caps data-mark=save-demo")

    def show(self, person: Person) -> None:
        """Shows the number of recorded episodes."""
        kept = person.takes.kept
        rewards = f", rewards {', '.join(f'{take.reward:.2f}' for take in kept[-8:])}" if kept else ""
        count = f"{len(kept)} episode{'' if len(kept) == 1 else 's'}"
        self._recorded.set_text(f"{'Recording. ' if person.takes.recording else ''}{count}{rewards}")

    def _call(self, click: Callable[[Person], object]) -> None:
        if (person := self._person()) is not None:
            click(person)

    def _drop(self, person: Person) -> None:
        if not person.takes.drop_last():
            ui.notify("There is no episode to drop", type="warning")

    def _save(self, person: Person) -> None:
        if not person.takes.kept:
            complain("No whole episode has been recorded yet: press Record, and play until an episode has ended")
            return
        try:
            path = demo_path(self._results, self._file.value or person.place.behaviors[0])
            files = person.takes.save(person.played.env, path)
        except PalaestraError as error:
            complain(str(error))
            return
        ui.notify(f"Saved {', '.join(file.name for file in files)}", type="positive")
