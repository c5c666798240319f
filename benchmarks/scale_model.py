"""A small simulation of a training run: agent-steps/s and the bottleneck for any number of games, learners and
machines.

    python benchmarks/scale_model.py [--inputs benchmarks/scale.json]

It knows what a tick, a message, an update and an exchange of gradients cost, and who waits for whom; nothing else.
`make bench-scale` measures the costs on this machine, and how far predictions are from runs that it can make. Costs of
GPUs are assumed, not measured.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path

INPUTS = Path(__file__).with_name("scale.json")


@dataclass(frozen=True)
class Costs:
    """Seconds on one core, or one GPU, with a network of two layers of 128 units."""

    tick: float  # choosing actions and recording, whatever the number of agents
    agent: float  # the same for each agent
    message: float  # to and from a copy in another process
    overhead: float  # of a copy's own process in a tick, beside its step
    minibatch: float  # a gradient step, whatever its rows
    row: float  # the same for each row
    hand_over: float  # a decision, to a trainer in another process
    exchange: float  # of gradients between two ranks, in a gradient step


ONE_GPU = Costs(
    tick=6e-4, agent=2e-9, message=3e-5, overhead=1e-4, minibatch=2e-3, row=3.8e-8, hand_over=2e-8, exchange=1.5e-4
)
"""One GPU of a data center and its host. `tick`, `agent`, `minibatch` and `row` are fitted to 3DBall with 4,096, 65,536
and 524,288 agents on an H200 (2.1, 10.0 and 12.1 million agent-steps/s); the others are assumed.
"""


@dataclass(frozen=True)
class Workload:
    """An environment and how it is learned from."""

    name: str
    step: float  # seconds of a copy's tick; built in: of a tick's agent
    agents: int  # in a copy; built in: in a rank
    rollout: int
    batch: int
    epochs: int
    network: float = 1.0  # work of a pass, in passes of two layers of 128 units
    core: float = 1.0  # share of a core that a step keeps busy
    built_in: bool = False


@dataclass(frozen=True)
class Place:
    """The copies, cores and learners that a workload gets."""

    copies: int = 1  # of all ranks
    cores: float = math.inf  # for copies, of all machines
    ranks: int = 1
    threaded: bool = False
    gpu: bool = False


@dataclass(frozen=True)
class Prediction:
    """Agent-steps/s, and the shares of the time."""

    rate: float
    shares: dict[str, float]

    @property
    def bottleneck(self) -> str:
        """Returns the largest part."""
        return max(self.shares, key=lambda part: self.shares[part])


def collecting(costs: Costs, work: Workload, copies: int, cores: float, decisions: int) -> tuple[float, float]:
    """Returns the seconds in which one process waits for its environment, and those in which it chooses and records."""
    agent = costs.agent * work.network
    if work.built_in:
        ticks = math.ceil(decisions / work.agents)
        return ticks * work.agents * work.step, ticks * (costs.tick + work.agents * agent)
    alone = work.step + costs.overhead
    # cores that copies would use if they never waited
    demand = copies * (work.core * work.step + costs.overhead) / alone
    step = alone * max(1.0, demand / cores)
    ready = [0.0] * copies
    now = waiting = choosing = 0.0
    done = 0
    while done < decisions:
        if ready[0] > now:
            waiting = waiting + ready[0] - now
            now = ready[0]
        served = 0
        while ready and ready[0] <= now:
            heapq.heappop(ready)
            served += 1
        cost = costs.tick + served * (costs.message + work.agents * agent)
        now = now + cost
        choosing = choosing + cost
        done = done + served * work.agents
        for _ in range(served):
            heapq.heappush(ready, now + step)
    return waiting * decisions / done, choosing * decisions / done


def learning(costs: Costs, work: Workload, ranks: int) -> tuple[float, float]:
    """Returns the seconds of an update on each rank: its own work, and exchanging gradients."""
    steps = work.epochs * max(1, work.rollout // work.batch)
    own = costs.minibatch + costs.row * work.network * work.batch / ranks
    return steps * own, steps * costs.exchange * math.log2(ranks)


def predict(costs: Costs, work: Workload, place: Place) -> Prediction:
    """Returns the speed of a run."""
    copies = max(1, place.copies // place.ranks)
    environment, inference = collecting(
        costs, work, copies, place.cores / place.ranks, math.ceil(work.rollout / place.ranks)
    )
    own, exchange = learning(costs, work, place.ranks)
    if place.threaded:
        hand_over = costs.hand_over * work.rollout / place.ranks
        collected = environment + inference + hand_over
        parts = {
            "environment": environment,
            "inference": inference + hand_over,
            "learning": max(0.0, own + exchange - collected),
        }
    else:
        parts = {"environment": environment, "inference": inference, "learning": own, "exchange": exchange}
    total = sum(parts.values())
    return Prediction(work.rollout / total, {part: seconds / total for part, seconds in parts.items()})


GAME = Workload("Unity game, 10 ms, 12 agents", 0.010, 12, 24_000, 512, 3)
HEAVY = Workload("Unity game, 40 ms, 8 agents with cameras", 0.040, 8, 16_000, 512, 3, network=150)
ROBOT = Workload("MuJoCo, 0.3 ms", 0.0003, 1, 8_192, 512, 4, network=4)
BALLS = Workload("built in, 4,096 agents a rank", 2e-7, 4096, 65_536, 4096, 2, built_in=True)
CPU_ROWS = (
    (GAME, Place(1, 1)),
    (GAME, Place(16, 16)),
    (GAME, Place(64, 64, threaded=True)),
    (GAME, Place(200, 200, threaded=True)),
    (GAME, Place(1000, 1000, threaded=True)),
    (GAME, Place(1000, 1000, ranks=8)),
    (HEAVY, Place(16, 16, threaded=True)),
    (ROBOT, Place(16, 16, threaded=True)),
    (BALLS, Place()),
    (replace(BALLS, rollout=131_072, batch=8192), Place(ranks=2)),
)
"""Measured costs, one core a rank."""
WIDE = Workload("built in, 65,536 agents a rank", 5e-9, 65_536, 2_097_152, 65_536, 2, built_in=True)
GPU_ROWS = (
    (replace(GAME, rollout=240_000, batch=8192), Place(1000, 1000, ranks=1, gpu=True)),
    (replace(GAME, rollout=240_000, batch=8192), Place(1000, 1000, ranks=8, gpu=True)),
    (replace(HEAVY, rollout=128_000, batch=8192), Place(200, 200, ranks=1, gpu=True)),
    (replace(HEAVY, rollout=128_000, batch=8192), Place(1000, 1000, ranks=1, gpu=True)),
    (replace(HEAVY, rollout=128_000, batch=8192), Place(1000, 1000, ranks=8, gpu=True)),
    (replace(HEAVY, rollout=128_000, batch=8192), Place(1000, 1000, ranks=64, gpu=True)),
    (WIDE, Place(gpu=True)),
    (replace(WIDE, rollout=8 * WIDE.rollout, batch=8 * WIDE.batch), Place(ranks=8, gpu=True)),
    (replace(WIDE, rollout=64 * WIDE.rollout, batch=64 * WIDE.batch), Place(ranks=64, gpu=True)),
)
"""Assumed costs, one GPU a rank."""


def table(costs: Costs) -> str:
    """Returns the predictions as a table in Markdown."""
    lines = ["| workload | games | learners | agent-steps/s | bottleneck |", "|---|---|---|---|---|"]
    for work, place in (*CPU_ROWS, *GPU_ROWS):
        found = predict(ONE_GPU if place.gpu else costs, work, place)
        unit = "GPU" if place.gpu else "core"
        learners = f"{place.ranks} {unit}{'s' if place.ranks > 1 else ''}{', threaded' if place.threaded else ''}"
        games = "-" if work.built_in else f"{place.copies:,}"
        rate = float(f"{found.rate:.2g}")
        lines.append(
            f"| {work.name} | {games} | {learners} | {rate:,.0f} | {found.bottleneck} "
            f"{found.shares[found.bottleneck]:.0%} |"
        )
    return "\n".join(lines)


def load(file: Path) -> Costs:
    """Returns the measured costs of a file."""
    return Costs(**json.loads(file.read_text())["costs"])


def main() -> None:
    """Prints the costs, and the predictions made from them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=Path, default=INPUTS)
    options = parser.parse_args()
    costs = load(options.inputs)
    print(json.dumps({"measured": asdict(costs), "one GPU": asdict(ONE_GPU)}, indent=1))
    print(table(costs))


if __name__ == "__main__":
    main()
