"""Settings of a run that learns from demonstrations."""

from __future__ import annotations

from pathlib import Path

import pytest

from palaestra.web.recorded.demo_files import DemoFacts, training_settings


@pytest.mark.parametrize(
    ("env", "recorded", "learned"),
    [
        ("Basic", "BasicLearning", "Basic"),
        ("3DBall", "3DBall", "3DBall"),
        ("WallJump", "SmallWallJump", "SmallWallJump"),
        ("StrikersVsGoalie", "Goalie", "Goalie"),
        ("python:mine:Game", "Mine", "Mine"),
    ],
)
@pytest.mark.parametrize("method", ["bc", "gail"])
def test_a_run_learns_the_environments_behavior_whatever_its_demonstration_calls_it(env, recorded, learned, method):
    settings = training_settings([DemoFacts(Path("one.demo"), recorded, 10, 70, 0.9)], env, method, 10_000)
    assert list(settings["behaviors"]) == [learned]
