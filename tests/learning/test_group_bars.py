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
def test_groups_get_out_of_the_dungeon_since_one_gives_its_life(seed: int, tmp_path: Path):
    reward = group_reward("poca/DungeonEscape.yaml", "builtin:DungeonEscape", seed, tmp_path)
    print(f"DungeonEscape seed {seed}: {reward:.3f}")
    assert reward >= 0.95


@pytest.mark.slow
def test_with_ppo_few_groups_get_out_of_the_dungeon(tmp_path: Path):
    assert group_reward("ppo/DungeonEscape.yaml", "builtin:DungeonEscape", 1, tmp_path) < 0.6


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_mates_learn_in_lessons_to_push_every_block(seed: int, tmp_path: Path):
    """The game is played as it is, with a block of each size needing its number."""
    reward = group_reward("poca/PushBlockCollab.yaml", "builtin:CooperativePushBlock", seed, tmp_path)
    print(f"CooperativePushBlock seed {seed}: {reward:.2f}")
    assert reward >= 11.0
