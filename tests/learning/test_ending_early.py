"""`keep_best` on a training that collapses on purpose, and `stop_when` on ML-Agents' own settings of 3DBall."""

import json
from pathlib import Path
from typing import Any

import pytest

import palaestra
from palaestra.brains.model import load_policy
from palaestra.runtime.play.evaluation import SideEpisodes, evaluate

pytestmark = pytest.mark.slow

TOO_FAST: dict[str, Any] = {
    "trainer_type": "ppo",
    "hyperparameters": {
        "batch_size": 64,
        "buffer_size": 3000,
        "learning_rate": 4e-3,
        "learning_rate_schedule": "constant",
        "epsilon": 0.5,
        "epsilon_schedule": "constant",
        "beta": 0.0,
        "num_epoch": 6,
    },
    "network_settings": {"hidden_units": 64, "num_layers": 2, "normalize": True},
    "max_steps": 200_000,
    "summary_freq": 10_000,
    "checkpoint_interval": 20_000,
    "keep_checkpoints": 20,
    "keep_best": {"every": 10_000, "episodes": 50},
}
CONFIG = Path(__file__).parents[2] / "configs" / "ppo" / "3DBall.yaml"


def played(model: Path) -> SideEpisodes:
    env = palaestra.make("3DBall", areas=100)
    try:
        return evaluate(env, {"3DBall": load_policy(model, seed=7)}, 200, seed=99)["3DBall"]
    finally:
        env.close()


@pytest.mark.parametrize("seed", [4, 5, 6])
def test_the_best_model_of_a_training_that_collapses_is_as_good_as_any_it_has_saved(seed: int, tmp_path: Path):
    result = palaestra.train(
        {"behaviors": {"3DBall": TOO_FAST}}, env="3DBall", results_dir=str(tmp_path), run_id="a", seed=seed, quiet=True
    )
    best = played(result.folder / "3DBall-best.onnx")
    saved = {path.name: played(path) for path in (result.folder / "3DBall").glob("*.onnx")}
    print(
        f"seed {seed}: best {best.mean:.2f}; saved: "
        f"{', '.join(f'{name} {one.mean:.2f}' for name, one in sorted(saved.items()))}"
    )
    assert len(saved) >= 10
    assert min(one.mean for one in saved.values()) < 0.5 * best.mean  # it did collapse
    for name, one in saved.items():
        assert best.mean >= one.mean - 3 * (best.error**2 + one.error**2) ** 0.5, name


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_stop_when_saves_half_of_the_official_run_of_3dball(seed: int, tmp_path: Path):
    result = palaestra.train(
        CONFIG, env="3DBall", results_dir=str(tmp_path), run_id="a", seed=seed, quiet=True, stop_at=95
    )
    status = json.loads((result.folder / "run_logs/training_status.json").read_text())
    mean = played(result.models["3DBall"]).mean
    print(
        f"seed {seed}: {result.steps['3DBall']:,} of 500,000 decisions, {mean:.2f}; "
        f"{status['3DBall']['ending']['reason']}"
    )
    assert result.endings == {"3DBall": "goal"}
    assert result.steps["3DBall"] <= 250_000
    assert mean >= 95
