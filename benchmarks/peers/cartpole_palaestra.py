"""Palaestra on CartPole with settings tuned for CPU seconds. usage: cartpole_palaestra.py SEED [CartPole-v1|CartPole]

CartPole-v1 is Gymnasium's own vector environment, CartPole the built-in one with the same physics.

The whole engine runs as `palaestra learn` does, with its checkpoints and summaries; as for every peer, the clock stops
at the goal.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from race import Race

import palaestra
from palaestra.core.metrics import REWARD
from palaestra.runtime.run import learning, training_run  # noqa: F401  imports are not counted against any peer
from palaestra.trainers import ppo  # noqa: F401

HERE = Path(__file__).resolve().parent
SETTINGS = {
    "CartPole-v1": HERE / "settings" / "CartPole-v1.yaml",
    "CartPole": HERE.parents[1] / "configs" / "ppo" / "CartPole.yaml",
}
PEERS = {"CartPole-v1": "palaestra", "CartPole": "palaestra_builtin"}
ROLLOUT = 2048


def main(seed: int, game: str = "CartPole-v1") -> None:
    race = Race(PEERS[game], seed)

    def note(summary) -> bool:
        race.took(summary.step - race.env_steps)
        for value in summary.histograms.get(REWARD, ()):
            race.ended(float(value))
        if race.over:
            race.finish()
        return race.over

    race.start()
    with tempfile.TemporaryDirectory() as results:
        palaestra.train(
            SETTINGS[game],
            env=None if game == "CartPole-v1" else game,
            seed=seed,
            run_id="peer",
            results_dir=results,
            summary_freq=ROLLOUT,
            callbacks=[note],
            quiet=True,
        )
    if not race.over:  # the settings' max_steps came first
        race.finish()


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
