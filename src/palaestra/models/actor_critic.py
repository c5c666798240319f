"""The network of a behavior: observations in, action distribution and values out."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from palaestra.core.sequences import Sequences
from palaestra.core.specs import BehaviorSpec
from palaestra.models.attention import EntityAttention, is_nothing
from palaestra.models.conditioning import ConditionedMLP
from palaestra.models.encoders import visual_encoder
from palaestra.models.memory import Memory
from palaestra.models.mlp import StackedMLP
from palaestra.models.normalizer import Normalizer
from palaestra.models.own import own_body
from palaestra.models.settings import NetworkSettings

ACTOR, CRITIC = 0, -1
"""Index of a body or encoder: the last is the critic's, and the actor's too where they share one."""
MEAN_GAIN, LOGIT_GAIN = 0.2, 0.1

Inputs = tuple[Tensor, ...]
"""Prepared observations: all vectors normalized and joined, (N, V), each image, (N, C, H, W), each kind of entity, (N, most, size)."""


class ActorCritic(nn.Module):
    """Actor and critic over the same observations, with bodies of one shape (or one body: `shared_critic`).

    `prepare` does what holds no weights (joining, normalizing), once a rollout; the rest takes
    its result. The actor's head gives means and logits side by side (see `models.distributions`).
    With memory, a row of it belongs to every decision (see `models.memory`): `decide` takes one
    decision further, and what learns says which rows follow one another.
    """

    log_std: Tensor
    goal_columns: Tensor
    apart: bool
    """Bodies are modules of their own, not stacked in one: conditioned on goals, or a user's."""

    def __init__(self, spec: BehaviorSpec, settings: NetworkSettings, signals: int = 1, shared_critic: bool = False) -> None:
        super().__init__()
        self.spec, self.signals = spec, signals
        self.networks = 1 if shared_critic else 2
        hidden = settings.hidden_units
        self.vectors = tuple(i for i, obs in enumerate(spec.obs) if obs.is_vector)
        self.images = tuple(i for i, obs in enumerate(spec.obs) if obs.is_visual)
        self.entities = tuple(i for i, obs in enumerate(spec.obs) if obs.is_entities)
        width = sum(spec.obs[i].shape[0] for i in self.vectors)
        self.normalizer = Normalizer(width) if settings.normalize and width else None
        self.encoders = nn.ModuleList(
            nn.ModuleList(visual_encoder(settings.vis_encode_type, spec.obs[i].name, image_shape(spec, i), hidden) for i in self.images)
            for _ in range(self.networks)
        )
        inputs = width + hidden * len(self.images)
        self.attentions = nn.ModuleList()
        if self.entities:
            sizes = [spec.obs[i].shape[1] for i in self.entities]
            self.attentions.extend(EntityAttention(inputs, sizes) for _ in range(self.networks))
            inputs += EntityAttention.outputs
        hyper = settings.goal_conditioning_type == "hyper" and settings.body is None
        goals = goal_columns(spec, hidden) if hyper else []
        self.register_buffer("goal_columns", torch.tensor(goals, dtype=torch.int64), persistent=False)
        self.conditioned, self.apart = bool(goals), bool(goals) or settings.body is not None
        if settings.body is not None:
            self.bodies = nn.ModuleList(own_body(settings.body, inputs, hidden, settings.num_layers) for _ in range(self.networks))
        elif goals:
            self.bodies = nn.ModuleList(ConditionedMLP(inputs, len(goals), hidden, settings.num_layers) for _ in range(self.networks))
        else:
            self.body = StackedMLP(self.networks, inputs, hidden, settings.num_layers)
        self.memory = Memory(self.networks, hidden, settings.memory.memory_size) if settings.memory else None
        features = hidden if self.memory is None else self.memory.outputs
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
        return not self.apart and not self.encoded and self.memory is None

    @property
    def encoded(self) -> bool:
        """Weights lie between prepared inputs and bodies."""
        return bool(self.images or self.entities)

    @property
    def memory_size(self) -> int:
        """L: numbers in a row of memory, the actor's and then the critic's; 0 without."""
        return 0 if self.memory is None else self.memory.size * self.networks

    def prepare(self, obs: tuple[Tensor, ...]) -> Inputs:
        """Observations (N, *shape) in the order of the spec to Inputs."""
        images = tuple(obs[i] for i in self.images)
        entities = tuple(seen(obs[i]) for i in self.entities)
        if not self.vectors:
            return (obs[0].new_empty((obs[0].shape[0], 0)), *images, *entities)
        vector = obs[self.vectors[0]] if len(self.vectors) == 1 else torch.cat([obs[i] for i in self.vectors], 1)
        return (vector if self.normalizer is None else self.normalizer(vector), *images, *entities)

    def learn_statistics(self, vectors: tuple[Tensor, ...]) -> None:
        """Takes rows of all vector observations, each (N, n), into the normalizer, where there is one."""
        if self.normalizer is not None:
            self.normalizer.update(torch.cat(vectors, 1))

    def act(self, inputs: Inputs) -> Tensor:
        """The actor's packed output, (N, continuous + choices), where there is no memory."""
        return self.action_head(self._features(ACTOR, inputs))

    def decide(self, inputs: Inputs, memory: Tensor) -> tuple[Tensor, Tensor]:
        """The actor's packed output and the memory (N, L) after this decision, actor's and critic's."""
        if self.memory is None:
            return self.act(inputs), memory
        features, after = zip(*(self._remember(i, inputs, memory) for i in range(self.networks)), strict=True)
        return self.action_head(features[ACTOR]), torch.cat(after, 1)

    def value(self, inputs: Inputs, sequences: Sequences | None = None) -> Tensor:
        """(N, signals). `sequences` as in `forward`."""
        features = self._features(CRITIC, inputs)
        if self.memory is not None:
            assert sequences is not None
            features = self.memory.unroll(CRITIC, features, sequences)
        return self.value_head(features)

    def value_with(self, inputs: Inputs, memory: Tensor) -> Tensor:
        """(N, signals) of single decisions with this memory (N, L) before each."""
        return self.value(inputs) if self.memory is None else self.value_head(self._remember(CRITIC, inputs, memory)[0])

    def forward(self, inputs: Inputs, sequences: Sequences | None = None) -> tuple[Tensor, Tensor]:
        """Packed actor output and values, both from one pass. With memory, `sequences` say which rows follow one another."""
        if self.apart:
            features = torch.stack([self._features(i, inputs) for i in range(self.networks)])
        else:
            features = self.body(self.stacked(inputs))
        if self.memory is None:
            return self.action_head(features[ACTOR]), self.value_head(features[CRITIC])
        assert sequences is not None
        remembered = [self.memory.unroll(i, features[i], sequences) for i in range(self.networks)]
        return self.action_head(remembered[ACTOR]), self.value_head(remembered[CRITIC])

    def stacked(self, inputs: Inputs) -> Tensor:
        """The encoding as each body sees it, (k, N, E)."""
        if not self.encoded:
            return inputs[0].unsqueeze(0).expand(self.networks, -1, -1)
        return torch.stack([self._encode(i, inputs) for i in range(self.networks)])

    def _encode(self, index: int, inputs: Inputs) -> Tensor:
        if not self.encoded:
            return inputs[0]
        images, entities = inputs[1 : 1 + len(self.images)], inputs[1 + len(self.images) :]
        encoders = self.encoders[index]
        assert isinstance(encoders, nn.ModuleList)
        encoding = torch.cat([inputs[0], *(encoder(image) for encoder, image in zip(encoders, images, strict=True))], 1)
        return torch.cat([encoding, self.attentions[index](encoding, entities)], 1) if entities else encoding

    def _features(self, index: int, inputs: Inputs) -> Tensor:
        encoding = self._encode(index, inputs)
        if self.conditioned:
            return self.bodies[index](encoding, encoding.index_select(1, self.goal_columns))
        return self.bodies[index](encoding) if self.apart else self.body.one(index, encoding)

    def _remember(self, index: int, inputs: Inputs, memory: Tensor) -> tuple[Tensor, Tensor]:
        """One network's features after its memory, and that memory after this decision."""
        assert self.memory is not None
        return self.memory.step(index, self._features(index, inputs), self.memory.own(index, memory))


def seen(entities: Tensor) -> Tensor:
    """Entities (N, most, size) without the places in which none of the rows has one; at least one place is left.

    Only on the CPU: an accelerator would have to be waited for.
    """
    if entities.device.type != "cpu" or not len(entities):
        return entities
    places = (~is_nothing(entities)).any(0).nonzero().squeeze(1)
    return entities if len(places) == entities.shape[1] else entities.index_select(1, places if len(places) else places.new_zeros(1))


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
