"""Compare settings over several seeds, as a table with intervals and as a plot.

Runs are grouped by their settings apart from the seed, by name, or as --groups says. The score of a run is the mean of
its last summaries; a group's is their interquartile mean (IQM), with a stratified bootstrap interval. Runs of
ML-Agents, and folders with TensorBoard's files alone, are compared as well.
"""

from __future__ import annotations

import argparse
from pathlib import Path

EPILOG = """\
examples:
  palaestra compare 'first-seed-*' 'wide-seed-*' --bar 90
  palaestra compare 'ball/*' --groups names
  palaestra compare --groups ppo='ppo-*' sac='sac-*' --normalize minmax
  palaestra compare 'ppo-*' 'sac-*' --at 1e5 --x time --out speed.png
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `palaestra compare`."""
    parser.add_argument(
        "runs", nargs="*", metavar="RUN", help="run ids, run folders, or patterns such as 'first-seed-*'"
    )
    parser.add_argument(
        "--groups",
        nargs="*",
        metavar="HOW",
        help="which runs belong together: settings (equal apart from the seed), names (equal apart from a number at "
        "the end), runs (each on its own), or NAME=PATTERN for each group, with commas between several patterns "
        "(default: settings)",
    )
    parser.add_argument(
        "--metric", metavar="TAG", help="TensorBoard tag to compare, or its last part (default: the reward)"
    )
    parser.add_argument(
        "--behavior", action="append", default=[], metavar="NAME", help="only this behavior; may be repeated"
    )
    parser.add_argument(
        "--bar",
        type=float,
        metavar="VALUE",
        help="also compare the steps and the time until a summary reaches this value",
    )
    parser.add_argument("--at", type=float, metavar="STEP", help="compare at this step (default: the end of each run)")
    parser.add_argument(
        "--last",
        type=float,
        default=0.1,
        metavar="SHARE",
        help="share of the steps that a score is the mean of (default: %(default)s)",
    )
    parser.add_argument(
        "--normalize",
        action="append",
        default=[],
        metavar="LOW,HIGH",
        help="rewards that become 0 and 1, so that several tasks can be taken together; TASK=LOW,HIGH for one of "
        "them, minmax for the least and the greatest value of each; may be repeated",
    )
    parser.add_argument("--lower", action="store_true", help="lower is better, as for a loss")
    parser.add_argument(
        "--confidence",
        type=float,
        default=0.95,
        metavar="SHARE",
        help="share of the bootstrap in an interval (default: %(default)s)",
    )
    parser.add_argument(
        "--x", choices=("step", "time"), default="step", help="agent-steps or training time (default: %(default)s)"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("comparison.png"),
        metavar="FILE",
        help="picture to write (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON, with the score of every run")
    parser.add_argument(
        "--results-dir",
        type=Path,
        default=Path("results"),
        metavar="DIR",
        help="folder of all runs (default: %(default)s)",
    )


def main(options: argparse.Namespace) -> None:
    """Prints the table and writes the picture. Raises ConfigError or RunError."""
    import json

    from palaestra.core.display import escaped
    from palaestra.runtime.comparison.comparing import compare
    from palaestra.runtime.comparison.comparison_picture import picture
    from palaestra.runtime.comparison.comparison_report import as_json, table
    from palaestra.runtime.logging.curves import save

    found = compare(
        options.runs,
        groups=options.groups or "settings",
        results_dir=options.results_dir,
        metric=options.metric,
        behaviors=options.behavior,
        bar=options.bar,
        at=options.at,
        last=options.last,
        normalize=options.normalize,
        lower=options.lower,
        confidence=options.confidence,
    )
    save(picture(found, by_time=options.x == "time"), options.out)
    if options.json:
        print(json.dumps(as_json(found)))
        return
    print("\n".join(map(escaped, table(found).split("\n"))))
    print(f"\nWrote {options.out}")
