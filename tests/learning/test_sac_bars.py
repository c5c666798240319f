"""Soft actor-critic reaches its bars with the settings that are shipped, judged by 100 episodes that the exported model plays."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_bars import SEEDS, mean_reward

import palaestra

CONFIGS = Path(__file__).resolve().parents[2] / "configs" / "sac"


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("config", "env", "bar"),
    [
        ("3DBall.yaml", "builtin:3DBall", 99.0),
        ("PushBlock.yaml", "builtin:PushBlock", 4.5),
        ("Pendulum-v1.yaml", "gymnasium:Pendulum-v1", -200.0),
    ],
)
def test_sac_reaches_the_bar(config: str, env: str, bar: float, seed: int, tmp_path: Path):
    result = palaestra.train(CONFIGS / config, env=env, seed=seed, results_dir=str(tmp_path), quiet=True)
    (model,) = result.models.values()
    reward = mean_reward(env, palaestra.load_policy(model, seed=0))
    print(f"{config} seed {seed}: {reward:.3f} (bar {bar})")
    assert reward >= bar
