"""Unity games on the page: watched, played, recorded, beside a training, and when they fail. A process stands in for a
build.
"""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browser import Visitor, begun, palaestra, printed_address, until, viewing
from unity_games import make_build

from palaestra.demos import read_demo
from palaestra.demos.summary import summarize

pytestmark = pytest.mark.slow

SETTINGS = """
default_settings:
  trainer_type: ppo
  hyperparameters: {batch_size: 64, buffer_size: 256, num_epoch: 1}
  network_settings: {hidden_units: 16, num_layers: 1}
  checkpoint_interval: 1000
  keep_checkpoints: 100
  summary_freq: 400
  max_steps: MOST
environment_parameters: {wind: 0.5}
env_settings: {num_envs: 2}
"""


def tick(someone: Visitor) -> int:
    return int(re.search(r"tick ([\d,]+)", someone.text("state"))[1].replace(",", ""))  # type: ignore[index]


def build(folder: Path, **options: Any) -> Path:
    return make_build(folder, "Arena", notes=folder / "notes", **options)


def started(folder: Path) -> dict[int, dict[str, Any]]:
    """Games that were started, by process."""
    return {
        int(file.stem): json.loads(file.read_text())
        for file in (folder / "notes").glob("*.json")
        if file.stem.isdecimal()
    }


def alive(folder: Path) -> set[int]:
    """Games that run."""

    def runs(pid: int) -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return True

    return set(filter(runs, started(folder)))


def ended(folder: Path) -> list[dict[str, Any]]:
    """What the games noted at their ends."""
    return [json.loads(file.read_text()) for file in (folder / "notes").glob("*.end.json")]


def click_at(someone: Visitor, mark: str, share: float) -> None:
    """Clicks on a slider."""
    slider = someone.marked(mark)
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    someone.page.mouse.click(box["x"] + 2 + (box["width"] - 4) * share, box["y"] + box["height"] / 2)


def stop(process: subprocess.Popen[str], folder: Path) -> str:
    """Ends a command as Ctrl-C does; returns what it printed. No game outlives it."""
    process.send_signal(signal.SIGINT)
    printed, _ = process.communicate(timeout=30)
    assert process.returncode == 0, printed
    assert "Traceback" not in printed
    until(lambda: not alive(folder), 10, "the end of all games")
    return printed


@pytest.mark.parametrize("size", ["wide", "phone"])
@pytest.mark.parametrize("dark", [False, True])
def test_a_build_is_watched_with_what_its_cameras_see_and_a_table(tmp_path, visit, size, dark):
    game = build(tmp_path, camera=True)
    with viewing(tmp_path, str(game)) as (process, address):
        someone = visit(address, size, dark)
        rows = someone.page.locator("[data-mark=agents] tbody tr")
        until(lambda: rows.count() == 3, 60, "three rows")
        rows.nth(1).click()
        until(lambda: "Reward so far" in someone.text("agent-facts"), what="the agent's facts")
        before = tick(someone)
        until(lambda: tick(someone) > before + 40, what="two more episodes")
        names = [row.split("\t")[0] for row in rows.all_inner_texts()]
        assert names == ["Driver, agent 0", "Driver, agent 1", "Flyer, agent 0"]
        assert "Team 1" in someone.text("agent-facts")
        assert someone.marked("agent").input_value() == "Driver, agent 1"
        assert someone.page.locator("[data-mark=scene] img").get_attribute("src")
        assert someone.spills() == []
        someone.shoot("unity-watch")
        someone.page.get_by_text("5x", exact=True).click()
        someone.marked("tick").click()
        until(lambda: "Paused" in someone.text("state"), what="a pause")
        time.sleep(1)
        before = tick(someone)
        someone.marked("tick").click()
        until(lambda: tick(someone) == before + 1, what="one more tick")
        someone.marked("pause").click()
        until(lambda: tick(someone) > before + 5, what="more ticks")
        stop(process, tmp_path)
    (notes,) = ended(tmp_path)
    assert notes["time_scales"] == [1.0, 5.0]


@pytest.mark.parametrize(
    ("brain", "key", "value"),
    [("Driver?team=0=player", "s", 2.0), ("Flyer=player", "a", -1.0)],
    ids=["discrete", "continuous"],
)
def test_held_keys_reach_a_build_the_score_is_counted_and_demonstrations_are_recorded(
    tmp_path, visit, brain, key, value
):
    game = build(tmp_path)
    words = ("run", str(game), "--brain", brain, "--brain", "Driver?team=1=random", "--brain", "random")
    with begun(tmp_path, *words) as process:
        someone = visit(printed_address(process))
        someone.marked("begin").wait_for(timeout=60_000)
        someone.page.keyboard.press("x")  # no key of this game: any letter begins
        until(lambda: "Playing" in someone.text("state"), 60, "playing")
        someone.page.get_by_text("2x", exact=True).click()
        someone.page.locator("body").click(position={"x": 5, "y": 500})
        someone.page.keyboard.down(key)
        someone.marked("record").click()
        someone.marked("restart").click()
        until(lambda: re.match(r"Recording. [3-9] episodes", someone.text("recorded")), what="three episodes")
        someone.marked("stop-recording").click()
        until(lambda: someone.text("recorded")[0].isdecimal(), what="the end of the recording")
        count = int(someone.text("recorded").split()[0])
        assert re.search(r"You: \d+ won, \d+ drawn, \d+ lost", someone.text("score"))
        assert "Driver, team 1: " in someone.text("score")
        assert someone.spills() == []
        someone.shoot(f"unity-play-{key}")
        someone.marked("demo-name").fill("mine")
        someone.marked("save-demo").click()
        file = tmp_path / "results/demos/mine.demo"
        until(file.is_file, 20, "the file")
        stop(process, tmp_path)
    assert len(summarize(read_demo(file)).returns) == count
    listed = palaestra(tmp_path, "demo", str(file))
    assert listed.returncode == 0, listed.stderr
    assert f"{count} terminated" in listed.stdout
    (notes,) = ended(tmp_path)
    behavior = brain.partition("=player")[0].partition("?")[0]
    taken = [row[0] for row in notes["taken"][f"{behavior}?team=0"]]
    assert taken.count(value) > 0.8 * 20 * count  # of the recorded episodes, each of 20 decisions
    assert {row[0] for row in notes["taken"]["Driver?team=1"]} == {0.0, 1.0, 2.0}


