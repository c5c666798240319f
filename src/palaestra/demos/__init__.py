"""Demonstration files: recorded observations and actions of a person, a heuristic or a model, to learn from."""

from __future__ import annotations

from palaestra.demos.format import DemoMeta, DemoRecord, ReadTiming
from palaestra.demos.pairs import Episode, Pairs
from palaestra.demos.reader import Demo, read_demo
from palaestra.demos.record_columns import DemoColumns
from palaestra.demos.source import DemoSource
from palaestra.demos.writer import DemoWriter, free_path

__all__ = [
    "Demo",
    "DemoColumns",
    "DemoMeta",
    "DemoRecord",
    "DemoSource",
    "DemoWriter",
    "Episode",
    "Pairs",
    "ReadTiming",
    "free_path",
    "read_demo",
]
