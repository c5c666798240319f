"""Changes of a recording, one for each possible difference between a game and the training of its model.

Their sentences are in `play_causes.yaml`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import combinations, permutations, product
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from palaestra.brains.observations import turn
from palaestra.core.specs import ActionSpec, ObsSpec
from palaestra.runtime.recorded_play.model_odds import Numbers
from palaestra.runtime.recorded_play.played_decisions import PlayedDecisions

Obs = list[Numbers]
Change = Callable[[Any], Any]
Restack = Callable[[Numbers, NDArray[np.int64]], Numbers]
Recorded = tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.bool_]]
"""Continuous actions (N, numbers), choices (N, branches), and which rows have one (N,)."""

STACKED = re.compile(r"StackingSensor_size(\d+)_")
MOST_FRAMES, MOST_ORDERED, MOST_COMPONENTS = 10, 4, 20
"""Most stacked frames; most things of which every order is tried, if more only pairs are exchanged; numbers and
branches that are tried alone."""


@dataclass(frozen=True, slots=True)
class Cause:
    """A difference between the recording and the model's training. Causes with the same `part` exclude one another."""

    key: str
    what: str
    advice: str
    part: str
    obs: Callable[[Obs, PlayedDecisions], Obs] | None = None  # as the model gets them, from the recorded ones
    memory: str | None = None
    mask: Change | None = None
    answer: Change | None = None  # continuous actions as the game applies them, from the model's
    recorded: Callable[[Recorded, PlayedDecisions], Recorded] | None = None  # as the model gave them


@cache
def _texts() -> dict[str, Any]:
    return yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))


def _cause(text: str, part: str, key: str = "", names: dict[str, Any] | None = None, **does: Any) -> Cause:
    what, advice = _texts()["causes"][text]
    return Cause(key or text, what.format(**names or {}), _texts()["advice"].get(advice, advice), part, **does)


def possible_causes(decisions: PlayedDecisions, joined: bool, memory: bool) -> list[Cause]:
    """Returns all causes to try. `joined`: the model takes all vectors as one; `memory`: it has a memory."""
    specs = decisions.spec.obs
    found = [*_of_images(specs), *_of_vectors(specs), *_of_stacks(specs), *_of_orders(specs, joined)]
    if memory:
        found += [_cause("memory_not_carried", "memory", memory="none")]
        found += [_cause("memory_not_reset", "memory", memory="kept")]
    if decisions.mask is not None and not decisions.mask.all():
        found += [_cause("mask_ignored", "mask", mask=np.ones_like)]
        found += [_cause("mask_inverted", "mask", mask=np.logical_not)]
    return [*found, *_of_actions(decisions)]


def _on(places: Sequence[int], change: Change, obs: Obs, _: PlayedDecisions) -> Obs:
    return [change(one) if i in places else one for i, one in enumerate(obs)]


def _of_images(specs: Sequence[ObsSpec]) -> Iterator[Cause]:
    images = [i for i, spec in enumerate(specs) if spec.is_visual]
    deep = [i for i in images if specs[i].shape[0] > 1]
    square = [i for i in images if specs[i].shape[1] == specs[i].shape[2]]
    colored = [i for i in images if specs[i].shape[0] % (3 * _named_frames(specs[i])) == 0]
    changes: tuple[tuple[str, str, list[int], Change], ...] = (
        ("rows", "rows", images, lambda x: x[:, :, ::-1]),
        ("columns", "columns", images, lambda x: x[:, :, :, ::-1]),
        ("channels", "channels", colored, _reversed_colors),
        ("channels_last", "layout", deep, lambda x: x.transpose(0, 2, 3, 1).reshape(x.shape)),
        ("channels_first", "layout", deep, _from_channels_last),
        ("transposed", "layout", square, lambda x: x.swapaxes(2, 3)),
        ("blank", "scale", images, np.zeros_like),
        *((key, "scale", images, change) for key, _, change in _SCALES[:4]),
    )
    scales = {key: how for key, how, _ in _SCALES}
    for key, part, every, change in changes:
        for places in [every, *([i] for i in every if len(every) > 1)] if every else ():
            group = "image" if places is every else f"image {places[0]}"
            text, names = "scaled" if key in scales else f"image_{key}", {"who": "images are", "how": scales.get(key)}
            found = _cause(text, f"{group} {part}", f"image_{key}", names, obs=partial(_on, places, change))
            alone = f", '{specs[places[0]].name}' alone" if len(places) == 1 < len(images) else ""
            yield replace(found, what=found.what + alone)


def _reversed_colors(x: Numbers) -> Numbers:
    return x.reshape(len(x), -1, 3, *x.shape[2:])[:, :, ::-1].reshape(x.shape)


