"""The page `/demos`: demonstrations, and training from them."""

from __future__ import annotations

from nicegui import run as worker
from nicegui import ui

from palaestra.core.errors import PalaestraError
from palaestra.core.plugins import registry
from palaestra.web.layout import address, card, complain, marked, marked_label, page, quiet, table_column
from palaestra.web.recorded.demo_files import FOLDER, METHODS, DemoFacts, demo_list, training_settings
from palaestra.web.site import Site
from palaestra.web.starting.started_runs import start_run

COLUMNS = [
    table_column("file", "File", "left"),
    table_column("behavior", "Behavior", "left"),
    table_column("episodes", "Episodes"),
    table_column("decisions", "Decisions"),
    table_column("mean", "Mean reward"),
]


def add_demos_page(site: Site) -> None:
    """Registers the page."""

    @ui.page("/demos")
    def demos() -> None:
        with page("Demonstrations", "Demonstrations"):
            place = ui.column().classes("w-full gap-3")
            with place:
                quiet("Reading the demonstrations...")

            async def read() -> None:  # after the page was sent: large files may take longer than NiceGUI allows
                found = await worker.io_bound(demo_list, site.results)
                if found is None:  # the page is ending
                    return
                place.clear()
                with place:
                    DemosPage(site, found) if found else _none_yet(site)

            ui.timer(0.0, read, once=True)


def _none_yet(site: Site) -> None:
    with card("No demonstrations yet"):
        quiet(f"Record some on the Play page; they are stored in {site.results / FOLDER}.")
        ui.button("Play and record", on_click=lambda: ui.navigate.to("/play")).props("dense no-caps")


class DemosPage:
    """One browser's list, with the form that starts a run."""

    def __init__(self, site: Site, found: list[DemoFacts]) -> None:
        self._site = site
        self._found = found
        rows = [
            {
                "id": number,
                "file": str(one.path.relative_to(site.results)),
                "behavior": one.problem or one.behavior,
                "episodes": one.episodes,
                "decisions": one.decisions,
                "mean": "" if one.mean is None else f"{one.mean:.3f}",
            }
            for number, one in enumerate(found)
        ]
        with card("Demonstrations"):
            self._table = ui.table(rows=rows, columns=COLUMNS, row_key="id", selection="multiple")
            count = """:selected-rows-label="n => n + (n == 1 ? ' file is chosen' : ' files are chosen')\""""
            marked(self._table, "demos", "w-full p-table", f"flat dense {count}").on_select(lambda _: self._suggest())
        with card("Learn from them"):
            quiet("Choose files of one behavior above.")
            with ui.row().classes("w-full items-center gap-3"):
                environments = sorted(registry("envs").names())
                self._env = ui.select(environments, label="Environment", with_input=True)
                marked(self._env, "env", "p-select", "dense outlined")
                self._method = ui.select(METHODS, value="bc", label="Method")
                marked(self._method, "method", "p-select", "dense outlined")
                self._steps = ui.number("Decisions", value=100_000, min=1000)
                marked(self._steps, "steps", "w-36", "dense outlined")
                self._run = marked(ui.input("Run"), "run-id", "w-64", "dense outlined")
                marked(ui.button("Start", on_click=self._start), "start", props="no-caps")
            self._command = marked_label("command", "p-quiet text-sm p-message")

    def _chosen(self) -> list[DemoFacts]:
        return [self._found[row["id"]] for row in self._table.selected]

    def _suggest(self) -> None:
        chosen = self._chosen()
        if not chosen:
            return
        behavior = chosen[0].behavior
        known = registry("envs").names()
        # BasicLearning is Basic's
        named = [name for name in known if behavior.startswith(name) or behavior.endswith(name)]
        likely = max(named, key=len, default=None) or next((name for name in known if name.startswith(behavior)), None)
        if likely is not None and not self._env.value:
            self._env.set_value(likely)
        if not self._run.value:
            self._run.set_value(f"{behavior}-from-demos")

    def _start(self) -> None:
        chosen = self._chosen()
        env = self._env.value
        run_id = (self._run.value or "").strip()
        if not chosen or not env or not run_id:
            complain("Choose files in the table, an environment, and a name for the run")
            return
        try:
            settings = training_settings(chosen, env, self._method.value, int(self._steps.value or 100_000))
            command = start_run(self._site.results, run_id, settings)
        except PalaestraError as error:
            complain(str(error))
            return
        self._command.set_text(f"Started: {' '.join(command)}")
        ui.navigate.to(address("/run", id=run_id))  # which says how far it is
