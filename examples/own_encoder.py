"""A network of one's own: an encoder of images, and the layers after it.

    palaestra learn examples/own_encoder.yaml

Any classes of `torch.nn.Module` that are made and called like these will do: no base class, nothing to register.
`hidden` is the setting hidden_units, `layers` is num_layers. What they compute is written into the ONNX file with the
rest of the policy.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

FEATURES = 32


class Places(nn.Module):
    """Finds where in the image each of 32 features is strongest. Levine et al. 2016, https://arxiv.org/abs/1504.00702,
    section 6.1.

    An encoder that flattens its last convolution has a weight for every pixel; this one has two numbers a feature, its
    place.
    """

    smallest = 4  # pixels on each side, below which training is refused with these words; may be left out

    def __init__(self, shape: tuple[int, int, int], hidden: int) -> None:
        super().__init__()
        channels, height, width = shape
        self.find = nn.Sequential(
            nn.Conv2d(channels, FEATURES, 4, stride=4), nn.SiLU(), nn.Conv2d(FEATURES, FEATURES, 3, padding=1)
        )
        rows = height // 4
        columns = width // 4
        grid = torch.cartesian_prod(torch.linspace(-1, 1, rows), torch.linspace(-1, 1, columns))
        self.register_buffer("places", grid)  # (pixels, 2): follows the network to its device, and into its file
        self.pixels = rows * columns
        self.dense = nn.Linear(2 * FEATURES, hidden)

    def forward(self, image: Tensor) -> Tensor:
        """Maps (N, C, H, W), values 0..1, to (N, hidden)."""
        strength = self.find(image).view(-1, FEATURES, self.pixels)
        places = torch.softmax(strength, -1) @ self.places
        return nn.functional.silu(self.dense(places.view(-1, 2 * FEATURES)))


class Residual(nn.Module):
    """Layers that add to what they read, so that many of them still learn."""

    def __init__(self, inputs: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.first = nn.Linear(inputs, hidden)
        self.rest = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(hidden), nn.Linear(hidden, hidden), nn.SiLU()) for _ in range(layers)
        )

    def forward(self, encoding: Tensor) -> Tensor:
        """Maps (N, inputs), all encodings side by side, to (N, hidden)."""
        hidden = self.first(encoding)
        for layer in self.rest:
            hidden = hidden + layer(hidden)
        return hidden
