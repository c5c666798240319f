from pathlib import Path

import pytest
from written_runs import written, written_seeds

from palaestra.core.errors import ConfigError, RunError
from palaestra.runtime.comparison.selection import (
    RunGroup,
    differences,
    grouped,
    learned_settings,
    select_runs,
    short_names,
)


@pytest.fixture
def runs(tmp_path):
    """Short names and folders of two seeds of each of two settings, and a run without settings."""
    written_seeds(tmp_path, "ppo", [[1.0], [2.0]], settings={"hyperparameters": {"learning_rate": 3e-4}})
    written_seeds(tmp_path, "slow", [[1.0], [2.0]], settings={"hyperparameters": {"learning_rate": 1e-4}})
    written(tmp_path / "bare", [1.0])
    return short_names(select_runs(["*"], tmp_path, "compare").values())


def shown(groups):
    return {group.name: group.runs for group in groups}


BOTH = {"ppo": ("ppo-seed-1", "ppo-seed-2"), "slow": ("slow-seed-1", "slow-seed-2")}


def test_runs_with_equal_settings_apart_from_seed_name_and_threads_belong_together(runs):
    assert shown(grouped(runs, ["settings"])) == {"bare": ("bare",), **BOTH}


def test_runs_are_grouped_by_name_or_stay_alone(runs):
    assert shown(grouped(runs, ["names"])) == {"bare": ("bare",), **BOTH}
    assert shown(grouped(runs, ["runs"])) == {run: (run,) for run in runs}


def test_groups_with_the_same_kind_of_names_are_called_by_their_first_runs(tmp_path):
    for seed, rate in ((1, 1.0), (2, 1.0), (3, 2.0)):
        written(tmp_path / f"x-{seed}", [1.0], seed=seed, settings={"rate": rate})
    runs = short_names(select_runs(["x-*"], tmp_path, "compare").values())
    assert shown(grouped(runs, ["settings"])) == {"x-1": ("x-1", "x-2"), "x-3": ("x-3",)}


def test_a_pattern_means_the_runs_in_the_folder_of_results_not_that_folder(tmp_path, monkeypatch):
    (written(tmp_path / "results" / "first", [1.0]) / "events.out.tfevents.1").touch()
    monkeypatch.chdir(tmp_path)
    assert [path.as_posix() for path in select_runs(["*"], Path("results"), "compare").values()] == ["results/first"]
    monkeypatch.chdir("results")
    assert [path.as_posix() for path in select_runs(["f*"], Path("results"), "compare").values()] == ["first"]


def test_folders_of_numbered_runs_are_groups_by_name(tmp_path):
    for name in ("ball/1", "ball/2", "cart/seed-1", "cart/seed-2"):
        written(tmp_path / name, [1.0])
    runs = short_names(select_runs(["ball/*", "cart/*"], tmp_path, "compare").values())
    assert {group.name: len(group.runs) for group in grouped(runs, ["names"])} == {"ball": 2, "cart": 2}


def test_groups_are_named_with_patterns_and_leave_the_others_out(runs):
    assert shown(grouped(runs, ["all=ppo-*,slow-*", "one=bare"])) == {"all": sum(BOTH.values(), ()), "one": ("bare",)}
    assert shown(grouped(runs, ["a=ppo-seed-1", "a=slow-seed-1"])) == {"a": ("ppo-seed-1", "slow-seed-1")}


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (["setting"], r"'setting' is neither settings, names, runs nor NAME=PATTERN \(.*\); did you mean 'settings'"),
        (["a="], "'a=' is neither"),
        (["=b"], "'=b' is neither"),
        (["names", "runs"], "'names' is neither"),
        (["a=nothing-*"], r"no run matches a=nothing-\* \(runs: bare"),
        (["a=ppo-*", "b=*-seed-1"], "the run ppo-seed-1 is in two groups, a and b"),
    ],
)
def test_groups_that_cannot_be_made_say_why(runs, how, message):
    with pytest.raises(ConfigError, match=message):
        grouped(runs, how)


def test_settings_in_which_groups_differ_are_listed_with_their_values(runs):
    groups = grouped(runs, ["a=ppo-*", "b=slow-*"])
    assert differences(groups, runs) == {"behaviors.A.hyperparameters.learning_rate": [3e-4, 1e-4]}
    assert differences([RunGroup("x", ("bare",))], runs) == {}


def test_settings_that_cannot_be_read_are_none(tmp_path):
    run = written(tmp_path / "x", [1.0])
    assert learned_settings(run) is None
    (run / "configuration.yaml").write_text("a: [1\n")
    assert learned_settings(run) is None
    (run / "configuration.yaml").write_text("- 1\n")
    assert learned_settings(run) is None


def test_a_run_or_pattern_that_names_nothing_is_an_error(tmp_path):
    written(tmp_path / "first", [1.0])
    with pytest.raises(RunError, match=r"no run with metrics matches 'x\*'"):
        select_runs(["x*"], tmp_path, "compare")
    with pytest.raises(RunError, match=r"cannot compare: there is no run 'frist'.*'first'"):
        select_runs(["frist"], tmp_path, "compare")


def test_a_run_that_is_named_twice_counts_once(tmp_path):
    run = written(tmp_path / "first", [1.0])
    assert len(select_runs([str(run), "fir*"], tmp_path, "compare")) == 1
