"""`stop_when`: values over several summaries, goals, progress, and runs that end by them."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from pydantic import ValidationError
from rumble_env import mixed_teams
from small_runs import differences, settings, state

import palaestra
from palaestra.core.metrics import GROUP_REWARD, REWARD
from palaestra.runtime.control.goals import NEVER, Goals
from palaestra.runtime.logging.tracker import Summary
from palaestra.runtime.run.result import Result
from palaestra.scenario.ending_settings import StopSettings


def summary(step, returns, groups=None, behavior: str = "A", **values: float) -> Summary:
    histograms = {REWARD: np.array(returns)} | ({} if groups is None else {GROUP_REWARD: np.array(groups)})
    means = {REWARD: float(np.mean(returns))} if returns else {}
    return Summary(behavior, step, 0.0, 0.0, True, {**means, **values}, {}, histograms, len(returns), 0.0, 0.0, None)


def test_a_reward_is_the_mean_of_the_newest_episodes_whatever_summaries_they_are_in():
    goals = Goals()
    wanted = StopSettings(at_least=3.0, episodes=4)
    assert goals.note(summary(1, [9.0, 9.0, 9.0]), wanted) is None  # too few
    assert goals.note(summary(2, [0.0, 0.0, 0.0, 0.0]), wanted) is None  # enough by themselves
    assert goals.note(summary(3, [2.0, 3.0]), wanted) is None  # (0 + 0 + 2 + 3) / 4
    assert goals.courses["A"].value(wanted) == 1.25
    ended = goals.note(summary(4, [4.0, 4.0]), wanted)  # (2 + 3 + 4 + 4) / 4 = 3.25
    assert ended.ending == "goal"
    assert ended.reason == f"{REWARD} is 3.25, at least 3, over the newest 4 episodes"
    several = Goals()  # summaries of which as many are asked for count whole
    wanted = StopSettings(at_least=3.0, episodes=2, summaries=2)
    assert several.note(summary(1, [0.0, 0.0, 9.0]), wanted) is None
    assert several.note(summary(2, [3.0, 3.0, 3.0, 3.0]), wanted).reason.endswith("over 7 episodes in 2 summaries")
    assert goals.met("A")
    assert not goals.met("B")


def test_so_many_summaries_are_asked_for_as_well():
    goals = Goals()
    wanted = StopSettings(at_least=1.0, episodes=1, summaries=3)
    assert [goals.note(summary(step, [2.0]), wanted) is None for step in (1, 2, 3)] == [True, True, False]


def test_groups_count_once():
    goals = Goals()
    wanted = StopSettings(at_least=1.0, episodes=2)
    assert goals.note(summary(1, [9.0, 9.0, 9.0], [0.5, 0.5]), wanted) is None
    assert goals.note(summary(2, [0.0], [1.5, 1.5]), wanted) is not None


def test_another_metric_counts_once_for_each_summary_and_may_have_to_fall():
    goals = Goals()
    wanted = StopSettings(metric="Losses/X", at_most=2.0, episodes=1, summaries=2)
    assert goals.note(summary(1, [0.0], **{"Losses/X": 1.0}), wanted) is None
    assert goals.note(summary(2, [0.0], **{"Losses/X": 4.0}), wanted) is None  # 2.5
    ended = goals.note(summary(3, [0.0] * 5, **{"Losses/X": 0.0}), wanted)  # 2
    assert "at most 2" in ended.reason


def test_both_bounds_must_hold():
    goals = Goals()
    wanted = StopSettings(at_least=1.0, at_most=2.0, episodes=1)
    assert goals.note(summary(1, [3.0]), wanted) is None
    assert goals.note(summary(2, [0.0]), wanted) is None
    assert goals.note(summary(3, [1.5]), wanted) is not None


def test_without_a_better_value_for_so_long_it_ends():
    goals = Goals()
    wanted = StopSettings(no_progress=30, episodes=1)
    for step, reward in ((10, 1.0), (20, 2.0), (30, 2.0), (40, 1.9)):
        assert goals.note(summary(step, [reward]), wanted) is None
    ended = goals.note(summary(50, [2.0]), wanted)  # 30 after the best, which is not exceeded
    assert ended.ending == "no progress"
    assert "no better than 2 at step 20, 30 decisions ago" in ended.reason


def test_long_episodes_that_are_all_alike_make_no_progress():
    """Of 500 decisions each, a hundred would take 50,000 to be all alike."""
    goals = Goals()
    wanted = StopSettings(no_progress=20_000)
    course = [summary(step, [float(min(step, 20_000)) / 40] * 10) for step in range(5000, 100_000, 5000)]
    ended = next(one.step for one in course if goals.note(one, wanted) is not None)
    assert ended == 55_000  # all of the newest 20,000 decisions are alike from 35,000 on


def test_progress_of_a_metric_that_should_fall_is_downward():
    goals = Goals()
    wanted = StopSettings(metric="Losses/X", at_most=0.0, no_progress=10, episodes=1)
    for step, loss in ((10, 5.0), (20, 4.0), (30, 3.0)):
        assert goals.note(summary(step, [0.0], **{"Losses/X": loss}), wanted) is None
    assert goals.note(summary(40, [0.0], **{"Losses/X": 6.0}), wanted) is not None


def test_a_metric_that_never_comes_is_named_once_with_the_nearest():
    told: list[str] = []
    goals = Goals(told.append)
    wanted = StopSettings(metric="Environment/Cumulativ Reward", at_least=1.0)
    for step in range(2 * NEVER):
        assert goals.note(summary(step, [5.0]), wanted) is None
    assert len(told) == 1
    assert f"did you mean '{REWARD}'" in told[0]


def test_only_rewards_that_a_mean_may_need_are_kept_and_those_in_a_form_of_another_version_are_left_out():
    goals = Goals()
    wanted = StopSettings(at_least=9.0, episodes=2)
    goals.note(summary(1, [9.0, 1.0, 2.0]), wanted)
    saved = goals.state_dict()
    assert saved["A"]["newest"] == [{"step": 1, "episodes": 3, "values": [1.0, 2.0]}]
    saved["A"]["newest"] = [[12.0, 3.0, 3.0]]
    again = Goals()
    again.load_state_dict(saved)
    assert again.courses["A"].newest == []
    assert again.note(summary(2, [9.0, 9.0]), wanted).ending == "goal"


def test_what_is_saved_goes_on_and_what_has_ended_begins_anew():
    goals = Goals()
    wanted = StopSettings(at_least=3.0, no_progress=100, episodes=4)
    goals.note(summary(1, [4.0, 4.0, 0.0]), wanted)
    again = Goals()
    again.load_state_dict(json.loads(json.dumps(goals.state_dict())))
    assert again.note(summary(2, [8.0]), wanted) is not None  # (4 + 4 + 0 + 8) / 4
    assert again.state_dict(ended=True) == {}
    others = Goals()  # of a run that goes on, because others still train
    others.load_state_dict(json.loads(json.dumps(again.state_dict())))
    assert others.met("A")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "expected at_least, at_most or no_progress"),
        ({"at_least": 2.0, "at_most": 1.0}, "expected a value of at most at_most"),
        ({"at_least": 1.0, "episodes": 0}, "greater than 0"),
    ],
)
def test_what_could_never_end_is_refused(given, message):
    with pytest.raises(ValidationError, match=message):
        StopSettings(**given)


def run(folder: Path, run_id: str, **more: Any) -> Result:
    stop = {"at_least": -100.0, "episodes": 5, "summaries": 2}
    config = settings("Basic", 4000, summary_freq=500, stop_when=stop)
    given = {"env": "Basic", "seed": 3, "num_areas": 4, "quiet": True, **more}
    return palaestra.train(config, results_dir=str(folder), run_id=run_id, **given)


def test_members_of_a_group_that_goes_on_do_not_count_for_it():
    goals = Goals()
    wanted = StopSettings(at_least=1.0, episodes=2)
    members = replace(summary(1, [5.0, 5.0, 5.0]), grouped=True)
    assert goals.note(members, wanted) is None
    assert goals.note(summary(2, [0.0], [1.5]), wanted) is None  # one group so far
    assert goals.note(summary(3, [0.0], [1.5]), wanted) is not None


def test_no_lesson_but_the_last_is_good_enough_unless_lessons_are_the_metric():
    goals = Goals()
    wanted = StopSettings(at_least=1.0, episodes=1)
    assert goals.note(summary(1, [9.0]), wanted, last_lesson=False) is None
    assert goals.begin_lesson(["A"]) == []
    assert goals.note(summary(2, [9.0]), wanted) is None  # of both lessons
    assert goals.note(summary(3, [0.0]), wanted) is None
    assert goals.note(summary(4, [9.0]), wanted) is not None
    by_lesson = StopSettings(metric="Environment/Lesson Number/x", at_least=1.0, episodes=1)
    ended = Goals().note(summary(1, [0.0], **{"Environment/Lesson Number/x": 1.0}), by_lesson, last_lesson=False)
    assert ended is not None


def test_a_lesson_that_begins_gives_time_for_progress_again():
    goals = Goals()
    wanted = StopSettings(no_progress=20, episodes=1)
    assert goals.note(summary(10, [9.0]), wanted, last_lesson=False) is None
    assert goals.note(summary(30, [9.0]), wanted, last_lesson=False) is not None
    assert goals.begin_lesson(["A", "B"]) == ["A"]
    again = Goals()
    again.load_state_dict(json.loads(json.dumps(goals.state_dict())))
    assert again.state_dict() == goals.state_dict()
    for each in (goals, again):
        assert each.note(summary(40, [9.0]), wanted) is None  # of both lessons
        assert each.note(summary(50, [1.0]), wanted) is None
        assert each.note(summary(60, [0.9]), wanted) is None
        assert each.note(summary(70, [0.8]), wanted) is not None


def test_a_run_ends_saved_when_its_goal_is_met_and_says_why(tmp_path):
    result = run(tmp_path, "a")
    assert result.endings == {"Basic": "goal"}
    assert not result.finished
    assert result.models["Basic"].is_file()
    assert 1000 <= result.steps["Basic"] < 4000
    ending = json.loads((tmp_path / "a/run_logs/training_status.json").read_text())["Basic"]["ending"]
    assert ending["why"] == "goal"
    assert "at least -100" in ending["reason"]
    progress = json.loads((tmp_path / "a/run_logs/progress.json").read_text())
    assert progress["state"] == "finished"
    assert "at least -100" in progress["message"]
    last = json.loads((tmp_path / "a/metrics.jsonl").read_text().splitlines()[-1])
    assert progress["behaviors"]["Basic"]["reward"] == last["Environment/Cumulative Reward"]


def test_an_interrupted_run_meets_its_goal_at_the_same_step(tmp_path):
    whole = run(tmp_path, "whole")
    stopped = run(tmp_path, "cut", callbacks=[lambda summary: summary.step >= 500])
    assert stopped.endings == {}
    resumed = run(tmp_path, "cut", resume=True)
    assert resumed.steps == whole.steps
    assert resumed.endings == whole.endings
    assert differences(state(whole.folder), state(resumed.folder)) == []


def test_a_run_that_is_resumed_after_its_goal_trains_until_the_goal_is_met_anew(tmp_path):
    first = run(tmp_path, "a")
    again = run(tmp_path, "a", resume=True)
    assert again.endings == {"Basic": "goal"}
    assert again.steps["Basic"] >= first.steps["Basic"] + 1000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flag", "code", "says"),
    [
        pytest.param("--stop-at=-100", 0, "Reached its goal at step", marks=pytest.mark.slow),
        ("--stop-without-progress=1", 3, "Ended without progress at step"),
    ],
)
def test_the_command_line_says_why_it_ended_and_its_exit_status_tells(flag, code, says, tmp_path):
    file = tmp_path / "settings.yaml"
    file.write_text(yaml.safe_dump(settings("Basic", 60_000, summary_freq=500)))
    command = [sys.executable, "-m", "palaestra", "learn", str(file), "--env=Basic", "--run-id=a", flag]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert says in done.stdout
    assert done.stdout.count("needs no more training") == 1


def two_behaviors(folder: Path, run_id: str, **more: Any) -> Result:
    """Trains two behaviors, of which the first is good enough at once."""
    given = settings("", 3000, summary_freq=500)["behaviors"][""]
    blocks = {
        "Goalie": {**given, "stop_when": {"at_least": -100.0, "episodes": 1}},
        "Striker": {**given, "stop_when": {"metric": "Policy/Learning Rate", "at_most": 1.4e-4, "episodes": 1}},
    }
    env = {"env": lambda: mixed_teams(8), "seed": 3}
    return palaestra.train({"behaviors": blocks}, results_dir=str(folder), run_id=run_id, quiet=True, **env, **more)


def test_an_interrupted_run_knows_which_behavior_was_good_enough(tmp_path):
    whole = two_behaviors(tmp_path, "whole")
    assert whole.endings == {"Goalie": "goal", "Striker": "goal"}
    good = [lambda summary: summary.behavior == "Goalie" and summary.step >= 1000]
    stopped = two_behaviors(tmp_path, "cut", callbacks=good)
    status = tmp_path / "cut/run_logs/training_status.json"
    assert stopped.endings == {}
    reason = json.loads(status.read_text())["Goalie"]["ending"]
    resumed = two_behaviors(tmp_path, "cut", resume=True)
    assert json.loads(status.read_text())["Goalie"]["ending"] == reason
    assert resumed.steps == whole.steps
    assert differences(state(whole.folder), state(resumed.folder)) == []


def test_a_goal_is_not_met_in_the_first_lesson(tmp_path):
    lessons = [
        {
            "name": "easy",
            "value": 1.0,
            "completion_criteria": {"measure": "progress", "behavior": "3DBall", "threshold": 0.5},
        },
        {"name": "hard", "value": 2.0},
    ]
    config = settings("3DBall", 3000, summary_freq=300, stop_when={"at_least": -100.0, "episodes": 1})
    config["environment_parameters"] = {"mass": {"curriculum": lessons}}
    result = palaestra.train(config, env="3DBall", results_dir=str(tmp_path), seed=3, num_areas=3, quiet=True)
    assert result.endings == {"3DBall": "goal"}
    assert 2100 <= result.steps["3DBall"] < 3000  # the summary at 1800 is of both lessons
