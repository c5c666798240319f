"""Runs a policy of another library with torch's own layers, for comparison with its ONNX model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from palaestra.convert.source_network import Continuous, Convolution, Dense, Flatten, Layer, SourcePolicy


@torch.no_grad()
def answers(policy: SourcePolicy, obs: Sequence[np.ndarray]) -> np.ndarray:
    """Returns deterministic actions (N, continuous) as Unity receives them, or logits (N, choices)."""
    parts = []
    for seen, given in zip(policy.seen, obs, strict=True):
        x = torch.from_numpy(np.asarray(given, np.float32)) * seen.factor
        if seen.normalizer is not None:
            x = (x - _tensor(seen.normalizer.mean)) / _tensor(seen.normalizer.divisor)
            limit = seen.normalizer.limit
            x = x if limit is None else x.clamp(-limit, limit)
        parts.append(forward(seen.layers, x))
    features = forward(policy.body, torch.cat(parts, 1))
    head = policy.head
    if not isinstance(head, Continuous):
        return forward(head.logits, features).numpy()
    mean = forward(head.mean, features)
    if head.squashed:
        return mean.tanh().numpy()
    if head.bounds is None:
        return mean.numpy()
    low, high = (np.asarray(each, np.float32) for each in head.bounds)
    clipped = np.clip(mean.numpy().astype(np.float64), low, high)  # as the source does it, in the environment's range
    return ((clipped - low) / (high.astype(np.float64) - low) * 2 - 1).astype(np.float32)


def forward(layers: Sequence[Layer], x: Tensor) -> Tensor:
    """Runs layers one after another."""
    for layer in layers:
        if isinstance(layer, Dense):
            x = functional.linear(x, _tensor(layer.weight), _tensor(layer.bias))
        elif isinstance(layer, Convolution):
            x = functional.conv2d(x, _tensor(layer.weight), _tensor(layer.bias), stride=layer.stride)
        elif isinstance(layer, Flatten):
            x = torch.flatten(x, 1)
        else:
            x = FUNCTIONS[layer.name](x)
    return x


def _tensor(values: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, np.float32))


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "elu": functional.elu,
    "identity": lambda x: x,
    "leaky_relu": functional.leaky_relu,
    "relu": functional.relu,
    "selu": functional.selu,
    "sigmoid": torch.sigmoid,
    "silu": functional.silu,
    "softplus": functional.softplus,
    "tanh": torch.tanh,
    "hardtanh2": lambda x: functional.hardtanh(x, -2.0, 2.0),
}
"""Activations, by name."""
