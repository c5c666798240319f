import json
import math
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from small_runs import tracked_run
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from palaestra.core.errors import RunError
from palaestra.core.metrics import ELO, GROUP_REWARD, REWARD
from palaestra.runtime.logging.history import read_history
from palaestra.runtime.logging.run_times import Timers
from palaestra.runtime.logging.tracker import Summary
from palaestra.runtime.logging.trackers import (
    ConsoleTracker,
    GaugeTracker,
    JSONLTracker,
    TensorBoardTracker,
)

SUMMARY = Summary(
    behavior="3DBall",
    step=12000,
    time=1.7e9,
    elapsed=1.2344,
    training=True,
    values={REWARD: 1.1956, "Losses/Policy Loss": 0.25},
    totals={REWARD: 3.5868, "Losses/Policy Loss": 1.0},
    histograms={REWARD: np.array([0.5, 1.0, 2.0868])},
    episodes=3,
    mean=1.1956,
    std=0.7388,
)


def at(step: int, behavior: str = "3DBall", value: float = 1.0) -> Summary:
    return replace(SUMMARY, step=step, behavior=behavior, values={REWARD: value}, histograms={})


def events(folder: Path) -> EventAccumulator:
    return EventAccumulator(str(folder), size_guidance={"scalars": 0, "histograms": 0, "tensors": 0}).Reload()


def lines(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def reported(**change: object) -> str:
    message: list[str] = []
    ConsoleTracker(tracked_run(Path(), info=message.append)).write(replace(SUMMARY, **change))
    return message[0]


def test_tensorboard_reads_scalars_histograms_and_text(tmp_path):
    tracker = TensorBoardTracker(tracked_run(tmp_path, {}, pytest.fail))
    tracker.text("3DBall", "Hyperparameters", "gamma: 0.99")
    tracker.write(SUMMARY)
    tracker.close()
    read = events(tmp_path / "3DBall")
    assert sorted(read.Tags()["scalars"]) == sorted(SUMMARY.values)
    (point,) = read.Scalars(REWARD)
    assert (point.step, point.wall_time) == (12000, 1.7e9)
    assert point.value == pytest.approx(1.1956)
    histogram = read.Histograms(f"{REWARD}_hist")[0].histogram_value
    assert (histogram.min, histogram.max, histogram.num) == (0.5, 2.0868, 3)
    assert sum(histogram.bucket) == 3
    assert read.Tensors("Hyperparameters/text_summary")[0].tensor_proto.string_val == [b"gamma: 0.99"]


def test_a_summary_can_be_read_before_the_run_ends(tmp_path):
    tracker = TensorBoardTracker(tracked_run(tmp_path, {}, pytest.fail))
    tracker.write(at(10))
    assert [point.step for point in events(tmp_path / "3DBall").Scalars(REWARD)] == [10]
    tracker.close()


def test_a_histogram_of_one_value_or_of_infinities_can_be_drawn(tmp_path):
    tracker = TensorBoardTracker(tracked_run(tmp_path, {}, pytest.fail))
    tracker.write(replace(SUMMARY, histograms={"one": np.array([2.0, 2.0]), "inf": np.array([math.inf])}))
    tracker.close()
    assert events(tmp_path / "3DBall").Histograms("one_hist")[0].histogram_value.num == 2


@pytest.mark.parametrize(
    "values",
    [
        [1.0, math.nextafter(1.0, 2.0), 1.0],
        [1e17, 1e17],
        [-1e300, 1e300],
        [1e300] * 3,
        [5e-324, 1e-323],
        [1e200, 2e200],
    ],
)
def test_a_histogram_takes_any_finite_numbers(values, tmp_path):
    tracker = TensorBoardTracker(tracked_run(tmp_path, {}, pytest.fail))
    tracker.write(replace(SUMMARY, histograms={"odd": np.array(values)}))
    tracker.close()
    histogram = events(tmp_path / "3DBall").Histograms("odd_hist")[0].histogram_value
    assert (histogram.min, histogram.max, histogram.num) == (min(values), max(values), len(values))
    assert sum(histogram.bucket) == len(values)
    assert all(before < after for before, after in pairwise(histogram.bucket_limit))


def test_a_tag_that_is_no_unicode_is_written_escaped(tmp_path):
    tracker = TensorBoardTracker(tracked_run(tmp_path, {}, pytest.fail))
    tracker.write(replace(SUMMARY, values={"\ud800": 1.0}))
    tracker.close()
    assert events(tmp_path / "3DBall").Tags()["scalars"] == ["\\ud800"]


def test_what_follows_a_write_that_failed_midway_can_be_read(tmp_path):
    resource = pytest.importorskip("resource")  # POSIX
    board = TensorBoardTracker(tracked_run(tmp_path, {}, pytest.fail))
    table = JSONLTracker(tracked_run(tmp_path, {}))
    board.write(at(10))
    table.write(at(10))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = (tmp_path / "metrics.jsonl").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, limits[1]))
    try:
        for tracker in (board, table):
            with pytest.raises(RunError, match="larger than is allowed"):
                tracker.write(at(20))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    for tracker in (board, table):
        tracker.write(at(30))
        tracker.close()
    assert [point.step for point in events(tmp_path / "3DBall").Scalars(REWARD)] == [10, 30]
    assert read_history(tmp_path)["3DBall"][REWARD].step.tolist() == [10, 30]


