"""Reads a model's observations and actions from the names, shapes and constants in its file.

Version 3 has observations `obs_0`, `obs_1`, ... and discrete actions that are sampled within the graph. Version 2 has
`vector_observation` (all vectors, joined) and `visual_observation_0`, ...; its discrete output has the
log-probabilities of all branches side by side.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from dataclasses import dataclass
from math import prod

import numpy as np

from palaestra.brains.session import Arrays, Session
from palaestra.core.errors import PolicyError

OBSERVATION = re.compile(r"obs_\d+|vector_observation|visual_observation_\d+")
MASK, MEMORY_IN, MEMORY_OUT = "action_masks", "recurrent_in", "recurrent_out"
VERSIONS = (2, 3)
MOST_NUMBERS = 1 << 24
"""Most numbers of an input, those of a picture of 2,364 x 2,364: a damaged file may state more than there is memory."""
MAPPED = "A file of names explains tensors with other names: --brain model:FILE.onnx,NAMES.yaml"

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class ModelLayout:
    """Tensors of a model file."""

    version: int
    obs: Shapes  # of each observation, without the rows: obs_0, obs_1, ... by number, others in the file's order
    continuous_size: int
    branches: tuple[int, ...]
    memory_size: int
    masked: bool  # takes a mask of the choices
    log_probs: bool  # discrete output: log-probabilities instead of choices
    row_by_row: bool  # its graph holds one agent only, whatever its shapes say
    continuous: str | None  # names of outputs, from here on
    discrete: str | None
    deterministic_continuous: str | None
    deterministic_discrete: str | None

    @property
    def choices(self) -> int:
        """Length of an action mask: the number of choices of all branches."""
        return sum(self.branches)

    @property
    def samples_only(self) -> bool:
        """Whether a mean or a likeliest action is not among the outputs and cannot be computed from them."""
        lacks_continuous = self.continuous is not None and self.deterministic_continuous is None
        lacks_discrete = self.discrete is not None and not self.log_probs and self.deterministic_discrete is None
        return lacks_continuous or lacks_discrete


def read_layout(session: Session) -> ModelLayout:
    """Reads the layout. Runs the model once, because its constants (version, sizes) are outputs. Raises PolicyError."""
    shapes = _input_shapes(session)
    outputs = session.outputs
    constants = ("version_number", "memory_size") if MEMORY_IN in shapes else ("version_number",)
    missing = [needed for needed in constants if needed not in outputs]
    if missing:
        there = ", ".join(outputs)
        raise PolicyError(
            f"{session.name} is no agent's policy: it has no output '{missing[0]}' (its outputs: {there}). {MAPPED}"
        )
    answer = _probe(session, shapes)
    version = round(_number(answer, "version_number", session.name))
    memory_size = round(_number(answer, "memory_size", session.name)) if "memory_size" in outputs else 0
    if version not in VERSIONS:
        release = (
            "a release of ML-Agents before 1.0: train it again"
            if version < VERSIONS[0]
            else "a later release: upgrade palaestra"
        )
        raise PolicyError(f"{session.name} has format version {version}; expected 2 or 3. It is from {release}")
    if memory_size and (memory_size,) != shapes.get(MEMORY_IN, ())[-1:]:
        takes = f"takes {shapes[MEMORY_IN][-1]} numbers" if shapes.get(MEMORY_IN) else "is missing"
        raise PolicyError(
            f"{session.name} is damaged: its memory_size is {memory_size}, and its input {MEMORY_IN} {takes}"
        )
    continuous, discrete = _action_outputs(answer, session.name)
    log_probs = discrete is not None and "float" in outputs[discrete]
    return ModelLayout(
        version=version,
        obs={key: shapes[key] for key in _observation_names(shapes)},
        continuous_size=0 if continuous is None else answer[continuous].shape[1],
        branches=() if discrete is None else _branches(answer, discrete, log_probs, shapes.get(MASK), session.name),
        memory_size=memory_size,
        masked=MASK in shapes,
        log_probs=log_probs,
        row_by_row=memory_size > 0 and not _takes_two(session, shapes),
        continuous=continuous,
        discrete=discrete,
        deterministic_continuous=_if_present("deterministic_continuous_actions", outputs),
        deterministic_discrete=_if_present("deterministic_discrete_actions", outputs),
    )


def _input_shapes(session: Session) -> Shapes:
    shapes: Shapes = {}
    for name, whole in session.inputs.items():
        sizes = whole[1:]
        if not OBSERVATION.fullmatch(name) and name not in (MASK, MEMORY_IN):
            raise PolicyError(
                f"{session.name} has an input '{name}'; expected obs_0, obs_1, ... (or vector_observation, "
                f"visual_observation_0, ...), {MASK} and {MEMORY_IN}: this is no agent's policy of version 2 or 3. "
                f"{MAPPED}"
            )
        shapes[name] = tuple(size for size in sizes if isinstance(size, int))
        if not whole or len(shapes[name]) != len(sizes):
            raise PolicyError(f"{session.name}: input '{name}' has shape {whole}; expected fixed sizes after the batch")
        if prod(shapes[name]) > MOST_NUMBERS:
            raise PolicyError(
                f"{session.name} is damaged: input '{name}' has shape {whole}; expected at most {MOST_NUMBERS:,} "
                "numbers"
            )
    return shapes


def _observation_names(names: Iterable[str]) -> list[str]:
    """Returns the inputs that are observations, obs_0, obs_1, ... by number, whatever their order in the file."""
    found = [name for name in names if OBSERVATION.fullmatch(name)]
    numbered = iter(sorted((name for name in found if name.startswith("obs_")), key=lambda name: int(name[4:])))
    return [next(numbered) if name.startswith("obs_") else name for name in found]


def _probe(session: Session, shapes: Shapes, rows: int = 1) -> Arrays:
    """Runs the model on zeros, with all choices forbidden: that makes each branch uniform, which shows its size."""
    return session.run(
        list(session.outputs), {key: np.zeros((rows, *shape), np.float32) for key, shape in shapes.items()}
    )


def _takes_two(session: Session, shapes: Shapes) -> bool:
    try:
        _probe(session, shapes, rows=2)
    except PolicyError:
        return False
    return True


def _number(answer: Arrays, key: str, name: str) -> float:
    value = answer[key]
    if value.size != 1 or not np.isfinite(value).all():
        raise PolicyError(
            f"{name} is damaged: its output '{key}' is {value.reshape(-1)[:4].tolist()}; expected one number"
        )
    return float(value.item())


def _action_outputs(answer: Arrays, name: str) -> tuple[str | None, str | None]:
    continuous = _if_present("continuous_actions", answer)
    discrete = _if_present("discrete_actions", answer)
    for key in ("continuous_actions", "discrete_actions", "action"):
        if key in answer and answer[key].ndim != 2:
            raise PolicyError(
                f"{name}: output '{key}' has shape {list(answer[key].shape)}; expected a row for each agent"
            )
    if continuous or discrete:
        return continuous, discrete
    if "action" not in answer:
        raise PolicyError(
            f"{name} is no agent's policy: it has no output continuous_actions, discrete_actions or action"
        )
    is_discrete = "is_continuous_control" in answer and not _number(answer, "is_continuous_control", name)
    return (None, "action") if is_discrete else ("action", None)


def _branches(
    answer: Arrays, discrete: str, log_probs: bool, mask: tuple[int, ...] | None, name: str
) -> tuple[int, ...]:
    """Returns the number of choices of each branch; `mask`: shape of the mask's input, if there is one."""
    if log_probs:
        return _uniform_parts(np.exp(answer[discrete][0]), name)
    sizes = answer.get("discrete_action_output_shape")
    fits = (
        sizes is not None
        and sizes.size == answer[discrete].shape[1]
        and bool((np.isfinite(sizes) & (sizes >= 1)).all())
    )
    if sizes is None or not fits or (mask is not None and (int(sizes.sum()),) != mask):
        raise PolicyError(f"{name}: output 'discrete_action_output_shape' does not name the size of each branch")
    return tuple(int(size) for size in sizes.reshape(-1))


def _uniform_parts(chances: np.ndarray, name: str) -> tuple[int, ...]:
    """Returns the sizes of uniform distributions that lie side by side: 1/2 1/2 1/3 1/3 1/3 gives (2, 3)."""
    parts: list[int] = []
    while sum(parts) < chances.size:
        rest = chances[sum(parts) :]
        chance = float(rest[0])
        size = round(1 / max(chance, 1e-6)) if np.isfinite(chance) else 0
        if not 1 <= size <= rest.size or not np.allclose(rest[:size], 1 / size, atol=1e-3):
            raise PolicyError(f"{name}: which of its {chances.size} discrete outputs belong to which branch is unknown")
        parts.append(size)
    return tuple(parts)


def _if_present(name: str, outputs: Container[str]) -> str | None:
    return name if name in outputs else None
