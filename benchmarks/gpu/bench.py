"""Measures a GPU within ten minutes, and writes a report: collecting, end to end, seconds to a reward of 99, memory,
and a profile.

usage: python benchmarks/gpu/bench.py [--out FILE]

Without a device it measures the CPU at a small size, so that the script itself is known to work.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import torch
from report import MINUTES, ROOT, heading, table, write

import palaestra
from palaestra.runtime.collect.collector import Collector
from palaestra.runtime.collect.learner import Learner
from palaestra.runtime.environments.make import make_env
from palaestra.runtime.settings import RunSettings, load

CONFIGS = ROOT / "configs"
ON_GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda", 0) if ON_GPU else torch.device("cpu")
SECONDS = 20.0 if ON_GPU else 2.0
"""Seconds for which a run is measured end to end, after its first summary."""
GOAL = 99.0
PATIENCE = 120.0 if ON_GPU else 15.0
"""Reward to reach, and the time limit for it in seconds."""
TICKS = 32
"""Decisions of a slot in a rollout."""


@dataclass
class Work:
    """Measurements of one environment at one size; None for those not taken."""

    env: str
    config: str
    areas: int  # on a GPU
    small: int  # areas without one
    agents: int = 0
    collecting: float | None = None  # agent-steps a second
    end_to_end: float | None = None  # agent-steps a second
    memory: float | None = None  # GiB
    notes: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Returns the number of areas on this device."""
        return self.areas if ON_GPU else self.small

    def settings(self) -> RunSettings:
        """Returns the environment's settings, with rollouts and minibatches for this number of agents."""
        loaded = load(CONFIGS / self.config).settings
        name = next(iter(loaded.behaviors))
        rows = TICKS * self.agents
        batch = min(max(rows // 8, 64), 2**20)
        return load(
            CONFIGS / self.config,
            sets=[f"behaviors.{name}.hyperparameters.{key}" for key in (f"buffer_size={rows}", f"batch_size={batch}")],
        ).settings


WORKS = [
    Work("3DBall", "ppo/3DBall_4096.yaml", 4096, 64),
    Work("3DBall", "ppo/3DBall_4096.yaml", 65_536, 128),
    Work("3DBall", "ppo/3DBall_4096.yaml", 524_288, 256),
    Work("FoodCollector", "ppo/FoodCollector.yaml", 1024, 4),
    Work("SoccerTwos", "poca/SoccerTwos.yaml", 2048, 8),
    Work("GridWorld", "ppo/GridWorld.yaml", 4096, 8),
]


class Report:
    """Collects measurements and writes them as Markdown, also when the time runs out."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.start = time.monotonic()
        self.works = WORKS
        self.goal = "not measured"
        self.profile = ""
        self.late = False

    def write(self) -> None:
        """Writes the report with everything measured so far."""
        rows = [
            (
                work.env,
                f"{work.agents or '?':,}" if work.agents else "?",
                *map(figure, (work.collecting, work.end_to_end)),
                "" if work.memory is None else f"{work.memory:.2f}",
                "; ".join(work.notes),
            )
            for work in self.works
        ]
        late = ["", f"**Stopped after {MINUTES:g} minutes: what is missing was not measured.**"] if self.late else []
        memory = "device memory (GiB)" if ON_GPU else "memory of the process (GiB)"
        head = (
            "environment",
            "agents",
            "collecting (agent-steps/s)",
            "collecting and learning (agent-steps/s)",
            memory,
            "",
        )
        title = heading("Benchmark of a GPU", time.monotonic() - self.start)
        goal = ["", f"3DBall, {work_agents(self.works[0])} agents, to a mean reward of {GOAL:g}: {self.goal}"]
        write(self.file, [title, *late, "", "## Throughput", "", *table(head, rows), *goal, *self.profile.splitlines()])


def work_agents(work: Work) -> str:
    return f"{work.size:,}"


def figure(rate: float | None) -> str:
    return "" if rate is None else f"{rate:,.0f}"


def collecting(work: Work) -> None:
    """Measures environment, policy, checks and rollout together, as the median of several rollouts."""
    env = make_env(f"builtin:{work.env}", areas=work.size, device=str(DEVICE))
    work.agents = sum(int(step.acting.sum()) for step in env.reset(0).values())
    collector = make_collector(env, work.settings())
    rates = []
    for _ in range(5):
        wait()
        start = time.perf_counter()
        before = decisions(collector)
        while not any(one.full for one in collector.collectors.values()):
            collector.advance(TICKS, lambda: False)
            if time.perf_counter() - start > SECONDS:
                break
        wait()
        rates.append((decisions(collector) - before) / (time.perf_counter() - start))
        empty(collector)
    work.collecting = statistics.median(rates[1:])
    env.close()


def make_collector(env: Any, settings: RunSettings) -> Collector:
    block = next(iter(settings.behaviors.values()))
    return Collector(env, lambda name, spec: Learner(name, spec, block, DEVICE, 0, False).collector, seed=0)


def decisions(collector: Collector) -> int:
    return sum(one.decisions for one in collector.collectors.values())


def empty(collector: Collector) -> None:
    """Drops the collected rollouts, so that collecting starts with empty buffers."""
    for one in collector.collectors.values():
        if one.buffer is not None:
            one.buffer.take(collector.steps[one.name])
        one.meter.take()


def end_to_end(work: Work) -> None:
    """Measures a real run without its first summary, which warms up. Memory is the maximum that it used."""
    marks: list[tuple[float, int]] = []

    def note(summary: Any) -> bool:
        marks.append((summary.elapsed, summary.step))
        return len(marks) > 2 and marks[-1][0] - marks[0][0] > SECONDS

    if ON_GPU:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(DEVICE)
    train(work, note, summary_freq=TICKS * work.agents)
    if ON_GPU:
        free, total = torch.cuda.mem_get_info(DEVICE)
        reserved = torch.cuda.memory_reserved(DEVICE)
        work.memory = (torch.cuda.max_memory_reserved(DEVICE) - reserved + total - free) / 2**30
    else:
        work.memory = psutil.Process().memory_info().rss / 2**30
    work.end_to_end = (marks[-1][1] - marks[0][1]) / (marks[-1][0] - marks[0][0])


def to_goal(work: Work) -> str:
    """Returns the seconds until a summary's mean reward reaches the goal."""
    reached: list[float] = []
    last: list[float] = []

    def note(summary: Any) -> bool:
        last.append(summary.mean)
        if summary.mean >= GOAL:
            reached.append(summary.elapsed)
        return bool(reached) or summary.elapsed > PATIENCE

    train(work, note, own_batches=True)
    return (
        f"{reached[0]:.1f} s"
        if reached
        else f"not within {PATIENCE:g} s (last mean reward {last[-1] if last else float('nan'):.1f})"
    )


def train(
    work: Work, note: Callable[[Any], bool], summary_freq: int | None = None, *, own_batches: bool = False
) -> None:
    """Runs a training that ends when `note` returns True; `own_batches` keeps the sizes of its YAML."""
    settings = load(CONFIGS / work.config).settings if own_batches else work.settings()
    tree = settings.model_dump(exclude_unset=True)
    for block in tree["behaviors"].values():
        # beside collecting and learning, a checkpoint a minute
        block["max_steps"] = block["checkpoint_interval"] = 10**12
        if summary_freq:
            block["summary_freq"] = summary_freq
    with tempfile.TemporaryDirectory() as results:
        palaestra.train(
            tree,
            env=f"builtin:{work.env}",
            num_areas=work.size,
            device=str(DEVICE),
            seed=0,
            run_id="bench",
            results_dir=results,
            callbacks=[note],
            quiet=True,
        )


def profile(work: Work) -> str:
    """Returns the most expensive operations of a rollout and its update."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as profiled

    env = make_env(f"builtin:{work.env}", areas=work.size, device=str(DEVICE))
    made: dict[str, Learner] = {}

    def join(name: str, spec: Any) -> Any:
        made[name] = Learner(name, spec, next(iter(work.settings().behaviors.values())), DEVICE, 0, False)
        return made[name].collector

    collector = Collector(env, join, seed=0)

    def once() -> None:
        rollouts: dict[str, Any] = {}
        while not rollouts:
            rollouts = dict(collector.collect(TICKS, lambda: False))
        for name, rollout in rollouts.items():
            made[name].trainer.update(rollout, made[name].step)

    once()  # compiles
    with profiled(
        activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if ON_GPU else [])], acc_events=True
    ) as found:
        once()
        wait()
    env.close()
    by = "self_device_time_total" if ON_GPU else "self_cpu_time_total"
    lines = found.key_averages().table(sort_by=by, row_limit=15, max_name_column_width=60)
    return (
        f"\n## Where the time of the slowest goes: {work.env}, {work.agents:,} agents, one rollout and its "
        f"update\n\n```\n{lines}\n```"
    )


def wait() -> None:
    """Waits until the device is idle."""
    if ON_GPU:
        torch.cuda.synchronize(DEVICE)


def measurements(report: Report) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yields the name and function of each measurement, the most important first, since the time may run out."""
    for work in report.works:
        yield f"{work.env}, {work.size:,} areas: collecting", lambda work=work: collecting(work)
        yield f"{work.env}, {work.size:,} areas: end to end", lambda work=work: end_to_end(work)

    def reach() -> None:
        report.goal = to_goal(report.works[0])

    def look() -> None:
        measured = [work for work in report.works if work.end_to_end]
        report.profile = profile(min(measured, key=lambda work: work.end_to_end or 0.0))

    yield f"3DBall to a reward of {GOAL:g}", reach
    yield "profile of the slowest", look


def main() -> int:
    """Runs all measurements. Returns 1 if something could not be measured."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\nusage")[0] if __doc__ else None)
    parser.add_argument(
        "--out", type=Path, default=Path("results/bench-gpu.md"), metavar="FILE", help="report (default: %(default)s)"
    )
    report = Report(parser.parse_args().out)
    failed: list[str] = []

    def stop() -> None:
        report.late = True
        report.write()
        os._exit(1)

    clock = threading.Timer(60 * MINUTES - 5, stop)
    clock.daemon = True
    clock.start()
    for name, measure in measurements(report):
        print(f"{name} ...", flush=True)
        try:
            measure()
        except Exception as error:  # one that is too large for a device must not cost the others
            failed.append(name)
            note = f"{name.rpartition(': ')[2]}: {type(error).__name__}: {error}".splitlines()[0]
            print(f"  {note}", flush=True)
            next(
                (work for work in report.works if name.startswith(f"{work.env}, {work.size:,} areas")), report.works[0]
            ).notes.append(note)
    clock.cancel()
    report.write()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
