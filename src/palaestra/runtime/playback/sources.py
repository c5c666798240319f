"""Opens the source of a playback: a run with the models of one of its steps, or an environment with chosen brains."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from palaestra.brains.base import Brain
from palaestra.core.errors import PalaestraError, PolicyError, RunError
from palaestra.core.files import file_name
from palaestra.envs.copies import Restarts
from palaestra.envs.unity.executable import explain_missing, find
from palaestra.envs.wrapper import EnvWrapper
from palaestra.runtime.environments.make import DRAWN, EDITOR, is_game
from palaestra.runtime.play.brain_assignment import BrainAssignment, BrainSpec, read_parts
from palaestra.runtime.play.run_models import (
    Log,
    Models,
    check_trust,
    env_name,
    find_models,
    newest_live,
    open_for,
    open_named,
    run_without_models,
)
from palaestra.runtime.playback.playing import Opened
from palaestra.runtime.showing.live_models import LiveModels
from palaestra.runtime.storage.run_folder import CONFIGURATION, RunFolder

PLAYER = "player"
"""Name of the brain that is a person, who plays a single agent; other brains play the agent's teammates."""
DEFAULT_AREAS = 4
GAME_ON_PAGE: Mapping[str, Any] = {
    "time_scale": 1.0,
    "capture_frame_rate": 0,  # frames follow the clock: a game keeps real time
    "target_frame_rate": 60,
    "width": 640,
    "height": 400,
}
"""Settings of a Unity game on a page, in place of the settings of a training."""
NO_RESTARTS = Restarts(lifetime=0)
"""Limit of restarts: a game that ends is not started again; a message asks to load the page again."""