def test_a_run_that_learns_in_a_build_is_watched_in_a_copy_of_its_own_which_ends_with_the_window_and_with_the_run(
    tmp_path, visit
):
    game = build(tmp_path)
    (tmp_path / "settings.yaml").write_text(SETTINGS.replace("MOST", "1000000"))
    words = ("learn", "settings.yaml", f"--env={game}", "--run-id=live", "--view", "--time-scale=20")
    with begun(tmp_path, *words) as process:
        address = printed_address(process)
        until(lambda: len(list((tmp_path / "results/live/Driver").glob("*.onnx"))) > 2, 90, "three models")
        training = alive(tmp_path)
        assert len(training) == 2
        someone = visit(address)
        someone.open("/watch?run=live")
        until(lambda: "Playing" in someone.text("state"), 60, "playing")
        (copy,) = alive(tmp_path) - training
        ports = {started(tmp_path)[pid]["port"] for pid in (copy, *training)}
        assert len(ports) == 3
        someone.page.locator("[data-mark=agents] tbody tr").first.click()
        until(lambda: re.search(r"expected from here: -?[\d.]+", someone.text("agent-facts")), what="a value")
        click_at(someone, "parameter-wind", 0.9)
        click_at(someone, "checkpoints", 0.0)
        until(lambda: re.match(r"After \d", someone.text("step")), 20, "an earlier step")
        assert someone.spills() == []
        someone.shoot("unity-learn")
        someone.close()
        until(lambda: alive(tmp_path) == training, 30, "the copy's end")
        assert process.poll() is None
        another = visit(address)
        another.open("/watch?run=live")
        until(lambda: "Playing" in another.text("state"), 60, "playing")
        stop(process, tmp_path)
    assert sorted({scale for notes in ended(tmp_path) for scale in notes["time_scales"]}) == [1.0, 20.0]
    assert any(notes["parameters"]["wind"] > 0.7 for notes in ended(tmp_path))


def test_a_finished_run_of_a_build_is_watched_from_its_settings(tmp_path: Path, visit: Callable[..., Visitor]):
    game = build(tmp_path)
    (tmp_path / "settings.yaml").write_text(SETTINGS.replace("MOST", "3000"))
    done = palaestra(tmp_path, "learn", "settings.yaml", f"--env={game}", "--run-id=done")
    assert done.returncode == 0, done.stderr
    with viewing(tmp_path, "done") as (process, address):
        someone = visit(address)
        someone.open("/watch?run=done")
        until(lambda: "Playing" in someone.text("state"), 60, "playing")
        assert len(alive(tmp_path)) == 1  # the run had two copies
        click_at(someone, "checkpoints", 0.0)
        until(lambda: re.match(r"After \d", someone.text("step")), 20, "an earlier step")
        before = tick(someone)
        until(lambda: tick(someone) > before + 20, what="an episode")
        someone.shoot("unity-finished")
        stop(process, tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"die_at": 30, "die_how": "exit", "words": "Car.Drive"}, "exited with code 3.*Car.Drive"),
        ({"die_at": 30, "die_how": "kill"}, "killed by signal SIGKILL"),
        ({"die_at": 0, "die_how": "exit", "words": "no level"}, "exited with code 3.*no level"),
        ({"die_at": 0, "die_how": "hang"}, "waited 3 s for it to connect"),
        ({"die_at": 30, "die_how": "hang"}, "waited 3 s for the next tick"),
        (None, "is not marked as a program; run: chmod"),
    ],
    ids=["exits", "is killed", "cannot start", "never connects", "hangs", "not executable"],
)
def test_a_build_that_fails_is_one_message_on_the_page_and_in_the_terminal(tmp_path, visit, options, message):
    game = build(tmp_path, **(options or {}))
    if options is None:
        game.chmod(0o644)
    with viewing(tmp_path, str(game), "--timeout-wait=3") as (process, address):
        someone = visit(address, "phone")
        # a game that never opened has not ended
        begins = "Ended: " if (options or {}).get("die_at") else "It cannot be shown: "
        until(lambda: someone.text("state").startswith(begins), 30, "a message")
        assert re.search(message, someone.text("state"), re.DOTALL)
        assert "Load the page again" in someone.text("state")
        assert someone.spills() == []
        someone.shoot(f"unity-fails-{(options or {}).get('die_how', 'program')}")
        someone.page.get_by_text("Runs", exact=True).click()
        someone.page.get_by_text("palaestra learn").first.wait_for(timeout=20_000)
        printed = stop(process, tmp_path)
    assert len(re.findall(message, printed, re.DOTALL)) == 1
