"""The trunk of every network, from observations to features: encoders, bodies, memory and the normalizer."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from palaestra.core.row_index import Sequences
from palaestra.core.specs import BehaviorSpec
from palaestra.models import products
from palaestra.models.conditioned_bodies import ConditionedMLP, goal_columns
from palaestra.models.custom import own_body
from palaestra.models.encoders import centered, visual_encoder
from palaestra.models.entity_attention import EntityAttention, seen
from palaestra.models.lstm import LSTMLayer
from palaestra.models.products import FEWEST_ROWS
from palaestra.models.residual.residual_body import ResidualBody
from palaestra.models.settings import NetworkSettings
from palaestra.parallel.rank_group import ALONE, RankGroup

LIMIT = 5.0
"""Bound of normalized observations, which are clipped to ±LIMIT, as in ML-Agents."""
Inputs = tuple[Tensor, ...]
"""Prepared observations: vectors, (N, numbers), each image, (N, C, H, W), each kind of entity, (N, most, size)."""
Trace = list[tuple[Tensor, Tensor]]
"""Values that a backward pass needs of each layer: its input (k, N, in) and its sum before Swish (k, N, out)."""


class Trunk(nn.Module):
    """Encoders, bodies and memory of k networks of one shape over the same observations: everything but their heads.

    `prepare` does the steps without weights (joining, normalizing, centering) once a rollout; all other methods take
    its result. `extra` numbers per row, such as an action, join the encoding before the bodies.
    """

    goal_columns: Tensor
    apart: bool
    """Whether bodies are separate modules, not stacked in one: bodies conditioned on goals, or a user's."""
    greedy: bool = False
    """Whether the network's outputs for branches are action values, not logits: a model file then always takes the best
    choice."""
    reward_heads: tuple[str, ...] = ("value_head.",)
    """Prefixes of the names of tensors whose shapes follow from the reward signals."""
    zeroed_heads: bool = False
    """Whether `reward_heads` that start anew above layers of another run start at zero."""
    shown: tuple[int, ...] | None = None
    """Observations of the behavior that the policy sees, if some are for the critic alone; None: all."""

    def __init__(self, spec: BehaviorSpec, settings: NetworkSettings, networks: int, extra: int = 0) -> None:
        super().__init__()
        self.spec = spec
        self.networks = networks
        hidden = settings.hidden_units
        self.vectors = tuple(i for i, obs in enumerate(spec.obs) if obs.is_vector)
        self.images = tuple(i for i, obs in enumerate(spec.obs) if obs.is_visual)
        self.entities = tuple(i for i, obs in enumerate(spec.obs) if obs.is_entities)
        self.centered = settings.center_images
        self.measured = self.vectors
        """Observations whose running statistics `learn_statistics` updates."""
        width = sum(spec.obs[i].shape[0] for i in self.vectors)
        self.normalizer = Normalizer(width) if settings.normalize and width else None
        self.encoders = nn.ModuleList(
            nn.ModuleList(
                visual_encoder(settings.vis_encode_type, spec.obs[i].name, spec.obs[i].shape, hidden)
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
        self.apart = bool(goals) or settings.own_body is not None
        inputs += extra
        if settings.own_body is not None:
            self.bodies = nn.ModuleList(
                own_body(settings.own_body, inputs, hidden, settings.num_layers) for _ in range(networks)
            )
        elif goals:
            self.bodies = nn.ModuleList(
                ConditionedMLP(inputs, len(goals), hidden, settings.num_layers) for _ in range(networks)
            )
        else:
            kind: type[Any] = ResidualBody if settings.body else StackedMLP
            self.body = kind(networks, inputs, hidden, settings.num_layers)
        self.memory = LSTMLayer(networks, hidden, settings.memory.memory_size) if settings.memory else None
        self.width = hidden if self.memory is None else self.memory.outputs
        """Number of features in a row."""

    @property
    def encoded(self) -> bool:
        """Whether there are weights between prepared inputs and bodies."""
        return bool(self.images or self.entities)

    @property
    def plain(self) -> bool:
        """Whether there are only stacked layers between prepared inputs and heads."""
        return not self.apart and not self.encoded and self.memory is None

    @property
    def memory_size(self) -> int:
        """L, the size of the recurrent state, one network after the other; 0 without an LSTM."""
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
        """Updates the normalizer with rows of all vector observations, each (N, n), of all ranks of `group`."""
        if self.normalizer is not None:
            self.normalizer.update(torch.cat(vectors, 1), group)

    def features(self, index: int, inputs: Inputs, extra: Tensor | None = None) -> Tensor:
        """Returns one network's features, (N, hidden), before its memory. `extra` (N, extra)."""
        encoding = self.encode(index, inputs, extra)
        if self.conditioned:
            return self.bodies[index](encoding, encoding.index_select(1, self.goal_columns))
        return self.bodies[index](encoding) if self.apart else self.body.one(index, encoding)

    def all_features(self, inputs: Inputs, extra: Tensor | None = None) -> Tensor:
        """Returns the features of every network, (k, N, hidden), before their memory."""
        if self.apart:
            return torch.stack([self.features(i, inputs, extra) for i in range(self.networks)])
        return self.body(self.stacked(inputs, extra))

    def stacked(self, inputs: Inputs, extra: Tensor | None = None) -> Tensor:
        """Returns the encoding that each body takes, (k, N, width)."""
        if not self.encoded:
            return self.encode(0, inputs, extra).unsqueeze(0).expand(self.networks, -1, -1)
        return torch.stack([self.encode(i, inputs, extra) for i in range(self.networks)])

    def remember(self, index: int, inputs: Inputs, recurrent_state: Tensor) -> tuple[Tensor, Tensor]:
        """Returns one network's features (N, width) and state after a decision; `recurrent_state` (N, L) has the states
        of all networks."""
        assert self.memory is not None
        return self.memory.step(index, self.features(index, inputs), self.memory.own(index, recurrent_state))

    def unroll(self, index: int, features: Tensor, sequences: Sequences | None) -> Tensor:
        """Returns features (N, hidden) after one network's memory, (N, width), along sequences; without memory they
        stay the same."""
        if self.memory is None:
            return features
        assert sequences is not None
        return self.memory.unroll(index, features, sequences)

    def encode(self, index: int, inputs: Inputs, extra: Tensor | None = None) -> Tensor:
        """Returns one body's input from the observations, (N, width)."""
        if not self.encoded:
            return inputs[0] if extra is None else torch.cat([inputs[0], extra], 1)
        images = inputs[1 : 1 + len(self.images)]
        entities = inputs[1 + len(self.images) :][: len(self.entities)]
        encoders = self.encoders[index]
        assert isinstance(encoders, nn.ModuleList)
        parts = [inputs[0], *(encoder(image) for encoder, image in zip(encoders, images, strict=True))]
        if entities:
            encoding = torch.cat(parts, 1)
            parts = [encoding, self.attentions[index](encoding, entities)]
        return torch.cat(parts if extra is None else [*parts, extra], 1)


class StackedMLP(nn.Module):
    """k networks of one shape: `layers` times Linear and Swish, for all k networks in one batched product.

    The time of small minibatches depends on the number of calls, not on arithmetic. Index 0 is the actor. Weights are
    (k, in, out), biases (k, 1, out).
    """

    def __init__(self, networks: int, inputs: int, hidden: int, layers: int) -> None:
        super().__init__()
        sizes = [inputs] + [hidden] * layers
        self.outputs = sizes[-1]
        self.weights = nn.ParameterList(kaiming(networks, i, o) for i, o in pairwise(sizes))
        self.biases = nn.ParameterList(torch.zeros(networks, 1, o) for o in sizes[1:])
        # a ParameterList takes longer to give an item than a small product takes
        self.layers = list(zip(self.weights, self.biases, strict=True))
        self._views: dict[int, tuple[int, list[tuple[Tensor, Tensor]]]] = {}

    def forward(self, x: Tensor) -> Tensor:
        """Maps (k, N, in) to (k, N, hidden)."""
        for weight, bias in self.layers:
            x = functional.silu(linear(bias, x, weight))
        return x

    def one(self, index: int, x: Tensor) -> Tensor:
        """Runs one network alone: (N, in) to (N, hidden)."""
        for weight, bias in self._one(index):
            sums = torch.addmm(bias, x, weight) if len(x) < FEWEST_ROWS else products.linear(x, weight.t(), bias[0])
            x = functional.silu(sums)
        return x

    def _one(self, index: int) -> list[tuple[Tensor, Tensor]]:
        """Returns one network's layers; without gradients, views that are made once, since a view costs as much as a
        product."""
        if torch.is_grad_enabled() or not self.layers:
            return [(weight[index], bias[index]) for weight, bias in self.layers]
        place, views = self._views.get(index, (0, []))
        if place != self.layers[0][0].data_ptr():  # new, or moved to another device
            views = [(weight.detach()[index], bias.detach()[index]) for weight, bias in self.layers]
            self._views[index] = self.layers[0][0].data_ptr(), views
        return views

    def trace(self, x: Tensor) -> tuple[Tensor, Trace]:
        """Runs `forward`, and also returns the inputs of `backward`; keeps no autograd graph."""
        trace: Trace = []
        for weight, bias in self.layers:
            sums = linear(bias, x, weight)
            trace.append((x, sums))
            x = functional.silu(sums)
        return x, trace

    def backward(self, trace: Trace, grad: Tensor) -> None:
        """Writes every parameter's `.grad` from the gradient of the outputs, (k, N, hidden): the chain rule by hand."""
        for i in reversed(range(len(trace))):
            x, sums = trace[i]
            weight, bias = self.layers[i]
            grad = torch.ops.aten.silu_backward(grad, sums)
            assert weight.grad is not None
            torch.sum(grad, 1, keepdim=True, out=bias.grad)
            if x.shape[1] < FEWEST_ROWS:
                torch.bmm(x.transpose(1, 2), grad, out=weight.grad)
                grad = torch.bmm(grad, weight.transpose(1, 2)) if i else grad
            else:
                products.stacked(x.transpose(1, 2), grad, out=weight.grad)
                grad = products.stacked(grad, weight.transpose(1, 2)) if i else grad


def linear(bias: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    """Returns k linear layers (k, N, out) of inputs (k, N, in), weights (k, in, out) and biases (k, 1, out)."""
    return (torch.baddbmm if x.shape[1] < FEWEST_ROWS else products.stacked_linear)(bias, x, weight)


def kaiming(networks: int, inputs: int, outputs: int) -> Tensor:
    """Draws normal weights (networks, in, out), std 1 / sqrt(in). He et al. 2015, https://arxiv.org/abs/1502.01852."""
    return torch.randn(networks, inputs, outputs) * (1 / math.sqrt(inputs))


class Normalizer(nn.Module):
    """Normalizes to (x - mean) / std, clipped to ±5, with the statistics of all rows that `update` was given.

    Starts as if it had seen one row with mean 0 and variance 1. The statistics do not change while a rollout is
    collected and learned from, so that acting and learning see the same numbers. The sums are float64: after 10^8 rows,
    one more row would not change a float32 sum.
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
        """Adds the rows of x (N, size) of all ranks of `group` to the statistics.

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
