"""Converts weights of ML-Agents' own networks (its `checkpoint.pt`) to Palaestra's networks, which arrange the same
architectures differently.

In ML-Agents each observation has a processor, in the order of the observations; in Palaestra vectors come first, joined
and normalized together, then images. In ML-Agents actor and critic are separate networks; in Palaestra they are
stacked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from palaestra.models.actor_critic import ActorCritic
from palaestra.models.encoders import ConvolutionalEncoder, ResNetEncoder
from palaestra.models.entity_attention import EMBEDDING
from palaestra.models.sac_networks import TWINS, SoftActorCritic
from palaestra.models.trunk import Trunk

Weights = dict[str, Tensor]
Modules = Mapping[str, Mapping[str, Tensor]]
"""Parts of a checkpoint by name, such as `Policy` and `Optimizer:critic`."""

POLICY, CRITIC, Q_NETWORKS = "Policy", "Optimizer:critic", "Optimizer:q_network"
BODY, ENCODER, HIDDEN = "network_body.", "observation_encoder.", "_body_endoder."  # their spelling
HEADS = ("action_model._continuous_distribution", "action_model._discrete_distribution")


class Mismatch(ValueError):
    """Networks of other architectures, or for other observations or actions."""


def converted(modules: Modules, network: Trunk, signals: Sequence[str]) -> tuple[Weights, bool]:
    """Returns the state of `network` with ML-Agents' weights, and whether the critic's weights are among them; if not,
    the critic keeps its own.

    `signals`: names of the reward signals, in the order of their values. Raises Mismatch, which says what differs.
    """
    own = {key: value.clone() for key, value in network.state_dict().items()}
    policy = _Source(modules, POLICY)
    loader = _NetworkState(network, own)
    loader.normalizer(policy.within(BODY + ENCODER))
    loader.body(network, "", 0, policy.within(BODY), 0)
    loader.action_head(policy, squashed=isinstance(network, SoftActorCritic))
    policy.must_be_used_up()
    return own, _critic(modules, network, loader, signals)


def _critic(modules: Modules, network: Trunk, loader: _NetworkState, signals: Sequence[str]) -> bool:
    """Loads the critic into the state. Returns False if it does not fit: another trainer's, or for other rewards."""
    if isinstance(network, SoftActorCritic):
        critics = network.critics
        if critics.memory is not None or Q_NETWORKS not in modules or network.shown is not None:
            return False
        before = loader.own.copy()
        try:
            twins = [_Source(modules, Q_NETWORKS).within(f"q{i + 1}_network.") for i in range(TWINS)]
            for i, twin in enumerate(twins):
                loader.body(critics, "critics.", i, twin.within(BODY), network.spec.action.continuous)
                weight, bias = _values(twin, signals)
                loader.put_part("critics.head_weight", i, weight.t())
                loader.put_part("critics.head_bias", i, bias.unsqueeze(0))
        except Mismatch:
            loader.own.update(before)
            return False
        critics = {key: value for key, value in loader.own.items() if key.startswith("critics.")}
        loader.own.update({f"targets.{key[8:]}": value.clone() for key, value in critics.items()})
        return True
    if not isinstance(network, ActorCritic) or CRITIC not in modules or not isinstance(network.value_head, nn.Linear):
        return False
    critic = _Source(modules, CRITIC)
    before = loader.own.copy()
    try:
        if network.networks > 1:
            loader.body(network, "", network.networks - 1, critic.within(BODY), 0)
        weight, bias = _values(critic, signals)
        loader.put("value_head.weight", weight)
        loader.put("value_head.bias", bias)
    except Mismatch:
        loader.own.update(before)
        return False
    return True


def _values(source: _Source, signals: Sequence[str]) -> tuple[Tensor, Tensor]:
    parts = [source.linear(f"value_heads.value_heads.{name}") for name in signals]
    prefix = f"{source.prefix}value_heads.value_heads."
    there = {key[len(prefix) :].split(".")[0] for key in source.tensors if key.startswith(prefix)}
    if there != set(signals):
        raise Mismatch(f"values of {', '.join(sorted(there))}")
    return torch.cat([weight for weight, _ in parts]), torch.cat([bias for _, bias in parts])


