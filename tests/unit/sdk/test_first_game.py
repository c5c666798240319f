"""The tutorial's own words are run."""

import importlib
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import palaestra
from palaestra import sdk
from palaestra.cli.main import main

PAGE = Path(__file__).parents[3] / "docs/tutorials/game-in-python.md"
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
FEW = {"behaviors.Catch.max_steps": 256, "behaviors.Catch.hyperparameters.buffer_size": 128}
PYTHON = [block for language, block in BLOCKS if language == "python"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "catch.py").write_text(PYTHON[0], "utf-8")
    (tmp_path / "catch.yaml").write_text(next(block for language, block in BLOCKS if language == "yaml"), "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    monkeypatch.delitem(sys.modules, "catch", raising=False)
    return tmp_path


def test_the_games_rule_always_catches(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["run", "python:catch:catch", "--brain", "heuristic", "--episodes", "40"]) == 0
    assert "1.000 ± 0.000" in capsys.readouterr().out


def test_the_game_is_recorded_as_the_page_says(folder: Path, capsys: pytest.CaptureFixture[str]):
    palaestra.train(
        "catch.yaml", env="python:catch:catch", run_id="catch", callbacks=[lambda summary: True], settings=FEW
    )
    assert re.search(r"next .*palaestra.record[ (]\"?catch", capsys.readouterr().out, re.DOTALL)
    assert "palaestra record catch --areas=1" in PAGE.read_text("utf-8")
    assert main(["record", "catch", "--areas=1", "--seconds=1"]) == 0
    with Image.open("results/catch/recording.gif") as gif:
        assert (gif.width, gif.is_animated) == (640, True)
        assert len(gif.convert("RGB").getcolors() or ()) >= 4  # white, gray, the drop, the paddle


def test_the_settings_train_the_game(folder: Path):
    result = palaestra.train(
        "catch.yaml",
        env="python:catch:catch",
        run_id="short",
        quiet=True,
        callbacks=[lambda summary: summary.step >= 20_000],
    )
    assert result.rewards["Catch"] > -0.4  # by chance it earns -0.6


def test_more_sensors_make_a_behavior_with_an_observation_each():
    found: dict[str, Any] = {}
    exec(PYTHON[1], found)

    @sdk.game
    def scouts(academy: sdk.Academy) -> None:
        academy.add(found["Scout"]()).camera.write(np.zeros((36, 36, 3), np.uint8))

    env = scouts()
    env.reset(0)
    assert sorted(obs.shape for obs in env.behaviors["Scout"].obs) == [(3, 36, 36), (6,), (10, 4), (28,)]
    env.close()
