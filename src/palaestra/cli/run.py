"""Play an environment with brains of your choice, and report the results of each.

A brain decides for one behavior, for one team of it (BEHAVIOR?team=N), or, if no behavior is named, for all that are
left:
  model:FILE.onnx         a model, ours or one of ML-Agents (model:FILE.onnx,NAMES.yaml if its tensors have other names)
  model:RUN               the newest model of the behavior in a run, such as model:first
  heuristic               the environment's own rule, if it has one
  random                  random actions
  python:MODULE:FUNCTION  a function (obs, mask) of yours, or a class with a method decide(seen)
  player                  you, with keyboard, gamepad or buttons, on a page in the browser (player:KEYS.yaml: keys of
  your own)
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from palaestra.cli.flags import (
    ENVIRONMENTS,
    at_least,
    env_options,
    given_env_options,
    option,
    results_dir,
    seed,
    switch,
)
from palaestra.cli.game_flags import add_game_flags, given_flags, refuse_flags
from palaestra.core.display import escaped
from palaestra.core.errors import ConfigError
from palaestra.core.plugins import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from palaestra.envs.base import Env
    from palaestra.envs.wrapper import EnvWrapper
    from palaestra.runtime.play.brain_assignment import BrainAssignment, BrainSpec
    from palaestra.runtime.play.players import Players

EXAMPLES = """\
palaestra run 3DBall --brain heuristic
palaestra run 3DBall --brain model:first --deterministic --episodes=20
palaestra run gymnasium:CartPole-v1 --brain random
palaestra run ./Soccer.x86_64 --brain='Soccer?team=0=model:Soccer.onnx' --brain='Soccer?team=1=random' --time-scale=1
palaestra run SoccerTwos --brain='SoccerTwos?team=0=player' --brain='SoccerTwos?team=1=model:first'
palaestra run editor --brain Walker=model:first --brain random
"""

REFRESH = 0.1  # seconds


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `palaestra run`."""
    parser.add_argument("env", metavar="ENV", help=f"a Unity build, 'editor', {ENVIRONMENTS}")
    brain = (
        "brain to use: BEHAVIOR=BRAIN, BEHAVIOR?team=N=BRAIN, or BRAIN for all others; may be repeated (quote a '?')"
    )
    parser.add_argument("--brain", action="append", default=[], dest="brains", metavar="BRAIN", help=brain)
    option(parser, "--episodes", "N", "episodes to count for each behavior and team", 100)
    switch(parser, "--deterministic", "models take the most likely action instead of sampling")
    scale = "simulated seconds per second; 1: real time (default: as fast as possible; a Unity game: 20)"
    option(parser, "--time-scale", "N", scale, type=float)
    areas = "areas played at once (default: as many as episodes, 100 at most; a Unity game: its own)"
    option(parser, "--num-areas", "N", areas, type=int)
    seed(parser, "the environment and of the brains")
    results_dir(parser)
    switch(parser, "--json", "print the result as JSON")
    switch(parser, "--no-browser", "with a player: print the page's address, but open no browser")
    env_options(parser)
    add_game_flags(parser, without=("time_scale",))


def main(options: argparse.Namespace) -> int:
    """Plays and prints a table, after Ctrl-C of the episodes so far. Raises PalaestraError."""
    from palaestra.parallel.closing import closing_safely
    from palaestra.runtime.logging.waiting import on_stderr
    from palaestra.runtime.play.brain_assignment import read_parts

    _check(options)
    parts = read_parts(options.brains)
    if any(part.kind == "player" for part in parts):
        return _open_page(options)
    env = _open(options)
    with closing_safely(env, "the environment", on_stderr):
        return _play(env, parts, options)


def _open_page(options: argparse.Namespace) -> int:
    from palaestra.cli.view import open_page
    from palaestra.runtime.environments.make import is_game
    from palaestra.web.site import Site

    flags = given_flags(options, without=() if is_game(options.env) else ("time_scale",))
    if not is_game(options.env):
        refuse_flags(options.env, flags)
    site = Site(
        options.results_dir,
        env=options.env,
        brains=tuple(options.brains),
        flags=flags,
        options=given_env_options(options),
    )
    return open_page(site, path="/play", browser=not options.no_browser)


def _play(env: EnvWrapper, parts: Sequence[BrainSpec], options: argparse.Namespace) -> int:
    from palaestra.runtime.play.brain_assignment import BrainAssignment
    from palaestra.runtime.play.evaluation import play
    from palaestra.runtime.play.players import Players

    plays = BrainAssignment(
        parts, env, seed=options.seed, deterministic=options.deterministic, results=options.results_dir
    )
    players = Players(env, plays.brain, lambda agents: options.episodes)
    pace = _pace(env, options)
    status = 0
    start = time.perf_counter()
    try:
        with _Live(players, options.episodes) as live:

            def each_tick() -> None:
                if not players.decisions:
                    _refuse_strangers(plays, env, options.env)
                pace()
                live.show()

            play(env, players, options.seed, each_tick)
    except KeyboardInterrupt as signal:
        status = 128 + getattr(signal, "number", 2)
    finally:
        if players.done or any(episodes.returns for episodes in players.teams.values()):
            _report(plays, players, time.perf_counter() - start, as_json=options.json)
    if status:
        print("palaestra: interrupted; only the episodes that had ended are counted", file=sys.stderr)
        return status
    for part in plays.idle():
        teams = plays.teams(part.behavior or "") if part.team is not None else []
        there = f"'{part.behavior}' has {_listed(teams)}" if teams else _available_behaviors(plays, env)
        print(f"palaestra: --brain {part.typed} was not used: {escaped(there)}", file=sys.stderr)
    return 0


