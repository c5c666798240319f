"""Writes a run as a static page: recorded episodes of its checkpoints, its curve, its models, and its policy live."""

from __future__ import annotations

import base64
import html
import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import quote

import numpy as np
import yaml

from palaestra.core.display import readable
from palaestra.core.errors import ConfigError, RunError
from palaestra.core.files import explain, file_name, write_whole
from palaestra.core.metrics import REWARD
from palaestra.core.plugins import registry
from palaestra.core.versions import palaestra_version
from palaestra.runtime.logging.history import Points
from palaestra.runtime.monitor.run_index import RunIndex
from palaestra.runtime.play.run_models import env_name
from palaestra.runtime.playback.sources import PlaybackSource, steps_of
from palaestra.runtime.storage.run_folder import RunFolder
from palaestra.web.publishing.browser_libraries import compressed, onnxruntime_web, three_js
from palaestra.web.publishing.recorded_episodes import areas_for, packed, recorded

FILES = Path(__file__).parent / "files"
SHOWN = 6
"""Checkpoints that a page shows, the newest among them."""
AREAS = 9
PLAYABLE = ("3DBall", "Basic", "CartPole", "RingOut")
"""Environments whose rules are in `files/worlds.js`."""
WIDE, HIGH, EDGE = 1000, 220, 40
"""Numbers of the curve's picture."""


@dataclass(frozen=True, slots=True)
class StaticSite:
    """A page that was written."""

    folder: Path
    bytes: int
    steps: tuple[int | None, ...]
    plays: bool
    """Whether the policy plays in the browser."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SiteChoices:
    """Choices for a page."""

    steps: Sequence[int] = ()
    """Steps of the checkpoints; none: some, evenly spread."""
    areas: int | None = None
    """Areas that are shown; None: up to 9."""
    env: str | None = None
    """Environment to play in; None: the run's own."""
    play: bool = True
    """Whether the policy may play in the browser, where its world's rules are small."""


def publish(
    run: str,
    out: Path,
    choices: SiteChoices,
    *,
    results: Path = Path("results"),
    force: bool = False,
    trust: bool = False,
) -> StaticSite:
    """Writes the page of a run into a folder: `index.html` and what it needs.

    Raises RunError, EnvError or ConfigError.
    """
    if out.exists() and not force and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"{out} is there already: choose another folder with --out, or add --force")
    folder = RunFolder(results, run) if not Path(run).is_dir() else RunFolder(Path(run).parent, Path(run).name)
    folder.must_exist("publish it")
    source = PlaybackSource(folder.results, run=folder.run_id, env=choices.env, trust=trust)
    newest = source.models()
    world = env_name(newest, choices.env)
    chosen = _chosen(steps_of(folder), choices.steps)
    count = choices.areas or areas_for(source, AREAS)
    notes: list[str] = []
    episodes = []
    for step in chosen:
        try:
            episodes.append(packed(recorded(replace(source, step=step), count)))
        except RunError as error:
            notes.append(f"step {step:,} is left out: {error}" if step is not None else str(error))
    if not episodes:
        raise RunError(f"no model of {folder.path} can be shown: {'; '.join(notes)}")
    scripts = {
        "three": json.dumps(three_js()),
        "canvas": json.dumps((Path(__file__).parents[1] / "scene" / "canvas.js").read_text(encoding="utf-8")),
        "worldsText": json.dumps((FILES / "worlds.js").read_text(encoding="utf-8")),
        "episodes": json.dumps(episodes, separators=(",", ":")),
    }
    files = dict(newest.files)
    plays = choices.play and world in PLAYABLE and len(files) == 1
    if plays:
        try:
            libraries = onnxruntime_web()
        except ConfigError as error:
            plays = False
            notes.append(f"the policy does not play in the browser: {error}")
        else:
            kind = registry("envs").get(world)
            scripts |= {
                "world": json.dumps(world),
                "choices": json.dumps(sum(kind.spec.action.branches)),
                "ort": json.dumps(libraries["ort.wasm.bundle.min.mjs"].decode()),
                "wasm": json.dumps(compressed(libraries["ort-wasm-simd-threaded.wasm"])),
                "model": json.dumps(compressed(next(iter(files.values())).read_bytes())),
            }
    curve, places = _curve(folder, [one["step"] for one in episodes])
    scripts["places"] = json.dumps(places)
    with tempfile.TemporaryDirectory(dir=_made(out.absolute().parent)) as staging:
        place = Path(staging)
        try:
            (place / "assets").mkdir()
            for name, text in scripts.items():
                write_whole(place / "assets" / f"{name}.js", f"PALAESTRA.{name} = {text};\n".encode())
            for name, file in files.items():
                write_whole(place / f"{file_name(name)}.onnx", file.read_bytes())
            page = _page(folder, world, files, scripts, curve, newest.settings)
            write_whole(place / "index.html", page.encode())
            size = sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
            if out.exists():
                shutil.rmtree(out)
            shutil.copytree(place, out)
        except OSError as error:
            raise ConfigError(f"cannot write {out}: {explain(error)}") from error
    return StaticSite(out, size, tuple(one["step"] for one in episodes), plays, tuple(notes))


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot make {folder}: {explain(error)}") from error
    return folder


