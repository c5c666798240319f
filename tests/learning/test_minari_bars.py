"""Clones and GAIL learn from Minari datasets of trained policies what these can."""

from pathlib import Path

import gymnasium
import numpy as np
import pytest
from minari_files import Collector

import palaestra
from palaestra.runtime.play.evaluation import evaluate

pytest.importorskip("minari")
EPISODES = 50
CLONE = """
behaviors:
  {id}:
    trainer_type: bc
    hyperparameters:
      {{demo_path: "minari:{dataset}", batch_size: 128, buffer_size: 2048, learning_rate: 1.0e-3, num_epoch: 10}}
    network_settings: {{normalize: true, hidden_units: 64, num_layers: 2}}
    max_steps: 60000
"""
GAIL = """
env_settings: {{num_areas: {areas}}}
behaviors:
  {id}:
    trainer_type: ppo
    hyperparameters: {{batch_size: 256, buffer_size: 2048, learning_rate: 5.0e-4, beta: 0.0, num_epoch: 10}}
    network_settings: {{normalize: true, hidden_units: 64, num_layers: 2}}
    behavioral_cloning: {{demo_path: "minari:{dataset}", strength: 0.5, steps: 150000}}
    reward_signals:
      gail:
        {{gamma: 0.95, demo_path: "minari:{dataset}", use_actions: true,
          network_settings: {{hidden_units: 64, num_layers: 2}}}}
    max_steps: 150000
    time_horizon: 64
"""


def collected(id: str, model: str, dataset: str) -> float:
    """Plays a model in Gymnasium's own loop into a dataset; returns its mean return."""
    env = Collector(gymnasium.make(id))
    policy = palaestra.load_policy(model)
    for seed in range(EPISODES):
        obs, _ = env.reset(seed=seed)
        done = False
        while not done:
            obs, _, end, cut, _ = env.step(policy.act(obs, deterministic=True).native)
            done = end or cut
    env.dataset(dataset, env=env.env)
    return float(np.mean([np.sum(one["reward"]) for one in env.episodes]))


def earned(id: str, config: str, name: str, seed: int, folder: Path) -> float:
    file = folder / f"{name}.yaml"
    file.write_text(config)
    result = palaestra.train(file, env=f"gymnasium:{id}", seed=seed, run_id=name, results_dir=str(folder), quiet=True)
    models = {id: palaestra.load_policy(result.models[id], seed=0)}
    reward = evaluate(palaestra.make(f"gymnasium:{id}", areas=10), models, EPISODES)[id].mean
    print(f"{id} {name} seed {seed}: {reward:.1f}")
    return reward


@pytest.mark.slow
@pytest.mark.parametrize(
    ("id", "expert", "slack", "areas"), [("CartPole-v1", 475, 25, 64), ("Pendulum-v1", -200, 60, 16)]
)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_clones_and_gail_reach_the_expert_whose_dataset_they_learn_from(
    id: str, expert: float, slack: float, areas: int, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    trained = palaestra.train(env=f"gymnasium:{id}", seed=seed, run_id="expert", results_dir=str(tmp_path), quiet=True)
    reward = collected(id, trained.models[id], "gym/expert-v0")
    print(f"{id} expert seed {seed}: {reward:.1f}")
    assert reward >= expert
    assert earned(id, CLONE.format(id=id, dataset="gym/expert-v0"), "clone", seed, tmp_path) >= reward - slack
    assert (
        earned(id, GAIL.format(id=id, dataset="gym/expert-v0", areas=areas), "gail", seed, tmp_path) >= reward - slack
    )
