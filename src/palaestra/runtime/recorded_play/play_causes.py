"""Lists what may differ between a game and the training of its model, each as a change of what was recorded."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, permutations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palaestra.brains.observations import turn
from palaestra.core.specs import ObsSpec
from palaestra.runtime.recorded_play.model_odds import Numbers
from palaestra.runtime.recorded_play.played_decisions import PlayedDecisions

Obs = list[Numbers]
Change = Callable[[Numbers], NDArray[Any]]
Recorded = tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.bool_]]
"""Continuous actions (N, numbers), choices (N, branches), and which rows have one (N,)."""

STACKED = re.compile(r"StackingSensor_size(\d+)_")
"""Unity's name of a sensor that stacks frames."""
MOST_FRAMES = 10
MOST_ORDERED = 4
"""Most observations whose every order is tried; of more, pairs are exchanged."""
MOST_COMPONENTS = 8
"""Most numbers of an action that are tried one by one."""
STANDARD_RANGE = 5.0

SENSORS = "compare the sensors of the agent (order of names, shapes) with those of the training"
IMAGES = "make the image of inference like the one of training: the same sensor, render texture and package version"
STACKS = "stack in the same way as in training: oldest frame first, zeros before an episode's first frame"
SCALES = "scale the observation in CollectObservations (or its sensor) as it was in training"
ACTIONS = "apply the model's actions as they are in OnActionReceived; undo what the agent or an actuator adds"


@dataclass(frozen=True, slots=True)
class Cause:
    """A difference between what was recorded and what the model knows."""

    key: str
    what: str
    """A sentence: what the game does."""
    advice: str
    part: str
    """Causes of one part exclude one another."""
    obs: Callable[[Obs, PlayedDecisions], Obs] | None = None
    """Observations as the model gets them, from the recorded ones."""
    memory: str | None = None
    mask: Callable[[NDArray[np.bool_]], NDArray[np.bool_]] | None = None
    answer: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None
    """Continuous actions as the game applies them, from the model's."""
    recorded: Callable[[Recorded, PlayedDecisions], Recorded] | None = None
    """Actions as the model gave them, from the recorded ones."""


def possible_causes(decisions: PlayedDecisions, joined: bool, memory: bool) -> list[Cause]:
    """Returns all causes to try. `joined`: the model takes all vectors as one; `memory`: it has a memory."""
    specs = decisions.spec.obs
    found = [*_of_images(specs), *_of_vectors(specs), *_of_stacks(specs), *_of_orders(specs, joined)]
    if memory:
        found += [
            Cause(
                "memory_not_carried",
                "the model's memory is not carried from decision to decision",
                "give recurrent_out back as recurrent_in; in Unity do not recreate the model between decisions",
                "memory",
                memory="none",
            ),
            Cause(
                "memory_not_reset",
                "the model's memory is not reset when an episode begins",
                "end episodes with EndEpisode, so that the memory begins with zeros",
                "memory",
                memory="kept",
            ),
        ]
    return [*found, *_of_masks(decisions), *_of_actions(decisions)]


def _on(places: Sequence[int], change: Change, obs: Obs, _: PlayedDecisions) -> Obs:
    return [change(one) if i in places else one for i, one in enumerate(obs)]


def _of_images(specs: Sequence[ObsSpec]) -> Iterator[Cause]:
    images = [i for i, spec in enumerate(specs) if spec.is_visual]
    if not images:
        return
    shapes = {specs[i].shape for i in images}

    def cause(key: str, what: str, part: str, change: Change, advice: str = IMAGES) -> Cause:
        return Cause(f"image_{key}", what, advice, f"image {part}", obs=partial(_on, images, change))

    flip = "the game's inference writes images bottom-up where training had them top-down, or the other way round: "
    yield cause(
        "rows",
        "images are upside down: their rows are flipped",
        "rows",
        lambda x: x[:, :, ::-1],
        f"{flip}use the sensor and package version of the training, or flip the render texture",
    )
    yield cause("columns", "images are mirrored: their columns are flipped", "columns", lambda x: x[:, :, :, ::-1])
    if all(shape[0] % 3 == 0 for shape in shapes):
        yield cause(
            "channels", "colors are in another order: BGR for RGB, or RGB for BGR", "channels", _reversed_colors
        )
    if any(shape[0] > 1 for shape in shapes):
        what = "the numbers of images are read with their channels last"
        yield cause("channels_last", what, "layout", lambda x: x.transpose(0, 2, 3, 1).reshape(x.shape))
        what = "the numbers of images are read with their channels first although they are last"
        yield cause("channels_first", what, "layout", _from_channels_last)
    if all(shape[1] == shape[2] for shape in shapes):
        yield cause("transposed", "rows and columns of images are exchanged", "layout", lambda x: x.swapaxes(2, 3))
    for key, what, change in _SCALES[:4]:
        yield cause(key, f"images are scaled: {what}", "scale", change, SCALES)
    yield cause("blank", "the model sees black images", "scale", np.zeros_like)


