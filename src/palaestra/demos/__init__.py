"""Demonstration files: recorded observations and actions of a person, a heuristic or a model, to learn from."""

from __future__ import annotations

from palaestra.demos.format import DemoMeta as DemoMeta
from palaestra.demos.format import DemoRecord as DemoRecord
from palaestra.demos.format import ReadTiming as ReadTiming
from palaestra.demos.pairs import Episode as Episode
from palaestra.demos.pairs import Pairs as Pairs
from palaestra.demos.reader import Demo as Demo
from palaestra.demos.reader import read_demo as read_demo
from palaestra.demos.record_columns import DemoColumns as DemoColumns
from palaestra.demos.source import DemoSource as DemoSource
from palaestra.demos.writer import DemoWriter as DemoWriter
from palaestra.demos.writer import free_path as free_path
