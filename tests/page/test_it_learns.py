"""From an empty folder to two compared runs with the page alone: train, watch, rewind, clip, another learning rate."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from browser import Visitor, palaestra, until, viewing

from palaestra.runtime.showing.live_models import LiveModels


def choose(someone: Visitor, share: float) -> None:
    """Clicks on the slider of checkpoints."""
    slider = someone.marked("checkpoints")
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    assert box is not None
    someone.page.mouse.click(box["x"] + share * box["width"], box["y"] + box["height"] / 2)


def place(someone: Visitor) -> str:
    """The address in the browser's bar."""
    return someone.page.evaluate("location.href")


def stop(someone: Visitor, run: str) -> None:
    """Stops a run, unless it has finished by itself."""
    someone.open(f"/run?id={run}")
    until(lambda: someone.text("state").lower() in ("learning", "finished"), 60, "its state")
    if someone.text("state").lower() == "learning":
        someone.marked("stop").click(timeout=30_000)
        someone.marked("stop-it").click()
    until(lambda: someone.text("state").lower() in ("stopped", "finished"), 60, "its end")


@pytest.mark.slow
def test_a_first_run_is_trained_watched_rewound_and_filmed_and_a_second_one_compared(
    tmp_path: Path, visit: Callable[..., Visitor]
):
    with viewing(tmp_path) as (_, address):
        someone = visit(address)
        someone.marked("train-first").click(timeout=30_000)
        someone.marked("checkpoints").wait_for(timeout=60_000)
        live = LiveModels(tmp_path / "results" / "3DBall")
        until(lambda: len(live.steps()) >= 4, 120, "models while it learns")
        until(lambda: someone.page.evaluate("document.querySelector('.p-scene').counters.shown") > 5, 60, "the scene")
        someone.shoot("learns")
        choose(someone, 0.1)
        until(lambda: someone.text("step").startswith("After "), 30, "an earlier policy")
        someone.marked("ghost").click()
        haunted = "document.querySelector('.p-scene').counters.haunting.groups.length"
        until(lambda: someone.page.evaluate(haunted) == 3, 60, "the ghost: block, eyes and ball")
        someone.shoot("ghost")
        with someone.page.expect_download(timeout=180_000) as film:
            someone.marked("clip").click()
        assert film.value.suggested_filename.startswith("3DBall.")
        assert Path(film.value.path()).stat().st_size > 20_000
        until(lambda: live.steps()[-1] > 120_000, 180, "what it learns")
        stop(someone, "3DBall")
        someone.marked("copy").click()
        someone.marked("new-name").wait_for(timeout=30_000)
        someone.marked("new-name").fill("faster")
        someone.marked("new-search").fill("learning_rate")
        rate = someone.marked('"set-hyperparameters.learning_rate"')
        rate.fill("0.001")
        rate.press("Enter")
        until(lambda: "learning_rate: 0.001" in someone.marked("new-yaml").input_value(), 20, "the YAML")
        someone.shoot("form")
        someone.marked("new-start").click()
        someone.marked("checkpoints").wait_for(timeout=60_000)
        until(lambda: (tmp_path / "results/faster/metrics.jsonl").is_file(), 90, "the second run")
        stop(someone, "faster")
        someone.open("/")
        boxes = someone.page.locator("[data-mark=runs] tbody .q-checkbox")
        boxes.nth(1).wait_for(timeout=30_000)
        for number in range(2):
            boxes.nth(number).click()
        someone.page.get_by_text("Settings that differ").wait_for(timeout=20_000)
        until(lambda: "run=faster" in place(someone) and "run=3DBall" in place(someone), 20, "the address")
        someone.page.reload()
        someone.page.get_by_text("Settings that differ").wait_for(timeout=30_000)
        someone.shoot("compared")
        assert someone.errors == []
    settings = (tmp_path / "results/faster/configuration.yaml").read_text()
    assert "learning_rate: 0.001" in settings


