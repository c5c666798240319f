"""Splits what the members of a group earn into the group's reward, their mean, and each member's own."""

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
        """Returns each agent's group reward: the mean of the members present, exact if all earned the same."""
        if self._group_of is None:
            return {}
        members: dict[int, list[Hashable]] = {}
        for agent in earned:
            members.setdefault(self._group_of(agent), []).append(agent)
        members.pop(-1, None)
        return {
            agent: part
            for agents in members.values()
            for part in [_common([earned[one] for one in agents])]
            for agent in agents
        }


def _common(rewards: list[float]) -> float:
    alike = np.allclose(rewards, rewards[0], atol=0.0)
    return rewards[0] if alike else sum(rewards) / len(rewards)
