from pathlib import Path

import pytest

from palaestra.cli.main import main
from palaestra.core.wording.error_topics import POINTER
from palaestra.runtime.settings import load

OLD = (
    "default:\n  trainer: ppo\n  batch_size: 32\n  buffer_size: 64\n  hidden_units: 16\n  max_steps: 200\n  "
    "summary_freq: 100\nBasic: {}\n"
)


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("old.yaml").write_text(OLD, encoding="utf-8")


def test_what_became_what_is_printed_and_the_new_file_trains(terminal):
    text = terminal("upgrade old.yaml new.yaml")
    assert "  batch_size, buffer_size -> hyperparameters\n" in text
    assert text.endswith("Wrote new.yaml\n")
    assert main(["learn", "new.yaml", "--env=builtin:Basic", "--run-id=first", "--num-areas=2"]) == 0
    assert Path("results/first/Basic.onnx").is_file()


def test_learn_says_what_to_do_with_an_old_file(terminal):
    text = terminal.fails("learn old.yaml --env=builtin:Basic")
    assert text == (
        "palaestra: error: old.yaml: is a trainer file of ML-Agents before release 3 (mlagents 0.17); "
        f"upgrade it with `palaestra upgrade old.yaml old.new.yaml`\n{POINTER}old-settings\n"
    )
    assert not Path("results").exists()


def test_a_dash_prints_the_new_file_alone_on_stdout(capsys: pytest.CaptureFixture[str]):
    assert main(["upgrade", "old.yaml", "-"]) == 0
    printed = capsys.readouterr()
    assert "-> hyperparameters" in printed.err
    Path("new.yaml").write_text(printed.out, encoding="utf-8")
    assert load(Path("new.yaml")).settings.behaviors["Basic"].max_steps == 200


def test_a_file_that_is_there_is_written_over_only_by_force(terminal):
    said = "palaestra: error: old.yaml exists already; choose another name, or overwrite it with --force\n"
    said += f"{POINTER}files\n"
    assert terminal.fails("upgrade old.yaml old.yaml") == said
    assert Path("old.yaml").read_text(encoding="utf-8") == OLD
    assert main(["upgrade", "old.yaml", "old.yaml", "--force"]) == 0
    assert load(Path("old.yaml")).settings.behaviors["Basic"].max_steps == 200


def test_a_current_file_is_copied_with_a_word(terminal):
    Path("now.yaml").write_text("behaviors: {A: }  # mine\n", encoding="utf-8")
    assert (
        terminal("upgrade now.yaml copy.yaml")
        == "now.yaml is current: nothing was changed\nWrote copy.yaml (the same file)\n"
    )
    assert Path("copy.yaml").read_text(encoding="utf-8") == "behaviors: {A: }  # mine\n"


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (".", ". is a folder; expected the name of a file to write"),
        ("nowhere/new.yaml", "nowhere/new.yaml cannot be written: No such file or"),
    ],
)
def test_a_file_that_cannot_be_written_is_one_error(new: str, message: str, terminal):
    assert terminal.fails("upgrade", "old.yaml", new).startswith(f"palaestra: error: {message}")
