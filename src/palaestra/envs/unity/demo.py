"""Demonstration files: what a person, a rule or a model did, recorded for others to learn from."""

from __future__ import annotations

from palaestra.envs.unity.demo_columns import Columns
from palaestra.envs.unity.demo_format import DemoMeta, DemoRecord, Timing
from palaestra.envs.unity.demo_pairs import Episode, Pairs
from palaestra.envs.unity.demo_reader import Demo, read_demo, rewrite
from palaestra.envs.unity.demo_writer import DemoWriter, free_path

__all__ = ["Columns", "Demo", "DemoMeta", "DemoRecord", "DemoWriter", "Episode", "Pairs", "Timing", "free_path", "read_demo", "rewrite"]
