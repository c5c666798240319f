import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from small_runs import settings
from tune_runs import ENV, RATE, Here, opened, plan

import palaestra
from palaestra.core.errors import ConfigError, PluginError, RunError
from palaestra.runtime.settings import load
from palaestra.runtime.tune.study import StudyFolder, quiet_optuna
from palaestra.runtime.tune.study_plots import AT_END, _names
from palaestra.runtime.tune.study_report import measured, ranked, trials_table, write_best, write_report
from palaestra.runtime.tune.trial_process import Outcome
from palaestra.runtime.tune.tuning import SearchRequest, Tuning, settled_plan

TREE = {**settings("CartPole", 400), "search": {"space": {RATE: {"log": [1e-5, 1e-2]}}, "episodes": 5}}


def silent(text: str) -> None: ...


def rows(folder: Path) -> list[dict[str, str]]:
    return list(csv.DictReader((folder / "trials.csv").read_text().splitlines()))


def test_a_search_ends_with_settings_that_train_a_table_and_pictures(tmp_path):
    with opened(tmp_path, plan(trials=3)) as study:
        lines: list[str] = []
        launcher = Here()
        Tuning(study, launcher, lines.append).run()
        best = write_report(study, lines.append)
        assert best.values == [max(trial.values[0] for trial in study.all())]
        found = load(study.folder.path / "best.yaml").settings
        hyper = found.behaviors["CartPole"].hyperparameters
        assert hyper.learning_rate == pytest.approx(best.params[RATE])
        assert found.env_settings.env_path == "CartPole"
        assert [row["state"] for row in rows(study.folder.path)] == ["complete"] * 3
        pictures = {path.stem for path in (study.folder.path / "plots").glob("*.png")}
        assert pictures == {"history", "importance", "slices", "parallel", "curves"}
        assert [task.run_id for task in launcher.tasks] == ["0/seed-1", "1/seed-1", "2/seed-1"]
        assert f"trial {best.number}: reward" in "\n".join(lines)


@pytest.mark.slow
def test_each_trial_trains_with_every_seed_and_is_worth_their_mean(tmp_path):
    with opened(tmp_path, plan(trials=1, seeds=2, pruner="none")) as study:
        launcher = Here()
        Tuning(study, launcher, silent).run()
        (trial,) = study.all()
        assert [task.seed for task in launcher.tasks] == [1, 2]
        (first,), (second,) = trial.user_attrs["seeds"]
        assert trial.values == [pytest.approx((first + second) / 2)]
        assert first != second


@pytest.mark.slow
def test_a_trial_whose_first_seed_misses_the_bar_is_not_trained_with_others(tmp_path):
    with opened(tmp_path, plan(trials=1, seeds=3, bar=500)) as study:
        launcher = Here()
        Tuning(study, launcher, silent).run()
        assert len(launcher.tasks) == 1
        assert study.all()[0].values[0] > 400


def test_a_trial_that_fails_harms_no_other(tmp_path):
    with opened(tmp_path, plan(trials=3)) as study:
        Tuning(study, Here(Outcome("failed", "no such game"), Outcome("diverged", "weights are NaN")), silent).run()
        found = list(csv.DictReader(trials_table(study).splitlines()))
        assert [row["state"] for row in found] == ["fail", "pruned", "complete"]
        assert [row["why"] for row in found] == ["no such game", "weights are NaN", ""]


def test_where_no_trial_was_completed_the_table_says_why(tmp_path):
    with opened(tmp_path, plan(trials=1)) as study:
        Tuning(study, Here(Outcome("failed", "no such game")), silent).run()
        with pytest.raises(RunError, match=r"no trial of the study was completed: see 'why' in .*trials\.csv"):
            write_report(study, silent)
        assert [row["why"] for row in rows(study.folder.path)] == ["no such game"]


@pytest.mark.slow
def test_a_training_that_was_killed_is_started_again_twice(tmp_path):
    with opened(tmp_path, plan(trials=1)) as study:
        launcher = Here(Outcome("lost", "killed"), Outcome("stopped"))
        Tuning(study, launcher, silent).run()
        assert len(launcher.tasks) == 3
        assert study.all()[0].state == study.states.COMPLETE


@pytest.mark.slow
def test_a_search_whose_first_trials_all_fail_ends(tmp_path):
    with opened(tmp_path, plan(trials=30)) as study:
        launcher = Here(*[Outcome("failed", "no such game")] * 9)
        with pytest.raises(RunError, match="the first 3 trials failed, the last with: no such game"):
            Tuning(study, launcher, silent).run()
        assert len(launcher.tasks) == 3


