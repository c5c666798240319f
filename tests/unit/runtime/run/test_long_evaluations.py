import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from small_runs import settings

WORLD = """
import time
from pair_world import PairWorld

made = 0

class Slow(PairWorld):
    def step(self, actions):
        time.sleep(0.4)
        return super().step(actions)

def make(areas: int = 4):
    global made
    made += 1
    return PairWorld(areas) if made == 1 else Slow(areas)
"""


@pytest.mark.slow
def test_ranks_wait_for_an_evaluation_that_takes_longer_than_rank_timeout(tmp_path):
    (tmp_path / "slow_world.py").write_text(WORLD)
    tree = settings("Main", 200, keep_best={"episodes": 4}, summary_freq=100)
    (tmp_path / "settings.yaml").write_text(yaml.safe_dump(tree))
    command = [sys.executable, "-m", "palaestra", "learn", "settings.yaml", "--env=python:slow_world:make"]
    command += ["--processes=2", "--num-areas=4", "--run-id=run", "--seed=1", "--set", "torch_settings.rank_timeout=2"]
    paths = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    paths = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(command, cwd=tmp_path, env=paths, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "over 4 episodes of keep_best" in done.stdout
    assert (tmp_path / "results" / "run" / "Main-best.onnx").is_file()
