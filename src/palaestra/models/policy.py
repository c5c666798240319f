"""Answers a TimeStep with actions."""

from __future__ import annotations

import torch

from palaestra.core.timestep import Decision, TimeStep
from palaestra.models.actor_critic import ActorCritic
from palaestra.models.distributions import draw, for_environment


class Policy:
    """An actor and the stream of random numbers that it draws from. Call it without gradients."""

    def __init__(self, network: ActorCritic, generator: torch.Generator, deterministic: bool = False) -> None:
        self.network, self.generator, self.deterministic = network, generator, deterministic

    def act(self, step: TimeStep) -> Decision:
        """An action for every slot; those of slots that are not acting mean nothing."""
        network = self.network
        output = network.act(network.prepare(step.obs))
        sample, log_prob = draw(output, network.log_std, step.action_mask, network.spec.action, self.generator, self.deterministic)
        return Decision(for_environment(sample), sample, log_prob, memory=log_prob[:, :0])
