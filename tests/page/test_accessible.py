"""The page with a screen reader and without a mouse: axe-core finds nothing serious, and the main tasks need only
keys.
"""

import shutil
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from browser import Visitor, learning, palaestra, until, viewing

PAGES = {
    "runs": "/",
    "run": "/run?id=second",
    "watch": "/watch?run=second",
    "play": "/play?env=SoccerTwos",
    "play by clicks": "/play?env=Match3",
    "a new run": "/new?env=3DBall",
    "a copy": "/new?run=second",
    "demonstrations": "/demos",
    "no such run": "/run?id=nothing",
    "not opened": "/watch?env=editor",
    "a game that has ended": "/play?join=nothing",
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("accessible")
    for name in ("first", "second"):
        more = ("--max-steps=12000", "--summary-freq=4000", "--set", "behaviors.3DBall.checkpoint_interval=4000")
        done = palaestra(folder, "learn", "--env=3DBall", f"--run-id={name}", *more)
        assert done.returncode == 0, done.stderr
    results = folder / "results"
    for event in (results / "first" / "3DBall").glob("events*"):
        (results / "other" / "3DBall").mkdir(parents=True)
        shutil.copy(event, results / "other" / "3DBall")
    long = results / ("a-name-" * 12 + "without-model")
    (long / "run_logs").mkdir(parents=True)
    for name in ("configuration.yaml", "metrics.jsonl", "run_logs/training_status.json"):
        shutil.copy(results / "first" / name, long / name)
    more = ("--brain=heuristic", "--episodes=2", "--demo-out=results/demos/Basic.demo")
    done = palaestra(folder, "record", "--demo", "--env=Basic", *more)
    assert done.returncode == 0, done.stderr
    return folder


def violations(page: Any) -> list[str]:
    """Serious and critical violations that axe-core finds."""
    spec = find_spec("axe_playwright_python")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("axe-playwright-python is not installed")
    page.evaluate((Path(spec.submodule_search_locations[0]) / "axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [
        f"{one['id']}: {node['html'][:200]}"
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


@pytest.mark.slow
@pytest.mark.parametrize("size", ["wide", "phone"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_no_page_has_a_serious_barrier(runs: Path, visit: Callable[..., Visitor], size: str, dark: bool):
    found: dict[str, list[str]] = {}
    with viewing(runs) as (_, address):
        someone = visit(address, size, dark)
        for what, path in PAGES.items():
            someone.open(path)
            someone.page.wait_for_timeout(4000)
            if what == "runs":
                for box in someone.page.locator("[data-mark=runs] .q-checkbox").all()[-2:]:
                    box.click()
                someone.page.get_by_text("Settings that differ").wait_for()
            found |= {what: problems} if (problems := violations(someone.page)) else {}
            assert someone.page.locator("html").get_attribute("lang") == "en-US"
            assert someone.page.locator("h1").count() == 1
            assert someone.spills() == [], what
    assert found == {}


def choose_an_agent(someone: Visitor) -> None:
    someone.open("/watch?run=second&areas=1")
    until(lambda: "Playing" in someone.text("state"), 60, "playing")
    someone.marked("agent").click()
    someone.page.get_by_role("option").first.click()
    someone.marked("pause").click()


def wait_to_play(someone: Visitor) -> None:
    someone.open("/play?env=SoccerTwos")
    someone.marked("begin").wait_for(timeout=90_000)


def count_down(someone: Visitor) -> None:
    wait_to_play(someone)
    someone.page.keyboard.press("w")
    someone.marked("countdown").wait_for()


def invite(someone: Visitor) -> None:
    wait_to_play(someone)
    someone.marked("invite").click()


def open_a_list(someone: Visitor) -> None:
    wait_to_play(someone)
    someone.marked("side-1").click()


def read_settings(someone: Visitor) -> None:
    someone.open("/run?id=second")
    someone.marked("tab-settings").click()


def find_nothing(someone: Visitor) -> None:
    someone.open("/")
    someone.marked("search").fill("nothing")
    someone.page.get_by_text("No run matches").wait_for()


def choose_no_demonstration(someone: Visitor) -> None:
    someone.open("/demos")
    someone.marked("start").click()
    close = someone.page.get_by_role("button", name="Close")
    close.wait_for()
    color = "e => getComputedStyle(e).color"  # axe-core does not measure what lies above the bar on top
    assert close.evaluate(color) == someone.page.locator(".q-notification__message").evaluate(color)


def choose_a_demonstration(someone: Visitor) -> None:
    someone.open("/demos")
    someone.page.locator("[data-mark=demos] tbody .q-checkbox").first.click(timeout=30_000)
    until(lambda: someone.marked("run-id").input_value(), 20, "a name for the run")


def ask_to_stop(someone: Visitor) -> None:
    someone.open("/run?id=live")
    someone.marked("stop").click(timeout=60_000)
    someone.marked("stop-it").wait_for()


def watch_it_learn(someone: Visitor) -> None:
    someone.open("/watch?run=live")
    someone.marked("checkpoints").wait_for(timeout=60_000)
    someone.marked("ghost").click()
    until(lambda: "Playing" in someone.text("state"), 60, "playing")


def look_back(someone: Visitor) -> None:
    someone.open("/watch?run=second&areas=1")
    someone.marked("agent").click(timeout=60_000)
    someone.page.get_by_role("option").first.click()
    until(lambda: "Tick" in (someone.marked("moment").text_content() or ""), 60, "a timeline")
    someone.marked("back").click()


STATES: dict[str, Callable[[Visitor], None]] = {
    "an agent": choose_an_agent,
    "a timeline": look_back,
    "waiting for a person": wait_to_play,
    "the countdown": count_down,
    "an invitation": invite,
    "an open list": open_a_list,
    "settings": read_settings,
    "a search without result": find_nothing,
    "a complaint": choose_no_demonstration,
    "a demonstration": choose_a_demonstration,
    "files of TensorBoard alone": lambda someone: someone.open("/run?id=other%2F3DBall"),
    "files of TensorBoard alone, watched": lambda someone: someone.open("/watch?run=other%2F3DBall"),
    "a long name": lambda someone: someone.open("/run?id=" + "a-name-" * 12 + "without-model"),
    "no model": lambda someone: someone.open("/play?run=" + "a-name-" * 12 + "without-model"),
}


@pytest.mark.slow
@pytest.mark.parametrize("size", ["wide", "phone"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_no_state_of_a_page_has_a_serious_barrier(runs: Path, visit: Callable[..., Visitor], size: str, dark: bool):
    found: dict[str, list[str]] = {}
    with viewing(runs) as (process, address):
        someone = visit(address, size, dark)

        def examine(what: str) -> None:
            someone.page.wait_for_timeout(1500)  # until what fades in is there
            found.update({what: problems} if (problems := violations(someone.page)) else {})
            assert someone.spills() == [], what

        for what, reach in STATES.items():
            reach(someone)
            examine(what)
            someone.shoot(f"state-{what.replace(' ', '-')}")
        with learning(runs, "live", "--force"):
            ask_to_stop(someone)
            examine("a question")
            watch_it_learn(someone)
            examine("a run that learns")
            someone.shoot("learning")
        someone.open("/")
        someone.page.get_by_text("second").first.wait_for(timeout=60_000)  # the page is connected
        process.kill()
        popup = someone.page.locator("#popup")
        until(lambda: popup.evaluate("e => getComputedStyle(e).opacity") == "1", 60, "the loss of the connection")
        examine("no connection")
    assert found == {}


FOCUSED = """() => {
  const e = document.activeElement, read = e.cloneNode(true);
  for (const icon of read.querySelectorAll('[aria-hidden=true]')) icon.remove();
  return (e.getAttribute('aria-label') || read.textContent || e.placeholder || '').trim();
}"""
"""Name of the element that has the focus, as it is read aloud: without icons, whose text is the name of a picture."""


def tab_to(someone: Visitor, name: str) -> Any:
    """Presses Tab until an element of this name has the focus."""
    for _ in range(80):
        someone.page.keyboard.press("Tab")
        now = someone.page.evaluate(FOCUSED)
        if now == name:
            return
    raise AssertionError(f"Tab never reaches '{name}'")


@pytest.mark.slow
def test_runs_are_sorted_chosen_and_watched_without_a_mouse(runs: Path, visit: Callable[..., Visitor]):
    with viewing(runs) as (_, address):
        someone = visit(address)
        keys = someone.page.keyboard
        page = someone.page
        page.get_by_text("second").first.wait_for()
        tab_to(someone, "Run")
        keys.press("Enter")
        page.locator("th[aria-sort=ascending]").wait_for()
        keys.press("Enter")
        page.locator("th[aria-sort=descending]").wait_for()
        for name in ("Choose second", "Choose first"):
            tab_to(someone, name)
            keys.press("Space")
        page.get_by_text("Settings that differ").wait_for()
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
        tab_to(someone, "Watch")
        keys.press("Enter")
        state = page.locator("[data-mark=state]")
        until(lambda: "Playing" in state.inner_text(), 60, "playing")
        tab_to(someone, "Pause or continue")
        keys.press("Space")
        until(lambda: "Paused" in state.inner_text(), 20, "the pause")
        assert page.locator("[data-mark=pause]").get_attribute("aria-pressed") == "true"
