"""A bit that is shown once and asked for fifty decisions later: learned with a memory, never without one."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from recall_env import Recall

import palaestra
from palaestra.runtime.logging.tracker import Summary

MEMORY = {"sequence_length": 64, "memory_size": 64}
ENVS: dict[str, Callable[[], Recall]] = {
    "a number": lambda: Recall(128),
    "an image": lambda: Recall(128, image=True),
    "agents that live for different times and pause": lambda: Recall(64, (50, 31), pauses=True),
}


def settings(memory: dict[str, int] | None, max_steps: int) -> dict[str, Any]:
    """PPO of a small network."""
    return {
        "behaviors": {
            "Recall": {
                "trainer_type": "ppo",
                "hyperparameters": {
                    "batch_size": 2048,
                    "buffer_size": 16384,
                    "learning_rate": 3e-3,
                    "beta": 0.003,
                    "lambd": 0.9,
                    "num_epoch": 3,
                    "learning_rate_schedule": "constant",
                },
                "network_settings": {"hidden_units": 32, "num_layers": 1, "memory": memory},
                "reward_signals": {"extrinsic": {"gamma": 0.9}},
                "max_steps": max_steps,
                "time_horizon": 128,
                "summary_freq": 32768,
            }
        }
    }


def last(env: Recall, memory: dict[str, int] | None, max_steps: int, seed: int, results: Path) -> float:
    """The mean return of the last period; the training ends once it is solved."""
    means: list[float] = []

    def solved(summary: Summary) -> bool:
        if not math.isnan(summary.mean):
            means.append(summary.mean)
        return summary.mean > 0.98

    config = settings(memory, max_steps)
    palaestra.train(
        config, env=env, seed=seed, run_id="recall", results_dir=str(results), quiet=True, callbacks=[solved]
    )
    print(f"mean returns: {', '.join(f'{mean:.2f}' for mean in means)}")
    return means[-1]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", ENVS)
def test_a_bit_is_kept_for_fifty_decisions_by_a_memory(name: str, seed: int, tmp_path: Path):
    assert last(ENVS[name](), MEMORY, 1_500_000, seed, tmp_path) > 0.95


@pytest.mark.slow
@pytest.mark.parametrize("name", ENVS)
def test_without_a_memory_a_bit_is_guessed(name: str, tmp_path: Path):
    assert abs(last(ENVS[name](), None, 300_000, 1, tmp_path)) < 0.25
