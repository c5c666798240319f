"""Made the folders in `data/runs`, each stopped in its middle: `python tests/golden/make_runs.py FOLDER`.

They stay as they were written, so that later versions are held to resuming them. A new kind of run gets a folder of its
own.
"""

from __future__ import annotations

import sys
from typing import Any

import palaestra

NETWORK = {"hidden_units": 8, "num_layers": 1}


def block(
    trainer: str, steps: int, hyper: dict[str, Any], network: dict[str, Any] | None = None, **rest: Any
) -> dict[str, Any]:
    """Settings of one behavior that trains in a moment."""
    size = {"max_steps": steps, "summary_freq": 200, "checkpoint_interval": 100_000}
    return {
        "trainer_type": trainer,
        "hyperparameters": hyper,
        "network_settings": {**NETWORK, **(network or {})},
        **size,
        **rest,
    }


LSTM = {"memory": {"memory_size": 8, "sequence_length": 8}, "normalize": True}
CURIOUS = {"extrinsic": {"gamma": 0.9}, "curiosity": {"strength": 0.01, "network_settings": NETWORK}}
SCALES = {"sampler_type": "uniform", "sampler_parameters": {"min_value": 0.5, "max_value": 2.0}}
RUNS: dict[str, tuple[str, int, int, dict[str, Any]]] = {
    "ppo": (
        "Basic",
        4,
        800,
        {
            "behaviors": {
                "Basic": block("ppo", 800, {"batch_size": 32, "buffer_size": 128}, LSTM, reward_signals=CURIOUS)
            }
        },
    ),
    "sac": (
        "3DBall",
        2,
        800,
        {
            "behaviors": {
                "3DBall": block("sac", 800, {"batch_size": 16, "buffer_size": 300, "buffer_init_steps": 100})
            },
            "environment_parameters": {"scale": SCALES},
        },
    ),
    "poca": (
        "DungeonEscape",
        2,
        800,
        {"behaviors": {"DungeonEscape": block("poca", 800, {"batch_size": 64, "buffer_size": 128})}},
    ),
    "self-play": (
        "Tennis",
        2,
        1600,
        {
            "behaviors": {
                "Tennis": block(
                    "ppo",
                    1600,
                    {"batch_size": 64, "buffer_size": 128},
                    self_play={"save_steps": 200, "team_change": 400, "swap_steps": 100, "window": 3},
                )
            }
        },
    ),
}
"""By name: environment, areas, max_steps, settings."""


def main(folder: str) -> None:
    for name, (env, areas, steps, tree) in RUNS.items():
        settings = {**tree, "env_settings": {"num_areas": areas, "env_path": f"builtin:{env}"}}
        stop = [lambda summary, half=steps // 2: summary.step >= half]
        palaestra.train(
            settings, env=f"builtin:{env}", seed=7, run_id=name, results_dir=folder, quiet=True, callbacks=stop
        )


if __name__ == "__main__":
    main(sys.argv[1])
