"""Makes the learning curves of the gallery: trains environments, thins the metrics of their runs, and draws them.

`docs/make_gallery.py --train` calls it. The measurements stand in `docs/curves/gallery/NAME.csv`: one line for each
summary of a run, with behavior, seed, decisions, reward and, in self-play, rating. A run of more than 100 summaries is
thinned to means of neighbors.
"""

from __future__ import annotations

import csv
import hashlib
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from palaestra.runtime.logging.history import Points, read_history
from palaestra.runtime.plots.chart_style import COLORS, SOFT, add_title, dress, dress_x, new_figure, save
from palaestra.runtime.settings import load
from palaestra.runtime.settings.fitting import preset_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROOT = Path(__file__).parents[1]
CURVES = ROOT / "docs" / "curves" / "gallery"
IMAGES = ROOT / "docs" / "images" / "gallery"
SEEDS = (1, 2, 3)
POINTS = 100
"""Most measurements of a run that are kept."""
FLAGS = {
    "3DBall": "--max-steps=3e5 --summary-freq=6000",
    "Crawler": "--max-steps=5e6",
    "DungeonEscape": "--max-steps=2e6",
    "FoodCollector": "--max-steps=1e6",
    "Hallway": "--max-steps=2e6",
    "Match3": "--max-steps=1.2e6",
    "PushBlock": "--max-steps=6e5",
    "Sorter": "--max-steps=1e6",
    "Tennis": "--max-steps=2e6",
    "WallJump": "--max-steps=2e6",
    "Worm": "--max-steps=5e5",
}
"""Flags of the runs of environments whose settings files ask for more than some minutes of a core."""
MADE = (
    "The trainings ran without a GPU, on two CPU cores that did other work too. The curves were put into the "
    "repository on 30 November 2026. "
    "Curves of another machine or version differ a little."
)
"""When and where the curves were made."""
FAR = 3.0
"""Times the highest value at which a bar is too far away to be shown."""
SOURCE = "Made from"
"""Name of a picture's text that tells what it was drawn from."""
Lines = dict[int, dict[int, float]]
"""Values by seed and decisions."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One summary of a run, as a line of the file has it."""

    behavior: str
    seed: int
    decisions: int
    reward: float
    rating: float | None


def file_of(name: str) -> Path:
    """Returns the file with the measurements of an environment."""
    return CURVES / f"{name}.csv"


def picture_of(name: str) -> Path:
    """Returns the picture of an environment's learning curve."""
    return IMAGES / f"{name}-curve.png"


def run_of(name: str, seed: int) -> str:
    """Returns the name of the run of a seed, as `palaestra learn --run-id=NAME --seeds=3` gives it."""
    return f"{name}-seed-{seed}"


def read(name: str) -> list[Measurement]:
    """Returns the measurements of an environment; none if no curve was made."""
    file = file_of(name)
    if not file.is_file():
        return []
    with file.open(newline="", encoding="utf-8") as rows:
        return [
            Measurement(
                row["behavior"],
                int(row["seed"]),
                int(row["decisions"]),
                float(row["reward"]),
                float(row["rating"]) if row["rating"] else None,
            )
            for row in csv.DictReader(rows)
        ]


def write(name: str, found: Sequence[Measurement]) -> None:
    """Writes the measurements of an environment."""
    CURVES.mkdir(parents=True, exist_ok=True)
    with file_of(name).open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(field.name for field in fields(Measurement))
        rows.writerows(astuple(one) for one in found)


def train(names: Sequence[str], seeds: Sequence[int], results: Path) -> None:
    """Trains each environment with each seed that its file lacks; a run that was interrupted is resumed."""
    for name in names:
        for seed in seeds:
            if seed not in {one.seed for one in read(name)}:
                learn(name, seed, results)
                add(name, seed, results / run_of(name, seed))


def learn(name: str, seed: int, results: Path) -> None:
    """Trains an environment with its shipped settings and the flags of its curve."""
    run = run_of(name, seed)
    words = [*command(name), f"--run-id={run}", f"--seed={seed}", f"--results-dir={results}"]
    words += ["--resume"] if (results / run).is_dir() else []
    subprocess.run([sys.executable, "-m", "palaestra", *words], cwd=ROOT, stdout=subprocess.DEVNULL, check=True)


