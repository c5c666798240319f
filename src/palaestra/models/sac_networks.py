"""Networks of soft actor-critic: an actor, twin critics, and their target copies.

There is no network for state values, which ML-Agents has from the paper's first version: the target of values is
computed from the target critics, as in Haarnoja et al. 2018, https://arxiv.org/abs/1812.05905.
"""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from palaestra.core.row_index import Sequences
from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Action
from palaestra.models import distributions
from palaestra.models.actor_critic import start_action_head
from palaestra.models.critic_only.sight import (
    critic_places,
    has_critics_inputs,
    learn_both,
    narrowed,
    prepared,
    shown_to_actor,
)
from palaestra.models.distributions import HALF_LOG_TAU
from palaestra.models.mirrored_init import mirrored_heads
from palaestra.models.residual import by_rows
from palaestra.models.settings import RESIDUAL, NetworkSettings
from palaestra.models.trunk import Inputs, StackedMLP, Trunk, linear
from palaestra.parallel.rank_group import ALONE, RankGroup

ACTOR = 0
TWINS = 2
LEAST_LOG_STD, MOST_LOG_STD = -20.0, 2.0
"""Bounds of the logarithm of a standard deviation, as in ML-Agents."""
SMOOTH_LEAST, SMOOTH_LOG_STD = 10.0, 6.0
"""With the residual body the logarithm of a standard deviation is -10 + 6 (1 + tanh x)."""
ONE = math.atanh(SMOOTH_LEAST / SMOOTH_LOG_STD - 1)
"""The x at which the standard deviation is 1."""


SHARPNESS = 5.0
"""Half the range of bins, in standard deviations of the Gaussian around 0 that critics predict at first. A wide
Gaussian would stay for thousands of steps, since the critics themselves make the targets that they learn from."""


