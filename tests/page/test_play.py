"""People who play in the browser."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browser import Visitor, until, viewing

ROWS = "name => document.querySelector('.p-scene')?.counters?.rows(name) ?? []"


def label(someone: Visitor, mark: str) -> str:
    return someone.page.locator(f"[data-mark={mark}]").first.inner_text()


def marked(someone: Visitor, mark: str) -> Any:
    return someone.page.locator(f"[data-mark={mark}]").first


class Fingers:
    """Holds and releases keys so that exactly the wanted ones are down."""

    def __init__(self, someone: Visitor) -> None:
        self._keyboard, self._down = someone.page.keyboard, set[str]()

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
    speed_x, speed_z = ((now[1] - before[1]) / span, (now[2] - before[2]) / span) if before and span > 0.02 else (0.0, 0.0)
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
        marked(someone, "restart").click()
        fingers, before, start, longest = Fingers(someone), None, time.monotonic(), 0.0
        while time.monotonic() - start < 150 and longest < 20:
            keys, before = wanted_keys(someone, before)
            fingers.hold(keys)
            time.sleep(0.03)
            kept = re.search(r"reward ([-\d.]+)", label(someone, "state"))
            longest = max(longest, float(kept[1]) if kept else 0.0)  # 0.1 a decision, of which there are 10 a second: seconds
        someone.shoot("play-3dball")
        fingers.hold(set())
        assert longest >= 20
