"""Measures collecting, updating and both together, and prints a table and, with --json, a file.

usage: python benchmarks/bench.py [--quick] [--threads N] [--device cuda] [--json FILE]
       python benchmarks/bench.py --env PushBlock --env FoodCollector [--areas 1024]: these alone, with random actions

Each figure is the median of several repetitions; small work is measured with one thread, wide work with one and with
all. Machines are noisy: compare figures of one run, or a run before and after a change, not those of two machines.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from palaestra.core.thread_waits import shorten_thread_waits

shorten_thread_waits()  # before torch is imported

import torch

import palaestra
from palaestra.data.rollout import Minibatch
from palaestra.envs.base import Env
from palaestra.runtime.collect.collector import Collector
from palaestra.runtime.collect.learner import Learner
from palaestra.runtime.doctor.examination import random_action
from palaestra.runtime.settings import BehaviorSettings, load
from palaestra.trainers.ppo import PPO

CONFIGS = Path(__file__).resolve().parent.parent / "configs" / "ppo"


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured number."""

    what: str
    work: str
    threads: int
    value: float
    unit: str


class Bench:
    """The measurements, on one device."""

    def __init__(self, device: str, repetitions: int, threads: list[int]) -> None:
        self.device = torch.device(device)
        self.repetitions = repetitions
        self.threads = threads

    def run(self) -> Iterator[Figure]:
        """Yields each figure once it is measured."""
        official = load(CONFIGS / "3DBall.yaml").settings.behaviors["3DBall"]
        wide = load(CONFIGS / "3DBall_4096.yaml").settings.behaviors["3DBall"]
        one = 1
        yield Figure("tick", "3DBall, 12 agents", one, self.tick(12, official, one) * 1e3, "ms")
        yield Figure("gradient step", "3DBall, 64 rows", one, self.gradient(64, official, one) * 1e3, "ms")
        rate = self.end_to_end("3DBall.yaml", 12, 120_000, one)
        yield Figure("end to end", "3DBall, 12 agents, official YAML", one, rate, "agent-steps/s")
        for threads in self.threads:
            tick = self.tick(4096, wide, threads)
            yield Figure("collect", "3DBall, 4,096 agents", threads, 4096 / tick, "agent-steps/s")
            yield Figure("gradient", "3DBall, 4,096 rows", threads, 4096 / self.gradient(4096, wide, threads), "rows/s")
            rate = self.end_to_end("3DBall_4096.yaml", 4096, 1_000_000, threads)
            yield Figure("end to end", "3DBall, 4,096 agents, 3DBall_4096.yaml", threads, rate, "agent-steps/s")
        if self.device.type == "cuda":
            tick = self.tick(65_536, wide, one)
            yield Figure("collect", "3DBall, 65,536 agents", one, 65_536 / tick, "agent-steps/s")

    def alone(self, names: list[str], areas: int) -> Iterator[Figure]:
        """Yields the speed of environments without a policy, on one thread."""
        torch.set_num_threads(1)
        for name in names:
            env = palaestra.make(f"builtin:{name}", areas=areas, device=str(self.device))
            rows = sum(int(step.acting.sum()) for step in env.reset(0).values())
            rate = rows / self.playing(env, 200)
            yield Figure("environment", f"{name}, {areas:,} areas, {rows:,} agents", 1, rate, "agent-steps/s")

    def playing(self, env: Env, ticks: int) -> float:
        """Returns the median seconds of a tick with random actions, without the time to draw them."""
        chance = torch.Generator().manual_seed(0)
        steps = env.reset(0)
        seconds = []
        for _ in range(ticks * max(5, self.repetitions)):
            actions = {name: random_action(env.behaviors[name].action, step, chance) for name, step in steps.items()}
            self._wait()
            start = time.perf_counter()
            steps = env.step(actions)
            self._wait()
            seconds.append(time.perf_counter() - start)
        return statistics.median(seconds)

    def tick(self, agents: int, settings: BehaviorSettings, threads: int) -> float:
        """Returns the seconds of a tick: environment, policy, checks and rollout together."""
        torch.set_num_threads(threads)
        env = palaestra.make("builtin:3DBall", areas=agents, device=str(self.device))
        collector = Collector(
            env, lambda name, spec: Learner(name, spec, settings, self.device, 0, False).collector, seed=0
        )
        ticks = max(settings.hyperparameters.buffer_size // agents - 1, 1)  # type: ignore[union-attr]

        def collect() -> None:
            collector.collect(ticks, lambda: False)
            for one in collector.collectors.values():
                assert one.buffer is not None
                one.buffer.take(collector.steps[one.name])
                one.meter.take()

        return self.median(collect, max(2000 // ticks, 3)) / ticks

    def gradient(self, rows: int, settings: BehaviorSettings, threads: int) -> float:
        """Returns the seconds of a gradient step, optimizer included."""
        torch.set_num_threads(threads)
        spec = palaestra.make("builtin:3DBall", areas=1).behaviors["3DBall"]
        trainer = PPO(spec, settings, self.device, 0)

        def normal(*shape: int) -> torch.Tensor:
            return torch.randn(*shape, device=self.device)

        nothing = torch.zeros(rows, 0, dtype=torch.int64, device=self.device)
        batch = Minibatch(
            (normal(rows, 8),),
            normal(rows, 2),
            nothing,
            normal(rows, 2),
            normal(rows),
            normal(rows, 1),
            normal(rows, 1),
            None,
        )
        coefficients = trainer.schedule(0)
        steps = max(200 * 64 // rows, 10)

        def learn() -> None:
            for _ in range(steps):
                trainer.gradient(batch, coefficients)
                trainer.optimizer.step()

        return self.median(learn, 5) / steps

    def end_to_end(self, config: str, agents: int, steps: int, threads: int) -> float:
        """Returns the agent-steps a second of a real run, without its first period, which warms up."""
        marks: list[tuple[float, int]] = []
        period = max(steps // 10, 1)
        with tempfile.TemporaryDirectory() as results:
            palaestra.train(
                CONFIGS / config,
                env="builtin:3DBall",
                num_areas=agents,
                threads=threads,
                device=str(self.device),
                seed=0,
                run_id="bench",
                results_dir=results,
                summary_freq=period,
                callbacks=[lambda summary: marks.append((summary.elapsed, summary.step)) or summary.step >= steps],
                quiet=True,
            )
        return (marks[-1][1] - marks[0][1]) / (marks[-1][0] - marks[0][0])

    def median(self, work: Callable[[], Any], repetitions: int) -> float:
        """Returns the median seconds of a call, including the device's work."""
        work()
        seconds = []
        for _ in range(max(repetitions, self.repetitions)):
            self._wait()
            start = time.perf_counter()
            work()
            self._wait()
            seconds.append(time.perf_counter() - start)
        return statistics.median(seconds)

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def machine() -> dict[str, str | int]:
    """Returns a description of the machine."""
    model = next(
        (line.split(":")[1].strip() for line in _cpuinfo() if line.startswith("model name")), platform.processor()
    )
    return {
        "processor": model,
        "cores": os.cpu_count() or 1,
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def _cpuinfo() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few repetitions")
    parser.add_argument("--threads", type=int, help="threads for wide work (default: one, then all cores)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument(
        "--env", action="append", metavar="NAME", help="this built-in environment alone; again for others"
    )
    parser.add_argument("--areas", type=int, default=1024, metavar="N", help="of --env (default: 1,024)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    options = parser.parse_args()
    cores = os.cpu_count() or 1
    bench = Bench(
        options.device, 3 if options.quick else 9, [options.threads] if options.threads else sorted({1, cores})
    )
    about = machine()
    print(", ".join(f"{key} {value}" for key, value in about.items()), file=sys.stderr)
    print(f"{'what':<15}{'work':<42}{'threads':>8}{'figure':>14}  unit")
    figures = []
    for figure in bench.alone(options.env, options.areas) if options.env else bench.run():
        figures.append(figure)
        number = f"{figure.value:,.0f}" if figure.value >= 100 else f"{figure.value:.3f}"
        print(f"{figure.what:<15}{figure.work:<42}{figure.threads:>8}{number:>14}  {figure.unit}", flush=True)
    if options.json:
        report = {"machine": about, "device": options.device, "figures": [asdict(figure) for figure in figures]}
        options.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
