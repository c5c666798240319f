"""The trunk of every network, from observations to features: encoders, bodies, memory and the normalizer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from palaestra.core.row_index import Sequences
from palaestra.core.specs import BehaviorSpec
from palaestra.models.bodies import ConditionedMLP, StackedMLP
from palaestra.models.custom import own_body
from palaestra.models.encoders import visual_encoder
from palaestra.models.entity_attention import EntityAttention, is_nothing
from palaestra.models.lstm import LSTMLayer
from palaestra.models.settings import NetworkSettings
from palaestra.parallel.rank_group import ALONE, RankGroup

LIMIT = 5.0
"""Bound of normalized observations, which are clipped to ±LIMIT, as in ML-Agents."""


Inputs = tuple[Tensor, ...]
"""Prepared observations: vectors, (N, numbers), each image, (N, C, H, W), each kind of entity, (N, most, size)."""


class Trunk(nn.Module):
    """Encoders, bodies and memory of k networks of one shape over the same observations: everything but their heads.

    `prepare` does what holds no weights (joining, normalizing, centering), once a rollout; the rest takes its result.
    `extra` numbers a row, such as an action, join the encoding before the bodies.
    """

    goal_columns: Tensor
    apart: bool
    """Whether bodies are modules of their own, not stacked in one: conditioned on goals, or a user's."""
    greedy: bool = False
    """Whether its outputs for branches are action values, not logits: a model file then always takes the best."""
    reward_heads: tuple[str, ...] = ("value_head.",)
    """Prefixes of the names of tensors whose shapes follow from the reward signals."""
    zeroed_heads: bool = False
    """Whether `reward_heads` that start anew above layers of another run start at zero."""

    def __init__(self, spec: BehaviorSpec, settings: NetworkSettings, networks: int, extra: int = 0) -> None:
        super().__init__()
        self.spec = spec
        self.networks = networks
        hidden = settings.hidden_units
        self.vectors = tuple(i for i, obs in enumerate(spec.obs) if obs.is_vector)
        self.images = tuple(i for i, obs in enumerate(spec.obs) if obs.is_visual)
        self.entities = tuple(i for i, obs in enumerate(spec.obs) if obs.is_entities)
        self.centered = settings.center_images
        width = sum(spec.obs[i].shape[0] for i in self.vectors)
        self.normalizer = Normalizer(width) if settings.normalize and width else None
        self.encoders = nn.ModuleList(
            nn.ModuleList(
                visual_encoder(settings.vis_encode_type, spec.obs[i].name, image_shape(spec, i), hidden)
                for i in self.images
            )
            for _ in range(networks)
        )
        inputs = width + hidden * len(self.images)
        self.attentions = nn.ModuleList()
        if self.entities:
            sizes = [spec.obs[i].shape[1] for i in self.entities]
            self.attentions.extend(EntityAttention(inputs, sizes) for _ in range(networks))
            inputs += EntityAttention.outputs
        hyper = settings.goal_conditioning_type == "hyper" and settings.body is None
        goals = goal_columns(spec, hidden) if hyper else []
        self.register_buffer("goal_columns", torch.tensor(goals, dtype=torch.int64), persistent=False)
        self.conditioned = bool(goals)
        self.apart = bool(goals) or settings.body is not None
        inputs += extra
        if settings.body is not None:
            self.bodies = nn.ModuleList(
                own_body(settings.body, inputs, hidden, settings.num_layers) for _ in range(networks)
            )
        elif goals:
            self.bodies = nn.ModuleList(
                ConditionedMLP(inputs, len(goals), hidden, settings.num_layers) for _ in range(networks)
            )
        else:
            self.body = StackedMLP(networks, inputs, hidden, settings.num_layers)
        self.memory = LSTMLayer(networks, hidden, settings.memory.memory_size) if settings.memory else None
        self.width = hidden if self.memory is None else self.memory.outputs
        """Numbers in a row of features."""

    @property
    def encoded(self) -> bool:
        """Whether weights lie between prepared inputs and bodies."""
        return bool(self.images or self.entities)

    @property
    def memory_size(self) -> int:
        """L: numbers of recurrent state, one network's after the other; 0 without an LSTM."""
        return 0 if self.memory is None else self.memory.size * self.networks

    def prepare(self, obs: tuple[Tensor, ...]) -> Inputs:
        """Prepares observations (N, *shape) in the order of the spec: joins and normalizes vectors, centers images."""
        images = tuple(centered(obs[i]) if self.centered else obs[i] for i in self.images)
        entities = tuple(seen(obs[i]) for i in self.entities)
        if not self.vectors:
            return (obs[0].new_empty((obs[0].shape[0], 0)), *images, *entities)
        vector = obs[self.vectors[0]] if len(self.vectors) == 1 else torch.cat([obs[i] for i in self.vectors], 1)
        return (vector if self.normalizer is None else self.normalizer(vector), *images, *entities)

    def learn_statistics(self, vectors: tuple[Tensor, ...], group: RankGroup = ALONE) -> None:
        """Takes rows of all vector observations, each (N, n), into the normalizer: those of all ranks of `group`."""
        if self.normalizer is not None:
            self.normalizer.update(torch.cat(vectors, 1), group)

    def features(self, index: int, inputs: Inputs, extra: Tensor | None = None) -> Tensor:
        """Returns one network's features, (N, hidden), before its memory. `extra` (N, extra)."""
        encoding = self._encode(index, inputs, extra)
        if self.conditioned:
            return self.bodies[index](encoding, encoding.index_select(1, self.goal_columns))
        return self.bodies[index](encoding) if self.apart else self.body.one(index, encoding)

    def all_features(self, inputs: Inputs, extra: Tensor | None = None) -> Tensor:
        """Returns the features of every network, (k, N, hidden), before their memory."""
        if self.apart:
            return torch.stack([self.features(i, inputs, extra) for i in range(self.networks)])
        return self.body(self.stacked(inputs, extra))

    def stacked(self, inputs: Inputs, extra: Tensor | None = None) -> Tensor:
        """Returns the encoding as each body sees it, (k, N, width)."""
        if not self.encoded:
            return self._encode(0, inputs, extra).unsqueeze(0).expand(self.networks, -1, -1)
        return torch.stack([self._encode(i, inputs, extra) for i in range(self.networks)])

    def remember(self, index: int, inputs: Inputs, recurrent_state: Tensor) -> tuple[Tensor, Tensor]:
        """Returns one network's features (N, width) and state after a decision; `recurrent_state` (N, L): of all."""
        assert self.memory is not None
        return self.memory.step(index, self.features(index, inputs), self.memory.own(index, recurrent_state))

    def unroll(self, index: int, features: Tensor, sequences: Sequences | None) -> Tensor:
        """Returns features (N, hidden) after one network's memory, (N, width), along sequences; without it as is."""
        if self.memory is None:
            return features
        assert sequences is not None
        return self.memory.unroll(index, features, sequences)

    def _encode(self, index: int, inputs: Inputs, extra: Tensor | None) -> Tensor:
        if not self.encoded:
            return inputs[0] if extra is None else torch.cat([inputs[0], extra], 1)
        images = inputs[1 : 1 + len(self.images)]
        entities = inputs[1 + len(self.images) :]
        encoders = self.encoders[index]
        assert isinstance(encoders, nn.ModuleList)
        parts = [inputs[0], *(encoder(image) for encoder, image in zip(encoders, images, strict=True))]
        if entities:
            encoding = torch.cat(parts, 1)
            parts = [encoding, self.attentions[index](encoding, entities)]
        return torch.cat(parts if extra is None else [*parts, extra], 1)


