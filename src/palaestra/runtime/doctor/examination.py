"""Examines an environment: starts it, plays random actions for some ticks, and collects findings."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from palaestra.core.errors import PalaestraError
from palaestra.core.processes import usable_cores
from palaestra.core.specs import ActionSpec, describe
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.base import Env
from palaestra.envs.copies import Restarts
from palaestra.envs.unity.env import UnityEnv
from palaestra.envs.wrapper import EnvWrapper
from palaestra.parallel.closing import close_safely
from palaestra.runtime.collect.env_checks import check_shapes, check_step
from palaestra.runtime.curriculum.parameters import invalid_values, with_parameters
from palaestra.runtime.doctor.findings import FAILED, Circumstances, Finding, of_behavior, of_settings
from palaestra.runtime.doctor.meters import BehaviorMeter, BehaviorReport
from palaestra.runtime.doctor.stages import CheckStage, GameProgress, StageList, Visitor, counted
from palaestra.runtime.environments.make import EDITOR, guarded, is_game, make_env, opening_options
from palaestra.runtime.environments.unity_games import GameSettings, game_settings, open_games
from palaestra.runtime.settings import RunSettings

OPENED, FIRST = "environment opened", "agents ask for decisions"
NEVER = Restarts(lifetime=0)


@dataclass(frozen=True, slots=True)
class Timing:
    """Time of the environment's ticks, by part, without the time of the examination."""

    ticks: int
    parts: Mapping[str, float]  # seconds
    received: int | None  # bytes per tick, for a game
    sent: int | None
    time_scale: float | None
    cores: float | None  # cores that the game used while it was waited for; None: unknown

    @property
    def seconds(self) -> float:
        """Total seconds of all parts."""
        return sum(self.parts.values())


@dataclass(frozen=True, slots=True)
class CopiesAdvice:
    """Number of copies of a game that this machine can use, and the reason."""

    number: int
    why: str


@dataclass(frozen=True, slots=True)
class Examination:
    """Result of an examination."""

    env: str
    stages: tuple[CheckStage, ...]
    behaviors: Mapping[str, BehaviorReport]
    timing: Timing | None  # None: there was no tick
    copies: CopiesAdvice | None
    findings: tuple[Finding, ...]

    @property
    def healthy(self) -> bool:
        """Whether training in the environment is possible."""
        return all(finding.level != "error" for finding in self.findings)


@dataclass(frozen=True, slots=True)
class Limit:
    """Limit for playing random actions: ticks or seconds, whichever comes first."""

    ticks: int | None = 200
    seconds: float | None = None

    def reached(self, ticks: int, seconds: float) -> bool:
        """Whether the limit is reached."""
        return (self.ticks is not None and ticks >= self.ticks) or (
            self.seconds is not None and seconds >= self.seconds
        )


def examine(settings: RunSettings, limit: Limit, visitor: Visitor, *, listed: bool) -> Examination:
    """Opens the environment that `settings` name (the Editor without an env_path), plays, and closes it.

    `listed`: the settings come from a user's file. Problems of the environment become findings. The logs of a game are
    kept if there are errors, because the messages name the logs.
    """
    logs = Path(tempfile.mkdtemp(prefix="palaestra-doctor-"))
    found = None
    try:
        found = _ExaminedEnv(settings, visitor, logs).examine(limit, listed)
        return found
    finally:
        silent = not any(log.stat().st_size for log in logs.iterdir())
        if found is None or found.healthy or silent:
            shutil.rmtree(logs, ignore_errors=True)


