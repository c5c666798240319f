"""Selects runs, and groups the runs that belong together: runs of one setting with different seeds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from glob import escape, glob
from pathlib import Path
from typing import Any, TypeAlias

from palaestra.core.errors import ConfigError, PalaestraError, RunError
from palaestra.core.plugins import nearest
from palaestra.runtime.logging.history import has_metrics
from palaestra.runtime.settings import yaml_file
from palaestra.runtime.storage.run_folder import CONFIGURATION, RunFolder

SIGNS = "*?["
"""Characters that make a word a pattern."""
HOW = {
    "settings": "runs with the same settings, apart from the seed",
    "names": "runs whose names differ only in a number at the end",
    "runs": "each run on its own",
}
"""Ways of grouping runs."""
NUMBER = re.compile(r"[-_. ]*((seed|run|s)[-_. ]?)?[0-9]+$", re.IGNORECASE)
"""Pattern of the end of a run's name in which the seeds of one setting differ, as in `first-seed-3`."""
Grouping: TypeAlias = "Sequence[str] | Mapping[str, Sequence[str]]"
"""How runs belong together: see `grouped`."""
OUTSIDE = frozenset(("checkpoint_settings", "torch_settings", "debug", "trackers"))
"""Sections about where a run is kept and which device computes it, not about how it learns."""
ASIDE = frozenset(
    ("seed", "base_port", "summary_freq", "checkpoint_interval", "keep_checkpoints", "keep_best", "even_checkpoints")
)
"""Keys in other sections that do not change what is learned."""


@dataclass(frozen=True, slots=True)
class RunGroup:
    """Runs of one setting."""

    name: str
    runs: tuple[str, ...]


def select_runs(words: Sequence[str], results: Path, purpose: str) -> dict[str, Path]:
    """Returns the folders of runs, by the words that name them: run ids, folders, or patterns, which mean all matching
    runs with metrics.

    `purpose`: the use of the runs, for error messages. Raises RunError.
    """
    found: dict[str, Path] = {}
    for word in words:
        if Path(word).is_dir():
            found[word] = Path(word)
        elif any(sign in word for sign in SIGNS):
            # '*' is not the folder of all runs
            runs = _matching(str(Path(escape(str(results))) / word)) or _matching(word)
            if not runs:
                raise RunError(f"no run with metrics matches '{word}', neither in {results} nor in the current folder")
            found |= {str(path): path for path in runs}
        else:
            folder = RunFolder(results, word)
            folder.must_exist(purpose)
            found[word] = folder.path
    different = {path.resolve(): run for run, path in reversed(found.items())}
    return {run: path for run, path in found.items() if different[path.resolve()] == run}


def _matching(pattern: str) -> list[Path]:
    """Returns runs with metrics, 'seed-2' before 'seed-10'."""
    paths = sorted(
        glob(pattern), key=lambda path: [int(part) if part.isdigit() else part for part in re.split(r"([0-9]+)", path)]
    )
    return [path for path in map(Path, paths) if path.is_dir() and has_metrics(path)]


def short_names(folders: Iterable[Path]) -> dict[str, Path]:
    """Returns folders by the shortest ends of their paths that differ from one another."""
    whole = [folder.resolve() for folder in folders]
    for parts in range(1, max((len(folder.parts) for folder in whole), default=1) + 1):
        named = {"/".join(folder.parts[-parts:]): folder for folder in whole}
        if len(named) == len(whole):
            return named
    return {str(folder): folder for folder in whole}


def grouped(runs: Mapping[str, Path], how: Grouping) -> list[RunGroup]:
    """Groups runs, given by their short names, in one of the ways of HOW, or by NAME=PATTERN. A pattern matches names
    or folders; commas separate several patterns; runs that match no pattern are left out. A mapping has the patterns by
    name. Raises ConfigError."""
    if isinstance(how, Mapping):
        return _by_patterns(runs, how)
    if len(how) == 1 and how[0] in HOW:
        keys = {"settings": _by_settings, "names": _by_names, "runs": lambda runs: {name: name for name in runs}}[
            how[0]
        ](runs)
        return _named({key: [run for run in runs if keys[run] == key] for key in dict.fromkeys(keys.values())}, runs)
    patterns: dict[str, list[str]] = {}
    for word in how:
        name, equal, pattern = word.partition("=")
        if not equal or not name or not pattern:
            near = nearest(word, HOW)
            raise ConfigError(
                f"--groups: '{word}' is neither {', '.join(HOW)} nor NAME=PATTERN (runs stand before --groups){near}"
            )
        patterns.setdefault(name, []).extend(filter(None, pattern.split(",")))
    return _by_patterns(runs, patterns)


