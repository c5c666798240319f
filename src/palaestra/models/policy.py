"""Answers a TimeStep with actions."""

from __future__ import annotations

import torch
from torch import Tensor

from palaestra.core.timestep import Action, Decision, TimeStep
from palaestra.models.actor_critic import ActorCritic
from palaestra.models.distributions import draw, for_environment


class Policy:
    """An actor and the stream of random numbers that it draws from. Call it without gradients."""

    def __init__(self, network: ActorCritic, generator: torch.Generator, deterministic: bool = False) -> None:
        self.network, self.generator, self.deterministic = network, generator, deterministic

    def act(self, step: TimeStep) -> Decision:
        """An action for every slot; those of slots that are not acting mean nothing."""
        if self.network.spec.steady or step.reward.device.type != "cpu":
            return self._decision(*self._draw(step.obs, step.action_mask))
        rows, slots = step.acting.nonzero().squeeze(1), len(step.acting)
        if len(rows) == slots:
            return self._decision(*self._draw(step.obs, step.action_mask))
        # where agents are few or take turns, only they cost anything; an accelerator would have to be waited for
        mask = None if step.action_mask is None else step.action_mask.index_select(0, rows)
        sample, log_prob = self._draw(tuple(x.index_select(0, rows) for x in step.obs), mask)
        everyone = Action(spread(sample.continuous, rows, slots), spread(sample.discrete, rows, slots))
        return self._decision(everyone, spread(log_prob, rows, slots))

    def _draw(self, obs: tuple[Tensor, ...], mask: Tensor | None) -> tuple[Action, Tensor]:
        network = self.network
        output = network.act(network.prepare(obs))
        return draw(output, network.log_std, mask, network.spec.action, self.generator, self.deterministic)

    @staticmethod
    def _decision(sample: Action, log_prob: Tensor) -> Decision:
        return Decision(for_environment(sample), sample, log_prob, memory=log_prob[:, :0])


def spread(values: Tensor, rows: Tensor, slots: int) -> Tensor:
    """`values` (R, ...) in these rows of a column for all slots, zeros elsewhere."""
    column = values.new_zeros((slots, *values.shape[1:]))
    return column.index_copy_(0, rows, values) if values.numel() else column
