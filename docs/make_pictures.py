"""Makes the pictures of README and guides in `docs/images` from trained runs: `python docs/make_pictures.py`.

With `--train` it first trains the runs that `results` lacks (an hour and a half of one core), in which SoccerTwos and
Crawler take longest. Names choose pictures: `python docs/make_pictures.py worlds soccer`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from palaestra.cli.main import main as palaestra
from palaestra.envs.builtin.drawing.raycast import camera_of, picture_of
from palaestra.envs.solids import INK, PAPER, Drawing, Solids
from palaestra.envs.wrapper import EnvWrapper
from palaestra.runtime.play.evaluation import model_brains
from palaestra.runtime.play.players import Players
from palaestra.runtime.play.run_models import find_models, open_for
from palaestra.runtime.recording.panels import font_of

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
RESULTS = ROOT / "results"
TRAININGS = {
    "3dball": "configs/ppo/3DBall.yaml --env=3DBall",
    "pushblock": "configs/ppo/PushBlock.yaml --env=PushBlock --max-steps=6e5",
    "tennis": "configs/ppo/Tennis.yaml --env=Tennis",
    "ringout": "configs/ppo/RingOut.yaml --env=RingOut",
    "foodcollector": "configs/ppo/FoodCollector.yaml --env=FoodCollector --max-steps=1e6",
    "crawler": "configs/ppo/Crawler.yaml --env=Crawler --max-steps=5e6",
    "soccer": "configs/poca/SoccerTwos.yaml --env=SoccerTwos",
}
SEEDS = {
    "standard": "configs/ppo/3DBall.yaml --env=3DBall --max-steps=3e5 --summary-freq=6000",
    "faster": (
        "configs/ppo/3DBall.yaml --env=3DBall --max-steps=3e5 --summary-freq=6000 --learning-rate=1e-3 "
        "--set behaviors.*.hyperparameters.buffer_size=4096"
    ),
}
FPS = 25
FINER = 2
"""Pixels across each pixel of the picture that are drawn, so that edges are smooth."""
JUMP = 0.2
"""Share of an area that nothing moves in one decision: what does was put somewhere else."""


@dataclass(frozen=True)
class World:
    """A run that is filmed, and how."""

    run: str
    title: str
    half: tuple[float, float, float] | None = None
    """Half the extent that fills the picture, in meters; None: the whole area, in the middle of the picture."""
    follow: str = ""
    """Group of solids whose first agent, or first solid, the camera follows."""
    elevation: float | None = None
    """Degrees by which the camera looks down; None: the environment's own."""
    skip: float = 0.0
    """Seconds that are played before the picture begins."""
    seed: int = 0
    sampled: bool = False


SHEET = (
    World("crawler", "Crawler", half=(4.2, 1.5, 2.2), follow="limbs", elevation=25, skip=4),
    World("3dball", "3DBall", half=(4.6, 4.2, 4.6), skip=0.5),
    World("soccer", "SoccerTwos", half=(11.5, 1.4, 8.0), follow="ball", skip=2, sampled=True),
    World("pushblock", "PushBlock", seed=1),
    World("foodcollector", "FoodCollector", half=(19, 2, 14), follow="agent", skip=2, seed=1, sampled=True),
    World("ringout", "RingOut", skip=19.5, seed=1, sampled=True),
)


