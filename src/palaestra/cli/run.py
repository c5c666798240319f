"""Play an environment with brains of your choice, and report the results of each.

A brain decides for one behavior, for one team of it (BEHAVIOR?team=N), or, if it names none, for all other behaviors:
  model:FILE.onnx         a model of Palaestra or ML-Agents (model:FILE.onnx,NAMES.yaml if its tensors have other names)
  model:RUN               the newest model of the behavior in a run, such as model:first
  heuristic               the environment's own rule, if it has one
  random                  random actions
  python:MODULE:FUNCTION  your function (obs, mask), or a class with a method decide(seen)
  player                  you, with keyboard, gamepad or screen buttons, in the browser (player:KEYS.yaml: your keys)
"""

from __future__ import annotations

import argparse
import json
import sys
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

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palaestra.envs.wrapper import EnvWrapper
    from palaestra.runtime.play.brain_assignment import BrainSpec

EXAMPLES = """\
palaestra run 3DBall --brain heuristic
palaestra run 3DBall --brain model:first --deterministic --episodes=20
palaestra run gymnasium:CartPole-v1 --brain random
palaestra run ./Soccer.x86_64 --brain='Soccer?team=0=model:Soccer.onnx' --brain='Soccer?team=1=random' --time-scale=1
palaestra run SoccerTwos --brain='SoccerTwos?team=0=player' --brain='SoccerTwos?team=1=model:first'
palaestra run editor --brain Walker=model:first --brain random
"""


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
    """Plays and prints a table; after Ctrl-C, a table of the episodes so far. Raises PalaestraError."""
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
    from palaestra.runtime.play.brain_play import BrainGame
    from palaestra.runtime.play.evaluating import PlayOptions
    from palaestra.runtime.play.shown_evaluation import evaluation_json

    wanted = PlayOptions(options.episodes, options.deterministic, seed=options.seed)
    game = BrainGame(env, options.env, parts, wanted, options.results_dir)
    status = 0
    try:
        game.play(options.time_scale)
    except KeyboardInterrupt as signal:
        status = 128 + getattr(signal, "number", 2)
    finally:
        if game.players.done or any(episodes.returns for episodes in game.players.teams.values()):
            found = game.evaluation
            print(json.dumps(evaluation_json(found)) if options.json else found)
    if status:
        print("palaestra: interrupted; only the episodes that had ended are counted", file=sys.stderr)
        return status
    for line in game.unused():
        print(f"palaestra: {escaped(line)}", file=sys.stderr)
    return 0


def _check(options: argparse.Namespace) -> None:
    from palaestra.runtime.play.brain_assignment import NO_BRAIN
    from palaestra.runtime.play.brain_play import check_time_scale

    if not options.brains:
        raise ConfigError(NO_BRAIN)
    at_least(options, episodes=1, num_areas=1, num_envs=1)
    check_time_scale(options.time_scale)


def _open(options: argparse.Namespace) -> EnvWrapper:
    from palaestra.runtime.environments.make import is_game
    from palaestra.runtime.play.run_models import open_named

    flags = given_flags(options, without=() if is_game(options.env) else ("time_scale",))
    return open_named(
        options.env,
        options.num_areas,
        min(options.episodes, 100),
        given_env_options(options),
        flags=flags,
        seed=options.seed,
    )