class _Source:
    """Tensors of one ML-Agents module; remembers which were used."""

    def __init__(self, modules: Modules, name: str, prefix: str = "") -> None:
        if name not in modules:
            raise Mismatch(f"the file has no '{name}' (it has: {', '.join(modules)})")
        self.modules = modules
        self.name = name
        self.prefix = prefix
        self.tensors = modules[name]
        self.taken: set[str] = set()

    def within(self, prefix: str) -> _Source:
        """Returns a view of the tensors whose names begin with `prefix`."""
        part = _Source(self.modules, self.name, prefix=self.prefix + prefix)
        part.taken = self.taken
        return part

    def has(self, name: str) -> bool:
        """Whether there is a tensor of this name, or one whose name begins with it."""
        return any(key.startswith(self.prefix + name) for key in self.tensors)

    def take(self, name: str) -> Tensor:
        """Returns a tensor. Raises Mismatch if the tensor is missing."""
        key = self.prefix + name
        if key not in self.tensors:
            raise Mismatch(f"the file has no '{key}'")
        self.taken.add(key)
        return self.tensors[key]

    def linear(self, name: str) -> tuple[Tensor, Tensor]:
        """Returns weight and bias of a layer."""
        return self.take(f"{name}.weight"), self.take(f"{name}.bias")

    def must_be_used_up(self) -> None:
        """Raises Mismatch if weights of the actor were not taken, because it has more layers than the network."""
        own = (BODY + ENCODER, BODY + HIDDEN, f"{BODY}lstm.", *HEADS)
        rest = [key for key in self.tensors if key.startswith(own) and key not in self.taken]
        if rest:
            raise Mismatch(f"the file has '{rest[0]}' too, which this run's network does not have")


