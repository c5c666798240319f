"""Draw learning curves of one or several runs as a picture.

A run is a folder, or a run id in the results folder. A pattern such as 'soccer*' (in quotes) means all runs with such
names. Runs of ML-Agents are read from their TensorBoard event files.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from palaestra.core.metrics import REWARD
from palaestra.runtime.comparison.selection import select_runs
from palaestra.runtime.logging.curves import learning_curves, save
from palaestra.runtime.logging.history import find_tags, read_history, tags


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `palaestra plot`."""
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="RUN",
        help="run ids, run folders such as results/first, or patterns such as 'seed-*'",
    )
    parser.add_argument(
        "--metric",
        action="append",
        metavar="TAG",
        help="TensorBoard tag to draw, its last part, or a pattern such as 'Losses/*'; several with commas, or by "
        f"repeating the flag (default: {REWARD})",
    )
    parser.add_argument("--list", action="store_true", help="print the available tags instead")
    parser.add_argument(
        "--out", type=Path, default=Path("curves.png"), metavar="FILE", help="picture to write (default: %(default)s)"
    )
    parser.add_argument(
        "--x", choices=("step", "time"), default="step", help="agent-steps or training time (default: %(default)s)"
    )
    parser.add_argument(
        "--smooth",
        type=_weight,
        default=0.0,
        metavar="W",
        help="smoothing: weight of earlier values, from 0 to below 1 (default: %(default)s)",
    )
    parser.add_argument(
        "--results-dir",
        type=Path,
        default=Path("results"),
        metavar="DIR",
        help="folder of all runs (default: %(default)s)",
    )


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
