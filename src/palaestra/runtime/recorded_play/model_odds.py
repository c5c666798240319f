"""The probability of each action under a model, read from the graph of its file.

The noise of continuous actions becomes an input, so that the graph gives the number for each amount of noise; the
log-probabilities of choices become outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palaestra.brains.base import best_choices
from palaestra.brains.model import Policy, feeds_of, layout_of, model_content
from palaestra.brains.session import Session
from palaestra.core.errors import PolicyError
from palaestra.runtime.recorded_play.played_decisions import Rows

NOISE = (-5.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 5.0)
"""Amounts of noise, in standard deviations, for which continuous actions are computed."""
NOISE_INPUT, PART = "palaestra_noise", 512
SAME = 2e-3
"""Largest difference between numbers of two equal actions: engines round differently."""
GUESSED_DEVIATION, GREEDY = 0.1, 0.95
"""Values in place of the deviation of a model that draws no noise, and of the unknown probability of a choice."""

Numbers = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Odds:
    """A model's answer to N observations."""

    numbers: NDArray[np.float64]  # (noise, N, numbers) continuous actions at each of NOISE
    log_chances: NDArray[np.float64]  # (N, choices) of all branches side by side; -inf: forbidden
    branches: tuple[int, ...]
    noisy: bool
    """Whether the deviation of its numbers is known, from the noise that its file draws."""

    @property
    def likeliest(self) -> NDArray[np.float64]:
        """Continuous actions without noise, (N, numbers)."""
        return self.numbers[len(NOISE) // 2]

    @property
    def choices(self) -> NDArray[np.int64]:
        """Likeliest choices, (N, branches)."""
        return best_choices(self.log_chances, self.branches)


class AskedModel:
    """A model that can return the probabilities of actions. Raises PolicyError as `load_policy` does."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.branches = policy.branches
        layout = self._layout = layout_of(policy)
        graph, self._logits = _with_odds(model_content(policy.path), layout.continuous, layout.discrete)
        self._session = Session(graph, str(policy.path), 0)
        self._noisy = NOISE_INPUT in self._session.inputs
        self._names = [
            *([layout.continuous] if layout.continuous else []),
            *(self._logits or ([layout.discrete] if layout.discrete else [])),
            *(["recurrent_out"] if layout.memory_size else []),
        ]

    def odds(
        self, obs: Sequence[Numbers], mask: NDArray[np.bool_] | None, age: Rows | None, memory: str = "carried"
    ) -> Odds:
        """Returns the model's answer to N observations, in the order of the model's inputs.

        `age`: number of earlier decisions in the same episode, for consecutive decisions; a model with memory needs it.
        `memory` is 'carried' (through an episode), 'none' (reset at every decision), or 'kept' (also from one episode
        to the next).
        """
        count = len(obs[0])
        if not self.policy.memory_size or memory == "none" or age is None:
            parts = [np.arange(at, min(at + PART, count)) for at in range(0, count, PART)]
            return _joined([self._ask(obs, mask, rows, None)[0] for rows in parts], np.concatenate(parts))
        begins = np.flatnonzero(age == 0) if memory == "carried" else np.zeros(1, np.int64)
        begins = np.union1d(begins, [0])
        lengths = np.diff(begins, append=count)
        state = np.zeros((len(begins), self.policy.memory_size), np.float32)
        answers: list[Odds] = []
        asked: list[Rows] = []
        for t in range(int(lengths.max())):
            alive = np.flatnonzero(lengths > t)
            rows = begins[alive] + t
            answer, after = self._ask(obs, mask, rows, state[alive])
            state[alive] = after
            answers.append(answer)
            asked.append(rows)
        return _joined(answers, np.concatenate(asked))

    def _ask(
        self, obs: Sequence[Numbers], mask: NDArray[np.bool_] | None, rows: Rows, memory: Numbers | None
    ) -> tuple[Odds, Numbers | None]:
        allowed = None if mask is None else mask[rows]
        feeds = feeds_of(self.policy, [one[rows] for one in obs], allowed, memory)
        each = [{key: feed[i : i + 1] for key, feed in feeds.items()} for i in range(len(rows))]
        parts = each if self._layout.row_by_row else [feeds]
        numbers: list[NDArray[np.float64]] = []
        answer: dict[str, np.ndarray] = {}
        for noise in NOISE if self._noisy else (0.0,):
            more = {NOISE_INPUT: np.array([noise], np.float32)} if self._noisy else {}
            answers = [self._session.run(self._names, part | more) for part in parts]
            answer = {name: np.concatenate([one[name] for one in answers]) for name in self._names}
            if self._layout.continuous:
                numbers.append(answer[self._layout.continuous].astype(np.float64))
        if len(numbers) == 1:
            numbers = [numbers[0] + GUESSED_DEVIATION * noise for noise in NOISE]
        column = np.stack(numbers) if numbers else np.zeros((len(NOISE), len(rows), 0))
        chances = self._log_chances(answer, allowed, len(rows))
        after = answer["recurrent_out"].reshape(len(rows), -1) if self.policy.memory_size else None
        return Odds(column, chances, self.branches, self._noisy), after

    def _log_chances(
        self, answer: dict[str, np.ndarray], mask: NDArray[np.bool_] | None, rows: int
    ) -> NDArray[np.float64]:
        if not self.branches:
            return np.zeros((rows, 0))
        layout = self._layout
        assert layout.discrete is not None
        if self._logits:
            logits = np.concatenate([answer[name] for name in self._logits], 1).astype(np.float64)
        elif layout.log_probs:
            logits = answer[layout.discrete].astype(np.float64)
        else:
            hot = [
                np.where(np.arange(size) == answer[layout.discrete][:, [i]], GREEDY, (1 - GREEDY) / size)
                for i, size in enumerate(self.branches)
            ]
            logits = np.log(np.concatenate(hot, 1))
        if mask is not None:
            logits = np.where(mask, logits, -np.inf)
        ends = np.cumsum(self.branches)[:-1]
        parts = [np.where(np.isfinite(part).any(1, keepdims=True), part, 0) for part in np.split(logits, ends, 1)]
        parts = [part - part.max(1, keepdims=True) for part in parts]  # a branch without a choice is taken as free
        return np.concatenate([part - np.log(np.exp(part).sum(1, keepdims=True)) for part in parts], 1)


def _joined(parts: list[Odds], rows: Rows) -> Odds:
    """Joins answers, (N, ...) each, and puts them into the order of the rows."""
    order = np.argsort(rows)
    return Odds(
        np.concatenate([part.numbers for part in parts], 1)[:, order],
        np.concatenate([part.log_chances for part in parts])[order],
        parts[0].branches,
        parts[0].noisy,
    )


def _with_odds(model: str | bytes, continuous: str | None, discrete: str | None) -> tuple[bytes, list[str]]:
    """Returns the graph with its noise as an input, and the names of tensors of each branch's log-chances, if any."""
    import onnx

    loaded = onnx.load_from_string(model) if isinstance(model, bytes) else onnx.load(model)
    graph = loaded.graph
    makers = {name: node for node in graph.node for name in node.output}
    noises = _upstream(makers, continuous, "RandomNormalLike")
    draws = _upstream(makers, discrete, "Multinomial")
    if noises:
        graph.input.append(onnx.helper.make_tensor_value_info(NOISE_INPUT, onnx.TensorProto.FLOAT, [1]))
    for noise in noises:
        at = list(graph.node).index(noise)
        nothing = f"{noise.output[0]}_nothing"
        zero = onnx.helper.make_node("Sub", [noise.input[0], noise.input[0]], [nothing])
        moved = onnx.helper.make_node("Add", [nothing, NOISE_INPUT], [noise.output[0]])
        graph.node.remove(noise)
        graph.node.insert(at, moved)
        graph.node.insert(at, zero)
    logits = list(dict.fromkeys(draw.input[0] for draw in draws))
    there = {output.name for output in graph.output}
    graph.output.extend([onnx.helper.make_empty_tensor_value_info(name) for name in logits if name not in there])
    return loaded.SerializeToString(), logits


def _upstream(makers: dict[str, Any], output: str | None, kind: str) -> list[Any]:
    """Returns the nodes of a kind from which an output is computed, in the order of the inputs on the way."""
    found: list[Any] = []
    seen: set[str] = set()
    waiting = [output] if output else []
    while waiting:
        name = waiting.pop()
        if name in seen or name not in makers:
            continue
        seen.add(name)
        node = makers[name]
        if node.op_type == kind:
            found.append(node)
        else:
            waiting += reversed(node.input)
    return found


def inputs_of(policy: Policy, names: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> list[list[int]]:
    """Returns which recorded observations each input of a model takes: several if it takes all vectors joined.

    Inputs are matched by name if the model's file has names, so that the critic's additional observations are left out;
    else by position. Raises PolicyError if the observations do not fit.
    """
    wanted = list(policy.obs_shapes)
    named = [names.index(name) for name in policy.observations if name in names]
    if [shapes[i] for i in named] == wanted and len({*named}) == len(wanted):
        return [[i] for i in named]
    vectors = [i for i, shape in enumerate(shapes) if len(shape) == 1]
    others = iter([i for i, shape in enumerate(shapes) if len(shape) != 1])
    ways = [[[i] for i in range(len(shapes))]]
    if layout_of(policy).version == 2 and len(wanted) == len(shapes) - len(vectors) + bool(vectors):
        ways.append([vectors if len(shape) == 1 else [next(others, 0)] for shape in wanted])
    free = list(range(len(shapes)))
    found = [next((i for i in free if shapes[i] == shape and not free.remove(i)), -1) for shape in wanted]
    ways.append([[i] for i in found])
    for way in ways:
        fits = sorted(i for taken in way for i in taken) == list(range(len(shapes)))
        joined = [(sum(shapes[i][0] for i in taken),) if len(taken) > 1 else shapes[taken[0]] for taken in way if taken]
        if fits and joined == wanted:
            return way
    recorded = ", ".join(f"{name} {_shape(shape)}" for name, shape in zip(names, shapes, strict=True))
    raise PolicyError(
        f"{policy.path} takes the observations {', '.join(map(_shape, wanted))}; the recording has {recorded}. The "
        "model was trained in another game, or sensors were added, removed or changed since: stacks and sizes must be "
        "those of the training"
    )


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))
