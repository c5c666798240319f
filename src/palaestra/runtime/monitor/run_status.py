"""Progress and reward of a run, read from small parts of its files."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from palaestra.core.errors import ConfigError
from palaestra.core.metrics import ELO, GROUP_REWARD, REWARD
from palaestra.runtime.logging.trackers import METRICS
from palaestra.runtime.monitor.bounded_reading import ResultsFiles, signature
from palaestra.runtime.monitor.event_reader import event_files, last_values
from palaestra.runtime.monitor.metrics_reader import HEAD
from palaestra.runtime.settings.yaml_file import parse
from palaestra.runtime.storage.run_folder import CONFIGURATION
from palaestra.runtime.storage.writer_lock import FRESH, WRITER, LockHolder

RunState: TypeAlias = Literal["learning", "stopped", "died", "finished", "recorded"]
"""learning: a process writes to it; stopped: saved and ended before max_steps; died: nobody ended it; recorded: other
programs' files, which do not say."""
TAIL = 64 * 2**10
"""Bytes at the end of `metrics.jsonl` in which each behavior's last summaries are looked for."""
CLEAN = 10.0
"""Most seconds between a run's last summary and the files that it writes at its end."""
LIVE = 60.0
"""Seconds after its last summary for which a run of another program counts as learning."""
PROGRESS, STATUS, TIMERS = "run_logs/progress.json", "run_logs/training_status.json", "run_logs/timers.json"


@dataclass(frozen=True, slots=True)
class BehaviorStatus:
    """Progress of one behavior."""

    name: str
    step: int = 0
    max_steps: int | None = None
    reward: float | None = None
    """Mean reward in the last summary, of whole groups if there are groups; before the first summary, the mean of all
    episodes so far."""
    rate: float | None = None  # decisions a second
    values: Mapping[str, float] = field(default_factory=dict)
    """Last value of each tag."""
    episodes: int | None = None
    """Number of episodes in the mean reward; None: unknown."""


@dataclass(frozen=True, slots=True)
class RunStatus:
    """Progress of one run."""

    run_id: str
    state: RunState
    behaviors: tuple[BehaviorStatus, ...] = ()
    environment: str = ""
    trainer: str = ""
    started: float | None = None  # unix seconds
    changed: float = 0.0  # unix seconds of the last summary
    source: str = "Palaestra"
    """Program that wrote these files."""
    writer: str = ""
    """Process that writes to the run."""
    progress: Mapping[str, Any] = field(default_factory=dict)
    """Content of `run_logs/progress.json`, which a run writes every second."""

    @property
    def failure(self) -> str:
        """The error that ended the run; empty without an error."""
        return str(self.progress.get("message") or "") if self.progress.get("state") == "failed" else ""

    @property
    def step(self) -> int:
        """Steps of all behaviors together; steps beyond max_steps, while other behaviors still learn, do not count."""
        return sum(min(each.step, each.max_steps or each.step) for each in self.behaviors)

    @property
    def max_steps(self) -> int | None:
        """Steps of all behaviors together at their end; None if not known."""
        most = [each.max_steps for each in self.behaviors]
        return sum(each or 0 for each in most) if most and all(most) else None

    @property
    def share(self) -> float | None:
        """Share of the steps that have been made."""
        return min(1.0, self.step / self.max_steps) if self.max_steps else None

    @property
    def rate(self) -> float | None:
        """Decisions a second of all behaviors together, while the run learns."""
        rates = [each.rate for each in self.behaviors if each.rate is not None]
        return sum(rates) if rates and self.state == "learning" else None

    @property
    def left(self) -> float | None:
        """Seconds until the last behavior is done, at the current rate."""
        times = [
            (each.max_steps - each.step) / each.rate
            for each in self.behaviors
            if each.max_steps and each.rate and each.rate > 0 and each.step < each.max_steps
        ]
        return max(times) if times and self.state == "learning" else None

    @property
    def reward(self) -> float | None:
        """Mean reward in the last summary; with several behaviors, of the first one that has a reward."""
        return None if self.rewarded is None else self.rewarded.reward

    @property
    def rewarded(self) -> BehaviorStatus | None:
        """The first behavior that has a reward."""
        return next((each for each in self.behaviors if each.reward is not None), None)