def centered(images: Tensor) -> Tensor:
    """Returns images (N, C, H, W) less the mean of each channel.

    Inputs whose mean is far from zero move all weights of a unit together, and what differs between images is learned
    last. LeCun et al. 1998, "Efficient BackProp", https://doi.org/10.1007/3-540-49430-8_2, section 4.3.
    """
    return images - images.mean((2, 3), keepdim=True)


def seen(entities: Tensor) -> Tensor:
    """Returns entities (N, most, size) without the places in which none of the rows has one; at least one place is
    left.

    Only on the CPU: an accelerator would have to be waited for.
    """
    if entities.device.type != "cpu" or not len(entities):
        return entities
    places = (~is_nothing(entities)).any(0).nonzero().squeeze(1)
    return (
        entities
        if len(places) == entities.shape[1]
        else entities.index_select(1, places if len(places) else places.new_zeros(1))
    )


def image_shape(spec: BehaviorSpec, index: int) -> tuple[int, int, int]:
    """Returns (C, H, W) of a visual observation."""
    channels, height, width = spec.obs[index].shape
    return channels, height, width


def goal_columns(spec: BehaviorSpec, hidden: int) -> list[int]:
    """Returns the encoding's columns that come from goal signals: vectors lie first, then `hidden` for each image."""
    columns = []
    at = 0
    vectors = [obs for obs in spec.obs if obs.is_vector]
    for obs in vectors + [obs for obs in spec.obs if obs.is_visual]:
        size = obs.shape[0] if obs.is_vector else hidden
        if obs.goal:
            columns += range(at, at + size)
        at += size
    return columns


class Normalizer(nn.Module):
    """Normalizes to (x - mean) / std, clipped to ±5, with the statistics of all rows taken in so far.

    Starts as if it had seen one row with mean 0 and variance 1. It does not change while a rollout is collected and
    learned from, so that acting and learning see the same numbers. The sums are float64: after 10^8 rows a float32 sum
    no longer notices a new one.
    """

    count: Tensor
    mean: Tensor
    m2: Tensor
    shift: Tensor
    scale: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("count", torch.ones((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(size, dtype=torch.float64))
        self.register_buffer("m2", torch.ones(size, dtype=torch.float64))
        self.register_buffer("shift", torch.zeros(size), persistent=False)
        self.register_buffer("scale", torch.ones(size), persistent=False)
        self.register_load_state_dict_post_hook(lambda module, _: module._refresh())

    def forward(self, x: Tensor) -> Tensor:
        """Maps (N, size) to (N, size)."""
        return (x - self.shift).mul_(self.scale).clamp_(-LIMIT, LIMIT)

    @torch.no_grad()
    def update(self, x: Tensor, group: RankGroup = ALONE) -> None:
        """Takes in the rows of x (N, size), of all ranks of `group`.

        Chan et al. 1983, https://doi.org/10.1080/00031305.1983.10483115, eq. 2.1.
        """
        wide = x.double()
        mean = wide.mean(0) if len(x) else wide.new_zeros(wide.shape[1])
        own = torch.cat([mean.new_full((1,), len(x)), mean, (wide - mean).square().sum(0)])
        for part in group.gather_tensor(own):
            rows, mean, m2 = part.to(x.device).split([1, x.shape[1], x.shape[1]])
            delta = mean - self.mean
            total = self.count + rows[0]
            self.m2 += m2 + delta.square() * self.count * rows[0] / total
            self.mean += delta * rows[0] / total
            self.count.copy_(total)
        self._refresh()

    def _refresh(self) -> None:
        self.shift.copy_(self.mean)
        self.scale.copy_((self.m2 / self.count).rsqrt())