def command(name: str) -> list[str]:
    """Returns the words of the command that trains an environment as for its curve, without a run's name."""
    file = preset_for(name)
    given = [f"configs/{file.parent.name}/{file.name}"] if file else []
    return ["learn", *given, f"--env={name}", *FLAGS.get(name, "").split()]


def commands(name: str) -> list[str]:
    """Returns the commands that train the seeds of a curve; three seeds if there is no curve."""
    seeds = sorted({one.seed for one in read(name)}) or list(SEEDS)
    train = f"palaestra {' '.join(command(name))}"
    if len(seeds) > 1 and seeds == list(range(1, len(seeds) + 1)):
        return [f"{train} --run-id={name} --seeds={len(seeds)}"]
    return [f"{train} --run-id={run_of(name, seed)} --seed={seed}" for seed in seeds]


def add(name: str, seed: int, run: Path) -> None:
    """Puts the metrics of a run into the file of its environment, in place of those of the same seed."""
    kept = [one for one in read(name) if one.seed != seed]
    found = sorted([*kept, *measured(run, seed)], key=lambda one: (one.behavior, one.seed))
    write(name, found)
    print(f"{file_of(name).name}: {len(found)} lines, seeds {sorted({one.seed for one in found})}", flush=True)


def measured(run: Path, seed: int) -> Iterator[Measurement]:
    """Yields the thinned measurements of a run: the reward of a group where there are groups."""
    for behavior, history in sorted(read_history(run).items()):
        own, group = "Environment/Cumulative Reward", "Environment/Group Cumulative Reward"
        ratings = dict(thinned(history["Self-play/ELO"])) if "Self-play/ELO" in history else {}
        for decisions, value in thinned(history[group if group in history else own]):
            rating = round(ratings[decisions]) if decisions in ratings else None
            yield Measurement(behavior, seed, decisions, float(f"{value:.4g}"), rating)


