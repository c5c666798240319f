import json
from pathlib import Path

import pytest
import yaml

from palaestra.runtime.sharing.shareable import Cleaner, shareable, tells_home

HOME = str(Path.home())


@pytest.mark.parametrize(
    ("text", "shared"),
    [
        ("/data/games/Ball.x86_64", "Ball.x86_64"),
        ("/data/my games/Ball.x86_64", "Ball.x86_64"),
        ("C:\\Users\\ann\\Ball.exe", "Ball.exe"),
        ("\\\\server\\share\\Ball.exe", "Ball.exe"),
        ("~ann/results/", "results"),
        ("model:/data/runs/Ball.onnx", "model:Ball.onnx"),
        ("palaestra learn /data/a.yaml --env=/opt/Ball --seed=1", "palaestra learn a.yaml --env=Ball --seed=1"),
        ("https://ann:pass@host/api?token=abc", "https://***host/api?token=***"),
        ("hf_abcdefghijklmnop", "***"),
        ("--api-key abc --areas 4", "--api-key *** --areas 4"),
        (f"see{HOME}/x", "see~/x"),
    ],
)
def test_paths_and_secrets_are_taken_out_of_a_text(text: str, shared: str):
    assert Cleaner().text(text, "") == shared


@pytest.mark.parametrize(
    "text",
    ["3DBall", "results", "gymnasium:CartPole-v1", "python:game:make", "Environment/Cumulative "
                                                                       "Reward", "examples/own.yaml", "a/b", "/", "https://host/a/b",
     "0.5", "", "builtin:3DBall", "cuda:0", "learning rate: 1e-4 / 2"],
)  # fmt: skip
def test_other_texts_stay(text: str):
    cleaner = Cleaner()
    assert cleaner.text(text, "here") == text
    assert cleaner.paths == cleaner.secrets == []


def test_values_of_secret_keys_and_flags_are_hidden():
    cleaner = Cleaner()
    tree = {
        "api_key": "abc",
        "wandb": {"init": {"token": "abc"}},
        "args": ["--password", "abc", "--x", "abc"],
        "tokens": 3,
    }
    assert cleaner.tree(tree) == {
        "api_key": "***",
        "wandb": {"init": {"token": "***"}},
        "args": ["--password", "***", "--x", "abc"],
        "tokens": 3,
    }
    assert (cleaner.paths, cleaner.secrets) == ([], ["api_key", "wandb.init.token", "args"])


def test_a_file_without_anything_private_is_shared_as_it_is(tmp_path: Path):
    (tmp_path / "configuration.yaml").write_text("env_settings:   {env_path: 3DBall}  # my comment\n")
    assert shareable(tmp_path / "configuration.yaml") == (None, {})


def test_a_cleaned_file_is_of_the_same_format(tmp_path: Path):
    tree = {"metadata": {"command_line_arguments": "/usr/bin/palaestra learn", "n": 1.5}}
    (tmp_path / "a.json").write_text(json.dumps(tree))
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(tree))
    clean = {"metadata": {"command_line_arguments": "palaestra learn", "n": 1.5}}
    body, taken = shareable(tmp_path / "a.json")
    assert json.loads(body or b"") == clean
    assert taken == {"paths of this machine": ["metadata.command_line_arguments"]}  # no secret is named
    assert yaml.safe_load(shareable(tmp_path / "a.yaml")[0] or b"") == clean


def test_the_home_folder_is_found_anywhere_in_a_file(tmp_path: Path):
    file = tmp_path / "events"
    for place in (0, 100, (1 << 20) - 5, (1 << 20) + 5):
        file.write_bytes(b"x" * place + f"{HOME}/games".encode() + b"y" * 300)
        assert tells_home(file)
    file.write_bytes(b"x" * (1 << 20))
    assert not tells_home(file)
