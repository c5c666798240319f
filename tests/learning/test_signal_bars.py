"""Reward signals find Pyramids' golden brick, and clones play nearly as well as their teachers, with the settings that
are shipped.

Judged by 100 episodes that the exported model plays, actions drawn.
"""

from pathlib import Path

import pytest
from test_bars import EPISODES, SEEDS, mean_reward

import palaestra
from palaestra.runtime.play.brain_assignment import BrainAssignment, BrainSpec
from palaestra.runtime.play.demo_recording import DemoRecorder, record_demo
from palaestra.runtime.play.players import Players

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
TEACHERS = {"3DBall": 100.0, "PushBlock": 4.97}
"""What the environments' own rules earn."""


def demonstrated(name: str, episodes: int, folder: Path) -> None:
    """Records the environment's own rule where its settings look for it."""
    env = palaestra.make(name, areas=16)
    cast = BrainAssignment([BrainSpec("heuristic", "")], env, seed=0, deterministic=True, results=folder)
    players = Players(env, cast.brain, lambda agents: episodes)
    (folder / "demos").mkdir()
    recorder = DemoRecorder(env, folder / "demos" / f"{name}.demo", episodes)
    record_demo(env, recorder, players.act, players.note, seed=0)
    recorder.close()


def trained(config: str, name: str, seed: int, folder: Path) -> float:
    result = palaestra.train(CONFIGS / config, env=name, seed=seed, results_dir=str(folder), quiet=True)
    (model,) = result.models.values()
    reward = mean_reward(name, palaestra.load_policy(model, seed=0))
    print(f"{config} seed {seed}: {reward:.3f} over {EPISODES} episodes")
    return reward


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("config", ["ppo/Pyramids.yaml", "ppo/PyramidsRND.yaml", "imitation/Pyramids.yaml"])
def test_pyramids_golden_brick_is_found(config: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    if config.startswith("imitation"):
        demonstrated("Pyramids", 100, tmp_path)
    assert trained(config, "Pyramids", seed, tmp_path) >= 1.75


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_with_recorded_decisions_few_of_its_own_do(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    demonstrated("Pyramids", 100, tmp_path)
    assert trained("imitation/Pyramids_prior_data.yaml", "Pyramids", seed, tmp_path) >= 1.3


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", TEACHERS)
def test_a_clone_earns_nine_tenths_of_what_its_teacher_does(
    name: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    demonstrated(name, 20, tmp_path)
    assert trained(f"bc/{name}.yaml", name, seed, tmp_path) >= 0.9 * TEACHERS[name]
