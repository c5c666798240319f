"""Sums the returns and lengths of episodes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]
Numbers = NDArray[np.floating]


class Episodes(NamedTuple):
    """E finished episodes, in the order in which they ended."""

    returns: NDArray[np.float64]  # (E,) sum of the agent's own rewards
    group_returns: NDArray[np.float64]  # (E,) sum of its group's
    lengths: NDArray[np.int64]  # (E,) decisions
    in_group: Flags  # (E,) whether the agent was in a group
    last_of_group: Flags  # (E,) whether its group ended with it: its group_returns are what the whole group earned
    older: Flags  # (E,) whether it had begun when `mark` was last called
    success: NDArray[np.float64]  # (E,) 1 if it succeeded, else 0; NaN where the environment does not report success

    @property
    def together(self) -> NDArray[np.float64]:
        """Returns the total reward of each episode, the agent's own and its group's, (E,)."""
        return self.returns + self.group_returns

    @property
    def judged(self) -> NDArray[np.float64]:
        """Returns by which runs are compared: one for each agent without a group, and one for each group that ended."""
        return self.together[self.last_of_group | ~self.in_group]


class OpenEpisodes:
    """Sums over the unfinished episodes of S slots."""

    def __init__(self, slots: int) -> None:
        self.returns = np.zeros(slots)
        self.group_returns = np.zeros(slots)
        # waiting: decided, outcome not known yet
        self.lengths = np.zeros(slots, np.int64)
        self.waiting = np.zeros(slots, bool)
        self.living = np.zeros(slots, bool)
        self.groups = np.full(slots, -1, np.int64)

    def __len__(self) -> int:
        return len(self.returns)

    def widen(self, slots: int) -> None:
        """Adds slots up to the number `slots`."""
        more = slots - len(self)
        if more > 0:
            for name in ("returns", "group_returns", "lengths", "waiting", "living"):
                setattr(self, name, np.pad(getattr(self, name), (0, more)))
            self.groups = np.pad(self.groups, (0, more), constant_values=-1)

    def add_rewards(self, acting: Flags, ended: Flags, reward: Numbers, group_reward: Numbers) -> None:
        """Adds a tick's rewards, each (S,), to decisions whose outcome is known now: the agent acts again or its
        episode ended."""
        completed = self.waiting & (acting | ended)
        self.returns += reward * completed
        self.group_returns += group_reward * completed
        self.lengths += completed
        self.waiting &= ~completed

    def last_of_groups(self, ended: Flags) -> NDArray[np.int64]:
        """Returns the slots whose `group_returns` hold a whole group's reward, of groups that `ended` (S,) empties."""
        return last_of_groups(ended, self.living, self.groups, self.lengths)

    def close(self, ended: Flags) -> None:
        """Clears the sums of episodes that ended."""
        self.returns[ended] = self.group_returns[ended] = self.lengths[ended] = 0
        self.living &= ~ended

    def open(self, slots: Flags, groups: NDArray[np.int64]) -> None:
        """Begins the episodes of the agents in these slots (S,), which belong to these groups (S,)."""
        self.living |= slots
        self.groups = np.where(slots, groups, self.groups)

    def forget(self, lost: Flags) -> None:
        """Drops the episodes of agents that were lost, (S,)."""
        self.close(lost)
        self.waiting &= ~lost


NONE = Episodes(
    np.zeros(0),
    np.zeros(0),
    np.zeros(0, np.int64),
    np.zeros(0, np.bool_),
    np.zeros(0, np.bool_),
    np.zeros(0, np.bool_),
    np.zeros(0),
)


def last_of_groups(
    ended: NDArray[np.bool_], living: NDArray[np.bool_], group: NDArray[np.int64], length: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Returns for each group that these ends leave empty the slot of the member with the most decisions, (G,).

    The last member's group return is the whole group's reward: members that left earlier received only part of it. All
    columns are (S,); `living`: slots whose episodes were open before; `group`: each slot's group, -1 without a group.
    """
    slots = (ended & (group >= 0)).nonzero()[0]
    slots = slots[~np.isin(group[slots], group[living & ~ended])]
    slots = slots[np.lexsort((-length[slots], group[slots]))]
    return slots[np.concatenate([np.ones(min(len(slots), 1), bool), np.diff(group[slots]) != 0])]