def pattern_words(how: Grouping) -> list[str]:
    """Returns the runs that match the NAME=PATTERN words, if no runs are given."""
    if isinstance(how, Mapping):
        return [pattern for patterns in how.values() for pattern in patterns]
    return [pattern for word in how if "=" in word for pattern in word.partition("=")[2].split(",") if pattern]


def differences(groups: Sequence[RunGroup], runs: Mapping[str, Path]) -> dict[str, list[Any]]:
    """Returns settings in which groups differ, as dotted paths, each with the values of the groups' first runs."""
    flat = [_flat(tree) if (tree := learned_settings(runs[group.runs[0]])) is not None else {} for group in groups]
    paths = dict.fromkeys(path for one in flat for path in one)
    values = {path: [one.get(path) for one in flat] for path in paths}
    return {path: found for path, found in values.items() if any(value != found[0] for value in found)}


def learned_settings(run: Path) -> dict[str, Any] | None:
    """Returns the settings of a run that affect learning; None if they cannot be read."""
    try:
        tree = yaml_file.read(run / CONFIGURATION).tree
    except PalaestraError:
        return None
    return (
        {key: _without(value) for key, value in tree.items() if key not in OUTSIDE} if isinstance(tree, dict) else None
    )


def _without(value: Any) -> Any:
    return (
        {key: _without(inner) for key, inner in value.items() if key not in ASIDE} if isinstance(value, dict) else value
    )


def _flat(tree: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in tree.items():
        path = f"{above}{key}"
        found |= _flat(value, f"{path}.") if isinstance(value, dict) and value else {path: value}
    return found


def _stem(name: str) -> str:
    """Returns a run's name without the number of its seed; for a folder of numbered runs, the folder's name."""
    *folders, last = name.split("/")
    return "/".join(filter(None, [*folders, NUMBER.sub("", last)])) or name


def _by_names(runs: Mapping[str, Path]) -> dict[str, str]:
    stems = {run: NUMBER.sub("", path.name) or path.parent.name for run, path in runs.items()}
    return {run: _stem(run) if "/" in run else stems[run] for run in runs}


def _by_settings(runs: Mapping[str, Path]) -> dict[str, str]:
    trees = {run: learned_settings(path) for run, path in runs.items()}
    stems = _by_names(runs)
    return {
        run: f"name {stems[run]}" if tree is None else repr(sorted(_flat(tree).items())) for run, tree in trees.items()
    }


def _named(members: Mapping[str, list[str]], runs: Mapping[str, Path]) -> list[RunGroup]:
    """Names each group by the common start of its runs' names; if names collide, by their first runs."""
    stems = _by_names(runs)
    names = [runs[0] if len(runs) == 1 and stems[runs[0]] == runs[0] else stems[runs[0]] for runs in members.values()]
    names = [name if names.count(name) == 1 else runs[0] for name, runs in zip(names, members.values(), strict=True)]
    return [RunGroup(name, tuple(inside)) for name, inside in zip(names, members.values(), strict=True)]


def _by_patterns(runs: Mapping[str, Path], patterns: Mapping[str, Sequence[str]]) -> list[RunGroup]:
    owners: dict[str, str] = {}
    for name, wanted in patterns.items():
        inside = [run for run, path in runs.items() if any(_fits(run, path, pattern) for pattern in wanted)]
        if not inside:
            raise ConfigError(
                f"--groups: no run matches {name}={','.join(wanted)} (runs: {', '.join(list(runs)[:10])})"
            )
        for run in inside:
            if run in owners:
                raise ConfigError(f"--groups: the run {run} is in two groups, {owners[run]} and {name}")
            owners[run] = name
    return [RunGroup(name, tuple(run for run in runs if owners.get(run) == name)) for name in patterns]


def _fits(run: str, path: Path, pattern: str) -> bool:
    plain = Path(pattern).as_posix()
    ends = plain if Path(pattern).is_absolute() else f"*/{plain}"
    if any(sign in pattern for sign in SIGNS):
        return any(
            fnmatchcase(name, form) for name, form in ((run, pattern), (path.name, pattern), (path.as_posix(), ends))
        )
    return pattern in (run, path.name, path.as_posix()) or path.as_posix().endswith(f"/{plain}")