class SoftCritics(Trunk):
    """Twin Q-networks of one architecture: one Q-value for each reward signal, or one for each choice of every discrete
    branch.

    Continuous actions are inputs of the hidden layers. With memory, continuous actions are added after the LSTM, so
    that its state depends on observations alone.
    """

    def __init__(
        self,
        spec: BehaviorSpec,
        settings: NetworkSettings,
        signals: int,
        shown: tuple[int, ...] | None = None,
        bins: int = 1,
    ) -> None:
        """Reads observations that the actor prepared, so it has no normalizer of its own, but where the actor sees some
        of them alone, which are `shown`. `bins`: logits over bins in place of each value."""
        numbers = spec.action.continuous
        recurrent = settings.memory is not None
        normalize = settings.normalize and shown is not None
        super().__init__(
            spec, settings.model_copy(update={"normalize": normalize}), TWINS, extra=0 if recurrent else numbers
        )
        self.places = None if shown is None else critic_places(spec, shown)
        self.signals = signals
        self.bins = bins
        self.joint = (
            StackedMLP(TWINS, self.width + numbers, settings.hidden_units, 1) if recurrent and numbers else None
        )
        width = self.width if self.joint is None else self.joint.outputs
        last = self.joint or self.memory or (self.bodies if self.apart else self.body)
        self.head_weight = nn.Parameter(mirrored_heads(last, width, [max(spec.action.choices, 1) * bins] * signals))
        start = torch.linspace(-SHARPNESS, SHARPNESS, bins).square().mul(-0.5) if bins > 1 else torch.zeros(1)
        self._linear = by_rows.heads if settings.body else linear
        self.head_bias = nn.Parameter(start.repeat(TWINS, 1, self.head_weight.shape[2] // bins))

    def encoding(self, inputs: Inputs, sequences: Sequences | None = None) -> Tensor:
        """Returns both critics' encodings of observations, (2, N, width). `sequences` as in `ActorCritic.forward`."""
        if self.memory is None:
            return self.stacked(inputs)
        features = self.all_features(inputs)
        return torch.stack([self.unroll(i, features[i], sequences) for i in range(TWINS)])

    def after(self, inputs: Inputs, recurrent_state: Tensor) -> Tensor:
        """Returns the recurrent state (N, L) after these observations."""
        return torch.cat([self.remember(i, inputs, recurrent_state)[1] for i in range(TWINS)], 1)

    def forward(self, encoding: Tensor, numbers: Tensor, at: slice | None = None) -> Tensor:
        """Returns values (2, N, K, outputs) of actions (N, continuous): one output, or one for each choice; with bins,
        each output is `bins` logits. `at`: values for these rows only; residual bodies still see all rows."""
        if numbers.shape[1]:
            encoding = torch.cat([encoding, numbers.unsqueeze(0).expand(TWINS, -1, -1)], 2)
        if self.memory is None:
            features = self._bodies(encoding) if at is None else self.body(encoding, at)
        else:
            features = encoding if self.joint is None else self.joint(encoding)
        return self._linear(self.head_bias, features, self.head_weight).unflatten(2, (self.signals, -1))

    def encode(self, index: int, inputs: Inputs, extra: Tensor | None = None) -> Tensor:
        """Returns the input of one body from the inputs of actor and critics, (N, width)."""
        seen = inputs if self.places is None else tuple(inputs[i] for i in self.places)
        return super().encode(index, seen, extra)

    def _bodies(self, encoding: Tensor) -> Tensor:
        if not self.apart:
            return self.body(encoding)
        if not self.conditioned:
            return torch.stack([body(x) for body, x in zip(self.bodies, encoding, strict=True)])
        goals = encoding.index_select(2, self.goal_columns)
        return torch.stack([body(x, goal) for body, x, goal in zip(self.bodies, encoding, goals, strict=True)])


class SoftActorCritic(Trunk):
    """The actor, the `critics`, and the slow copies of the critics, `targets`, which share the critics' normalizer.

    The actor's output is (N, 2 continuous + choices): means, logarithms of standard deviations, then the logits of
    branch 0, branch 1, ... An action is tanh of a Gaussian sample; a sample holds continuous actions before tanh. With
    memory, a row of memory has the actor's part and then the critics' part. The critics' memory is computed while
    acting too, because a sequence cut out of an episode begins with it: errors at the end of one sequence then reach
    the beginning of the next. With `critic_only` the actor's spec lacks the observations for the critics alone, and the
    critics have a normalizer of their own; if only the actor's observations are given, the network acts but has no
    values.
    """

    reward_heads = ("critics.head_", "targets.head_")

    def __init__(
        self,
        spec: BehaviorSpec,
        settings: NetworkSettings,
        signals: int = 1,
        temperature: float = 1.0,
        critics: NetworkSettings | None = None,
        bins: int = 1,
    ) -> None:
        """`temperature`: initial weight of the entropy. `critics`: their shape; None: the actor's."""
        shown = shown_to_actor(spec, settings) if settings.critic_only else None
        super().__init__(spec if shown is None else narrowed(spec, shown), settings, 1)
        self.shown = shown
        self.whole = spec
        """Observations of the critics, and actions."""
        action = spec.action
        self.action_head = nn.Linear(self.width, 2 * action.continuous + action.choices)
        self.critics = SoftCritics(spec, critics or settings, signals, shown, bins)
        self.measured = self.critics.vectors
        self.targets = copy.deepcopy(self.critics).requires_grad_(False)
        self.log_temperature = nn.Parameter(
            torch.full((bool(action.continuous) + len(action.branches),), math.log(temperature))
        )
        """One logarithm for all continuous actions, if there are any, then one for each branch."""
        start_action_head(self.action_head, 2 * action.continuous)
        self.smooth = settings.body == RESIDUAL
        """Whether a smooth function bounds logarithms of deviations, instead of a clamp, which has no gradient outside
        its bounds."""
        # mirrored weights belong to the layers that they were made with: above others they would give random values
        self.zeroed_heads = not self.smooth
        if self.smooth:
            nn.init.constant_(self.action_head.bias[action.continuous : 2 * action.continuous], ONE)

    @property
    def plain(self) -> bool:
        """Whether only stacked layers lie between prepared inputs and heads, of actor and critics."""
        return super().plain and self.critics.plain

    def prepare(self, obs: tuple[Tensor, ...]) -> Inputs:
        """Prepares all observations of the behavior, or those of the actor alone."""
        return super().prepare(obs) if self.shown is None else prepared(self, self.critics, obs)

    def learn_statistics(self, vectors: tuple[Tensor, ...], group: RankGroup = ALONE) -> None:
        """Updates the normalizers with rows of vectors, of `measured` or of the actor alone."""
        if self.shown is None:
            super().learn_statistics(vectors, group)
        else:
            learn_both(self, self.critics, vectors, group)

    @property
    def memory_size(self) -> int:
        """L, the size of the recurrent state, the actor's part and then the critics'; 0 without an LSTM."""
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
        critics = self.of_critics(recurrent_state)
        if has_critics_inputs(self, inputs):
            critics = self.critics.after(inputs, critics)
        return self.action_head(features), torch.cat([after, critics], 1)

    def of_critics(self, recurrent_state: Tensor) -> Tensor:
        """Returns the critics' part of the recurrent state (N, L)."""
        return recurrent_state[:, super().memory_size :]

    def outputs(self, inputs: Inputs, sequences: Sequences | None = None) -> Tensor:
        """Returns the packed output. With memory, `sequences` say which rows follow one another."""
        return self.action_head(self.unroll(ACTOR, self.features(ACTOR, inputs), sequences))

    def draw(
        self, output: Tensor, mask: Tensor | None, generator: torch.Generator, deterministic: bool
    ) -> tuple[Action, list[Tensor]]:
        """Draws a sample, before tanh; returns it and branches' log-probabilities. `deterministic`: mean and mode."""
        spec = self.spec.action
        mean, log_std = self.gaussian(output)
        plain = torch.cat([mean, output[:, 2 * spec.continuous :]], 1) if spec.branches else mean
        return distributions.draw(plain, log_std, mask, spec, generator, deterministic)

    def drawn_log_prob(self, output: Tensor, sample: Action, branches: list[Tensor]) -> Tensor:
        """Returns the log-probability (N, A) of a sample of `draw`: for continuous actions the density after tanh."""
        columns = [log_probs.gather(1, sample.discrete[:, i : i + 1]) for i, log_probs in enumerate(branches)]
        if self.spec.action.continuous:
            mean, log_std = self.gaussian(output)
            noise = (sample.continuous - mean) * torch.exp(-log_std)
            columns.insert(0, squashed_log_prob(sample.continuous, noise, log_std))
        return columns[0] if len(columns) == 1 else torch.cat(columns, 1)

    def gaussian(self, output: Tensor) -> tuple[Tensor, Tensor]:
        """Returns means and logarithms of standard deviations before tanh, each (N, continuous)."""
        mean, log_std = output[:, : 2 * self.spec.action.continuous].chunk(2, 1)
        if self.smooth:
            return mean, SMOOTH_LOG_STD * (1 + log_std.tanh()) - SMOOTH_LEAST
        return mean, log_std.clamp(LEAST_LOG_STD, MOST_LOG_STD)

    def reparametrized(self, output: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draws continuous actions within -1..1; returns them and log-densities, (N, continuous), differentiable.

        Haarnoja et al. 2018, https://arxiv.org/abs/1812.05905, appendix C.
        """
        mean, log_std = self.gaussian(output)
        noise = torch.empty_like(mean).normal_(generator=generator)
        raw = mean + noise * log_std.exp()
        return raw.tanh(), squashed_log_prob(raw, noise, log_std)

    def for_environment(self, sample: Action) -> Action:
        """Returns a sample as the environment receives it: continuous actions within -1..1."""
        return Action(sample.continuous.tanh(), sample.discrete)

    def played(self, output: Tensor) -> Tensor:
        """Returns the continuous actions (N, continuous) without noise, as they are played; differentiable."""
        return output[:, : self.spec.action.continuous].tanh()

    def branch_log_probs(self, output: Tensor, mask: Tensor | None) -> list[Tensor]:
        """Returns normalized log-probabilities of each branch, (N, branch). `mask` (N, choices), True: allowed."""
        spec = self.spec.action
        return distributions.branch_log_probs(output[:, spec.continuous :], mask, spec) if spec.branches else []


def squashed_log_prob(raw: Tensor, noise: Tensor, log_std: Tensor) -> Tensor:
    """Returns the log-density of tanh(raw) for each continuous action, (N, continuous), where raw = mean + std * noise.

    ln(1 - tanh²(x)) = 2 (ln 2 - x - softplus(-2x)); this form is exact even where tanh is rounded to 1.
    """
    half = torch.add(math.log(2) - raw, softplus(raw, -2), alpha=2)  # beta of -2: minus half of softplus(-2x)
    return torch.add(noise.square().mul(-0.5) - (log_std + HALF_LOG_TAU), half, alpha=-2)


def squashed_gradient(
    raw: Tensor, action: Tensor, noise: Tensor, deviation: Tensor, of_action: Tensor, of_log_prob: Tensor
) -> tuple[Tensor, Tensor]:
    """Returns the gradients of mean and of log-deviation, each (N, continuous), from the gradients of the action,
    tanh(raw), and of `squashed_log_prob`, (N, 1)."""
    twice = 2 * of_log_prob.expand_as(raw)
    grad = torch.add(twice, torch.ops.aten.softplus_backward(twice, raw, -2, 20), alpha=-2)
    grad += torch.ops.aten.tanh_backward(of_action, action)
    return grad, grad * noise * deviation - of_log_prob
