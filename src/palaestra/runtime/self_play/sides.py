"""The sides of a game: which team learns, who plays the other sides, and when this changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from palaestra.parallel.rank_group import RankGroup
from palaestra.runtime.self_play.self_play_behavior import SelfPlayBehavior
from palaestra.scenario.self_play_schedule import EXPLOITER, FIRST_FIXED, LEARNING, next_team
from palaestra.scenario.standing import standing

Numbers = NDArray[np.int64]
MOST_EXPLOITED = 0.9
"""Greatest share of the episodes that the exploiters of all behaviors play together."""


class Side(NamedTuple):
    """A side: a team of a behavior."""

    behavior: str
    team: int


class Sides:
    """The sides, and who plays each side in episodes that start from now on.

    One team learns at a time, even if it has several behaviors; each other side has one current opponent.
    """

    def __init__(
        self, behaviors: Mapping[str, SelfPlayBehavior], group: RankGroup, info: Callable[[str], object]
    ) -> None:
        """`behaviors`: those in self-play, as they appear. `info` prints a line."""
        self.behaviors = behaviors
        self.all: list[Side] = []
        self.learning: int | None = None
        """The team that learns now."""
        self.chosen: Numbers = np.zeros(0, np.int64)
        """Player of each side (sides,)."""
        self.decided_alone = group.known(now=True, when_met=False)
        """Whether changes are decided at every tick; with several ranks they are decided when the ranks meet, and all
        draw the same opponents."""
        self._info = info

    @property
    def teams(self) -> set[int]:
        """The teams of all sides."""
        return {side.team for side in self.all}

    @property
    def learners(self) -> list[str]:
        """The behaviors of the learning team, in the same order on all ranks."""
        return sorted({side.behavior for side in self.all if side.team == self.learning})

    @property
    def exploited_shares(self) -> NDArray[np.float64]:
        """For each side the share of episodes that its exploiter plays, (sides,); `MOST_EXPLOITED` at most in all."""
        shares = np.zeros(len(self.all))
        for i, side in enumerate(self.all):
            behavior = self.behaviors[side.behavior]
            if behavior.settings.exploiter is not None and behavior.learner.training and len(self.teams) > 1:
                shares[i] = behavior.settings.exploiter.share / len(self.of(side.behavior))
        return shares / max(shares.sum() / MOST_EXPLOITED, 1.0)

    def standing(self, behavior: str) -> dict[str, float]:
        """Returns how a policy performs against the snapshots of all pools, as metrics; empty before it met any."""
        return standing([one for other in self.behaviors.values() for one in other.games.standings(behavior)])

    def of(self, behavior: str) -> list[int]:
        """Returns the numbers of a behavior's sides."""
        return [i for i, side in enumerate(self.all) if side.behavior == behavior]

    def add(self, side: Side) -> None:
        """Adds a side. The lowest team learns first, in whatever order the environment shows the teams."""
        self.all.append(side)
        begun = any(behavior.learner.step for behavior in self.behaviors.values())
        if self.learning is None or (side.team < self.learning and not begun):
            self.learn(side.team)
            return
        behavior = self.behaviors[side.behavior]
        opponent = behavior.opponent(self.learners) if begun and self.decided_alone else behavior.oldest
        self.chosen = np.append(self.chosen, LEARNING if side.team == self.learning else opponent)

    def learn(self, team: int | None) -> None:
        """Lets a team learn, at first against the oldest snapshots."""
        self.learning = team
        self.chosen = np.array(
            [LEARNING if side.team == team else self.behaviors[side.behavior].oldest for side in self.all], np.int64
        )

    def advance(self) -> None:
        """Takes the snapshots and changes the opponents and the team that are due."""
        for name, behavior in self.behaviors.items():
            behavior.save_if_due()
            if behavior.schedule.swap_due(behavior.fixed_steps, behavior.settings):
                for i, side in self._in_order():
                    if side.behavior == name and side.team != self.learning:
                        self.chosen[i] = behavior.opponent(self.learners)
        turn = [self.behaviors[side.behavior] for side in self.all if side.team == self.learning]
        if any(change_due(one) for one in turn) or not any(one.learner.training for one in turn):
            self._change_team(turn)

    def _in_order(self) -> list[tuple[int, Side]]:
        """Returns numbers and sides in an order that all ranks have, so that all draw the same opponents."""
        numbered = list(enumerate(self.all))
        return numbered if self.decided_alone else sorted(numbered, key=lambda one: one[1])

    def _change_team(self, turn: Sequence[SelfPlayBehavior]) -> None:
        """Lets the next team that still trains learn; the previous one plays fixed policies from now on."""
        able = {side.team for side in self.all if self.behaviors[side.behavior].learner.training}
        if self.learning is None or not turn or not able:
            return
        before = self.learning
        self.learning = next_team(before, able)
        if before != self.learning:
            steps = ", ".join(f"'{name}' is at step {one.learner.step:,}" for name, one in self.behaviors.items())
            self._info(f"It is team {self.learning}'s turn to learn ({steps})")
        for behavior in turn:  # the first behavior of a team that is due ends the turn of all behaviors of that team
            behavior.schedule.change(behavior.learner.step)
        for i, side in self._in_order():
            if side.team == self.learning:
                self.chosen[i] = LEARNING
            elif side.team == before:
                self.chosen[i] = self.behaviors[side.behavior].opponent(self.learners)

    def able(self, players: Numbers) -> Numbers:
        """Returns players (areas, sides), with the current players in place of fixed opponents and exploiters that no
        longer exist; draws no random numbers, because other ranks may have nothing to replace."""
        return np.where(self._gone(players), self.chosen, players)

    def _gone(self, players: Numbers) -> NDArray[np.bool_]:
        """Returns which players (..., sides) no longer exist."""
        here = [self.behaviors[side.behavior] for side in self.all]
        lowest = np.array([FIRST_FIXED + 1 - len(one.settings.brains) for one in here], np.int64)
        alone = np.array([one.exploiter is None for one in here], np.bool_)
        return (players < lowest) | ((players == EXPLOITER) & alone)

    def state_dict(self) -> dict[str, Any]:
        """Returns the sides and who plays them."""
        return {
            "sides": [list(side) for side in self.all],
            "learning": self.learning,
            "chosen": torch.from_numpy(self.chosen.copy()),
        }

    def load_state_dict(self, state: Mapping[str, Any], present: Collection[str]) -> list[int]:
        """Restores the sides whose behaviors have appeared and are still in self-play. Returns the numbers of these
        sides in the state. `present`: all behaviors that have appeared."""
        sides = [Side(name, team) for name, team in state["sides"]]
        here = [i for i, side in enumerate(sides) if side.behavior in self.behaviors]
        self.learning = state["learning"]
        self.all = [sides[i] for i in here]
        self.chosen = state["chosen"].cpu().numpy()[here]
        for i in self._gone(self.chosen).nonzero()[0]:
            self.chosen[i] = self.behaviors[self.all[i].behavior].opponent(self.learners)
        teams = {side.team for side in sides if side.behavior in self.behaviors or side.behavior not in present}
        if self.learning is not None and self.learning not in teams:
            self.learning = next_team(self.learning, teams) if teams else None
            self.chosen[[side.team == self.learning for side in self.all]] = LEARNING
        return here


def change_due(behavior: SelfPlayBehavior) -> bool:
    """Whether the behavior's turn to learn is over."""
    learner = behavior.learner
    return learner.training and behavior.schedule.change_due(learner.step, behavior.settings)
