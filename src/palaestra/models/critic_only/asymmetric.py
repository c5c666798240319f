"""An on-policy network whose critic sees more than its actor.

Pinto et al. 2017, https://arxiv.org/abs/1710.06542: the critic is needed for learning alone, so it may see observations
that the policy lacks. The critic also sees what the actor sees: Baisero and Amato 2022,
https://arxiv.org/abs/2105.11674, show that values of the state alone mislead a policy with memory; values of state and
history do not mislead it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from palaestra.core.row_index import Sequences
from palaestra.core.specs import BehaviorSpec
from palaestra.models.actor_critic import ACTOR, ActorCritic
from palaestra.models.critic_only.sight import (
    critic_places,
    has_critics_inputs,
    learn_both,
    narrowed,
    prepared,
    shown_to_actor,
)
from palaestra.models.settings import NetworkSettings
from palaestra.models.trunk import Inputs, StackedMLP, Trace, Trunk
from palaestra.parallel.rank_group import ALONE, RankGroup


class CriticTrunk(Trunk):
    """The critic's encoders, bodies and memory, over all observations."""

    def __init__(self, spec: BehaviorSpec, settings: NetworkSettings, shown: tuple[int, ...]) -> None:
        """`shown`: the observations that the actor sees too."""
        super().__init__(spec, settings, 1)
        self.places = critic_places(spec, shown)

    def encode(self, index: int, inputs: Inputs, extra: Tensor | None = None) -> Tensor:
        """Returns the input of the critic's body from the inputs of actor and critic, (N, width)."""
        return super().encode(index, tuple(inputs[i] for i in self.places), extra)


@dataclass(frozen=True, slots=True)
class BothBodies:
    """Stacked layers of an actor and a critic with different inputs, as one `StackedMLP` of two networks."""

    bodies: tuple[StackedMLP, StackedMLP]

    def trace(self, encodings: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Trace, Trace]]:
        """Maps two encodings, each (1, N, in), to features (2, N, hidden), and returns the inputs of `backward`."""
        (actors, trace), (critics, other) = (body.trace(x) for body, x in zip(self.bodies, encodings, strict=True))
        return torch.cat([actors, critics]), (trace, other)

    def backward(self, traces: tuple[Trace, Trace], grad: Tensor) -> None:
        """Writes every parameter's `.grad` from the gradient of the features, (2, N, hidden)."""
        for body, trace, part in zip(self.bodies, traces, grad.split(1), strict=True):
            body.backward(trace, part)


class AsymmetricActorCritic(Trunk):
    """Actor and critic with separate trunks: the inherited trunk is the actor's; its spec lacks the observations for
    the critic alone.

    The class has the members of `ActorCritic` and uses its methods; `critic` computes everything of the network CRITIC.
    With only the actor's observations, as in demonstrations, it acts but has no values.
    """

    reward_heads = ("value_head.",)
    action_head: nn.Linear

    def __init__(
        self,
        spec: BehaviorSpec,
        settings: NetworkSettings,
        signals: int = 1,
        value_head: Callable[[int, int], nn.Module] = nn.Linear,
    ) -> None:
        """`spec`: of all observations. Raises ConfigError where `settings.critic_only` does not fit it."""
        shown = shown_to_actor(spec, settings)
        super().__init__(narrowed(spec, shown), settings, 1)
        self.shown = shown
        self.whole = spec
        """Observations of the critic, and actions."""
        self.networks = 2
        self.critic = CriticTrunk(spec, settings, shown)
        self.measured = self.critic.vectors
        self.add_heads(signals, value_head)

    add_heads = ActorCritic.add_heads
    act, outputs = ActorCritic.act, ActorCritic.outputs
    value, value_with = ActorCritic.value, ActorCritic.value_with
    forward, output_and_features = ActorCritic.forward, ActorCritic.output_and_features
    draw, drawn_log_prob, for_environment = ActorCritic.draw, ActorCritic.drawn_log_prob, ActorCritic.for_environment
    played, branch_log_probs = ActorCritic.played, ActorCritic.branch_log_probs

    @property
    def plain(self) -> bool:
        """Whether only stacked layers lie between prepared inputs and heads, so that the gradient has a closed form."""
        return super().plain and self.critic.plain and isinstance(self.value_head, nn.Linear)

    @property
    def both(self) -> BothBodies:
        """The stacked layers of actor and critic, for the gradient in closed form."""
        return BothBodies((self.body, self.critic.body))

    def stacked(self, inputs: Inputs, extra: Tensor | None = None) -> Any:
        """Returns the encodings that the bodies of actor and critic take, (1, N, width) each, as `both` reads them."""
        return tuple(trunk.encode(0, inputs, extra).unsqueeze(0) for trunk in (self, self.critic))

    def prepare(self, obs: tuple[Tensor, ...]) -> Inputs:
        """Prepares all observations of the behavior, or only those of the actor."""
        return prepared(self, self.critic, obs)

    def learn_statistics(self, vectors: tuple[Tensor, ...], group: RankGroup = ALONE) -> None:
        """Updates the normalizers of actor and critic with rows of vectors, of `measured` or of the actor alone."""
        learn_both(self, self.critic, vectors, group)

    def features(self, index: int, inputs: Inputs, extra: Tensor | None = None) -> Tensor:
        """Returns the features of the actor or the critic, (N, hidden), before their memory."""
        trunk = super() if index == ACTOR else self.critic
        return trunk.features(0, inputs, extra)

    def all_features(self, inputs: Inputs, extra: Tensor | None = None) -> Tensor:
        """Returns the features of both, (2, N, hidden), before their memory."""
        return torch.stack([self.features(i, inputs, extra) for i in range(self.networks)])

    def remember(self, index: int, inputs: Inputs, recurrent_state: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the features of actor or critic and its state after a decision; `recurrent_state` (N, L): of both."""
        if index == ACTOR:
            return super().remember(0, inputs, recurrent_state)
        return self.critic.remember(0, inputs, self._of_critic(recurrent_state))

    def unroll(self, index: int, features: Tensor, sequences: Sequences | None) -> Tensor:
        """Returns features after the memory of actor or critic, (N, width), along sequences; without memory they stay
        the same."""
        if index == ACTOR or sequences is None:
            return super().unroll(0, features, sequences)
        state = self._of_critic(sequences.recurrent_state)
        return self.critic.unroll(0, features, replace(sequences, recurrent_state=state))

    def decide(self, inputs: Inputs, recurrent_state: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the actor's packed output and the recurrent state (N, L) after this decision: of actor and critic, if
        the critic's observations are given."""
        if self.memory is None:
            return self.act(inputs), recurrent_state
        features, after = self.remember(ACTOR, inputs, recurrent_state)
        critics = self._of_critic(recurrent_state)
        if has_critics_inputs(self, inputs):
            critics = self.critic.remember(0, inputs, critics)[1]
        return self.action_head(features), torch.cat([after, critics], 1)

    def _of_critic(self, recurrent_state: Tensor) -> Tensor:
        assert self.memory is not None
        return recurrent_state[:, self.memory.size :]
