"""Brains that a person may choose for the other side."""

import json
from pathlib import Path

import pytest

pytest.importorskip("nicegui")

from palaestra.core.errors import RunError
from palaestra.runtime.play.run_models import split_step
from palaestra.runtime.showing.live_models import LiveModels
from palaestra.web.people.opponents import choices, rating


def make_run(results: Path, name: str, behavior: str, steps: list[int]) -> None:
    folder = results / name
    (folder / behavior).mkdir(parents=True)
    (folder / "configuration.yaml").write_text("{}")
    (folder / f"{behavior}.onnx").touch()
    for step in steps:
        (folder / behavior / f"{behavior}-{step}.onnx").touch()
    ratings = [{"behavior": behavior, "step": at, "elapsed": 1.0, "Self-play/ELO": 1200 + at / 10} for at in steps]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in ratings))
    (folder / "run_logs").mkdir()
    (folder / "run_logs" / "training_status.json").write_text(json.dumps({behavior: {"elo": 1290.0}}))


def test_models_of_a_behavior_can_be_chosen_with_their_steps_the_newest_first(tmp_path: Path):
    make_run(tmp_path, "first", "Duel", [100, 900, 500])
    make_run(tmp_path, "other", "Ball", [100])
    found = choices(tmp_path, ["first", "other"], "Duel")
    assert list(found) == [
        "",
        "heuristic",
        "random",
        "model:first",
        "model:first@900",
        "model:first@500",
        "model:first@100",
    ]
    assert found["model:first@900"] == "run first, step 900"


def test_models_for_people_who_watch_a_run_are_not_listed_one_by_one(tmp_path: Path):
    make_run(tmp_path, "first", "Duel", [500])
    for step in range(10, 400, 10):
        LiveModels(tmp_path / "first").add("Duel", step, Path.touch)
    (tmp_path / "new").mkdir()
    LiveModels(tmp_path / "new").add("Duel", 10, Path.touch)
    assert list(choices(tmp_path, ["first", "new"], "Duel"))[3:] == ["model:first", "model:first@500", "model:new"]


def test_a_run_whose_name_would_be_read_as_a_file_is_left_out(tmp_path: Path):
    for name in ("a.onnx", "a,b"):
        make_run(tmp_path, name, "Duel", [])
    assert list(choices(tmp_path, ["a.onnx", "a,b"], "Duel")) == ["", "heuristic", "random"]


def test_the_rating_of_a_model_is_that_of_its_step(tmp_path: Path):
    make_run(tmp_path, "first", "Duel", [100, 500, 900])
    assert rating(tmp_path, "first", "Duel") == 1290
    assert rating(tmp_path, "first@500", "Duel") == 1250
    assert rating(tmp_path, "first@520", "Duel") == 1250  # of the nearest summary
    assert rating(tmp_path, "first", "Ball") is None
    assert rating(tmp_path, "nothing", "Duel") is None


def test_a_step_is_split_from_a_run_unless_a_run_has_that_very_name(tmp_path: Path):
    assert split_step("first@500", tmp_path) == ("first", 500)
    assert split_step("first", tmp_path) == ("first", None)
    assert split_step("me@home", tmp_path) == ("me@home", None)
    make_run(tmp_path, "me", "Duel", [])
    with pytest.raises(RunError, match="'me@bst': expected me@best, or me@STEP with a count of decisions, got 'bst'"):
        split_step("me@bst", tmp_path)
    (tmp_path / "first@500").mkdir()
    assert split_step("first@500", tmp_path) == ("first@500", None)
