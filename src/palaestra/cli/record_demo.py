"""Records what brains (models, rules or functions) do as demonstration files, for `palaestra record --demo`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from palaestra.cli.flags import given_env_options
from palaestra.cli.game_flags import given_flags
from palaestra.core.display import escaped
from palaestra.core.errors import ConfigError
from palaestra.core.files import must_be_new
from palaestra.runtime.logging.waiting import on_stderr

if TYPE_CHECKING:
    from palaestra.envs.base import Env
    from palaestra.runtime.play.brain_assignment import BrainSpec
    from palaestra.runtime.play.demo_recording import DemoRecorder
    from palaestra.runtime.play.run_models import Models

EPISODES = 10
AREAS = 4


def record(options: argparse.Namespace) -> int:
    """Plays and writes the files; Ctrl-C keeps the episodes so far. Raises PalaestraError."""
    from palaestra.runtime.play.brain_assignment import model_parts, read_parts
    from palaestra.runtime.play.run_models import find_models, place_beside

    parts = read_parts(options.brain)
    models = find_models(options.run, options.results_dir, options.trust) if options.run else None
    if not parts and models is None:
        raise ConfigError(
            "no brain is named: name a run, or brains with --brain, such as --env=3DBall --brain heuristic"
        )
    if models is None and options.env is None:
        raise ConfigError("no environment is named: add --env, or name a run")
    if options.demo_out is not None and options.demo_out.is_file():
        must_be_new(options.demo_out, force=options.force)
    named = {part.behavior for part in parts}
    parts += [part for part in model_parts(models.files if models else {}) if part.behavior not in named]
    path = options.demo_out or (place_beside(models) or Path()) / "demonstrations"
    return _record(options, parts, models, path)


def _record(options: argparse.Namespace, parts: list[BrainSpec], models: Models | None, path: Path) -> int:
    from palaestra.parallel.closing import closing_safely
    from palaestra.runtime.play.brain_assignment import BrainAssignment
    from palaestra.runtime.play.demo_recording import DemoRecorder, record_demo
    from palaestra.runtime.play.players import Players

    status = 0
    env = _open(options, models)
    with closing_safely(env, "the environment", on_stderr):
        assignment = BrainAssignment(
            parts, env, seed=options.seed, deterministic=not options.sampled, results=options.results_dir
        )
        players = Players(env, assignment.brain, lambda agents: sys.maxsize)
        recorder = DemoRecorder(env, path, options.episodes or EPISODES, pictures=options.demo_png, force=options.force)
        try:
            record_demo(env, recorder, players.act, players.note, options.seed)
        except KeyboardInterrupt as signal:
            status = 128 + getattr(signal, "number", 2)
        finally:
            recorder.close()
        _report(recorder, interrupted=bool(status))
        _print_idle(assignment.idle(), env)
    return status


def _open(options: argparse.Namespace, models: Models | None) -> Env:
    from palaestra.runtime.environments.make import is_game
    from palaestra.runtime.play.run_models import env_name, open_for, open_named

    name = options.env if models is None else env_name(models, options.env)
    flags = given_flags(options, without=() if is_game(name) else ("width",))  # which a picture has too
    if models is not None:
        return open_for(
            models, options.env, options.areas, AREAS, options.seed, flags=flags, options=given_env_options(options)
        )
    return open_named(options.env, options.areas, AREAS, given_env_options(options), flags=flags, seed=options.seed)


def _report(recorder: DemoRecorder, *, interrupted: bool) -> None:
    if interrupted:
        on_stderr("interrupted; these are the finished episodes")
    for (behavior, team), writer in recorder.writers.items():
        side = escaped(f"{behavior}, team {team}" if team else behavior)
        if writer.records:
            mean = writer.reward / max(writer.ends, 1)
            counts = f"{writer.ends} episodes, {writer.records} records, mean reward {mean:.3f}"
            print(f"Wrote {writer.path} ({side}: {counts})")
        else:
            on_stderr(f"no episode of {side} was recorded")


def _print_idle(idle: list[BrainSpec], env: Env) -> None:
    for part in idle:
        there = escaped(", ".join(env.behaviors))
        on_stderr(f"{part.typed} was not used: the environment has the behaviors {there}")
