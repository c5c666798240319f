"""`palaestra learn --track`."""

from typing import Any

import pytest
from small_runs import settings

from palaestra.core.errors import ConfigError
from palaestra.runtime.settings import load
from palaestra.runtime.settings.track_words import trackers_of

USUAL = {"console": {}, "tensorboard": {}, "jsonl": {}}


def trackers(listed: Any, *tracks: str, sets: tuple[str, ...] = ()) -> dict[str, dict[str, Any]]:
    tree = {**settings("Basic"), **({} if listed is None else {"trackers": listed})}
    return load(tree, {"trackers": trackers_of(tracks)} if tracks else {}, sets).settings.trackers


def test_the_flag_adds_a_tracker_to_the_usual_ones_and_to_those_of_the_file():
    assert trackers(None, "wandb") == {**USUAL, "wandb": {}}
    assert trackers(["jsonl"], "wandb", "own") == {"jsonl": {}, "wandb": {}, "own": {}}


def test_options_are_yaml_and_added_to_those_of_the_file():
    assert trackers({"wandb": {"project": "p"}}, "wandb:mode=offline,tags=[a, b],models=false") == {
        "wandb": {"project": "p", "mode": "offline", "tags": ["a", "b"], "models": False}
    }
    assert trackers([], "own:uri=http://host:5000") == {"own": {"uri": "http://host:5000"}}


def test_a_class_of_ones_own_may_have_options_too():
    assert trackers([], "mine.trackers:Best:file=x") == {"mine.trackers:Best": {"file": "x"}}
    assert trackers([], "mine.trackers:Best") == {"mine.trackers:Best": {}}


def test_set_changes_a_tracker_without_dropping_the_others():
    assert trackers(None, sets=("trackers.wandb.project=p",)) == {**USUAL, "wandb": {"project": "p"}}


@pytest.mark.parametrize("wrong", ["wandb:project=p,offline", ":", "", "wandb:=x"])
def test_another_form_is_refused(wrong: str):
    with pytest.raises(ConfigError, match=r"--track .*expected NAME or NAME:OPTION=VALUE"):
        trackers_of([wrong])
