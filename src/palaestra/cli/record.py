"""Record a GIF of trained agents, or demonstration files of any brains.

Plays the run's newest models in the environment that it was trained in, and draws several areas side by side.
With --demo, writes a demonstration file (.demo) or a Minari dataset per behavior instead, of the run's models or of any brains of
`palaestra run`.
"""

from __future__ import annotations

import argparse
import math
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from palaestra.cli.demo_convert import FLAGS as DATASET_FLAGS
from palaestra.cli.demo_convert import add_dataset_flags
from palaestra.cli.game_flags import add_game_flags, given_flags
from palaestra.cli.seeds import seed
from palaestra.cli.trust import add_trust

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np
    from PIL import Image

    from palaestra.brains.model import Policy
    from palaestra.envs.base import Env

EPILOG = """\
examples:
  palaestra record first
  palaestra record first --demo --episodes=50
  palaestra record first --demo --to-minari cartpole/expert-v0 --episodes=100
  palaestra record --demo --env=3DBall --brain heuristic --demo-out=Expert.demo
  palaestra record --demo --env=Game.x86_64 --brain model:first --no-graphics --time-scale=100 --env-args --level 3
"""
GIF_BYTES = 2_000_000
"""Largest size of a GIF: many README pages and chats do not show larger ones."""
COLORS = 64
AREAS = 4
WIDTH = 480  # pixels
GAP = 4  # pixels between areas


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `palaestra record`."""
    parser.add_argument("run", nargs="?", metavar="RUN", help="a run id, a run's folder, or a model file (.onnx, .nn)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the GIF to write (default: recording.gif in the run's folder)")
    parser.add_argument("--env", metavar="ENV", help="environment (default: the one that the run was trained in)")
    parser.add_argument("--areas", type=int, metavar="N", help="areas to show side by side (default: 4)")
    parser.add_argument("--seconds", type=float, default=8.0, metavar="S", help="length (default: 8)")
    parser.add_argument(
        "--episodes", type=int, metavar="N", help="stop when every agent has played so many (default: no limit; with --demo: 10)"
    )
    parser.add_argument("--fps", type=int, default=10, metavar="N", help="pictures per second, one per decision (default: 10)")
    parser.add_argument(
        "--width", type=int, metavar="PIXELS", help="width of the picture (default: 480); with --demo, of a Unity game's window (84)"
    )
    parser.add_argument("--sampled", action="store_true", help="sample actions as in training, instead of the most likely ones")
    parser.add_argument("--seed", type=seed, default=0, metavar="N", help="seed of the environment and of sampled actions (default: 0)")
    parser.add_argument("--results-dir", type=Path, default=Path("results"), metavar="DIR", help="folder of all runs (default: results)")
    add_trust(parser)
    demo = parser.add_argument_group("demonstrations", "Recorded observations and actions, to learn from.")
    demo.add_argument("--demo", action="store_true", help="write demonstration files (.demo) instead of a GIF")
    demo.add_argument(
        "--demo-out",
        type=Path,
        metavar="PATH",
        help="a file (.demo), or a folder for one file per behavior (default: demonstrations, in the run's folder if there is one)",
    )
    demo.add_argument(
        "--to-minari", metavar="ID", help="write a Minari dataset, such as cartpole/expert-v0 or a folder; files only with --demo-out"
    )
    add_dataset_flags(demo)
    demo.add_argument("--demo-png", action="store_true", help="store images as PNGs with 8 bits per channel: smaller, less exact")
    demo.add_argument(
        "--brain",
        action="append",
        default=[],
        metavar="BRAIN",
        help="brain that plays, as for 'palaestra run': heuristic, random, BEHAVIOR=model:FILE.onnx ... (default: the run's models)",
    )
    add_game_flags(parser, without=("width",))


def main(options: argparse.Namespace) -> int:
    """Plays, draws or records, and prints where the files are. Raises RunError, EnvError, PolicyError or DemoError."""
    _check(options)
    if options.demo:
        from palaestra.cli.record_demo import record

        return record(options)
    draw(options)
    return 0


def draw(options: argparse.Namespace) -> None:
    """Writes the GIF."""
    from palaestra.core.errors import EnvError, RunError
    from palaestra.runtime.environments.make import is_game
    from palaestra.runtime.play.run_models import env_name, find_models, open_for, run_folder

    models = find_models(options.run, options.results_dir, options.trust)
    name = env_name(models, options.env)
    if is_game(name):
        raise EnvError(
            f"{name} is a Unity game, which draws in its own window only: watch it there with 'palaestra learn --run-id=ID --inference "
            f"--time-scale=1', and record the screen"
        )
    drawn = {"render": True} if name.startswith(("gymnasium:", "envpool:", "pettingzoo:")) else {}
    out = options.out or (
        run_folder(options.run, options.results_dir).path / "recording.gif" if models.settings else Path(f"{Path(options.run).stem}.gif")
    )
    flags = given_flags(options, without=("width",))
    env = open_for(models, options.env, options.areas, AREAS, options.seed, flags=flags, **drawn)
    try:
        frames = list(play(env, models.policies(options.seed), options))
    finally:
        env.close()
    content = encode(frames, options.width or WIDTH, options.fps)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_bytes(content)
    except OSError as error:
        raise RunError(f"{out} cannot be written: {error.strerror or error}") from error
    print(f"wrote {out} ({len(frames)} pictures, {len(frames) / options.fps:.1f} s, {len(content) / 1e6:.2f} MB)")


def _check(options: argparse.Namespace) -> None:
    from palaestra.core.errors import ConfigError

    if options.demo and options.out is not None:
        raise ConfigError(f"--out {options.out} is for a GIF; with --demo, --demo-out names the demonstration file (.demo) or its folder")
    if options.to_minari is None:
        given = next((flag for flag in DATASET_FLAGS if flag != "env" and getattr(options, flag)), None)
        if given:
            raise ConfigError(f"--{given} is for a Minari dataset: add --demo --to-minari ID")
    if not options.demo:
        given = next((flag for flag in ("brain", "demo_out", "demo_png", "to_minari") if getattr(options, flag)), None)
        if given:
            raise ConfigError(f"--{given.replace('_', '-')} is for demonstrations: add --demo")
        if options.out is not None and options.out.suffix.lower() != ".gif":
            raise ConfigError(f"--out is {options.out}; recordings are written as GIFs: name it {options.out.with_suffix('.gif')}")
        if not options.run:
            raise ConfigError("name a run, such as 'palaestra record first'; or record demonstrations of other brains with --demo")
    for flag, least, most in (("areas", 1, 100), ("seconds", 0.1, 600), ("episodes", 1, math.inf), ("fps", 1, 50), ("width", 32, 4096)):
        value = None if flag == "width" and options.demo else getattr(options, flag)  # then it is a game's window
        if value is not None and not least <= value <= most:
            raise ConfigError(
                f"--{flag} is {value:g}; expected {least:g} to {most:g}" if most < math.inf else f"--{flag} is {value}; expected at least 1"
            )


def play(env: Env, policies: Mapping[str, Policy], options: argparse.Namespace) -> Iterator[np.ndarray]:
    """Yields a picture of all areas before each decision, (H, W, 3) uint8."""
    from palaestra.runtime.play.evaluation import model_brains
    from palaestra.runtime.play.players import Players

    shown = min(env.num_areas, options.areas or AREAS)
    steps = env.reset(options.seed)
    yield tile([env.render(area) for area in range(shown)])
    brains = model_brains(env, policies, deterministic=not options.sampled)
    players = Players(env, brains, lambda agents: (options.episodes or 10**9) * agents)
    players.note(steps)
    for _ in range(1, math.ceil(options.seconds * options.fps)):
        steps = env.step(players.act(steps))
        players.note(steps)
        yield tile([env.render(area) for area in range(shown)])
        if players.done:
            return


def tile(pictures: list[np.ndarray]) -> np.ndarray:
    """Arranges pictures of one size in a grid about as wide as high, on white."""
    import numpy as np

    columns = math.ceil(math.sqrt(len(pictures)))
    rows = math.ceil(len(pictures) / columns)
    height, width = pictures[0].shape[:2]
    canvas = np.full((rows * (height + GAP) - GAP, columns * (width + GAP) - GAP, 3), 255, np.uint8)
    for i, picture in enumerate(pictures):
        y, x = i // columns * (height + GAP), i % columns * (width + GAP)
        canvas[y : y + height, x : x + width] = picture
    return canvas


def encode(frames: list[np.ndarray], width: int, fps: int) -> bytes:
    """Encodes an endless GIF, `width` pixels wide, or less to stay within GIF_BYTES."""
    from PIL import Image

    images = [Image.fromarray(frame) for frame in frames]
    while True:
        content = _gif(images, width, fps)
        if len(content) <= GIF_BYTES or width <= 96:
            return content
        # the size grows about as the number of pixels does
        width = max(96, int(width * min(0.9, math.sqrt(GIF_BYTES / len(content)))))


def _gif(images: list[Image.Image], width: int, fps: int) -> bytes:
    from PIL import Image

    height = max(1, round(width * images[0].height / images[0].width))
    small = [image.resize((width, height), Image.Resampling.LANCZOS) for image in images]
    sample = small[:: max(1, len(small) // 8)]
    strip = Image.new("RGB", (width, height * len(sample)))
    for i, image in enumerate(sample):
        strip.paste(image, (0, i * height))
    palette = strip.quantize(COLORS, Image.Quantize.MEDIANCUT)
    # one palette and no dithering: what does not move is the same in every picture, and costs nothing
    flat = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in small]
    buffer = BytesIO()
    flat[0].save(buffer, "GIF", save_all=True, append_images=flat[1:], duration=round(1000 / fps), loop=0, disposal=1)
    return buffer.getvalue()
