import pytest
from small_runs import settings

from palaestra.core.errors import ConfigError, RunError
from palaestra.runtime.seeds.seed_plan import parse_seeds, plan_seeds


@pytest.mark.parametrize(
    ("given", "seeds"),
    [
        (3, [1, 2, 3]),
        ("3", [1, 2, 3]),
        ("3,7,9", [3, 7, 9]),
        ("11-13", [11, 12, 13]),
        ("7-7", [7]),
        ("1-2, 9", [1, 2, 9]),
        ([4, 2], [4, 2]),
    ],
)
def test_seeds_are_a_number_a_list_or_a_range(given, seeds):
    assert parse_seeds(given) == seeds


@pytest.mark.parametrize(
    "given",
    [0, -1, "0", "", ",", "x", "3-", "-3", "9-3", "1-5000", "3,3", "1.5", [], [-1], [2**31], "99999999999", 10**6],
)
def test_anything_else_is_refused(given):
    with pytest.raises(ConfigError, match="--seeds"):
        parse_seeds(given)


def chosen(tmp_path, **more):
    return {
        "checkpoint_settings": {"run_id": "x", "results_dir": str(tmp_path), **more},
        "env_settings": {"env_path": "Basic"},
    }


def begun(tmp_path, name):
    folder = tmp_path / name
    folder.mkdir()
    (folder / "configuration.yaml").write_text("behaviors:\n  Basic:\n    trainer_type: ppo\n")
    return folder


def test_each_seed_has_a_run_of_its_own(tmp_path):
    plan = plan_seeds([3, 7], settings("Basic"), chosen(tmp_path), [], side_by_side=5)
    assert [run.folder.run_id for run in plan.runs] == ["x-seed-3", "x-seed-7"]
    assert (plan.at_once, plan.pattern) == (2, "x-seed-*")
    assert plan.runs[1].sets() == [
        'checkpoint_settings.run_id="x-seed-7"',
        "checkpoint_settings.resume=false",
        "env_settings.seed=7",
    ]


def test_a_name_in_the_file_or_in_set_is_that_of_all_seeds(tmp_path):
    tree = {**settings("Basic"), "checkpoint_settings": {"run_id": "file", "results_dir": str(tmp_path)}}
    assert plan_seeds([1], tree, {}, []).runs[0].folder.run_id == "file-seed-1"
    assert plan_seeds([1], tree, {}, ["checkpoint_settings.run_id=set"]).runs[0].folder.run_id == "set-seed-1"


def test_runs_that_are_there_are_neither_begun_again_nor_overwritten(tmp_path):
    begun(tmp_path, "x-seed-2")
    with pytest.raises(RunError, match="the run 'x-seed-2' exists already"):
        plan_seeds([1, 2], settings("Basic"), chosen(tmp_path), [])
    plan_seeds([1, 2], settings("Basic"), chosen(tmp_path, force=True), [])


def test_resuming_goes_on_with_some_and_begins_the_others_with_the_same_settings(tmp_path):
    there = begun(tmp_path, "x-seed-2")
    plan = plan_seeds([1, 2], None, chosen(tmp_path, resume=True), [])
    assert [(run.resume, run.config) for run in plan.runs] == [(False, there / "configuration.yaml"), (True, None)]
    with pytest.raises(RunError, match="there is no run 'x-seed-5'"):
        plan_seeds([5], None, chosen(tmp_path, resume=True), [])


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"env_settings": {"seed": 3, "env_path": "Basic"}}, "--seed is of one run"),
        ({"checkpoint_settings": {"inference": True}}, "--inference plays one run"),
        ({"env_settings": {}}, "cannot share the Unity Editor"),
        ({"engine_settings": {"no_graphics": True}}, "--no-graphics is only for Unity games, and Basic is not one"),
        ({"torch_settings": {"processes": 99}}, r"99 processes need at least 99 areas; got \d+ \(--num-areas\)"),
    ],
)
def test_what_several_seeds_cannot_do_is_refused(tmp_path, more, message):
    with pytest.raises(ConfigError, match=message):
        plan_seeds([1, 2], settings("Basic"), {**chosen(tmp_path), **more}, [], side_by_side=2)
    with pytest.raises(ConfigError, match="--side-by-side is 0"):
        plan_seeds([1, 2], settings("Basic"), chosen(tmp_path), [], side_by_side=0)
