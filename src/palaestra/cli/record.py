"""Record a GIF or a video of trained agents, or demonstration files of any brains (models, rules or functions).

Plays the run's newest models in the environment that it was trained in, and draws several areas side by side, with the
reward so far. --steps, or several runs, show several models side by side. The ending of --out chooses GIF, MP4 or WebM
(the latter two: extra video). With --demo, it writes a demonstration file (.demo) per behavior instead, played by the
run's models or by any brains of `palaestra run`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from palaestra.cli.flags import env_of_run, env_options, given_env_options, option, results_dir, seed, switch, trust
from palaestra.cli.game_flags import add_game_flags, given_flags
from palaestra.core.errors import ConfigError

EXAMPLES = """\
palaestra record first
palaestra record first --out first.mp4 --fps 30 --width 720
palaestra record first --steps 20000,100000,500000 --out learning.webm
palaestra record first second@500000
palaestra record first --demo --episodes=50
palaestra record --demo --env=3DBall --brain heuristic --demo-out=Expert.demo
palaestra record --demo --env=Game.x86_64 --brain model:first --no-graphics --time-scale=100 --env-args --level 3
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `palaestra record`."""
    runs = "a run id, a run's folder, RUN@STEP, RUN@best, or a model file (.onnx, .nn); several: side by side"
    parser.add_argument("runs", nargs="*", metavar="RUN", help=runs)
    out = "the .gif, .mp4 or .webm to write (default: recording.gif in the run's folder, or recording-2 and so on)"
    option(parser, "--out", "FILE", out, type=Path)
    switch(parser, "--force", "overwrite an existing file")
    steps = "the run's models of these steps, side by side"
    parser.add_argument("--steps", type=_steps, default=(), metavar="N,N", help=steps)
    option(parser, "--title", "TEXT", "title (default: the run's name)")
    switch(parser, "--no-titles", "draw no title and no rewards")
    env_of_run(parser)
    areas = "areas to show side by side (default: 4 of a built-in environment, else 1; 1 of each of several models)"
    option(parser, "--areas", "N", areas, type=int)
    parser.add_argument("--seconds", type=float, default=8.0, metavar="S", help="length (default: 8)")
    episodes = "stop when every agent has played this many episodes (default: no limit; with --demo: 10)"
    option(parser, "--episodes", "N", episodes, type=int)
    fps = "pictures per second, one per decision (default: real time where the environment has one, else 10)"
    option(parser, "--fps", "N", fps, type=int)
    width = "width of the picture (default: 640, or 320 for each model); with --demo, of a Unity game's window (84)"
    option(parser, "--width", "PIXELS", width, type=int)
    switch(parser, "--sampled", "sample actions as in training, instead of the most likely ones")
    seed(parser, "the environment and of sampled actions")
    results_dir(parser)
    trust(parser)
    demo = parser.add_argument_group(
        "To write demonstrations in place of a picture", "Demonstrations are observations and actions to learn from."
    )
    switch(demo, "--demo", "write demonstration files (.demo) instead of a picture")
    demo_out = (
        "a file (.demo), or a folder for one file per behavior (default: demonstrations, in the run's folder if there "
        "is one)"
    )
    option(demo, "--demo-out", "PATH", demo_out, type=Path)
    switch(demo, "--demo-png", "store images as PNGs with 8 bits per channel: smaller, less exact")
    brain = (
        "brain that plays, as for 'palaestra run': heuristic, random, BEHAVIOR=model:FILE.onnx ... (default: the run's "
        "models)"
    )
    demo.add_argument("--brain", action="append", default=[], metavar="BRAIN", help=brain)
    env_options(parser)
    add_game_flags(parser, without=("width",))


def main(options: argparse.Namespace) -> int:
    """Plays, draws or records, and prints where the files are. Raises RunError, EnvError, PolicyError or DemoError."""
    _check(options)
    if options.demo:
        from palaestra.cli.record_demo import record

        options.run = options.runs[0] if options.runs else None
        return record(options)
    draw(options)
    return 0


def _steps(text: str) -> tuple[int, ...]:
    try:
        steps = tuple(dict.fromkeys(int(float(part)) for part in text.split(",") if part.strip()))
    except (ValueError, OverflowError):
        steps = ()
    if not steps or min(steps) < 0:
        raise argparse.ArgumentTypeError(
            f"'{text}' names no steps; expected counts of decisions, such as 20000,100000,500000"
        )
    return steps


def draw(options: argparse.Namespace) -> None:
    """Writes the GIF or the video."""
    from palaestra.runtime.recording.filming import Film, record_film

    names = ["areas", "seconds", "episodes", "fps", "width", "sampled", "seed", "title", "force"]
    known = {name: getattr(options, name) for name in names}
    made = record_film(
        options.runs,
        options.out,
        Film(**known, titles=not options.no_titles, options=given_env_options(options)),
        steps=options.steps,
        env=options.env,
        results=options.results_dir,
        trust=options.trust,
        flags=given_flags(options, without=("width",)),
    )
    print(made)


def _check(options: argparse.Namespace) -> None:
    if options.demo and options.out is not None:
        raise ConfigError(
            f"--out {options.out} is for a picture; with --demo, --demo-out names the demonstration file (.demo) or "
            "its folder"
        )
    if options.demo:
        given = next((flag for flag in ("steps", "title", "no_titles") if getattr(options, flag)), None)
        if given:
            raise ConfigError(f"--{given.replace('_', '-')} is for a GIF or a video; leave it out with --demo")
        if len(options.runs) > 1:
            raise ConfigError(f"--demo records one run; got {', '.join(options.runs)}")
    if not options.demo:
        given = next((flag for flag in ("brain", "demo_out", "demo_png") if getattr(options, flag)), None)
        if given:
            raise ConfigError(f"--{given.replace('_', '-')} is for demonstrations: add --demo")
        if not options.runs:
            raise ConfigError(
                "name a run, such as 'palaestra record first'; or record demonstrations of other brains with --demo"
            )
        return
    from palaestra.runtime.recording.filming import Film

    Film(areas=options.areas, seconds=options.seconds, episodes=options.episodes, fps=options.fps)  # checks them
