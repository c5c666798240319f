"""Images to flat encodings."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from palaestra.core.errors import ConfigError

DENSE_GAIN = 1.41


class SimpleVisual(nn.Module):
    """ML-Agents' `simple` encoder: two convolutions and a dense layer, LeakyReLU after each. At least 20 pixels on each side."""

    smallest = 20

    def __init__(self, shape: tuple[int, int, int], hidden: int) -> None:
        super().__init__()
        channels, height, width = shape
        self.conv1 = nn.Conv2d(channels, 16, kernel_size=8, stride=4)
        self.conv2 = nn.Conv2d(16, 32, kernel_size=4, stride=2)
        rows, columns = (conv_size(conv_size(side, 8, 4), 4, 2) for side in (height, width))
        self.dense = nn.Linear(32 * rows * columns, hidden)
        nn.init.normal_(self.dense.weight, std=DENSE_GAIN / math.sqrt(self.dense.in_features))
        nn.init.zeros_(self.dense.bias)

    def forward(self, image: Tensor) -> Tensor:
        """(N, C, H, W) to (N, hidden)."""
        hidden = functional.leaky_relu(self.conv1(image))
        hidden = functional.leaky_relu(self.conv2(hidden))
        return functional.leaky_relu(self.dense(torch.flatten(hidden, 1)))


def conv_size(side: int, kernel: int, stride: int) -> int:
    """Pixels left along one side after a convolution without padding."""
    return (side - kernel) // stride + 1


def visual_encoder(kind: str, name: str, shape: tuple[int, int, int], hidden: int) -> nn.Module:
    """The encoder that `vis_encode_type` names. Raises ConfigError where the image is too small for it."""
    if min(shape[1:]) < SimpleVisual.smallest:
        raise ConfigError(
            f"observation '{name}' is {shape[1]} x {shape[2]} pixels; vis_encode_type '{kind}' needs at least "
            f"{SimpleVisual.smallest} on each side: make the image larger"
        )
    return SimpleVisual(shape, hidden)
