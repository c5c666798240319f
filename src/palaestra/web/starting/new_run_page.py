"""The page `/new`: the settings of a run as a form and as YAML, and its start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import yaml
from nicegui import run as worker
from nicegui import ui
from nicegui.elements.mixins.value_element import ValueElement
from nicegui.events import ValueChangeEventArguments

from palaestra.core.display import escaped, escaped_lines, indented
from palaestra.core.errors import ConfigError, PalaestraError, RunError
from palaestra.core.plugins import registry
from palaestra.runtime.monitor.run_list import find_runs
from palaestra.runtime.settings import load
from palaestra.runtime.settings.yaml_file import parse
from palaestra.runtime.storage.run_folder import check_run_id
from palaestra.web.layout import address, card, complain, icon_button, marked, page, quiet
from palaestra.web.site import Site
from palaestra.web.starting.first_settings import free_name, must_be_allowed, settings_for, settings_of_run
from palaestra.web.starting.setting_rows import UNSET, SettingRow, as_text, put, rows_of, value_at
from palaestra.web.starting.setting_rows import Path as SettingPath
from palaestra.web.starting.started_runs import start_run

MOST_SEEDS = 20
FIRST = "3DBall"
"""The environment that is chosen at first: it learns within seconds."""
USUAL = (
    "hyperparameters.learning_rate",
    "hyperparameters.batch_size",
    "hyperparameters.buffer_size",
    "network_settings.hidden_units",
    "network_settings.num_layers",
    "max_steps",
)
"""Settings that are shown first even at their defaults: the ones that people change most."""
AREAS = "16"
"""Most areas that are shown of a run that was just started."""


def add_new_run_page(site: Site) -> None:
    """Registers the page."""

    @ui.page("/new")
    def new(env: str = "", run: str = "") -> None:
        with page("New run", "Runs"):
            try:
                if run and run not in find_runs(site.results):
                    raise PalaestraError(f"There is no run '{run}' in {site.results}.")
                origin = site.results / run if run else None
                tree = settings_for(env or "3DBall") if origin is None else settings_of_run(origin)
            except PalaestraError as error:
                with card("Not opened"):
                    ui.label(escaped(str(error))).classes("p-message").props("data-mark=refused")
                    ui.link("All runs", "/")
                return
            NewRunPage(site, tree, origin, run or env or "3DBall")


@dataclass(frozen=True, slots=True)
class Line:
    """The line of one setting: its name, its control and the button that resets it."""

    name: ui.label
    control: ValueElement[Any]
    reset: ui.button


class NewRunPage:
    """One browser's form. The tree has the content of the YAML text; the rows show and change it."""

    def __init__(self, site: Site, tree: dict[str, Any], origin: Path | None, name: str) -> None:
        self._site = site
        self._tree = tree
        self._origin = origin
        self._search = ""
        self._first: set[SettingPath] | None = None
        """Settings that are shown first, so that a changed one stays in its place; None: chosen at the next look."""
        self._open = False
        self._lines: dict[SettingPath, Line] = {}
        """The line of each setting that is shown."""
        self._filling = False
        """Whether the page itself changes what a line shows."""
        with ui.row().classes("w-full items-center gap-3"):
            self._name = ui.input("Name", value=free_name(site.results, name))
            marked(self._name, "new-name", "w-56", "dense outlined")
            self._seeds = ui.number("Seeds", value=1, min=1, max=MOST_SEEDS, format="%d")
            marked(self._seeds, "new-seeds", "w-24", "dense outlined").tooltip(
                "Number of trainings with the same settings"
            )
            devices = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
            self._device = ui.select({"": "Device: chosen automatically", **{one: one for one in devices}}, value="")
            marked(self._device, "new-device", "w-56", 'dense outlined aria-label="Device"')
            ui.space()
            self._button = ui.button("Start", icon="play_arrow", on_click=self._start)
            marked(self._button, "new-start", props="no-caps unelevated")
        self._problem = marked(ui.label(), "new-problem", "p-message text-sm text-negative")
        with ui.element("div").classes("p-columns"):
            with ui.column().classes("gap-3"), card("Settings"):
                search = ui.input(placeholder="Search", on_change=lambda event: self._find(str(event.value or "")))
                marked(search, "new-search", "w-full", "dense outlined clearable aria-label=Search")
                self._rows()
            with ui.column().classes("gap-3"), card("As YAML"):
                self._yaml = ui.textarea(value=self._text(), on_change=self._edited)
                shape = 'outlined autogrow debounce=600 spellcheck=false aria-label="Settings as YAML"'
                marked(self._yaml, "new-yaml", "w-full p-log", shape)

    def _text(self) -> str:
        return yaml.safe_dump(self._tree, sort_keys=False)

    def _find(self, text: str) -> None:
        self._search = plain(text)
        self._first = None
        self._open = bool(self._search)
        self._rows.refresh()

    @ui.refreshable_method
    def _rows(self) -> None:
        blocks = self._tree.get("behaviors")
        names = [str(name) for name in blocks] if isinstance(blocks, Mapping) else []
        if not names:
            quiet("Every behavior has the default settings; name one under behaviors in the YAML to change it.")
        rows = {name: rows_of(self._tree, name) for name in names}
        if self._first is None:
            every = [row for found in rows.values() for row in found]
            given = {row.path for row in every if value_at(self._tree, row.path) is not UNSET}
            self._first = given | {row.path for row in every if row.name in USUAL}
        for name, every in rows.items():
            if len(names) > 1:
                ui.label(escaped(name)).classes("text-sm font-medium")
            found = [row for row in every if self._search in plain(f"{row.name} {row.sentence}")]
            if not found:
                quiet("No setting has these words in its name or its description.")
            for row in found:
                if row.path in self._first:
                    self._row(row)
            if rest := [row for row in found if row.path not in self._first]:
                with ui.expansion(f"{len(rest)} more", value=self._open, on_value_change=self._unfold).classes(
                    "w-full"
                ):
                    for row in rest:
                        self._row(row)

    def _unfold(self, event: ValueChangeEventArguments) -> None:
        self._open = bool(event.value)

    def _row(self, row: SettingRow) -> None:
        value = value_at(self._tree, row.path)
        shown = row.default if value is UNSET else value
        with ui.element("div").classes("p-setting"):
            with ui.column().classes("gap-0 min-w-0"):
                name = ui.label(row.name).classes("text-sm p-message")
                quiet(row.sentence).classes("text-xs p-message")
            control = self._control(row, shown)
            control.props["aria-label"] = row.name
            marked(control, f"set-{row.name}")
            default = as_text(row.default) or "unset"
            reset = icon_button("restart_alt", f"Reset {row.name} to {default}", partial(self._set, row, UNSET))
        self._lines[row.path] = Line(name, control, reset)
        self._show(row)

    def _show(self, row: SettingRow) -> None:
        """Shows the value of a setting in its line, and whether it is given."""
        value = value_at(self._tree, row.path)
        line = self._lines[row.path]
        line.name.classes(**{"remove" if value is UNSET else "add": "font-medium"})
        line.reset.set_visibility(value is not UNSET)
        self._filling = True
        try:
            line.control.set_value(shown_as(row, row.default if value is UNSET else value))
        finally:
            self._filling = False

    def _control(self, row: SettingRow, shown: Any) -> ValueElement[Any]:
        if row.kind in ("switch", "section"):
            on = (lambda on: {} if on else UNSET) if row.kind == "section" else bool
            return ui.switch(value=shown_as(row, shown), on_change=lambda event: self._set(row, on(event.value)))
        if row.kind == "choice":
            choices = list(dict.fromkeys([*row.choices, as_text(row.default), as_text(shown)]))
            picked = ui.select(choices, value=as_text(shown), on_change=lambda event: self._set(row, event.value))
            return picked.props("dense outlined options-dense")
        field = ui.input(value=as_text(shown)).props("dense outlined")
        field.on("change", lambda: self._typed(row, str(field.value)))
        return field

    def _typed(self, row: SettingRow, text: str) -> None:
        try:
            self._set(row, parse(text).tree if text.strip() else UNSET)
        except ConfigError:
            self._set(row, text)

    def _set(self, row: SettingRow, value: Any) -> None:
        if self._filling:
            return
        put(self._tree, row.path, value)
        self._yaml.set_value(self._text())
        self._check()
        if row.kind == "section" or row.path[-1] == "trainer_type":
            self._rows.refresh()  # other settings belong to it
        else:
            self._show(row)  # the focus, and what is typed elsewhere, stays

    def _edited(self) -> None:
        if self._read():
            self._check()
            self._rows.refresh()

    def _read(self) -> bool:
        """Takes the settings from the YAML, if they have changed and are valid. Returns whether it has."""
        text = str(self._yaml.value or "")
        if text == self._text():
            return False
        try:
            tree = parse(text).tree
            if not isinstance(tree, dict):
                raise ConfigError("expected sections such as behaviors and env_settings")
        except ConfigError as error:
            self._problem.set_text(escaped_lines(indented(f"As YAML: {error}")))
            return False
        self._tree = tree
        return True

    def _check(self) -> bool:
        """Shows what is wrong with the settings. Returns whether nothing is."""
        try:
            load(self._tree, own_code=False)
            problem = ""
        except PalaestraError as error:
            problem = str(error)
        self._problem.set_text(escaped(problem) if "\n" not in problem else problem)
        return not problem

    async def _start(self) -> None:
        name = str(self._name.value or "").strip()
        seeds = whole(self._seeds.value)
        if seeds is None or not 1 <= seeds <= MOST_SEEDS:
            complain(f"Seeds: expected a whole number from 1 to {MOST_SEEDS}")
            return
        if not name:
            complain("Give it a name")
            return
        if not self._read() and str(self._yaml.value or "") != self._text():
            complain("The settings cannot be read: see the message above them")
            return
        flags = [f"--torch-device={self._device.value}"] if self._device.value else []
        self._button.disable()
        try:
            check_run_id(name)
            if (self._site.results / name).exists():
                raise RunError(f"There is a run '{name}' already: choose another name")
            must_be_allowed(self._tree, self._origin, self._site.trust)
            await worker.io_bound(start_run, self._site.results, name, self._tree, flags, seeds)
        except PalaestraError as error:
            complain(escaped_lines(str(error).replace("--run-id: ", "Name: ")))
            self._button.enable()
            return
        ui.navigate.to(address("/watch", run=name, areas=AREAS) if seeds == 1 else "/")


def shown_as(row: SettingRow, value: Any) -> Any:
    """Returns a setting's value in the form that its control needs."""
    if row.kind == "switch":
        return bool(value)
    return isinstance(value, Mapping) if row.kind == "section" else as_text(value)


def plain(text: str) -> str:
    """Returns a text in the form used for searching: `learning_rate` has the words "learning rate"."""
    return text.lower().replace("_", " ")


def whole(sent: object) -> int | None:
    """Returns a whole number that a browser has sent; None for anything else."""
    return int(sent) if isinstance(sent, int | float) and sent == sent // 1 else None


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
    """Starts a run in a built-in environment with its shipped settings, under an unused name, and returns the name.
    Raises ConfigError or RunError."""
    run_id = free_name(results, env)
    start_run(results, run_id, settings_for(env))
    return run_id
