"""Draw learning curves of one or several runs as a picture.

A run is a folder, or a run id in the results folder. A pattern such as 'soccer*' (in quotes) means all runs with such
names. Runs of ML-Agents are read from their TensorBoard event files.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from palaestra.cli.flags import option, picture, results_dir, switch, x_axis
from palaestra.core.files import file_to_write
from palaestra.core.metrics import REWARD
from palaestra.runtime.comparison.selection import select_runs
from palaestra.runtime.logging.history import find_tags, read_history, tags
from palaestra.runtime.plots.chart_style import save
from palaestra.runtime.plots.curves import environment_name, learning_curves

USUAL = "curves.png"

EXAMPLES = """\
palaestra plot first
palaestra plot 'ball-seed-*' --smooth=0.9 --out=balls.png
palaestra plot first --metric='Losses/*' --x=time
"""


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
    picture(parser, USUAL)
    x_axis(parser)
    smooth = "smoothing: weight of earlier values, from 0 to below 1 (default: by how noisy the curves are)"
    option(parser, "--smooth", "W", smooth, type=_weight)
    results_dir(parser)


def main(args: argparse.Namespace) -> None:
    """Writes the picture and prints its path. Raises RunError."""
    folders = select_runs(args.runs, args.results_dir, "plot")
    runs = {run: read_history(folder) for run, folder in folders.items()}
    known = tags(runs.values())
    if args.list:
        print("\n".join(known))
        return
    out = file_to_write(args.out, Path(USUAL), force=args.force)
    metrics = find_tags(args.metric or [REWARD], known)
    names = {run: folder.name for run, folder in folders.items()}
    shown = {names[run]: history for run, history in runs.items()} if len(set(names.values())) == len(names) else runs
    environment = environment_name(folders.values())
    save(learning_curves(shown, metrics, by_time=args.x == "time", smooth=args.smooth, environment=environment), out)
    print(f"Wrote {out}")


def _weight(text: str) -> float:
    weight = float(text)
    if not 0 <= weight < 1:
        raise argparse.ArgumentTypeError(f"expected a number from 0 to below 1, not {text}")
    return weight
