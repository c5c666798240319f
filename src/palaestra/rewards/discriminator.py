"""The network of adversarial imitation: tells a demonstration from the policy's own decisions."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Action
from palaestra.models.settings import NetworkSettings
from palaestra.models.trunk import Inputs, Trunk
from palaestra.rewards.descent import flat, of_signal

CODE = 128
"""Numbers that a bottleneck lets through."""
VERDICT_GAIN, CODE_GAIN = 0.2, 0.1


class Discriminator(nn.Module):
    """Observations, with actions or without, to a logit: above 0, D > 1/2, where it takes a decision for the demonstrator's."""

    def __init__(self, spec: BehaviorSpec, settings: NetworkSettings, actions: bool, bottleneck: bool) -> None:
        """`actions`: it sees the action too, and whether the episode ended with it. `bottleneck`: see `Bottleneck`."""
        super().__init__()
        self.action, self.actions = spec.action, actions
        numbers = spec.action.continuous + spec.action.choices + 1 if actions else 0
        self.trunk = Trunk(spec, of_signal(settings), 1, extra=numbers)
        self.bottleneck = Bottleneck(self.trunk.width) if bottleneck else None
        self.verdict = _linear(CODE if bottleneck else self.trunk.width, 1, VERDICT_GAIN)

    def evidence(self, obs: tuple[Tensor, ...], action: Action, ended: Tensor) -> Inputs:
        """All that it judges N decisions by: prepared observations, and last the action's numbers (N, numbers) if it sees them."""
        inputs = self.trunk.prepare(obs)
        return (*inputs, torch.cat([flat(action, self.action), ended.unsqueeze(1)], 1)) if self.actions else inputs

    def features(self, evidence: Inputs) -> Tensor:
        """What the verdict rests on, (N, width); with a bottleneck the mean of its code, (N, 128)."""
        *inputs, extra = evidence if self.actions else (*evidence, None)
        features = self.trunk.features(0, tuple(inputs), extra)  # pyright: ignore[reportArgumentType]
        return features if self.bottleneck is None else self.bottleneck.mean(features)

    def logit(self, features: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """(N,). With a bottleneck `generator` draws the code around its mean; without one it is the mean."""
        if self.bottleneck is not None and generator is not None:
            features = self.bottleneck.drawn(features, generator)
        return self.verdict(features).squeeze(1)


class Bottleneck(nn.Module):
    """Lets through no more than a few nats about what is judged. Peng et al. 2018, https://arxiv.org/abs/1810.00821, section 4.

    The code is normal: its mean depends on what is judged, its deviation is learned but the same for all.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.mean = _linear(width, CODE, CODE_GAIN)
        self.log_deviation = nn.Parameter(torch.zeros(CODE))

    def drawn(self, mean: Tensor, generator: torch.Generator) -> Tensor:
        """A code (N, 128) around each mean."""
        return mean + self.log_deviation.exp() * torch.empty_like(mean).normal_(generator=generator)

    def nats(self, mean: Tensor) -> Tensor:
        """How far the codes are from a standard normal, on average, (): their Kullback-Leibler divergence."""
        return 0.5 * (mean.square() + (2 * self.log_deviation).exp() - 2 * self.log_deviation - 1).sum(1).mean()


def steepness(model: Discriminator, ours: Inputs, theirs: Inputs, generator: torch.Generator) -> Tensor:
    """How much faster than 1 a unit D changes, squared, on average, (): a penalty on the slope of D.

    Gulrajani et al. 2017, https://arxiv.org/abs/1704.00028, section 4: at points between pairs of the policy's decisions and the
    demonstrator's, and here over everything that is judged at once. One-sided: slopes below 1 cost nothing. Two-sided, as
    in eq. 3, D could not settle at 1/2 where both are one.
    """
    share = torch.rand(len(ours[0]), generator=generator, device=generator.device)
    between = tuple(torch.lerp(a, b, share.view(-1, *[1] * (a.dim() - 1))).requires_grad_() for a, b in zip(ours, theirs, strict=True))
    with sdpa_kernel(SDPBackend.MATH):  # attention's other kernels cannot be differentiated twice
        d = model.logit(model.features(between), generator).sigmoid()
    slopes = torch.autograd.grad(d.sum(), between, create_graph=True, allow_unused=True)
    squares = sum(slope.square().flatten(1).sum(1) for slope in slopes if slope is not None)
    assert isinstance(squares, Tensor)
    return ((squares + 1e-12).sqrt() - 1).clamp(min=0).square().mean()


def _linear(inputs: int, outputs: int, gain: float) -> nn.Linear:
    """Normal weights of deviation gain / sqrt(inputs), no bias to start with."""
    layer = nn.Linear(inputs, outputs)
    nn.init.normal_(layer.weight, std=gain / math.sqrt(inputs))
    nn.init.zeros_(layer.bias)
    return layer
