"""People who play in the browser."""

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from browser import Visitor, palaestra, until, viewing

from palaestra.demos import read_demo
from palaestra.demos.summary import summarize

ROWS = "name => document.querySelector('.p-scene')?.counters?.rows(name) ?? []"


def begin(someone: Visitor) -> None:
    """Presses a key when the page asks for one, and waits for the game."""
    someone.marked("begin").wait_for(timeout=90_000)
    someone.page.keyboard.press("w")
    until(lambda: "Get ready" in someone.text("state"), 20, "the countdown")
    until(lambda: "Playing" in someone.text("state"), 20, "playing")


class Fingers:
    """Holds and releases keys so that exactly the wanted ones are down."""

    def __init__(self, someone: Visitor) -> None:
        self._keyboard = someone.page.keyboard
        self._down = set[str]()

    def hold(self, wanted: set[str]) -> None:
        for key in self._down - wanted:
            self._keyboard.up(key)
        for key in wanted - self._down:
            self._keyboard.down(key)
        self._down = set(wanted)


def wanted_keys(someone: Visitor, before: list[float] | None) -> tuple[set[str], list[float]]:
    """Keys against the ball's offset, speed and the block's tilt, as the environment's own rule weighs them."""
    (ball,), (block,) = someone.page.evaluate(ROWS, "ball"), someone.page.evaluate(ROWS, "block")
    now = [time.monotonic(), ball[0] - block[0], ball[2] - block[2]]
    span = now[0] - before[0] if before else 1.0
    speed_x, speed_z = (
        ((now[1] - before[1]) / span, (now[2] - before[2]) / span) if before and span > 0.02 else (0.0, 0.0)
    )
    side = now[1] + 1.2 * speed_x - 10 * block[5]
    depth = now[2] + 1.2 * speed_z + 10 * block[3]
    keys = {"a"} if side > 0.5 else {"d"} if side < -0.5 else set[str]()
    return keys | ({"w"} if depth > 0.5 else {"s"} if depth < -0.5 else set[str]()), now


@pytest.mark.slow
def test_someone_keeps_the_ball_for_20_seconds_with_held_keys(tmp_path: Path, visit: Callable[..., Visitor]):
    with viewing(tmp_path, "3DBall") as (_, address):
        someone = visit(address)
        someone.open("/play?env=3DBall")
        until(lambda: someone.page.evaluate(ROWS, "ball"), 90, "the ball")
        someone.page.get_by_text("0.5x").click()
        someone.page.locator("body").click(position={"x": 5, "y": 500})
        begin(someone)
        someone.marked("restart").click()
        fingers = Fingers(someone)
        before = None
        start = time.monotonic()
        longest = 0.0
        while time.monotonic() - start < 150 and longest < 20:
            keys, before = wanted_keys(someone, before)
            fingers.hold(keys)
            time.sleep(0.03)
            kept = re.search(r"reward ([-\d.]+)", someone.text("state"))
            # 0.1 a decision, of which there are 10 a second: seconds
            longest = max(longest, float(kept[1]) if kept else 0.0)
        someone.shoot("play-3dball")
        fingers.hold(set())
        assert longest >= 20


@pytest.mark.slow
def test_someone_plays_soccer_against_a_trained_team_and_sees_the_score(tmp_path: Path, visit: Callable[..., Visitor]):
    settings = ["--max-steps=60000", "--summary-freq=10000", "--num-areas=64"]
    done = palaestra(tmp_path, "learn", "--env=SoccerTwos", "--run-id=soccer", *settings)
    assert done.returncode == 0, done.stderr
    with viewing(tmp_path) as (_, address):
        someone = visit(address)
        someone.open("/play?run=soccer")
        begin(someone)
        assert someone.page.get_by_text("turn left").count() >= 1
        someone.page.get_by_text("10x").click()
        fingers = Fingers(someone)
        end = time.monotonic() + 120
        while time.monotonic() < end and "You:" not in someone.text("score"):
            for keys in ({"w"}, {"w", "a"}, {"w", "d"}):
                fingers.hold(keys)
                time.sleep(0.3)
        fingers.hold(set())
        someone.page.get_by_text("1x", exact=True).click()
        someone.shoot("play-soccer")
        assert re.search(r"You: \d+ won, \d+ drawn, \d+ lost", someone.text("score"))
        assert re.search(r"Elo \d+", someone.text("scoreboard"))
        someone.marked("side-1").click()
        someone.page.get_by_role("option", name=re.compile(r"run soccer, step \d")).last.click()
        until(lambda: "step" in someone.marked("side-1").input_value(), 20, "an earlier model")
        someone.page.wait_for_timeout(2000)
        until(lambda: "Playing" in someone.text("state"), 20, "playing, perhaps after the countdown to the next round")
        someone.shoot("play-soccer-snapshot")
    assert (tmp_path / "results" / ".player.json").is_file()


