"""Records the actions of brains as demonstration files, for `palaestra record --demo`."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from palaestra.cli.demo_convert import facts_of, id_of_side, known_spaces, write_dataset
from palaestra.cli.game_flags import given_flags
from palaestra.core.display import escaped
from palaestra.core.errors import PalaestraError

if TYPE_CHECKING:
    from palaestra.envs.base import Env
    from palaestra.runtime.play.brain_assignment import BrainSpec
    from palaestra.runtime.play.demo_recording import DemoRecorder
    from palaestra.runtime.play.run_models import Models

EPISODES = 10
AREAS = 4


def record(options: argparse.Namespace) -> int:
    """Plays and writes the files; after Ctrl-C, the episodes so far. Raises PalaestraError."""
    from palaestra.core.errors import ConfigError
    from palaestra.datasets.minari_writer import check_target
    from palaestra.runtime.play.brain_assignment import BrainAssignment, model_parts, read_parts
    from palaestra.runtime.play.demo_recording import DemoRecorder, record_demo
    from palaestra.runtime.play.players import Players
    from palaestra.runtime.play.run_models import env_name, find_models, run_folder

    parts = read_parts(options.brain)
    models = find_models(options.run, options.results_dir, options.trust) if options.run else None
    if not parts and models is None:
        raise ConfigError("no brain is named: name a run, or brains with --brain, such as --env=3DBall --brain heuristic")
    if models is None and options.env is None:
        raise ConfigError("no environment is named: add --env, or name a run")
    named = {part.behavior for part in parts}
    parts += [part for part in model_parts(models.files if models else {}) if part.behavior not in named]
    folder = run_folder(options.run, options.results_dir).path / "demonstrations" if models and models.settings else Path("demonstrations")
    if options.to_minari is not None:
        check_target(options.to_minari, force=options.force)
        folder = Path(tempfile.mkdtemp(prefix="palaestra-")) if options.demo_out is None else folder
    status = 0
    env = _open(options, models)
    try:
        assignment = BrainAssignment(parts, env, seed=options.seed, deterministic=not options.sampled, results=options.results_dir)
        players = Players(env, assignment.brain, lambda agents: sys.maxsize)
        recorder = DemoRecorder(env, options.demo_out or folder, options.episodes or EPISODES, pictures=options.demo_png)
        try:
            record_demo(env, recorder, players.act, players.note, options.seed)
        except KeyboardInterrupt as signal:
            status = 128 + getattr(signal, "number", 2)
        finally:
            recorder.close()
        _tell(recorder, interrupted=bool(status), files=options.to_minari is None or options.demo_out is not None)
        _tell_idle(assignment.idle(), env)
    finally:
        env.close()
    if options.to_minari is not None:
        name = options.env if models is None else env_name(models, options.env)
        _write_datasets(options, recorder, name, models, folder if options.demo_out is None else None)
    return status


def _write_datasets(options: argparse.Namespace, recorder: DemoRecorder, env: str, models: Models | None, scratch: Path | None) -> None:
    """Converts what was recorded to a dataset for each behavior and team, and removes the scratch folder. Raises DemoError."""
    from palaestra.datasets import read_demo

    form, env_spec = known_spaces(env)
    written = {side: writer for side, writer in recorder.writers.items() if writer.records}
    try:
        for number, ((behavior, team), writer) in enumerate(written.items()):
            trained = models.settings.behaviors.get(behavior) if models and models.settings and not options.brain else None
            algorithm = f"Palaestra {trained.trainer_type}" if trained else ", ".join(options.brain) or None
            target = id_of_side(options.to_minari, behavior, team, first=not number)
            write_dataset([read_demo(writer.path)], target, form, facts_of(options, env_spec, algorithm), force=options.force)
    except PalaestraError:
        if scratch is not None and written:
            print(f"palaestra: what was recorded is kept in {scratch}", file=sys.stderr)
        raise
    if scratch is not None:
        shutil.rmtree(scratch, ignore_errors=True)


def _open(options: argparse.Namespace, models: Models | None) -> Env:
    from palaestra.runtime.environments.make import is_game
    from palaestra.runtime.play.run_models import env_name, open_for, open_named

    name = options.env if models is None else env_name(models, options.env)
    flags = given_flags(options, without=() if is_game(name) else ("width",))  # which a picture has too
    if models is not None:
        return open_for(models, options.env, options.areas, AREAS, options.seed, flags=flags)
    return open_named(options.env, options.areas, AREAS, {}, flags=flags)


def _tell(recorder: DemoRecorder, *, interrupted: bool, files: bool) -> None:
    if interrupted:
        print("palaestra: interrupted; these are the episodes so far", file=sys.stderr)
    for (behavior, team), writer in recorder.writers.items():
        side = escaped(f"{behavior}, team {team}" if team else behavior)
        if writer.records:
            mean = writer.reward / max(writer.ends, 1)
            where = f"wrote {writer.path}" if files else "recorded"
            print(f"{where} ({side}: {writer.ends} episodes, {writer.records} records, mean reward {mean:.3f})")
        else:
            print(f"nothing was recorded of {side}", file=sys.stderr)


def _tell_idle(idle: list[BrainSpec], env: Env) -> None:
    for part in idle:
        print(
            f"palaestra: {part.typed} was not used: the environment has the behaviors {escaped(', '.join(env.behaviors))}", file=sys.stderr
        )
