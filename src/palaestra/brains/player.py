"""Brain `player`: a person, whose keys come from the page.

The page reports keys from one thread, and actions are chosen in another: single operations of dictionaries and lists
are atomic, and a key that arrives in between acts one tick later.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from palaestra.brains.base import Choice, Role, Seen
from palaestra.brains.player_keys import KeyMap, key_map, read_keys


class PlayerBrain:
    """Chooses the actions of the keys that are held down, for all given agents (on the page, one agent at a time)."""

    def __init__(self, role: Role) -> None:
        """The role's argument is a file of keys, or empty for the usual ones. Raises ConfigError."""
        own = Path(role.argument) if role.argument else None
        self.keys: KeyMap = (
            key_map(role.behavior, role.spec.action) if own is None else read_keys(own, role.behavior, role.spec.action)
        )
        self._held: dict[str, float] = {}
        self._pressed: list[str] = []
        self._ordered: int | None = None

    @property
    def held(self) -> tuple[str, ...]:
        """Keys that are held down, in the order in which they were pressed."""
        return tuple(self._held)

    def press(self, key: str) -> None:
        """Begins to hold a key. A key without an action, or one that is already held, is ignored: keyboards repeat
        keys.

        Upper and lower case of a letter are the same key, since a person may hold shift.
        """
        key = key.lower() if len(key) == 1 else key
        if key in self.keys.keys and key not in self._held:
            self._held[key] = 1.0
            self._pressed.append(key)

    def release(self, key: str) -> None:
        """Stops holding a key."""
        self._held.pop(key.lower() if len(key) == 1 else key, None)

    def release_all(self) -> None:
        """Stops holding every key, for example when the window loses the focus."""
        self._held.clear()

    def order(self, choice: int) -> None:
        """Takes this choice of the first branch at the next tick, whichever keys are held."""
        self._ordered = choice

    def begin(self, slots: NDArray[np.int64]) -> None:
        """Does nothing: a person needs no memory here."""

    def decide(self, seen: Seen) -> Choice:
        """Returns the action of the held keys, and of keys that were pressed and released since the last tick."""
        held = [key for key in self._pressed if key not in self._held] + list(self._held)
        self._pressed.clear()
        rows = [self.keys.decide(held, None if seen.mask is None else seen.mask[row]) for row in range(len(seen.slots))]
        action = self.keys.action
        continuous = np.stack([row[0] for row in rows]) if rows else np.zeros((0, action.continuous), np.float32)
        discrete = np.stack([row[1] for row in rows]) if rows else np.zeros((0, len(action.branches)), np.int64)
        if self._ordered is not None and discrete.shape[1]:
            discrete[:, 0] = self._ordered
            self._ordered = None
        return Choice(continuous, discrete)
