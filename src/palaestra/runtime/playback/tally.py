"""Counts for viewers: rewards of open episodes, results, scores between teams, a person's rating."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from palaestra.core.files import read_whole_text, write_whole
from palaestra.core.timestep import TimeStep
from palaestra.runtime.playback.agent_slots import AgentSlots
from palaestra.scenario.ratings import elo_change

RECENT = 100
"""Number of episodes that the mean is taken over."""
PERSON = ".player.json"
PERSON_START = 1200.0
PERSON_K = 32.0
"""Greatest change of a person's rating by one game: more than a model's, since a person plays few games."""


@dataclass(slots=True)
class SideScore:
    """Results of one team of a behavior since its brains began."""

    episodes: int = 0
    won: int = 0
    drawn: int = 0
    lost: int = 0
    recent: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))
    """Returns of the newest episodes."""

    @property
    def mean(self) -> float | None:
        """Mean return of the recent episodes; None before the first has ended."""
        return float(np.mean(self.recent)) if self.recent else None


class Tally:
    """Counts the episodes of every behavior. Between teams the sign of the last reward decides, as in self-play."""

    def __init__(self, areas: int | None = None) -> None:
        """`areas`: only episodes of the first `areas` areas count; None: of all."""
        self.areas = areas
        self.returns: dict[str, NDArray[np.float64]] = {}
        """By behavior (S,): rewards of each slot's open episode so far."""
        self.lengths: dict[str, NDArray[np.int64]] = {}
        """By behavior (S,): ticks of each slot's open episode."""
        self.scores: dict[tuple[str, int], SideScore] = {}
        """Scores by behavior and team."""
        self.ended: list[tuple[str, int, float]] = []
        """Episodes that ended on the newest tick: behavior, slot and return."""
        self._mixed: set[tuple[str, int]] = set()
        """Slots whose open episode began before the scores were reset."""

    def begin_scores(self) -> None:
        """Starts the scores again after a change of brains. Open episodes, which both played, do not count."""
        self.scores = {}
        self._mixed = {(name, slot) for name, lengths in self.lengths.items() for slot in lengths.nonzero()[0].tolist()}

    def note(
        self, steps: Mapping[str, TimeStep], *, first: bool = False, agent_slots: AgentSlots | None = None
    ) -> list[tuple[str, int, float]]:
        """Adds a tick, or the tables of `reset`. Returns the episodes that ended: behavior, slot and return.

        `agent_slots` tells which slots had an agent before this tick; None: all slots.
        """
        ended = self.ended = list[tuple[str, int, float]]()
        if first:
            self._mixed.clear()
        for name, step in steps.items():
            slots = len(step.reward)
            if first:  # a table may have fewer slots than before
                returns = np.zeros(slots)
                lengths = np.zeros(slots, np.int64)
            else:
                before = self.returns.get(name, np.zeros(0))
                returns = np.pad(before, (0, max(slots - len(before), 0)))
                lengths = np.pad(self.lengths.get(name, np.zeros(0, np.int64)), (0, max(slots - len(before), 0)))
                reward = (step.reward + step.group_reward).cpu().numpy()
                counts = (step.acting | step.terminated | step.truncated).cpu().numpy()
                returns[counts] += reward[counts]
                lengths += 1 if agent_slots is None else agent_slots.present(name, len(lengths))
                ended += self._close(name, step, returns, lengths, reward)
            self.returns[name] = returns
            self.lengths[name] = lengths
        return ended

    def _close(
        self,
        name: str,
        step: TimeStep,
        returns: NDArray[np.float64],
        lengths: NDArray[np.int64],
        reward: NDArray[np.float32],
    ) -> list[tuple[str, int, float]]:
        over = (step.terminated | step.truncated).cpu().numpy()
        if step.lost is not None:
            lost = step.lost.cpu().numpy()
            returns[lost] = 0
            lengths[lost] = 0
            self._mixed.difference_update((name, slot) for slot in lost.nonzero()[0].tolist())
        ended = []
        team = step.team.cpu().numpy()
        area = step.area.cpu().numpy()
        for slot in over.nonzero()[0].tolist():
            ended.append((name, slot, float(returns[slot])))
            if (name, slot) in self._mixed:
                self._mixed.remove((name, slot))
                continue
            if self.areas is not None and area[slot] >= self.areas:
                continue
            score = self.scores.setdefault((name, int(team[slot])), SideScore())
            score.episodes += 1
            score.won += bool(reward[slot] > 0)
            score.drawn += bool(reward[slot] == 0)
            score.lost += bool(reward[slot] < 0)
            score.recent.append(float(returns[slot]))
        returns[over] = 0
        lengths[over] = 0
        return ended


class PersonRating:
    """Elo and results of a person who plays, by behavior."""

    def __init__(self, results: Path) -> None:
        self._file = results / PERSON
        self._known: dict[str, dict[str, float]] = {}
        with suppress(OSError, ValueError, AttributeError):
            read = json.loads(read_whole_text(self._file))
            self._known = {str(name): {key: float(value) for key, value in one.items()} for name, one in read.items()}

    def elo(self, behavior: str) -> float:
        """Returns the person's rating in a behavior."""
        return self._known.get(behavior, {}).get("elo", PERSON_START)

    def played(self, behavior: str, opponent: float, result: float) -> float:
        """Adds a game: 1 won, 0.5 drawn, 0 lost. Returns the new rating; it is stored if the folder can be written."""
        entry = self._known.setdefault(behavior, {"elo": PERSON_START, "games": 0.0})
        entry["elo"] = self.elo(behavior) + elo_change(self.elo(behavior), opponent, result, PERSON_K)
        entry["games"] = entry.get("games", 0.0) + 1
        with suppress(OSError):
            write_whole(self._file, json.dumps(self._known, indent=1).encode())
        return entry["elo"]
