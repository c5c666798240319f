"""Palaestra with the settings it ships, until it reaches the bar of an environment. usage: bar_palaestra.py GAME SEED

`--whole` goes on to the settings' max_steps and evaluates to the end; `--set` and `--config` try other settings.
The whole engine runs as `palaestra learn` does, with its checkpoints and summaries.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from unittest import mock

import numpy as np
from bar import GAMES, Course

import palaestra
from palaestra.core.metrics import REWARD
from palaestra.onnx_export import onnx
from palaestra.runtime.collect.learner import Learner
from palaestra.runtime.logging.tracker import Summary
from palaestra.runtime.parts.part import RunPart
from palaestra.runtime.run import learning
from palaestra.runtime.run.training_run import Run
from palaestra.trainers import ppo, sac  # noqa: F401  imports are not counted against any peer


class Watch(RunPart):
    """Shows the course each summary and ends the run at the bar."""

    def __init__(self, course: Course, run: Run) -> None:
        self.course, self.run = course, run

    def summarized(self, learner: Learner, summary: Summary) -> None:
        for value in summary.histograms.get(REWARD, ()):
            self.course.ended(float(value))
        with tempfile.TemporaryDirectory() as place:
            file = Path(place) / "policy.onnx"

            def act(obs: np.ndarray) -> np.ndarray:
                if not file.exists():
                    onnx.export(learner.trainer.network, learner.spec, file)
                    self.policy = palaestra.load_policy(file)
                action = self.policy.act(obs, deterministic=True)
                return action.discrete[:, 0] if self.policy.branches else action.continuous

            if self.course.look(summary.step, act):
                self.run.end()


def main(game: str, seed: int, config: str | None, sets: list[str], *, whole: bool) -> None:
    def with_watch(run: Run, *rest) -> list[RunPart]:
        budget = max(learner.max_steps for learner in run.settings.behaviors.values())
        watch.append(Watch(Course("palaestra", game, seed, budget, whole=whole), run))
        watch[0].course.start()
        return [*parts_of(run, *rest), watch[0]]

    watch: list[Watch] = []
    parts_of = learning.parts_of
    with tempfile.TemporaryDirectory() as results, mock.patch.object(learning, "parts_of", with_watch):
        palaestra.train(
            config,
            env=f"gymnasium:{game}",
            seed=seed,
            run_id="peer",
            results_dir=results,
            summary_freq=GAMES[game].every,
            settings=dict(text.split("=", 1) for text in sets),
            quiet=True,
        )
    watch[0].course.report(**({"sets": sets} if sets else {}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("game")
    parser.add_argument("seed", type=int)
    parser.add_argument("--config")
    parser.add_argument("--set", action="append", default=[], dest="sets")
    parser.add_argument("--whole", action="store_true")
    main(**vars(parser.parse_args()))