class _ExaminedEnv:
    def __init__(self, settings: RunSettings, visitor: Visitor, logs: Path) -> None:
        self.settings = settings
        self._visitor = visitor
        self.name = settings.env_settings.env_path or EDITOR
        self.is_unity = is_game(self.name)
        games = game_settings(settings, logs, here=True)
        executable = None if self.name == EDITOR else self.name
        options = replace(games.options, copies=1, restarts=NEVER, executable=executable)
        self.game: UnityEnv | None = None
        self.progress = GameProgress(options, visitor) if self.is_unity else None
        self.stages = self.progress.stage_list if self.progress else StageList((OPENED, FIRST), visitor)
        self.games = GameSettings(options, games.channels, self.progress.receive if self.progress else None)
        self.meters: dict[str, BehaviorMeter] = {}
        self.findings: list[Finding] = []
        self.timing: Timing | None = None

    def examine(self, limit: Limit, listed: bool) -> Examination:
        """Opens the environment, plays and closes it."""
        env: Env | None = None
        problems = list[str]()
        try:
            env = self._open()
            steps = self._first(env)
            self._play(env, steps, limit)
        except PalaestraError as error:
            if self.stages.awaited is not None:
                (self.progress or self.stages).failed(error)
                self.findings.append(Finding("error", f"{self.stages.stages[-1].name}: {FAILED}"))
            else:
                self.findings.append(Finding("error", str(error)))
        finally:
            if env is not None:
                close_safely(env.close, "the environment", problems.append)
        reports = {name: meter.report() for name, meter in self.meters.items()}
        complete = not self.findings
        around = Circumstances(self.settings, listed, self.is_unity, self.timing.ticks if self.timing else 0, complete)
        self._judge(reports, around)
        copies = (
            worth_starting(self.timing) if self.timing and complete and self.is_unity and self.name != EDITOR else None
        )
        return Examination(
            self.name,
            tuple(self.stages.stages),
            reports,
            self.timing,
            copies,
            (*self.findings, *(Finding("warning", text) for text in problems)),
        )

    def _open(self) -> EnvWrapper:
        place = self.settings.env_settings
        if self.progress is not None:
            executable = None if self.name == EDITOR else self.name
            self.game = open_games(executable, place.num_areas, place.env_options, self.games)
            self.progress.opened(self.game)
            return EnvWrapper.of(self.game)
        env = guarded(make_env(self.name, areas=place.num_areas, options=opening_options(self.settings)), self.name)
        self.stages.passed(
            f"{self.name}: {counted(env.num_areas, 'area')}",
            *(f"{name}: {describe(spec)}" for name, spec in env.behaviors.items()),
            *env.traits.notes,
        )
        forms = self.settings.environment_parameters
        invalid = [Finding("error", sentence) for _, sentence in invalid_values(env, forms)]
        self.findings += invalid
        return env if invalid else with_parameters(env, forms, {}, max(0, place.seed))

    def _first(self, env: Env) -> dict[str, TimeStep]:
        steps = env.reset(max(0, self.settings.env_settings.seed))
        self._measure(env, steps)
        if self.progress is None:
            self.stages.passed(*(f"{name}: {counted(int(step.acting.sum()), 'agent')}" for name, step in steps.items()))
        return steps

    def _measure(self, env: Env, steps: Mapping[str, TimeStep]) -> None:
        for name, step in steps.items():
            spec = env.behaviors[name]
            check_shapes(name, spec, step)
            check_step(name, spec, step)
            if name in self.meters:
                self.meters[name].add(step)
            else:
                self.meters[name] = BehaviorMeter(name, spec, step)

    def _play(self, env: Env, steps: dict[str, TimeStep], limit: Limit) -> None:
        generator = torch.Generator().manual_seed(1)
        clock = _Clock(self.game)
        ticks = 0
        begin = time.perf_counter()
        self._visitor.begins("random actions")
        try:
            while not limit.reached(ticks, time.perf_counter() - begin):
                actions = {
                    name: random_action(env.behaviors[name].action, step, generator) for name, step in steps.items()
                }
                start = time.perf_counter()
                steps = env.step(actions)
                clock.add(time.perf_counter() - start)
                ticks += 1
                self._measure(env, steps)
        finally:
            self.timing = clock.timing(ticks, self.settings.engine_settings.time_scale) if ticks else None

    def _judge(self, reports: Mapping[str, BehaviorReport], around: Circumstances) -> None:
        if around.listed and reports:
            specs = {name: meter.spec for name, meter in self.meters.items()}
            self.findings += of_settings(self.settings, specs, is_unity=around.is_unity)
        for report in reports.values() if around.ticks else ():
            self.findings += of_behavior(report, around)
        if self.progress is not None:
            self.findings += [Finding("warning", text) for text in dict.fromkeys(self.progress.warnings)]


