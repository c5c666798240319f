import argparse
import json
import os
import struct
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from matplotlib.text import Annotation
from PIL import Image
from small_runs import tracked_run
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

from palaestra.cli import plot
from palaestra.core.errors import ConfigError, RunError
from palaestra.core.metrics import ELO, LENGTH, REWARD
from palaestra.runtime.comparison.selection import select_runs
from palaestra.runtime.logging.history import Points, find_tag, find_tags, read_history, tags
from palaestra.runtime.logging.statistics import Statistics
from palaestra.runtime.logging.tracker import Tracker
from palaestra.runtime.logging.trackers import JSONLTracker, TensorBoardTracker
from palaestra.runtime.plots.chart_style import COLORS, save, short_number, ticks_to
from palaestra.runtime.plots.curves import (
    environment_name,
    is_noisy,
    learning_curves,
    overview,
    save_curves,
    smoothed,
    smoothed_both_ways,
)

TAGS = [REWARD, LENGTH, "Losses/Policy Loss", "Losses/Value Loss", "Policy/Entropy"]


def write_run(tracker: Tracker, behaviors: Mapping[str, list[int]], seconds: float = 10.0) -> None:
    statistics = Statistics({"tracker": tracker})
    for behavior, steps in behaviors.items():
        for count, step in enumerate(steps):
            statistics.episodes(behavior, [step / 10], [5])
            statistics.summarize(behavior, step, elapsed=seconds * (count + 1), training=True)
    statistics.trackers.close()


def command(*words: str) -> None:
    parser = argparse.ArgumentParser()
    plot.add_arguments(parser)
    plot.main(parser.parse_args([*words]))


def is_png(file: Path) -> bool:
    with Image.open(file) as picture:
        return picture.format == "PNG" and picture.width > 500


@pytest.fixture
def results(tmp_path: Path) -> Path:
    write_run(JSONLTracker(tracked_run(tmp_path / "first", {})), {"3DBall": [10, 20, 30]})
    write_run(JSONLTracker(tracked_run(tmp_path / "second", {})), {"Striker": [10, 20], "Goalie": [10, 20]})
    write_run(TensorBoardTracker(tracked_run(tmp_path / "original", {})), {"3DBall": [10, 20]})
    return tmp_path


def test_curves_are_read_from_metrics_and_from_event_files_alike(results):
    ours = read_history(results / "first")
    theirs = read_history(results / "original")
    assert ours["3DBall"][REWARD].step.tolist() == [10, 20, 30]
    assert ours["3DBall"][REWARD].value.tolist() == [1, 2, 3]
    assert set(theirs["3DBall"]) == set(ours["3DBall"]) == {REWARD, LENGTH, "Policy/Extrinsic Reward"}
    assert theirs["3DBall"][REWARD].value.tolist() == [1, 2]
    assert read_history(results / "original" / "3DBall")["3DBall"][REWARD].step.tolist() == [10, 20]


def test_training_time_goes_on_after_a_resume(tmp_path):
    write_run(JSONLTracker(tracked_run(tmp_path, {})), {"B": [10, 20]})
    write_run(JSONLTracker(tracked_run(tmp_path, {"B": 20})), {"B": [30, 40]})
    assert read_history(tmp_path)["B"][REWARD].seconds.tolist() == [10, 20, 30, 40]


def test_a_line_that_is_being_written_is_left_out(results):
    with (results / "first" / "metrics.jsonl").open("a") as file:
        file.write('{"behavior": "3DBall", "step": 40')
    assert read_history(results / "first")["3DBall"][REWARD].step.tolist() == [10, 20, 30]


def test_a_run_without_metrics_says_when_they_come(tmp_path):
    with pytest.raises(RunError, match="summary_freq"):
        read_history(tmp_path)
    (tmp_path / "metrics.jsonl").write_text('{"behavior": "B", "step": 10, "elapsed": 1.0, "episodes": 0}\n')
    with pytest.raises(RunError, match="in its summaries so far no episode has ended, and nothing was learned"):
        read_history(tmp_path)


@pytest.mark.parametrize(
    ("name", "tag"),
    [(REWARD, REWARD), ("entropy", "Policy/Entropy"), ("environment/EPISODE length", LENGTH), ("Value Loss", TAGS[3])],
)
def test_a_tag_is_found_by_its_last_part(name, tag):
    assert find_tag(name, TAGS) == tag