def _chosen(there: list[int], wanted: Sequence[int]) -> list[int | None]:
    """Returns the steps to show: those wanted, or some evenly spread, and the newest models (None)."""
    if wanted:
        nearest = [min(there, key=lambda step: abs(step - one)) for one in wanted] if there else []
        return [*dict.fromkeys(nearest)] or [None]
    earlier = there[:-1]
    at = np.unique(np.linspace(0, len(earlier) - 1, SHOWN - 1).round().astype(int)) if earlier else []
    return [*(earlier[i] for i in at), None]


def _page(
    folder: RunFolder, world: str, files: Mapping[str, Path], scripts: Mapping[str, str], curve: str, settings: Any
) -> str:
    kind = registry("envs").get(world) if world in registry("envs").names() else None
    summary = getattr(kind, "summary", "") or f"Agents of {world}"
    facts = [("environment", world), ("behaviors", ", ".join(files))]
    if settings is not None:
        facts.append(("trainer", ", ".join(sorted({block.trainer_type for block in settings.behaviors.values()}))))
    facts += _facts(folder)
    table = "".join(
        f"<tr><th scope='row'>{html.escape(key)}</th><td>{html.escape(value)}</td></tr>" for key, value in facts
    )
    tree = {} if settings is None else settings.model_dump(mode="json", exclude_defaults=True)
    tree.pop("checkpoint_settings", None)
    downloads = "".join(
        f"<a class='button' download href='{quote(file_name(name))}.onnx'>Download {html.escape(name)}.onnx</a>"
        for name in files
    )
    keys = {"3DBall": "a d w s", "CartPole": "a d", "Basic": "a d", "RingOut": "d e w q a z s c"}.get(world, "")
    pad = "".join(f"<button data-key='{key}'>{key.upper()}</button>" for key in keys.split())
    icon = "data:image/svg+xml;base64," + base64.b64encode(_icon().encode()).decode()
    return Template((FILES / "page.html").read_text(encoding="utf-8")).substitute(
        title=html.escape(f"{folder.run_id}"),
        summary=html.escape(summary),
        curve=curve,
        card=f"<table>{table}</table>",
        downloads=downloads,
        settings=html.escape(yaml.safe_dump(tree, sort_keys=False)),
        version=html.escape(palaestra_version()),
        scripts="\n".join(f"<script src='assets/{name}.js'></script>" for name in scripts),
        site=(FILES / "site.js").read_text(encoding="utf-8"),
        icon=icon,
        pad=pad,
    )


def _facts(folder: RunFolder) -> list[tuple[str, str]]:
    status = RunIndex(folder.results).status(folder.run_id)
    if status is None:
        return []
    facts = [("decisions", f"{status.step:,}")]
    facts += [
        (f"reward of {one.name}" if len(status.behaviors) > 1 else "reward", readable(one.reward))
        for one in status.behaviors
        if one.reward is not None
    ]
    return facts


def _curve(folder: RunFolder, steps: Sequence[int | None]) -> tuple[str, list[float]]:
    """Returns the reward over decisions as SVG, and where each shown step lies across it."""
    index = RunIndex(folder.results)
    curves = index.curves.of(folder.path)
    curves.refresh()
    found = [
        points for name in curves.tags if (points := curves.points(name, REWARD)) is not None and len(points.value)
    ]
    if not found:
        return "<p class='quiet'>This run has no rewards on record.</p>", [0.0 for _ in steps]
    last = max(float(points.step[-1]) for points in found)
    low = min(float(np.nanmin(points.value)) for points in found)
    high = max(float(np.nanmax(points.value)) for points in found)
    high += high == low

    def x(step: float) -> float:
        return round(EDGE + (WIDE - 2 * EDGE) * step / max(last, 1), 1)

    def y(value: float) -> float:
        return round(HIGH - 24 - (HIGH - 40) * (value - low) / (high - low), 1)

    def path(points: Points) -> str:
        pairs = [
            f"{x(a)},{y(b)}" for a, b in zip(points.step.tolist(), points.value.tolist(), strict=True) if np.isfinite(b)
        ]
        if len(pairs) == 1:
            across, up = pairs[0].split(",")
            return f"<circle class='curve' cx='{across}' cy='{up}' r='3'/>"
        return f"<polyline class='curve' points='{' '.join(pairs)}'/>"

    axis = HIGH - 24
    parts = [
        f"<line class='axis' x1='{EDGE}' x2='{WIDE - EDGE}' y1='{axis}' y2='{axis}'/>",
        f"<text x='4' y='{y(high) + 4}'>{readable(high)}</text><text x='4' y='{y(low) + 4}'>{readable(low)}</text>",
        f"<text x='{WIDE - EDGE}' y='{HIGH - 8}' text-anchor='end'>{last:,.0f} decisions</text>",
        *map(path, found),
        f"<line id='mark' x1='0' x2='0' y1='10' y2='{axis}'/>",
    ]
    title = "<title>Mean reward of an episode over decisions</title>"
    picture = f"<svg role='img' viewBox='0 0 {WIDE} {HIGH}'>{title}{''.join(parts)}</svg>"
    return picture, [x(last if step is None else min(step, last)) for step in steps]


@cache
def _icon() -> str:
    from palaestra.web.layout import ICON

    return ICON
