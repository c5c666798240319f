"""A headless Chromium, and the page in a process of its own, for the tests of this folder.

Run as a program, it installs a Chromium where none is found: Playwright's own, or the system's package.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

sync_api = pytest.importorskip("playwright.sync_api")

SHOTS = Path(__file__).parents[2] / "results" / "page"
"""Folder of the screenshots that the tests keep, for a person to look at."""
SIZES = {"wide": {"width": 1280, "height": 800}, "phone": {"width": 390, "height": 844}}
FLAGS = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist"]


def chromium() -> str | None:
    """The browser to use: PALAESTRA_CHROMIUM, one that is installed, or Playwright's own."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    if path := os.environ.get("PALAESTRA_CHROMIUM") or next(filter(None, map(shutil.which, names)), None):
        return path
    with sync_api.sync_playwright() as driver:
        own = driver.chromium.executable_path
    return own if Path(own).is_file() else None


class Visitor:
    """A person at a browser window, who sees no error message of the page's scripts."""

    def __init__(self, browser: sync_api.Browser, address: str, size: str = "wide", dark: bool = False) -> None:
        scheme = "dark" if dark else "light"
        context = browser.new_context(viewport=SIZES[size], color_scheme=scheme, accept_downloads=True)
        self.page = context.new_page()
        self.errors: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(address)
        self.home = "http://" + urlsplit(address).netloc
        self._name = f"{size}-{scheme}"

    def open(self, path: str) -> None:
        self.page.goto(self.home + path)

    def marked(self, mark: str) -> sync_api.Locator:
        """The element with a mark."""
        return self.page.locator(f"[data-mark={mark}]").first

    def text(self, mark: str) -> str:
        return self.marked(mark).inner_text()

    def shoot(self, what: str) -> Path:
        """Keeps a screenshot."""
        SHOTS.mkdir(parents=True, exist_ok=True)
        file = SHOTS / f"{what}-{self._name}.png"
        self.page.screenshot(path=file)
        return file

    def spills(self) -> list[str]:
        """Elements that reach beyond the window's right edge, unless they scroll inside a box of their own, and texts
        that are cut.
        """
        return self.page.evaluate(SPILLS)

    def close(self) -> None:
        self.page.context.close()


SPILLS = """() => {
  const seen = e => { const s = getComputedStyle(e);
    return s.visibility !== 'hidden' && s.display !== 'none' && e.getClientRects().length };
  const scrolls = e => { for (; e && e !== document.body; e = e.parentElement)
    if (['auto', 'scroll', 'hidden'].includes(getComputedStyle(e).overflowX)) return true; return false };
  const found = [];
  for (const e of document.querySelectorAll('body *')) {
    if (!seen(e)) continue;
    const box = e.getBoundingClientRect();
    const name = e.tagName + '.' + (e.getAttribute('class') || '').slice(0, 60) + ' "' + (e.textContent ||
      '').trim().slice(0, 40) + '"';
    if (box.right > innerWidth + 1 && box.width && !scrolls(e.parentElement)) found.push('beyond the edge: ' + name);
    const style = getComputedStyle(e);
    const leaf = e.children.length === 0 && e.textContent.trim();
    const cut = leaf && e.clientWidth && e.scrollWidth > e.clientWidth + 1 && style.overflowX === 'hidden';
    if (cut && style.textOverflow !== 'ellipsis') found.push('cut: ' + name);
  }
  return found;
}"""


@contextmanager
def begun(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Runs a command until the block ends."""
    command = [sys.executable, "-m", "palaestra", *words]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def viewing(folder: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Runs `palaestra view` with these words, with `folder` as the current one; gives the process and the address."""
    with begun(folder, "view", "--no-browser", *words) as process:
        yield process, printed_address(process)


@contextmanager
def learning(folder: Path, run_id: str, *more: str) -> Iterator[subprocess.Popen[str]]:
    """Trains 3DBall until the block ends."""
    words = ("learn", "--env=3DBall", f"--run-id={run_id}", "--max-steps=1e8", "--summary-freq=2000", *more)
    with begun(folder, *words) as process:
        yield process


def printed_address(process: subprocess.Popen[str]) -> str:
    """Waits until a command has printed the page's address; returns it."""
    printed = ""
    while (found := re.search(r"http://\S+", printed)) is None:
        line = process.stdout.readline()
        assert line, f"the command ended: {printed}"
        printed += line
    return found[0]


def palaestra(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "palaestra", *words], cwd=folder, capture_output=True, text=True, timeout=900
    )


def until(true: Callable[[], object], seconds: float = 60.0, what: str = "") -> None:
    """Waits until something is true."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"{what or true} did not become true in {seconds:g} s"
        time.sleep(0.2)


def install() -> int:
    """Installs a Chromium if none is found; returns an exit status."""
    if chromium() is None and subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"]).returncode:
        apt = shutil.which("apt-get")
        if apt is not None and os.geteuid() == 0:
            subprocess.run([apt, "update", "-q"])
            subprocess.run([apt, "install", "-q", "-y", "chromium"])
    path = chromium()
    print(
        f"Chromium: {path}"
        if path
        else "No Chromium could be installed: install one, and name it with PALAESTRA_CHROMIUM=/path/to/it"
    )
    return int(path is None)


if __name__ == "__main__":
    sys.exit(install())