def read_status(files: ResultsFiles, run_id: str, settings: Mapping[str, Any] | None = None) -> RunStatus:
    """Reads a run's progress. `settings`: the run's settings, if they are known already."""
    run = files.root / run_id
    tree = read_settings(files, run) if settings is None else settings
    progress = files.json(run / PROGRESS)
    status = files.json(run / STATUS)
    summaries = last_summaries(files, run / METRICS)
    if not summaries and not progress:
        return _of_others(files, run_id, tree, status)
    behaviors = tuple(
        _behavior(name, lines, tree, progress) for name, lines in _named(summaries, progress, tree).items()
    )
    writer = writer_of(files, run)
    last = max(
        (line["time"] for lines in summaries.values() for line in lines if is_number(line.get("time"))), default=0.0
    )
    return RunStatus(
        run_id,
        _state(run, behaviors, writer, progress, last),
        behaviors,
        environment_of(tree),
        _trainers(tree),
        _first(_started(files, run, writer), _number(progress.get("since"))),
        last,
        writer="" if writer is None else str(writer),
        progress=progress,
    )


def read_settings(files: ResultsFiles, run: Path) -> dict[str, Any]:
    """Returns a run's settings as plain values; empty if they cannot be read."""
    text = files.text(run / CONFIGURATION, 2 * 2**20)
    try:
        tree = parse(text, quick=True).tree if text else {}
    except ConfigError:
        return {}
    return tree if isinstance(tree, dict) else {}


def last_summaries(files: ResultsFiles, path: Path) -> dict[str, list[dict[str, Any]]]:
    """Returns the last two summaries of each behavior at the end of `metrics.jsonl`, the newest first."""
    found: dict[str, list[dict[str, Any]]] = {}
    for text in reversed(files.last_lines(path, TAIL).split("\n")[:-1]):
        try:
            line = json.loads(text)
            behavior = str(line["behavior"])
            for key in ("step", "elapsed"):
                float(line[key])
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        lines = found.setdefault(behavior, [])
        if len(lines) < 2:
            lines.append(line)
    return dict(sorted(found.items()))


def environment_of(tree: Mapping[str, Any]) -> str:
    """Returns the environment that settings name."""
    env = section(tree, "env_settings")
    return str(env.get("env_path") or "Unity Editor") if env else ""


def writer_of(files: ResultsFiles, run: Path) -> LockHolder | None:
    """Returns the process that writes to a run, as the lock file names it."""
    return LockHolder.read(run / WRITER) if files.contains(run / WRITER) else None


def lives(run: Path, writer: LockHolder) -> bool:
    """Whether a run's writer is alive; a writer on another machine shows this by touching the file."""
    return writer.alive if writer.here else (signature(run / WRITER) or (0,))[0] / 1e9 > time.time() - FRESH


def _named(
    summaries: Mapping[str, Any], progress: Mapping[str, Any], tree: Mapping[str, Any]
) -> dict[str, list[dict[str, Any]]]:
    names = [*summaries, *section(progress, "behaviors")] or list(section(tree, "behaviors"))
    return {str(name): summaries.get(name, []) for name in dict.fromkeys(names)}


def _behavior(
    name: str, lines: list[dict[str, Any]], tree: Mapping[str, Any], progress: Mapping[str, Any]
) -> BehaviorStatus:
    values = (
        {tag: float(value) for tag, value in lines[0].items() if tag not in HEAD and is_number(value)} if lines else {}
    )
    live = section(section(progress, "behaviors"), name)
    rate = None
    if len(lines) == 2 and (passed := lines[0]["elapsed"] - lines[1]["elapsed"]) > 0:
        rate = (lines[0]["step"] - lines[1]["step"]) / passed
    return BehaviorStatus(
        name,
        int(_number(live.get("step")) or (lines[0]["step"] if lines else 0)),
        _most(tree, name),
        _first(_number(values.get(GROUP_REWARD)), _number(values.get(REWARD)), _number(live.get("reward"))),
        _first(_number(live.get("rate")), rate),
        values,
        _episodes(lines) if REWARD in values else None,
    )


def _episodes(lines: list[dict[str, Any]]) -> int | None:
    count = _number(lines[0].get("episodes"))
    return None if count is None else int(count)


def _state(
    run: Path, behaviors: Iterable[BehaviorStatus], writer: LockHolder | None, progress: Mapping[str, Any], last: float
) -> RunState:
    if writer is not None:
        return "learning" if lives(run, writer) else "died"
    ended = progress.get("state")
    if ended in ("finished", "stopped"):
        return "finished" if ended == "finished" else "stopped"
    known = [each for each in behaviors if each.max_steps]
    if known and all(each.step >= (each.max_steps or 0) for each in known):
        return "finished"
    if ended == "died":
        return "died"
    timers = signature(run / TIMERS)
    return "stopped" if timers is not None and timers[0] / 1e9 > last - CLEAN else "died"