@pytest.mark.slow
def test_seeds_have_a_band_and_what_is_hidden_pinned_and_written_stays(tmp_path: Path, visit: Callable[..., Visitor]):
    more = ("--max-steps=24000", "--summary-freq=6000", "--seeds=2")
    assert palaestra(tmp_path, "learn", "--env=3DBall", "--run-id=two", *more).returncode == 0
    series = """() => getElement(document.querySelector('[data-mark=curves]').id.slice(1)).chart.getOption().series
      .map(s => s.id)"""
    with viewing(tmp_path) as (_, address):
        someone = visit(address)
        until(lambda: "band0" in someone.page.evaluate(series), 60, "a band")
        someone.page.get_by_label("Pin two-seed-2").click()
        until(lambda: "pin=two-seed-2" in place(someone), 20, "the address")
        someone.marked("bands").click()
        until(lambda: someone.page.evaluate(series) == ["s0", "s1"], 30, "a line each")
        someone.page.get_by_label("Hide two-seed-1").click()
        until(lambda: someone.page.evaluate(series) == ["s0"], 30, "one line")
        someone.page.reload()
        until(lambda: someone.page.evaluate(series) == ["s0"], 60, "the same after reloading")
        someone.open("/run?id=two-seed-1")
        someone.page.get_by_text("Tags and note").click(timeout=30_000)
        someone.marked("tags").fill("best, later")
        someone.marked("note").fill("The one to keep.")
        someone.marked("note").blur()
        file = tmp_path / "results/two-seed-1/run_logs/notes.json"
        both = {"tags": ["best", "later"], "note": "The one to keep."}
        until(lambda: file.is_file() and json.loads(file.read_text()) == both, 20, "the note")
        someone.open("/")
        someone.page.get_by_text("later", exact=True).first.wait_for(timeout=30_000)
        assert someone.errors == []


@pytest.mark.slow
def test_a_timeline_is_scrubbed_back(tmp_path: Path, visit: Callable[..., Visitor]):
    more = ("--max-steps=12000", "--summary-freq=4000")
    assert palaestra(tmp_path, "learn", "--env=3DBall", "--run-id=ball", *more).returncode == 0
    with viewing(tmp_path) as (_, address):
        someone = visit(address)
        someone.open("/watch?run=ball&areas=1")
        someone.marked("agent").click(timeout=60_000)
        someone.page.get_by_role("option").first.click()
        until(lambda: "Tick" in (someone.marked("moment").text_content() or ""), 60, "a timeline")
        time.sleep(2)
        someone.marked("back").click()
        someone.marked("back").click()
        until(lambda: "Paused" in someone.text("state"), 20, "a pause")
        first = someone.marked("moment").inner_text()
        someone.marked("back").click()
        until(lambda: someone.marked("moment").inner_text() != first, 20, "an earlier tick")
        assert "Reward at tick" in someone.text("agent-facts")
        someone.shoot("timeline")
        someone.marked("now").click()
        until(lambda: "Playing" in someone.text("state"), 20, "the present")
        assert someone.errors == []


@pytest.mark.slow
def test_a_form_is_filled_by_keys_and_starts_only_what_can_be_read(tmp_path: Path, visit: Callable[..., Visitor]):
    with viewing(tmp_path) as (_, address):
        someone = visit(address)
        someone.open("/new?env=CartPole")
        yaml = someone.marked("new-yaml")
        keys = someone.page.keyboard
        first = someone.marked('"set-hyperparameters.batch_size"')
        first.wait_for(timeout=30_000)
        first.fill("64")
        first.press("Tab")
        until(lambda: "batch_size: 64" in yaml.input_value(), 20, "the YAML")
        for _ in range(5):
            if someone.page.evaluate("document.activeElement.ariaLabel") == "hyperparameters.buffer_size":
                break
            keys.press("Tab")
        keys.press("Control+A")
        keys.type("4096")
        keys.press("Tab")
        until(lambda: "buffer_size: 4096" in yaml.input_value(), 20, "the YAML")
        assert someone.page.evaluate("document.activeElement.tagName") != "BODY"
        someone.marked("new-search").fill("no such words")
        someone.page.get_by_text("No setting has these words").wait_for(timeout=10_000)
        bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
        bomb += "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 9))
        for text, says in ((yaml.input_value() + "x: [", "As YAML"), (bomb, "As YAML")):
            yaml.fill(text)
            until(lambda says=says: says in someone.text("new-problem"), 20, "the complaint")
            someone.marked("new-start").click()
            someone.page.get_by_text("The settings cannot be read").wait_for(timeout=10_000)
        assert not (tmp_path / "results" / "CartPole").exists()
        someone.marked("new-seeds").fill("1000")
        someone.marked("new-start").click()
        someone.page.get_by_text("expected a whole number from 1 to 20").wait_for(timeout=10_000)
        assert someone.errors == []
