"""Makes the pictures of the tutorials in `docs/images/tutorials`: `python docs/make_tutorials.py [NAME ...]`.

Each picture is what a reader of its page gets: the files that the page says to save are saved in an empty folder, and
the page's commands are run there, one after another. All pages take about ten minutes of one core.
"""

from __future__ import annotations

import argparse
import base64
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import nbclient
import nbformat
import numpy as np
from make_pictures import picture
from page_pictures import visitor
from PIL import Image, ImageSequence

import palaestra
from palaestra.envs.solids import BLUE, GOLD, GRAY, Drawing, solids

DOCS = Path(__file__).parent
IMAGES = DOCS / "images" / "tutorials"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SAVED = re.compile(r"[Ss]ave this as `([\w.-]+)`[^\n]*\n+```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
FOLLOWED = re.compile(r"palaestra (learn(?!.*--inference)|record|plot|compare)|python (-m palaestra.sdk pack)")
"""Commands that make runs, pictures and programs. The others are left out."""
RAILS = 4
RAIL = 5.0


def follow(page: str, folder: Path, at_view: Callable[[], None] = lambda: None) -> None:
    """Saves the files of a tutorial in a folder and runs its commands there; `palaestra view` calls `at_view`."""
    text = (DOCS / "tutorials" / page).read_text(encoding="utf-8")
    for name, content in SAVED.findall(text):
        (folder / name).write_text(content, encoding="utf-8")
    blocks = [block for language, block in FENCE.findall(SAVED.sub("", text)) if language in ("", "bash")]
    for line in [line for block in blocks for line in block.splitlines()]:
        if line.startswith("palaestra view"):
            at_view()
        elif FOLLOWED.match(line):
            print("$", line, flush=True)
            words = shlex.split(line)
            words = [sys.executable, *words[1:]] if words[0] == "python" else [sys.executable, "-m", *words]
            subprocess.run(words, cwd=folder, check=True, stdout=subprocess.DEVNULL)


def keep(file: Path, name: str, width: int = 0) -> None:
    """Puts a picture into the documentation: a GIF as a WebP, which is smaller."""
    with Image.open(file) as image:
        scale = width / image.width if width else 1
        size = (round(scale * image.width), round(scale * image.height))
        frames = [frame.convert("RGB").resize(size) for frame in ImageSequence.Iterator(image)]
        save(frames, name, image.info.get("duration", 0))


def save(frames: list[Image.Image], name: str, duration: int = 0) -> None:
    """Writes a picture, or pictures that follow each other after `duration` milliseconds."""
    file = IMAGES / name
    if file.suffix == ".webp":
        frames[0].save(file, save_all=True, append_images=frames[1:], duration=duration, loop=0, quality=75, method=4)
    else:
        frames[0].quantize(128).save(file, optimize=True)
    print(f"Wrote {file} ({file.stat().st_size / 1e3:.0f} kB)")


def first_training(folder: Path) -> None:
    """3DBall: curves, four areas that play, the page, and two learning rates."""

    def view() -> None:
        with visitor(folder) as someone:
            someone.open("/watch?run=first")
            someone.page.get_by_text(re.compile(r"tick [5-9]\d")).wait_for(timeout=120_000)
            someone.page.screenshot(path=folder / "page.png")

    follow("first-training.md", folder, view)
    keep(folder / "curves.png", "first-curve.png")
    keep(folder / "results" / "first" / "recording.gif", "first-recording.webp", width=480)
    keep(folder / "comparison.png", "first-comparison.png")
    keep(folder / "page.png", "first-page.png")


def crossing(folder: Path) -> None:
    """A game as a Gymnasium class: what it shows, what the agent sees, curves."""
    follow("your-gymnasium-environment.md", folder)
    keep(folder / "results" / "crossing" / "recording.gif", "crossing-recording.webp", width=480)
    keep(folder / "results" / "crossing" / "curves.png", "crossing-curves.png", width=1440)
    sys.path.insert(0, str(folder))
    env = import_module("crossing").Crossing()
    env.reset(seed=3)
    policy = palaestra.load_policy(folder / "results" / "crossing" / "Crossing.onnx")
    seen = env.observation()
    while env.row > env.lanes - 2:
        seen, *_ = env.step(policy.predict(seen, deterministic=True)[0])
    whole = Image.fromarray(env.render())
    view = Image.fromarray(seen["view"]).resize((whole.height, whole.height), Image.Resampling.NEAREST)
    sheet = Image.new("RGB", (whole.width + 24 + view.width, whole.height), "white")
    sheet.paste(whole, (0, 0))
    sheet.paste(view, (whole.width + 24, 0))
    save([sheet], "crossing-view.png")


def catch(folder: Path) -> None:
    """A game in Python: it plays, and its curve."""
    follow("game-in-python.md", folder)
    keep(folder / "results" / "catch" / "recording.gif", "catch-recording.webp")
    keep(folder / "catch.png", "catch-curve.png")


def roll(folder: Path) -> None:
    """The game that stands in for Unity: its curves, and how its scene looks."""
    shutil.copytree(DOCS.parent / "examples", folder / "examples")
    (folder / "builds").mkdir()
    follow("unity-build.md", folder)
    keep(folder / "results" / "build" / "curves.png", "roll-curves.png", width=1440)
    policy = palaestra.load_policy(folder / "results" / "build" / "Roll.onnx")
    chance = np.random.default_rng(1)
    frames = []
    for _ in range(3):  # episodes
        at, speed = chance.uniform(-RAIL, RAIL, RAILS), np.zeros(RAILS)
        flag = chance.uniform(-RAIL / 2, RAIL / 2, RAILS)
        for _ in range(60):  # decisions, of two steps each
            seen = np.stack([at / RAIL, flag / RAIL, speed], axis=1).astype(np.float32)
            push = np.clip(policy.predict(seen, deterministic=True)[0][:, 0], -1, 1)
            for _ in range(2):
                speed += 0.1 * push - 0.1 * speed
                at += speed
            frames.append(picture(scene(at, flag), "", (640, 400), fill=False))
    save(frames, "roll-scene.webp", 40)


def scene(at: np.ndarray, flag: np.ndarray) -> Drawing:
    """Returns rails with a ball and a flag each, as the tutorial builds them in Unity."""
    z = 2.0 * np.arange(RAILS) - RAILS + 1

    def placed(x: np.ndarray, height: float) -> np.ndarray:
        return np.stack([x, np.full(RAILS, height), z], axis=-1)[None]

    return Drawing(
        (
            solids("rail", "box", placed(np.zeros(RAILS), 0.0), (2 * RAIL, 0.1, 1.0), GRAY, fixed=True),
            solids("flag", "box", placed(flag, 0.8), (0.1, 1.5, 0.1), GOLD),
            solids("ball", "sphere", placed(at, 0.55), (1.0, 1.0, 1.0), BLUE),
        ),
        half=(RAIL + 0.6, 1.0, RAILS + 0.2),
        elevation=38.0,
    )


def notebook(folder: Path) -> None:
    """The outputs of the notebook's cells: tables, the curve, the moving picture."""
    book = nbformat.read(DOCS.parent / "examples" / "first_steps.ipynb", as_version=4)
    nbclient.NotebookClient(book, timeout=600, resources={"metadata": {"path": str(folder)}}).execute()
    _, train, curve, test, _ = (cell for cell in book.cells if cell.cell_type == "code")
    (recording,) = folder.rglob("recording.gif")
    keep(recording, "notebook-recording.webp", width=480)
    (folder / "curve.png").write_bytes(base64.b64decode(shown(curve, "image/png")))
    keep(folder / "curve.png", "notebook-curve.png")
    with visitor(folder) as someone:
        for cell, name in ((train, "result"), (test, "evaluation")):
            style = "display: inline-block; font: 13px sans-serif; padding: 6px"
            someone.page.set_content(f'<div id="cell" style="{style}">{shown(cell, "text/html")}</div>')
            someone.page.locator("#cell").screenshot(path=folder / f"{name}.png")
            keep(folder / f"{name}.png", f"notebook-{name}.png")


def shown(cell: nbformat.NotebookNode, kind: str) -> str:
    """Returns the value of a cell in a form."""
    (value,) = (output.data[kind] for output in cell.outputs if output.output_type == "execute_result")
    return value


TUTORIALS: dict[str, Callable[[Path], None]] = {
    each.__name__: each for each in (first_training, crossing, catch, roll, notebook)
}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*TUTORIALS, []], help="which tutorials; default: all")
    IMAGES.mkdir(parents=True, exist_ok=True)
    for name in parser.parse_args().names or TUTORIALS:
        with tempfile.TemporaryDirectory() as empty:
            TUTORIALS[name](Path(empty))
