"""Curves of a file that grows while it is read, and how they are made small."""

import json
from pathlib import Path

import numpy as np
import pytest

from palaestra.runtime.logging.history import Points
from palaestra.runtime.monitor.bounded_reading import ResultsFiles
from palaestra.runtime.monitor.curve_cache import CurveCache
from palaestra.runtime.monitor.metrics_reader import CHUNK, MOST_TAGS, MetricsReader
from palaestra.runtime.monitor.thinning import CurveView, kept, shown, smoothed


def line(step: float, elapsed: float, **values: object) -> str:
    return json.dumps({"behavior": "A", "step": step, "time": 0.0, "elapsed": elapsed, **values}) + "\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "metrics.jsonl"


def reader_of(file: Path) -> MetricsReader:
    return MetricsReader(ResultsFiles(file.parent), file)


def values(reader: MetricsReader, tag: str = "x") -> list[tuple[float, float, float]]:
    reader.refresh()
    points = reader.behaviors["A"].points(tag)
    return list(zip(points.step.tolist(), points.seconds.tolist(), points.value.tolist(), strict=True))


def test_half_a_line_waits_for_its_other_half(file: Path):
    reader = reader_of(file)
    reader.refresh()
    assert reader.behaviors == {}
    whole = line(2, 20.0, x=2.5)
    file.write_text(line(1, 10.0, x=1.5) + whole[:9])
    assert values(reader) == [(1, 10.0, 1.5)]
    version = reader.version
    with file.open("a") as out:
        out.write(whole[9:])
    assert values(reader) == [(1, 10.0, 1.5), (2, 20.0, 2.5)]
    assert reader.version == version + 1
    reader.refresh()
    assert reader.version == version + 1


def test_seconds_of_sessions_are_added(file: Path):
    file.write_text(line(1, 10.0, x=1) + line(2, 30.0, x=1) + line(3, 5.0, x=1) + line(4, 8.0, x=1))
    assert [seconds for _, seconds, _ in values(reader_of(file))] == [10.0, 30.0, 35.0, 38.0]


def test_a_file_that_became_shorter_or_another_one_is_read_anew(file: Path):
    reader = reader_of(file)
    file.write_text(line(1, 10.0, x=1) + line(2, 20.0, x=2))
    assert len(values(reader)) == 2
    file.write_text(line(1, 10.0, x=1))
    assert len(values(reader)) == 1
    other = file.with_name("new")
    other.write_text(line(7, 10.0, x=7) + line(8, 20.0, x=8) + line(9, 20.0, x=9))
    other.replace(file)
    assert [step for step, _, _ in values(reader)] == [7, 8, 9]


def test_lines_that_are_broken_or_too_long_are_left_out(file: Path):
    file.write_text(
        "nonsense\n"
        + line(1, 1.0, x=1)
        + '{"behavior": "A", "'
        + "y" * (2 * CHUNK)
        + '": 1}\n'
        + line(2, 2.0, x=2, y="no", z=True)
    )
    reader = reader_of(file)
    assert [step for step, _, _ in values(reader)] == [1, 2]
    assert list(reader.behaviors["A"].tags) == ["x"]


def test_tags_are_bounded(file: Path):
    file.write_text(line(1, 1.0, **{f"t{number}": number for number in range(MOST_TAGS + 10)}))
    reader = reader_of(file)
    reader.refresh()
    assert len(reader.behaviors["A"].tags) == MOST_TAGS
    assert reader.behaviors["A"].points("t1") is not None
    assert reader.behaviors["A"].points("no such tag") is None


def test_a_tag_that_comes_late_keeps_its_steps(file: Path):
    file.write_text(line(1, 1.0, x=1) + line(2, 2.0, late=5) + line(3, 3.0, x=3, late=6))
    reader = reader_of(file)
    assert [(step, value) for step, _, value in values(reader, "late")] == [(2, 5), (3, 6)]
    assert [(step, value) for step, _, value in values(reader)] == [(1, 1), (3, 3)]


def test_smoothing_starts_at_the_first_value():
    # weight 0.5: 2; (0.5 * (0.5 * 2) + 0.5 * 6) / (1 - 0.25) = 3.5 / 0.75
    assert smoothed(np.array([2.0, 6.0]), 0.5).tolist() == pytest.approx([2.0, 3.5 / 0.75])
    assert smoothed(np.array([2.0, 6.0]), 0.0).tolist() == [2.0, 6.0]


def test_thinning_keeps_both_ends_and_every_peak():
    curve = np.sin(np.arange(100_000) / 300.0)
    curve[54_321] = 9.0
    curve[77_777] = -9.0
    at = kept(curve, 1000)
    assert len(at) <= 1000
    assert {0, 99_999, 54_321, 77_777} <= set(at.tolist())
    assert (np.diff(at) > 0).all()
    assert kept(np.arange(7.0), 7).tolist() == list(range(7))


def test_what_is_not_finite_is_not_shown():
    points = Points(np.array([1.0, 2.0, 3.0]), np.array([3600.0, 7200.0, 9000.0]), np.array([1.0, np.nan, 0.123456789]))
    assert shown(points, CurveView()) == [[1, 1], [3, 0.123457]]
    assert shown(points, CurveView(over_time=True)) == [[1, 1], [2.5, 0.123457]]


def test_the_cache_forgets_the_curves_that_nobody_asked_for(tmp_path: Path):
    cache = CurveCache(ResultsFiles(tmp_path), 2)
    first = cache.of(tmp_path / "a")
    cache.of(tmp_path / "b")
    assert cache.of(tmp_path / "a") is first
    cache.of(tmp_path / "c")
    assert len(cache) == 2
    assert cache.of(tmp_path / "a") is first