class _Clock:
    def __init__(self, game: UnityEnv | None) -> None:
        self._game = game
        self._seconds = 0.0
        self._process = self._game.copies[0].process if self._game else None
        self._before = self._now = self._counts()

    def add(self, seconds: float) -> None:
        """Counts one more tick of the game, which took `seconds` of the environment's time."""
        self._seconds += seconds
        self._now = self._counts()

    def timing(self, ticks: int, time_scale: float) -> Timing:
        """Returns the measured times of `ticks` ticks."""
        if self._game is None:
            return Timing(ticks, {"environment": self._seconds}, None, None, None, None)
        waiting, reading, answering, received, sent, computed = (
            after - before for after, before in zip(self._now, self._before, strict=True)
        )
        parts = {"game": waiting, "reading": reading, "answering": answering}
        cores = computed / waiting if computed > 0 else None
        return Timing(ticks, parts, int(received / ticks), int(sent / ticks), time_scale, cores)

    def _counts(self) -> list[float]:
        if self._game is None:
            return []
        copies = self._game.copies
        seconds = self._game.seconds
        return [
            *(seconds[part] for part in ("waiting", "reading", "answering")),
            sum(copy.conversation.received for copy in copies),
            sum(copy.conversation.sent for copy in copies),
            processor_seconds(self._process.pid) if self._process is not None else 0.0,
        ]


def processor_seconds(pid: int) -> float:
    """Returns the processor time of a process in seconds; 0 if the system does not report it."""
    if not sys.platform.startswith("linux"):
        return 0.0
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def random_action(spec: ActionSpec, step: TimeStep, generator: torch.Generator) -> Action:
    """Returns a random action for each slot, uniform over the allowed choices."""
    slots = len(step.reward)
    device = step.reward.device
    continuous = 2 * torch.rand(slots, spec.continuous, generator=generator) - 1
    priority = torch.rand(slots, spec.choices, generator=generator)
    if step.action_mask is not None:
        priority[~step.action_mask.cpu()] = -1
    branches = [part.argmax(1) for part in priority.split(spec.branches, 1)] if spec.branches else []
    discrete = torch.stack(branches, 1) if branches else torch.zeros(slots, 0, dtype=torch.int64)
    return Action(continuous.to(device), discrete.to(device))


def worth_starting(timing: Timing, processors: int | None = None) -> CopiesAdvice:
    """Returns how many copies of a game to start; one of the `processors` (default: all usable ones) is left for the
    trainer."""
    here = processors or usable_cores()
    game = timing.parts["game"] / timing.seconds
    busy = 1.0 if timing.cores is None else max(0.05, min(timing.cores, 1.0))
    by_processors = max(1, int((here - 1) / busy))
    by_trainer = max(1, round(1 / max(1 - game, 1e-3)))
    share = "" if timing.cores is None else f"{busy:.0%} of "
    keeps = f"a copy keeps {share}a core busy{' (assumed)' if timing.cores is None else ''}"
    if by_processors < by_trainer:
        why = f"{keeps}, and one of the {here} cores here is for the trainer, so more copies would wait for a core"
        more = f"with more cores, up to about {by_trainer} would be worth starting"
        return CopiesAdvice(by_processors, f"{why}; {more}")
    enough = "one copy keeps" if by_trainer == 1 else f"about {by_trainer} copies keep"
    why = f"reading and answering take {1 - game:.0%} of a tick, so {enough} the trainer busy, learning not counted"
    return CopiesAdvice(by_trainer, f"{why}; {keeps}, and the {here} cores here have room for {by_processors}")
