"""Runs that were never trained: their settings and their summaries."""

import json
from pathlib import Path

import yaml

REWARD = "Environment/Cumulative Reward"


def written(folder: Path, values, *, task="A", seed=1, tag=REWARD, every=10, settings=None, seconds=1.0, **env) -> Path:
    """Writes a run whose summaries are these values, `every` steps and `seconds` apart."""
    folder.mkdir(parents=True, exist_ok=True)
    if settings is not None:
        tree = {
            "behaviors": {task: settings},
            "env_settings": {"seed": seed, **env},
            "checkpoint_settings": {"run_id": folder.name},
            "torch_settings": {"threads": seed},
        }
        (folder / "configuration.yaml").write_text(yaml.safe_dump(tree))
    with (folder / "metrics.jsonl").open("a") as file:
        for i, value in enumerate(values, 1):
            file.write(json.dumps({"behavior": task, "step": i * every, "elapsed": i * seconds, tag: value}) + "\n")
    return folder


def written_seeds(results: Path, name: str, runs, **rest) -> None:
    """Writes a run for each list of values: NAME-seed-1 and so on."""
    for seed, values in enumerate(runs, 1):
        written(results / f"{name}-seed-{seed}", values, seed=seed, **rest)