@dataclass(frozen=True, slots=True)
class PlaybackSource:
    """Choices of a person: what to play, and with which brains."""

    results: Path
    run: str | None = None
    """Id of a run in `results`."""
    env: str | None = None
    """The environment's name, as for --env; None: the run's own environment."""
    step: int | None = None
    """Step of the run whose models play; None: the newest."""
    brains: Sequence[str] = ()
    """Brains as typed after --brain; they override the run's models."""
    chosen: Sequence[str] = ()
    """Brains of sides, such as `Ball?team=1=random`, that were chosen on the page; they override `brains`."""
    areas: int | None = 1
    """Number of areas; None: `DEFAULT_AREAS`. A Unity game always has the run's own number, or one."""
    deterministic: bool = False
    trust: bool = False
    flags: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """Settings of Unity games, by section, which override the run's."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Options of the environment, which override the run's."""

    def open(self, log: Log | None = None) -> Opened:
        """Opens the environment and returns it with its brains. A Unity game's messages go to `log`."""
        models = None if self.run is None else self.models()
        env = self._open_env(models, log)
        return env, self.brain_of(env, self.parts(models))

    def parts(self, models: Models | None) -> list[BrainSpec]:
        """Returns the chosen brains, and the run's models for all other behaviors."""
        typed = [part for part in read_parts(self.brains) if part.kind != PLAYER]
        named = {part.behavior for part in typed if part.team is None}
        files = {} if models is None or None in named else models.files
        own = [BrainSpec("model", str(file), name) for name, file in files.items() if name not in named]
        return [*read_parts(self.chosen), *typed, *own]

    def models(self) -> Models:
        """Returns the run's newest models, or the models of `step`, made from its checkpoint if there are no files."""
        assert self.run is not None
        folder = RunFolder(self.results, self.run)
        if self.step is None:
            try:
                return newest_live(folder, self.trust) or find_models(str(folder.path), self.results, self.trust)
            except RunError:
                steps = [int(path.name) for path in folder.checkpoints.glob("*") if path.name.isdecimal()]
                if not steps:
                    raise
                return self._of_checkpoint(folder, max(steps))  # of a run that has just begun
        try:
            exact = find_models(str(folder.path), self.results, self.trust, self.step)
        except PalaestraError:
            exact = None
        if exact is not None and all(file.stem.endswith(f"-{self.step}") for file in exact.files.values()):
            return exact
        if (folder.checkpoints / str(self.step)).is_dir():
            return self._of_checkpoint(folder, self.step)
        if exact is not None:
            return exact
        return find_models(str(folder.path), self.results, self.trust, self.step)  # names those that are there

    def _of_checkpoint(self, folder: RunFolder, step: int) -> Models:
        files = models_of_checkpoint(folder, step, self.trust)
        return replace(run_without_models(folder, self.trust)[0], files=files)

    def people(self) -> list[BrainSpec]:
        """Returns the sides that people play."""
        return [part for part in read_parts(self.brains) if part.kind == PLAYER]

    def brain_of(self, env: EnvWrapper, parts: Sequence[BrainSpec]) -> Callable[[str, int], Brain]:
        """Returns the brain of each side: the chosen one, else the environment's own heuristic, else random actions."""
        assigned = BrainAssignment(parts, env, deterministic=self.deterministic, results=self.results)
        own = BrainAssignment([BrainSpec("heuristic")], env)
        random = BrainAssignment([BrainSpec("random")], env)

        def brain(behavior: str, team: int) -> Brain:
            if assigned.part(behavior, team) is not None:
                return assigned.brain(behavior, team)
            if env.traits.has_heuristic:
                try:
                    return own.brain(behavior, team)
                except PolicyError:
                    pass  # no rule plays this behavior
            return random.brain(behavior, team)

        return brain

    def obstacle(self) -> str | None:
        """Returns why this source cannot be played, as far as the run's files show; None if it can."""
        if self.run is None:
            return None
        if not (self.results / self.run / CONFIGURATION).is_file():
            return f"the run '{self.run}' has no settings ({CONFIGURATION}) and no model, only metrics"
        try:
            models = self.models()
            check_trust(models, self.env, self.flags)
            name = env_name(models, self.env)
        except PalaestraError as error:
            return str(error)
        there = name == EDITOR or not is_game(name) or find(name) is not None
        return None if there else explain_missing(name)

    @property
    def is_game(self) -> bool:
        """Whether this is a Unity build, a game in Python, or the Editor."""
        try:
            if self.run is None:
                return is_game(self.env)
            models, _ = run_without_models(RunFolder(self.results, self.run), self.trust)
            return is_game(env_name(models, self.env))
        except PalaestraError:  # what opens it says why
            return False

    def _open_env(self, models: Models | None, log: Log | None) -> EnvWrapper:
        name = self.env if models is None else env_name(models, self.env)
        assert name is not None
        areas = self.areas or DEFAULT_AREAS
        options = dict(self.options)
        flags = None
        if is_game(name):
            areas = None
            flags = self.flags
            typed = {key for section in flags.values() for key in section}
            options |= {key: value for key, value in GAME_ON_PAGE.items() if key not in typed} | {
                "copies": 1,
                "restarts": NO_RESTARTS,
            }
        elif name.startswith(DRAWN):
            options["render"] = True
        if models is None:
            return open_named(name, areas, DEFAULT_AREAS, options, flags=flags, log=log)
        return open_for(models, self.env, areas, DEFAULT_AREAS, flags=flags, log=log, options=options)


def models_of_checkpoint(folder: RunFolder, step: int, trust: bool) -> Mapping[str, Path]:
    """Returns models of a checkpoint, written once to a temporary folder. Raises RunError or ExportError."""
    # a run that was started anew has other networks at this step
    stamp = (folder.checkpoints / str(step)).stat().st_mtime_ns
    return _written(folder.path.absolute(), step, stamp, trust)


@lru_cache(maxsize=64)
def _written(run: Path, step: int, stamp: int, trust: bool) -> Mapping[str, Path]:
    from palaestra.onnx_export.onnx import export
    from palaestra.runtime.storage.networks import load_networks

    place = Path(tempfile.mkdtemp(dir=_temporary()))
    files: dict[str, Path] = {}
    for name, (network, spec) in load_networks(run, step, trust).items():
        files[name] = place / f"{file_name(name)}-{step}.onnx"
        export(network, spec, files[name])
    return files


@cache
def _temporary() -> str:
    place = tempfile.mkdtemp(prefix="palaestra-page-")
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return place


def steps_of(folder: RunFolder) -> list[int]:
    """Returns the steps with models or checkpoints, in order."""
    named = [path.name for path in folder.checkpoints.glob("*") if path.is_dir()]
    named += [path.stem.rpartition("-")[2] for path in folder.path.glob("*/*.onnx")]
    return sorted({*(int(name) for name in named if name.isdecimal()), *LiveModels(folder.path).steps()})
