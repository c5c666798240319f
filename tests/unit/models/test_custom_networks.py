"""Encoders and bodies of a user's: what is taken, and what is refused with which words."""

from pathlib import Path

import pytest
import torch
from installed_plugins import forget_plugins
from pydantic import ValidationError
from torch import Tensor, nn

from palaestra.core.errors import ConfigError, PluginError
from palaestra.models.custom import OwnModule, own_body
from palaestra.models.encoders import visual_encoder
from palaestra.models.settings import NetworkSettings

SHAPE = (3, 12, 10)


class Mean(nn.Module):
    """An encoder that knows each channel's mean."""

    smallest = 4

    def __init__(self, shape: tuple[int, int, int], hidden: int) -> None:
        super().__init__()
        self.dense = nn.Linear(shape[0], hidden)

    def forward(self, image: Tensor) -> Tensor:
        return self.dense(image.mean((2, 3)))


class Mixed(Mean):
    def forward(self, image: Tensor) -> Tensor:
        return super().forward(image).flatten()


class Double(Mean):
    def forward(self, image: Tensor) -> Tensor:
        return super().forward(image).double()


class Listed(Mean):
    def forward(self, image: Tensor) -> Tensor:
        return [super().forward(image)]  # type: ignore[return-value]


class Broken(Mean):
    def forward(self, image: Tensor) -> Tensor:
        return self.dense(image)


class Forgetful(Mean):
    def __init__(self, shape: tuple[int, int, int], hidden: int) -> None:
        super().__init__(shape, hidden)
        self.drop = nn.Sequential(nn.Dropout(0.5))


class Batched(Mean):
    def __init__(self, shape: tuple[int, int, int], hidden: int) -> None:
        super().__init__(shape, hidden)
        self.norm = nn.BatchNorm2d(shape[0])


class Greedy(Mean):
    def __init__(self, shape: tuple[int, int, int]) -> None:
        super().__init__(shape, 8)


class Wide(nn.Module):
    """A body."""

    def __init__(self, inputs: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(inputs, hidden), *(nn.Tanh() for _ in range(layers)))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


NUMBER = 3


def test_an_encoder_of_a_users_is_made_by_its_place():
    encoder = visual_encoder(f"{__name__}:Mean", "camera", SHAPE, 16)
    assert isinstance(encoder, OwnModule)
    image = torch.rand(5, *SHAPE)
    torch.testing.assert_close(encoder(image), encoder.module(image))
    assert list(encoder.state_dict()) == ["module.dense.weight", "module.dense.bias"]


def test_a_body_of_a_users_is_made_by_its_place():
    body = own_body(f"{__name__}:Wide", 7, 16, 2)
    assert body(torch.rand(5, 7)).shape == (5, 16)
    assert (body.shape, body.hidden) == ((7,), 16)


def test_its_own_smallest_size_is_kept():
    with pytest.raises(ConfigError, match=r"'camera' is 3 x 9 pixels; vis_encode_type '\w+:Mean' needs at least 4"):
        visual_encoder(f"{__name__}:Mean", "camera", (3, 3, 9), 16)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "Mixed",
            r"':?\w+:Mixed' returned \(32\) for \(2, 3, 12, 10\); expected \(2, 16\) of torch.float32: a row",
        ),
        ("Double", r"returned \(2, 16\) of torch.float64 for"),
        ("Listed", r"returned a list; expected a tensor \(2, 16\)"),
        ("Broken", r"cannot take \(2, 3, 12, 10\): RuntimeError: mat1 and mat2"),
        ("Forgetful", r"holds a Dropout \('drop.0'\), which behaves differently in training"),
        ("Batched", r"holds a BatchNorm2d \('norm'\).*use nn.GroupNorm"),
        ("Greedy", r"could not be made with \(\(3, 12, 10\), 16\): TypeError"),
        ("NUMBER", r"is 3; expected a class that inherits from torch.nn.Module"),
        ("Path", r"is <class 'pathlib.*Path'>; expected a class that inherits"),
        ("Meam", r"has no 'Meam'; did you mean 'Mean'\?"),
    ],
)
def test_what_breaks_the_contract_is_refused_when_it_is_made(name: str, message: str):
    assert Path
    with pytest.raises(PluginError, match=message):
        visual_encoder(f"{__name__}:{name}", "camera", SHAPE, 16)


def test_a_module_that_is_not_there_or_fails_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PluginError, match="vis_encode_type 'no_such:Mine': there is no module 'no_such', neither in"):
        visual_encoder("no_such:Mine", "camera", SHAPE, 16)
    (tmp_path / "half_an_encoder.py").write_text("import torch\ntorch.nn.Convolution\n")
    with pytest.raises(
        PluginError, match=r"body 'half_an_encoder:Mine': module .* cannot be imported: AttributeError: .*line 2"
    ):
        own_body("half_an_encoder:Mine", 4, 8, 1)


def test_a_file_in_the_current_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    lines = ["from test_custom_networks import Mean", "class Beside(Mean): pass"]
    (tmp_path / "beside_the_yaml.py").write_text("\n".join(lines))
    assert visual_encoder("beside_the_yaml:Beside", "camera", SHAPE, 16)(torch.rand(1, *SHAPE)).shape == (1, 16)


def test_an_installed_encoder_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    info = tmp_path / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[palaestra.encoders]\ntheir_mean = {__name__}:Mean\n[palaestra.bodies]\ntheir_wide = {__name__}:Wide\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    forget_plugins()
    settings = NetworkSettings(vis_encode_type="their_mean", body="their_wide")
    assert isinstance(visual_encoder(settings.vis_encode_type, "camera", SHAPE, 16), OwnModule)
    assert own_body("their_wide", 4, 16, 1).hidden == 16
    forget_plugins()


@pytest.mark.parametrize(
    ("name", "near"),
    [("nature_cn", r"; did you mean 'nature_cnn'\?"), ("package.module:", ""), (":Mine", ""), ("", "")],
)
def test_a_name_that_no_encoder_has_is_refused_with_those_there_are(name: str, near: str):
    with pytest.raises(ValidationError, match=rf"no encoder is named '{name}'{near} .*simple.*as package.module:Class"):
        NetworkSettings(vis_encode_type=name)


@pytest.mark.parametrize("name", [None, 3, ["simple"]])
def test_what_is_no_name_is_refused_in_one_sentence(name: object):
    with pytest.raises(ValidationError, match="expected the name of an encoder") as refused:
        NetworkSettings.model_validate({"vis_encode_type": name})
    assert refused.value.error_count() == 1


def test_a_body_without_a_place_is_refused():
    with pytest.raises(ValidationError, match=r"no body is named 'mine' \(there are: residual; your own as package."):
        NetworkSettings(body="mine")
