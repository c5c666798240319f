"""Bidding (Goofspiel): two players bid cards 1 to 5 for prizes of 1 to 5 points; the higher card takes the prize, equal
cards take nothing, and who has more points wins.

Every plan has an answer, as in rock-paper-scissors: who bids each prize's own number loses to one more everywhere and
the lowest card on the highest prize, and so round. `exploitability` says exactly how far a policy is from one that has
no answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from two_players import TwoPlayers

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.core.timestep import Action, TimeStep

Hand = tuple[int, ...]
State = tuple[Hand, Hand, int]
"""Own cards and the other's, rising, and the lead in points."""
Policy = Callable[[list[State], int], NDArray[np.float64]]
"""Returns the probability of each card (states, cards); the number is that of all cards."""


class Bidding(TwoPlayers):
    """The prizes come in rising order."""

    saved = ("hands", "lead")

    def __init__(self, areas: int = 128, cards: int = 5) -> None:
        self.num_areas = areas
        self.cards = cards
        spec = BehaviorSpec((ObsSpec("table", (3 * cards + 1,)),), ActionSpec(0, (cards,)), steady=True)
        self.behaviors = {"Bidder": spec}
        self._start()

    def _start(self) -> None:
        self.hands = torch.ones(self.num_areas, 2, self.cards, dtype=torch.bool)
        self.lead = torch.zeros(self.num_areas)  # of the first player

    def reset(self, seed: int) -> dict[str, TimeStep]:
        self._start()
        return {"Bidder": self._table(torch.zeros(self.num_areas), torch.zeros(self.num_areas, dtype=torch.bool))}

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        bids = actions["Bidder"].discrete[:, 0].view(-1, 2)
        prize = self.cards - self.hands[0, 0].sum() + 1
        self.hands = self.hands.scatter(2, bids.unsqueeze(2), value=False)
        self.lead = self.lead + prize * torch.sign(bids[:, 0] - bids[:, 1])
        over = ~self.hands.any(2).any(1)  # of all areas on the same tick
        result = torch.where(over, torch.sign(self.lead), 0.0)
        if bool(over.any()):
            self._start()
        return {"Bidder": self._table(result, over)}

    def _table(self, result: Tensor, over: Tensor) -> TimeStep:
        seen = torch.stack(
            [encode(hands, sign * self.lead) for hands, sign in ((self.hands, 1), (self.hands.flip(1), -1))], 1
        )
        obs = seen.flatten(0, 1)
        return self.table(result, over, obs, obs, self.hands.flatten(0, 1).clone())


def make(areas: int = 128) -> Bidding:
    return Bidding(areas)


def encode(hands: Tensor, lead: Tensor) -> Tensor:
    """Returns what players observe, (N, numbers): own cards, the other's, which prize it is, and the lead.

    `hands` (N, 2, cards), `lead` (N,).
    """
    cards = hands.shape[2]
    prize = torch.nn.functional.one_hot((cards - hands[:, 0].sum(1)).clamp(max=cards - 1), cards)
    return torch.cat([hands.flatten(1).float(), prize.float(), lead.unsqueeze(1) / cards], 1)


def rounds(cards: int) -> list[list[State]]:
    """Lists the states by round, the first first."""
    found: list[list[State]] = [[(tuple(range(cards)), tuple(range(cards)), 0)]]
    for prize in range(1, cards):
        after = {next_state(state, own, other, prize) for state in found[-1] for own in state[0] for other in state[1]}
        found.append(sorted(after))
    return found


def next_state(state: State, own: int, other: int, prize: int) -> State:
    mine, theirs, lead = state
    return (
        tuple(c for c in mine if c != own),
        tuple(c for c in theirs if c != other),
        lead + prize * int(np.sign(own - other)),
    )


def exploitability(policy: Policy, cards: int = 5) -> float:
    """Returns what the best answer to a policy gets on average: wins less losses, 0 if nothing beats it. By dynamic
    programming: a round's best bid, given what the policy bids there and what each outcome is worth afterwards.
    """
    worth: dict[State, float] = {}
    for prize, this in reversed(list(enumerate(rounds(cards), 1))):
        seen = [(theirs, mine, -lead) for mine, theirs, lead in this]  # by the policy
        chances = policy(seen, cards)
        before = {}
        for state, chance in zip(this, chances, strict=True):
            values = [
                sum(chance[other] * _worth(next_state(state, own, other, prize), worth) for other in state[1])
                for own in state[0]
            ]
            before[state] = float(max(values))
        worth = before
    return next(iter(worth.values()))


def _worth(state: State, worth: Mapping[State, float]) -> float:
    return worth[state] if state[0] else float(np.sign(state[2]))
