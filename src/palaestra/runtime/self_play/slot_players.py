"""The player of each slot in the current episodes of self-play."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from palaestra.core.rng_state import restore_rng, save_rng
from palaestra.core.timestep import TimeStep
from palaestra.envs.wrapper import EnvWrapper
from palaestra.runtime.collect.area_episodes import AreaEpisodes
from palaestra.runtime.self_play.sides import Side, Sides
from palaestra.scenario.self_play_schedule import EXPLOITER, LEARNING, NEWEST

Numbers = NDArray[np.int64]
PATIENCE = 20
"""Mean number of finished episodes of an agent after which the episodes of whole areas count as never ending."""


class SlotPlayers:
    """The side of each slot, and the player of each side in each area.

    Players and the learning team of an area stay the same until its episode ends. If an area holds several games that
    cannot be told apart (`EnvTraits.shared_areas`), each slot counts as a separate area.
    """

    def __init__(self, env: EnvWrapper, sides: Sides, seed: int = 0) -> None:
        """`seed` of the draws of the episodes that exploiters play, this rank's own."""
        self._sides = sides
        self._rng = np.random.default_rng([seed, *b"exploiters"])
        self.by_slot = env.traits.shared_areas
        self.areas = AreaEpisodes(env.num_areas)
        self.side_of: dict[str, Numbers] = {}
        """Side of each slot (S,), by behavior; -1: no side."""
        self._players: dict[str, Numbers] = {}
        """Present player of each side, (areas, sides); by behavior if the behavior's slots are areas of their own."""
        self._restarts = 0
        """Number of agents' episodes that ended since the last episode of the area."""

    def begin(self, steps: Mapping[str, TimeStep]) -> None:
        """Starts new episodes in all areas."""
        self.areas.begin(steps)
        self._players = {}
        self.side_of = {}

    def register(self, steps: Mapping[str, TimeStep]) -> bool:
        """Registers new slots and teams. Returns whether there were any."""
        grew = False
        for name, step in steps.items():
            steady = self._sides.behaviors[name].learner.spec.steady
            if len(step.team) == len(self.side_of.get(name, ())) and (steady or not step.acting.any()):
                continue
            teams = step.team.cpu().numpy()
            for team in np.unique(teams[step.acting.cpu().numpy()]).tolist():
                if Side(name, team) not in self._sides.all:
                    self.add_side(Side(name, team))
                    grew = True
            side_of = np.full(len(teams), -1)
            for i in self._sides.of(name):
                side_of[teams == self._sides.all[i].team] = i
            grew |= name not in self.side_of or not np.array_equal(side_of, self.side_of[name])
            self.side_of[name] = side_of
        return grew

    def add_side(self, side: Side) -> None:
        """Adds a side, and its player in the areas in which it had not appeared before."""
        self._sides.add(side)
        player = self._sides.chosen[-1]
        for name, players in self._players.items():
            self._players[name] = np.concatenate([players, np.full((len(players), 1), player)], 1)

    def never_end(self, steps: Mapping[str, TimeStep], over: Tensor) -> bool:
        """Whether agents' episodes keep ending although no area's episode is ever over."""
        if self.by_slot:
            return False
        if bool(over.any()):
            self._restarts = 0
            return False
        self._restarts += sum(int((step.terminated | step.truncated).sum()) for step in steps.values())
        return self._restarts > PATIENCE * sum(len(step.acting) for step in steps.values())

    def assign(self, steps: Mapping[str, TimeStep], over: Tensor | None) -> None:
        """Sets the players in areas that start an episode, marked in `over` (areas,); None: no area starts one. They
        get the chosen players, or an exploiter and the newest policies."""
        exploited = self._exploited()
        for key in steps if self.by_slot else [""]:
            rows = len(steps[key].acting) if self.by_slot else self.areas.areas
            players = np.tile(self._sides.chosen, (rows, 1))
            if exploited is not None:
                side = exploited[steps[key].area.cpu().numpy()] if self.by_slot else exploited
                players[side >= 0] = NEWEST
                players[side >= 0, side[side >= 0]] = EXPLOITER
            before = self._players.get(key)
            if before is not None:
                if self.by_slot:
                    stays = self.areas.going[key].cpu().numpy()
                else:
                    stays = np.ones(rows, bool) if over is None else ~over.cpu().numpy()
                stays[len(before) :] = False
                players[stays] = before[stays[: len(before)]]
            self._players[key] = players

    def _exploited(self) -> Numbers | None:
        """Draws the side that an exploiter plays in each area's next episode, (areas,); -1: no side."""
        shares = self._sides.exploited_shares
        if not shares.any():
            return None
        drawn = np.searchsorted(shares.cumsum(), self._rng.random(self.areas.areas), side="right")
        return np.where(drawn < len(shares), drawn, -1)

    def of_slots(self, name: str, step: TimeStep) -> Numbers:
        """Returns the player of each slot, (S,)."""
        side = self.side_of[name]
        players = self.of_episodes(name, np.arange(len(step.acting)), step)
        return np.where(side < 0, LEARNING, players[np.arange(len(side)), side])

    def of_episodes(self, name: str, slots: Numbers, step: TimeStep) -> Numbers:
        """Returns the players of all sides in the episodes of R slots, (R, sides)."""
        return self._players[name][slots] if self.by_slot else self.of_areas[step.area.cpu().numpy()[slots]]

    @property
    def of_areas(self) -> Numbers:
        """The players of all sides in each area, (areas, sides), if each area is a separate game."""
        return self._players[""]

    def playing(self, name: str) -> set[int]:
        """Returns the players of a behavior's sides, now and in the next episodes."""
        own = self._sides.of(name)
        numbers = [self._sides.chosen[own], *(players[:, own].ravel() for players in self._players.values())]
        return set(np.unique(np.concatenate(numbers)).tolist())

    def state_dict(self) -> dict[str, Any]:
        """Returns the players, and which episodes are unfinished."""
        players = {name: torch.from_numpy(players.copy()) for name, players in self._players.items()}
        return {"players": players, "areas": self.areas.state_dict(), "exploited": save_rng(self._rng)}

    def load_state_dict(self, state: Mapping[str, Any], here: Sequence[int]) -> None:
        """Restores the players of the sides `here`, given by their numbers in the state."""
        self.areas.load_state_dict(state["areas"])
        if "exploited" in state:  # which early checkpoints lack
            restore_rng(self._rng, state["exploited"])
        players = state["players"].items()
        self._players = {name: self._sides.able(numbers.cpu().numpy()[:, here]) for name, numbers in players}
