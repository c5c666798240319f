"""Names of behaviors that are odd: what is shown of them, and which are refused."""

from pathlib import Path

import pytest
from small_runs import settings, write
from tiny_envs import Scripted

import palaestra
from palaestra.cli.main import main
from palaestra.core.errors import ConfigError, EnvError
from palaestra.core.files import file_name
from palaestra.runtime.settings import load

ODD = "Ba\x1b[31m\n[ERROR] d\u202e"


@pytest.mark.parametrize(
    "name",
    [
        "run",
        "Checkpoints",
        "run_logs",
        "configuration.yaml",
        "Metrics.JSONL",
        "curves.png",
        "training_status.json",
        "league.png",
        "Ball.onnx",
    ],
)
def test_a_name_of_a_run_s_own_files_is_refused_in_settings_and_from_an_environment(name, tmp_path):
    tree = {"behaviors": {name: {"trainer_type": "ppo"}}}
    with pytest.raises(ConfigError, match="name, which a run uses for its own files; rename the behavior"):
        load(tree)
    config = {"default_settings": {"trainer_type": "ppo"}}
    with pytest.raises(EnvError, match=f"a behavior cannot be named '{name}'"):
        palaestra.train(config, env=Scripted({name: {"steady": True}}), results_dir=str(tmp_path), quiet=True)


def test_control_characters_of_a_name_are_escaped_wherever_it_is_shown(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    tree = settings("Basic", summary_freq=100)
    tree["behaviors"][ODD] = tree["behaviors"].pop("Basic")
    palaestra.train(tree, env=Scripted({ODD: {"steady": True}}), run_id="odd")
    assert main(["plot", "odd"]) == 0
    assert main(["export", "odd"]) == 0
    message = "".join(capfd.readouterr())
    assert r"New behavior 'Ba\x1b[31m\n[ERROR] d\u202e'" in message
    assert not set("\x1b\u202e") & set(message)
    assert not any(line.startswith("[ERROR]") for line in message.splitlines())
    for file in Path("results").rglob("*"):
        assert not any(ord(char) < 32 or char == "\u202e" for char in file.name)


def test_a_setting_of_a_name_with_control_characters_is_refused_in_one_line(tmp_path):
    with pytest.raises(ConfigError) as error:
        load(Path(write(str(tmp_path / "x.yaml"), {"behaviors": {ODD: {"max_stepz": 1}}})))
    assert r"behaviors.Ba\x1b[31m\n[ERROR] d\u202e.max_stepz: unknown key" in str(error.value)
    assert "\n" not in str(error.value)


def test_characters_that_reverse_text_are_no_part_of_a_file_s_name():
    assert file_name("a\u202eb") != "a\u202eb"
    assert file_name("a\x9bb").startswith("a_b-")
