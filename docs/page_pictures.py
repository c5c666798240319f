"""Takes the pictures of the guide to the page: `python docs/page_pictures.py [NAME...]`.

They show the runs that `docs/make_pictures.py --train` trains; `learns` trains a run of its own, and makes a clip too.
"""

from __future__ import annotations

import io
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from make_pictures import save_webp
from PIL import Image, ImageSequence
from playwright.sync_api import sync_playwright

from palaestra.core.metrics import REWARD
from palaestra.runtime.playback.sources import PlaybackSource, steps_of
from palaestra.runtime.showing.live_models import LiveModels
from palaestra.runtime.storage.run_folder import RunFolder
from palaestra.web.watch.learning_card import split_screen, start_middle_now

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
SIZE = {"width": 1200, "height": 760}
COMPARED = ("faster-seed-1", "faster-seed-2", "standard-seed-1", "standard-seed-2")

sys.path.insert(0, str(ROOT / "tests" / "page"))
from browser import FLAGS, Visitor, chromium, until, viewing  # noqa: E402


@contextmanager
def visitor(folder: Path = ROOT) -> Iterator[Visitor]:
    """A browser window on the page over the runs of a folder's `results`."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium(), args=FLAGS)
        with viewing(folder) as (_, address):
            someone = Visitor(browser, address)
            someone.page.set_viewport_size(SIZE)
            yield someone
        browser.close()


def keep(someone: Visitor, name: str, **options: bool) -> None:
    """Writes what the browser shows to a PNG of the documentation."""
    file = IMAGES / f"page-{name}.png"
    someone.page.screenshot(path=file, **options)
    with Image.open(file) as picture:
        picture.convert("RGB").save(file, optimize=True)
    print(f"Wrote {file} ({file.stat().st_size / 1e3:.0f} kB)")


def runs(someone: Visitor) -> None:
    """Takes a picture of the table of runs with two settings compared."""
    table = someone.page.locator("[data-mark=runs] tbody")
    table.locator("tr").first.wait_for(timeout=60_000)
    search = someone.page.get_by_label("Search")
    for name in COMPARED:
        search.fill(name)
        until(lambda: table.locator("tr").count() == 1, what=name)
        table.locator(".q-checkbox").click()
    search.fill("")
    search.blur()
    time.sleep(3)  # the curves are drawn in steps
    keep(someone, "runs", full_page=True)


def watch(someone: Visitor) -> None:
    """A trained policy in nine areas, and what one agent sees."""
    someone.open("/watch?run=pushblock&areas=9")
    until(lambda: "mean reward" in someone.page.locator("body").inner_text(), 120, "the first episodes")
    someone.marked("agent").click()
    someone.page.get_by_role("option").nth(8).click()
    someone.page.locator("[data-mark=agent-facts]").wait_for()
    time.sleep(2)
    someone.page.evaluate("scrollTo(0, 0)")
    keep(someone, "watch")


def play(someone: Visitor) -> None:
    """A person plays RingOut against two models."""
    someone.open("/play?run=ringout")
    someone.marked("begin").wait_for(timeout=90_000)
    someone.page.keyboard.press("d")
    until(lambda: "Playing" in someone.text("state"), 30, "the game")
    discs = "document.querySelector('.p-scene')?.counters?.rows('agent') ?? []"
    before = someone.page.evaluate(discs)[0][0]
    someone.page.keyboard.down("d")
    until(lambda: someone.page.evaluate(discs)[0][0] > before + 1, 30, "a disc that moves")
    keep(someone, "play")


def learns(someone: Visitor, folder: Path) -> None:
    """3DBall learns from an empty page on, with a ghost of how it played; and a clip of start, middle and now."""
    someone.marked("train-first").click(timeout=30_000)
    live = LiveModels(folder / "results" / "3DBall")
    until(lambda: live.steps() and live.steps()[-1] > 108_000, 600, "108,000 decisions")
    slider = someone.marked("checkpoints")
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    assert box is not None
    someone.page.mouse.click(box["x"] + 0.3 * box["width"], box["y"] + box["height"] / 2)
    until(lambda: someone.text("step").startswith("After "), 30, "an earlier policy")
    someone.marked("ghost").click()
    haunted = "document.querySelector('.p-scene').counters.haunting.groups.length"
    until(lambda: someone.page.evaluate(haunted), 60, "the ghost")
    time.sleep(4)
    someone.page.evaluate("scrollTo(0, 0)")
    keep(someone, "learns", full_page=True)
    run = RunFolder(folder / "results", "3DBall")
    lines = map(json.loads, (run.path / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    curve = [[line["step"], line[REWARD]] for line in lines if REWARD in line]
    film = split_screen(PlaybackSource(run.results, run=run.run_id), start_middle_now(steps_of(run), curve), ".gif")
    with Image.open(io.BytesIO(film)) as moving:
        frames = [
            frame.convert("RGB").resize((960, 960 * frame.height // frame.width))
            for frame in ImageSequence.Iterator(moving)
        ]
    save_webp(frames, IMAGES / "page-clip.webp")


if __name__ == "__main__":
    wanted = sys.argv[1:]
    with visitor() as someone:
        for take in (runs, watch, play):
            if not wanted or take.__name__ in wanted:
                take(someone)
    if not wanted or "learns" in wanted:
        with tempfile.TemporaryDirectory() as empty, visitor(Path(empty)) as someone:
            learns(someone, Path(empty))
