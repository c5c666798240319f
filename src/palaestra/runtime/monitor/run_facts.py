"""Facts about runs for their pages: lessons, the league, use of time, logs, settings that differ."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palaestra.core.metrics import ELO
from palaestra.runtime.monitor.bounded_reading import LOG_TAIL, ResultsFiles
from palaestra.runtime.monitor.run_status import STATUS, TIMERS, BehaviorStatus, RunStatus, is_number, section, sections

MISSING = "(not set)"
IGNORED = frozenset(
    ("checkpoint_settings.run_id", "checkpoint_settings.resume", "checkpoint_settings.force", "env_settings.base_port")
)
"""Keys that identify a run, and do not say how it learns."""
LOGS = ("log", "out", "err", "txt")
"""Endings of the files in `run_logs` that are shown as logs."""
MOST_LOGS = 64
MOST_ENTRIES = 200
"""Most snapshots of a league that are shown."""
_WARNING = re.compile(r"\[?(WARNING|ERROR|CRITICAL)\b")


@dataclass(frozen=True, slots=True)
class LessonStatus:
    """Current lesson of an environment parameter, and the condition for the next one."""

    parameter: str
    number: int  # the first is 0
    count: int
    name: str
    value: str
    needs: str  # empty for the last lesson
    share: float | None = None
    """How far the criterion is met, from 0 to 1; None if it cannot be measured."""


@dataclass(frozen=True, slots=True)
class LeagueTable:
    """Results of snapshots against each other."""

    behavior: str
    opponent: str
    rows: tuple[int, ...]  # steps
    columns: tuple[int, ...]
    scores: tuple[tuple[int, int, float], ...]
    """Column, row and score from 0 to 1 of each pair that has played."""
    ratings: tuple[tuple[str, int, float, float], ...]
    """Behavior, step, skill and the skill's deviation of each player."""


@dataclass(frozen=True, slots=True)
class TimeShares:
    """Shares of the time by activity, and a sentence about the bottleneck."""

    shares: Mapping[str, float]
    bottleneck: str = ""


def lessons(files: ResultsFiles, status: RunStatus, settings: Mapping[str, Any]) -> list[LessonStatus]:
    """Returns the current lesson of every parameter with a curriculum."""
    parameters = section(settings, "environment_parameters")
    reached = files.json(files.root / status.run_id / STATUS)
    found = []
    for name in parameters:
        steps = sections(section(parameters, name).get("curriculum"))
        if not steps:
            continue
        number = min(max(_lesson_number(str(name), status, reached), 0), len(steps) - 1)
        lesson = steps[number]
        criterion = lesson.get("completion_criteria") if number + 1 < len(steps) else None
        needs, share = _needs(criterion, status) if isinstance(criterion, Mapping) else ("", None)
        found.append(
            LessonStatus(
                str(name), number, len(steps), str(lesson.get("name", "")), _value(lesson.get("value")), needs, share
            )
        )
    return found


def _lesson_number(name: str, status: RunStatus, reached: Mapping[str, Any]) -> int:
    for each in status.behaviors:
        if (number := each.values.get(f"Environment/Lesson Number/{name}")) is not None:
            return int(number)
    number = section(reached, name).get("lesson_num")
    return number if isinstance(number, int) else 0


def _needs(criterion: Mapping[str, Any], status: RunStatus) -> tuple[str, float | None]:
    """Returns a lesson's condition as a sentence, and how far the last summary meets it."""
    named = [each for each in status.behaviors if each.name == criterion.get("behavior")]
    behavior = next(iter([*named, *status.behaviors]), None)
    measure = str(criterion.get("measure", ""))
    threshold = criterion.get("threshold")
    now = None if behavior is None else _measured(behavior, measure)
    what = {"reward": "mean reward", "progress": "progress", "Elo": "Elo", "elo": "Elo"}.get(measure, measure)
    if not isinstance(threshold, (int, float)):
        return what, None
    below = bool(criterion.get("below"))
    of = f" of {behavior.name}" if behavior is not None else ""
    shown = "not measured yet" if now is None else f"{now:.4g}"
    text = f"{what}{of} is {shown}; the next lesson needs {'less' if below else 'more'} than {threshold:g}"
    length = criterion.get("min_lesson_length")
    if isinstance(length, int) and length > 0:
        text += f" over at least {length:,} episodes"
    if now is None or below or threshold <= 0:
        return text, None
    return text, min(1.0, max(0.0, now / threshold))


def _measured(behavior: BehaviorStatus, measure: str) -> float | None:
    if measure == "progress":
        return behavior.step / behavior.max_steps if behavior.max_steps else None
    if measure == "reward":
        return behavior.reward
    return behavior.values.get(ELO if measure.casefold() == "elo" else measure)


def _value(value: object) -> str:
    if not isinstance(value, Mapping):
        return "" if value is None else str(value)
    kind = value.get("sampler_type")
    given = value.get("sampler_parameters")
    inner = ", ".join(f"{key} {each}" for key, each in given.items()) if isinstance(given, Mapping) else ""
    return f"{kind} ({inner})" if kind else ", ".join(f"{key} {each}" for key, each in value.items())


