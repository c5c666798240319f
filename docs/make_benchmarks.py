"""Writes `docs/benchmarks.md` from the figures in `docs/benchmarks.yaml`: `python docs/make_benchmarks.py`."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

PAGE = Path(__file__).parent / "benchmarks.md"
DATA = PAGE.with_suffix(".yaml")
WIDTH = 140
FEW = 3
"""Rows that are told in a sentence."""

HEAD = """\
# Benchmarks

This page says what was measured, on which machine, with which command, and what was tuned. Compare the rows of one
table and trust ratios: a figure of one machine says little about another machine.

## In short

"""
READING = """
CleanRL was not measured.

Each section says where and when its figures were measured, how large the networks are, how often each sample is used
(PPO: passes over a rollout; SAC: size and number of gradient steps), and what was tuned for it on both sides. A dash is
a cell without a measurement.

"""
END = """\
These commands measure your own machine: `make bench` (collecting and learning), `make bench-gpu` (a GPU, ten minutes)
and `make bench-peers` (all comparisons, about an hour). [benchmarks/peers](../benchmarks/peers/README.md) has the
terms of the comparisons and more figures.

*Made from `docs/benchmarks.yaml` by `python docs/make_benchmarks.py`.*

Next: [use more than one core](guides/machines/scale.md), [train on a GPU](guides/machines/gpu.md)
"""


def data() -> dict[str, Any]:
    """Returns machines, ratios and benchmarks."""
    return yaml.safe_load(DATA.read_text(encoding="utf-8"))


def page() -> str:
    """Returns the text of the page."""
    found = data()
    titles = {one["name"]: one["title"] for one in found["benchmarks"]}
    rows = [
        [*ratio(one), f"[{titles[one['benchmark']]}](#{anchor(titles[one['benchmark']])})"] for one in found["ratios"]
    ]
    short = table(["what", "Palaestra", "compared with", "ratio", "from"], rows)
    sections = [section(one, found["machines"]) for one in found["benchmarks"]]
    return HEAD + "\n".join(short) + "\n" + READING + "\n".join(sections) + "\n" + END


def ratio(one: Mapping[str, Any]) -> list[str]:
    """Returns what a ratio is of, both figures, and the ratio."""
    times = one["other"] / one["ours"] if one["less"] else one["ours"] / one["other"]
    text = f"{times:.2g} times {'as fast' if one['less'] else 'as many'}"
    return [one["what"], f"{one['ours']:,} {one['unit']}", f"{one['who']}: {one['other']:,} {one['unit']}", text]


def section(one: Mapping[str, Any], machines: Mapping[str, str]) -> str:
    """Returns the section of one benchmark."""
    lines = [f"## {one['title']}", "", *wrapped(one["about"]), "", *table(one["columns"], one["rows"]), ""]
    for note in one.get("notes", ()):
        lines += item(note)
    lines += item(f"**Measured**: {one['measured']}, {machines[one['machine']]}; {one['load']}. {one['versions']}.")
    tuned = (what if who in ("all", "both") else f"{who}: {what}" for who, what in one["tuned"].items())
    lines += item(f"**Tuned**: {'. '.join(tuned)}.")
    lines += [*sizes(one["sizes"]), "", "```bash", *one["commands"], "```", ""]
    if "does" in one:
        lines += [*wrapped(one["does"]), ""]
    return "\n".join(lines)


def sizes(rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns the networks and the uses of each sample: a table of many, a sentence of few."""
    if len(rows) > FEW:
        columns = ["work", "library", "network", "samples of a rollout", "uses of each sample"]
        return ["", *table(columns, rows)]
    told: list[str] = []
    for work, library, network, samples, uses in rows:
        used = uses if samples == "replay" else f"rollouts of {samples} samples, each used {uses} times"
        told.append(f"{work or rows[0][0]} ({library}): {network}, {used}")
    return item(f"**Networks**: {'; '.join(told)}.")


def item(text: str) -> list[str]:
    """Returns an item of a list in lines."""
    first, *others = wrapped(text)
    return [f"- {first}", *(f"    {line}" for line in others)]


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns the lines of a table."""
    return [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|", *(f"| {' | '.join(row)} |" for row in rows)]


def wrapped(text: str) -> list[str]:
    """Returns a paragraph in lines."""
    return textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def anchor(title: str) -> str:
    """Returns the anchor of a heading."""
    return "".join(letter for letter in title.lower() if letter.isalnum() or letter in "- _").replace(" ", "-")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