def _started(files: ResultsFiles, run: Path, writer: LockHolder | None) -> float | None:
    """Returns when a run began: at its first summary, less the seconds until then."""
    head = files.part(run / METRICS, 0, 4096) or b""
    try:
        line = json.loads(head.partition(b"\n")[0])
        return float(line["time"]) - float(line["elapsed"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None if writer is None else writer.since


def _of_others(files: ResultsFiles, run_id: str, tree: Mapping[str, Any], status: Mapping[str, Any]) -> RunStatus:
    """Returns the status of a run of the original, or of event files alone, or of a run of ours without a summary."""
    run = files.root / run_id
    behaviors, last = _of_status(tree, status)
    newest: dict[Path, Path] = {path.parent: path for path in event_files(files, run)}
    for folder, path in newest.items():
        step, when, values = last_values(files, path)
        name = folder.relative_to(run).as_posix() if folder != run else run.name
        before = behaviors.get(name)
        reward = _first(values.get(GROUP_REWARD), values.get(REWARD), None if before is None else before.reward)
        behaviors[name] = BehaviorStatus(
            name, max(step, before.step if before else 0), _most(tree, name), reward, None, values
        )
        last = max(last, when)
    writer = writer_of(files, run)
    ours = "trackers" in tree or writer is not None
    source = "Palaestra" if ours else "ML-Agents" if tree else "TensorBoard"
    shown = tuple(behaviors[name] for name in sorted(behaviors)) or tuple(
        BehaviorStatus(str(name), 0, _most(tree, name)) for name in section(tree, "behaviors")
    )
    if ours:
        state = _state(run, shown, writer, {}, last)
    elif last > time.time() - LIVE:
        state = "learning"
    elif any("final_checkpoint" in section(status, name) for name in behaviors):
        done = all(each.max_steps and each.step >= each.max_steps for each in shown)
        state = "finished" if done else "stopped"
    else:
        state = "recorded"
    timers = section(files.json(run / TIMERS), "metadata")
    began = _number(timers.get("start_time_seconds")) or (None if writer is None else writer.since)
    return RunStatus(
        run_id, state, shown, environment_of(tree), _trainers(tree), began, last, source, str(writer or "")
    )


def _of_status(tree: Mapping[str, Any], status: Mapping[str, Any]) -> tuple[dict[str, BehaviorStatus], float]:
    """Returns the behaviors of `training_status.json` with step and reward of their last model, and its time."""
    found: dict[str, BehaviorStatus] = {}
    newest = 0.0
    for name in status:
        listed = section(status, name)
        models = sections(listed.get("checkpoints"))
        if not models:
            continue
        step = int(_number(models[-1].get("steps")) or 0)
        elo = _number(listed.get("elo"))
        values = {} if elo is None else {ELO: elo}
        found[name] = BehaviorStatus(name, step, _most(tree, name), _number(models[-1].get("reward")), None, values)
        newest = max(newest, _number(models[-1].get("creation_time")) or 0.0)
    return found, newest


def _most(tree: Mapping[str, Any], behavior: str) -> int | None:
    block = section(section(tree, "behaviors"), behavior) or section(tree, "default_settings")
    most = _number(block.get("max_steps"))
    return None if most is None else int(most)


def _trainers(tree: Mapping[str, Any]) -> str:
    behaviors = section(tree, "behaviors")
    blocks = [section(behaviors, name) for name in behaviors] or [section(tree, "default_settings")]
    return ", ".join(dict.fromkeys(str(block["trainer_type"]) for block in blocks if block.get("trainer_type")))


def section(tree: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Returns a section of a file of unknown origin; an empty one if it is missing."""
    found = tree.get(name)
    return found if isinstance(found, Mapping) else {}


def sections(found: object) -> list[Mapping[str, Any]]:
    """Returns the sections in a list; empty if it is no list."""
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def is_number(value: object) -> bool:
    """Whether a value from a file is a number; True and False are not numbers."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _number(value: object) -> float | None:
    """Returns a finite number, also one that is written as text; else None."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _first(*numbers: float | None) -> float | None:
    return next((number for number in numbers if number is not None), None)
