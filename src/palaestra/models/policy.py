"""The policy that answers a TimeStep with actions from a network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Action, Decision, TimeStep
from palaestra.models.trunk import Inputs


class PendingDecision:
    """Actions ready for the environment. The rest of the decision is computed after the environment has them."""

    __slots__ = ("_finish", "action", "learned")

    def __init__(self, action: Action, finish: Callable[[], Decision], learned: Tensor | None = None) -> None:
        """`learned` (S,): slots that are learned from; None: all. For other slots only the action is valid."""
        self.action = action
        self._finish = finish
        self.learned = learned

    def decision(self) -> Decision:
        """Returns the whole decision. Call this method once, without gradients, before the policy learns."""
        return self._finish()


class Actor(Protocol):
    """Network with which a policy chooses actions. In shapes: N rows, L recurrent state, A action components."""

    spec: BehaviorSpec

    @property
    def memory_size(self) -> int:
        """L, the size of the recurrent state; 0 without an LSTM."""
        ...

    def prepare(self, obs: tuple[Tensor, ...]) -> Inputs:
        """Prepares observations (N, *shape) in the order of the spec for `decide`."""
        ...

    def decide(self, inputs: Inputs, recurrent_state: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the packed output, (N, outputs), and the recurrent state (N, L) after this decision."""
        ...

    def draw(
        self, output: Tensor, mask: Tensor | None, generator: torch.Generator, deterministic: bool
    ) -> tuple[Action, list[Tensor]]:
        """Draws a sample (`deterministic`: the likeliest action); returns it with the branches' log-probabilities.
        `mask`: (N, choices)."""
        ...

    def drawn_log_prob(self, output: Tensor, sample: Action, branches: list[Tensor]) -> Tensor:
        """Returns the log-probability (N, A) of a sample of `draw`; (N, 0) if it is not needed for learning."""
        ...

    def for_environment(self, sample: Action) -> Action:
        """Returns a sample as the environment receives it: continuous actions within -1..1."""
        ...


class NetworkPolicy:
    """An actor, the random stream from which it draws, and each slot's recurrent state. Call it without gradients."""

    def __init__(self, network: Actor, generator: torch.Generator, deterministic: bool = False) -> None:
        self.network = network
        self.generator = generator
        self.deterministic = deterministic
        self.recurrent_state = torch.zeros((0, network.memory_size), device=generator.device)
        """Recurrent state (S, L) of the slots of the last table; L is 0 without an LSTM."""

    def forget(self) -> None:
        """Clears all recurrent states, because the slots now hold other agents, for example after a `reset`."""
        self.recurrent_state = self.recurrent_state[:0]

    def act(self, step: TimeStep) -> Decision:
        """Returns a decision for every slot; the decisions of slots that are not acting are ignored."""
        return self.choose(step).decision()

    def choose(self, step: TimeStep) -> PendingDecision:
        """Returns the same decision as `act`, with the actions ready first, for callers that wait for them."""
        recurrent_state = self.see(step)
        if self.network.spec.steady or step.reward.device.type != "cpu":
            return self._of_all(step, recurrent_state)
        rows = step.acting.nonzero().squeeze(1)
        slots = len(step.acting)
        if len(rows) == slots:
            return self._of_all(step, recurrent_state)
        # where agents are few or take turns, only they cost anything; an accelerator would have to be waited for
        few, after = self.choose_rows(step, rows, recurrent_state, self.network)
        if after.numel():
            self.recurrent_state = recurrent_state.index_copy(0, rows, after)
        action = few.action.each(lambda x: spread(x, rows, slots))
        return PendingDecision(action, lambda: whole(few, rows, action, recurrent_state))

    def choose_rows(
        self, step: TimeStep, rows: Tensor, recurrent_state: Tensor, network: Actor
    ) -> tuple[PendingDecision, Tensor]:
        """Returns a network's choice for rows (R,), and the state (R, L) after it; `recurrent_state` has the states of
        all slots."""
        mask = None if step.action_mask is None else step.action_mask.index_select(0, rows)
        return self._choose(
            tuple(x.index_select(0, rows) for x in step.obs), mask, recurrent_state.index_select(0, rows), network
        )

    @torch.no_grad()
    def blank(self, step: TimeStep) -> Decision:
        """Returns a decision with the shapes of all columns; random numbers and recurrent state do not change."""
        state = self.generator.get_state()
        recurrent_state = self.recurrent_state
        decision = self.act(step)
        self.generator.set_state(state)
        self.recurrent_state = recurrent_state
        return decision

    def see(self, step: TimeStep) -> Tensor:
        """Returns the recurrent state (S, L) with which each slot of this table acts, reset to zeros if the slot's
        episode ended or was lost.

        `choose` calls it. On a tick on which no slot acts, call only this method.
        """
        slots = len(step.acting)
        if len(self.recurrent_state) != slots:
            kept = self.recurrent_state[:slots]
            self.recurrent_state = torch.cat([kept, kept.new_zeros((slots - len(kept), kept.shape[1]))])
        if self.recurrent_state.shape[1]:
            over = (
                step.terminated | step.truncated if step.lost is None else step.terminated | step.truncated | step.lost
            )
            self.recurrent_state = self.recurrent_state.masked_fill(over.unsqueeze(1), 0.0)
        return self.recurrent_state

    def _of_all(self, step: TimeStep, recurrent_state: Tensor) -> PendingDecision:
        chosen, after = self._choose(step.obs, step.action_mask, recurrent_state, self.network)
        if after.shape[1]:
            # an empty slot's state stays as it is
            self.recurrent_state = (
                after if self.network.spec.steady else torch.where(step.acting.unsqueeze(1), after, recurrent_state)
            )
        return chosen

    def _choose(
        self, obs: tuple[Tensor, ...], mask: Tensor | None, recurrent_state: Tensor, network: Actor
    ) -> tuple[PendingDecision, Tensor]:
        """Returns the choice for these rows, and the recurrent state after it."""
        output, after = network.decide(network.prepare(obs), recurrent_state)
        sample, branches = network.draw(output, mask, self.generator, self.deterministic)
        action = network.for_environment(sample)

        def finish() -> Decision:
            return Decision(action, sample, network.drawn_log_prob(output, sample, branches), recurrent_state)

        return PendingDecision(action, finish), after


def whole(few: PendingDecision, rows: Tensor, action: Action, recurrent_state: Tensor) -> Decision:
    """Returns the decision of these rows as a table of all slots, given `action` and the state (S, L) before it."""
    own, slots = few.decision(), len(recurrent_state)
    sample = own.sample.each(lambda x: spread(x, rows, slots))
    state = recurrent_state[:, : own.recurrent_state.shape[1]]  # the rest is not learned from
    return Decision(action, sample, spread(own.log_prob, rows, slots), state)


def spread(values: Tensor, rows: Tensor, slots: int) -> Tensor:
    """Returns a column for all slots with `values` (R, ...) in these rows and zeros elsewhere."""
    column = values.new_zeros((slots, *values.shape[1:]))
    return column.index_copy_(0, rows, values) if values.numel() else column