def thinned(points: Points) -> list[tuple[int, float]]:
    """Returns decisions and values of a curve, as means of neighbors if they are many."""
    steps, values = points.step, points.value
    size = -(-len(steps) // POINTS) or 1
    starts = range(0, len(steps), size)
    return [(int(steps[at : at + size][-1]), float(values[at : at + size].mean())) for at in starts]


def lines_of(found: Sequence[Measurement]) -> dict[str, Lines]:
    """Returns the lines of each behavior: ratings in self-play, else rewards."""
    lines: dict[str, Lines] = {}
    for one in found:
        value = one.reward if one.rating is None else one.rating
        lines.setdefault(one.behavior, {}).setdefault(one.seed, {})[one.decisions] = value
    return lines


def is_rated(found: Sequence[Measurement]) -> bool:
    """Whether the curve shows ratings of self-play."""
    return any(one.rating is not None for one in found)


def mean_line(lines: Lines) -> dict[int, float]:
    """Returns the mean of the seeds at all decisions that they have in common."""
    common = sorted(set.intersection(*(set(line) for line in lines.values())))
    return {step: float(np.mean([line[step] for line in lines.values()])) for step in common}


def words(name: str) -> list[str]:
    """Returns sentences about a curve: what it shows, what the runs ended with, and whether they were cut short."""
    found = read(name)
    behaviors = lines_of(found)
    seeds = sorted({one.seed for one in found})
    measure = (
        "Rating (ELO) in self-play, 1,200 at first" if is_rated(found) else "Mean reward of an episode in training"
    )
    of = f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
    many = "1 seed" if len(seeds) == 1 else f"{len(seeds)} seeds"
    each = ": a thin line for each seed, a thick line for their mean" if len(seeds) > 1 else ""
    sentences = [f"{measure}, {many} ({of}){each}."]
    for behavior, lines in behaviors.items():
        who = f"{behavior}: after" if len(behaviors) > 1 else "After"
        ends = [line[max(line)] for line in lines.values()]
        last = min(max(line) for line in lines.values())
        unit = "rating" if is_rated(found) else "reward"
        span = f"the {unit} is {number(ends[0])}"
        if len(ends) > 1:
            span = f"the mean {unit} is {number(float(np.mean(ends)))}"
            span += f" (lowest seed {number(min(ends))}, highest {number(max(ends))})"
        sentences.append(f"{who} {last:,} decisions {span}.")
    return [sentences[0], " ".join([*sentences[1:], *cut_short(name, behaviors)])]


def cut_short(name: str, behaviors: Mapping[str, Lines]) -> list[str]:
    """Returns sentences if the runs ended before what the settings file asks for."""
    file = preset_for(name)
    planned = load(file, own_code=False).settings.behaviors if file else {}
    flags = dict(flag.removeprefix("--").split("=") for flag in FLAGS.get(name, "").split())
    told: list[str] = []
    for behavior, lines in behaviors.items():
        asked = planned[behavior].max_steps if behavior in planned else 0
        wanted = min(float(flags.get("max-steps", asked)), asked)
        last = min(max(line) for line in lines.values())
        if last < 0.95 * wanted:
            asks = (
                f"the command asks for {wanted:,.0f}, the settings file" if wanted < asked else "the settings file asks"
            )
            told.append(f"Training was stopped after {last:,} decisions; {asks} for {asked:,}.")
        elif wanted < asked:
            told.append(f"The settings file asks for {asked:,} decisions; this training had {wanted:,.0f}.")
    return list(dict.fromkeys(told))


def number(value: float) -> str:
    """Returns a reward or a rating as text."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def source_of(name: str, bar: float | None) -> str:
    """Returns a hash of all that a picture is drawn from."""
    return hashlib.sha256(file_of(name).read_bytes() + repr(bar).encode()).hexdigest()[:16]


def drawn_from(name: str) -> str:
    """Returns the hash that a picture carries; empty if there is no picture."""
    if not picture_of(name).is_file():
        return ""
    with Image.open(picture_of(name)) as picture:
        return str(picture.info.get(SOURCE, ""))


def draw_if_changed(name: str, bar: float | None) -> None:
    """Draws the curve of an environment unless its picture is up to date."""
    found = read(name)
    if not found or drawn_from(name) == source_of(name, bar):
        return
    behaviors = lines_of(found)
    figure = new_figure(5.6 * len(behaviors), 3.3, dpi=130)
    for axes, (behavior, lines) in zip(
        np.atleast_1d(figure.subplots(1, len(behaviors))), behaviors.items(), strict=True
    ):
        draw(axes, lines, None if is_rated(found) else bar)
        what = "rating (ELO)" if is_rated(found) else "reward of an episode"
        add_title(axes, behavior, (what, f"{len(lines)} seeds" if len(lines) > 1 else "1 seed"))
    save(figure, picture_of(name))
    note = PngInfo()
    note.add_text(SOURCE, source_of(name, bar))
    with Image.open(picture_of(name)) as picture:
        small = picture.convert("RGB").quantize(64, dither=Image.Dither.NONE)
    small.save(picture_of(name), optimize=True, pnginfo=note)


def draw(axes: Axes, lines: Lines, bar: float | None) -> None:
    """Draws the lines of a behavior, their mean, and the bar."""
    color = COLORS[0]
    for line in lines.values():
        alone = len(lines) == 1
        axes.plot(
            list(line), list(line.values()), color=color, linewidth=1.9 if alone else 0.9, alpha=1.0 if alone else 0.4
        )
    if len(lines) > 1:
        mean = mean_line(lines)
        axes.plot(list(mean), list(mean.values()), color=color, linewidth=2.0)
    last = max(max(line) for line in lines.values())
    dress(axes, 9.5)
    dress_x(axes, last, 9.5)
    if bar is not None and bar < FAR * max(max(line.values()) for line in lines.values()):
        axes.axhline(bar, color=SOFT, linewidth=1.1, linestyle=(0, (5, 3)))
        axes.annotate(f"bar {number(bar)}", (0, bar), (4, 3), textcoords="offset points", color=SOFT, fontsize=9)
