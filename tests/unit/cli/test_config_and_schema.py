import argparse
import json
from pathlib import Path
from types import ModuleType

import pytest

from palaestra.cli import config, schema
from palaestra.core.errors import ConfigError, RunError
from palaestra.runtime.settings import load
from palaestra.runtime.settings.examples import example_names, find_example


def run(command: ModuleType, *words: str) -> None:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    command.main(parser.parse_args(words))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "x.yaml"
    path.write_text("behaviors:\n  Ball:\n    framework: torch\n")
    return path


def test_config_prints_a_file_that_loads_to_the_same_settings(file, tmp_path, capsys):
    run(config, str(file), "--set", "behaviors.Ball.max_steps=1e6", "--set", "debug=true")
    printed = capsys.readouterr()
    assert "max_steps: 1000000\n" in printed.out
    assert "framework: ignored" in printed.err
    (tmp_path / "again.yaml").write_text(printed.out)
    assert (
        load(tmp_path / "again.yaml").settings
        == load(file, sets=["behaviors.Ball.max_steps=1e6", "debug=true"]).settings
    )


def test_config_says_on_stderr_that_it_takes_the_shipped_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run(config, "configs/ppo/3DBall.yaml")
    printed = capsys.readouterr()
    assert printed.out.startswith("default_settings:")
    assert "There is no configs/ppo/3DBall.yaml here: taking the one that comes with Palaestra" in printed.err


def test_config_refuses_what_does_not_load(file: Path):
    with pytest.raises(ConfigError, match="unknown key"):
        run(config, str(file), "--set", "debugg=true")


ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("3DBall", "ppo/3DBall"),
        ("poca/PushBlockCollab", "poca/PushBlockCollab"),
        ("strikersvsgoalie.yaml", "poca/StrikersVsGoalie"),
        ("configs/sac/3DBall.yaml", "sac/3DBall"),
        ("CooperativePushBlock", "ppo/PushBlockCollab"),
    ],
)
def test_an_example_is_printed_as_it_is(name: str, file: str, capsys: pytest.CaptureFixture[str]):
    run(config, "--example", name)
    assert capsys.readouterr().out == (ROOT / "configs" / f"{file}.yaml").read_text()


def test_every_example_is_listed_and_loads(capsys: pytest.CaptureFixture[str]):
    run(config, "--example")
    listed = capsys.readouterr().out.split()
    there = {p.relative_to(ROOT / "configs").with_suffix("").as_posix() for p in (ROOT / "configs").glob("*/*.yaml")}
    # games that are not in the package; ranges; parts of settings
    assert set(listed) == {name for name in there if not name.startswith(("sdk/", "search/", "mirrors/"))}
    for name in listed:
        settings = load(find_example(name)).settings
        assert settings.behaviors or settings.default_settings


def test_an_example_is_written_once_and_says_how_to_train_with_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "new" / "wide.yaml"
    run(config, "--example", "3DBall_4096", "--out", str(out))
    assert capsys.readouterr().out.splitlines() == [f"Wrote {out}", f"train with   palaestra learn {out} --env=3DBall"]
    assert out.read_text() == (ROOT / "configs/ppo/3DBall_4096.yaml").read_text()
    with pytest.raises(ConfigError, match="exists already"):
        run(config, "--example", "3DBall", "--out", str(out))
    run(config, "--example", "3DBall", "--out", str(out), "--force")
    assert out.read_text() == (ROOT / "configs/ppo/3DBall.yaml").read_text()


def test_an_example_with_changes_has_every_default(capsys: pytest.CaptureFixture[str]):
    run(config, "--example", "Basic", "--set", "behaviors.Basic.max_steps=77")
    printed = capsys.readouterr().out
    assert "max_steps: 77\n" in printed
    assert "torch_settings:" in printed


@pytest.mark.parametrize(
    ("name", "near"),
    [("3DBal", "ppo/3DBall"), ("poca/PushBlockColab", "poca/PushBlockCollab"), ("pendulum", "sac/Pendulum-v1")],
)
def test_a_wrong_example_names_the_nearest_and_all(name: str, near: str):
    with pytest.raises(ConfigError, match=f"did you mean '{near}'") as caught:
        run(config, "--example", name)
    assert all(known in str(caught.value) for known in example_names())
    assert "\\n" not in str(caught.value)  # a line break that is printed as two signs


@pytest.mark.parametrize("words", [(), ("x.yaml", "--example", "Basic"), ("x.yaml", "--example")])
def test_config_needs_a_file_or_an_example(words: tuple[str, ...]):
    with pytest.raises(ConfigError, match="name a settings file or, with --example NAME"):
        run(config, *words)


def test_the_path_of_an_example_that_is_not_here_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"palaestra config --example sac/PushBlock --out PushBlock\.yaml"):
        load(Path("config/sac/PushBlock.yaml"))
    with pytest.raises(ConfigError) as caught:
        load(Path("mine.yaml"))
    assert "--example" not in str(caught.value)


def test_schema_prints_or_writes_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run(schema)
    printed = json.loads(capsys.readouterr().out)
    run(schema, "--out", str(tmp_path / "schema.json"))
    assert json.loads((tmp_path / "schema.json").read_text()) == printed


def test_schema_that_cannot_be_written_is_one_error(tmp_path: Path):
    with pytest.raises(RunError, match="cannot be written"):
        run(schema, "--out", str(tmp_path / "none" / "schema.json"))