def _from_channels_last(x: Numbers) -> Numbers:
    rows, channels, height, width = x.shape
    return x.reshape(rows, height, width, channels).transpose(0, 3, 1, 2)


_SCALES: tuple[tuple[str, str, Change], ...] = (
    ("times_255", "0..255 for 0..1", lambda x: x * 255),
    ("by_255", "0..1 for 0..255", lambda x: x / 255),
    ("centered", "-1..1 for 0..1", lambda x: 2 * x - 1),
    ("uncentered", "0..1 for -1..1", lambda x: (x + 1) / 2),
    ("degrees", "degrees for radians", np.degrees),
    ("radians", "radians for degrees", np.radians),
    ("times_10", "ten times as large", lambda x: x * 10),
    ("by_10", "a tenth as large", lambda x: x / 10),
)


def _of_vectors(specs: Sequence[ObsSpec]) -> Iterator[Cause]:
    for i, spec in enumerate(specs):
        part, names = f"vector {i} scale", {"who": spec.name}
        if not spec.is_visual and len(specs) > 1:
            yield _cause("sensor_missing", part, names=names, obs=partial(_on, [i], np.zeros_like))
        if spec.is_entities:
            yield _cause("entities_mixed", part, names=names, obs=partial(_on, [i], turn))
    vectors = [i for i, spec in enumerate(specs) if spec.is_vector]
    groups = [(vectors, "vectors are", "vector scale")] if vectors else []
    lone = [i for i, spec in enumerate(specs) if spec.is_entities or (spec.is_vector and len(vectors) > 1)]
    groups += [([i], f"'{specs[i].name}' is", f"vector {i} scale") for i in lone]
    for places, who, part in groups:
        for key, how, change in _SCALES:
            does: dict[str, Any] = {"obs": partial(_on, places, partial(_beside_padding, change))}
            yield _cause("scaled", part, f"vector_{key}", {"who": who, "how": how}, **does)
        yield _cause(
            "normalized",
            part,
            "vector_normalized",
            {"who": who},
            obs=partial(_on, places, partial(_beside_padding, _standard)),
        )


def _beside_padding(change: Change, x: Numbers) -> Numbers:
    return change(x) if x.ndim == 2 else np.where(x.any(-1, keepdims=True), change(x), 0)


def _standard(x: Numbers) -> Numbers:
    deviation = x.std(0)
    return ((x - x.mean(0)) / np.where(deviation > 1e-6, deviation, 1)).clip(-5, 5)  # as normalizers clip


def _of_stacks(specs: Sequence[ObsSpec]) -> Iterator[Cause]:
    """Yields ways to stack wrongly: of each observation, and of all with as many frames."""
    frames: dict[int, list[int]] = {}
    for i, spec in enumerate(specs):
        for k in _frame_counts(spec):
            frames.setdefault(k, []).append(i)
    for k, places in sorted(frames.items()):
        for group, (key, change) in product([places, *([i] for i in places if len(places) > 1)], _STACKS.items()):
            names = {"who": "' and '".join(specs[i].name for i in group), "k": k}
            does: dict[str, Any] = {"obs": partial(_restacked, group, k, change)}
            yield _cause(f"stack_{key}", f"stack {group[0]}", names=names, **does)


def _named_frames(spec: ObsSpec) -> int:
    return max(1, int(found[1])) if (found := STACKED.search(spec.name)) else 1


