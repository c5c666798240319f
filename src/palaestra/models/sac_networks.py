"""Networks of soft actor-critic: an actor, twin critics, and their target copies.

There is no network for state values, which ML-Agents has from the paper's first version: their target is computed from
the target critics instead, as in Haarnoja et al. 2018, https://arxiv.org/abs/1812.05905.
"""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor, nn

from palaestra.core.row_index import Sequences
from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Action
from palaestra.models import tanh_gaussian
from palaestra.models.actor_critic import start_action_head
from palaestra.models.mirrored_init import mirrored_heads
from palaestra.models.settings import NetworkSettings
from palaestra.models.trunk import Inputs, StackedMLP, Trunk, linear

ACTOR = 0
TWINS = 2


class SoftCritics(Trunk):
    """Twin Q-networks of one architecture: one Q-value for each reward signal, or one for each choice of every discrete
    branch.

    Continuous actions are inputs of the hidden layers. With memory they are added after the LSTM, so that its state
    depends on observations alone.
    """

    def __init__(self, spec: BehaviorSpec, settings: NetworkSettings, signals: int) -> None:
        """Reads observations that the actor prepared, so it has no normalizer of its own."""
        numbers = spec.action.continuous
        recurrent = settings.memory is not None
        super().__init__(
            spec, settings.model_copy(update={"normalize": False}), TWINS, extra=0 if recurrent else numbers
        )
        self.signals = signals
        self.joint = (
            StackedMLP(TWINS, self.width + numbers, settings.hidden_units, 1) if recurrent and numbers else None
        )
        width = self.width if self.joint is None else self.joint.outputs
        last = self.joint or self.memory or (self.bodies if self.apart else self.body)
        self.head_weight = nn.Parameter(mirrored_heads(last, width, [max(spec.action.choices, 1)] * signals))
        self.head_bias = nn.Parameter(torch.zeros(TWINS, 1, self.head_weight.shape[2]))

    def encoding(self, inputs: Inputs, sequences: Sequences | None = None) -> Tensor:
        """Returns both encodings of observations, (2, N, width). `sequences` as in `ActorCritic.forward`."""
        if self.memory is None:
            return self.stacked(inputs)
        features = self.all_features(inputs)
        return torch.stack([self.unroll(i, features[i], sequences) for i in range(TWINS)])

    def after(self, inputs: Inputs, recurrent_state: Tensor) -> Tensor:
        """Returns the recurrent state (N, L) after these observations."""
        return torch.cat([self.remember(i, inputs, recurrent_state)[1] for i in range(TWINS)], 1)

    def forward(self, encoding: Tensor, numbers: Tensor) -> Tensor:
        """Returns values (2, N, K, outputs) of actions (N, continuous): one output, or one for each choice."""
        if numbers.shape[1]:
            encoding = torch.cat([encoding, numbers.unsqueeze(0).expand(TWINS, -1, -1)], 2)
        if self.memory is None:
            features = self._bodies(encoding)
        else:
            features = encoding if self.joint is None else self.joint(encoding)
        return linear(self.head_bias, features, self.head_weight).unflatten(2, (self.signals, -1))

    def _bodies(self, encoding: Tensor) -> Tensor:
        if not self.apart:
            return self.body(encoding)
        if not self.conditioned:
            return torch.stack([body(x) for body, x in zip(self.bodies, encoding, strict=True)])
        goals = encoding.index_select(2, self.goal_columns)
        return torch.stack([body(x, goal) for body, x, goal in zip(self.bodies, encoding, goals, strict=True)])


class SoftActorCritic(Trunk):
    """The actor, and beside it `critics` and their slow copies `targets`, which share its normalizer.

    The actor's head gives means, logarithms of standard deviations and logits side by side (see `models.squashed`).
    With memory, a row of it has the actor's part and then the critics'. Theirs is worked out while acting too: a
    sequence cut out of an episode begins with what they remembered, so what they say at the end of one was learned at
    the beginning of another.
    """

    reward_heads = ("critics.head_", "targets.head_")
    # mirrored weights belong to the layers that they were made with: above others they would give random values
    zeroed_heads = True

    def __init__(
        self, spec: BehaviorSpec, settings: NetworkSettings, signals: int = 1, temperature: float = 1.0
    ) -> None:
        """`temperature`: initial weight of the entropy."""
        super().__init__(spec, settings, 1)
        action = spec.action
        self.action_head = nn.Linear(self.width, 2 * action.continuous + action.choices)
        self.critics = SoftCritics(spec, settings, signals)
        self.targets = copy.deepcopy(self.critics).requires_grad_(False)
        self.log_temperature = nn.Parameter(
            torch.full((bool(action.continuous) + len(action.branches),), math.log(temperature))
        )
        """One for all continuous actions, where there are any, then one for each branch."""
        start_action_head(self.action_head, 2 * action.continuous)

    @property
    def memory_size(self) -> int:
        """L: numbers of recurrent state, the actor's and then the critics'; 0 without an LSTM."""
        return super().memory_size + self.critics.memory_size

    def actor_parameters(self) -> list[nn.Parameter]:
        """Returns the parameters of the actor."""
        others = {id(p) for part in (self.critics, self.targets) for p in part.parameters()} | {
            id(self.log_temperature)
        }
        return [p for p in self.parameters() if id(p) not in others]

    def decide(self, inputs: Inputs, recurrent_state: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the packed output and the recurrent state (N, L) after this decision."""
        if self.memory is None:
            return self.outputs(inputs), recurrent_state
        features, after = self.remember(ACTOR, inputs, recurrent_state)
        return self.action_head(features), torch.cat(
            [after, self.critics.after(inputs, self.of_critics(recurrent_state))], 1
        )

    def of_critics(self, recurrent_state: Tensor) -> Tensor:
        """Returns the critics' part of the recurrent state (N, L)."""
        return recurrent_state[:, super().memory_size :]

    def outputs(self, inputs: Inputs, sequences: Sequences | None = None) -> Tensor:
        """Returns the packed output. With memory, `sequences` say which rows follow one another."""
        return self.action_head(self.unroll(ACTOR, self.features(ACTOR, inputs), sequences))

    def draw(
        self, output: Tensor, mask: Tensor | None, generator: torch.Generator, deterministic: bool
    ) -> tuple[Action, list[Tensor]]:
        """Draws a sample as `models.tanh_gaussian.draw` does."""
        return tanh_gaussian.draw(output, mask, self.spec.action, generator, deterministic)

    def drawn_log_prob(self, output: Tensor, sample: Action, branches: list[Tensor]) -> Tensor:
        """Returns the log-probability (N, A) of what `draw` returned."""
        return tanh_gaussian.drawn_log_prob(output, sample, branches, self.spec.action)

    def for_environment(self, sample: Action) -> Action:
        """Returns a sample as the environment gets it: continuous actions within -1..1."""
        return Action(sample.continuous.tanh(), sample.discrete)

    def played(self, output: Tensor) -> Tensor:
        """Returns the continuous actions (N, continuous) without noise, as acted; differentiable."""
        return output[:, : self.spec.action.continuous].tanh()

    def branch_log_probs(self, output: Tensor, mask: Tensor | None) -> list[Tensor]:
        """Returns normalized log-probabilities of each branch, (N, branch). `mask` (N, choices), True: allowed."""
        return tanh_gaussian.branch_log_probs(output, mask, self.spec.action)