def test_a_new_run_removes_left_over_event_files_and_says_so(tmp_path):
    (tmp_path / "3DBall").mkdir()
    old = tmp_path / "3DBall" / "events.out.tfevents.1.host.2.0"
    old.write_bytes(b"old")
    message: list[str] = []
    tracker = TensorBoardTracker(tracked_run(tmp_path, {}, message.append))
    assert old.exists()
    tracker.write(at(10))
    tracker.close()
    assert not old.exists()
    assert len(message) == 1
    assert str(old) in message[0]


def test_a_resumed_curve_does_not_overlap_in_tensorboard(tmp_path):
    for resumed, steps, value in (({}, (10, 20, 30), 1.0), ({"3DBall": 20}, (30, 40), 2.0)):
        tracker = TensorBoardTracker(tracked_run(tmp_path, resumed, pytest.fail))
        tracker.text("3DBall", "Hyperparameters", "x")
        for step in steps:
            tracker.write(at(step, value=value))
        tracker.close()
    points = events(tmp_path / "3DBall").Scalars(REWARD)
    assert [(point.step, point.value) for point in points] == [(10, 1.0), (20, 1.0), (30, 2.0), (40, 2.0)]


def test_nothing_is_written_and_tensorboard_not_imported_before_the_first_summary(tmp_path):
    program = (
        "import sys; from pathlib import Path; from palaestra.runtime.logging.trackers import TensorBoardTracker\n"
        "from palaestra.runtime.logging.tracker import TrackedRun; from palaestra.runtime.settings import RunSettings\n"
        "TensorBoardTracker(TrackedRun(Path(sys.argv[1]), RunSettings(), {})).close(); print('tensorboard' in "
        "sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
    assert [*tmp_path.iterdir()] == []


def test_a_folder_that_cannot_be_written_is_a_clear_error(tmp_path):
    (tmp_path / "3DBall").write_text("in the way")
    with pytest.raises(RunError, match="a file stands where a folder is needed"):
        TensorBoardTracker(tracked_run(tmp_path, {}, pytest.fail)).write(SUMMARY)
    (tmp_path / "metrics.jsonl").mkdir()
    with pytest.raises(RunError, match=r"cannot write .*metrics\.jsonl"):
        JSONLTracker(tracked_run(tmp_path, {})).write(SUMMARY)


def test_a_line_of_metrics_has_every_value(tmp_path):
    tracker = JSONLTracker(tracked_run(tmp_path, {}))
    tracker.write(replace(SUMMARY, values={**SUMMARY.values, "Losses/Value Loss": math.inf, "step": 7.0}))
    assert lines(tmp_path) == [
        {
            "behavior": "3DBall",
            "step": 12000,
            "time": 1.7e9,
            "elapsed": 1.2344,
            "training": True,
            "episodes": 3,
            "std": 0.7388,
            REWARD: 1.1956,
            "Losses/Policy Loss": 0.25,
            "Losses/Value Loss": None,
            "step (stat)": 7.0,
        }
    ]
    tracker.close()


def test_a_resume_drops_the_lines_beyond_it_and_one_that_was_cut_off(tmp_path):
    first = JSONLTracker(tracked_run(tmp_path, {}))
    for step in (10, 20, 30):
        first.write(at(step))
        first.write(at(step, behavior="Other"))
    first.close()
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"behavior": "3DBall", "st')
    second = JSONLTracker(tracked_run(tmp_path, {"3DBall": 20, "Other": 10}))
    second.write(at(30, value=2.0))
    second.close()
    assert [(line["behavior"], line["step"], line[REWARD]) for line in lines(tmp_path)] == [
        ("3DBall", 10, 1.0),
        ("Other", 10, 1.0),
        ("3DBall", 20, 1.0),
        ("3DBall", 30, 2.0),
    ]


def test_a_new_run_starts_its_metrics_empty(tmp_path):
    for value in (1.0, 2.0):
        tracker = JSONLTracker(tracked_run(tmp_path, {}))
        tracker.write(at(10, value=value))
        tracker.close()
    assert [line[REWARD] for line in lines(tmp_path)] == [2.0]


def test_the_console_line_is_the_one_users_know():
    assert reported().endswith(" Time Elapsed: 1.234 s. Mean Reward: 1.196. Std of Reward: 0.739. Training.")
    assert reported().startswith("3DBall. Step: 12000. Time")


def test_the_console_says_when_no_episode_ended_or_nothing_trains():
    assert (
        reported(episodes=0)
        == "3DBall. Step: 12000. Time Elapsed: 1.234 s. No episode was completed since last summary. Training."
    )
    assert reported(training=False).endswith("Std of Reward: 0.739. Not Training.")


def test_the_console_names_group_reward_and_rating():
    group = reported(values={GROUP_REWARD: 0.5})
    assert group.endswith("12000. Time Elapsed: 1.234 s. Mean Reward: 1.196. Mean Group Reward: 0.500. Training.")
    assert reported(values={ELO: 1204.3641}).endswith("Training. ELO: 1204.364.")


def test_the_console_names_the_rank_where_several_processes_train():
    message: list[str] = []
    ConsoleTracker(tracked_run(Path(), info=message.append), rank=1).write(SUMMARY)
    assert "1.234 s. Rank: 1. Mean Reward" in message[0]


def test_hyperparameters_are_a_detail_under_a_heading():
    message: list[str] = []
    details: list[str] = []
    tracker = ConsoleTracker(tracked_run(Path(), info=message.append, debug=details.append))
    tracker.text("3DBall", "Hyperparameters", "\tgamma:\t0.99")
    assert message == []
    assert details == ["Hyperparameters for behavior name 3DBall:\n\tgamma:\t0.99"]


def test_gauges_have_dotted_names(tmp_path):
    timers = Timers()
    GaugeTracker(timers).write(SUMMARY)
    timers.write(tmp_path / "timers.json", {})
    gauges = json.loads((tmp_path / "timers.json").read_text())["gauges"]
    mean = {"value": 1.1956, "min": 1.1956, "max": 1.1956, "count": 1}
    assert gauges["3DBall.Environment.CumulativeReward.mean"] == mean
    assert gauges["3DBall.Losses.PolicyLoss.sum"]["value"] == 1.0
    assert gauges["3DBall.Step.mean"]["value"] == 12000
