"""Tic-tac-toe as a table, for long trainings: the observations, moves and rewards of PettingZoo's, some ten times as
fast.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from two_players import TwoPlayers

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.core.timestep import Action, TimeStep

LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))


class TicTacToe(TwoPlayers):
    saved = ("boards", "turn")

    def __init__(self, areas: int = 128) -> None:
        self.num_areas = areas
        self.behaviors = {"player": BehaviorSpec((ObsSpec("board", (2, 3, 3)),), ActionSpec(0, (9,)))}
        self.lines = torch.zeros(8, 9)
        for row, line in enumerate(LINES):
            self.lines[row, list(line)] = 1.0
        self.boards = torch.zeros(areas, 2, 9)  # the squares of each player
        self.turn = torch.zeros(areas, dtype=torch.int64)

    def reset(self, seed: int) -> dict[str, TimeStep]:
        self.boards.zero_()
        self.turn.zero_()
        none = torch.zeros(self.num_areas)
        return {"player": self._table(none, none > 0, self.boards)}

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        areas = torch.arange(self.num_areas)
        square = actions["player"].discrete[:, 0].view(-1, 2)[areas, self.turn]
        played = self.boards.clone()
        played[areas, self.turn, square] = 1.0
        won = ((played[areas, self.turn] @ self.lines.T) == 3).any(1)
        over = won | (played.sum((1, 2)) == 9)
        result = torch.where(won, 1.0 - 2.0 * self.turn, 0.0)  # of the first player
        self.boards = torch.where(over[:, None, None], 0.0, played)
        self.turn = torch.where(over, 0, 1 - self.turn)
        return {"player": self._table(result, over, played)}

    def _table(self, result: Tensor, over: Tensor, played: Tensor) -> TimeStep:
        acting = torch.stack([self.turn == 0, self.turn == 1], 1).flatten()
        free = (self.boards.sum(1) == 0).repeat_interleave(2, 0)
        return self.table(result, over, _seen(self.boards), _seen(played), free | ~acting.unsqueeze(1), acting)


def _seen(boards: Tensor) -> Tensor:
    """The board as each player sees it: own squares, then the other's."""
    return torch.stack([boards, boards.flip(1)], 1).view(-1, 2, 3, 3)


def make(areas: int = 128) -> TicTacToe:
    return TicTacToe(areas)
