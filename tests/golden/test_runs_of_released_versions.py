"""Runs that released versions wrote are resumed, and their models play (docs/explanation/stability.md)."""

import json
import shutil
from pathlib import Path

import pytest

import palaestra

RUNS = Path(__file__).parent / "data" / "runs"
FOLDERS = [pytest.param(path, id=f"{path.parent.name}-{path.name}") for path in sorted(RUNS.glob("*/*/"))]


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_run_of_a_released_version_goes_on(folder: Path, tmp_path: Path):
    shutil.copytree(folder, tmp_path / folder.name)
    result = palaestra.train(run_id=folder.name, resume=True, max_steps=800, results_dir=tmp_path, quiet=True)
    steps = [json.loads(line)["step"] for line in (tmp_path / folder.name / "metrics.jsonl").read_text().splitlines()]
    assert steps[:2] == [300, 600]
    assert result.steps["Basic"] >= 800
    assert (tmp_path / folder.name / "Basic.onnx").stat().st_size > 1000


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_model_of_a_released_version_plays(folder: Path):
    found = palaestra.evaluate(folder / "Basic.onnx", env="Basic", episodes=4, quiet=True)
    assert len(found.returns) == 4
