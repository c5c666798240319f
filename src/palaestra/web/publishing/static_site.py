"""Writes a run as a static page: recorded episodes of its checkpoints, its curve, its models, and its policy live."""

from __future__ import annotations

import base64
import gzip
import html
import json
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
from palaestra.core.errors import ConfigError, EnvError, RunError
from palaestra.core.files import explain, file_name, write_whole
from palaestra.core.metrics import REWARD
from palaestra.core.plugins import registry
from palaestra.core.specs import BehaviorSpec
from palaestra.core.versions import palaestra_version
from palaestra.runtime.environments.make import is_game
from palaestra.runtime.logging.history import Points
from palaestra.runtime.monitor.run_index import RunIndex
from palaestra.runtime.play.run_models import Models, env_name
from palaestra.runtime.playback.sources import PlaybackSource, steps_of
from palaestra.runtime.sharing.shareable import Cleaner
from palaestra.runtime.storage.run_folder import RunFolder
from palaestra.web.publishing.browser_libraries import compressed, onnxruntime_web, three_js
from palaestra.web.publishing.recorded_episodes import areas_for, packed, recorded

FILES = Path(__file__).parent / "files"
SHOWN = 6
"""Most checkpoints that a page shows, the newest among them."""
AREAS = 9
PLAYABLE = {
    "3DBall": "a d w s",
    "Basic": "a d",
    "CartPole": "a d",
    "GridWorld": "w a s d",
    "RingOut": "d e w q a z s c",
}
"""Environments whose rules are in `files/worlds.js`, and the keys with which a person plays them."""
LARGE = 3_000_000
"""Bytes from which on a model is not also put into a script: it only plays if a web server delivers its file."""
MANIFEST = "assets/files.json"
"""Name of the file that lists a page's files, so that another page can replace them."""
WIDE, HIGH, EDGE = 1000, 200, 6
"""Width, height and margin of the curve's picture in pixels."""


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
    """Steps of the checkpoints; empty: some, evenly spaced."""
    areas: int | None = None
    """Number of areas that are shown; None: up to 9."""
    env: str | None = None
    """Environment to play in; None: the run's own."""
    play: bool = True
    """Whether the policy may play in the browser, if its world has small rules."""


def publish(
    run: str,
    out: Path,
    choices: SiteChoices,
    *,
    results: Path = Path("results"),
    force: bool = False,
    trust: bool = False,
) -> StaticSite:
    """Writes the page of a run into a folder: `index.html` and its other files.

    Raises RunError, EnvError or ConfigError.
    """
    if choices.areas is not None and choices.areas < 1:
        raise ConfigError(f"--areas is {choices.areas}; expected 1 or more")
    if any(step < 0 for step in choices.steps):
        raise ConfigError(f"--steps has {min(choices.steps):,}; expected steps of checkpoints, 0 or more")
    _must_be_free(out, force)
    libraries = {"three": three_js()}  # without NiceGUI nothing is played first
    there = Path(run).resolve()
    by_id = RunFolder(results, run)
    folder = RunFolder(there.parent, there.name) if there.is_dir() and not by_id.path.is_dir() else by_id
    folder.must_exist("publish it")
    source = PlaybackSource(folder.results, run=folder.run_id, env=choices.env, trust=trust)
    newest = source.models()
    world = env_name(newest, choices.env)
    if is_game(world):
        raise EnvError(f"{world} draws in its own window: a page shows environments that describe their solids")
    count = choices.areas or areas_for(source, AREAS)
    notes: list[str] = []
    episodes = []
    for step in _chosen(steps_of(folder), choices.steps):
        try:
            episodes.append(packed(recorded(replace(source, step=step), count)))
        except RunError as error:
            notes.append(f"step {step:,} is left out: {error}" if step is not None else str(error))
    if not episodes:
        raise RunError(f"no model of {folder.path} can be shown: {'; '.join(notes)}")
    curve, places = _curve(folder, [one["step"] for one in episodes])
    scripts: dict[str, Any] = {
        **libraries,
        "canvas": (Path(__file__).parents[1] / "scene" / "canvas.js").read_text(encoding="utf-8"),
        "worldsText": (FILES / "worlds.js").read_text(encoding="utf-8"),
        "episodes": episodes,
        "places": places,
    }
    plays = choices.play and _can_play(world, newest)
    if plays:
        try:
            scripts |= _live(world, *next(iter(newest.files.items())))
        except ConfigError as error:
            plays = False
            notes.append(f"the policy does not play in the browser: {error}")
    if "modelFile" in scripts:
        notes.append("its model is large: the policy plays where the page is on a host, not from its folder")
    page = _page(folder, world, newest, list(scripts), curve)
    size = _write(out, page, scripts, newest.files)
    return StaticSite(out, size, tuple(one["step"] for one in episodes), plays, tuple(notes))


def _must_be_free(out: Path, force: bool) -> None:
    """Raises ConfigError for a folder that is not empty; `force` replaces only a published page."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    published = (out / "index.html").is_file() and (out / "assets" / "episodes.js").is_file()
    if not published:
        raise ConfigError(f"{out} is there already and is no published page: choose another folder with --out")
    if not force:
        raise ConfigError(f"{out} is there already: choose another folder with --out, or add --force to replace it")


def _can_play(world: str, models: Models) -> bool:
    """Whether the browser version of a run's environment equals the trained one, and fits its model."""
    if world not in PLAYABLE or len(models.files) != 1:
        return False
    if models.settings is not None and models.settings.environment_parameters:
        return False
    (policy,) = models.policies().values()
    return list(policy.obs_shapes) == [one.shape for one in _spec(world).obs] and not policy.memory_size


