"""Answers a TimeStep with actions."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from palaestra.core.timestep import Action, Decision, TimeStep
from palaestra.models.actor_critic import ActorCritic
from palaestra.models.distributions import draw, drawn_log_prob, for_environment


class Chosen:
    """Actions for a table, ready for the environment. What else belongs to the decision is worked out once that has them."""

    __slots__ = ("_finish", "action")

    def __init__(self, action: Action, finish: Callable[[], Decision]) -> None:
        self.action, self._finish = action, finish

    def decision(self) -> Decision:
        """The whole decision. Call it once, without gradients, before the policy learns."""
        return self._finish()


class Policy:
    """An actor and the stream of random numbers that it draws from. Call it without gradients."""

    def __init__(self, network: ActorCritic, generator: torch.Generator, deterministic: bool = False) -> None:
        self.network, self.generator, self.deterministic = network, generator, deterministic

    def act(self, step: TimeStep) -> Decision:
        """An action for every slot; those of slots that are not acting mean nothing."""
        return self.choose(step).decision()

    def choose(self, step: TimeStep) -> Chosen:
        """The same with the actions first, for whoever waits for them."""
        if self.network.spec.steady or step.reward.device.type != "cpu":
            return self._choose(step.obs, step.action_mask)
        rows, slots = step.acting.nonzero().squeeze(1), len(step.acting)
        if len(rows) == slots:
            return self._choose(step.obs, step.action_mask)
        # where agents are few or take turns, only they cost anything; an accelerator would have to be waited for
        mask = None if step.action_mask is None else step.action_mask.index_select(0, rows)
        few = self._choose(tuple(x.index_select(0, rows) for x in step.obs), mask)
        action = Action(spread(few.action.continuous, rows, slots), spread(few.action.discrete, rows, slots))

        def finish() -> Decision:
            decision = few.decision()
            sample = Action(spread(decision.sample.continuous, rows, slots), action.discrete)
            log_prob = spread(decision.log_prob, rows, slots)
            return Decision(action, sample, log_prob, memory=log_prob[:, :0])

        return Chosen(action, finish)

    def _choose(self, obs: tuple[Tensor, ...], mask: Tensor | None) -> Chosen:
        network, spec = self.network, self.network.spec.action
        output = network.act(network.prepare(obs))
        sample, branches = draw(output, network.log_std, mask, spec, self.generator, self.deterministic)
        action = for_environment(sample)

        def finish() -> Decision:
            log_prob = drawn_log_prob(output, network.log_std, sample, branches, spec)
            return Decision(action, sample, log_prob, memory=log_prob[:, :0])

        return Chosen(action, finish)


def spread(values: Tensor, rows: Tensor, slots: int) -> Tensor:
    """`values` (R, ...) in these rows of a column for all slots, zeros elsewhere."""
    column = values.new_zeros((slots, *values.shape[1:]))
    return column.index_copy_(0, rows, values) if values.numel() else column
