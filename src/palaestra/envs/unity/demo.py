"""Demonstration files: what a person, a rule or a model did, recorded for others to learn from."""

from __future__ import annotations

from palaestra.envs.unity.demo_format import DemoMeta, DemoRecord
from palaestra.envs.unity.demo_writer import DemoWriter, free_path

__all__ = ["DemoMeta", "DemoRecord", "DemoWriter", "free_path"]