@pytest.mark.parametrize(
    ("name", "near"), [("Policy/Entropi", "Policy/Entropy"), ("cumulative rewad", REWARD), ("reward", REWARD)]
)
def test_a_misspelt_tag_names_the_nearest_and_all_others(name, near):
    with pytest.raises(RunError, match=f"did you mean '{near}'") as caught:
        find_tag(name, TAGS)
    assert all(f"\n    {tag}" in str(caught.value) for tag in TAGS)


def test_smoothing_is_a_weighted_mean_of_the_past():
    # third: (4 + 0.5 * 2 + 0.25 * 0) / (1 + 0.5 + 0.25)
    np.testing.assert_allclose(smoothed(np.array([0.0, 2.0, 4.0]), 0.5), [0.0, 2 / 1.5, 5 / 1.75])


def test_lines_are_named_by_what_tells_them_apart(results):
    def names(**runs: str) -> set[str]:
        figure = learning_curves({label: read_history(results / run) for label, run in runs.items()}, [REWARD])
        return {text.get_text() for text in figure.axes[0].texts}

    assert names(one="first", two="first") >= {"one", "two"}
    assert names(two="second") >= {"Striker", "Goalie"}
    assert names(one="first", two="second") >= {"one  ·  3DBall", "two  ·  Striker"}
    assert names(one="first") == {"per episode  ·  one  ·  3DBall"}


def test_names_at_the_ends_of_lines_keep_apart(results):
    history = read_history(results / "first")
    figure = learning_curves({f"run {i}": history for i in range(6)}, [REWARD])
    notes = [text for text in figure.axes[0].texts if isinstance(text, Annotation)]
    heights = sorted(text.xy[1] for text in notes if text.get_text().startswith("run"))
    assert min(np.diff(heights)) * 4.5 * 72 > 10


def test_time_is_in_a_fitting_unit(tmp_path):
    for seconds, unit in ((10.0, "seconds"), (1000.0, "minutes"), (9000.0, "hours")):
        write_run(JSONLTracker(tracked_run(tmp_path, {})), {"B": [10, 20]}, seconds)
        axes = learning_curves({"run": read_history(tmp_path)}, [REWARD], by_time=True).axes[0]
        assert unit in axes.get_xlabel()


@pytest.mark.parametrize(
    ("last", "labels"),
    [
        (492_000, "0 100k 200k 300k 400k 500k"),
        (500_016, "0 100k 200k 300k 400k 500k"),
        (410_000, "0 100k 200k 300k 410k"),
        (1_230_000, "0 250k 500k 750k 1M 1.25M"),
        (2_000_000_000, "0 500M 1B 1.5B 2B"),
        (7, "0 2 4 7"),
        (0, "0"),
    ],
)
def test_the_last_step_has_a_label(last, labels):
    assert " ".join(map(short_number, ticks_to(last, 5))) == labels


def test_a_picture_names_the_run_the_environment_and_the_units(tmp_path):
    run = tmp_path / "steep"
    write_run(JSONLTracker(tracked_run(run, {})), {"B": [100_000, 2_000_000]})
    (run / "configuration.yaml").write_text("env_settings: {env_path: 'gymnasium:CartPole-v1'}")
    history = read_history(run)
    assert environment_name([run]) == "CartPole-v1"
    figure = overview(history, "steep", "CartPole-v1")
    assert {text.get_text() for text in figure.texts} == {"steep", "CartPole-v1  ·  B  ·  2,000,000 decisions"}
    assert [axes.get_title(loc="right") for axes in figure.axes] == ["per episode", "decisions after the first"]
    axes = learning_curves({"steep": history}, [REWARD], environment="CartPole-v1").axes[0]
    assert axes.texts[0].get_text() == "per episode  ·  steep  ·  CartPole-v1  ·  B"
    assert axes.get_xlabel() == "decisions"
    assert [label.get_text() for label in axes.get_xticklabels()][-1] == "2M"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("3DBall", "3DBall"),
        ("builtin:3DBall", "3DBall"),
        ("builds/3DBall.x86_64", "3DBall.x86_64"),
        (r"C:\builds\Game.exe", "Game.exe"),
        ("python:examples.own:make", "examples.own:make"),
        ("null", ""),
    ],
)
def test_the_name_of_an_environment_is_the_end_of_its_path(tmp_path, path, name):
    (tmp_path / "configuration.yaml").write_text(f"env_settings: {{env_path: {path}}}")
    assert environment_name([tmp_path]) == name
    assert environment_name([tmp_path, tmp_path / "gone"]) == ""


