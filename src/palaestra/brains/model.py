"""Plays an exported model with onnxruntime: neither torch nor Warp is imported, so a game or a server stays small."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.brains.base import best_choices
from palaestra.brains.model_layout import MASK, MEMORY_IN, MEMORY_OUT, ModelLayout, read_layout
from palaestra.brains.observations import Inputs, floats, turn, turned_inputs
from palaestra.brains.session import Arrays, Session
from palaestra.core.errors import PolicyError
from palaestra.core.files import MODEL_FILES, near_files
from palaestra.core.onnx_models.onnx_metadata import read_notes
from palaestra.core.wording.short_errors import short_errors
from palaestra.hub.hub_names import is_hub_name

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


@dataclass(frozen=True, slots=True)
class PolicyAction:
    """Actions of a policy, one row for each agent; for a single agent without the first axis."""

    continuous: np.ndarray | None  # (N, continuous_size) float32, ready for the environment: see `Policy.act`
    discrete: np.ndarray | None  # (N, branches) int64: the choice of each branch, counted as the environment does
    memory: np.ndarray | None  # (N, memory_size) float32: give it back with the same agents' next observations
    native: Any = None
    """The action in the form that `step` of the training environment takes: an array or a number of the space's shape
    and type, in dictionaries or tuples like the space's. None if the file does not describe this form, or with
    `rescale=False`."""


def load_policy(path: str | Path, *, seed: int | None = None) -> Policy:
    """Loads an exported policy of Palaestra or ML-Agents (model versions 2 and 3, and Barracuda's `.nn` files), for the
    CPU.

    `hub:user/repository[/FILE.onnx][@REVISION]` is a model on the Hugging Face Hub. With a `seed` the same calls give
    the same actions; without a seed each loaded policy draws others. Raises PolicyError for a file that is missing,
    not ONNX or Barracuda's, or not a policy, and HubError for a model that cannot be downloaded.
    """
    return Policy(local_file(path), seed)


def local_file(path: str | Path) -> Path:
    """Returns the path of a model file; a name with `hub:` is downloaded first."""
    if isinstance(path, str) and is_hub_name(path):
        from palaestra.hub.fetching import fetch_model

        return fetch_model(path)
    return Path(path)


class Policy:
    """Chooses actions for any number of agents at once; keeps only its random state between calls."""

    def __init__(self, path: Path, seed: int | None = None) -> None:
        path = Path(path)
        if not path.is_file():
            what = "is a folder" if path.is_dir() else "does not exist"
            near = near_files(path, MODEL_FILES) or "; expected a model file such as results/ID/NAME.onnx"
            raise PolicyError(f"{path} {what}{near}")
        self.path = path
        self.seed = seed
        self.rng = np.random.default_rng(seed)
        """Random generator for choices; a checkpoint saves its state."""
        content = model_content(path)
        self._session = Session(content, str(path), seed)
        layout = read_layout(self._session)
        self._notes = read_notes(self._session.metadata)
        self._inputs = Inputs(path.name, layout.obs, self._notes)
        layout = self._layout = replace(layout, obs=self._inputs.shapes)
        self._turned = turned_inputs(content, layout.obs)
        self._noiseless: Session | None = None  # made when first needed
        self.version = layout.version
        """Version of the file's format: 2 or 3."""
        self.obs_shapes = tuple(layout.obs.values())
        """Shape of each observation, in the order `act` takes them."""
        self.obs_names = tuple(layout.obs)
        """Names of the observations in the file, in the order of `obs_shapes`."""
        self.observations = self._inputs.names
        """Names of the observations in the environment, in the order of `obs_shapes`; if the file has none:
        `obs_names`."""
        self.scales = self._inputs.scales
        """Factor by which each observation was multiplied in training; None: the file does not say."""
        self.continuous_size = layout.continuous_size
        """Number of continuous actions."""
        self.branches = layout.branches
        """Number of choices of each discrete branch."""
        self.memory_size = layout.memory_size
        """Size of a recurrent policy's memory of an agent; 0 without memory."""

    def __reduce__(self) -> tuple[Any, ...]:  # for other processes, which read the file
        return Policy, (self.path.absolute(), self.seed)

    def __repr__(self) -> str:
        unread = f", unread {list(self._inputs.unread_names)}" if self._inputs.unread else ""
        return (
            f"Policy({self.path.name}: obs {list(self.obs_shapes)}{unread}, continuous {self.continuous_size}, "
            f"branches {list(self.branches)}, memory {self.memory_size}, version {self.version})"
        )

    @property
    def action_bounds(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The environment's values, (continuous_size,) each, that the actions -1 and 1 stand for, such as the bounds of
        a Box. None: -1 and 1."""
        low = self._notes.low
        high = self._notes.high
        size = self.continuous_size
        if low is None or high is None or (len(low), len(high)) != (size, size):
            return None
        return np.array(low), np.array(high)

    @short_errors
    def act(
        self,
        obs: ArrayLike | Mapping[str, Any],
        action_mask: ArrayLike | None = None,
        *,
        deterministic: bool = False,
        memory: ArrayLike | None = None,
        rescale: bool = True,
    ) -> PolicyAction:
        """Actions for agents that see `obs`.

        `obs` is an array, a list or tuple with an array for each observation, or a dictionary of arrays by name (see
        `observations`; other keys are ignored). Each array is (N, *shape), or (*shape) for one agent. A model that was
        trained in a Gymnasium environment also takes that environment's own observations: integers of a Discrete space,
        unchanged images, nested dictionaries and tuples.

        `action_mask` (N, choices) is true where a choice is allowed; without a mask all choices are allowed.
        `deterministic` takes the mean and the most likely choices, even if the file has no such outputs. `memory` is
        the memory that the last call returned; zeros at the start of an episode.

        If the file has the bounds of a Gymnasium Box, continuous numbers are scaled to them, and choices count from the
        `start` of a Discrete space; `native` has the same action in the form of the environment's action space.
        `rescale=False` returns actions in the form for Unity: choices from 0, numbers within -1..1, except for the
        deterministic output of ML-Agents' SAC policies and files of version 2 that leave clipping to the game. Raises
        PolicyError for input that does not fit the model.
        """
        arrays, single = self._inputs.arrays(obs)
        rows = len(arrays[0]) if arrays else 1
        mask = self._mask(action_mask, rows)
        feeds = feeds_of(self, arrays, mask, self._memory(memory, rows))
        action = self._action(self._run(feeds, rows, deterministic), mask, rows, deterministic)
        if rescale:
            action = self._rescaled(action, rows)
        return self._first_row(action) if single else action

    @short_errors
    def predict(
        self,
        obs: ArrayLike | Mapping[str, Any],
        state: ArrayLike | None = None,
        episode_start: ArrayLike | None = None,
        deterministic: bool = False,
        *,
        action_mask: ArrayLike | None = None,
    ) -> tuple[Any, np.ndarray | None]:
        """Returns the action for the environment's `step`, and the memory of a recurrent policy (None without one), as
        `predict` of Stable-Baselines3 does.

        `obs`, `deterministic` and `action_mask` are as for `act`. `state` is the memory that the last call returned for
        the same agents; it is reset where `episode_start`, a bool or (N,), is true. The action is `native` if the file
        describes the environment's own form; else continuous numbers (N, numbers), the choice (N,) of a single branch
        or choices (N, branches), or a dictionary of both, as environments of `palaestra.gymnasium` take them.
        """
        memory = None if state is None or not self.memory_size else floats(state, "the state")
        if memory is not None and episode_start is not None:
            begins = np.asarray(episode_start, bool)
            memory = np.where(begins.reshape(-1, 1) if memory.ndim == 2 else begins.ravel(), np.float32(0), memory)
        answer = self.act(obs, action_mask, deterministic=deterministic, memory=memory)
        if answer.native is not None:
            return answer.native, answer.memory
        choices = answer.discrete
        if choices is not None and len(self.branches) == 1:
            choices = choices[..., 0]
        if answer.continuous is None or choices is None:
            return (choices if answer.continuous is None else answer.continuous), answer.memory
        return {"continuous": answer.continuous, "discrete": choices}, answer.memory

    def _mask(self, mask: ArrayLike | None, rows: int) -> np.ndarray | None:
        """Returns the mask as (N, choices) bool; None for a policy without discrete actions."""
        choices = self._layout.choices
        if not choices:
            if mask is not None and np.size(mask):
                raise PolicyError(f"{self.path.name} has no discrete actions; an action mask has no effect on it")
            return None
        if mask is None:
            return np.ones((rows, choices), bool)
        array = np.asarray(mask)
        if array.shape != (rows, choices) and (array.shape, rows) != ((choices,), 1):
            raise PolicyError(
                f"the action mask has shape {array.shape}; expected {(rows, choices)} for branches "
                f"{list(self.branches)}"
            )
        array = array.reshape(rows, choices) != 0
        starts = np.cumsum((0, *self.branches[:-1]))
        stuck = np.argwhere(~np.logical_or.reduceat(array, starts, axis=1))
        if stuck.size:
            row, branch = stuck[0].tolist()
            raise PolicyError(
                f"the action mask forbids every choice of branch {branch} for agent {row}; at least one must be allowed"
            )
        return array

    def _memory(self, memory: ArrayLike | None, rows: int) -> np.ndarray | None:
        """Returns the memory as (N, 1, memory_size); None for a policy without memory."""
        size = self._layout.memory_size
        if not size:
            if memory is not None and np.size(memory):
                raise PolicyError(f"{self.path.name} has no memory; got one of shape {np.shape(memory)}")
            return None
        array = np.zeros((rows, size), np.float32) if memory is None else floats(memory, "the memory")
        if array.shape != (rows, size) and (array.shape, rows) != ((size,), 1):
            raise PolicyError(
                f"the memory has shape {array.shape}; expected {(rows, size)}, the answer to the same agents' last "
                "observations"
            )
        return array.reshape(rows, 1, size)

    def _run(self, feeds: Arrays, rows: int, deterministic: bool) -> Arrays:
        layout = self._layout
        session = self._session
        names = {
            "continuous": layout.continuous,
            "discrete": layout.discrete,
            "memory": MEMORY_OUT if layout.memory_size else None,
        }
        if deterministic and layout.samples_only:
            session = self._noiseless = self._noiseless or Session(without_noise(self.path), str(self.path), self.seed)
        elif deterministic:
            names["continuous"] = layout.deterministic_continuous
            names["discrete"] = layout.discrete if layout.log_probs else layout.deterministic_discrete
        wanted = {kind: name for kind, name in names.items() if name}
        if not rows:  # onnxruntime's random and recurrent nodes fail, or abort the process, on no rows
            discrete = layout.choices if layout.log_probs else len(self.branches)
            widths = {"continuous": (self.continuous_size,), "discrete": (discrete,), "memory": (1, self.memory_size)}
            return {kind: np.zeros((0, *widths[kind]), np.float32) for kind in wanted}
        parts = (
            [{key: feed[i : i + 1] for key, feed in feeds.items()} for i in range(rows)]
            if layout.row_by_row
            else [feeds]
        )
        answers = [session.run(list(wanted.values()), part) for part in parts]
        return {kind: np.concatenate([answer[name] for answer in answers]) for kind, name in wanted.items()}

    def _action(self, answer: Arrays, mask: np.ndarray | None, rows: int, deterministic: bool) -> PolicyAction:
        discrete = answer.get("discrete")
        if discrete is not None and mask is not None and self._layout.log_probs:
            noise = 0.0 if deterministic else self.rng.gumbel(size=discrete.shape)  # which samples by probability
            discrete = best_choices(np.where(mask, discrete, -np.inf) + noise, self.branches)
        memory = answer.get("memory")
        return PolicyAction(
            continuous=answer.get("continuous"),
            discrete=None if discrete is None else discrete.astype(np.int64),
            memory=None if memory is None else memory.reshape(rows, self.memory_size),
        )

    def _rescaled(self, action: PolicyAction, rows: int) -> PolicyAction:
        continuous = action.continuous
        discrete = action.discrete
        bounds = self.action_bounds
        starts = self._notes.starts
        if continuous is not None and bounds is not None:
            low, high = bounds
            scaled = low / 2 + high / 2 + (high / 2 - low / 2) * continuous
            continuous = scaled.clip(low, high).astype(np.float32)
        if discrete is not None and starts is not None and len(starts) == len(self.branches):
            discrete = discrete + np.array(starts, np.int64)
        native = None
        raw = self._notes.action
        if raw is not None and raw.sizes() == (self.continuous_size, len(self.branches)):
            none = np.zeros((rows, 0))
            native = raw.assemble(none if continuous is None else continuous, none if discrete is None else discrete)
        return PolicyAction(continuous, discrete, action.memory, native)

    def _first_row(self, action: PolicyAction) -> PolicyAction:
        continuous, discrete, memory = (
            None if column is None else column[0] for column in (action.continuous, action.discrete, action.memory)
        )
        native = (
            None if action.native is None or self._notes.action is None else self._notes.action.row(action.native, 0)
        )
        return PolicyAction(continuous, discrete, memory, native)


def layout_of(policy: Policy) -> ModelLayout:
    """Returns the tensors of a policy's file."""
    return policy._layout


def feeds_of(
    policy: Policy, arrays: Sequence[np.ndarray], mask: np.ndarray | None, memory: np.ndarray | None
) -> Arrays:
    """Returns the inputs of a policy's graph, from observations (N, *shape) float32, a mask (N, choices) bool and the
    memory (N, memory_size); without a mask every choice is allowed, without a memory the memory is zero."""
    layout = policy._layout
    rows = len(arrays[0]) if arrays else 1
    feeds = {
        name: turn(array) if name in policy._turned else array for name, array in zip(layout.obs, arrays, strict=True)
    }
    feeds |= {name: np.zeros((rows, *shape), np.float32) for name, shape in policy._inputs.unread.items()}
    if layout.masked:
        feeds[MASK] = np.ones((rows, layout.choices), np.float32) if mask is None else mask.astype(np.float32)
    if layout.memory_size:
        zeros = np.zeros((rows, 1, layout.memory_size), np.float32)
        feeds[MEMORY_IN] = zeros if memory is None else memory.reshape(zeros.shape)
    return feeds


def model_content(path: Path) -> str | bytes:
    """Returns the argument for onnxruntime: the file's name, or the graph converted from a `.nn` file."""
    if path.suffix.lower() != ".nn":
        return str(path)
    from palaestra.brains.barracuda.nn_policy import load_nn  # imports onnx, which only these need

    return load_nn(path)


def without_noise(path: Path) -> bytes:
    """Returns the same graph with zeros in place of its normal noise, and the likeliest choice in place of each sample.

    Files exported before 2022 have no deterministic outputs. Only this function needs the package `onnx` to play a
    model.
    """
    import onnx

    model = onnx.load(str(path))
    for node in model.graph.node:
        if node.op_type == "RandomNormalLike":  # onnxruntime aborts on a scale of 0
            node.op_type = "Sub"
            node.input.append(node.input[0])
            del node.attribute[:]
        elif node.op_type == "Multinomial":
            node.op_type = "ArgMax"
            del node.attribute[:]
            node.attribute.extend([onnx.helper.make_attribute("axis", 1), onnx.helper.make_attribute("keepdims", 1)])
    return model.SerializeToString()