class _NetworkState:
    """Puts their tensors into the state of our network."""

    def __init__(self, network: Trunk, own: Weights) -> None:
        self.network = network
        self.own = own
        self.spec = network.spec

    def put(self, name: str, value: Tensor) -> None:
        """Replaces a tensor. Raises Mismatch if the value has another shape."""
        if name not in self.own:
            raise Mismatch(f"'{name}' does not exist in this run's network")
        if self.own[name].shape != value.shape:
            raise Mismatch(f"{name}: shape {tuple(value.shape)} in the file, {tuple(self.own[name].shape)} in this run")
        self.own[name] = value.to(self.own[name].dtype).clone()

    def put_part(self, name: str, index: int, value: Tensor) -> None:
        """Replaces the slice of one network in a stack."""
        if name not in self.own or self.own[name].shape[1:] != value.shape:
            here = tuple(self.own[name].shape[1:]) if name in self.own else "none"
            raise Mismatch(f"{name}: shape {tuple(value.shape)} in the file, {here} in this run")
        whole = self.own[name].clone()
        whole[index] = value
        self.own[name] = whole

    def put_linear(self, name: str, layer: tuple[Tensor, Tensor]) -> None:
        """Replaces weight and bias of a layer."""
        self.put(f"{name}.weight", layer[0])
        self.put(f"{name}.bias", layer[1])

    def normalizer(self, encoder: _Source) -> None:
        """Joins the statistics of all vectors."""
        parts = [encoder.within(f"processors.{i}.normalizer.") for i in self.network.vectors]
        if self.network.normalizer is None:
            if any(part.has("running_mean") for part in parts):
                raise Mismatch("it normalizes its observations (normalize: true), and this run's network does not")
            return
        self.put("normalizer.count", parts[0].take("normalization_steps"))
        for part in parts[1:]:
            part.take("normalization_steps")
        self.put("normalizer.mean", torch.cat([part.take("running_mean") for part in parts]))
        self.put("normalizer.m2", torch.cat([part.take("running_variance") for part in parts]))

    def body(self, network: Trunk, prefix: str, index: int, source: _Source, extra: int) -> None:
        """Loads encoders, attention, hidden layers and memory of network `index` in the stack `network`."""
        encoder = source.within(ENCODER)
        for place, i in enumerate(network.images):
            self._image(network, f"{prefix}encoders.{index}.{place}", place, encoder.within(f"processors.{i}."))
        columns, goals = self._columns(network)
        if network.entities:
            self._attention(network, f"{prefix}attentions.{index}.", encoder, columns)
            columns = [*columns, *range(len(columns), len(columns) + EMBEDDING)]
        columns = torch.tensor([*columns, *range(len(columns), len(columns) + extra)])
        hidden = source.within(HIDDEN)
        if network.conditioned:
            self._conditioned(f"{prefix}bodies.{index}.", hidden, columns, torch.tensor(goals))
        else:
            self._layers(f"{prefix}body.", index, hidden, columns)
        if network.memory is not None:
            for name in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"):
                self.put(f"{prefix}memory.lstms.{index}.{name}", source.take(f"lstm.lstm.{name}"))

    def action_head(self, policy: _Source, *, squashed: bool) -> None:
        """Loads means, deviations and logits."""
        action = self.spec.action
        layers = list[tuple[Tensor, Tensor]]()
        continuous, discrete = (policy.within(f"{head}.") for head in HEADS)
        if action.continuous:
            layers.append(continuous.linear("mu"))
            if squashed:
                layers.append(continuous.linear("log_sigma"))
            else:
                self.put("log_std", continuous.take("log_sigma").flatten())
        layers += [discrete.linear(f"branches.{i}") for i in range(len(action.branches))]
        sizes = [len(weight) for weight, _ in layers]
        expected = [action.continuous] * ((1 + squashed) if action.continuous else 0) + list(action.branches)
        if sizes != expected:
            raise Mismatch(
                f"actions: {' + '.join(map(str, sizes))} in the file, {' + '.join(map(str, expected))} in this run"
            )
        weights, biases = zip(*layers, strict=True)
        self.put_linear("action_head", (torch.cat(weights), torch.cat(biases)))

    def _columns(self, network: Trunk) -> tuple[list[int], list[int]]:
        """Returns for each column of our encoding, without entities, the number of theirs; the same for goals."""
        hidden = network.width if network.memory is None else network.memory.lstm(0).input_size
        starts = {}
        goal_starts = {}
        at = 0
        goal_at = 0
        for i, obs in enumerate(self.spec.obs):
            if obs.is_entities:
                continue
            size = obs.shape[0] if obs.is_vector else hidden
            starts[i] = range(at, at + size)
            goal_starts[i] = range(goal_at, goal_at + size)
            at += size
            goal_at += size if obs.goal else 0
        ours = (*network.vectors, *network.images)
        columns = [column for i in ours for column in starts[i]]
        return columns, [column for i in ours if self.spec.obs[i].goal for column in goal_starts[i]]

    def _image(self, network: Trunk, name: str, place: int, source: _Source) -> None:
        encoders = network.encoders[0]
        assert isinstance(encoders, nn.ModuleList)
        encoder = encoders[place]
        if isinstance(encoder, ConvolutionalEncoder):
            for i in range(len(encoder.convolutions)):
                self.put_linear(f"{name}.convolutions.{i}", source.linear(f"conv_layers.{2 * i}"))
            self.put_linear(f"{name}.dense", source.linear("dense.0"))
        elif isinstance(encoder, ResNetEncoder):
            for i in range(len(encoder.stacks)):
                self.put_linear(f"{name}.stacks.{i}.convolution", source.linear(f"sequential.{4 * i}"))
                for j in range(2):
                    for part, layer in (("first", 1), ("second", 3)):
                        theirs = source.linear(f"sequential.{4 * i + 2 + j}.layers.{layer}")
                        self.put_linear(f"{name}.stacks.{i}.blocks.{j}.{part}", theirs)
            self.put_linear(f"{name}.dense", source.linear("dense"))
        else:
            raise Mismatch("this run's network has an encoder of your own")

    def _attention(self, network: Trunk, name: str, encoder: _Source, columns: Sequence[int]) -> None:
        if columns:
            weight, bias = encoder.linear("x_self_encoder.seq_layers.0")
            self.put_linear(f"{name}itself", (_reordered(weight, torch.tensor(columns)), bias))
        for place, i in enumerate(network.entities):
            layer = encoder.linear(f"processors.{i}.self_ent_encoder.seq_layers.0")
            self.put_linear(f"{name}embeddings.{place}", layer)
        parts = [encoder.linear(f"rsa.fc_{part}") for part in ("q", "k", "v")]
        self.put_linear(
            f"{name}queries_keys_values",
            (torch.cat([weight for weight, _ in parts]), torch.cat([bias for _, bias in parts])),
        )
        self.put_linear(f"{name}out", encoder.linear("rsa.fc_out"))

    def _layers(self, name: str, index: int, hidden: _Source, columns: Tensor) -> None:
        count = sum(re.fullmatch(re.escape(name) + r"weights\.[0-9]+", key) is not None for key in self.own)
        if not count:
            raise Mismatch("this run's network has a body of your own, or is conditioned on goals")
        for i in range(count):
            weight, bias = hidden.linear(f"seq_layers.{2 * i}")
            self.put_part(f"{name}weights.{i}", index, (weight if i else _reordered(weight, columns)).t())
            self.put_part(f"{name}biases.{i}", index, bias.unsqueeze(0))

    def _conditioned(self, name: str, hidden: _Source, columns: Tensor, goals: Tensor) -> None:
        count = sum(re.fullmatch(re.escape(name) + r"linears\.[0-9]+\.weight", key) is not None for key in self.own)
        for i in range(count):
            weight, bias = hidden.linear(f"layers.{2 * i}")
            self.put_linear(f"{name}linears.{i}", (weight if i else _reordered(weight, columns), bias))
        hyper = hidden.within(f"layers.{2 * count}.")
        weight, bias = hyper.linear("hypernet.0")
        self.put_linear(f"{name}hyper.first", (_reordered(weight, goals), bias))
        self.put_linear(f"{name}hyper.second", hyper.linear("hypernet.2"))
        weight, bias = hyper.linear("hypernet.5")
        if not count:  # the only layer is made from the goal: its inputs, the encoding, are rows of the matrix
            outputs = len(self.own[f"{name}hyper.bias"])
            weight, bias = (each.unflatten(0, (-1, outputs))[columns].flatten(0, 1) for each in (weight, bias))
        self.put_linear(f"{name}hyper.weights", (weight, bias))
        self.put(f"{name}hyper.bias", hyper.take("bias"))


def _reordered(weight: Tensor, columns: Tensor) -> Tensor:
    """Returns a layer's weight (out, in) with its inputs in our order. Raises Mismatch if their number differs."""
    if weight.shape[1] != len(columns):
        raise Mismatch(f"observations: {weight.shape[1]} numbers in the file, {len(columns)} in this run")
    return weight[:, columns]
