"""Runs that an earlier version of ours began are resumed and finished by this one. `make_runs.py` made them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from make_runs import RUNS
from safetensors.torch import load_file
from small_runs import state
from torch import Tensor

import palaestra
from palaestra.core.errors import CheckpointError

FOLDER = Path(__file__).parent / "data" / "runs"


def tensors(tree: object) -> list[Tensor]:
    if isinstance(tree, Tensor):
        return [tree]
    parts = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, (list, tuple)) else ()
    return [tensor for part in parts for tensor in tensors(part)]


CHANGED = {"poca"}
"""Runs in a world whose agents see other numbers since."""


@pytest.mark.parametrize("name", sorted(set(RUNS) - CHANGED))
def test_a_run_of_an_earlier_version_is_read_whole_and_trained_to_its_end(name: str, tmp_path: Path):
    _, _, steps, tree = RUNS[name]
    (behavior,) = tree["behaviors"]
    shutil.copytree(FOLDER / name, tmp_path / name)
    stored = [
        tensor for file in (FOLDER / name / "checkpoints").rglob("*.safetensors") for tensor in load_file(file).values()
    ]
    assert sum(tensor.numel() for tensor in tensors(state(tmp_path / name))) >= sum(tensor.numel() for tensor in stored)
    result = palaestra.train(resume=True, run_id=name, results_dir=str(tmp_path), quiet=True)
    assert result.finished
    assert result.steps[behavior] >= steps
    assert result.models[behavior].is_file()
    palaestra.load_policy(result.models[behavior])


@pytest.mark.parametrize("name", sorted(CHANGED))
def test_a_run_in_a_world_whose_agents_see_other_numbers_since_is_refused_and_kept(name: str, tmp_path: Path):
    shutil.copytree(FOLDER / name, tmp_path / name)
    before = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*.safetensors"))
    with pytest.raises(CheckpointError, match=r"does not fit this environment.*size mismatch"):
        palaestra.train(resume=True, run_id=name, results_dir=str(tmp_path), quiet=True)
    assert sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*.safetensors")) == before