def _reversed_colors(x: Numbers) -> Numbers:
    rows, channels, height, width = x.shape
    return x.reshape(rows, channels // 3, 3, height, width)[:, :, ::-1].reshape(x.shape)


def _from_channels_last(x: Numbers) -> Numbers:
    rows, channels, height, width = x.shape
    return x.reshape(rows, height, width, channels).transpose(0, 3, 1, 2)


_SCALES: tuple[tuple[str, str, Change], ...] = (
    ("times_255", "0..255 for 0..1", lambda x: x * 255),
    ("by_255", "0..1 for 0..255", lambda x: x / 255),
    ("centered", "-1..1 for 0..1", lambda x: 2 * x - 1),
    ("uncentered", "0..1 for -1..1", lambda x: (x + 1) / 2),
    ("degrees", "degrees for radians", lambda x: np.degrees(x)),
    ("radians", "radians for degrees", lambda x: np.radians(x)),
    ("times_10", "ten times as large", lambda x: x * 10),
    ("by_10", "a tenth as large", lambda x: x / 10),
)


def _of_vectors(specs: Sequence[ObsSpec]) -> Iterator[Cause]:
    vectors = [i for i, spec in enumerate(specs) if spec.is_vector]
    groups = [(vectors, "vectors are", "vector")] if vectors else []
    if len(vectors) > 1:
        groups += [([i], f"'{specs[i].name}' is", f"vector {i}") for i in vectors]
    for places, who, part in groups:
        for key, what, change in _SCALES:
            yield Cause(
                f"vector_{key}", f"{who} scaled: {what}", SCALES, f"{part} scale", obs=partial(_on, places, change)
            )
        normalized = f"{who} normalized once more: less their mean, divided by their deviation"
        advice = "the exported model normalizes by itself: give it the numbers of the training"
        yield Cause("vector_normalized", normalized, advice, f"{part} scale", obs=partial(_on, places, _standard))
    for i, spec in enumerate(specs):
        if not spec.is_visual and len(specs) > 1:
            blank = partial(_on, [i], np.zeros_like)
            yield Cause(
                "sensor_missing", f"the model sees zeros for '{spec.name}'", SENSORS, f"vector {i} scale", obs=blank
            )
        if spec.is_entities:
            what = f"the numbers of '{spec.name}' are mixed up: rows and columns are exchanged in memory"
            advice = "use Barracuda or Sentis of the package that the model was exported for, or export it again"
            yield Cause("entities_mixed", what, advice, f"vector {i} scale", obs=partial(_on, [i], turn))


def _standard(x: Numbers) -> Numbers:
    deviation = x.std(0)
    return ((x - x.mean(0)) / np.where(deviation > 1e-6, deviation, 1)).clip(-STANDARD_RANGE, STANDARD_RANGE)


def _of_stacks(specs: Sequence[ObsSpec]) -> Iterator[Cause]:
    """Yields ways to stack wrongly: of each observation, and of all with as many frames."""
    frames: dict[int, list[int]] = {}
    for i, spec in enumerate(specs):
        for k in _frame_counts(spec):
            frames.setdefault(k, []).append(i)
    for k, places in sorted(frames.items()):
        for group in [places, *([[i] for i in places] if len(places) > 1 else [])]:
            who = "' and '".join(specs[i].name for i in group)
            for key, what, change in _STACKS:
                yield Cause(
                    f"stack_{key}",
                    f"the {k} frames of '{who}' {what}",
                    STACKS,
                    f"stack {group[0]}",
                    obs=partial(_restacked, group, k, change),
                )


def _frame_counts(spec: ObsSpec) -> list[int]:
    if (named := STACKED.search(spec.name)) and spec.shape[0] % int(named[1]) == 0:
        return [int(named[1])] if int(named[1]) > 1 else []
    if spec.is_entities:
        return []
    counts = [k for k in range(2, min(MOST_FRAMES, spec.shape[0]) + 1) if spec.shape[0] % k == 0]
    return [k for k in counts if not spec.is_visual or spec.shape[0] // k in (1, 3)] if spec.is_visual else counts


def _restacked(
    places: Sequence[int], k: int, change: Callable[[Numbers, NDArray[np.int64]], Numbers], obs: Obs, d: PlayedDecisions
) -> Obs:
    return [
        change(one.reshape(len(one), k, -1), d.age).reshape(one.shape) if i in places else one
        for i, one in enumerate(obs)
    ]


def _newest_alone(x: Numbers, _: NDArray[np.int64]) -> Numbers:
    changed = np.zeros_like(x)
    changed[:, -1] = x[:, -1]
    return changed


def _filled(x: Numbers, age: NDArray[np.int64]) -> Numbers:
    """Repeats an episode's first frame in place of those before it."""
    k = x.shape[1]
    back = np.minimum(k - 1 - np.arange(k), age[:, None])  # decisions ago that each frame is of
    return np.take_along_axis(x, (k - 1 - back)[:, :, None], 1)


def _kept(x: Numbers, age: NDArray[np.int64]) -> Numbers:
    """Leaves the last frames of the episode before in place of zeros."""
    k = x.shape[1]
    back = k - 1 - np.arange(k)
    row = np.maximum(np.arange(len(x))[:, None] - back, 0)
    older = x[row, -1]
    return np.where((back > age[:, None])[:, :, None] & (np.arange(len(x))[:, None] >= back)[:, :, None], older, x)


_STACKS: tuple[tuple[str, str, Callable[[Numbers, NDArray[np.int64]], Numbers]], ...] = (
    ("reversed", "are stacked newest first", lambda x, _: x[:, ::-1]),
    ("newest", "are not stacked: all but the newest are zeros", _newest_alone),
    ("repeated", "are not stacked: all are the newest", lambda x, _: np.repeat(x[:, -1:], x.shape[1], 1)),
    ("filled", "begin with copies of an episode's first frame, not with zeros", _filled),
    ("kept", "are not cleared when an episode begins", _kept),
)


def _of_orders(specs: Sequence[ObsSpec], joined: bool) -> Iterator[Cause]:
    """Yields orders of observations that a model cannot tell apart by their shapes."""
    groups: dict[object, list[int]] = {}
    for i, spec in enumerate(specs):
        groups.setdefault("vector" if joined and spec.is_vector else spec.shape, []).append(i)
    for places in groups.values():
        pairs = [{a: b, b: a} for a, b in combinations(places, 2)]
        orders = [dict(zip(places, order, strict=True)) for order in permutations(places)][1:]
        for moved in orders if len(places) <= MOST_ORDERED else pairs:
            order = [moved.get(i, i) for i in range(len(specs))]
            names = ", ".join(f"'{specs[moved.get(i, i)].name}'" for i in places)
            yield Cause(
                "sensor_order",
                f"sensors come in another order: {names}",
                f"{SENSORS}; Unity sorts sensors by name",
                "order",
                obs=partial(lambda order, obs, _: [obs[i] for i in order], order),
            )


def _of_masks(decisions: PlayedDecisions) -> Iterator[Cause]:
    if decisions.mask is None or decisions.mask.all():
        return
    advice = "set the mask in WriteDiscreteActionMask, and give it to the model as action_masks: 1 is allowed"
    yield Cause("mask_ignored", "the model does not get the action mask", advice, "mask", mask=np.ones_like)
    yield Cause("mask_inverted", "the action mask is inverted: 1 forbids", advice, "mask", mask=np.logical_not)


def _of_actions(decisions: PlayedDecisions) -> Iterator[Cause]:
    action = decisions.spec.action
    size = action.continuous

    def scaled(key: str, what: str, answer: Callable[[NDArray[np.float64]], NDArray[np.float64]], advice: str) -> Cause:
        return Cause(f"action_{key}", what, advice, "action scale", answer=answer)

    if size:
        three = "models of version 3 clip to -3..3 and divide by 3 themselves; those of version 2 do not: "
        yield scaled("times_3", "actions are not divided by 3", lambda a: a * 3, f"{three}do it once")
        yield scaled(
            "times_3_clipped", "actions are clipped to -1..1 and not divided by 3", _three_clipped, f"{three}do it once"
        )
        yield scaled("by_3", "actions are divided by 3 twice", lambda a: a / 3, f"{three}do it once")
        yield scaled("clipped", "actions are clipped to -1..1", lambda a: a.clip(-1, 1), ACTIONS)
        raw = "ML-Agents' SAC models give deterministic actions without tanh: untick Deterministic Inference, or export"
        yield scaled("unsquashed", "actions lack the tanh", _unsquashed, f"{raw} the run again with `palaestra export`")
    for i in range(min(size, MOST_COMPONENTS)):
        sign = np.where(np.arange(size) == i, -1, 1)
        what = f"continuous action {i} has the other sign"
        yield Cause("action_sign", what, ACTIONS, f"sign {i}", recorded=partial(_times, sign))
    for a, b in combinations(range(min(size, MOST_COMPONENTS)), 2):
        what = f"continuous actions {a} and {b} are exchanged"
        yield Cause("action_order", what, ACTIONS, "action order", recorded=partial(_exchanged, 0, a, b))
    for a, b in combinations(range(len(action.branches)), 2):
        if action.branches[a] == action.branches[b]:
            what = f"branches {a} and {b} are exchanged"
            yield Cause("branch_order", what, ACTIONS, "action order", recorded=partial(_exchanged, 1, a, b))
    for i, by in product(range(min(len(action.branches), MOST_COMPONENTS)), (1, -1)):
        what = f"choices of branch {i} are one too {'high' if by > 0 else 'low'}"
        yield Cause("choice_shift", what, ACTIONS, f"shift {i}", recorded=partial(_shifted, i, by, action.branches[i]))
    for key, what, by in (("late", "late: each is the answer to the observation before", 1), ("early", "early", -1)):
        advice = (
            "request decisions after observations are written, once an Academy step, and apply actions in that step"
        )
        yield Cause(f"action_{key}", f"actions come one decision {what}", advice, "time", recorded=partial(_moved, by))


def _unsquashed(a: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.arctanh(a.clip(-1 + 1e-7, 1 - 1e-7))


def _three_clipped(a: NDArray[np.float64]) -> NDArray[np.float64]:
    return (a * 3).clip(-1, 1)


def _times(sign: NDArray[np.int64], recorded: Recorded, _: PlayedDecisions) -> Recorded:
    return (recorded[0] * sign).astype(np.float32), *recorded[1:]


def _exchanged(column: int, a: int, b: int, recorded: Recorded, _: PlayedDecisions) -> Recorded:
    order = np.arange(recorded[column].shape[1])
    order[[a, b]] = b, a
    continuous, discrete, valid = recorded
    return (continuous[:, order], discrete, valid) if column == 0 else (continuous, discrete[:, order], valid)


def _shifted(branch: int, by: int, size: int, recorded: Recorded, _: PlayedDecisions) -> Recorded:
    continuous, discrete, valid = recorded
    moved = discrete.copy()
    moved[:, branch] = (moved[:, branch] - by) % size
    return continuous, moved, valid


def _moved(by: int, recorded: Recorded, decisions: PlayedDecisions) -> Recorded:
    """Takes the actions of the decision after (1) or before (-1) of the same episode."""
    continuous, discrete, valid = recorded
    there = decisions.age + by
    same = (np.roll(decisions.age, -by) == there) & np.roll(valid, -by)
    return np.roll(continuous, -by, 0), np.roll(discrete, -by, 0), valid & same
