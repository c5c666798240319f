"""Groups reach their bars with MA-POCA and the settings that are shipped; where one gives its life for the others, PPO stays below.

Each run is judged by a hundred groups that its exported model plays.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import palaestra
from palaestra.runtime.evaluation import evaluate

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
GROUPS = 100


def group_reward(config: str, env: str, seed: int, results: Path) -> float:
    """Mean of what groups earn once trained, each over an episode of all its members."""
    name = config.replace("/", "-").removesuffix(".yaml")
    result = palaestra.train(CONFIGS / config, env=env, seed=seed, run_id=f"{name}-{seed}", results_dir=str(results), quiet=True)
    (model,) = result.models.values()
    game = palaestra.make(env, areas=GROUPS)
    (behavior,) = game.behaviors
    played = evaluate(game, {behavior: palaestra.load_policy(model, seed=0)}, 3 * GROUPS)[behavior]
    return float(played.group_returns.mean())


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    ("config", "env", "bar"),
    [
        ("poca/DungeonEscape.yaml", "builtin:DungeonEscape", 0.95),  # since one gives its life
        ("poca/PushBlockCollab.yaml", "builtin:CooperativePushBlock", 11.0),  # as it is, whatever the lessons were
    ],
)
def test_groups_reach_their_bar(config: str, env: str, bar: float, seed: int, tmp_path: Path):
    reward = group_reward(config, env, seed, tmp_path)
    print(f"{env} seed {seed}: {reward:.3f}")
    assert reward >= bar


@pytest.mark.slow
def test_with_ppo_few_groups_get_out_of_the_dungeon(tmp_path: Path):
    assert group_reward("ppo/DungeonEscape.yaml", "builtin:DungeonEscape", 1, tmp_path) < 0.6
