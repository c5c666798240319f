from __future__ import annotations

import pytest
import torch
from torch.nn import functional
from torch.testing import assert_close

from palaestra.core.errors import ConfigError
from palaestra.models.encoders import SimpleVisual, visual_encoder


def test_the_simple_encoder_at_84_by_84_has_2592_numbers_before_its_dense_layer():
    encoder = SimpleVisual((3, 84, 84), 128)
    assert encoder.dense.in_features == 2592
    assert encoder(torch.rand(2, 3, 84, 84)).shape == (2, 128)


@pytest.mark.parametrize("shape", [(1, 20, 20), (3, 64, 84), (4, 21, 35)])
def test_any_image_of_at_least_20_pixels_can_be_encoded(shape: tuple[int, int, int]):
    assert visual_encoder("simple", "camera", shape, 16)(torch.rand(3, *shape)).shape == (3, 16)


def test_a_leaky_relu_follows_each_layer():
    torch.manual_seed(0)
    encoder, image = SimpleVisual((1, 20, 20), 8), torch.rand(2, 1, 20, 20)
    hidden = functional.conv2d(image, encoder.conv1.weight, encoder.conv1.bias, stride=4)
    hidden = torch.where(hidden > 0, hidden, 0.01 * hidden)
    hidden = functional.conv2d(hidden, encoder.conv2.weight, encoder.conv2.bias, stride=2)
    hidden = torch.where(hidden > 0, hidden, 0.01 * hidden).reshape(2, -1)
    hidden = hidden @ encoder.dense.weight.t() + encoder.dense.bias
    assert_close(encoder(image), torch.where(hidden > 0, hidden, 0.01 * hidden))


def test_the_dense_layer_starts_with_gain_1_41():
    torch.manual_seed(0)
    dense = SimpleVisual((3, 84, 84), 128).dense
    assert dense.weight.std().item() == pytest.approx(1.41 / 2592**0.5, rel=0.01)
    assert not dense.bias.any()


def test_an_image_that_is_too_small_is_refused_by_name():
    with pytest.raises(ConfigError, match=r"'camera' is 19 x 40 pixels.*'simple' needs at least 20"):
        visual_encoder("simple", "camera", (3, 19, 40), 16)