def test_noisy_curves_are_smoothed_and_others_are_not(tmp_path):
    steps = np.arange(60.0)
    rising = steps / 60
    rough = np.random.default_rng(0).normal(size=60)
    assert [is_noisy(values) for values in (rising, rough, rough[:10], np.full(60, np.nan))] == [
        False,
        True,
        False,
        False,
    ]
    seconds = np.zeros(60)
    calm = {"B": {REWARD: Points(steps, seconds, rising)}}
    loud = {"B": {REWARD: Points(steps, seconds, rough)}}
    assert len(learning_curves({"run": calm}, [REWARD]).axes[0].lines) == 1
    axes = learning_curves({"run": loud}, [REWARD]).axes[0]
    assert len(axes.lines) == 2
    assert axes.texts[0].get_text().endswith("smoothed")
    assert len(learning_curves({"run": loud}, [REWARD], smooth=0.0).axes[0].lines) == 1


def test_smoothing_both_ways_does_not_lag():
    step = np.repeat([0.0, 1.0], 100)
    assert smoothed_both_ways(step, 0.9)[100] == pytest.approx(0.5, abs=0.03)
    assert smoothed(step, 0.9)[100] == pytest.approx(0.1, abs=0.01)


def test_smoothing_leaves_out_what_is_no_number():
    assert smoothed(np.array([np.nan, 1.0, np.nan, 1.0]), 0.5).tolist()[1:] == [1.0, 1.0, 1.0]


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["$x_", "_hidden", "日本", "a/b", "<&>"])
def test_any_name_and_a_single_point_at_the_start_can_be_drawn(tmp_path, name):
    write_run(JSONLTracker(tracked_run(tmp_path, {})), {name: [0], "other": [0]}, seconds=0.0)
    history = read_history(tmp_path)
    save(learning_curves({name: history}, [REWARD], by_time=True, smooth=0.5), tmp_path / "a.png")
    save(overview(history), tmp_path / "b.png")
    assert is_png(tmp_path / "b.png")


def test_the_overview_is_written_into_the_run(results):
    file = save_curves(results / "second")
    assert file == results / "second" / "curves.png"
    assert is_png(file)
    titles = {axes.get_title(loc="left") for axes in overview(read_history(results / "second")).axes}
    assert titles == {"Cumulative Reward", "Episode Length"}


def test_the_overview_of_other_metrics_shows_those(tmp_path):
    statistics = Statistics({"tracker": JSONLTracker(tracked_run(tmp_path, {}))})
    statistics.add("B", "Game/Score", 1.0)
    statistics.summarize("B", 1, elapsed=1.0, training=True)
    statistics.trackers.close()
    assert [axes.get_title(loc="left") for axes in overview(read_history(tmp_path)).axes] == ["Score"]


def test_the_overview_of_self_play_shows_elo_instead_of_the_learning_rate(tmp_path):
    statistics = Statistics({"tracker": JSONLTracker(tracked_run(tmp_path, {}))})
    for step in (1, 2):
        statistics.episodes("B", [step / 10], [5])
        statistics.add("B", ELO, 1200.0 + step)
        statistics.add("B", "Policy/Learning Rate", 3e-4)
        statistics.summarize("B", step, elapsed=1.0, training=True)
    statistics.trackers.close()
    titles = [axes.get_title(loc="left") for axes in overview(read_history(tmp_path)).axes]
    assert titles == ["Cumulative Reward", "Elo", "Episode Length"]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["Entropy", "value loss"], ["Policy/Entropy", "Losses/Value Loss"]),
        (["Losses/*"], ["Losses/Policy Loss", "Losses/Value Loss"]),
        (["entropy, Losses/*", "Policy/Entropy"], ["Policy/Entropy", "Losses/Policy Loss", "Losses/Value Loss"]),
        (["*length"], [LENGTH]),
    ],
)
def test_several_metrics_and_patterns_of_them_can_be_named(words, found):
    assert find_tags(words, TAGS) == found


