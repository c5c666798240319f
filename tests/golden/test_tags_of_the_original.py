"""A run writes every tag that ML-Agents writes, under the same name; `make_tags.py` read these from its event files."""

import json
from pathlib import Path

import make_tags
import pytest
import sdk_games

import palaestra
from palaestra.runtime.logging.history import read_history, tags
from palaestra.runtime.settings import load
from palaestra.runtime.settings.criteria import metrics_of
from palaestra.sdk.env import SdkEnv

OURS = {
    "Explained Variance", "KL Divergence", "Clip Fraction", "Gradient Norm", "Actions At Bounds",
    "Learning Team", "Snapshots", "Swaps", "Team Changes", "Ghost Steps", "Opponent ELO Mean", "Opponent ELO Deviation",
    "Snapshots Beaten", "Snapshots Judged", "Worst Win Rate", "Worst Snapshot",
}  # fmt: skip
"""Last parts of the tags that only we write."""


@pytest.mark.parametrize("kind", make_tags.KINDS)
def test_a_run_has_the_tags_of_the_original(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    theirs = set(json.loads(make_tags.FILE.read_text())[kind])
    game = sdk_games.GAMES[make_tags.KINDS[kind][0]]
    tree = make_tags.settings(kind, tmp_path)
    block = next(iter(tree["behaviors"].values()))
    block |= {"max_steps": 300, "summary_freq": 150}  # enough for an update of each kind
    palaestra.train(tree, env=lambda: SdkEnv(game, 1, {}), run_id="run")
    found = set(tags([read_history(tmp_path / "results" / "run")]))
    assert sorted(theirs - found) == []
    assert sorted(tag for tag in found - theirs if not tag.endswith(tuple(OURS))) == []
    settings = load(tmp_path / "results" / "run" / "configuration.yaml").settings
    known = metrics_of(next(iter(settings.behaviors.values())), settings)
    assert known is not None
    assert sorted(found - known) == []  # a lesson may be measured by any of them
