"""A small run to push, as training leaves it."""

import shutil
from pathlib import Path

import pytest
from small_runs import settings

import palaestra


def trained(results: Path, run_id: str = "first", behavior: str = "3DBall", env: str = "3DBall") -> Path:
    """Trains for a moment; returns the run's folder."""
    tree = settings(behavior, max_steps=300, checkpoint_interval=100)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(results)  # so that no path of this machine is in its settings
        palaestra.train(tree, env=env, run_id=run_id, results_dir=".", num_areas=4, seed=1, quiet=True)
    return results / run_id


def copied(run: Path, results: Path) -> Path:
    """A copy of a run, for a test that changes it."""
    return Path(shutil.copytree(run, results / run.name))
