"""Other libraries' trainers learn 3DBall through `gymnasium.make_vec`, by the scripts in `examples/`.

Mean reward of the last 100 episodes: at least 95, seeds 1 to 3. Stable-Baselines3 takes 250,000 steps, rsl_rl 819,200,
the script in one file at most 6 million. The libraries are not installed with ours: pip install stable-baselines3
rsl-rl-lib.
"""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BAR = 95.0


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    ("script", "needs"), [("ppo_make_vec", "torch"), ("train_sb3", "stable_baselines3"), ("train_rsl_rl", "rsl_rl")]
)
def test_a_trainer_of_others_learns_3dball(script: str, needs: str, seed: int, tmp_path: Path):
    if find_spec(needs) is None:
        pytest.skip(f"needs {needs}")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, str(ROOT / "examples" / f"{script}.py"), str(seed)]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    reward = float(re.findall(r"mean reward (-?[\d.]+)", done.stdout)[-1])
    print(f"{script}, seed {seed}: {reward}")
    assert reward >= BAR
