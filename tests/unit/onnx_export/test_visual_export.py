"""Encoders as ONNX: ours, and a user's."""

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from test_onnx import OPERATORS
from torch import Tensor, nn

import palaestra
from palaestra.core.errors import ExportError
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.models.actor_critic import ActorCritic
from palaestra.models.custom import make_own, own_body
from palaestra.models.settings import NetworkSettings
from palaestra.onnx_export import custom
from palaestra.onnx_export.check import compare
from palaestra.onnx_export.custom import check_exportable
from palaestra.onnx_export.onnx import export

IMAGES = (ObsSpec("wide", (3, 36, 41)), ObsSpec("vector", (4,)), ObsSpec("tall", (1, 50, 37)))
SHAPE = (3, 20, 24)


class Plain(nn.Module):
    """Normalized groups, halves that change places, Swish: what an encoder may do."""

    def __init__(self, shape: tuple[int, int, int], hidden: int) -> None:
        super().__init__()
        self.shrink = nn.Conv2d(shape[0], 8, 3, stride=2, padding=1)
        self.norm = nn.GroupNorm(2, 8)
        self.dense = nn.LazyLinear(hidden)

    def forward(self, image: Tensor) -> Tensor:
        left, right = nn.functional.silu(self.norm(self.shrink(image))).chunk(2, 1)
        return self.dense(
            torch.cat([right, 2 * left.masked_fill(left < 0.1, float("-inf")).clamp(min=-1)], 1).flatten(1)
        )


class Gelu(Plain):
    def __init__(self, shape: tuple[int, int, int], hidden: int) -> None:
        super().__init__(shape, hidden)
        self.norm = nn.Sequential(nn.Identity(), nn.GELU())


class Uneven(Plain):
    def forward(self, image: Tensor) -> Tensor:
        return self.dense(nn.functional.adaptive_avg_pool2d(self.shrink(image), 7).flatten(1))


class Fourier(Plain):
    def forward(self, image: Tensor) -> Tensor:
        return super().forward(torch.fft.fft(image).real)


class Chancy(Plain):
    def forward(self, image: Tensor) -> Tensor:
        return super().forward(image + torch.rand_like(image))


class Branching(Plain):
    def forward(self, image: Tensor) -> Tensor:
        answer = super().forward(image)
        return answer if image.sum() <= 0 else -answer


class Residual(nn.Module):
    """A body of layers that are added to what they read."""

    def __init__(self, inputs: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.first = nn.Linear(inputs, hidden)
        self.rest = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(hidden), nn.Linear(hidden, hidden)) for _ in range(layers - 1)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.first(x))
        for layer in self.rest:
            x = x + torch.relu(layer(x))
        return x


def make(kind: str, obs: tuple[ObsSpec, ...]) -> tuple[ActorCritic, BehaviorSpec]:
    """A network away from its start."""
    torch.manual_seed(0)
    spec = BehaviorSpec(obs, ActionSpec(2, (3,)))
    network = ActorCritic(spec, NetworkSettings(hidden_units=16, vis_encode_type=kind))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.02)
    return network, spec


def encoder(cls: type[nn.Module]) -> nn.Module:
    return make_own(cls, f"vis_encode_type 'mine:{cls.__name__}'", SHAPE, 16, (SHAPE, 16))


@pytest.mark.few(3)
@pytest.mark.parametrize("kind", ["simple", "nature_cnn", "resnet", "match3", "fully_connected", f"{__name__}:Plain"])
def test_a_file_with_images_of_different_sizes_agrees_with_its_network(kind: str, tmp_path: Path):
    network, spec = make(kind, IMAGES)
    path = tmp_path / "visual.onnx"
    export(network, spec, path)
    assert compare(network, spec, path, rows=24) <= 1e-4
    model = onnx.load(str(path))
    onnx.checker.check_model(model, full_check=True)
    assert (model.opset_import[0].version, model.ir_version) == (9, 4)
    used = {node.op_type for node in model.graph.node}
    assert used <= (OPERATORS if ":" not in kind else OPERATORS | custom.OPERATORS)
    policy = palaestra.load_policy(path, seed=0)
    assert policy.act([np.zeros((5, *one.shape)) for one in IMAGES]).continuous.shape == (5, 2)


def test_what_our_own_files_are_made_of_is_allowed_but_for_what_draws():
    assert {"RandomNormalLike", "Multinomial"} == OPERATORS - custom.OPERATORS


def test_a_module_within_the_rules_passes():
    check_exportable(nn.ModuleList([encoder(Plain), own_body(f"{__name__}:Residual", 9, 16, 3)]))


def test_a_network_without_own_modules_has_nothing_to_check():
    check_exportable(make("simple", IMAGES)[0])


@pytest.mark.parametrize(
    ("cls", "message"),
    [
        (Gelu, r"'mine:Gelu': Gelu.norm.1 uses Erf, which cannot be written for Unity .*; use nn.SiLU"),
        (Uneven, r"'mine:Uneven': Uneven uses adaptive_avg_pool2d, .*; use nn.AvgPool2d"),
        (Fourier, r"'mine:Fourier': Fourier uses fft_fft, .*; use convolutions"),
        (Chancy, r"'mine:Chancy': Chancy uses RandomUniform\w*, .*; use nothing random"),
        (Branching, r"'mine:Branching': the ONNX file's output for 1 rows differs by .*no Python branches on tensors"),
    ],
)
def test_what_unity_cannot_read_is_found_before_training(
    cls: type[nn.Module], message: str, capfd: pytest.CaptureFixture[str]
):
    with pytest.raises(ExportError, match=message):
        check_exportable(nn.ModuleList([encoder(cls)]))
    assert capfd.readouterr() == ("", "")  # torch's exporter is a talker


def test_weights_of_an_own_module_that_are_not_finite_are_named(tmp_path: Path):
    network, spec = make(f"{__name__}:Plain", IMAGES[:1])
    with torch.no_grad():
        network.encoders[0][0].module.dense.weight[0, 0] = float("nan")
    with pytest.raises(ExportError, match=r"weights 'encoder_0\.dense\.weight' hold nan: training has diverged"):
        export(network, spec, tmp_path / "model.onnx")
