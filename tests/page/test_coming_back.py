"""What a person comes back to: the page after a restart, a view that was turned, a run that was just started."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from browser import Visitor, palaestra, until, viewing

CAMERA = "() => { const c = document.querySelector('.p-scene').counters.camera.position; return [c.x, c.y, c.z] }"
PIXELS = "() => document.querySelector('.p-scene').counters.shown"


@pytest.mark.slow
def test_an_open_tab_goes_on_after_the_command_was_started_again(tmp_path: Path, visit: Callable[..., Visitor]):
    with viewing(tmp_path) as (_, address):
        someone = visit(address)
        someone.page.get_by_text("palaestra learn").first.wait_for(timeout=30_000)
    until(
        lambda: someone.page.locator("#popup").get_attribute("aria-hidden") == "false", 30, "the loss of the connection"
    )
    until(lambda: someone.page.locator("#popup").is_visible(), 30, "the notice")
    time.sleep(3)
    someone.shoot("lost")
    after = "getComputedStyle(document.querySelector('#popup > span:last-child'), '::after').content"
    assert "start it again" in someone.page.evaluate(after)
    port = address.partition("?")[0].rstrip("/").rpartition(":")[2]
    with viewing(tmp_path, "--port", port) as (_, again):
        assert again == address
        until(lambda: someone.page.locator("#popup").get_attribute("aria-hidden") == "true", 60, "the connection")
        someone.page.get_by_text("palaestra learn").first.wait_for(timeout=30_000)
        someone.shoot("found-again")


@pytest.mark.slow
def test_a_view_that_was_turned_stays_when_the_window_changes(tmp_path: Path, visit: Callable[..., Visitor]):
    with viewing(tmp_path, "WallJump") as (_, address):
        someone = visit(address)
        someone.open("/watch?env=WallJump&areas=9")
        until(lambda: someone.page.evaluate(PIXELS) > 1, 90, "the scene")
        box = someone.marked("scene").bounding_box()
        x = box["x"] + box["width"] / 2
        y = box["y"] + box["height"] / 2
        first = someone.page.evaluate(CAMERA)
        someone.page.set_viewport_size({"width": 1100, "height": 800})
        until(lambda: someone.page.evaluate(CAMERA) != first, 20, "another fit")  # nobody has turned it so far
        someone.page.mouse.move(x, y)
        someone.page.mouse.down()
        someone.page.mouse.move(x + 120, y + 30, steps=5)
        someone.page.mouse.up()
        time.sleep(1)
        turned = someone.page.evaluate(CAMERA)
        someone.page.set_viewport_size({"width": 1280, "height": 700})
        time.sleep(1.5)
        assert someone.page.evaluate(CAMERA) == pytest.approx(turned)
        someone.shoot("turned")


@pytest.mark.slow
def test_a_picture_in_the_agent_panel_is_never_empty(tmp_path: Path, visit: Callable[..., Visitor]):
    with viewing(tmp_path, "GridWorld") as (_, address):
        someone = visit(address)
        someone.open("/watch?env=GridWorld")
        until(lambda: "Playing" in someone.text("state"), 90, "playing")
        someone.marked("agent").click()
        someone.page.get_by_role("option").first.click()
        someone.marked("seen").wait_for(timeout=20_000)
        sizes = []
        found = set()
        for _ in range(40):
            sizes.append(someone.page.evaluate("() => document.querySelector('[data-mark=seen]')?.naturalWidth ?? 0"))
            found.add(someone.marked("seen").get_attribute("src"))
            time.sleep(0.1)
        someone.shoot("agent-camera")
        assert min(sizes) > 0
        assert len(found) > 1  # it goes on


@pytest.mark.slow
def test_a_run_that_was_started_from_demonstrations_opens_and_is_watched(tmp_path: Path, visit: Callable[..., Visitor]):
    (tmp_path / "results/demos").mkdir(parents=True)
    made = palaestra(
        tmp_path,
        "record",
        "--demo",
        "--env=Basic",
        "--brain=heuristic",
        "--episodes=10",
        "--demo-out=results/demos/Basic.demo",
    )
    assert made.returncode == 0, made.stderr
    with viewing(tmp_path) as (_, address):
        someone = visit(address)
        someone.open("/demos")
        someone.page.locator("[data-mark=demos] tbody .q-checkbox").first.click(timeout=30_000)
        until(lambda: someone.marked("run-id").input_value(), 20, "a name for the run")
        someone.marked("steps").fill("4000")
        someone.marked("start").click()
        someone.page.wait_for_url("**/run?id=Basic-from-demos", timeout=20_000)
        someone.marked("state").wait_for(timeout=90_000)
        until(lambda: someone.text("state").lower() == "finished", 90, "the end")
        until(lambda: someone.page.get_by_role("button", name="Watch").last.is_enabled(), 20, "the button")
        someone.page.get_by_role("button", name="Watch").last.click()
        until(lambda: "Playing" in someone.text("state"), 60, "playing")
