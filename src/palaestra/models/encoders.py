"""Encoders of images into flat vectors: the encoders of ML-Agents, and users' own."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from palaestra.core.errors import ConfigError
from palaestra.models.custom import find_class, make_own

DENSE_GAIN = 1.41

Shape = tuple[int, ...]
"""Shape of an image: (C, H, W)."""


class ConvolutionalEncoder(nn.Module):
    """Convolutions without padding and a dense layer, a LeakyReLU after each."""

    layers: ClassVar[tuple[tuple[int, int, int], ...]] = ()
    """Channels, kernel and stride of each convolution."""
    smallest: ClassVar[int] = 1
    """Fewest pixels that an image must have on each side."""
    order: ClassVar[torch.memory_format] = torch.contiguous_format
    """Memory layout of all tensors between the first convolution and the dense layer: the faster layout on the CPU;
    contiguous: the image's own layout."""

    def __init__(self, shape: Shape, hidden: int) -> None:
        super().__init__()
        channels, height, width = shape
        self.convolutions = nn.ModuleList()
        for filters, kernel, stride in self.layers:
            self.convolutions.append(nn.Conv2d(channels, filters, kernel, stride))
            channels = filters
            height = conv_size(height, kernel, stride)
            width = conv_size(width, kernel, stride)
        self.dense = dense(channels * height * width, hidden)
        lay(self.convolutions[1:], self.order)

    def forward(self, image: Tensor) -> Tensor:
        """Maps (N, C, H, W) to (N, hidden)."""
        for convolution in self.convolutions:
            image = convolution(image)
            if self.order is torch.channels_last:
                image = image.contiguous(memory_format=self.order)
            image = functional.leaky_relu(image, inplace=True)
        return functional.leaky_relu(self.dense(torch.flatten(image, 1)), inplace=True)


class SimpleEncoder(ConvolutionalEncoder):
    """`simple`: two convolutions."""

    layers = ((16, 8, 4), (32, 4, 2))
    smallest = 20


class NatureEncoder(ConvolutionalEncoder):
    """`nature_cnn`. Mnih et al. 2015, https://www.nature.com/articles/nature14236, methods."""

    layers = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
    smallest = 36
    # 1.2 times as fast; no faster where the first convolution's weights, of three channels, lie so too
    order = torch.channels_last


class Match3Encoder(ConvolutionalEncoder):
    """`match3`: for grids with few cells, each of which matters."""

    layers = ((35, 3, 1), (144, 3, 1))
    smallest = 5


class FullyConnectedEncoder(ConvolutionalEncoder):
    """`fully_connected`: the dense layer alone."""


class ResNetEncoder(nn.Module):
    """`resnet`. Espeholt et al. 2018, https://arxiv.org/abs/1802.01561, figure 3, right; with ML-Agents' Swish."""

    smallest: ClassVar[int] = 15

    def __init__(self, shape: Shape, hidden: int) -> None:
        super().__init__()
        channels, height, width = shape
        self.stacks = nn.ModuleList()
        for filters in (16, 32, 32):
            self.stacks.append(ResidualStack(channels, filters))
            channels = filters
            height = conv_size(height, 3, 2)
            width = conv_size(width, 3, 2)
        self.dense = dense(channels * height * width, hidden)
        lay(self, torch.channels_last)  # 1.5 times as fast on the CPU

    def forward(self, image: Tensor) -> Tensor:
        """Maps (N, C, H, W) to (N, hidden)."""
        for stack in self.stacks:
            image = stack(image)
        return functional.relu(self.dense(torch.flatten(functional.silu(image), 1)), inplace=True)


class ResidualStack(nn.Module):
    """A convolution, a pool that halves each side, and two residual blocks."""

    def __init__(self, channels: int, filters: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(channels, filters, 3, padding=1)
        self.blocks = nn.ModuleList(ResidualBlock(filters) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """Maps (N, C, H, W) to (N, F, (H - 1) // 2, (W - 1) // 2)."""
        x = functional.max_pool2d(self.convolution(x), 3, 2)
        for block in self.blocks:
            x = block(x)
        return x


class ResidualBlock(nn.Module):
    """Adds Swish and convolution, twice, to the input. He et al. 2016, https://arxiv.org/abs/1603.05027, figure 4e."""

    def __init__(self, filters: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(filters, filters, 3, padding=1)
        self.second = nn.Conv2d(filters, filters, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """Maps (N, C, H, W) to the same shape."""
        return self.second(functional.silu(self.first(functional.silu(x)))).add_(x)


OURS = (SimpleEncoder, NatureEncoder, ResNetEncoder, Match3Encoder, FullyConnectedEncoder)


def dense(inputs: int, outputs: int, gain: float = DENSE_GAIN) -> nn.Linear:
    """Returns a dense layer, by default as in ML-Agents' visual encoders: std gain / sqrt(inputs), biases 0."""
    layer = nn.Linear(inputs, outputs)
    nn.init.normal_(layer.weight, std=gain / math.sqrt(inputs))
    nn.init.zeros_(layer.bias)
    return layer


def lay(module: nn.Module, order: torch.memory_format) -> None:
    """Stores the weights of convolutions in this memory layout; their values and shapes do not change."""
    for parameter in module.parameters():
        if parameter.ndim == 4:
            parameter.data = parameter.data.contiguous(memory_format=order)


def conv_size(side: int, kernel: int, stride: int) -> int:
    """Returns the number of pixels along one side after a convolution or a pool without padding."""
    return (side - kernel) // stride + 1


def visual_encoder(kind: str, name: str, shape: Shape, hidden: int) -> nn.Module:
    """Returns the encoder that `vis_encode_type` names, for the observation `name`: (N, *shape) to (N, hidden).

    Raises ConfigError if the image is too small for the encoder, PluginError if a user's encoder cannot be used.
    """
    title = f"vis_encode_type '{kind}'"
    encoder = find_class("encoders", title, kind)
    smallest = getattr(encoder, "smallest", 1)
    if min(shape[1:]) < smallest:
        raise ConfigError(
            f"observation '{name}' is {shape[1]} x {shape[2]} pixels; {title} needs at least "
            f"{smallest} on each side: make the image larger, or choose another encoder"
        )
    if encoder in OURS:
        return encoder(shape, hidden)
    return make_own(encoder, title, shape, hidden, (shape, hidden))


def centered(images: Tensor) -> Tensor:
    """Returns images (N, C, H, W) minus the mean of each channel.

    Inputs whose mean is far from zero change all weights of a unit together, so that differences between images are
    learned last. LeCun et al. 1998, "Efficient BackProp", https://doi.org/10.1007/3-540-49430-8_2, section 4.3.
    """
    return images - images.mean((2, 3), keepdim=True)
