"""Takes the screenshots of the guide to the page: `python docs/page_pictures.py`.

They show the runs that `docs/make_pictures.py --train` trains.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
SIZE = {"width": 1200, "height": 760}
COMPARED = ("faster-seed-1", "faster-seed-2", "standard-seed-1", "standard-seed-2")

sys.path.insert(0, str(ROOT / "tests" / "page"))
from browser import FLAGS, Visitor, chromium, until, viewing  # noqa: E402


@contextmanager
def visitor() -> Iterator[Visitor]:
    """A browser window on the page over the runs of `results`."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium(), args=FLAGS)
        with viewing(ROOT) as (_, address):
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


if __name__ == "__main__":
    with visitor() as someone:
        for take in (runs, watch, play):
            if not sys.argv[1:] or take.__name__ in sys.argv[1:]:
                take(someone)
