"""Trains the small runs behind the curves of `docs/explanation/algorithms`, and writes `docs/curves/NAME.csv`.

    python docs/make_algorithm_curves.py [NAME ...] [--results FOLDER]
    python docs/make_curves.py NAME

Each group of an experiment is a settings file with changes, trained with seeds 1 to 3 on a CPU; what was trained before
is not trained again. `PREPARED` says what an experiment needs beforehand, such as recordings. All of it takes about an
hour of one core.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
CURVES = ROOT / "docs" / "curves"
REWARD = "Environment/Cumulative Reward"
SEEDS = (1, 2, 3)
HYPER = "behaviors.*.hyperparameters"
SIGNALS = "behaviors.*.reward_signals"


@dataclass(frozen=True)
class Panel:
    """A panel of a picture: groups of runs that start from one settings file."""

    title: str
    config: str
    groups: Mapping[str, Mapping[str, Any]]
    """Changes of the file, by group: values by the path of their key; None removes a key."""
    env: str | None = None
    tag: str = REWARD
    evaluated: str | None = None
    """Environment in which models of all checkpoints are evaluated, in place of a metric in training."""
    both: Mapping[str, Any] = field(default_factory=dict)
    """Changes of all groups."""


DEMO = "{results}/3DBall.demo"
PUSHES = "{results}/PushBlock.demo"
SWINGS = "{results}/pendulum.demo"
PREPARED = {
    DEMO: ("record --demo --env=3DBall --brain heuristic --episodes=20 --demo-out={file}",),
    PUSHES: ("record --demo --env=PushBlock --brain heuristic --episodes=100 --demo-out={file}",),
    SWINGS: (
        "learn configs/sac/Pendulum-v1.yaml --run-id=pendulum --results-dir={results} --seed=1",
        "record pendulum --results-dir={results} --demo --episodes=50 --demo-out={file}",
    ),
}
"""Files that experiments need, and the commands that make them."""
SMALL = {"hidden_units": 64, "num_layers": 2}
PENDULUM = {
    "behaviors.*.trainer_type": "ppo",
    "behaviors.*.hyperparameters": {
        "batch_size": 256,
        "buffer_size": 2048,
        "learning_rate": 5e-4,
        "beta": 0.0,
        "num_epoch": 10,
    },
    "behaviors.*.network_settings": {"normalize": True, **SMALL},
    "behaviors.*.reward_signals": {
        "gail": {"gamma": 0.95, "demo_path": SWINGS, "use_actions": True, "network_settings": SMALL}
    },
    "behaviors.*.max_steps": 150000,
    "behaviors.*.time_horizon": 64,
    "behaviors.*.summary_freq": 10000,
    "env_settings.num_areas": 16,
}
"""PPO that learns Pendulum from GAIL alone."""
ASKING = {f"{HYPER}.demo_path": None, f"{HYPER}.teacher": "heuristic", f"{HYPER}.teacher_plays": False}
BALL = "configs/ppo/3DBall.yaml"

EXPERIMENTS: dict[str, list[Panel]] = {
    "ppo": [
        Panel(
            "3DBall: reward in training",
            BALL,
            {"per component": {}, "joint_ratio": {f"{HYPER}.joint_ratio": True}},
            env="3DBall",
            both={"behaviors.*.max_steps": 240000},
        ),
        Panel("CartPole-v1: reward in training", "configs/ppo/CartPole-v1.yaml", {"the shipped file": {}}),
    ],
    "poca": [
        Panel(
            "Three agents with a door each: an agent's own reward",
            "benchmarks/games/doors.yaml",
            {"MA-POCA": {}, "PPO": {"behaviors.*.trainer_type": "ppo"}},
            env="python:benchmarks.games.doors:doors",
        )
    ],
    "bc": [
        Panel(
            "3DBall: reward of the student",
            "configs/bc/3DBall.yaml",
            {"recordings": {f"{HYPER}.demo_path": DEMO}, "asks its teacher": ASKING},
            env="3DBall",
            both={"behaviors.*.max_steps": 60000, "behaviors.*.summary_freq": 4000},
        ),
        Panel(
            "PushBlock: reward of the student",
            "configs/bc/PushBlock.yaml",
            {
                "recordings": {
                    f"{HYPER}.demo_path": PUSHES,
                    f"{HYPER}.teacher": None,
                    f"{HYPER}.teacher_plays": None,
                },
                "asks its teacher": {},
            },
            env="PushBlock",
        ),
    ],
    "curiosity": [
        Panel(
            "A maze with one reward: reward in training",
            "benchmarks/games/maze.yaml",
            {"with curiosity": {}, "without": {f"{SIGNALS}.curiosity": None}},
            env="python:benchmarks.games.maze:maze",
            both={"behaviors.*.max_steps": 100000},
        )
    ],
    "rnd": [
        Panel(
            "MountainCar-v0: reward in training",
            "configs/ppo/MountainCar-v0.yaml",
            {"with RND": {}, "without": {f"{SIGNALS}.rnd": None}},
            both={"behaviors.*.max_steps": 300000},
        )
    ],
    "gail": [
        Panel(
            "3DBall: the reward that the agents never see",
            BALL,
            {
                "GAIL alone": {f"{SIGNALS}.gail": {"gamma": 0.99, "demo_path": DEMO}},
                "with actions": {
                    f"{SIGNALS}.gail": {"gamma": 0.99, "demo_path": DEMO, "use_actions": True},
                },
            },
            env="3DBall",
            both={f"{SIGNALS}.extrinsic": None, "behaviors.*.max_steps": 300000},
        ),
        Panel(
            "Pendulum-v1: the reward that the agents never see",
            "configs/sac/Pendulum-v1.yaml",
            {"with actions": {}},
            both=PENDULUM,
        ),
    ],
    "symmetry": [
        Panel(
            "3DBall: reward in training",
            BALL,
            {"mirrored": {"behaviors.*.mirror": "3DBall"}, "as it was": {}},
            env="3DBall",
            both={"behaviors.*.max_steps": 160000, "behaviors.*.summary_freq": 4000},
        )
    ],
    "distillation": [
        Panel(
            "3DBall: reward of the student",
            "configs/bc/3DBall.yaml",
            {f"{units} units": {**ASKING, "behaviors.*.network_settings.hidden_units": units} for units in (4, 8, 16)},
            env="3DBall",
            both={
                f"{HYPER}.teacher": "{results}/ppo-0-1-1/3DBall.onnx",
                "behaviors.*.network_settings.num_layers": 1,
                "behaviors.*.max_steps": 60000,
                "behaviors.*.summary_freq": 4000,
            },
        )
    ],
    "curriculum": [
        Panel(
            "A goal 20 steps away: share of episodes that find it",
            "examples/own_lessons.yaml",
            {"with lessons": {}, "without": {"environment_parameters": None}},
            evaluated="python:examples.own_lessons:Far",
            both={"behaviors.*.checkpoint_interval": 10000, "behaviors.*.keep_checkpoints": 0},
        )
    ],
}


def main() -> None:
    """Trains what is asked for, and writes its measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(EXPERIMENTS)} (default: all)")
    parser.add_argument("--results", type=Path, default=ROOT / "results", help="folder of the runs")
    options = parser.parse_args()
    for name in options.names or EXPERIMENTS:
        rows = [row for at, panel in enumerate(EXPERIMENTS[name]) for row in measured(name, at, panel, options.results)]
        with (CURVES / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerow(["panel", "group", "seed", "decisions", "value"])
            table.writerows(rows)


def measured(name: str, at: int, panel: Panel, results: Path) -> Iterator[tuple[str, str, int, int, float]]:
    """Yields the rows of a panel, the `at`th of its experiment; trains the runs that are not there."""
    for number, (group, changes) in enumerate(panel.groups.items(), 1):
        for seed in SEEDS:
            run = f"{name}-{at}-{number}-{seed}"
            settings = changed(ROOT / panel.config, {**changes, **panel.both}, results)
            train(run, settings, panel.env, seed, results)
            points = evaluations(run, panel.evaluated, results) if panel.evaluated else metric(run, panel.tag, results)
            for step, value in points:
                yield panel.title, group, seed, step, round(value, 4)


def changed(config: Path, changes: Mapping[str, Any], results: Path) -> dict[str, Any]:
    """Returns the settings of a file with changes; files that these name are made where they are not there."""
    settings = deepcopy(yaml.safe_load(config.read_text(encoding="utf-8")))
    for path, value in changes.items():
        *parents, key = path.replace("*", next(iter(settings["behaviors"]))).split(".")
        place = settings
        for parent in parents:
            place = place.setdefault(parent, {})
        if value is None:
            place.pop(key, None)
        else:
            place[key] = located(value, results)
    return settings


def located(value: Any, results: Path) -> Any:
    """Returns a value with the folder of results in its texts; makes recordings that it names."""
    if isinstance(value, dict):
        return {key: located(each, results) for key, each in value.items()}
    if not isinstance(value, str) or "{results}" not in value:
        return value
    file = value.format(results=results)
    if value in PREPARED and not Path(file).exists():
        for command in PREPARED[value]:
            palaestra(*command.format(file=file, results=results).split())
    return file


def train(run: str, settings: dict[str, Any], env: str | None, seed: int, results: Path) -> None:
    """Trains a run that is not there yet."""
    if (results / run / "metrics.jsonl").exists():
        return
    results.mkdir(parents=True, exist_ok=True)
    file = results / f"{run}.yaml"
    file.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    where = [] if env is None else [f"--env={env}"]
    palaestra("learn", str(file), *where, f"--run-id={run}", f"--results-dir={results}", f"--seed={seed}")


def palaestra(*words: str) -> str:
    """Runs a command of ours; returns what it prints."""
    print("palaestra", *words, flush=True)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "palaestra", *words]
    return subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True).stdout


def metric(run: str, tag: str, results: Path) -> Iterator[tuple[int, float]]:
    """Yields steps and values of a metric in training."""
    for line in (results / run / "metrics.jsonl").read_text(encoding="utf-8").splitlines():
        found = json.loads(line)
        if tag in found:
            yield found["step"], found[tag]


def evaluations(run: str, env: str, results: Path) -> Iterator[tuple[int, float]]:
    """Yields steps and mean rewards of the models of a run's checkpoints, over 200 episodes."""
    (folder,) = [path for path in (results / run).iterdir() if any(path.glob("*-[0-9]*.onnx"))]
    for model in sorted(folder.glob("*-[0-9]*.onnx"), key=lambda path: int(path.stem.rpartition("-")[2])):
        found = palaestra("evaluate", str(model), f"--env={env}", "--episodes=200", "--json")
        (behavior,) = json.loads(found).values()
        step = int(model.stem.rpartition("-")[2])
        yield round(step, -4), behavior["mean"]


if __name__ == "__main__":
    main()
