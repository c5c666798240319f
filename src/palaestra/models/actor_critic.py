"""The network of a behavior: observations in, action distribution and values out."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from palaestra.core.errors import ConfigError
from palaestra.core.specs import BehaviorSpec
from palaestra.models.conditioning import ConditionedMLP
from palaestra.models.encoders import visual_encoder
from palaestra.models.mlp import StackedMLP
from palaestra.models.normalizer import Normalizer
from palaestra.models.settings import NetworkSettings

ACTOR, CRITIC = 0, -1
"""Index of a body or encoder: the last is the critic's, and the actor's too where they share one."""
MEAN_GAIN, LOGIT_GAIN = 0.2, 0.1

Inputs = tuple[Tensor, ...]
"""Prepared observations: all vectors normalized and joined, (N, V), then each image, (N, C, H, W)."""


class ActorCritic(nn.Module):
    """Actor and critic over the same observations, with bodies of one shape (or one body: `shared_critic`).

    `prepare` does what holds no weights (joining, normalizing), once a rollout; the rest takes
    its result. The actor's head gives means and logits side by side (see `models.distributions`).
    """

    log_std: Tensor
    goal_columns: Tensor

    def __init__(self, spec: BehaviorSpec, settings: NetworkSettings, signals: int = 1, shared_critic: bool = False) -> None:
        super().__init__()
        for obs in spec.obs:
            if obs.is_entities:
                raise ConfigError(f"observation '{obs.name}' has a variable length {obs.shape}: networks for it are not available yet")
        self.spec, self.signals = spec, signals
        self.networks = 1 if shared_critic else 2
        hidden = settings.hidden_units
        self.vectors = tuple(i for i, obs in enumerate(spec.obs) if obs.is_vector)
        self.images = tuple(i for i, obs in enumerate(spec.obs) if obs.is_visual)
        width = sum(spec.obs[i].shape[0] for i in self.vectors)
        self.normalizer = Normalizer(width) if settings.normalize and width else None
        self.encoders = nn.ModuleList(
            nn.ModuleList(visual_encoder(settings.vis_encode_type, spec.obs[i].name, image_shape(spec, i), hidden) for i in self.images)
            for _ in range(self.networks)
        )
        inputs = width + hidden * len(self.images)
        goals = goal_columns(spec, hidden) if settings.goal_conditioning_type == "hyper" else []
        self.register_buffer("goal_columns", torch.tensor(goals, dtype=torch.int64), persistent=False)
        if goals:
            self.bodies = nn.ModuleList(ConditionedMLP(inputs, len(goals), hidden, settings.num_layers) for _ in range(self.networks))
        else:
            self.body = StackedMLP(self.networks, inputs, hidden, settings.num_layers)
        self.conditioned = bool(goals)
        features = hidden if settings.num_layers else inputs
        action = spec.action
        self.action_head = nn.Linear(features, action.continuous + action.choices)
        self.value_head = nn.Linear(features, signals)
        self.log_std = nn.Parameter(torch.zeros(action.continuous))
        self._start_heads(features)

    def _start_heads(self, features: int) -> None:
        continuous = self.spec.action.continuous
        with torch.no_grad():
            self.action_head.weight[:continuous].normal_(std=MEAN_GAIN / math.sqrt(features))
            self.action_head.weight[continuous:].normal_(std=LOGIT_GAIN / math.sqrt(features))
            self.action_head.bias.zero_()
            # values start at 0, not at random as in ML-Agents: where streams are short, a policy follows
            # what its critic was born with before rewards reach it, and one run of Basic in ten never comes back
            self.value_head.weight.zero_()
            self.value_head.bias.zero_()

    @property
    def plain(self) -> bool:
        """Nothing but stacked layers between prepared inputs and heads: its gradient has a closed form."""
        return not self.conditioned and not self.images

    def prepare(self, obs: tuple[Tensor, ...]) -> Inputs:
        """Observations (N, *shape) in the order of the spec to Inputs."""
        images = tuple(obs[i] for i in self.images)
        if not self.vectors:
            return (obs[0].new_empty((obs[0].shape[0], 0)), *images)
        vector = obs[self.vectors[0]] if len(self.vectors) == 1 else torch.cat([obs[i] for i in self.vectors], 1)
        return (vector if self.normalizer is None else self.normalizer(vector), *images)

    def learn_statistics(self, obs: tuple[Tensor, ...]) -> None:
        """Takes rows of observations into the normalizer, where there is one."""
        if self.normalizer is not None:
            self.normalizer.update(torch.cat([obs[i] for i in self.vectors], 1))

    def act(self, inputs: Inputs) -> Tensor:
        """The actor's packed output, (N, continuous + choices)."""
        return self.action_head(self._features(ACTOR, inputs))

    def value(self, inputs: Inputs) -> Tensor:
        """(N, signals)."""
        return self.value_head(self._features(CRITIC, inputs))

    def forward(self, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Packed actor output and values, both from one pass."""
        if self.conditioned:
            features = torch.stack([self._features(i, inputs) for i in range(self.networks)])
        else:
            features = self.body(self.stacked(inputs))
        return self.action_head(features[ACTOR]), self.value_head(features[CRITIC])

    def stacked(self, inputs: Inputs) -> Tensor:
        """The encoding as each body sees it, (k, N, E)."""
        if not self.images:
            return inputs[0].unsqueeze(0).expand(self.networks, -1, -1)
        return torch.stack([self._encode(i, inputs) for i in range(self.networks)])

    def _encode(self, index: int, inputs: Inputs) -> Tensor:
        if not self.images:
            return inputs[0]
        encoders = self.encoders[index]
        assert isinstance(encoders, nn.ModuleList)
        return torch.cat([inputs[0], *(encoder(image) for encoder, image in zip(encoders, inputs[1:], strict=True))], 1)

    def _features(self, index: int, inputs: Inputs) -> Tensor:
        encoding = self._encode(index, inputs)
        if self.conditioned:
            return self.bodies[index](encoding, encoding.index_select(1, self.goal_columns))
        return self.body.one(index, encoding)


def image_shape(spec: BehaviorSpec, index: int) -> tuple[int, int, int]:
    """(C, H, W) of a visual observation."""
    channels, height, width = spec.obs[index].shape
    return channels, height, width


def goal_columns(spec: BehaviorSpec, hidden: int) -> list[int]:
    """Columns of the encoding that come from goal signals: vectors lie first, then `hidden` columns an image."""
    columns, at = [], 0
    vectors = [obs for obs in spec.obs if obs.is_vector]
    for obs in vectors + [obs for obs in spec.obs if obs.is_visual]:
        size = obs.shape[0] if obs.is_vector else hidden
        if obs.goal:
            columns += range(at, at + size)
        at += size
    return columns
