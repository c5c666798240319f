"""The gallery and the page of benchmarks are made by scripts; these tests say when they are out of date."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from PIL import Image
from source import ROOT

from palaestra.core.plugins import registry
from palaestra.envs.builtin.agreement import agreements

PICTURES = ROOT / "docs" / "images" / "gallery"
LONGEST = 8.1
"""Seconds of a moving picture, at most."""
LARGEST = 600_000
"""Bytes of a moving picture, at most."""


@pytest.fixture
def gallery(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script that makes the gallery."""
    monkeypatch.syspath_prepend(ROOT / "docs")
    return import_module("make_gallery")


@pytest.fixture
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script that makes the page of benchmarks."""
    monkeypatch.syspath_prepend(ROOT / "docs")
    return import_module("make_benchmarks")


def test_the_gallery_has_a_page_for_each_built_in_environment(gallery: ModuleType):
    built_in = {name for name in registry("envs").names() if is_ours(registry("envs").get(name))}
    assert set(gallery.sentences()) == built_in
    assert set(agreements()) <= built_in


def test_the_pages_of_the_gallery_are_up_to_date(gallery: ModuleType):
    found = {path.name: path.read_text(encoding="utf-8") for path in gallery.FOLDER.glob("*.md")}
    stale = [name for name, text in gallery.pages().items() if found.pop(name, None) != text]
    assert (stale, found) == ([], {}), "write them anew with: python docs/make_gallery.py"


def test_the_curves_of_the_gallery_are_drawn_from_their_measurements(gallery: ModuleType):
    curves: Any = gallery.curves
    names = [path.stem for path in curves.CURVES.glob("*.csv")]
    stale = [name for name in names if curves.drawn_from(name) != curves.source_of(name, gallery.bar_of(name))]
    assert stale == [], "draw them anew with: python docs/make_gallery.py"
    assert {path.stem.removesuffix("-curve") for path in PICTURES.glob("*.png")} == set(names)


def test_each_environment_of_the_gallery_has_a_small_moving_picture(gallery: ModuleType):
    shown = {name for name, said in gallery.sentences().items() if "alias" not in said}
    films = {path.stem: path for path in PICTURES.glob("*.webp")}
    assert set(films) == shown, "film them with: python docs/make_gallery.py --film NAME"
    for name, path in films.items():
        assert path.stat().st_size < LARGEST, name
        assert 5.0 <= seconds_of(path) <= LONGEST, name


def test_the_page_of_benchmarks_is_up_to_date(benchmarks: ModuleType):
    text = benchmarks.PAGE.read_text(encoding="utf-8")
    assert text == benchmarks.page(), "write it anew with: python docs/make_benchmarks.py"


def test_each_benchmark_says_how_it_was_measured(benchmarks: ModuleType):
    found = benchmarks.data()
    for one in found["benchmarks"]:
        assert one["machine"] in found["machines"], one["name"]
        assert re.match(r"\d+ \w+ 20\d\d", one["measured"]), one["name"]
        assert all(one[key] for key in ("commands", "tuned", "sizes", "versions")), one["name"]
        assert {len(row) for row in one["rows"]} == {len(one["columns"])}, one["name"]


def test_each_ratio_is_of_figures_in_its_benchmark(benchmarks: ModuleType):
    found = benchmarks.data()
    tables = {one["name"]: " ".join(cell for row in one["rows"] for cell in row) for one in found["benchmarks"]}
    for ratio in found["ratios"]:
        figures = set(re.findall(r"[\d,.]*\d", tables[ratio["benchmark"]]))
        assert {f"{ratio['ours']:,}", f"{ratio['other']:,}"} <= figures, ratio["what"]


def is_ours(factory: Any) -> bool:
    """Whether an environment is built in, and no plug-in."""
    return factory.__module__.startswith("palaestra.envs.builtin.")


def seconds_of(path: Path) -> float:
    """Returns how long a moving picture is."""
    with Image.open(path) as film:
        total = 0
        for frame in range(getattr(film, "n_frames", 1)):
            film.seek(frame)
            film.load()
            total += film.info["duration"]
    return total / 1000


def test_the_figures_of_the_readme_are_those_of_the_benchmarks():
    data = yaml.safe_load((ROOT / "docs" / "benchmarks.yaml").read_text(encoding="utf-8"))
    table = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Measured")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) == len(data["ratios"]) <= 5
    for row, ratio in zip(rows, data["ratios"], strict=True):
        more, less = sorted((ratio["ours"], ratio["other"]), reverse=True)
        times = f"{more / less:.0f}" if more / less >= 10 else f"{more / less:.1f}"
        assert {f"{ratio['ours']:,}", f"{ratio['other']:,}", times} <= set(re.findall(r"[\d,.]*\d", row)), row
        assert ratio["who"] in row
