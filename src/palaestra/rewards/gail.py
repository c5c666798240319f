"""Adversarial imitation (GAIL). Ho and Ermon 2016, https://arxiv.org/abs/1606.03476."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Action
from palaestra.data.transitions import Transitions
from palaestra.models.encoders import dense
from palaestra.models.settings import NetworkSettings
from palaestra.models.trunk import Inputs, Trunk
from palaestra.parallel.rank_group import ALONE, RankGroup
from palaestra.rewards.demonstrations import load_demonstrations
from palaestra.rewards.settings import GAILSettings
from palaestra.rewards.signal_optimizer import SignalOptimizer, flat, of_signal

CODE = 128
"""Width of the bottleneck's code."""
VERDICT_GAIN, CODE_GAIN = 0.2, 0.1
PENALTY = 10.0
"""Weight of the penalty on D's slope. Gulrajani et al. 2017."""
MOST_NATS, BETA_STEP = 0.5, 5e-4
"""Most information that the bottleneck lets through, in nats, and the step size of its weight beta, as in ML-Agents."""
MOST = -math.log(1e-7)
"""Largest reward: with D = 1 it would be infinite."""


class GAIL:
    """Rewards -ln(1 - D): ln 2 where the policy cannot be distinguished from the demonstrations."""

    Settings = GAILSettings
    ignores_ends = False

    def __init__(
        self, settings: GAILSettings, spec: BehaviorSpec, device: torch.device, seed: int, group: RankGroup = ALONE
    ) -> None:
        """Raises DemoError if a demonstration cannot be read or was recorded with other agents."""
        self.demonstrations = load_demonstrations(settings.demo_path, spec, device)
        shape = settings.network_settings
        actions = settings.use_actions
        bottleneck = settings.use_vail
        self.optimizer = SignalOptimizer(
            lambda: Discriminator(spec, shape, actions, bottleneck), device, settings.learning_rate, seed, group
        )
        self.model = self.optimizer.network
        self._group = group
        self.rng = torch.Generator(device).manual_seed(group.own_seed(seed + 1))
        self.beta = torch.zeros((), device=device)
        """Weight beta of the bottleneck's divergence."""

    def reward(self, batch: Transitions) -> Tensor:
        """Returns -ln(1 - D), (N,)."""
        evidence = self.model.evidence(batch.obs, batch.action, batch.ended)
        return functional.softplus(self.model.logit(self.model.features(evidence))).clamp(max=MOST)

    def learn(self, batch: Transitions) -> dict[str, Tensor]:
        """Takes a gradient step with the discriminator, on these decisions and as many of the demonstrations."""
        model = self.model
        both = self._with_theirs(batch)
        features = model.features(both)
        ours, theirs = model.logit(features, self.rng).chunk(2)
        loss = functional.softplus(ours).mean() + functional.softplus(-theirs).mean()
        n = len(batch)
        penalty = PENALTY * steepness(model, tuple(x[:n] for x in both), tuple(x[n:] for x in both), self.rng)
        measured = {
            "Losses/GAIL Loss": loss,
            "Policy/GAIL Policy Estimate": ours.sigmoid().mean(),
            "Policy/GAIL Expert Estimate": theirs.sigmoid().mean(),
            "Policy/GAIL Grad Mag Loss": penalty,
        }
        total = loss + penalty
        if model.bottleneck is not None:
            excess = model.bottleneck.nats(features) - MOST_NATS
            total = total + self.beta * excess
            measured |= {"Policy/GAIL Beta": self.beta, "Losses/GAIL KL Loss": excess + MOST_NATS}
            surplus = excess.detach().clone()
            self._group.average([surplus], n)
            self.beta = (self.beta + BETA_STEP * surplus).clamp(min=0)  # eq. 9: dual gradient ascent
        self.optimizer.step(total, n)
        return {tag: value.detach() for tag, value in measured.items()}

    def _with_theirs(self, batch: Transitions) -> Inputs:
        """Returns the discriminator's inputs for these decisions, then for as many drawn from the demonstrations."""
        demos = self.demonstrations
        n = len(batch)
        rows = torch.randint(len(demos), (n,), generator=self.rng, device=self.rng.device)
        theirs = demos.decisions.take(rows)
        obs = tuple(torch.cat(both) for both in zip(batch.obs, theirs.obs, strict=True))
        continuous, discrete, ended = (
            torch.cat(both)
            for both in (
                (batch.action.continuous, theirs.action.continuous),
                (batch.action.discrete, theirs.action.discrete),
                (batch.ended, demos.ended.index_select(0, rows)),
            )
        )
        return self.model.evidence(obs, Action(continuous, discrete), ended)

    def learn_statistics(self, obs: tuple[Tensor, ...]) -> None:
        """Adds all observations of a rollout to the normalizer, if there is one."""
        self.model.trunk.learn_statistics(tuple(obs[i] for i in self.model.trunk.vectors), self._group)

    def state_dict(self) -> dict[str, Any]:
        """Returns weights, optimizer, statistics, beta, and the random stream that draws demonstrations."""
        return {**self.optimizer.state_dict(), "beta": self.beta, "sample_rng": self.rng.get_state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a saved state."""
        self.optimizer.load_state_dict(state)
        self.beta = state["beta"].to(self.beta.device)
        self.rng.set_state(state["sample_rng"].cpu())


class Discriminator(nn.Module):
    """Maps observations, with actions or without, to a logit, above 0 (D > 1/2) for the demonstrator's decisions."""

    def __init__(self, spec: BehaviorSpec, settings: NetworkSettings, actions: bool, bottleneck: bool) -> None:
        """`actions`: it sees the action too, and whether the episode ended with it. `bottleneck`: see `Bottleneck`."""
        super().__init__()
        self.action = spec.action
        self.actions = actions
        numbers = spec.action.continuous + spec.action.choices + 1 if actions else 0
        self.trunk = Trunk(spec, of_signal(settings), 1, extra=numbers)
        self.bottleneck = Bottleneck(self.trunk.width) if bottleneck else None
        self.verdict = dense(CODE if bottleneck else self.trunk.width, 1, VERDICT_GAIN)

    def evidence(self, obs: tuple[Tensor, ...], action: Action, ended: Tensor) -> Inputs:
        """Returns inputs for N decisions: prepared observations, and the action (N, numbers) if the discriminator uses
        actions."""
        inputs = self.trunk.prepare(obs)
        return (*inputs, torch.cat([flat(action, self.action), ended.unsqueeze(1)], 1)) if self.actions else inputs

    def features(self, evidence: Inputs) -> Tensor:
        """Returns the features before the logit, (N, width); with a bottleneck the mean of its code, (N, 128)."""
        *inputs, extra = evidence if self.actions else (*evidence, None)
        features = self.trunk.features(0, tuple(inputs), extra)  # pyright: ignore[reportArgumentType]
        return features if self.bottleneck is None else self.bottleneck.mean(features)

    def logit(self, features: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Returns the logit, (N,). With a bottleneck `generator` draws the code; without one the code is its mean."""
        if self.bottleneck is not None and generator is not None:
            features = self.bottleneck.drawn(features, generator)
        return self.verdict(features).squeeze(1)


class Bottleneck(nn.Module):
    """Variational bottleneck that limits how much information passes to a few nats. Peng et al. 2018,
    https://arxiv.org/abs/1810.00821, section 4.

    The code is Gaussian: its mean depends on the input, its standard deviation is learned but the same for all inputs.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.mean = dense(width, CODE, CODE_GAIN)
        self.log_deviation = nn.Parameter(torch.zeros(CODE))

    def drawn(self, mean: Tensor, generator: torch.Generator) -> Tensor:
        """Draws a code (N, 128) around each mean."""
        return mean + self.log_deviation.exp() * torch.empty_like(mean).normal_(generator=generator)

    def nats(self, mean: Tensor) -> Tensor:
        """Returns the mean Kullback-Leibler divergence of the codes from a standard Gaussian, ()."""
        return 0.5 * (mean.square() + (2 * self.log_deviation).exp() - 2 * self.log_deviation - 1).sum(1).mean()


def steepness(model: Discriminator, ours: Inputs, theirs: Inputs, generator: torch.Generator) -> Tensor:
    """Returns the gradient penalty: the square of the amount by which the slope of D exceeds 1, on average, ().

    Gulrajani et al. 2017, https://arxiv.org/abs/1704.00028, section 4: measured at points between a decision of the
    policy and one of the demonstrator; here the slope is over all inputs together. One-sided: slopes below 1 cost
    nothing. With a two-sided penalty, as in eq. 3, D could not settle at 1/2 where policy and demonstrator are equal.
    """
    share = torch.rand(len(ours[0]), generator=generator, device=generator.device)
    between = tuple(
        torch.lerp(a, b, share.view(-1, *[1] * (a.dim() - 1))).requires_grad_()
        for a, b in zip(ours, theirs, strict=True)
    )
    with sdpa_kernel(SDPBackend.MATH):  # attention's other kernels cannot be differentiated twice
        d = model.logit(model.features(between), generator).sigmoid()
    slopes = torch.autograd.grad(d.sum(), between, create_graph=True, allow_unused=True)
    squares = sum(slope.square().flatten(1).sum(1) for slope in slopes if slope is not None)
    assert isinstance(squares, Tensor)
    return ((squares + 1e-12).sqrt() - 1).clamp(min=0).square().mean()