def _frame_counts(spec: ObsSpec) -> list[int]:
    size = spec.shape[0]
    if (named := _named_frames(spec)) > 1 and size % named == 0:
        return [named]
    counts = [k for k in range(2, min(MOST_FRAMES, size) + 1) if size % k == 0 and not spec.is_entities]
    return [k for k in counts if not spec.is_visual or size // k in (1, 3)]


def _restacked(places: Sequence[int], k: int, change: Restack, obs: Obs, d: PlayedDecisions) -> Obs:
    frames = {i: obs[i].reshape(len(obs[i]), k, -1) for i in places}
    return [change(frames[i], d.age).reshape(one.shape) if i in frames else one for i, one in enumerate(obs)]


def _newest_alone(x: Numbers, _: NDArray[np.int64]) -> Numbers:
    return np.where(np.arange(x.shape[1])[:, None] == x.shape[1] - 1, x, 0)


def _filled(x: Numbers, age: NDArray[np.int64]) -> Numbers:
    """Repeats an episode's first frame in place of earlier frames."""
    k = x.shape[1]
    back = np.minimum(k - 1 - np.arange(k), age[:, None])  # decisions ago that each frame is of
    return np.take_along_axis(x, (k - 1 - back)[:, :, None], 1)


def _kept(x: Numbers, age: NDArray[np.int64]) -> Numbers:
    """Leaves the last frames of the episode before in place of zeros."""
    back = x.shape[1] - 1 - np.arange(x.shape[1])
    row = np.arange(len(x))[:, None] - back
    older = (back > age[:, None]) & (row >= 0)
    return np.where(older[:, :, None], x[np.maximum(row, 0), -1], x)


_STACKS: dict[str, Restack] = {
    "reversed": lambda x, _: x[:, ::-1],
    "newest": _newest_alone,
    "repeated": lambda x, _: np.repeat(x[:, -1:], x.shape[1], 1),
    "filled": _filled,
    "kept": _kept,
}


def _of_orders(specs: Sequence[ObsSpec], joined: bool) -> Iterator[Cause]:
    """Yields orders of observations that a model cannot tell apart by their shapes."""
    groups: dict[object, list[int]] = {}
    for i, spec in enumerate(specs):
        groups.setdefault("vector" if joined and spec.is_vector else spec.shape, []).append(i)
    for places, order in _orders(groups.values(), len(specs)):
        names = {"who": ", ".join(f"'{specs[order[i]].name}'" for i in places)}
        does: dict[str, Any] = {"obs": partial(lambda order, obs, _: [obs[i] for i in order], order)}
        yield _cause("sensor_order", "order", names=names, **does)


def _orders(groups: Iterable[Sequence[int]], size: int) -> Iterator[tuple[Sequence[int], list[int]]]:
    """Yields orders of `size` things in which those of one group exchange places, with the group."""
    for places in groups:
        orders = [{a: b, b: a} for a, b in combinations(places, 2)]
        if len(places) <= MOST_ORDERED:
            orders = [dict(zip(places, order, strict=True)) for order in permutations(places)][1:]
        yield from ((places, [moved.get(i, i) for i in range(size)]) for moved in orders)


_ANSWERS: dict[str, Change] = {
    "times_3": lambda a: a * 3,
    "times_3_clipped": lambda a: (a * 3).clip(-1, 1),
    "by_3": lambda a: a / 3,
    "clipped": lambda a: a.clip(-1, 1),
    "unsquashed": lambda a: np.arctanh(a.clip(-1 + 1e-7, 1 - 1e-7)),
}


def _of_actions(decisions: PlayedDecisions) -> Iterator[Cause]:
    for key, answer in _ANSWERS.items() if decisions.spec.action.continuous else ():
        yield _cause(f"action_{key}", "action scale", answer=answer)
    for text, part, names, column, change in _of_components(decisions.spec.action):
        yield _cause(text, part, names=names, recorded=partial(_in_column, column, change))
    yield _cause("action_late", "time", recorded=partial(_moved, 1))
    yield _cause("action_early", "time", recorded=partial(_moved, -1))


def _of_components(action: ActionSpec) -> Iterator[tuple[str, str, dict[str, Any], int, Change]]:
    """Yields changes of recorded numbers (column 0) and choices (column 1): their signs, orders and counts."""
    numbers, branches = range(action.continuous)[:MOST_COMPONENTS], range(len(action.branches))[:MOST_COMPONENTS]
    alike = [[i for i in branches if action.branches[i] == size] for size in sorted(set(action.branches))]
    for i in numbers:
        yield "action_sign", f"sign {i}", {"i": i}, 0, lambda a, i=i: np.where(np.arange(a.shape[1]) == i, -a, a)
    for column, groups, size in ((0, [numbers], action.continuous), (1, alike, len(action.branches))):
        text = ("action_order", "branch_order")[column]
        for places, order in _orders(groups, size):
            names = {"who": [i for i in places if order[i] != i], "order": [order[i] for i in places if order[i] != i]}
            yield text, f"{text} {order}", names, column, lambda a, order=order: a[:, order]
    for i, (by, how) in product(branches, ((1, "high"), (-1, "low"))):
        if by > 0 or action.branches[i] > 2:  # of two choices both are the same
            names = {"i": i, "how": how}
            yield "choice_shift", f"choice {i}", names, 1, partial(_shifted, i, by, action.branches[i])


def _shifted(branch: int, by: int, size: int, choices: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.where(np.arange(choices.shape[1]) == branch, (choices - by) % size, choices)


def _in_column(column: int, change: Change, recorded: Recorded, _: PlayedDecisions) -> Recorded:
    continuous, discrete, valid = recorded
    return (continuous, change(discrete), valid) if column else (change(continuous), discrete, valid)


def _moved(by: int, recorded: Recorded, decisions: PlayedDecisions) -> Recorded:
    """Takes the actions of the decision after (1) or before (-1) of the same episode."""
    continuous, discrete, valid = recorded
    there = valid & np.roll(valid, -by) & (np.roll(decisions.age, -by) == decisions.age + by)
    return np.roll(continuous, -by, 0), np.roll(discrete, -by, 0), there
