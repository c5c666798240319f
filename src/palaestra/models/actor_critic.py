"""The network of a behavior that learns on-policy: observations in, action distribution and values out."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from palaestra.core.row_index import Sequences
from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Action
from palaestra.models.distributions import branch_log_probs, draw, drawn_log_prob, for_environment, played
from palaestra.models.settings import NetworkSettings
from palaestra.models.trunk import Inputs, Trunk

ACTOR, CRITIC = 0, -1
"""Index of a body or encoder: the last is the critic's, and also the actor's if they share one."""
MEAN_GAIN, LOGIT_GAIN = 0.2, 0.1


@torch.no_grad()
def start_action_head(head: nn.Linear, numbers: int) -> None:
    """Draws small weights for the outputs of continuous actions (the first `numbers` outputs), and smaller weights for
    logits."""
    head.weight[:numbers].normal_(std=MEAN_GAIN / math.sqrt(head.in_features))
    head.weight[numbers:].normal_(std=LOGIT_GAIN / math.sqrt(head.in_features))
    head.bias.zero_()


class ActorCritic(Trunk):
    """Actor and critic over the same observations, with bodies of one shape (or one body for both: `shared_critic`).

    The actor's head gives means and logits side by side (see `models.distributions`). With memory, each decision has a
    row of memory (see `models.lstm`), the actor's part and then the critic's: `decide` advances by one decision; for
    learning, `sequences` list the rows that follow one another.
    """

    def __init__(
        self,
        spec: BehaviorSpec,
        settings: NetworkSettings,
        signals: int = 1,
        shared_critic: bool = False,
        value_head: Callable[[int, int], nn.Module] = nn.Linear,
    ) -> None:
        """`value_head` makes the layer from features to values, given the numbers of both; its weights are 0."""
        super().__init__(spec, settings, 1 if shared_critic else 2)
        self.add_heads(signals, value_head)

    def add_heads(self, signals: int, value_head: Callable[[int, int], nn.Module]) -> None:
        """Adds the layers after the features: packed actions, values, which begin at 0, and log-deviations."""
        self.signals = signals
        action = self.spec.action
        self.action_head = nn.Linear(self.width, action.continuous + action.choices)
        self.value_head = value_head(self.width, signals)
        self.log_std = nn.Parameter(torch.zeros(action.continuous))
        start_action_head(self.action_head, action.continuous)
        if isinstance(self.value_head, nn.Linear):
            # not at random as in ML-Agents: where streams are short, a policy follows what its critic was born with
            nn.init.zeros_(self.value_head.weight)
            nn.init.zeros_(self.value_head.bias)

    @property
    def plain(self) -> bool:
        """Whether only stacked layers lie between prepared inputs and heads, so that the gradient has a closed form."""
        return super().plain and isinstance(self.value_head, nn.Linear)

    def act(self, inputs: Inputs) -> Tensor:
        """Returns the actor's packed output, (N, continuous + choices), for networks without memory."""
        return self.action_head(self.features(ACTOR, inputs))

    def decide(self, inputs: Inputs, recurrent_state: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the actor's packed output and the recurrent state (N, L) of actor and critic after this decision."""
        if self.memory is None:
            return self.act(inputs), recurrent_state
        features, after = zip(*(self.remember(i, inputs, recurrent_state) for i in range(self.networks)), strict=True)
        return self.action_head(features[ACTOR]), torch.cat(after, 1)

    def outputs(self, inputs: Inputs, sequences: Sequences | None = None) -> Tensor:
        """Returns the actor's packed output alone. `sequences` as in `forward`."""
        return self.action_head(self.unroll(ACTOR, self.features(ACTOR, inputs), sequences))

    def value(self, inputs: Inputs, sequences: Sequences | None = None) -> Tensor:
        """Returns values, (N, signals). `sequences` as in `forward`."""
        return self.value_head(self.unroll(CRITIC, self.features(CRITIC, inputs), sequences))

    def value_with(self, inputs: Inputs, recurrent_state: Tensor) -> Tensor:
        """Returns values (N, signals) of single decisions, with the recurrent state (N, L) before each."""
        if self.memory is None:
            return self.value(inputs)
        return self.value_head(self.remember(CRITIC, inputs, recurrent_state)[0])

    def forward(self, inputs: Inputs, sequences: Sequences | None = None) -> tuple[Tensor, Tensor]:
        """Returns packed actor output and values. With memory, `sequences` say which rows follow one another."""
        output, features = self.output_and_features(inputs, sequences)
        return output, self.value_head(features)

    def output_and_features(self, inputs: Inputs, sequences: Sequences | None = None) -> tuple[Tensor, Tensor]:
        """Returns packed actor output and the critic's features (N, width). `sequences` as in `forward`."""
        features = self.all_features(inputs).unbind()
        actor, critic = (self.unroll(i % self.networks, features[i], sequences) for i in (ACTOR, CRITIC))
        return self.action_head(actor), critic

    def draw(
        self, output: Tensor, mask: Tensor | None, generator: torch.Generator, deterministic: bool
    ) -> tuple[Action, list[Tensor]]:
        """Draws a sample as `models.distributions.draw` does."""
        return draw(output, self.log_std, mask, self.spec.action, generator, deterministic)

    def drawn_log_prob(self, output: Tensor, sample: Action, branches: list[Tensor]) -> Tensor:
        """Returns the log-probability (N, A) of a sample of `draw`."""
        return drawn_log_prob(output, self.log_std, sample, branches, self.spec.action)

    def for_environment(self, sample: Action) -> Action:
        """Returns a sample as the environment receives it: continuous actions within -1..1."""
        return for_environment(sample)

    def played(self, output: Tensor) -> Tensor:
        """Returns the continuous actions (N, continuous) without noise; differentiable beyond their bounds too."""
        return played(output, self.spec.action)

    def branch_log_probs(self, output: Tensor, mask: Tensor | None) -> list[Tensor]:
        """Returns log-probabilities of each branch, (N, branch). `mask` (N, choices), True: allowed."""
        return branch_log_probs(output, mask, self.spec.action) if self.spec.action.branches else []
