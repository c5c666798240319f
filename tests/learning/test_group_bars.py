"""Groups reach their bars with MA-POCA and the settings that are shipped, and with PPO they stay below.

Each run is judged by a hundred groups that its exported model plays.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import palaestra
from palaestra.runtime.evaluation import evaluate

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
GROUPS = 100


def group_reward(config: str, env: str, seed: int, results: Path, *sets: str) -> float:
    """Mean of what groups earn once trained, each over an episode of all its members."""
    name = config.replace("/", "-").removesuffix(".yaml")
    result = palaestra.train(CONFIGS / config, env=env, seed=seed, run_id=f"{name}-{seed}", results_dir=str(results), quiet=True, sets=sets)
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
def test_mates_learn_to_push_together_sooner_than_each_on_its_own(seed: int, tmp_path: Path):
    """After 1.5 million decisions, some ten minutes each: later both have all but the large block."""
    poca, ppo = (
        group_reward(f"{name}/PushBlockCollab.yaml", "builtin:CooperativePushBlock", seed, tmp_path, f"behaviors.*.max_steps={1.5e6}")
        for name in ("poca", "ppo")
    )
    print(f"CooperativePushBlock seed {seed}: {poca:.2f} with MA-POCA, {ppo:.2f} with PPO")
    assert poca > ppo + 1.0