@pytest.mark.slow
def test_a_process_that_finds_nothing_to_do_ends_once_all_trials_have_ended(tmp_path):
    with opened(tmp_path, plan(trials=1)) as study:
        trial = study.claim()
        assert trial is not None
        lines: list[str] = []
        with opened(tmp_path, plan(trials=1)) as other:
            tuning = Tuning(other, Here(), lines.append)
            assert not tuning._step()
            assert lines == ["waiting for 1 trial of another process"]
            study.optuna.tell(trial, [1.0])
            study.release(trial.number)
            tuning.run()
        Tuning(study, Here(), silent).run()


@pytest.mark.slow
def test_a_result_that_nobody_took_is_taken_without_training_again(tmp_path):
    with opened(tmp_path, plan(trials=1)) as study:
        Tuning(study, Here(), silent).run()
        value = study.all()[0].values
    (tmp_path / "study" / "study.db").unlink()  # as if the process had been killed before it told the study
    with opened(tmp_path, plan(trials=1)) as study:
        launcher = Here()
        Tuning(study, launcher, silent).run()
        assert launcher.tasks == []
        assert study.all()[0].values == value


@pytest.mark.slow
def test_rewards_of_a_search_for_the_bar_are_reported_to_the_last_mark(tmp_path):
    with opened(tmp_path, plan(trials=1, bar=5)) as study:
        Tuning(study, Here(), silent).run()
        (trial,) = study.all()
        assert trial.values[0] < 400
        assert sorted(trial.intermediate_values) == list(range(1, 11))
        # Optuna's direction is that of the decisions
        assert all(value < 0 for value in trial.intermediate_values.values())


@pytest.mark.slow
def test_several_objectives_end_with_the_front(tmp_path):
    with opened(tmp_path, plan(trials=3, bar=5, objectives=["reward", "decisions"])) as study:
        Tuning(study, Here(), silent).run()
        write_best(study, ranked(study)[0])
        on_front = [row["trial"] for row in csv.DictReader(trials_table(study).splitlines()) if row["front"] == "1"]
        assert on_front
        best = {"best.yaml", *(f"best-{number}.yaml" for number in on_front)}
        assert {path.name for path in study.folder.path.glob("best*.yaml")} == best


@pytest.mark.slow
def test_a_study_goes_on_only_with_the_settings_that_it_began_with(tmp_path):
    place: dict[str, Any] = {"results_dir": str(tmp_path), "quiet": True}
    with opened(tmp_path, plan()):
        pass
    with pytest.raises(ConfigError, match=r"begun with other settings: behaviors\.CartPole\.max_steps differs"):
        palaestra.tune(study="study", resume=True, max_steps=9, **place)
    with pytest.raises(RunError, match="there is no study 'other'"):
        palaestra.tune(study="other", resume=True, **place)
    with pytest.raises(ConfigError, match="name a settings file"):
        palaestra.tune(**place)
    with pytest.raises(ConfigError, match="give one of the two"):
        palaestra.tune(resume=True, force=True, **place)


@pytest.mark.parametrize(
    ("env", "behavior", "told"),
    [
        ("gymnasium:CartPole-v1", "CartPole-v1", "ppo/CartPole-v1.yaml, which is shipped"),
        ("gymnasium:FrozenLake-v1", "FrozenLake-v1", "settings that fit the spaces"),
    ],
)
def test_without_a_file_trials_start_from_what_learn_takes(tmp_path, env: str, behavior: str, told: str):
    overrides = {"env_settings": {"env_path": env}, "behaviors": {"*": {"max_steps": 5000}}}
    lines: list[str] = []
    found = settled_plan(SearchRequest(StudyFolder(tmp_path, "study"), None, overrides), lines.append)
    assert told in "".join(lines)
    assert (list(found.settings.behaviors), found.longest) == ([behavior], 5000)
    assert found.start is not None
    assert len(found.start) == len(found.dimensions)
    assert not any("not tried" in note for note in found.notes)


def test_code_in_a_study_of_someone_else_is_not_run(tmp_path):
    with opened(tmp_path, plan()) as study:
        file = study.folder.plan
    found = yaml.safe_load(file.read_text())
    found["search"]["space"]["behaviors.*.trainer_type"] = {"choice": ["ppo", "their_code:Trainer"]}
    file.write_text(yaml.safe_dump(found))
    with pytest.raises(RunError, match=r"would run code.*their_code:Trainer"):
        palaestra.tune(study="study", resume=True, results_dir=str(tmp_path), quiet=True)


