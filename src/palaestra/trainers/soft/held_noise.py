"""A policy whose agents keep the noise of their continuous actions for several decisions, so that they explore further.

New noise for every decision cancels out if many decisions pass before they have an effect. The number of decisions for
which an agent keeps its noise is drawn each time from a truncated zeta law: Dabney et al. 2020,
https://arxiv.org/abs/2006.01782.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from palaestra.core.timestep import Action
from palaestra.models.policy import Actor, NetworkPolicy, PendingDecision
from palaestra.models.sac_networks import SoftActorCritic

EXPONENT = 2.0
"""n decisions have a probability proportional to n ** -EXPONENT."""


class HeldNoisePolicy(NetworkPolicy):
    """Acts as `NetworkPolicy` does, but keeps its noise for several decisions.

    After each slot's recurrent state come its noise and the number of decisions for which the noise is kept; like
    recurrent state, they end with an episode and are saved.
    """

    def __init__(
        self, network: SoftActorCritic, generator: torch.Generator, deterministic: bool, *, longest: int
    ) -> None:
        """`longest`: most decisions for which noise is kept."""
        super().__init__(network, generator, deterministic)
        numbers = network.spec.action.continuous
        self.recurrent_state = torch.zeros((0, network.memory_size + numbers + 1), device=generator.device)
        self.longest = longest
        self._shares = zeta_shares(longest).to(generator.device)

    def _choose(
        self, obs: tuple[Tensor, ...], mask: Tensor | None, recurrent_state: Tensor, network: Actor
    ) -> tuple[PendingDecision, Tensor]:
        size = network.memory_size
        held = self._advance(recurrent_state[:, size:])
        holding = cast(Actor, Holding(network, held[:, :-1]))
        chosen, after = super()._choose(obs, mask, recurrent_state[:, :size], holding)
        return chosen, torch.cat([after, held], 1)

    def _advance(self, held: Tensor) -> Tensor:
        """Returns noise and how much longer it is kept, (R, continuous + 1), for the next decision."""
        new = torch.empty_like(held).normal_(generator=self.generator)
        drawn = torch.empty_like(held[:, -1:]).uniform_(generator=self.generator)
        new[:, -1:] = 1.0 + torch.searchsorted(self._shares, drawn, right=True)
        after = torch.where(held[:, -1:] < 1, new, held)
        after[:, -1] -= 1
        return after


class Holding:
    """An actor whose continuous actions have the noise that is given, (R, continuous)."""

    def __init__(self, network: Any, noise: Tensor) -> None:
        self._network = network
        self._noise = noise

    def __getattr__(self, name: str) -> Any:
        return getattr(self._network, name)

    def draw(self, output: Tensor, *how: Any) -> tuple[Action, list[Tensor]]:
        """Draws a sample as the actor does, but with the noise that is given."""
        sample, branches = self._network.draw(output, *how)
        if how[-1]:  # deterministic
            return sample, branches
        mean, log_std = self._network.gaussian(output)
        return Action(torch.addcmul(mean, self._noise, log_std.exp()), sample.discrete), branches


def zeta_shares(longest: int) -> Tensor:
    """Returns the probability of at most n decisions, for n from 1 to below `longest`, (longest - 1,)."""
    chances = torch.arange(1, longest + 1, dtype=torch.float64) ** -EXPONENT
    return (chances.cumsum(0) / chances.sum())[:-1].float()


def policy_of(network: Any, generator: torch.Generator, deterministic: bool, longest: int) -> NetworkPolicy:
    """Returns a policy that keeps its noise for up to `longest` decisions; for 1, an ordinary policy."""
    if longest == 1:
        return NetworkPolicy(network, generator, deterministic)
    return HeldNoisePolicy(network, generator, deterministic, longest=longest)
