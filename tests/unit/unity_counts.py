"""What a trainer must have counted of the messages that a game sent."""

import copy
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass
class Totals:
    """Of one behavior, its teams together."""

    episodes: int = 0  # ended after at least one answered decision
    terminated: int = 0
    truncated: int = 0
    returns: float = 0.0  # of those episodes
    group_returns: float = 0.0
    length: int = 0  # decisions of those episodes
    answered: int = 0  # decisions that got an action
    completed: int = 0  # of these, the ones whose outcome came: the agent asked again or ended


@dataclass
class _Episode:
    returns: float = 0.0
    group_returns: float = 0.0
    length: int = 0


class ExpectedCounts:
    """Keeps the trainer's rules, an independent count of them.

    A reward counts where the agent's last decision was answered in this episode: what comes with the first decision of
    an episode, or with an end that no answered decision came before, does not. An episode that a reset broke off, or
    whose agent is never heard of again, is none. Behavior and id make an agent: where an id goes on under another key,
    another agent begins.
    """

    def __init__(self) -> None:
        self.totals: defaultdict[str, Totals] = defaultdict(Totals)
        self.before_last: dict[str, Totals] = {}  # without the last message, which a trainer may have left unread
        self.messages = 0
        self._running: dict[tuple[str, int], _Episode] = {}
        self._asking: list[tuple[str, int]] = []

    def sent(self, infos: Mapping[str, Sequence[Any]]) -> None:
        """One message's infos by behavior key, in their order."""
        self.before_last = {name: copy.copy(totals) for name, totals in self.totals.items()}
        self.messages += 1
        self._asking = []
        for key, some in infos.items():
            for info in some:
                self._settle(key, info)
                if not info.done:
                    self._asking.append((key, info.id))

    def answered(self) -> None:
        """The last message's decisions all got actions."""
        for agent in self._asking:
            self._running.setdefault(agent, _Episode()).length += 1
            self.totals[_name(agent[0])].answered += 1
        self._asking = []

    def reset(self) -> None:
        """The last message was answered with a reset."""
        self._running = {}
        self._asking = []

    def plain(self) -> dict[str, Any]:
        return {
            "messages": self.messages,
            "totals": {name: asdict(totals) for name, totals in self.totals.items()},
            "before_last": {name: asdict(totals) for name, totals in self.before_last.items()},
        }

    def _settle(self, key: str, info: Any) -> None:
        episode = self._running.get((key, info.id))
        if episode is None:
            return
        totals = self.totals[_name(key)]
        episode.returns += info.reward
        episode.group_returns += info.group_reward
        totals.completed += 1
        if not info.done:
            return
        del self._running[key, info.id]
        totals.episodes += 1
        totals.truncated += info.max_step_reached
        totals.terminated += not info.max_step_reached
        totals.returns += episode.returns
        totals.group_returns += episode.group_returns
        totals.length += episode.length


def _name(key: str) -> str:
    return key.partition("?")[0]
