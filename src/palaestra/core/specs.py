"""What a behavior sees and does: shapes, not numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest

from palaestra.core.errors import EnvError


@dataclass(frozen=True)
class RawObs:
    """How an environment itself gives an observation, where an `ObsSpec` has another form of it."""

    shape: tuple[int, ...]
    """Of one observation; () for a single number."""
    sizes: tuple[int, ...] = ()
    """Integers that become one-hots: how many values each has. Empty: no integers."""
    starts: tuple[int, ...] = ()
    """The least value of each of these."""
    channels: int | None = None
    """An image's axis of channels; None where it has none, or is no image."""
    scale: float = 1.0
    """What the numbers are multiplied with."""


@dataclass(frozen=True)
class ObsSpec:
    """One observation of an agent. Its rank says what it is.

    ====  ==================  =====================================================
    rank  shape               kind
    ====  ==================  =====================================================
    1     (n,)                vector
    2     (most, size)        variable length: rows that are all zero stand for nothing
    3     (C, H, W)           visual, each number within 0..1
    ====  ==================  =====================================================
    """

    name: str
    shape: tuple[int, ...]
    goal: bool = False
    """A goal signal: tells what to do rather than what is there; may condition the network. One of variable length is read as any other."""
    raw: RawObs | None = field(default=None, compare=False)
    """Written into exported models, so that they take observations as the environment gives them; None: these are in this form."""

    def __post_init__(self) -> None:
        if len(self.shape) not in (1, 2, 3) or any(size < 1 for size in self.shape):
            raise EnvError(
                f"observation '{self.name}' has shape {self.shape}; expected (n,) for a vector, "
                f"(most, size) for a variable length or (C, H, W) for an image, all at least 1"
            )

    @property
    def is_vector(self) -> bool:
        """(n,)."""
        return len(self.shape) == 1

    @property
    def is_entities(self) -> bool:
        """(most, size): variable length."""
        return len(self.shape) == 2

    @property
    def is_visual(self) -> bool:
        """(C, H, W)."""
        return len(self.shape) == 3


@dataclass(frozen=True)
class ActionSpec:
    """Continuous numbers, discrete branches, or both (hybrid)."""

    continuous: int = 0
    """How many numbers, each within -1..1 for the environment."""
    branches: tuple[int, ...] = ()
    """Choices of each discrete branch."""
    low: tuple[float, ...] | None = field(default=None, compare=False)
    """What -1 of each continuous number is to the environment, such as a Gymnasium Box's `low`; None: -1. Written into exported models."""
    high: tuple[float, ...] | None = field(default=None, compare=False)
    """The same for 1."""
    starts: tuple[int, ...] | None = field(default=None, compare=False)
    """The environment's number of each branch's first choice, such as a Gymnasium Discrete's `start`; None: 0."""

    def __post_init__(self) -> None:
        if self.continuous < 0 or any(size < 1 for size in self.branches):
            raise EnvError(f"actions of {self.continuous} numbers and branches {self.branches}: a branch needs at least one choice")
        if not self.continuous and not self.branches:
            raise EnvError("an action needs at least one continuous number or one discrete branch")

    @property
    def choices(self) -> int:
        """Length of an action mask: the choices of all branches."""
        return sum(self.branches)

    @property
    def components(self) -> int:
        """A: columns of a log-probability, one a continuous number and one a branch."""
        return self.continuous + len(self.branches)


@dataclass(frozen=True)
class BehaviorSpec:
    """What agents that share a policy see and do."""

    obs: tuple[ObsSpec, ...]
    action: ActionSpec
    steady: bool = False
    """Every slot acts on every tick (built-ins, vector environments): its table needs no cursors.

    A steady behavior's `acting` is True in every row of every TimeStep."""

    def __post_init__(self) -> None:
        if not self.obs:
            raise EnvError("a behavior needs at least one observation")

    @cached_property
    def goals(self) -> tuple[int, ...]:
        """Which observations are goal signals."""
        return tuple(i for i, obs in enumerate(self.obs) if obs.goal)


def describe(spec: BehaviorSpec) -> str:
    """One line for people, such as 'obs vector (8), actions 2 continuous'."""
    obs = ", ".join(f"{o.name} {'x'.join(map(str, o.shape))}{' (goal)' if o.goal else ''}" for o in spec.obs)
    action = []
    if spec.action.continuous:
        action.append(f"{spec.action.continuous} continuous")
    if spec.action.branches:
        action.append("discrete " + " x ".join(map(str, spec.action.branches)))
    return f"observations: {obs}; actions: {', '.join(action)}"


def differences(there: BehaviorSpec, here: BehaviorSpec, titles: tuple[str, str]) -> str:
    """Both side by side in a table for people, with a mark where they differ; empty where they see and do the same, names aside."""
    pairs = list(zip_longest(there.obs, here.obs))
    differs = [a is None or b is None or a.shape != b.shape for a, b in pairs] + [there.action != here.action]
    if not any(differs):
        return ""
    rows = [(f"observation {i}", _seen(a), _seen(b)) for i, (a, b) in enumerate(pairs)]
    rows = [("", *titles), *rows, ("actions", _done(there.action), _done(here.action))]
    marks = ["", *("   <- differs" if each else "" for each in differs)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    cells = ["   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(f"  {line}{mark}".rstrip() for line, mark in zip(cells, marks, strict=True))


def _seen(obs: ObsSpec | None) -> str:
    return "none" if obs is None else f"{obs.name} ({', '.join(map(str, obs.shape))})"


def _done(action: ActionSpec) -> str:
    numbers = [f"{action.continuous} continuous"] if action.continuous else []
    return ", ".join(numbers + ([f"discrete {' x '.join(map(str, action.branches))}"] if action.branches else []))
