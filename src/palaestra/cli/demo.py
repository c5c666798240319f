"""Show what is in demonstrations: behaviors, episodes, rewards, actions, and problems. Join demonstrations, and Minari
datasets, into one file. Compare recorded actions with a model's.

Reads the files that Unity's recorder and `palaestra record --demo` write, of every version, however large, and Minari
datasets on this machine (minari:ID, or minari:FOLDER).
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaestra.cli.demo_model import compared, lines_of, models_of
from palaestra.cli.flags import option, repeated, switch
from palaestra.core.display import escaped
from palaestra.core.errors import ConfigError, DemoError, EmptyDemo
from palaestra.core.files import must_be_new
from palaestra.runtime.logging.waiting import on_stderr

if TYPE_CHECKING:
    from palaestra.demos.summary import DemoSummary, Range

EXAMPLES = """\
palaestra demo Expert.demo
palaestra demo Assets/Demonstrations --plot demos.png
palaestra demo *.demo --json | jq '.[].reward.mean'
palaestra demo Played.demo --model results/first/3DBall.onnx
palaestra demo minari:D4RL/pen/human-v2
palaestra demo minari:cartpole/expert-v0 --to-demo CartPole-v1.demo
"""
MOST_CHOICES = 12
"""Largest number of choices of a branch that are all listed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `palaestra demo`."""
    files = "demonstration files, folders of them (*.demo), or minari:ID"
    parser.add_argument("files", nargs="+", metavar="FILE", help=files)
    switch(parser, "--json", "print a JSON list with one object per file")
    option(parser, "--plot", "OUT.png", "draw rewards, actions and ranges of observations", type=Path)
    switch(parser, "--force", "overwrite an existing file")
    group = parser.add_argument_group(
        "To check that a game plays the trained model",
        "Recordings of a game that plays a model itself are compared with the model's actions for the same "
        "observations. If they differ, the command names the difference, and the exit status is 1.",
    )
    model = "the model (.onnx or .nn) that the game plays; others, or a folder, are tried if the first does not fit"
    repeated(group, "--model", "FILE", model)
    group = parser.add_argument_group(
        "To write one file of them", "All named files, which must be of one behavior, are joined."
    )
    option(group, "--to-demo", "FILE.demo", "write a demonstration file", type=Path)


def main(options: argparse.Namespace) -> int:
    """Shows each file; returns 1 if a file is unreadable or no model could play it. Raises DemoError without files."""
    from palaestra.datasets import read_demo
    from palaestra.demos.summary import summarize

    files = demo_files(options.files)
    if options.force and options.to_demo is None and options.plot is None:
        raise ConfigError("--force overwrites a file that --plot or --to-demo names: add one of them")
    if options.to_demo is not None:
        if given := next((flag for flag in ("json", "plot", "model") if getattr(options, flag)), None):
            raise ConfigError(f"--{given} shows demonstrations, and --to-demo converts them: one after the other")
        return _convert(files, options.to_demo, force=options.force)
    if options.plot is not None:
        must_be_new(options.plot, force=options.force)
    models = models_of(options.model)
    shown: list[dict[str, Any]] = []
    summaries: list[DemoSummary] = []
    failed: list[DemoError] = []
    for file in files:
        try:
            demo = read_demo(file)
            found = {"model": compared(demo, models)} if models else {}
            summary = summarize(demo)
        except EmptyDemo as error:
            shown.append({"file": str(file), "empty": True, "warnings": [str(error)]})
        except DemoError as error:
            if len(files) == 1:
                raise
            failed.append(error)
            shown.append({"file": str(file), "error": str(error)})
        else:
            summaries.append(summary)
            shown.append(as_dict(summary) | found)
        if not options.json:
            _print(shown[-1])
    if options.json:
        print(json.dumps(shown, indent=2, allow_nan=False))
    if options.plot and summaries:
        _draw(summaries, options.plot)
        if not options.json:
            print(f"Wrote {options.plot}")
    other = bool(models) and any(each.get("model", {}).get("verdict") != "plays" for each in shown)
    return 1 if failed or other else 0


def _draw(summaries: list[DemoSummary], file: Path) -> None:
    from palaestra.runtime.plots.chart_style import save
    from palaestra.runtime.plots.demo_plots import MOST_FILES, demo_figure

    save(demo_figure(summaries), file)
    if len(summaries) > MOST_FILES:
        on_stderr(f"note: the picture shows the first {MOST_FILES} of {len(summaries):,} files")


def _convert(sources: list[Path | str], target: Path, *, force: bool) -> int:
    from palaestra.datasets import read_demo
    from palaestra.demos.joining import write_demo

    if target.suffix != ".demo":
        raise ConfigError(f"--to-demo {target}: expected a file that ends in .demo")
    demos = list[Any]()
    for source in sources:
        try:
            demos.append(read_demo(source))
        except EmptyDemo:
            if len(sources) == 1:
                raise
    for demo in demos:
        for warning in demo.warnings:
            print(escaped(f"warning: {warning}"))
    writer = write_demo(demos, target, force=force)
    print(escaped(f"Wrote {writer.path} ({writer.key}: {writer.ends} episodes, {writer.records} records)"))
    return 0


def demo_files(names: list[str]) -> list[Path | str]:
    """Returns the named files and Minari datasets, and the files in named folders. Raises DemoError for a folder
    without demonstrations."""
    from palaestra.datasets import is_minari

    files: list[Path | str] = []
    for name in names:
        path = Path(name)
        if is_minari(name) or not path.is_dir():
            files.append(name if is_minari(name) else path)
            continue
        inside = sorted(path.rglob("*.demo"))
        if not inside:
            raise DemoError(f"the folder {path} has no demonstration files (*.demo)")
        files += inside
    return files


def as_dict(summary: DemoSummary) -> dict[str, Any]:
    """Returns a summary as plain values; a number that is not finite is None."""
    from palaestra.core.specs import describe
    from palaestra.demos.summary import find_problems

    demo = summary.demo
    spec = summary.demo.spec
    return {
        "file": demo.title,
        "name": demo.name,
        **{key: _finite(value) if isinstance(value, float) else value for key, value in demo.described().items()},
        "behavior": demo.behavior,
        "team": demo.team,
        "spec": describe(spec),
        "observations": [
            {"name": obs.name, "shape": list(obs.shape), "goal": obs.goal, **_range(seen)}
            for obs, seen in zip(spec.obs, summary.obs, strict=True)
        ],
        "continuous_actions": [_one(summary.continuous, i) for i in range(spec.action.continuous)],
        "discrete_actions": [counts.tolist() for counts in summary.choices],
        "records": summary.records,
        "decisions": summary.pairs,
        "episodes": summary.ended + summary.truncated,
        "open_episodes": summary.open,
        "terminated": summary.ended,
        "truncated": summary.truncated,
        "reward": {"sum": _finite(summary.reward), **_spread(summary.returns)},
        "group_reward": {"sum": _finite(summary.group_reward), **_spread(summary.group_returns)},
        "length": _spread(summary.lengths),
        "masked": summary.masked,
        "timing": demo.timing.value,
        "warnings": [*demo.warnings, *find_problems(summary)],
    }


def _spread(values: list[float] | list[int]) -> dict[str, float | None]:
    import numpy as np

    numbers = np.array(values, np.float64)
    if not len(numbers):
        return {"mean": None, "min": None, "max": None}
    with np.errstate(invalid="ignore"):  # infinities of both signs make NaN
        mean = numbers.mean()
    return {"mean": _finite(mean), "min": _finite(numbers.min()), "max": _finite(numbers.max())}


def _range(seen: Range) -> dict[str, float | None]:
    least = float(seen.least.min())
    greatest = float(seen.greatest.max())
    return {"min": _finite(least), "max": _finite(greatest), "mean": _finite(seen.mean.mean())}


def _one(seen: Range, i: int) -> dict[str, float | None]:
    values = {"min": seen.least[i], "max": seen.greatest[i], "mean": seen.mean[i], "std": seen.std[i]}
    return {name: _finite(value) for name, value in values.items()}


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _print(shown: dict[str, Any]) -> None:
    _say(shown["file"])
    if "model" in shown:
        for word, sentence in lines_of(shown["model"]):
            _say(f"  {word:<14}{sentence}")
        _say_warnings(shown)
        return
    if kind := next((kind for kind in ("error", "empty") if kind in shown), None):
        _say(f"  {kind:<14}{shown.get('error') or shown['warnings'][0]}")
        print()
        return
    team = f", team {shown['team']}" if shown["team"] else ""
    length = shown["length"]
    file_format = (
        shown["api_version"] if "api_version" in shown else f"{shown['format']}, Minari {shown['minari_version']}"
    )
    _say(f"  name          {shown['name']} (format {file_format}), behavior {shown['behavior']}{team}")
    for key in ("environment", "author", "algorithm", "description"):
        if shown.get(key):
            _say(f"  {key:<14}{shown[key]}")
    _say(f"  spaces        {shown['spec']}")
    _say(f"  size          {shown['records']:,} records, {_count(shown['decisions'], 'decision')}")
    _say(f"  episodes      {_episodes(shown)}")
    those = " of finished episodes" if shown["episodes"] else " of the unfinished episode"
    those = those if shown["open_episodes"] else ""
    for name, key in (("reward", "reward"), ("group reward", "group_reward")):
        rewards = shown[key]
        in_episodes = "" if rewards["mean"] is None else f"{_spread_text(rewards)}{those}; "
        if key == "reward" or any(rewards.values()):
            _say(f"  {name:<14}{in_episodes}sum of all records {_number(rewards['sum'])}")
    if length["mean"] is not None:
        _say(
            f"  length        mean {length['mean']:.1f}, minimum {length['min']:.0f}, maximum {length['max']:.0f} "
            f"decisions{those}"
        )
    for obs in shown["observations"]:
        _say(f"  observation   {obs['name']} {'x'.join(map(str, obs['shape']))}: {_spread_text(obs)}")
    if not shown["decisions"]:
        _say("  action        no decisions")
    else:
        for i, action in enumerate(shown["continuous_actions"]):
            _say(f"  action        continuous {i}: {_spread_text(action)}, standard deviation {_number(action['std'])}")
        for i, counts in enumerate(shown["discrete_actions"]):
            _say(f"  action        discrete branch {i}: {_choices(counts)}")
    _say_warnings(shown)


def _say_warnings(shown: dict[str, Any]) -> None:
    for warning in shown["warnings"]:
        _say(f"  warning       {warning.removeprefix(shown['file'] + ' ').removeprefix(shown['file'] + ': ')}")
    print()


def _episodes(shown: dict[str, Any]) -> str:
    """Returns the number of episodes, how they ended, and the file's own metadata about them."""
    kinds = [f"{shown['terminated']:,} terminated", f"{shown['truncated']:,} truncated (time limit)"]
    kinds += [f"{shown['open_episodes']:,} unfinished"] if shown["open_episodes"] else []
    mean = f", mean reward {_number(shown['metadata_mean_reward'])}" if "metadata_mean_reward" in shown else ""
    return f"{', '.join(kinds)}; metadata: {_count(shown['metadata_episodes'], 'episode')}{mean}"


def _choices(counts: list[int]) -> str:
    """Returns how often each choice of a branch was taken; of many choices, the most frequent ones."""
    total = max(sum(counts), 1)
    if len(counts) <= MOST_CHOICES:
        return ", ".join(f"choice {choice} {count / total:.0%}" for choice, count in enumerate(counts))
    order = sorted(range(len(counts)), key=lambda choice: -counts[choice])
    often = ", ".join(f"choice {choice} {counts[choice] / total:.0%}" for choice in order[: MOST_CHOICES // 2])
    return f"{len(counts)} choices; most often {often}; {counts.count(0)} never"


def _spread_text(values: dict[str, Any]) -> str:
    return ", ".join(
        f"{name} {_number(values[key])}" for name, key in (("mean", "mean"), ("minimum", "min"), ("maximum", "max"))
    )


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _say(line: str) -> None:
    print(escaped(line))


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.6g}"
