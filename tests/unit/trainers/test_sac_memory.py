"""A bit that is shown once and asked for ten decisions later: soft actor-critic learns it with a memory, and cannot
without.
"""

import math
from pathlib import Path
from typing import Any

import pytest
from recall_env import Recall

import palaestra
from palaestra.runtime.logging.tracker import Summary

HYPER = {
    "batch_size": 256,
    "buffer_size": 20000,
    "buffer_init_steps": 2000,
    "learning_rate": 3e-3,
    "steps_per_update": 64,
    "tau": 0.02,
    "init_entcoef": 0.02,
}


def returns(env: Recall, memory: dict[str, int] | None, max_steps: int, results: Path) -> list[float]:
    """Mean returns, period by period; the training ends once it is solved."""
    means: list[float] = []

    def solved(summary: Summary) -> bool:
        if not math.isnan(summary.mean):
            means.append(summary.mean)
        return summary.mean > 0.95

    block: dict[str, Any] = {
        "trainer_type": "sac",
        "hyperparameters": HYPER,
        "network_settings": {"hidden_units": 32, "num_layers": 1, "memory": memory},
        "reward_signals": {"extrinsic": {"gamma": 0.9}},
        "max_steps": max_steps,
        "summary_freq": 4000,
    }
    palaestra.train(
        {"behaviors": {"Recall": block}}, env=env, seed=1, results_dir=str(results), quiet=True, callbacks=[solved]
    )
    return means


@pytest.mark.parametrize("pauses", [False, True])
def test_a_bit_is_remembered(pauses: bool, tmp_path: Path):
    memory = {"sequence_length": 16, "memory_size": 32}
    assert returns(Recall(32, (10,), pauses=pauses), memory, 40000, tmp_path)[-1] > 0.9


def test_without_a_memory_it_is_not(tmp_path: Path):
    assert max(returns(Recall(32, (10,)), None, 12000, tmp_path)) < 0.5
