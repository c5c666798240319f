"""The page `/`: a table of all runs, and curves of the chosen runs."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from nicegui import run as worker
from nicegui import ui
from starlette.requests import Request

from palaestra.core.display import escaped
from palaestra.runtime.monitor.run_facts import Difference, shown_differences
from palaestra.runtime.monitor.run_index import RunIndex
from palaestra.runtime.monitor.run_status import RunStatus
from palaestra.web.dashboard.chart_options import PALETTE
from palaestra.web.dashboard.curves_card import MOST_RUNS, CurvesCard
from palaestra.web.dashboard.run_page import add_run_page
from palaestra.web.dashboard.run_rows import COLUMNS, SLOTS, row_of, short_settings
from palaestra.web.dashboard.runs_view import RunsView
from palaestra.web.layout import address, card, dialog_of, marked, marked_label, page, quiet, table_column, while_open
from palaestra.web.site import Site
from palaestra.web.starting.new_run_page import StartCard
from palaestra.web.starting.started_runs import starting

REFRESH = 1.0
"""Seconds between two looks at the files while a browser is connected."""
UNCHOSEN = 5
"""Number of runs whose curves are shown if none is chosen."""


def add_runs_page(site: Site, index: RunIndex) -> None:
    """Registers the pages of runs."""
    add_run_page(site, index)

    @ui.page("/")
    def runs(request: Request) -> None:
        with page("Runs", "Runs"):
            RunsPage(site, index, RunsView.of(request.query_params))


class RunsPage:
    """One browser's view of all runs."""

    def __init__(self, site: Site, index: RunIndex, view: RunsView) -> None:
        self._index = index
        self._view = view
        self._statuses: list[RunStatus] = []
        self._compared: object = None
        self._begins: list[tuple[str, str]] = []
        self._chosen_once = not view.run
        """Whether the runs in the address have been chosen in the table."""
        self._group_of: dict[str, str] = {}
        """The group of each run that is shown, where seeds are drawn as bands."""
        self._first = [site.run] if site.run else []
        """Run that the command named: its curves are shown until other runs are chosen."""
        self._empty(site)
        self._content = ui.column().classes("w-full gap-3")
        self._content.visible = False
        with self._content:
            with card():
                self._head(site)
                self._starting = ui.column().classes("w-full gap-0")
                self._table()
            self.curves = CurvesCard(index, view, lambda chosen: self._keep(replace(self._view, **chosen)))
            self._comparison = ui.column().classes("w-full")
        while_open(self.refresh, REFRESH)

    def _keep(self, view: RunsView) -> None:
        """Puts the choices into the address, which reloading and sharing keep."""
        if view != self._view:
            self._view = view
            ui.run_javascript(f"history.replaceState(null, '', {json.dumps(view.address)})")

    def _empty(self, site: Site) -> None:
        self._reading = quiet("Reading the runs...")
        self._hint = ui.column().classes("w-full")
        self._hint.visible = False
        with self._hint, card("No runs yet"):
            ui.label("Start a training here, and watch it learn:")
            StartCard(site.results)
            quiet(
                f"Runs that a terminal starts in {escaped(str(site.results))} appear here too (palaestra learn "
                "--env=3DBall --run-id=first), also those of ML-Agents and folders with TensorBoard's files."
            )

    def _head(self, site: Site) -> None:
        with ui.row().classes("w-full items-center gap-3"):
            self._counts = marked_label("counts", "text-sm font-medium")
            with dialog_of("New run") as dialog:
                StartCard(site.results)
            new = ui.button("New run", icon="add", on_click=dialog.open)
            marked(new, "new-run", props="flat dense no-caps")
            ui.space()
            self._columns = ui.select(
                list(self._view.column),
                value=list(self._view.column),
                label="Settings as columns",
                multiple=True,
                with_input=True,
                on_change=self._other_columns,
            )
            marked(self._columns, "columns", "w-56", "dense outlined options-dense use-chips")
            search = ui.input(placeholder="Search", value=self._view.find)
            search.on_value_change(lambda event: self._keep(replace(self._view, find=str(event.value or ""))))
            self._search = marked(search, "search", "w-56", "dense outlined clearable aria-label=Search")
            with self._search.add_slot("prepend"):
                ui.icon("search").classes("text-base")

    def _table(self) -> None:
        self.table = ui.table(
            rows=[],
            columns=self._all_columns(),
            row_key="key",
            selection="multiple",
            pagination={"rowsPerPage": 15, "sortBy": None},
            on_select=self._curves,
        )
        self.table.classes("w-full p-table").props(
            'flat dense :grid="Quasar.Screen.lt.md" no-data-label="No runs" no-results-label="No run matches"'
            ' rows-per-page-label="Runs on a page"'
            """ :selected-rows-label="n => n + (n == 1 ? ' run is chosen' : ' runs are chosen')" data-mark=runs"""
        )
        for name, template in SLOTS.items():
            self.table.add_slot(name, template)
        self._search.bind_value_to(self.table, "filter", forward=lambda text: text or "")
        self.table.on("hide", lambda event: self._toggle("hide", event.args))
        self.table.on("pin", lambda event: self._toggle("pin", event.args))

    def _all_columns(self) -> list[dict[str, Any]]:
        own = [table_column(f"set:{key}", escaped(key.rpartition(".")[2]), "left") for key in self._view.column]
        return [*COLUMNS, *own]

    async def _other_columns(self) -> None:
        self._keep(replace(self._view, column=tuple(map(str, self._columns.value or ()))))
        self.table.columns = self._all_columns()
        await self.refresh()

    async def _toggle(self, what: str, run: object) -> None:
        before: tuple[str, ...] = getattr(self._view, what)
        if isinstance(run, str):
            after = tuple(one for one in before if one != run) if run in before else (*before, run)
            self._keep(replace(self._view, **{what: after}))
            await self.refresh()

    async def refresh(self) -> None:
        """Shows what has changed."""
        read = await worker.io_bound(self._read)
        if read is None:  # the page is ending
            return
        found, rows, keys, begins = read
        if begins != self._begins:
            self._begins = begins
            self._starting.clear()
            with self._starting:
                for run, text in begins:
                    with ui.row().classes("gap-2 items-center"):
                        ui.link(escaped(run), address("/run", id=run)).classes("p-run")
                        quiet(text)
        self._reading.visible = False
        self._statuses = found
        self._hint.visible = not found
        self._content.visible = bool(found)
        if not self._chosen_once and found:
            self._chosen_once = True
            self.table.selected = [row for row in rows if row["key"] in self._view.run]
        shown = self._shown()[0]
        grouped = await worker.io_bound(self.curves.groups, shown) if self._view.bands else {}
        self._group_of = grouped or {}
        colors = self._colors()
        for row in rows:
            number = colors.get(row["key"])
            row["dot"] = "transparent" if number is None else PALETTE[number % len(PALETTE)]
        if rows != self.table.rows:
            self.table.rows = rows
            learning = sum(status.state == "learning" for status in found)
            self._counts.set_text(
                f"{len(found)} run{'s' * (len(found) != 1)}" + (f", {learning} learning" if learning else "")
            )
        if keys != self._columns.options:
            self._columns.set_options(keys)
        if found:
            await self._curves()

    def _read(self) -> tuple[list[RunStatus], list[dict[str, Any]], list[str], list[tuple[str, str]]]:
        """Reads the runs, in a thread: their rows, pinned ones first, the settings in which they differ, and runs that
        are about to begin."""
        found = self._index.statuses()
        view = self._view
        rows = []
        known: dict[str, set[str]] = {}
        for status in found:
            settings = short_settings(self._index.settings(status.run_id))
            for key, value in settings.items():
                known.setdefault(key, set()).add(value)
            row = row_of(status, self._index.notes(status.run_id))
            row |= {f"set:{key}": settings.get(key, "") for key in view.column}
            row |= {"hidden": status.run_id in view.hide, "pinned": status.run_id in view.pin}
            rows.append(row)
        rows.sort(key=lambda row: not row["pinned"])
        several = {key for key, values in known.items() if len(values) > 1}
        return found, rows, sorted({*several, *view.column}), starting(self._index.results)

    def _shown(self) -> tuple[list[str], list[str], str]:
        """Returns the runs of the chart, the chosen runs, and a note."""
        known = {status.run_id for status in self._statuses}
        chosen = [str(row.get("key")) for row in self.table.selected if row.get("key") in known]
        first = [run for run in self._first if run in known]
        default = first or first_runs([status.run_id for status in self._statuses])
        some = "Choose runs in the table to compare them"
        note = "" if chosen or first else f"{some}; these are the first {len(default)}."
        pinned = [run for run in self._view.pin if run in known]
        shown = dict.fromkeys([*pinned, *(chosen or default)])
        return [run for run in shown if run not in self._view.hide], chosen, note if len(known) > 1 else ""

    def _colors(self) -> dict[str, int]:
        """Returns the number of the color of each shown run: seeds that are drawn as one line share a color.

        A run keeps its color when other runs are shown or hidden: the color follows from its position among all runs,
        the oldest first, unless an older shown run has the same color.
        """
        shown = set(self._shown()[0])
        taken: dict[str, int] = {}
        oldest = sorted(self._statuses, key=lambda status: status.started or status.changed)
        for place, status in enumerate(oldest):
            group = self._group_of.get(status.run_id, status.run_id)
            if status.run_id not in shown or group in taken:
                continue
            free = [n % len(PALETTE) for n in range(place, place + len(PALETTE))]
            taken[group] = next((n for n in free if n not in taken.values()), free[0])
        return {run: taken[self._group_of.get(run, run)] for run in shown}

    async def _curves(self) -> None:
        shown, chosen, note = self._shown()
        self._keep(replace(self._view, run=tuple(chosen)))
        await self.curves.show(shown, self._colors(), note)
        await self._compare(chosen[:MOST_RUNS], len(chosen))

    async def _compare(self, chosen: list[str], count: int) -> None:
        """Shows the settings in which chosen runs differ; `count` are chosen in all."""
        if chosen == self._compared:
            return
        self._compared = chosen
        self._comparison.clear()
        if len(chosen) < 2:
            return
        found = await worker.io_bound(lambda: shown_differences([self._index.settings(run) for run in chosen]))
        if found is not None and self._compared == chosen:
            self._comparison.clear()
            more = f", of the first {len(chosen)} of {count} runs" if count > len(chosen) else ""
            with self._comparison, card(f"Settings that differ{more}"):
                difference_table(chosen, found)


def first_runs(runs: Sequence[str]) -> list[str]:
    """Returns the runs that are shown by default: the first few, with all seeds of each."""
    seeded = re.compile(r"(.+)-seed-\d+")
    names = {run: match[1] if (match := seeded.fullmatch(run)) else run for run in runs}
    chosen = {names[run] for run in runs[:UNCHOSEN]}
    return [run for run in runs if names[run] in chosen][:MOST_RUNS]


def difference_table(runs: list[str], found: list[Difference]) -> None:
    """Adds a table with a column for each run; its cells are text."""
    if not found:
        quiet("These runs have the same settings.")
        return
    columns = [table_column("key", "Setting", "left")]
    columns += [table_column(f"run{i}", escaped(run), "left", sortable=False) for i, run in enumerate(runs)]
    rows = [{"key": escaped(one.key), **{f"run{i}": escaped(v) for i, v in enumerate(one.values)}} for one in found]
    table = ui.table(rows=rows, columns=columns, row_key="key", pagination=20 if len(rows) > 20 else None)
    marked(table, "differences", "w-full p-table", "flat dense")
