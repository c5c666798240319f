from __future__ import annotations

import argparse
import json
from pathlib import Path
from types import ModuleType

import pytest

from palaestra.cli import config, schema
from palaestra.core.errors import ConfigError, RunError
from palaestra.runtime.settings import load


def run(command: ModuleType, *words: str) -> None:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    command.main(parser.parse_args(words))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "x.yaml"
    path.write_text("behaviors:\n  Ball:\n    framework: torch\n")
    return path


def test_config_prints_a_file_that_loads_to_the_same_settings(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run(config, str(file), "--set", "behaviors.Ball.max_steps=1e6", "--set", "debug=true")
    printed = capsys.readouterr()
    assert "max_steps: 1000000\n" in printed.out
    assert "framework: ignored" in printed.err
    (tmp_path / "again.yaml").write_text(printed.out)
    assert load(tmp_path / "again.yaml").settings == load(file, sets=["behaviors.Ball.max_steps=1e6", "debug=true"]).settings


def test_config_refuses_what_does_not_load(file: Path):
    with pytest.raises(ConfigError, match="unknown key"):
        run(config, str(file), "--set", "debugg=true")


def test_schema_prints_or_writes_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run(schema)
    printed = json.loads(capsys.readouterr().out)
    run(schema, "--out", str(tmp_path / "schema.json"))
    assert json.loads((tmp_path / "schema.json").read_text()) == printed


def test_schema_that_cannot_be_written_is_one_error(tmp_path: Path):
    with pytest.raises(RunError, match="cannot be written"):
        run(schema, "--out", str(tmp_path / "none" / "schema.json"))
