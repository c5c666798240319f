"""Draws the curves of guides: each file in `docs/curves` becomes a picture of its name in `docs/images`.

    python docs/make_curves.py [NAME ...]

A file has a line for each measurement: panel, group, seed, decisions, value. Lines are the means of a group's seeds as
far as all of them go, bands reach from the lowest to the highest seed.
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

from palaestra.runtime.plots.chart_style import add_title, dress, dress_x, label_ends, looks_of, new_figure, save

DOCS = Path(__file__).parent
Curves = dict[str, dict[str, dict[str, dict[float, float]]]]
"""Values by panel, group, seed and decisions."""


def main() -> None:
    """Draws the named pictures, or all."""
    for file in sorted((DOCS / "curves").glob("*.csv")):
        if len(sys.argv) < 2 or file.stem in sys.argv:
            draw(read(file), DOCS / "images" / f"{file.stem}.png")


def read(file: Path) -> Curves:
    """Reads the measurements of a picture."""
    found: Curves = defaultdict(lambda: defaultdict(lambda: defaultdict(dict)))
    with file.open(newline="", encoding="utf-8") as rows:
        for row in csv.DictReader(rows):
            found[row["panel"]][row["group"]][row["seed"]][float(row["decisions"])] = float(row["value"])
    return found


def draw(panels: Curves, picture: Path) -> None:
    """Draws a panel for each game."""
    figure = new_figure(5.6 * len(panels), 3.8)
    places = np.atleast_1d(figure.subplots(1, len(panels)))
    figure.subplots_adjust(wspace=0.55)
    looks = looks_of(list(dict.fromkeys(group for groups in panels.values() for group in groups)))
    for axes, (panel, groups) in zip(places, panels.items(), strict=True):
        ends = []
        last = 0.0
        for group, seeds in groups.items():
            steps = sorted(set.intersection(*(set(values) for values in seeds.values())))
            values = np.array([[seed[step] for step in steps] for seed in seeds.values()])
            color = looks[group].color
            axes.fill_between(steps, values.min(0), values.max(0), color=color, alpha=0.18, linewidth=0)
            axes.plot(steps, values.mean(0), linewidth=1.9, **looks[group].options(4.5))
            ends.append((group, color, float(values[:, -1].mean())))
            last = max(last, steps[-1])
        dress(axes, 9.5)
        dress_x(axes, last, 9.5)
        title, _, what = panel.partition(": ")
        many = len(next(iter(groups.values())))
        add_title(axes, title, (what, f"mean and range of {many} seeds" if many > 1 else "one seed"))
        label_ends(axes, ends)
    save(figure, picture)


if __name__ == "__main__":
    main()
