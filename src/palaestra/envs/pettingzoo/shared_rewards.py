"""Finds rewards that all members of a group get alike, which then are the group's reward."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

import numpy as np


class SharedRewards:
    """Tells a group's common reward from its members' own."""

    def __init__(self, group_of: Callable[[Hashable], int] | None) -> None:
        """`group_of` returns an agent's group, -1 without one; None: nothing is shared."""
        self._group_of = group_of

    @property
    def groups(self) -> bool:
        """Whether rewards are shared at all."""
        return self._group_of is not None

    def parts(self, earned: Mapping[Hashable, float]) -> dict[Hashable, float]:
        """Returns what each agent earned as its group's reward: its whole reward if all members present earned the same, else nothing."""
        if self._group_of is None:
            return {}
        members: dict[int, list[Hashable]] = {}
        for agent in earned:
            members.setdefault(self._group_of(agent), []).append(agent)
        members.pop(-1, None)
        alike = [agents for agents in members.values() if np.allclose([earned[one] for one in agents], earned[agents[0]], atol=0.0)]
        return {agent: earned[agent] for agents in alike for agent in agents}
