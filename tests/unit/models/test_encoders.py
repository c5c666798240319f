import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.testing import assert_close

from palaestra.core.errors import ConfigError
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.models.actor_critic import ActorCritic
from palaestra.models.encoders import (
    OURS,
    FullyConnectedEncoder,
    Match3Encoder,
    NatureEncoder,
    ResNetEncoder,
    SimpleEncoder,
    conv_size,
    visual_encoder,
)
from palaestra.models.settings import NetworkSettings

SMALLEST = {"simple": 20, "nature_cnn": 36, "resnet": 15, "match3": 5, "fully_connected": 1}
FLAT = {"simple": 2592, "nature_cnn": 3136, "resnet": 2592, "match3": 921600, "fully_connected": 21168}


@pytest.mark.parametrize("kind", FLAT)
def test_an_encoder_at_84_by_84_has_as_many_numbers_before_its_dense_layer_as_that_of_ml_agents(kind: str):
    encoder = visual_encoder(kind, "camera", (3, 84, 84), 16)
    assert encoder.get_submodule("dense").in_features == FLAT[kind]
    assert encoder(torch.rand(2, 3, 84, 84)).shape == (2, 16)


@pytest.mark.parametrize("kind", SMALLEST)
@pytest.mark.parametrize("channels", [1, 4])
def test_any_image_of_at_least_the_smallest_size_can_be_encoded(kind: str, channels: int):
    for more in (0, 1, 2):
        shape = (channels, SMALLEST[kind], SMALLEST[kind] + more)
        assert visual_encoder(kind, "camera", shape, 16)(torch.rand(3, *shape)).shape == (3, 16)


@pytest.mark.parametrize("kind", [kind for kind in SMALLEST if SMALLEST[kind] > 1])
def test_an_image_that_is_too_small_is_refused_by_name_with_the_minimum(kind: str):
    least = SMALLEST[kind]
    with pytest.raises(
        ConfigError, match=rf"'camera' is {least - 1} x 40 pixels; vis_encode_type '{kind}' needs at least {least} on"
    ):
        visual_encoder(kind, "camera", (3, least - 1, 40), 16)


def test_the_smallest_size_is_the_least_that_leaves_a_pixel():
    layers = {
        encoder.smallest: [(k, s) for _, k, s in encoder.layers] for encoder in OURS if encoder is not ResNetEncoder
    }
    for least, steps in {**layers, ResNetEncoder.smallest: [(3, 2)] * 3}.items():
        left = [least, least - 1]
        for kernel, stride in steps:
            left = [conv_size(side, kernel, stride) for side in left]
        assert left == [1, 0]


def leaky(x: Tensor) -> Tensor:
    return torch.where(x > 0, x, 0.01 * x)


def swish(x: Tensor) -> Tensor:
    return x * torch.sigmoid(x)


@pytest.mark.parametrize(
    ("encoder", "strides"),
    [(SimpleEncoder, (4, 2)), (NatureEncoder, (4, 2, 1)), (Match3Encoder, (1, 1)), (FullyConnectedEncoder, ())],
)
def test_a_convolutional_encoder_is_its_layers_with_a_leaky_relu_after_each(
    encoder: type[nn.Module], strides: tuple[int, ...]
):
    torch.manual_seed(0)
    net = encoder((3, 40, 44), 8)
    image = torch.rand(2, 3, 40, 44)
    x = image.double()
    for layer, stride in zip(net.convolutions, strides, strict=True):
        x = leaky(functional.conv2d(x, layer.weight.double().contiguous(), layer.bias.double(), stride=stride))
    x = leaky(x.reshape(2, -1) @ net.dense.weight.double().t() + net.dense.bias.double())
    assert_close(net(image), x.float(), atol=1e-5, rtol=1e-5)


def test_the_resnet_is_three_stacks_with_two_residual_blocks_each():
    torch.manual_seed(0)
    net = ResNetEncoder((3, 24, 33), 8)
    image = torch.rand(2, 3, 24, 33)
    weights = {name: weight.double() for name, weight in net.state_dict().items()}

    def conv(name: str, x: Tensor) -> Tensor:
        return functional.conv2d(x, weights[f"{name}.weight"], weights[f"{name}.bias"], padding=1)

    x = image.double()
    for i in range(3):
        x = functional.max_pool2d(conv(f"stacks.{i}.convolution", x), kernel_size=3, stride=2)
        for j in range(2):
            block = f"stacks.{i}.blocks.{j}"
            x = x + conv(f"{block}.second", swish(conv(f"{block}.first", swish(x))))
    x = swish(x).reshape(2, -1) @ weights["dense.weight"].t() + weights["dense.bias"]
    assert_close(net(image), x.clamp(min=0).float(), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("encoder", OURS)
def test_gradients_do_not_depend_on_the_order_of_weights_in_memory(encoder: type[nn.Module]):
    torch.manual_seed(0)
    net = encoder((3, 40, 40), 8)
    plain = encoder((3, 40, 40), 8)
    plain.load_state_dict(net.state_dict())
    for parameter in plain.parameters():
        parameter.data = parameter.data.contiguous()
    image = torch.rand(4, 3, 40, 40)
    for each in (net, plain):
        each(image).square().sum().backward()
    for mine, theirs in zip(net.parameters(), plain.parameters(), strict=True):
        assert mine.grad is not None
        assert mine.grad.stride() == mine.stride()  # what Adam takes for granted
        assert_close(mine.grad, theirs.grad, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", FLAT)
def test_the_dense_layer_starts_with_gain_1_41(kind: str):
    torch.manual_seed(0)
    dense = visual_encoder(kind, "camera", (3, 40, 40), 64).get_submodule("dense")
    assert dense.weight.std().item() == pytest.approx(1.41 / dense.in_features**0.5, rel=0.03)
    assert not dense.bias.any()


def test_several_images_of_different_sizes_each_have_an_encoder_of_their_own():
    obs = (
        ObsSpec("wide", (3, 36, 64)),
        ObsSpec("vector", (4,)),
        ObsSpec("tall", (1, 50, 40)),
        ObsSpec("map", (2, 36, 36)),
    )
    network = ActorCritic(
        BehaviorSpec(obs, ActionSpec(2)), NetworkSettings(hidden_units=16, vis_encode_type="nature_cnn")
    )
    inputs = network.prepare(tuple(torch.rand(3, *one.shape) for one in obs))
    output, value = network(inputs)
    assert (output.shape, value.shape) == ((3, 2), (3, 1))
    changed = (*inputs[:3], inputs[3] + 1)  # the last image counts as the first does
    assert not torch.allclose(network(changed)[0], output)


def test_centered_images_are_those_less_the_mean_of_each_channel_and_vectors_stay():
    spec = BehaviorSpec((ObsSpec("camera", (2, 20, 20)), ObsSpec("vector", (1,))), ActionSpec(0, (2,)))
    image = torch.zeros(1, 2, 20, 20)
    # means 1 and 7
    image[0, 0, 3, 4] = 400.0
    image[0, 1] = 7.0
    network = ActorCritic(spec, NetworkSettings(center_images=True, hidden_units=8))
    vector, centered = network.prepare((image, torch.tensor([[5.0]])))
    assert vector.item() == 5.0
    assert centered[0, 0, 3, 4] == 399.0
    assert centered[0, 0].sum() == 0.0
    assert (centered[0, 0] == -1.0).sum() == 399
    assert (centered[0, 1] == 0.0).all()
    plain = ActorCritic(spec, NetworkSettings(hidden_units=8)).prepare((image, torch.tensor([[5.0]])))
    assert_close(plain[1], image)
