"""Measures the inputs of `scale_model.py` on this machine, and how far its predictions are from runs. Writes
`scale.json`.

    python benchmarks/scale_inputs.py [--out benchmarks/scale.json] [--repeat 3]

Each cost comes from what a run says of its own times (`times` in metrics.jsonl). Runs that a prediction is compared
with are others than those that a cost was taken from. Repetitions are interleaved, and the fastest rollout of all
counts: whatever else the machine does only slows one down.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from scale_model import INPUTS, Costs, Place, Workload, predict, table

HERE = Path(__file__).resolve().parent
CONFIGS = HERE.parent / "configs" / "ppo"
COPY_AREAS = 4


class Sleeper(gymnasium.Env[Any, Any]):
    """Sleeps for `ms` milliseconds a step."""

    observation_space = gymnasium.spaces.Box(-1, 1, (8,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self, ms: float = 0.0) -> None:
        self.ms = ms
        self.count = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode of 200 steps."""
        super().reset(seed=seed)
        self.count = 0
        return np.zeros(8, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Sleeps."""
        time.sleep(self.ms / 1000)
        self.count += 1
        return np.full(8, self.count / 200, np.float32), 0.0, False, self.count >= 200, {}


@dataclass(frozen=True)
class Run:
    """A run that is measured between its first and its last summary."""

    config: str
    arguments: tuple[str, ...]
    agents: int  # in a tick of a rank, or of a copy
    steps: int
    every: int  # decisions of a summary: one rollout
    block: str = "behaviors.3DBall"

    def measure(self) -> list[dict[str, float]]:
        """Runs it. Returns, for each rollout but the first, agent-steps/s, and seconds of each part of rank 0 for a
        decision.
        """
        with tempfile.TemporaryDirectory() as folder:
            pace = {"max_steps": self.steps, "summary_freq": self.every, "checkpoint_interval": 100_000_000}
            command = [
                sys.executable,
                "-m",
                "palaestra",
                "learn",
                self.config,
                "--run-id=run",
                f"--results-dir={folder}",
                "--seed=1",
            ]
            sets = [word for name, value in pace.items() for word in ("--set", f"{self.block}.{name}={value}")]
            environment = {**os.environ, "OMP_NUM_THREADS": "1"}
            words = [*command, "--torch-threads=1", *self.arguments, *sets]
            ended = subprocess.run(words, cwd=HERE, env=environment, capture_output=True, text=True, check=False)
            if ended.returncode:
                sys.exit(f"{' '.join(words)}\n{ended.stdout}{ended.stderr}")
            lines = [json.loads(line) for line in (Path(folder) / "run/metrics.jsonl").read_text().splitlines()]
        return [of_rollout(before, line) for before, line in pairwise(lines)]


def of_rollout(before: dict[str, Any], line: dict[str, Any]) -> dict[str, float]:
    """Returns what two summaries say of the time between them."""
    decisions = line["step"] - before["step"]
    own = line["times"]["ranks"][0]
    parts = {part: seconds / decisions for part, seconds in own.items() if isinstance(seconds, float)}
    busy = sum(own.get("copies", {}).values()) / decisions
    return {**parts, "busy": busy, "rate": decisions / (line["elapsed"] - before["elapsed"])}


SMALL = Run(str(CONFIGS / "3DBall.yaml"), ("--env=3DBall",), 12, 48_000, 12_000)
WIDE = Run(str(CONFIGS / "3DBall_4096.yaml"), ("--env=3DBall",), 4096, 65_536 * 4, 65_536)
SMALL_WORK = Workload("3DBall, 12 agents", 0.0, 12, 12_000, 64, 3, built_in=True)
WIDE_WORK = Workload("3DBall, 4,096 agents", 0.0, 4096, 65_536, 4096, 2, built_in=True)
ROLLOUT = 1600
SLEEPING_WORK = Workload("sleeping copies", 0.0, COPY_AREAS, ROLLOUT, 400, 1, core=0.0)


def sleeping(copies: int, ms: float, folder: Path) -> Run:
    """Returns a run with copies of four areas, each of which sleeps."""
    config = folder / "sleeping.json"
    hyper = {"batch_size": 400, "buffer_size": ROLLOUT, "num_epoch": 1}
    config.write_text(json.dumps({"default_settings": {"trainer_type": "ppo", "hyperparameters": hyper}}))
    words = ("--env=python:scale_inputs:Sleeper", f"--num-areas={COPY_AREAS * copies}", f"--num-envs={copies}")
    options = ("--set", f"env_settings.env_options.ms={ms}")
    return Run(
        str(config), (*words, *options), COPY_AREAS, ROLLOUT * (3 if copies < 4 else 8), ROLLOUT, "default_settings"
    )


def with_flags(run: Run, *flags: str) -> Run:
    """Returns the run with further flags."""
    return replace(run, arguments=(*run.arguments, *flags))


def costs_of(
    small: dict[str, float],
    wide: dict[str, float],
    threaded: dict[str, float],
    two: dict[str, float],
    busy: float,
    message: float,
) -> Costs:
    """Returns the costs, by what two sizes of the same work take; `busy`: seconds of a copy's tick beside its sleep."""
    at_12 = 12 * small["inference"]
    at_4096 = 4096 * wide["inference"]
    agent = (at_4096 - at_12) / (4096 - 12)
    of_64 = small["learning"] * 64 / 3
    of_4096 = wide["learning"] * 4096 / 2
    row = (of_4096 - of_64) / (4096 - 64)
    exchange = two.get("exchange with other ranks", 0.0) * 64 / 3
    return Costs(
        tick=at_12 - 12 * agent,
        agent=agent,
        message=message,
        overhead=busy,
        minibatch=of_64 - 64 * row,
        row=row,
        hand_over=threaded["learning"],
        exchange=exchange,
    )


def message_seconds(copies: int = 8, ticks: int = 300) -> float:
    """Returns the processor's seconds that this process needs for a message to a copy and its answer."""
    import torch

    from palaestra.core.timestep import Action
    from palaestra.envs.unity.options import UnityOptions
    from palaestra.runtime.environments.make import make_env
    from palaestra.runtime.environments.unity_games import GameSettings

    torch.set_num_threads(1)
    games = GameSettings(UnityOptions(copies=copies))
    env = make_env("python:scale_inputs:Sleeper", areas=COPY_AREAS * copies, options={"ms": 2.0}, games=games)
    ((name, table),) = env.reset(0).items()
    actions = {name: Action(torch.zeros(len(table.acting), 2), torch.zeros(len(table.acting), 0, dtype=torch.int64))}
    start = time.process_time()
    answers = 0.0
    for _ in range(ticks):
        answers += float(env.step(actions)[name].acting.sum()) / COPY_AREAS
    seconds = time.process_time() - start
    env.close()
    return seconds / answers


def measure(repeat: int) -> Iterator[dict[str, Any]]:
    """Yields, after each repetition, costs, and predictions beside measurements."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        runs = {
            "small": SMALL,
            "wide": WIDE,
            "small threaded": with_flags(SMALL, "--set", "behaviors.3DBall.threaded=true"),
            "small two ranks": with_flags(SMALL, "--processes=2"),
            "wide two ranks": with_flags(WIDE, "--processes=2"),
            **{f"copies {n}": sleeping(n, 2.0, folder) for n in (1, 2, 16)},
        }
        kept: dict[str, list[dict[str, float]]] = {name: [] for name in runs}
        loads = list[float]()
        messages = list[float]()
        for number in range(1, repeat + 1):
            for name, run in runs.items():
                loads.append(os.getloadavg()[0])
                kept[name] += run.measure()
                print(
                    f"{name:>16}: {max(one['rate'] for one in kept[name]):,.0f} agent-steps/s (load {loads[-1]:.1f})",
                    flush=True,
                )
            messages.append(message_seconds())
            yield evaluate({name: fastest(every) for name, every in kept.items()}, min(messages), loads, number)


def evaluate(found: dict[str, dict[str, float]], message: float, loads: list[float], repeat: int) -> dict[str, Any]:
    """Returns costs, and predictions beside measurements."""
    cores = os.cpu_count() or 1
    beside = max(1.0, cores - 1.0)  # for copies: one is the run's own
    step = COPY_AREAS * 0.002  # areas of a copy sleep one after another
    busy = max(0.0, COPY_AREAS * found["copies 2"]["busy"] - step)
    costs = costs_of(found["small"], found["wide"], found["small threaded"], found["small two ranks"], busy, message)
    small, wide = (
        replace(work, step=found[name]["environment"]) for name, work in (("small", SMALL_WORK), ("wide", WIDE_WORK))
    )
    alone = replace(SLEEPING_WORK, step=0.002, built_in=True)  # a single copy is in the run's process
    predicted = {
        "3DBall, 12 agents, threaded": (predict(costs, small, Place(threaded=True)), "small threaded"),
        "3DBall, 4,096 agents, two ranks": (
            predict(costs, replace(wide, agents=2048), Place(ranks=2)),
            "wide two ranks",
        ),
        "no copies, sleeping": (predict(costs, alone, Place()), "copies 1"),
        **{
            f"{n} sleeping copies": (predict(costs, replace(SLEEPING_WORK, step=step), Place(n, beside)), f"copies {n}")
            for n in (2, 16)
        },
    }
    compared = {
        name: {
            "predicted": round(one.rate),
            "measured": round(found[key]["rate"]),
            "error": round(one.rate / found[key]["rate"] - 1, 3),
        }
        for name, (one, key) in predicted.items()
    }
    facts = {
        "cores": cores,
        "processor": processor(),
        "python": platform.python_version(),
        "load": [round(min(loads), 1), round(max(loads), 1)],
    }
    return {
        "date": time.strftime("%Y-%m-%d"),
        "machine": facts,
        "repeat": repeat,
        "costs": asdict(costs),
        "validation": compared,
    }


def fastest(every: list[dict[str, float]]) -> dict[str, float]:
    """Returns the highest rate, and the least time of each part."""
    parts = dict.fromkeys(part for one in every for part in one)
    return {part: (max if part == "rate" else min)(one.get(part, 0.0) for one in every) for part in parts}


def processor() -> str:
    """Returns the name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.processor()
    )


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=INPUTS)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    for found in measure(options.repeat):
        options.out.write_text(json.dumps(found, indent=1) + "\n")
        print(json.dumps(found["validation"], indent=1))
        print(table(Costs(**found["costs"])), flush=True)


if __name__ == "__main__":
    main()
