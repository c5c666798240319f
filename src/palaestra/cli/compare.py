"""Compare settings over several seeds, as a table with intervals and as a plot.

Runs are grouped by their settings apart from the seed, by name, or as --groups says. The score of a run is the mean of
its last summaries; the score of a group is the interquartile mean (IQM) of its runs, with a stratified bootstrap
interval. Runs of ML-Agents, and folders with TensorBoard's files alone, are compared as well.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from palaestra.cli.flags import option, picture, repeated, results_dir, switch, x_axis
from palaestra.core.display import escaped
from palaestra.core.files import file_to_write

MEASURE = ("metric", "bar", "at", "last", "normalize", "lower", "confidence")

EXAMPLES = """\
palaestra compare 'first-seed-*' 'wide-seed-*' --bar 90
palaestra compare 'ball/*' --groups names
palaestra compare --groups ppo='ppo-*' sac='sac-*' --normalize minmax
palaestra compare 'ppo-*' 'sac-*' --at 1e5 --x time --out speed.png
"""

USUAL = "comparison.png"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `palaestra compare`."""
    runs = "run ids, run folders, or patterns such as 'first-seed-*'"
    parser.add_argument("runs", nargs="*", metavar="RUN", help=runs)
    groups = (
        "which runs belong together: settings (equal apart from the seed), names (equal apart from a number at the "
        "end), runs (each on its own), or NAME=PATTERN for each group, with commas between several patterns (default: "
        "settings)"
    )
    option(parser, "--groups", "HOW", groups, nargs="*")
    option(parser, "--metric", "TAG", "TensorBoard tag to compare, or its last part (default: the reward)")
    repeated(parser, "--behavior", "NAME", "only this behavior")
    bar = "also compare the steps and the time until a summary reaches this value"
    option(parser, "--bar", "VALUE", bar, type=float)
    option(parser, "--at", "STEP", "compare at this step (default: the end of each run)", type=float)
    option(parser, "--last", "SHARE", "share of the steps that a score is the mean of", 0.1)
    normalize = (
        "rewards that are scaled to 0 and 1, so that several tasks can be compared together; TASK=LOW,HIGH for one "
        "task, minmax for the smallest and largest value of each task"
    )
    repeated(parser, "--normalize", "LOW,HIGH", normalize)
    switch(parser, "--lower", "lower is better, as for a loss")
    option(parser, "--confidence", "SHARE", "share of the bootstrap in an interval", 0.95)
    x_axis(parser)
    picture(parser, USUAL)
    switch(parser, "--json", "print the result as JSON, with the score of every run")
    results_dir(parser)


def main(options: argparse.Namespace) -> None:
    """Prints the table and writes the picture. Raises ConfigError or RunError."""
    from palaestra.runtime.comparison.comparing import compare
    from palaestra.runtime.comparison.comparison_picture import comparison_figure
    from palaestra.runtime.comparison.comparison_report import as_json, table
    from palaestra.runtime.comparison.scores import Measure
    from palaestra.runtime.plots.chart_style import save

    out = file_to_write(options.out, Path(USUAL), force=options.force)
    measure = Measure(**{name: getattr(options, name) for name in MEASURE}, behaviors=options.behavior)
    found = compare(options.runs, options.groups or ["settings"], options.results_dir, measure)
    save(comparison_figure(found, by_time=options.x == "time"), out)
    if options.json:
        print(json.dumps(as_json(found)))
        return
    print("\n".join(map(escaped, table(found).split("\n"))))
    print(f"\nWrote {out}")
