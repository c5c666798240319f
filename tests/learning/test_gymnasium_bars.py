"""Gymnasium's environments reach their bars with the settings that are taken without a settings file.

The decisions are those of the files in configs, and of fitted settings one million. The bars of HalfCheetah and Hopper
are the returns that CleanRL's benchmark reports for PPO at one million steps: 1442.64 and 2382.86, means over its seeds
(its `ppo_continuous_action.py`, on the v4 environments).
"""

from importlib.util import find_spec
from pathlib import Path

import pytest

import palaestra
from palaestra.runtime.play.evaluation import evaluate
from palaestra.runtime.play.run_models import find_models, open_for

EPISODES = 100
BOX2D = pytest.mark.skipif(find_spec("Box2D") is None, reason="pip install 'palaestra[box2d]'")
ATARI = pytest.mark.skipif(find_spec("ale_py") is None, reason="pip install 'palaestra[atari]'")
MUJOCO = pytest.mark.skipif(find_spec("mujoco") is None, reason="pip install 'palaestra[mujoco]'")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    ("id", "bar"),
    [
        ("CartPole-v1", 475.0),
        ("Acrobot-v1", -90.0),
        ("Pendulum-v1", -170.0),
        ("MountainCar-v0", -110.0),
        pytest.param("LunarLander-v3", 240.0, marks=BOX2D),
        pytest.param("BipedalWalker-v3", 250.0, marks=BOX2D),
        pytest.param("HalfCheetah-v5", 1442.64, marks=MUJOCO),
        pytest.param("Hopper-v5", 2382.86, marks=MUJOCO),
        pytest.param("PongNoFrameskip-v4", 18.0, marks=ATARI),
    ],
)
def test_training_without_a_settings_file_reaches_the_bar(id: str, bar: float, seed: int, tmp_path: Path):
    result = palaestra.train(env=f"gymnasium:{id}", seed=seed, run_id="preset", results_dir=str(tmp_path), quiet=True)
    models = find_models(str(result.folder), result.folder.parent)
    found = evaluate(open_for(models, None, 10, EPISODES), models.policies(0), EPISODES)[id.replace("/", "-")]
    print(f"{id} seed {seed}: {found.mean:.1f} (bar {bar})")
    assert found.mean >= bar
