"""Shapes and meanings of a behavior's observations and actions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import zip_longest
from math import prod
from typing import TYPE_CHECKING, Any

from palaestra.core.errors import EnvError

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class RawObs:
    """The environment's own form of an observation, if it differs from the `ObsSpec`."""

    shape: tuple[int, ...]
    """Shape of one observation; () for a single number."""
    sizes: tuple[int, ...] = ()
    """Number of values of each integer that becomes a one-hot. Empty: no integers."""
    starts: tuple[int, ...] = ()
    """Smallest value of each integer in `sizes`."""
    channels: int | None = None
    """An image's axis of channels; None if there is no such axis or no image."""
    scale: float = 1.0
    """Factor by which the numbers are multiplied."""
    rows: tuple[tuple[str, RawObs], ...] = ()
    """For a sequence of elements: the dotted key and the form of each array of an element. A row begins with a 1, then
    follow these."""


@dataclass(frozen=True)
class RawAction:
    """The environment's own form of an action: an array, or a dictionary or tuple of further actions."""

    shape: tuple[int, ...] = ()
    """Shape of the array; () for a single number."""
    dtype: str = "float32"
    """Type of its numbers."""
    continuous: bool = False
    """Whether the array takes its numbers from the continuous actions; if False, from the discrete branches."""
    keys: tuple[str | int, ...] | None = None
    """Keys of a dictionary; None: no dictionary."""
    parts: tuple[RawAction, ...] | None = None
    """Entries of a dictionary or tuple; None: an array."""

    def assemble(self, continuous: NDArray[Any], discrete: NDArray[Any]) -> Any:
        """Returns N actions (N, *shape) in the environment's units, from columns (N, numbers) and (N, branches)."""
        return self._assemble(continuous, discrete, 0, 0)[0]

    def _assemble(
        self, continuous: NDArray[Any], discrete: NDArray[Any], number: int, branch: int
    ) -> tuple[Any, int, int]:
        """Takes columns from the given number and branch on; returns the action and the next free number and branch."""
        if self.parts is None:
            columns, start = (continuous, number) if self.continuous else (discrete, branch)
            size = prod(self.shape)
            values = columns[:, start : start + size].reshape(len(columns), *self.shape)
            if self.continuous and self.dtype[:3] in ("int", "uin"):
                values = values.round()
            values = values.astype(self.dtype, copy=False)
            return (values, number + size, branch) if self.continuous else (values, number, branch + size)
        entries = list[Any]()
        for part in self.parts:
            entry, number, branch = part._assemble(continuous, discrete, number, branch)
            entries.append(entry)
        whole = tuple(entries) if self.keys is None else dict(zip(self.keys, entries, strict=True))
        return whole, number, branch

    def sizes(self) -> tuple[int, int]:
        """Returns the number of continuous actions and the number of branches."""
        if self.parts is None:
            return (prod(self.shape), 0) if self.continuous else (0, prod(self.shape))
        sizes = [part.sizes() for part in self.parts]
        return sum(numbers for numbers, _ in sizes), sum(branches for _, branches in sizes)

    def row(self, batched: Any, i: int) -> Any:
        """Returns one of the actions that `assemble` returned together."""
        if self.parts is None:
            return batched[i, ...] if self.continuous else batched[i]  # an array also of shape (), as a Box has it
        if self.keys is None:
            return tuple(part.row(entry, i) for part, entry in zip(self.parts, batched, strict=True))
        return {key: part.row(batched[key], i) for key, part in zip(self.keys, self.parts, strict=True)}


TRUTH = "truth"
"""Name of the observation in which built-in environments tell their true state; the part's name may follow after a
dot."""


@dataclass(frozen=True)
class ObsSpec:
    """One observation of an agent. The rank (the number of axes of `shape`) determines the kind.

    ====  ==================  =====================================================
    rank  shape               kind
    ====  ==================  =====================================================
    1     (n,)                vector
    2     (most, size)        variable length: rows of zeros are padding
    3     (C, H, W)           visual, each number within 0..1
    ====  ==================  =====================================================
    """

    name: str
    shape: tuple[int, ...]
    goal: bool = False
    """Whether it is a goal signal, which may condition the network; variable-length observations never are."""
    raw: RawObs | None = field(default=None, compare=False)
    """The environment's own form of the observation, which exported models accept; None: it has the form of this
    spec."""

    def __post_init__(self) -> None:
        if len(self.shape) not in (1, 2, 3) or any(size < 1 for size in self.shape):
            raise EnvError(
                f"observation '{self.name}' has shape {self.shape}; expected (n,) for a vector, "
                f"(most, size) for a variable length or (C, H, W) for an image, all at least 1"
            )

    @property
    def is_vector(self) -> bool:
        """Whether its shape is (n,)."""
        return len(self.shape) == 1

    @property
    def is_entities(self) -> bool:
        """Whether its shape is (most, size): variable length."""
        return len(self.shape) == 2

    @property
    def is_visual(self) -> bool:
        """Whether its shape is (C, H, W)."""
        return len(self.shape) == 3


