"""The page `/`: a table of all runs, and curves of those that are chosen."""

from __future__ import annotations

from nicegui import run as worker
from nicegui import ui

from palaestra.core.display import escaped
from palaestra.runtime.monitor.run_facts import Difference, shown_differences
from palaestra.runtime.monitor.run_index import RunIndex
from palaestra.runtime.monitor.run_status import RunStatus
from palaestra.web.dashboard.curves_card import MOST_RUNS, CurvesCard
from palaestra.web.dashboard.run_page import add_run_page
from palaestra.web.dashboard.run_rows import COLUMNS, SLOTS, row_of
from palaestra.web.layout import card, dialog_of, marked, marked_label, page, quiet, table_column, while_open
from palaestra.web.site import Site
from palaestra.web.starting.start_card import StartCard

REFRESH = 1.0
"""Seconds between two looks at the files, while a browser is there."""
UNCHOSEN = 5
"""Runs whose curves are shown where none is chosen."""


def add_runs_page(site: Site, index: RunIndex) -> None:
    """Registers the pages of runs."""
    add_run_page(site, index)

    @ui.page("/")
    def runs() -> None:
        with page("Runs", "Runs"):
            RunsPage(site, index)


class RunsPage:
    """One browser's view of all runs."""

    def __init__(self, site: Site, index: RunIndex) -> None:
        self._index = index
        self._statuses: list[RunStatus] = []
        self._compared: object = None

        self._first = [site.run] if site.run else []
        """Run that the command named: its curves are shown until others are chosen."""
        self._empty(site)
        self._content = ui.column().classes("w-full gap-3")
        self._content.visible = False
        with self._content:
            with card():
                self._head(site)
                self._table()
            self.curves = CurvesCard(index)
            self._comparison = ui.column().classes("w-full")
        while_open(self.refresh, REFRESH)

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
            search = ui.input(placeholder="Search")
            self._search = marked(search, "search", "w-56", "dense outlined clearable aria-label=Search")
            with self._search.add_slot("prepend"):
                ui.icon("search").classes("text-base")

    def _table(self) -> None:
        self.table = ui.table(
            rows=[],
            columns=COLUMNS,
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

    async def refresh(self) -> None:
        """Shows what has changed."""
        found = await worker.io_bound(self._index.statuses)
        if found is None:  # the page is ending
            return
        self._reading.visible = False
        self._statuses = found
        self._hint.visible = not found
        self._content.visible = bool(found)
        rows = [row_of(status) for status in found]
        if rows != self.table.rows:
            self.table.rows = rows
            learning = sum(status.state == "learning" for status in found)
            self._counts.set_text(
                f"{len(found)} run{'s' * (len(found) != 1)}" + (f", {learning} learning" if learning else "")
            )
        if found:
            await self._curves()

    async def _curves(self) -> None:
        known = {status.run_id for status in self._statuses}
        chosen = [str(row.get("key")) for row in self.table.selected if row.get("key") in known]
        first = [run for run in self._first if run in known]
        default = first or [status.run_id for status in self._statuses][:UNCHOSEN]
        note = (
            "" if chosen or first else f"Choose runs in the table to compare them; these are the first {len(default)}."
        )
        await self.curves.show(chosen or default, note if len(known) > 1 else "")
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
