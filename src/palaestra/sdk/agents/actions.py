"""Actions of one agent, and its action mask."""

from __future__ import annotations

from palaestra.core.errors import EnvError
from palaestra.core.specs import ActionSpec


class Actions:
    """Actions of one agent, as lists, which Python reads faster than rows of arrays."""

    __slots__ = ("continuous", "discrete")

    def __init__(self, spec: ActionSpec) -> None:
        self.continuous: list[float] = [0.0] * spec.continuous
        """Continuous actions, each within -1..1."""
        self.discrete: list[int] = [0] * len(spec.branches)
        """Choice of each branch, counted from 0."""

    def __repr__(self) -> str:
        return f"Actions(continuous={self.continuous}, discrete={self.discrete})"


class ActionMask:
    """Says which choices of its discrete actions an agent may take at its next decision."""

    def __init__(self, spec: ActionSpec) -> None:
        self._branches = spec.branches
        self._begins = [sum(spec.branches[:branch]) for branch in range(len(spec.branches))]
        self._free = b"\1" * spec.choices
        self._allowed: bytearray | None = None

    def set_action_enabled(self, branch: int, action: int, enabled: bool) -> None:
        """Allows or forbids a choice, counted from 0. Before each decision all choices are allowed again."""
        if not 0 <= branch < len(self._branches):
            have = f"branches 0 to {len(self._branches) - 1}" if self._branches else "no discrete branches"
            raise EnvError(
                f"write_action_mask names branch {branch}; its behavior has {have} (branches={self._branches})"
            )
        if not 0 <= action < self._branches[branch]:
            raise EnvError(
                f"write_action_mask names choice {action} of branch {branch}, which has choices 0 to "
                f"{self._branches[branch] - 1} (branches={self._branches})"
            )
        if self._allowed is None:
            self._allowed = bytearray(self._free)
        self._allowed[self._begins[branch] + action] = bool(enabled)

    def take(self) -> bytearray | None:
        """Returns one byte for each choice, 1: allowed, or None if all choices are allowed; then allows all choices
        again. Raises EnvError if a branch has no allowed choice."""
        allowed = self._allowed
        self._allowed = None
        if allowed is not None:
            for branch, (begin, size) in enumerate(zip(self._begins, self._branches, strict=True)):
                if not any(allowed[begin : begin + size]):
                    raise EnvError(
                        f"write_action_mask forbids all {size} choices of branch {branch}, and the agent must choose "
                        "one; leave one allowed, such as a choice that does nothing"
                    )
        return allowed