def _listed(teams: Sequence[int]) -> str:
    return f"the teams {', '.join(map(str, teams))}" if len(teams) > 1 else f"team {teams[0]} only"


def _check(options: argparse.Namespace) -> None:
    if not options.brains:
        raise ConfigError(
            "no brain is named: add one, such as --brain heuristic, --brain random, --brain model:RUN or --brain "
            "BEHAVIOR=model:FILE.onnx"
        )
    at_least(options, episodes=1, num_areas=1, num_envs=1)
    if options.time_scale is not None and not 0 < options.time_scale <= 100:
        raise ConfigError(f"--time-scale is {options.time_scale:g}; expected more than 0, and 100 at most")


def _open(options: argparse.Namespace) -> EnvWrapper:
    from palaestra.runtime.environments.make import is_game
    from palaestra.runtime.play.run_models import open_named

    flags = given_flags(options, without=() if is_game(options.env) else ("time_scale",))
    return open_named(
        options.env, options.num_areas, min(options.episodes, 100), given_env_options(options), flags=flags
    )


def _pace(env: EnvWrapper, options: argparse.Namespace) -> Callable[[], object]:
    from palaestra.runtime.environments.make import is_game

    if options.time_scale is None or is_game(options.env):
        return lambda: None
    if env.tick_seconds is None:
        raise ConfigError(
            f"--time-scale: how long a tick of {options.env} lasts is not known (its environment has no "
            "'tick_seconds'); without the flag it is played as fast as possible"
        )
    pace = PlaybackClock()
    return lambda: pace.wait((env.tick_seconds or 0) / options.time_scale)


def _refuse_strangers(plays: BrainAssignment, env: Env, name: str) -> None:
    """Raises an error for a name that is not a behavior, if no more behaviors can appear, as they can in a game."""
    from palaestra.runtime.environments.make import is_game

    strangers = plays.strangers()
    if strangers and not is_game(name) and not name.startswith("python:"):
        raise ConfigError(f"--brain {strangers[0].whom}: {_available_behaviors(plays, env)}")


def _available_behaviors(plays: BrainAssignment, env: Env) -> str:
    stranger = next(iter(plays.strangers()), None)
    hint = nearest(stranger.behavior, env.behaviors) if stranger is not None and stranger.behavior else ""
    return f"the environment has the behaviors {', '.join(env.behaviors) or 'none'}{hint}"


class _Live:
    def __init__(self, players: Players, episodes: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        terminal = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.completed:,.0f} of {task.total:,.0f} episodes"),
            BarColumn(),
            TextColumn("{task.fields[rate]:,.0f} decisions/s"),
            TimeElapsedColumn(),
            console=terminal,
            transient=True,
            disable=not terminal.is_terminal,
        )
        self._task = self._bar.add_task("", total=episodes, rate=0.0)
        self._players = players
        self._episodes = episodes
        self._start = self._shown = time.monotonic()

    def __enter__(self) -> _Live:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def show(self) -> None:
        """Updates the line. Does nothing within a tenth of a second of the last call."""
        now = time.monotonic()
        if now - self._shown < REFRESH:
            return
        self._shown = now
        teams = self._players.teams
        done = sum(len(episodes.returns) for episodes in teams.values())
        rate = self._players.decisions / (now - self._start)
        self._bar.update(self._task, completed=done, total=self._episodes * len(teams), rate=rate)


def _report(plays: BrainAssignment, players: Players, seconds: float, *, as_json: bool) -> None:
    from palaestra.runtime.play.evaluation import as_json as numbers
    from palaestra.runtime.play.evaluation import cells, results

    found = results(players)
    brains = dict(zip(found, (part.brain for side in players.teams if (part := plays.part(*side))), strict=True))
    compete = len({team for _, team in players.teams}) > 1
    if as_json:
        shown = {name: numbers(result) | {"brain": brains[name]} for name, result in found.items()}
        if compete:
            for name, result in found.items():
                shown[name] |= dict(zip(("won", "drawn", "lost"), result.outcomes, strict=True))
        print(json.dumps(shown))
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("behavior", style="cyan")
    table.add_column("brain", overflow="fold")
    groups = ("group reward",) if any(result.group_returns.size for result in found.values()) else ()
    outcomes = ("won", "drawn", "lost") if compete else ()
    for head in ("episodes", "mean reward", "least", "greatest", "decisions", *outcomes, *groups):
        table.add_column(head, justify="right", no_wrap=True)
    for name, result in found.items():
        row = [name, brains[name], str(len(result.returns)), *cells(result)]
        row += [str(count) if result.returns.size else "-" for count in result.outcomes] if compete else []
        earned = result.group_returns
        row += [f"{earned.mean():.3f}" if earned.size else "-"] if groups else []
        table.add_row(*(escape(escaped(cell)) for cell in row))
    console = Console(highlight=False)
    console.width = console.width if console.is_terminal else 160  # a file has no edge to fit into
    console.print(table)
    console.print(
        f"{players.decisions:,} decisions in {seconds:.1f} s ({players.decisions / max(seconds, 1e-9):,.0f} per second)"
    )


class PlaybackClock:
    """Spaces ticks by their duration. Lost time is not made up for, so that playback never rushes."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._next = 0.0

    def wait(self, seconds: float) -> None:
        """Waits until the next tick is due, which then lasts so many seconds."""
        now = self._clock()
        if now < self._next:
            self._sleep(self._next - now)
            now = self._next
        self._next = now + seconds