@cache
def _spec(world: str) -> BehaviorSpec:
    """Returns observations and actions of a world in `PLAYABLE`, without options."""
    env = registry("envs").get(world)(1)
    try:
        (spec,) = env.behaviors.values()
    finally:
        env.close()
    return spec


def _live(world: str, name: str, model: Path) -> dict[str, Any]:
    """Returns the data that a behavior's policy needs to play in the browser. Raises ConfigError."""
    library = onnxruntime_web()
    content, wasm = model.read_bytes(), library["ort-wasm-simd-threaded.wasm"]
    spec = _spec(world)
    return {
        "world": world,
        "shapes": [one.shape for one in spec.obs],
        "choices": sum(spec.action.branches),
        "ort": library["ort.wasm.bundle.min.mjs"].decode(),
        **(
            {"wasm": compressed(wasm), "model": compressed(content)}
            if len(content) < LARGE
            else {"wasm": gzip.compress(wasm, mtime=0), "modelFile": f"{file_name(name)}.onnx"}
        ),
    }


def _write(out: Path, page: str, scripts: Mapping[str, Any], models: Mapping[str, Path]) -> int:
    """Writes all files into a temporary folder within `out`, then moves them to their places, the page last. Files of
    an earlier page that this one lacks are deleted; all else stays. Returns the page's bytes. Raises ConfigError."""
    files: dict[str, bytes] = {}
    for name, value in scripts.items():
        if isinstance(value, bytes):  # in a file of its own, whose ending no host unpacks
            files[f"assets/{name}.bin"] = value
        told = {"file": f"assets/{name}.bin"} if isinstance(value, bytes) else value
        files[f"assets/{name}.js"] = f"PALAESTRA.{name} = {json.dumps(told, separators=(',', ':'))};\n".encode()
    files |= {f"{file_name(name)}.onnx": file.read_bytes() for name, file in models.items()}
    files["index.html"] = page.encode()
    files = {MANIFEST: json.dumps([*files]).encode(), **files}
    try:
        before = _files_of(out)
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=out) as staging:
            (Path(staging) / "assets").mkdir()
            for name, content in files.items():
                write_whole(Path(staging) / name, content)
            (out / "assets").mkdir(exist_ok=True)
            for name in files:
                (Path(staging) / name).replace(out / name)
        for name in before:
            if name not in files:
                (out / name).unlink(missing_ok=True)
        return sum(len(content) for content in files.values())
    except OSError as error:
        raise ConfigError(f"cannot write {out}: {explain(error)}") from error


def _files_of(page: Path) -> list[str]:
    """Returns the files of a published page by its own list; empty without such a list."""
    try:
        listed: Any = json.loads((page / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    names = [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
    return [name for name in names if name in (Path(name).name, f"assets/{Path(name).name}")]


def _chosen(there: list[int], wanted: Sequence[int]) -> list[int | None]:
    """Returns the steps to show: those wanted, or some evenly spread, and the newest models (None)."""
    if wanted:
        nearest = [min(there, key=lambda step: abs(step - one)) for one in wanted] if there else []
        return [*dict.fromkeys(nearest)] or [None]
    earlier = there[:-1]
    at = np.unique(np.linspace(0, len(earlier) - 1, SHOWN - 1).round().astype(int)) if earlier else []
    return [*(earlier[i] for i in at), None]


def _page(folder: RunFolder, world: str, models: Models, scripts: Sequence[str], curve: str) -> str:
    from palaestra.web.layout import ICON

    files, settings = models.files, models.settings
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
    tree = Cleaner().tree(tree)  # without paths of this machine, and secrets
    downloads = "".join(
        f"<a class='button' download href='{quote(file_name(name))}.onnx'>Download {html.escape(name)}.onnx</a>"
        for name in files
    )
    pad = "".join(f"<button data-key='{key}'>{key.upper()}</button>" for key in PLAYABLE.get(world, "").split())
    icon = "data:image/svg+xml;base64," + base64.b64encode(ICON.encode()).decode()
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
    middle = high == low  # a flat curve lies in the middle

    def x(step: float) -> float:
        return round(WIDE * step / max(last, 1), 1)

    def y(value: float) -> float:
        return HIGH / 2 if middle else round(HIGH - EDGE - (HIGH - 2 * EDGE) * (value - low) / (high - low), 1)

    def path(points: Points) -> str:
        pairs = [
            f"{x(a)} {y(b)}" for a, b in zip(points.step.tolist(), points.value.tolist(), strict=True) if np.isfinite(b)
        ]
        kind, rest = ("curve point", " h0") if len(pairs) == 1 else ("curve", "")
        return f"<path class='{kind}' d='M{' L'.join(pairs)}{rest}'/>" if pairs else ""

    lines = f"{''.join(map(path, found))}<line id='mark' x1='0' x2='0' y1='0' y2='{HIGH}'/>"
    title = "<title>Mean reward of an episode over decisions</title>"
    picture = f"<svg role='img' viewBox='0 0 {WIDE} {HIGH}' preserveAspectRatio='none'>{title}{lines}</svg>"
    scale = f"<span>{readable(high)}</span><span>{readable(low)}</span>"
    below = f"<span>0</span><span>{last:,.0f} decisions</span>"
    chart = f"<div class='chart'><div class='scale'>{scale}</div>{picture}<div class='below'>{below}</div></div>"
    return chart, [x(last if step is None else min(step, last)) for step in steps]