def worlds() -> None:
    """A sheet of worlds that are played by what was trained in them, as an animated WebP."""
    cell, columns, gap, seconds = (312, 218), 3, 6, 6.0
    clips = [list(clip(world, seconds, cell)) for world in SHEET]
    rows = -(-len(clips) // columns)
    size = (columns * (cell[0] + gap) - gap, rows * (cell[1] + gap) - gap)
    frames = []
    for pictures in zip(*clips, strict=True):
        sheet = Image.new("RGB", size, "white")
        for i, picture in enumerate(pictures):
            sheet.paste(picture, (i % columns * (cell[0] + gap), i // columns * (cell[1] + gap)))
        frames.append(sheet)
    save_webp(frames, IMAGES / "worlds.webp")


def soccer() -> None:
    """A game of SoccerTwos, as an animated WebP."""
    world = World("soccer", "", skip=2, sampled=True, elevation=50)
    save_webp(list(clip(world, 10.0, (720, 340))), IMAGES / "soccer.webp")


def save_webp(frames: Sequence[Image.Image], file: Path, quality: int = 72, fps: int = FPS) -> None:
    """Writes an endless animation."""
    options = {"duration": round(1000 / fps), "loop": 0, "quality": quality, "method": 4, "minimize_size": False}
    frames[0].save(file, save_all=True, append_images=frames[1:], **options)
    print(f"Wrote {file} ({len(frames)} pictures, {file.stat().st_size / 1e6:.2f} MB)")


def clip(
    world: World,
    seconds: float,
    size: tuple[int, int],
    scene: tuple[float, Iterator[Drawing]] | None = None,
    fps: int = FPS,
) -> Iterator[Image.Image]:
    """Yields `fps` pictures a second of a world that is played at its own speed; `scene`: who plays, if no run does."""
    pace, drawings = scene or played(world)
    before, after = next(drawings), next(drawings)
    center = None
    tick = 0
    for frame in range(round(seconds * fps)):
        at = (world.skip + frame / fps) / pace
        while at >= tick + 1:
            before, after, tick = after, next(drawings), tick + 1
        drawing = between(before, after, at - tick)
        if world.half is not None:
            room = np.maximum(np.subtract(drawing.half, world.half), 0)  # what is beyond the area is not shown
            place = np.clip(place_of(drawing, world.follow), -room, room) if world.follow else np.zeros(3)
            center = place if center is None else center + 2 / fps * (place - center)
            drawing = replace(drawing, half=world.half, solids=tuple(moved(one, -center) for one in drawing.solids))
        if world.elevation is not None:
            drawing = replace(drawing, elevation=world.elevation)
        yield picture(drawing, world.title, size, fill=world.half is not None)


def moved(group: Solids, by: NDArray[np.float64]) -> Solids:
    """Returns a group of solids somewhere else on the ground: the camera shows what is around the area's middle."""
    return replace(group, position=(group.position + by * (1.0, 0.0, 1.0)).astype(np.float32))


def place_of(drawing: Drawing, name: str) -> NDArray[np.float64]:
    """Returns the middle of the first agent of a group of solids, or of its first solid."""
    group = next(group for group in drawing.solids if group.name == name)
    own = np.arange(group.position.shape[1]) == 0 if group.slot is None else group.slot[0] == group.slot[0, 0]
    return group.position[0, own].mean(0).astype(np.float64)


def played(world: World) -> tuple[float, Iterator[Drawing]]:
    """Returns the seconds between two decisions, and drawings before each of them."""
    models = find_models(world.run, RESULTS)
    env = EnvWrapper.of(open_for(models, None, 1, 1, world.seed, options={}))
    brains = model_brains(env, models.policies(world.seed), deterministic=not world.sampled)
    players = Players(env, brains, lambda agents: 10**9 * agents)

    def drawings() -> Iterator[Drawing]:
        with closing(env):
            steps = env.reset(world.seed)
            while True:
                players.note(steps)
                yield env.drawing(np.zeros(1, np.int64))
                steps = env.step(players.act(steps))

    return env.tick_seconds or 0.1, drawings()


def between(before: Drawing, after: Drawing, share: float) -> Drawing:
    """Returns what lies between two drawings; what was put somewhere else stays until it is there."""
    reach = JUMP * 2 * max(before.half)
    later = {group.name: group for group in after.solids}
    return replace(before, solids=tuple(_between(one, later.get(one.name, one), share, reach) for one in before.solids))


def _between(one: Solids, other: Solids, share: float, reach: float) -> Solids:
    if one.position.shape != other.position.shape:
        return one
    moved = other.position - one.position
    part = np.where(np.linalg.norm(moved, axis=-1, keepdims=True) > reach, 0.0, share)
    aligned = np.where((one.rotation * other.rotation).sum(-1, keepdims=True) < 0, -other.rotation, other.rotation)
    turned = (1 - part) * one.rotation + part * aligned
    return replace(
        one,
        position=(one.position + part * moved).astype(np.float32),
        rotation=(turned / np.linalg.norm(turned, axis=-1, keepdims=True)).astype(np.float32),
    )


def picture(drawing: Drawing, title: str, size: tuple[int, int], *, fill: bool) -> Image.Image:
    """Returns a drawing that fills a picture, or lies in its middle, with a title in the corner."""
    width, height = size
    camera = camera_of(drawing, 1000)
    scale = (max if fill else min)(width / camera.width, height / camera.height)
    drawn: NDArray[np.uint8] = picture_of(drawing, round(FINER * scale * max(camera.width, camera.height)))
    high, wide = drawn.shape[:2]
    beside, above = max(FINER * width - wide, 0), max(FINER * height - high, 0)
    around = ((above // 2, above - above // 2), (beside // 2, beside - beside // 2), (0, 0))
    whole = np.pad(drawn, around, mode="edge")
    left, top = (whole.shape[1] - FINER * width) // 2, (whole.shape[0] - FINER * height) // 2
    cut = whole[top : top + FINER * height, left : left + FINER * width]
    canvas = Image.fromarray(np.ascontiguousarray(cut)).resize(size, Image.Resampling.LANCZOS)
    if title:
        draw = ImageDraw.Draw(canvas)
        draw.rounded_rectangle((8, 8, 22 + font_of(15).getlength(title), 30), 6, fill=PAPER)
        draw.text((15, 10), title, font=font_of(15), fill=INK)
    return canvas


def comparison() -> None:
    """Draws two settings of 3DBall, five seeds each, side by side."""
    words = ["compare", *(f"{name}-seed-*" for name in SEEDS), "--bar", "90", "--groups", "names"]
    palaestra([*words, f"--results-dir={RESULTS}", f"--out={IMAGES / 'comparison.png'}", "--force"])


def curves() -> None:
    """Copies the learning curves that the run of 3DBall drew at its end."""
    (IMAGES / "curves.png").write_bytes((RESULTS / "3dball" / "curves.png").read_bytes())


def recording() -> None:
    """Records the trained Crawler as a GIF."""
    out = f"--out={IMAGES / 'recording.gif'}"
    palaestra(["record", "crawler", "--areas=1", "--seconds=6", f"--results-dir={RESULTS}", out, "--force"])


PICTURES: dict[str, Callable[[], None]] = {
    each.__name__: each for each in (worlds, soccer, comparison, curves, recording)
}


def train() -> None:
    """Trains the runs that are not there."""
    for run, words in {**TRAININGS, **{f"{name} --seeds=5": words for name, words in SEEDS.items()}}.items():
        name = run.partition(" ")[0]
        if not any(RESULTS.glob(f"{name}*")):
            learn = [sys.executable, "-m", "palaestra", "learn", *words.split(), *f"--run-id={run}".split()]
            subprocess.run(learn, cwd=ROOT, check=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*PICTURES, []], help="which pictures; default: all")
    parser.add_argument("--train", action="store_true", help="first train the runs that are not there")
    options = parser.parse_args()
    if options.train:
        train()
    for name in options.names or PICTURES:
        PICTURES[name]()
