"""The page `/run?id=...`: curves, lessons, ratings, times, settings and logs of one run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nicegui import run as worker
from nicegui import ui

from palaestra.core.display import escaped, escaped_lines
from palaestra.core.errors import PalaestraError
from palaestra.core.metrics import ELO
from palaestra.core.plugins import registry
from palaestra.runtime.monitor.run_facts import (
    LeagueTable,
    LessonStatus,
    TimeShares,
    league,
    lessons,
    log_tail,
    logs,
    time_shares,
    warnings_in,
)
from palaestra.runtime.monitor.run_index import RunIndex
from palaestra.runtime.monitor.run_status import RunStatus, section
from palaestra.runtime.playback.sources import PlaybackSource
from palaestra.runtime.showing.run_notes import LONGEST_NOTE, RunNotes, clean_tags, write_notes
from palaestra.runtime.storage.run_folder import CONFIGURATION
from palaestra.scenario.standing import standing_in_words
from palaestra.web.dashboard.control_card import ControlCard
from palaestra.web.dashboard.run_cards import show_lessons, show_ratings, show_times
from palaestra.web.dashboard.run_rows import COLORS, MEANINGS, headline
from palaestra.web.dashboard.small_charts import SmallCharts
from palaestra.web.layout import Offer, address, card, complain, marked, marked_label, page, quiet, while_open
from palaestra.web.site import Site
from palaestra.web.starting.entrance import Entrance
from palaestra.web.starting.started_runs import resume_run, started_run

REFRESH = 1.0
"""Seconds between two looks at the files while a browser is connected."""


@dataclass(frozen=True, slots=True)
class RunView:
    """Content of the page, read in a thread."""

    status: RunStatus
    lessons: list[LessonStatus]
    league: LeagueTable | None
    times: TimeShares | None
    settings: str
    logs: list[str]
    log: str
    warnings: list[str]
    obstacle: str
    """Why the run cannot be watched; empty if it can be watched."""

    @property
    def ratings(self) -> dict[str, str]:
        """Elo of each behavior in self-play, and how the behavior performs against its snapshots."""
        return {
            each.name: "; ".join(filter(None, (f"Elo {each.values[ELO]:,.0f}", standing_in_words(each.values))))
            for each in self.status.behaviors
            if ELO in each.values
        }


def add_run_page(site: Site, index: RunIndex) -> None:
    """Registers the page."""

    @ui.page("/run")
    def run(id: str = "") -> None:
        with page(escaped(id) or "Run", "Runs"):
            Entrance(site.results, id, lambda: index.status(id) is not None, lambda: RunPage(site, index, id))


class RunPage:
    """One browser's view of one run."""

    def __init__(self, site: Site, index: RunIndex, run_id: str) -> None:
        self._index = index
        self._id = run_id
        self._source = PlaybackSource(site.results, run=run_id, trust=site.trust, flags=site.flags)
        self._log_name = ""
        self._seen: RunView | None = None
        self._resumed = False
        self._parameters = parameters_of(index.settings(run_id))
        self._head()
        self._control = ControlCard(index.results / run_id)
        self.charts = SmallCharts(index, run_id)
        with ui.element("div").classes("p-columns"):
            with ui.column().classes("gap-3"):
                self._lessons = ui.column().classes("w-full")
                self._ratings = ui.column().classes("w-full")
                self._times = ui.column().classes("w-full")
            with ui.column().classes("gap-3"):
                self._warnings = ui.column().classes("w-full")
                self._texts()
        while_open(self.refresh, REFRESH)

    def _head(self) -> None:
        with card():
            with ui.row().classes("w-full items-center gap-x-3 gap-y-1"):
                marked(ui.label(escaped(self._id)), "name", "text-lg font-medium p-message")
                self._state = marked(ui.badge(""), "state", "p-state")
                self._meaning = quiet("")
                with ui.row().classes("no-wrap gap-1 ml-auto"):
                    self._resume = ui.button("Resume", icon="play_arrow", on_click=self._go_on)
                    marked(self._resume, "resume", props="flat dense no-caps")
                    copy = ui.button("Copy", icon="content_copy", on_click=lambda: ui.navigate.to(self._form))
                    marked(copy, "copy", props="flat dense no-caps").tooltip("A new run with these settings, changed")
                    self._offers = (
                        Offer("Watch", "smart_display", lambda: address("/watch", run=self._id)),
                        Offer("Play", "sports_esports", lambda: address("/play", run=self._id)),
                    )
            self._bar = ui.linear_progress(0, show_value=False, size="6px")
            self._bar.props("rounded instant-feedback aria-label=Progress")
            self._numbers = marked_label("numbers", "text-sm")
            self._failure = marked_label("failure", "text-sm p-message text-negative")
            self._said = marked_label("resume-log", "p-log text-negative")
            notes = self._index.notes(self._id)
            with ui.expansion("Tags and note", value=bool(notes.tags or notes.note)).classes("w-full"):
                tags = ui.input("Tags, separated by commas", value=", ".join(notes.tags))
                marked(tags, "tags", "w-full", "dense outlined").on("blur", lambda: self._write_notes(tags, note))
                note = ui.textarea("Note", value=notes.note)
                marked(note, "note", "w-full", "dense outlined autogrow").on(
                    "blur", lambda: self._write_notes(tags, note)
                )

    async def _write_notes(self, tags: ui.input, note: ui.textarea) -> None:
        notes = RunNotes(clean_tags(str(tags.value or "").split(",")), str(note.value or "")[:LONGEST_NOTE])
        if notes == self._index.notes(self._id):
            return
        try:
            await worker.io_bound(write_notes, self._index.results / self._id, notes)
        except PalaestraError as error:
            complain(str(error))
            return
        ui.notify("Kept in the run's folder")

    @property
    def _form(self) -> str:
        return address("/new", run=self._id)

    async def _go_on(self) -> None:
        """Starts the training again where it was saved."""
        try:
            await worker.io_bound(resume_run, self._index.results, self._id)
        except PalaestraError as error:
            complain(str(error))
            return
        self._resumed = True
        self._said.set_text("")
        ui.notify("The run continues in a moment")

    async def _hear(self, status: RunStatus) -> None:
        """Shows the output of a resumed run that ended before it began."""
        if not self._resumed or status.state == "learning":
            return
        started = await worker.io_bound(started_run, self._index.results, self._id)
        if started is not None and started.ended:
            self._resumed = False
            self._said.set_text(started.log)

    def _texts(self) -> None:
        with card():
            with ui.tabs().props("dense no-caps align=left inline-label") as tabs:
                marked(ui.tab("Console and logs"), "tab-logs")
                marked(ui.tab("Settings"), "tab-settings")
            with ui.tab_panels(tabs, value="Console and logs").classes("w-full").style("background: transparent"):
                with ui.tab_panel("Console and logs").classes("p-0 pt-2 gap-2"):
                    self._which = ui.select([], label="File", on_change=self._other_log)
                    self._which.props("dense outlined options-dense").classes("p-select")
                    with ui.scroll_area().classes("w-full").style("height: 420px").props("tabindex=0") as self._scroll:
                        self._log = marked_label("log", "p-log w-full")
                with (
                    ui.tab_panel("Settings").classes("p-0 pt-2"),
                    ui.scroll_area().classes("w-full").style("height: 480px").props("tabindex=0"),
                ):
                    self._settings = marked_label("settings", "p-log w-full")

    async def _other_log(self) -> None:
        self._log_name = str(self._which.value or "")
        await self.refresh()

    async def refresh(self) -> None:
        """Shows what has changed."""
        view = await worker.io_bound(self._read, self._log_name)
        if view is None:  # the run is gone, or the page is ending
            if not (self._index.results / self._id).exists():
                self._state.set_text("gone")
                self._meaning.set_text("its folder is no longer there")
                self._resume.visible = False
            return
        await self._hear(view.status)
        await self._control.refresh()
        self._control.show(view.status, view.lessons, self._parameters)
        before = self._seen
        self._seen = view
        if view != before:
            self._show(view, before)
        await self.charts.refresh()

    def _read(self, log_name: str) -> RunView | None:
        files = self._index.files
        status = self._index.status(self._id)
        if status is None:
            return None
        settings = self._index.settings(self._id)
        names = logs(files, self._id)
        text = log_tail(files, self._id, log_name if log_name in names else names[0] if names else "")
        console = text if log_name.startswith("console") or not names else log_tail(files, self._id, names[0])
        has_model = self._seen is not None and not self._seen.obstacle  # once there is one, it stays
        return RunView(
            status,
            lessons(files, status, settings),
            league(files, self._id),
            time_shares(files, status),
            files.text(files.root / self._id / CONFIGURATION, 2 * 2**20) or "",
            names,
            text,
            warnings_in(console) if names and names[0].startswith("console") else [],
            "" if has_model else self._source.obstacle() or "",
        )

    def _show(self, view: RunView, before: RunView | None) -> None:
        status = view.status
        self._state.set_text(status.state)
        self._state.props(f"color={COLORS[status.state]}")
        failed = status.state == "died" and bool(status.failure)
        self._meaning.set_text("it ended with an error" if failed else MEANINGS[status.state])
        self._failure.set_text(escaped_lines(status.failure) if failed else "")
        self._bar.visible = status.share is not None
        self._bar.set_value(status.share or 0.0)
        self._bar.props(f"color={COLORS[status.state]}")
        self._numbers.set_text(headline(status))
        for offer in self._offers:
            offer.refuse(view.obstacle)
        self._resume.visible = status.state in ("stopped", "died") and status.source == "Palaestra"

        def changed(*parts: str) -> bool:
            return before is None or any(getattr(view, part) != getattr(before, part) for part in parts)

        if changed("lessons"):
            show_lessons(self._lessons, view.lessons)
        if changed("league", "ratings"):
            show_ratings(self._ratings, view.ratings, self._id, view.league)
        if changed("times"):
            show_times(self._times, view.times)
        if changed("warnings"):
            self._show_warnings(view.warnings)
        if changed("settings"):
            self._settings.set_text(view.settings or "This run has no configuration.yaml.")
        if changed("logs"):
            first = next(iter(view.logs), None)
            self._which.set_options(view.logs, value=self._log_name if self._log_name in view.logs else first)
            self._which.visible = bool(view.logs)
        if changed("log"):
            nothing = "This run has written no log so far. Unity builds write run_logs/Player-0.log."
            self._log.set_text(view.log or nothing)
            self._scroll.scroll_to(percent=1.0)

    def _show_warnings(self, found: list[str]) -> None:
        self._warnings.clear()
        if found:
            with self._warnings, card("Warnings"):
                for line in found[-12:]:
                    ui.label(line).classes("p-log p-warning")


def parameters_of(settings: Mapping[str, Any]) -> list[str]:
    """Returns the parameters of a run's environment: those in its settings, and all of a built-in environment."""
    names = list(map(str, section(settings, "environment_parameters")))
    path = str(section(settings, "env_settings").get("env_path") or "").removeprefix("builtin:")
    if path in (envs := registry("envs")).names():
        names += list(envs.get(path).parameter_ranges)
    return list(dict.fromkeys(names))
