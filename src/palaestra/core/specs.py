"""What a behavior sees and does: shapes, not numbers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from palaestra.core.errors import EnvError


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
    """A goal signal: tells what to do rather than what is there; may condition the network."""

    def __post_init__(self) -> None:
        if len(self.shape) not in (1, 2, 3) or any(size < 1 for size in self.shape):
            raise EnvError(
                f"observation '{self.name}' has shape {self.shape}; expected (n,) for a vector, "
                f"(most, size) for a variable length or (C, H, W) for an image, all at least 1"
            )
        if self.goal and self.is_entities:
            raise EnvError(f"observation '{self.name}' is a goal signal, which must be a vector or an image, not variable length")

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
