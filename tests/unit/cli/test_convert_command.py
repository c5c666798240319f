from pathlib import Path

import pytest
from nn_files import small_policy

from palaestra.cli.main import main

SB3 = Path(__file__).parents[2] / "golden" / "data" / "others" / "sb3"


def test_a_model_is_written_and_described(tmp_path: Path, terminal):
    target = tmp_path / "new" / "a.onnx"
    said = terminal("convert", str(SB3 / "ppo_cont.zip"), str(target), "--check", str(SB3 / "ppo_cont.npz"))
    assert f"Wrote {target} (PPO or A2C of Stable-Baselines3" in said
    assert "observations: observation 6; actions: 3 continuous" in said
    assert "differs from the 20 recorded actions by at most" in said


def test_flags_reach_the_conversion(tmp_path: Path, terminal):
    source = small_policy().write(tmp_path / "a.nn")
    assert "observations: obs_0 1, obs_1 1; actions: 1 continuous" in terminal(
        "convert", str(source), tmp_path / "a.onnx", "--obs-shape", "1,1"
    )


def test_an_existing_file_is_kept_unless_force_is_given(tmp_path: Path, terminal):
    (tmp_path / "a.onnx").write_text("mine")
    arguments = ["convert", str(SB3 / "ppo_disc.zip"), str(tmp_path / "a.onnx")]
    assert "exists already; choose another name, or overwrite it with --force" in terminal.fails(*arguments)
    assert (tmp_path / "a.onnx").read_text() == "mine"
    assert main([*arguments, "--force"]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.zip", "a.onnx"], "there is no file none.zip; expected a model of one of these"),
        ([".", "a.onnx"], ". is a folder"),
        ([str(SB3 / "ppo_disc.zip"), "a.txt"], "ends in .onnx"),
        ([str(SB3 / "ppo_disc.zip"), "a.onnx", "--obs-shape", "3x"], "is no shape"),
        ([str(SB3 / "ppo_disc.zip"), "a.onnx", "--actions", "6"], "expected continuous:NUMBER"),
        ([str(SB3 / "ppo_disc.zip"), "a.onnx", "--bounds", "1", "-1"], "--bounds 1 -1: expected LOW HIGH"),
        ([str(SB3 / "ppo_disc.zip"), "a.onnx", "--check", "none.npz"], "none.npz cannot be read"),
        ([str(SB3 / "ppo_disc.npz"), "a.onnx"], "ppo_disc.npz"),
    ],
)
def test_what_cannot_be_used_gives_one_message(arguments, message, tmp_path, terminal, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in terminal.fails("convert", *arguments)
    assert not (tmp_path / "a.onnx").exists()


def test_a_barracuda_file_takes_no_flags_of_weights(tmp_path: Path, terminal):
    source = small_policy().write(tmp_path / "a.nn")
    assert "leave out --activation" in terminal.fails("convert", source, tmp_path / "a.onnx", "--activation", "relu")


def test_an_onnx_model_needs_no_conversion(tmp_path: Path, terminal):
    assert main(["convert", str(SB3 / "ppo_disc.zip"), str(tmp_path / "a.onnx")]) == 0
    assert "a.onnx is an ONNX model already, which needs no conversion" in terminal.fails(
        "convert", tmp_path / "a.onnx", str(tmp_path / "b.onnx")
    )
    assert not (tmp_path / "b.onnx").exists()


def test_the_example_of_shapes_says_what_its_numbers_are(tmp_path: Path, terminal):
    assert "--obs-shape 105,105 for two of 105 numbers" in terminal(
        "convert", str(small_policy().write(tmp_path / "a.nn")), str(tmp_path / "a.onnx")
    )
