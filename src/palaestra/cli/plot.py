"""Draw learning curves of one or several runs as a picture.

A run is a folder, or a run id in the results folder. A pattern such as 'soccer*' (in quotes) means all runs with such
names. Runs of ML-Agents are read from their TensorBoard event files. The picture is written to the current folder,
since it may show several runs; at its end each run draws its own picture: results/RUN/curves.png.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from palaestra.cli.flags import option, picture, results_dir, switch, x_axis
from palaestra.core.files import file_to_write
from palaestra.core.metrics import REWARD
from palaestra.runtime.comparison.run_curves import curves_of_runs, histories_of
from palaestra.runtime.logging.history import tags
from palaestra.runtime.plots.chart_style import save

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
    if args.list:
        print("\n".join(tags(histories_of(args.runs, args.results_dir)[0].values())))
        return
    out = file_to_write(args.out, Path(USUAL), force=args.force)
    metrics = args.metric or []
    figure = curves_of_runs(args.runs, metrics, args.results_dir, by_time=args.x == "time", smooth=args.smooth)
    save(figure, out)
    print(f"Wrote {out}")


def _weight(text: str) -> float:
    weight = float(text)
    if not 0 <= weight < 1:
        raise argparse.ArgumentTypeError(f"expected a number from 0 to below 1, not {text}")
    return weight
