"""Draws learning curves of one or several runs as a picture.

A run is a folder, or a run id inside the results folder. Runs of ML-Agents are read from their TensorBoard event files.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from palaestra.runtime.curves import learning_curves, save
from palaestra.runtime.folder import RunFolder
from palaestra.runtime.history import find_tag, read_history, tags
from palaestra.runtime.tracker import REWARD


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which runs, which metric, and how it is drawn."""
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run ids, or run folders such as results/first")
    parser.add_argument("--metric", default=REWARD, metavar="TAG", help="TensorBoard tag to draw, or its last part (default: %(default)s)")
    parser.add_argument("--list", action="store_true", help="print the tags there are instead")
    parser.add_argument("--out", type=Path, default=Path("curves.png"), metavar="FILE", help="picture to write (default: %(default)s)")
    parser.add_argument("--x", choices=("step", "time"), default="step", help="agent-steps or training time (default: %(default)s)")
    parser.add_argument("--smooth", type=_weight, default=0.0, metavar="W", help="weight of the past, 0 to below 1 (default: %(default)s)")
    parser.add_argument("--results-dir", type=Path, default=Path("results"), metavar="DIR", help="where run ids are (default: %(default)s)")


def main(args: argparse.Namespace) -> None:
    """Writes the picture and says where."""
    runs = {run: read_history(_folder(run, args.results_dir)) for run in args.runs}
    known = tags(runs.values())
    if args.list:
        print("\n".join(known))
        return
    short = {Path(run).name: history for run, history in runs.items()}
    figure = learning_curves(
        short if len(short) == len(runs) else runs, find_tag(args.metric, known), by_time=args.x == "time", smooth=args.smooth
    )
    save(figure, args.out)
    print(f"Wrote {args.out}")


def _folder(run: str, results: Path) -> Path:
    if Path(run).is_dir():
        return Path(run)
    folder = RunFolder(results, run)
    folder.must_exist("plot")
    return folder.path


def _weight(text: str) -> float:
    weight = float(text)
    if not 0 <= weight < 1:
        raise argparse.ArgumentTypeError(f"expected a number from 0 to below 1, not {text}")
    return weight