def league(files: ResultsFiles, run_id: str) -> LeagueTable | None:
    """Returns the result of `palaestra league`; None if the league was not played."""
    data = files.json(files.root / run_id / "league.json")
    try:
        entries = [
            (str(each["behavior"]), int(each["step"]), float(each["skill"]), float(each["deviation"]))
            for each in data["entries"]
        ]
        games = data["games"]
        wins = data["wins"]
        draws = data["draws"]
        if not 0 < len(entries) <= MOST_ENTRIES:
            return None
        names = list(dict.fromkeys(entry[0] for entry in entries))
        rows = [i for i, entry in enumerate(entries) if entry[0] == names[0]]
        columns = [i for i, entry in enumerate(entries) if entry[0] == names[-1]]
        scores = [
            (x, y, (float(wins[i][j]) + 0.5 * float(draws[i][j])) / float(games[i][j]))
            for y, i in enumerate(rows)
            for x, j in enumerate(columns)
            if games[i][j] > 0
        ]
    except (KeyError, TypeError, ValueError, IndexError, OverflowError):
        return None
    return LeagueTable(
        names[0],
        names[-1],
        tuple(entries[i][1] for i in rows),
        tuple(entries[j][1] for j in columns),
        tuple(scores),
        tuple(sorted(entries, key=lambda entry: -entry[2])),
    )


def time_shares(files: ResultsFiles, status: RunStatus) -> TimeShares | None:
    """Returns where the time of the newest session went, and its bottleneck; None if unknown."""
    sentence = status.progress.get("bottleneck")
    shares = status.progress.get("shares")
    if isinstance(sentence, str) and isinstance(shares, Mapping):
        return TimeShares(_sorted(_numbers(shares)), sentence)
    timers = files.json(files.root / status.run_id / TIMERS)
    children = section(timers, "children")
    seconds = {str(name): _numbers(section(children, name)).get("total", 0.0) for name in children}
    total = max(_numbers(timers).get("total", 0.0), sum(seconds.values()))
    if not isinstance(timers.get("children"), Mapping) or total <= 0:
        return None
    sentence = section(timers, "metadata").get("bottleneck", "")
    return TimeShares(_sorted({name: each / total for name, each in seconds.items()}), str(sentence))


def _numbers(tree: Mapping[str, Any]) -> dict[str, float]:
    return {str(key): float(each) for key, each in tree.items() if is_number(each)}


def _sorted(shares: Mapping[str, float]) -> dict[str, float]:
    return dict(sorted(((name, share) for name, share in shares.items() if share > 0.0005), key=lambda part: -part[1]))


def logs(files: ResultsFiles, run_id: str) -> list[str]:
    """Returns the names of the logs in a run's folder, the console's first."""
    folder = files.root / run_id / "run_logs"
    if not files.contains(folder):
        return []
    try:
        with os.scandir(folder) as entries:
            names = [e.name for e in entries if e.name.rpartition(".")[2] in LOGS and files.contains(Path(e.path))]
    except OSError:
        return []
    return sorted(names, key=lambda name: (not name.startswith("console"), name))[:MOST_LOGS]


def log_tail(files: ResultsFiles, run_id: str, name: str) -> str:
    """Returns the end of one of the `logs`; '' for any other name."""
    return files.last_lines(files.root / run_id / "run_logs" / name, LOG_TAIL) if name in logs(files, run_id) else ""


def warnings_in(text: str) -> list[str]:
    """Returns the warnings and errors in a console's output, each once, the newest last."""
    return list(dict.fromkeys(line for line in text.splitlines() if _WARNING.match(line.lstrip())))[-50:]


@dataclass(frozen=True, slots=True)
class Difference:
    """A key whose value is not the same in all runs."""

    key: str
    values: tuple[str, ...]  # one for each run


def differences(trees: Sequence[Mapping[str, Any]]) -> list[Difference]:
    """Returns the keys that differ, in the settings' order. Runs with a single behavior are compared even if its names
    differ."""
    flat = [dict(_flat(_without_name(tree))) for tree in trees]
    keys = dict.fromkeys(key for values in flat for key in values)
    found = [Difference(key, tuple(values.get(key, MISSING) for values in flat)) for key in keys if key not in IGNORED]
    return [each for each in found if len(set(each.values)) > 1]


def shown_differences(trees: Sequence[Mapping[str, Any]], most: int = 500, longest: int = 200) -> list[Difference]:
    """Returns the first differences for a page, with long values cut."""
    return [Difference(each.key, tuple(value[:longest] for value in each.values)) for each in differences(trees)[:most]]


def _without_name(tree: Mapping[str, Any]) -> Mapping[str, Any]:
    behaviors = section(tree, "behaviors")
    if len(behaviors) != 1:
        return tree
    ((name, block),) = behaviors.items()
    return {"behavior": name, **tree, "behaviors": {"*": block}}


def _flat(tree: object, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(tree, Mapping) and tree:
        for key, value in tree.items():
            yield from _flat(value, f"{path}.{key}" if path else str(key))
    else:
        yield path, _text(tree)


def _text(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
