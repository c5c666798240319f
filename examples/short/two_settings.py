"""Compares two learning rates over three seeds each, with intervals, and draws both.

python two_settings.py
"""

import palaestra

if __name__ == "__main__":  # seeds train side by side in processes of their own, which read this file too
    groups = {}
    for name, rate in {"slow": 3e-4, "fast": 1e-3}.items():
        groups[name] = palaestra.train_seeds(
            env="3DBall",
            seeds=3,
            side_by_side=2,
            max_steps=200_000,
            summary_freq=10_000,
            learning_rate=rate,
            run_id=f"ball-{name}",
            force=True,
            quiet=True,
        )
    comparison = palaestra.compare(groups, bar=90)
    print(comparison)
    comparison.plot().savefig("two_settings.png", bbox_inches="tight")