def test_a_pattern_without_a_metric_names_all(tmp_path):
    with pytest.raises(RunError, match=r"no metric matches 'Los\*/x'\n  there are:\n    Environment/Cumulative Reward"):
        find_tags(["Los*/x"], TAGS)


def test_several_metrics_have_a_panel_each_and_one_legend(results):
    figure = learning_curves({run: read_history(results / run) for run in ("first", "original")}, [REWARD, LENGTH])
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["Cumulative Reward", "Episode Length"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [" first", " original"]
    colors = [[line.get_color() for line in axes.lines] for axes in figure.axes]
    assert colors[0] == colors[1] == list(COLORS[:2])


def test_two_hundred_lines_differ_in_color_pattern_or_mark_and_are_named_in_the_order_in_which_they_end(tmp_path):
    runs = {}
    for i in range(200):
        write_run(JSONLTracker(tracked_run(tmp_path / f"run {i}", {})), {"B": [10, 10 + i]})
        runs[f"run {i}"] = read_history(tmp_path / f"run {i}")
    figure = learning_curves(runs, [REWARD])
    looks = [(line.get_color(), str(line._unscaled_dash_pattern), line.get_marker()) for line in figure.axes[0].lines]  # type: ignore[attr-defined]
    assert len(set(looks)) == 192  # eight colors, four patterns, six marks
    assert len(set(looks[:32])) == 32
    assert [text.get_text() for text in figure.legends[0].get_texts()][:2] == [" run 199", " run 198"]


def test_the_command_takes_patterns_of_runs_and_several_metrics(results, capsys):
    (results / "notes").mkdir()  # no run
    out = results / "out.png"
    place = ("*i*", "--results-dir", str(results), "--metric", "Cumulative Reward,*length", "--metric")
    command(*place, "Extrinsic*", "--list")
    assert REWARD in capsys.readouterr().out
    assert {*select_runs(["*i*", "first"], results, "plot")} == {str(results / "first"), str(results / "original")}
    assert {*select_runs([str(results / "*"), "second"], results, "plot")} == {
        str(results / name) for name in ("first", "original", "second")
    }
    command(
        "*i*",
        "--results-dir",
        str(results),
        "--metric",
        "Cumulative Reward,*length",
        "--metric",
        "Policy/Ext*",
        "--out",
        str(out),
    )
    assert is_png(out)
    with pytest.raises(RunError, match=r"no run with metrics matches 'x\*'"):
        command("x*", "--results-dir", str(results))


def test_a_picture_of_an_unknown_kind_names_the_known_ones(results):
    with pytest.raises(RunError, match=r"must end in one of .*\.png"):
        save(overview(read_history(results / "first")), results / "curves.txt")


def test_the_command_takes_run_ids_and_paths(results, capsys):
    out = results / "pictures" / "out.png"
    runs = ("first", str(results / "original"), "--results-dir", str(results))
    command(*runs, "--out", str(out), "--smooth", "0.5", "--x", "time")
    assert capsys.readouterr().out == f"Wrote {out}\n"
    assert is_png(out)


def test_a_picture_is_overwritten_only_by_force(results, monkeypatch, capsys):
    monkeypatch.chdir(results)
    words = ("first", "--results-dir", str(results))
    for name in ("curves.png", "curves-2.png", "curves-3.png"):
        command(*words)
        assert capsys.readouterr().out == f"Wrote {name}\n"
    with pytest.raises(ConfigError, match=r"curves\.png exists already; choose another name, or .* --force"):
        command(*words, "--out", "curves.png")
    with pytest.raises(ConfigError, match="is a folder"):
        command(*words, "--out", str(results), "--force")
    (results / "curves.png").write_bytes(b"old")
    command(*words, "--force")
    assert is_png(results / "curves.png")


def test_the_command_lists_the_tags(results, capsys):
    command("first", "--results-dir", str(results), "--list")
    assert capsys.readouterr().out.splitlines() == tags([read_history(results / "first")])


def test_a_misspelt_run_names_the_nearest(results):
    with pytest.raises(RunError, match="did you mean 'first'"):
        command("frist", "--results-dir", str(results))


def test_a_smoothing_of_one_is_refused(results, capsys):
    with pytest.raises(SystemExit):
        command("first", "--smooth", "1")
    assert "from 0 to below 1" in capsys.readouterr().err


def test_numbers_that_no_axis_shows_are_left_out(tmp_path):
    """JSON has numbers of any size."""
    whole = f'{{"behavior": "B", "step": 1, "elapsed": 1, "{REWARD}": 2}}'
    lines = [whole, *(whole.replace(": 2", f": {one}") for one in ("1" + "0" * 400, "1.7e308", "-1.7e308"))]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines))
    history = read_history(tmp_path)
    np.testing.assert_equal(history["B"][REWARD].value, [2, np.nan, np.nan])
    save(learning_curves({"run": history}, [REWARD]), tmp_path / "curves.png")


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["x" * 5000, "\ud800", "\x1b[31m\u202e"])
def test_names_that_no_picture_can_hold_are_shortened_and_escaped(tmp_path, name):
    point = {"behavior": name, "step": 1, "elapsed": 1, REWARD: 2, name: 3}
    points = [{**point, "behavior": one} for one in (name, f"{name}2")]
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, points)))
    for metrics in ([REWARD], [REWARD, name]):
        figure = learning_curves({"run": read_history(tmp_path)}, metrics)
        save(figure, tmp_path / "curves.png")
        with Image.open(tmp_path / "curves.png") as picture:
            assert picture.width < 6000
    save_curves(tmp_path)


