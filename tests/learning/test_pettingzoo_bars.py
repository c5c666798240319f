"""Games of PettingZoo reach their bars with the settings that are shipped."""

from pathlib import Path

import pytest

pytest.importorskip("pettingzoo", reason="needs pettingzoo: pip install 'palaestra[pettingzoo]'")
from board_games import lost_positions, outcomes

import palaestra
from palaestra.runtime.play.evaluation import evaluate

CONFIGS = Path(__file__).resolve().parents[2] / "configs"


def trained(config: str, seed: int, results: Path) -> Path:
    """Model that a shipped file leads to."""
    name = config.replace("/", "-").removesuffix(".yaml")
    result = palaestra.train(CONFIGS / config, seed=seed, run_id=f"{name}-{seed}", results_dir=str(results), quiet=True)
    (model,) = result.models.values()
    return model


@pytest.mark.slow
def test_connect_four_by_self_play_beats_a_random_player(tmp_path: Path):
    counts = outcomes(trained("ppo/connect_four.yaml", 1, tmp_path), "connect_four", games=400, seed=0)
    print(counts)
    assert counts["won"] >= 380


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_tic_tac_toe_by_self_play_loses_to_nobody(seed: int, tmp_path: Path):
    model = trained("ppo/tictactoe.yaml", seed, tmp_path)
    counts = outcomes(model, "tictactoe", games=400, seed=0)
    lost = [lost_positions(model, mine) for mine in (1, 2)]
    print(counts, lost)
    assert counts["lost"] == 0
    assert lost == [0, 0]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_simple_spread_with_poca_is_no_worse_than_with_shared_ppo(seed: int, tmp_path: Path):
    returns = {}
    for trainer in ("ppo", "poca"):
        policy = palaestra.load_policy(trained(f"{trainer}/simple_spread.yaml", seed, tmp_path), seed=seed)
        game = palaestra.make("pettingzoo:mpe2.simple_spread_v3", areas=100)
        returns[trainer] = float(evaluate(game, {"agent": policy}, 3000, deterministic=True)["agent"].returns.mean())
    print(seed, returns)
    assert returns["poca"] >= returns["ppo"] - 0.5  # four standard errors of the difference
