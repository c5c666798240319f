"""Keeps the parts of a checkpoint whose behaviors have not appeared in this session yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from palaestra.runtime.collect.learner import Learner


class UnseenBehaviors:
    """Keeps what was learned of behaviors until they appear; checkpoints go on holding it."""

    def __init__(self) -> None:
        self.learned: dict[str, Any] = {}
        """By behavior, the state of its learner."""
        self.seats: dict[str, Any] = {}
        """By behavior, the state of its collector."""
        self.specs: dict[str, Any] = {}
        """By behavior, its spec; those of behaviors that were seen stay."""

    def take(self, state: Mapping[str, Any]) -> None:
        """Takes over the state of a checkpoint."""
        self.learned = {name: part for name, part in state.items() if name != "run"}
        self.seats, self.specs = dict(state["run"]["collector"]["seats"]), dict(state["run"].get("specs", {}))

    def give(self, learner: Learner) -> bool:
        """Gives a learner its state, once. Returns whether there was one."""
        self.seats.pop(learner.name, None)
        if learner.name not in self.learned:
            return False
        learner.load_state_dict(self.learned.pop(learner.name))
        return True