def test_a_picture_shows_no_more_than_it_can(tmp_path):
    point = {"step": 1, "elapsed": 1, REWARD: 2, **{f"Other/{i}": 1 for i in range(100)}}
    (tmp_path / "metrics.jsonl").write_text("\n".join(json.dumps({**point, "behavior": f"{i}"}) for i in range(1001)))
    history = read_history(tmp_path)
    with pytest.raises(RunError, match="1,001 curves together"):
        learning_curves({"run": history}, [REWARD])
    with pytest.raises(RunError, match="100 metrics"):
        learning_curves({"run": {"0": history["0"]}}, [f"Other/{i}" for i in range(100)])


def damaged(folder: Path, name: str, content: bytes) -> Path:
    """An event file in `folder`, with a good one of TensorBoard's beside it."""
    write_run(TensorBoardTracker(tracked_run(folder, {})), {"B": [10, 20]})
    (folder / "B" / name).write_bytes(content)
    return folder


def record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked_crc32c(length)) + data + struct.pack("<I", masked_crc32c(data))


def test_an_event_file_takes_no_more_memory_than_it_is_large(tmp_path):
    length = struct.pack("<Q", 2**40)
    damaged(tmp_path, "events.out.tfevents.9", length + struct.pack("<I", masked_crc32c(length)))
    with pytest.raises(RunError, match=r"cannot read the metrics of .*9 has a record of 1,099,511,627,776 bytes"):
        read_history(tmp_path)


def test_a_damaged_record_is_an_error_and_a_cut_off_one_is_not(tmp_path):
    damaged(tmp_path / "cut", "events.out.tfevents.9", record(b"")[:-1])
    damaged(tmp_path / "wrong", "events.out.tfevents.9", struct.pack("<QI", 2**40, 0))
    for folder in ("cut", "wrong"):
        assert read_history(tmp_path / folder)["B"][REWARD].value.tolist() == [1, 2]
    damaged(tmp_path / "bad", "events.out.tfevents.9", record(b"\xff" * 9))
    with pytest.raises(RunError, match="event files are damaged"):
        read_history(tmp_path / "bad")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes there")
def test_a_pipe_that_tensorboard_would_take_for_an_event_file_is_not_waited_for(tmp_path):
    damaged(tmp_path, "tfevents", b"").joinpath("B", "tfevents").unlink()
    os.mkfifo(tmp_path / "B" / "tfevents")
    with pytest.raises(RunError, match="it is not a regular file"):
        read_history(tmp_path)


@pytest.mark.few(1)
@pytest.mark.parametrize("backend", ["bogus", "module://no_such_module.backend"])
def test_pictures_need_no_backend_that_the_surroundings_name(backend: str, tmp_path: Path):
    program = (
        "import os, pathlib\n"
        "from palaestra.runtime.plots.chart_style import load_pyplot, new_figure, save\n"
        "save(new_figure(2, 2), pathlib.Path('picture.png'))\n"
        "assert load_pyplot().figure() and os.environ['MPLBACKEND']\n"
    )
    variables = {**os.environ, "MPLBACKEND": backend}
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=variables, check=True)
    assert (tmp_path / "picture.png").stat().st_size > 100
