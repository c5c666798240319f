"""Files of Stable-Baselines3, made here so that anything may be wrong with them; real ones are in tests/golden."""

import base64
import io
import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from palaestra.convert import ConvertOptions, convert
from palaestra.core.errors import ExportError

BOX = {
    ":type:": "<class 'gymnasium.spaces.box.Box'>",
    "dtype": "float32",
    "_shape": [3],
    "low": "[-1. -1. -1.]",
    "high": "[1. 1. 1.]",
}
CHOICES = {":type:": "<class 'gymnasium.spaces.discrete.Discrete'>", "n": "2", "start": "0", "_shape": []}
POLICY = {":type:": "<class 'abc.ABCMeta'>", "__module__": "stable_baselines3.common.policies"}


class Attack:
    """Runs code when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.file,)


def weights(**more: torch.Tensor) -> dict[str, torch.Tensor]:
    prefix = "mlp_extractor.policy_net.0"
    layers = {f"{prefix}.weight": torch.randn(4, 3), f"{prefix}.bias": torch.zeros(4)}
    return {**layers, "action_net.weight": torch.randn(2, 4), "action_net.bias": torch.zeros(2), **more}


def model(path: Path, state: Any = None, data: Any = None, **more: bytes) -> Path:
    """Writes a zip with these weights and this JSON, and further files."""
    content = io.BytesIO()
    torch.save(weights() if state is None else state, content)
    whole = {"policy_class": POLICY, "observation_space": BOX, "action_space": CHOICES, "policy_kwargs": {}}
    files = {"data": json.dumps({**whole, **(data or {})}).encode(), "policy.pth": content.getvalue(), **more}
    with zipfile.ZipFile(path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, each in files.items():
            archive.writestr(name, each)
    return path / "a.zip"


def test_a_plain_model_is_converted(tmp_path: Path):
    assert convert(model(tmp_path), tmp_path / "a.onnx").spec.action.branches == (2,)


def test_no_pickle_in_a_file_is_run(tmp_path: Path):
    attack = pickle.dumps(Attack(tmp_path / "ran"))
    serialized = base64.b64encode(attack).decode()
    spaces = {
        "observation_space": {**BOX, ":serialized:": serialized},
        "policy_class": {**POLICY, ":serialized:": serialized},
    }
    more = {
        "lr_schedule": {":type:": "function", ":serialized:": serialized},
        "policy_kwargs": {":serialized:": serialized},
    }
    variables = io.BytesIO()
    torch.save({"a": Attack(tmp_path / "ran")}, variables)
    source = model(
        tmp_path, None, {**spaces, **more}, **{"pytorch_variables.pth": variables.getvalue(), "../../escaped": b"x"}
    )
    convert(source, tmp_path / "a.onnx")
    assert not (tmp_path / "ran").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"a.zip", "a.onnx"}


def test_code_among_the_weights_is_refused(tmp_path: Path):
    with pytest.raises(ExportError, match=r"a\.zip/policy\.pth holds more than weights"):
        convert(model(tmp_path, {**weights(), "x": Attack(tmp_path / "ran")}), tmp_path / "a.onnx")
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "a.onnx").exists()


def test_a_file_that_unpacks_to_gigabytes_is_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("palaestra.core.torch_files.MOST_BYTES", 1 << 20)
    with pytest.raises(ExportError, match="would unpack to"):
        convert(model(tmp_path, **{"pytorch_variables.pth": bytes(1 << 22)}), tmp_path / "a.onnx")


@pytest.mark.parametrize(
    ("state", "data", "message"),
    [
        (weights(**{"lstm_actor.weight_ih_l0": torch.ones(1)}), {}, "a recurrent policy"),
        (
            {"something.weight": torch.ones(1, 1)},
            {},
            "weights named something.weight, .*policy of stable_baselines3.common.policies; supp",
        ),
        (weights(**{"features_extractor.net.0.weight": torch.ones(3, 3)}), {}, "features extractor of its own"),
        (weights(), {"action_space": {**CHOICES, "n": "3"}}, "2 outputs, and branches of 3 choices need 3"),
        (weights(), {"action_space": BOX}, "without log_std"),
        (weights(), {"observation_space": {**BOX, "_shape": [4]}}, "a layer of 3 inputs gets 4 numbers"),
        (
            weights(),
            {"observation_space": {":type:": "<class 'gymnasium.spaces.graph.Graph'>"}},
            "a Graph, which cannot be converted",
        ),
        (weights(), {"observation_space": None}, "does not say what its observation space is; name"),
        (
            weights(),
            {"policy_kwargs": {"activation_fn": "<class 'torch.nn.modules.activation.Mish'>"}},
            "activation 'Mish' cannot",
        ),
        ({**weights(), "action_net.weight": torch.full((2, 4), float("inf"))}, {}, "not finite"),
    ],
)
def test_what_cannot_be_converted_is_named(tmp_path: Path, state: Any, data: Any, message: str):
    with pytest.raises(ExportError, match=message):
        convert(model(tmp_path, state, data), tmp_path / "a.onnx")


def test_spaces_that_the_file_lacks_can_be_given(tmp_path: Path):
    source = model(tmp_path, None, {"observation_space": None, "action_space": None})
    done = convert(source, tmp_path / "a.onnx", ConvertOptions(obs=((3,),), branches=(2,)))
    assert done.spec.obs[0].shape == (3,)


@pytest.mark.parametrize("content", [b"", b"[1]", b"{", b"[" * 100_000, b'{"a": ' + b"1" * 10_000 + b"}", b"\xff\xfe"])
def test_json_that_is_damaged_or_endless_gives_one_message(tmp_path: Path, content: bytes):
    with zipfile.ZipFile(model(tmp_path), "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("data", content)
    with pytest.raises(ExportError, match="'data'"):
        convert(tmp_path / "a.zip", tmp_path / "a.onnx")


def test_a_zip_of_something_else_is_named(tmp_path: Path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(ExportError, match=r"a\.zip (holds more than weights|is damaged)"):
        convert(tmp_path / "a.zip", tmp_path / "a.onnx")
