"""Runs in the browser: a curve that moves, two runs compared, checkpoints, gravity, and a run that is stopped there and
resumed.
"""

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from browser import Visitor, learning, palaestra, until, viewing


def points(someone: Visitor) -> int:
    """Points of the curves in the large chart."""
    script = """() => { const e = document.querySelector('[data-mark=curves]');
      const c = e && getElement(e.id.slice(1))?.chart;
      return c ? c.getOption().series.reduce((n, s) => n + s.data.length, 0) : 0 }"""
    return someone.page.evaluate(script)


@pytest.mark.slow
def test_the_curve_of_a_running_training_moves_and_it_is_stopped_there_and_resumed(tmp_path, visit):
    with learning(tmp_path, "live") as process, viewing(tmp_path) as (_, address):
        until(lambda: (tmp_path / "results/live/metrics.jsonl").is_file(), 90)
        someone = visit(address)
        until(lambda: points(someone) > 0, 30, "a curve")
        before = points(someone)
        until(lambda: points(someone) > before, 30, "more of the curve")
        someone.shoot("runs")
        someone.open("/run?id=live")
        someone.marked("change-value").wait_for(timeout=20_000)
        someone.marked("change-value").fill("0.00002")
        someone.marked("change").click()
        someone.page.get_by_text("constant from the next update on").first.wait_for(timeout=20_000)
        someone.shoot("run")
        someone.marked("stop").click()
        someone.marked("stop-it").click()
        until(lambda: process.poll() is not None, 30, "the end of the training")
        assert process.returncode == 0
        until(lambda: someone.text("state").lower() == "stopped", 20, "the state")
    log = (tmp_path / "results/live/run_logs/requests.jsonl").read_text()
    assert "learning_rate" in log
    assert "stops" in log
    step = max(int(path.name) for path in (tmp_path / "results/live/checkpoints").iterdir() if path.name.isdecimal())
    done = palaestra(tmp_path, "learn", "--run-id=live", "--resume", f"--max-steps={step + 5000}")
    assert done.returncode == 0, done.stderr
    assert f"{step:,}" in done.stdout or str(step) in done.stdout


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two")
    for run_id, rate in (("slow", "1e-5"), ("fast", "1e-3")):
        more = ("--set", "behaviors.3DBall.checkpoint_interval=8000", "--set", "behaviors.3DBall.keep_checkpoints=10")
        done = palaestra(
            folder,
            "learn",
            "--env=3DBall",
            f"--run-id={run_id}",
            "--max-steps=40000",
            "--summary-freq=4000",
            f"--learning-rate={rate}",
            *more,
        )
        assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_two_runs_are_compared(two_runs: Path, visit: Callable[..., Visitor]):
    with viewing(two_runs) as (_, address):
        someone = visit(address)
        someone.page.get_by_text("fast").first.wait_for(timeout=30_000)
        for box in someone.page.locator("[data-mark=runs] tbody .q-checkbox").all():
            box.click()
        someone.page.get_by_text("behaviors.*.hyperparameters.learning_rate").wait_for(timeout=20_000)
        someone.shoot("compared")


@pytest.mark.slow
def test_the_slider_shows_earlier_checkpoints_and_gravity_is_changed(two_runs: Path, visit: Callable[..., Visitor]):
    with viewing(two_runs) as (_, address):
        someone = visit(address)
        someone.open("/watch?run=fast&areas=16")
        until(lambda: "Playing" in someone.text("state"), 60, "playing")
        slider = someone.marked("checkpoints")
        slider.scroll_into_view_if_needed()
        box = slider.bounding_box()
        someone.page.mouse.click(box["x"] + 2, box["y"] + box["height"] / 2)
        until(lambda: re.match(r"After \d", someone.text("step")), 30, "an earlier step")
        gravity = someone.marked("parameter-gravity")
        box = gravity.bounding_box()
        someone.page.mouse.click(box["x"] + box["width"] * 0.9, box["y"] + box["height"] / 2)
        someone.page.get_by_text(re.compile(r"gravity: 9\d")).wait_for(timeout=10_000)
        time.sleep(3)
        someone.shoot("watch")


@pytest.mark.slow
@pytest.mark.parametrize("size", ["wide", "phone"])
@pytest.mark.parametrize("dark", [False, True])
def test_no_page_overlaps_or_cuts_its_text(two_runs: Path, visit: Callable[..., Visitor], size: str, dark: bool):
    with viewing(two_runs) as (_, address):
        someone = visit(address, size, dark)
        for what, path in {
            "runs": "/",
            "run": "/run?id=fast",
            "watch": "/watch?run=fast",
            "play": "/play?env=SoccerTwos",
            "demos": "/demos",
        }.items():
            someone.open(path)
            time.sleep(5)
            someone.shoot(f"look-{what}")
            assert someone.spills() == [], what
