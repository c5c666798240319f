"""Trains short seeded runs of every kind and prints a digest of what each has learned: equal before and after a change
that may not change results.

    python tests/golden/same_digits.py --write before.json
    python tests/golden/same_digits.py --against before.json [--only sac,threaded]

The digest is of the weights, the normalizers and the optimizer's state of the last checkpoint, whatever its keys are
called.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml
from safetensors.torch import load_file

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "tests/golden/data/demos/unity_examples_0.15/Expert3DBall.demo"


def ppo(
    steps: int, *, trainer: str = "ppo", buffer: int = 512, network: dict[str, Any] | None = None, **block: Any
) -> dict[str, Any]:
    """Returns the settings of a behavior."""
    hyper = {"batch_size": 128, "buffer_size": buffer, "learning_rate": 1e-3}
    net = {"normalize": True, "hidden_units": 32, "num_layers": 2, **(network or {})}
    usual = {"summary_freq": steps // 2, "time_horizon": 32, "max_steps": steps}
    return {"trainer_type": trainer, "hyperparameters": hyper, "network_settings": net, **usual, **block}


SAC = {"batch_size": 64, "buffer_size": 2000, "buffer_init_steps": 200, "steps_per_update": 10.0}
MEMORY = {"memory": {"sequence_length": 8, "memory_size": 16}}
SELF_PLAY = {
    "save_steps": 400,
    "team_change": 900,
    "swap_steps": 150,
    "window": 4,
    "play_against_latest_model_ratio": 0.5,
}
CURRICULUM = {
    "mass": {"sampler_type": "uniform", "sampler_parameters": {"min_value": 0.5, "max_value": 2.0}},
    "gravity": {
        "curriculum": [
            {
                "name": "light",
                "completion_criteria": {
                    "measure": "progress",
                    "behavior": "3DBall",
                    "threshold": 0.3,
                    "require_reset": True,
                },
                "value": {"sampler_type": "gaussian", "sampler_parameters": {"mean": 6.0, "st_dev": 0.5}},
            },
            {"name": "heavy", "value": 9.81},
        ]
    },
}
IMITATION = {
    "reward_signals": {
        "extrinsic": {"gamma": 0.99, "strength": 1.0},
        "gail": {"gamma": 0.99, "strength": 0.1, "demo_path": str(DEMO), "network_settings": {"hidden_units": 32}},
    },
    "behavioral_cloning": {"demo_path": str(DEMO), "steps": 1500, "strength": 0.5},
}
EXPLORATION = {
    "reward_signals": {
        "extrinsic": {"gamma": 0.99, "strength": 1.0},
        "curiosity": {"gamma": 0.99, "strength": 0.02, "network_settings": {"hidden_units": 32}},
        "rnd": {"gamma": 0.99, "strength": 0.02, "network_settings": {"hidden_units": 32}},
    }
}


def runs() -> dict[str, tuple[dict[str, Any], list[str]]]:
    """Returns by name the settings of each run and its arguments."""

    def one(
        behavior: str, block: dict[str, Any], *arguments: str, env: str = "", **rest: Any
    ) -> tuple[dict[str, Any], list[str]]:
        return {"behaviors": {behavior: block}, **rest}, [f"--env={env or 'builtin:' + behavior}", *arguments]

    areas = "--num-areas=16"
    sac = {**ppo(600, trainer="sac"), "hyperparameters": SAC}
    return {
        "ppo": one("3DBall", ppo(3000), areas),
        "sac": one("3DBall", sac, "--num-areas=4"),
        "poca": one("PushBlockCollab", ppo(1500, trainer="poca"), "--num-areas=4"),
        "lstm": one("Hallway", ppo(1500, network=MEMORY), "--num-areas=8"),
        "lstm of groups": one("DungeonEscape", ppo(1200, trainer="poca", network=MEMORY), "--num-areas=4"),
        "images": one("GridWorld", ppo(600, buffer=256), "--num-areas=8"),
        "masks": one("Match3VectorObs", ppo(800, buffer=256), "--num-areas=4", env="builtin:Match3"),
        "self-play": one("Tennis", ppo(3000, self_play=SELF_PLAY), "--num-areas=8"),
        "self-play of groups": one("SoccerTwos", ppo(3000, trainer="poca", self_play=SELF_PLAY), "--num-areas=4"),
        "curriculum": one("3DBall", ppo(3000), areas, environment_parameters=CURRICULUM),
        "imitation": one("3DBall", ppo(2000, **IMITATION), areas),
        "exploration": one("Basic", ppo(1500, **EXPLORATION), "--num-areas=8"),
        "over the wire": one("Tag", ppo(1500), env=str(ROOT / "examples/sdk_tag.py")),
        "two ranks": one("3DBall", ppo(3000), areas, "--processes=2"),
        "threaded": one("3DBall", ppo(3000, threaded=True), areas),
    }


def digest(name: str) -> str:
    """Trains a run and returns the digest of what it has learned."""
    config, arguments = runs()[name]
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "settings.yaml"
        file.write_text(yaml.safe_dump(config))
        command = [
            sys.executable,
            "-m",
            "palaestra",
            "learn",
            str(file),
            *arguments,
            "--run-id=run",
            "--seed=7",
            "--torch-threads=1",
        ]
        told = subprocess.run(
            command,
            cwd=place,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        if told.returncode:
            return f"failed: {told.stderr.strip().splitlines()[-1:] or told.stdout[-300:]}"
        saved_at = [folder for folder in (Path(place) / "results/run/checkpoints").iterdir() if folder.name.isdigit()]
        newest = max(saved_at, key=lambda folder: int(folder.name))
        found = []
        for saved in sorted(newest.glob("*.safetensors")):
            if saved.name != "run.safetensors":
                for key, tensor in load_file(saved).items():
                    if "network" in key or "optimizer" in key:
                        found.append(
                            hashlib.sha256(
                                str(tuple(tensor.shape)).encode() + tensor.contiguous().numpy().tobytes()
                            ).hexdigest()
                        )
        return hashlib.sha256("".join(sorted(found)).encode()).hexdigest()[:16]


def main() -> int:
    """Prints the digests. Returns 1 if some differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    names = [name for name in runs() if not args.only or name in args.only.split(",")]
    before = {} if args.against is None else json.loads(args.against.read_text())
    wrong = 0
    with ThreadPoolExecutor(2) as pool:
        found = dict(zip(names, pool.map(digest, names), strict=True))
    for name, now in found.items():
        same = "" if name not in before else "same" if before[name] == now else f"DIFFERENT from {before[name]}"
        wrong += same.startswith("DIFFERENT") or now.startswith("failed")
        print(f"{name:<22} {now} {same}")
    if args.write is not None:
        args.write.write_text(json.dumps(found, indent=1))
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