def test_without_optuna_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(PluginError, match=r"pip install 'palaestra\[tune\]'"), quiet_optuna():
        pass


@pytest.mark.slow
def test_a_search_that_is_killed_loses_no_trial_and_runs_none_twice(tmp_path):
    (tmp_path / "game.yaml").write_text(yaml.safe_dump({**TREE, **ENV}))
    words = [sys.executable, "-m", "palaestra", "tune"]
    begin = [*words, "game.yaml", "--trials=6", "--jobs=2", "--set", "behaviors.CartPole.max_steps=30000"]
    search = subprocess.Popen(begin, cwd=tmp_path, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 200
    while not list(tmp_path.glob("results/tune/trials/2/seed-1/metrics.jsonl")):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    os.kill(search.pid, signal.SIGKILL)
    search.wait()
    both = [subprocess.Popen([*words, "--resume"], cwd=tmp_path, stdout=subprocess.DEVNULL) for _ in range(2)]
    assert [process.wait(300) for process in both] == [0, 0]
    found = rows(tmp_path / "results" / "tune")
    assert [row["trial"] for row in found] == ["0", "1", "2", "3", "4", "5"]
    assert {row["state"] for row in found} <= {"complete", "pruned"}
    for log in tmp_path.glob("results/tune/trials/*/seed-1.log"):
        assert log.read_text().count("] Starting '") == 1


@pytest.mark.slow
def test_ctrl_c_saves_the_trials_and_says_how_to_go_on(tmp_path):
    (tmp_path / "game.yaml").write_text(yaml.safe_dump({**TREE, **ENV}))
    words = [sys.executable, "-m", "palaestra", "tune"]
    long = ["--set", "behaviors.CartPole.max_steps=1000000"]
    command = [*words, "game.yaml", "--trials=2", *long]
    search = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 200
    while not list(tmp_path.glob("results/tune/trials/0/seed-1/metrics.jsonl")):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    search.send_signal(signal.SIGINT)
    out, _ = search.communicate(timeout=100)
    assert search.returncode == 130
    assert "Go on with: palaestra tune --study=tune --resume" in out
    assert json.loads((tmp_path / "results/tune/trials/0/seed-1.json").read_text())["kind"] == "stopped"


def test_where_no_trial_reached_the_bar_nothing_claims_that_one_did(tmp_path):
    with opened(tmp_path, plan(trials=2, bar=500)) as study:
        lines: list[str] = []
        Tuning(study, Here(), lines.append).run()
        best = write_report(study, lines.append)
        ends = [study.endings(trial)[0].reward for trial in study.all()]
        assert study.endings(best)[0].reward == max(ends)
        assert (
            f"trial 0: 500 not reached in 400 decisions (the mean of the newest 5 episodes was {ends[0]:.4g})" in lines
        )
        text = "\n".join(lines)
        assert "No trial reached 500" in text
        assert "Train with it" not in text
        assert not re.search(r"^ *\d+  +\d", text, re.MULTILINE)  # the table's column of decisions says "not reached"
        assert "not reached" in (study.folder.path / "best.yaml").read_text().splitlines()[0]
        assert [(row["decisions"], row["reached"], float(row["reward_at_end"])) for row in rows(study.folder.path)] == [
            ("", "0 of 1", end) for end in ends
        ]
        assert _names(study) == [AT_END]
        assert measured(study, best) == [None]


@pytest.mark.slow
def test_a_trial_that_reached_the_bar_is_better_than_a_short_one_that_did_not(tmp_path):
    steps = "behaviors.*.max_steps"
    space = {steps: {"choice": [100, 400]}}
    with opened(tmp_path, plan(space=space, trials=2, bar=5, start_values=False, pruner="none")) as study:
        for values in ({steps: 100}, {steps: 400}):
            study.optuna.enqueue_trial(values)
        lines: list[str] = []
        Tuning(study, Here(), lines.append).run()
        short, other = study.all()
        assert short.values[0] < other.values[0]
        assert "5 not reached in 104 decisions (the mean was 13, of fewer than 5 episodes)" in "\n".join(lines)
        assert write_report(study, lines.append).number == other.number
        assert measured(study, study.all()[0]) == [None]
        assert f"Wrote {study.folder.path / 'best.yaml'} (trial {other.number})" in "\n".join(lines)
        assert _names(study) == ["decisions, raised where 5 was missed"]
        assert (study.folder.path / "plots" / "history.png").is_file()
