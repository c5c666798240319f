"""Draw learning curves of one or several runs as a picture.

A run is a folder, or a run id in the results folder. A pattern such as 'soccer*' (in quotes) means all runs with such
names. Runs of ML-Agents are read from their TensorBoard event files.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from palaestra.cli.flags import option, results_dir, switch, x_axis
from palaestra.core.metrics import REWARD
from palaestra.runtime.comparison.selection import select_runs
from palaestra.runtime.logging.curves import learning_curves, save
from palaestra.runtime.logging.history import find_tags, read_history, tags


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `palaestra plot`."""
    runs = "run ids, run folders such as results/first, or patterns such as 'seed-*'"
    parser.add_argument("runs", nargs="+", metavar="RUN", help=runs)
    metric = (
        "TensorBoard tag to draw, its last part, or a pattern such as 'Losses/*'; several with commas, or by repeating "
        f"the flag (default: {REWARD})"
    )
    option(parser, "--metric", "TAG", metric, action="append")
    switch(parser, "--list", "print the available tags instead")
    option(parser, "--out", "FILE", "picture to write", Path("curves.png"))
    x_axis(parser)
    smooth = "smoothing: weight of earlier values, from 0 to below 1"
    option(parser, "--smooth", "W", smooth, 0.0, type=_weight)
    results_dir(parser)


def main(args: argparse.Namespace) -> None:
    """Writes the picture and prints its path. Raises RunError."""
    folders = select_runs(args.runs, args.results_dir, "plot")
    runs = {run: read_history(folder) for run, folder in folders.items()}
    known = tags(runs.values())
    if args.list:
        print("\n".join(known))
        return
    metrics = find_tags(args.metric or [REWARD], known)
    names = {run: folder.name for run, folder in folders.items()}
    shown = {names[run]: history for run, history in runs.items()} if len(set(names.values())) == len(names) else runs
    figure = learning_curves(shown, metrics, by_time=args.x == "time", smooth=args.smooth)
    save(figure, args.out)
    print(f"Wrote {args.out}")


def _weight(text: str) -> float:
    weight = float(text)
    if not 0 <= weight < 1:
        raise argparse.ArgumentTypeError(f"expected a number from 0 to below 1, not {text}")
    return weight
