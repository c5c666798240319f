"""Looks at each summary while a run learns: writes a table, and ends the run when the reward no longer rises.

python callbacks.py
"""

import csv

import palaestra


class Table:
    """Writes a line for each summary to a CSV file."""

    def __init__(self, file):
        self.file = file
        with open(file, "w", newline="") as out:
            csv.writer(out).writerow(["step", "reward", "entropy"])

    def __call__(self, summary):
        with open(self.file, "a", newline="") as out:
            csv.writer(out).writerow([summary.step, summary.mean, summary.values.get("Policy/Entropy")])


class Patience:
    """Ends the run when this many summaries brought no better reward than the best before them."""

    def __init__(self, summaries):
        self.summaries, self.best, self.waited = summaries, float("-inf"), 0

    def __call__(self, summary):
        better = summary.mean is not None and summary.mean > self.best
        self.best, self.waited = (summary.mean, 0) if better else (self.best, self.waited + 1)
        return self.waited >= self.summaries  # True ends the run, saved


if __name__ == "__main__":
    result = palaestra.train(
        env="gymnasium:CartPole-v1",
        max_steps=300_000,
        summary_freq=5_000,
        keep_best=True,
        callbacks=[Table("callbacks.csv"), Patience(8)],
        run_id="patient",
        force=True,
    )
    print(palaestra.evaluate(result, step="best", episodes=50, deterministic=True))
    palaestra.plot(result, metric=["Cumulative Reward", "Entropy"], out="callbacks.png", force=True)