@pytest.mark.slow
def test_someone_records_three_episodes_of_pushblock_learns_from_them_and_watches(tmp_path, visit):
    with viewing(tmp_path) as (_, address):
        someone = visit(address)
        someone.open("/play?env=PushBlock")
        begin(someone)
        someone.page.get_by_text("10x").click()
        someone.marked("record").click()
        someone.marked("restart").click()
        fingers = Fingers(someone)
        end = time.monotonic() + 200
        number = 0
        while time.monotonic() < end and not someone.text("recorded").split(",")[0].endswith(" 4 episodes"):
            fingers.hold({"w"} if number % 3 else {"a"})
            number += 1
            time.sleep(0.2)
        fingers.hold(set())
        someone.marked("drop").click()
        someone.marked("stop-recording").click()
        until(lambda: someone.text("recorded").startswith("3 episodes"), 20, "three episodes")
        someone.marked("demo-name").fill("../mine")
        someone.marked("save-demo").click()
        until(lambda: list((tmp_path / "results/demos").glob("*.demo")), 20, "the file")
        (file,) = (tmp_path / "results/demos").glob("*.demo")
        assert len(summarize(read_demo(file)).returns) == 3
        someone.open("/demos")
        someone.page.locator("[data-mark=demos] tbody .q-checkbox").first.click()
        until(lambda: someone.marked("run-id").input_value(), 20, "a name for the run")
        someone.marked("steps").fill("4000")
        someone.shoot("demonstrations")
        someone.marked("start").click()
        until(lambda: (tmp_path / "results/PushBlock-from-demos/PushBlock.onnx").is_file(), 120, "the model")
        someone.open("/watch?run=PushBlock-from-demos")
        until(lambda: "Playing" in someone.text("state"), 60, "playing")
        someone.shoot("watch-pushblock")


@pytest.mark.slow
def test_nothing_happens_before_someone_is_ready_and_a_second_person_gets_the_other_team(tmp_path, visit):
    with viewing(tmp_path) as (_, address):
        someone = visit(address)
        someone.open("/play?env=SoccerTwos")
        someone.marked("begin").wait_for(timeout=90_000)
        time.sleep(3)
        assert someone.text("state").startswith("Waiting for you: 0 s")
        assert "episode" not in someone.text("score")
        someone.marked("invite").click()
        link = someone.marked("invitation").input_value()
        assert "token=" in link
        someone.page.get_by_text("Only browsers on this machine").wait_for()
        someone.page.keyboard.press("Escape")
        another = visit(link)
        until(lambda: "team 1" in another.marked("seat").input_value(), 30, "the seat of the other team")
        assert "team 0" in someone.marked("seat").input_value()
        begin(another)
        until(lambda: "Playing" in someone.text("state"), 20, "playing in both windows")


@pytest.mark.slow
def test_someone_plays_match3_with_arrows_and_space(tmp_path: Path, visit: Callable[..., Visitor]):
    with viewing(tmp_path) as (_, address):
        someone = visit(address)
        someone.open("/play?env=Match3")
        until(lambda: "Your move" in someone.text("state"), 90, "the board")
        press = someone.page.keyboard.press
        press("ArrowUp")
        for number in range(60):
            for key, back in (("ArrowRight", "ArrowLeft"), ("ArrowUp", "ArrowDown")):
                for one in (" ", key, back):
                    press(one)
                    someone.page.wait_for_timeout(250)
            if "reward 0.00" not in someone.text("state"):
                break
            press("ArrowUp" if number % 6 == 5 else "ArrowRight" if number // 6 % 2 == 0 else "ArrowLeft")
        assert re.search(r"reward 0\.\d*[1-9]", someone.text("state"))
        someone.shoot("play-match3")