@dataclass(frozen=True)
class ActionSpec:
    """Continuous actions, discrete branches, or both (hybrid)."""

    continuous: int = 0
    """Number of continuous actions, each within -1..1 for the environment."""
    branches: tuple[int, ...] = ()
    """Number of choices of each discrete branch."""
    low: tuple[float, ...] | None = field(default=None, compare=False)
    """The environment's value for -1 of each continuous action, such as a Gymnasium Box's `low`; None: -1. Written into
    exported models."""
    high: tuple[float, ...] | None = field(default=None, compare=False)
    """The environment's value for 1 of each continuous action."""
    starts: tuple[int, ...] | None = field(default=None, compare=False)
    """The environment's number for each branch's first choice, such as a Gymnasium Discrete's `start`; None: 0."""
    raw: RawAction | None = field(default=None, compare=False)
    """The environment's own form of an action, which exported models return; None: the columns themselves."""
    remark: str = field(default="", compare=False)
    """Text for users about the scale of continuous actions; empty: -1..1."""

    def __post_init__(self) -> None:
        if self.continuous < 0 or any(size < 1 for size in self.branches):
            raise EnvError(
                f"actions of {self.continuous} numbers and branches {self.branches}: a branch needs at least one choice"
            )
        if not self.continuous and not self.branches:
            raise EnvError("an action needs at least one continuous number or one discrete branch")

    @property
    def choices(self) -> int:
        """Length of an action mask: the total number of choices of all branches."""
        return sum(self.branches)

    @property
    def components(self) -> int:
        """A, the number of columns of a log-probability: one for each continuous action and each branch."""
        return self.continuous + len(self.branches)


@dataclass(frozen=True)
class BehaviorSpec:
    """Observations and actions of the agents that share a policy."""

    obs: tuple[ObsSpec, ...]
    action: ActionSpec
    steady: bool = False
    """Whether every slot acts on every tick, as in built-in and vector environments: `acting` is True in every row of
    every TimeStep."""

    def __post_init__(self) -> None:
        if not self.obs:
            raise EnvError("a behavior needs at least one observation")

    @cached_property
    def goals(self) -> tuple[int, ...]:
        """Indices of the observations that are goal signals."""
        return tuple(i for i, obs in enumerate(self.obs) if obs.goal)


def describe(spec: BehaviorSpec, shown: Collection[int] | None = None) -> str:
    """Returns a line such as 'observations: vector 8; actions: 2 continuous'. `shown`: the observations that the policy
    sees, without those for the critic alone; None: all."""
    marks = {True: " (goal)", False: ""}
    obs = ", ".join(
        f"{o.name} {shape_text(o.shape)}{marks[o.goal]}{'' if shown is None or i in shown else ' (critic only)'}"
        for i, o in enumerate(spec.obs)
    )
    action = []
    if spec.action.continuous:
        action.append(
            f"{spec.action.continuous} continuous" + (f" ({spec.action.remark})" if spec.action.remark else "")
        )
    if spec.action.branches:
        action.append("discrete " + " x ".join(map(str, spec.action.branches)))
    return f"observations: {obs}; actions: {', '.join(action)}"


def shape_text(shape: tuple[int, ...]) -> str:
    """Returns an observation's shape as text; for an image (C, H, W): height, width and channels."""
    return "x".join(map(str, shape if len(shape) < 3 else (*shape[1:], shape[0])))


def differences(there: BehaviorSpec, here: BehaviorSpec, titles: tuple[str, str]) -> str:
    """Returns a table of both specs side by side that marks differences; '' if they are equal apart from names."""
    pairs = list(zip_longest(there.obs, here.obs))
    differs = [a is None or b is None or a.shape != b.shape for a, b in pairs] + [there.action != here.action]
    if not any(differs):
        return ""
    rows = [(f"observation {i}", _obs_text(a), _obs_text(b)) for i, (a, b) in enumerate(pairs)]
    rows = [("", *titles), *rows, ("actions", action_text(there.action), action_text(here.action))]
    marks = ["", *("   <- differs" if each else "" for each in differs)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    cells = ["   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(f"  {line}{mark}".rstrip() for line, mark in zip(cells, marks, strict=True))


def _obs_text(obs: ObsSpec | None) -> str:
    return "none" if obs is None else f"{obs.name} ({', '.join(map(str, obs.shape))})"


def action_text(action: ActionSpec) -> str:
    """Returns a text such as '2 continuous, discrete 3 x 2'."""
    numbers = [f"{action.continuous} continuous"] if action.continuous else []
    return ", ".join(numbers + ([f"discrete {' x '.join(map(str, action.branches))}"] if action.branches else []))


def named(pattern: str, names: Sequence[str]) -> list[int]:
    """Returns the index of the name that equals the pattern, brackets included; else of all names that match it."""
    return [i for i, name in enumerate(names) if name == pattern] or [
        i for i, name in enumerate(names) if fnmatchcase(name, pattern)
    ]
