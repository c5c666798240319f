"""Shared by the update benchmarks of large networks: shapes, the timed loop, and the printed line.

lstm: 128 numbers, actor and critic each a layer of 128 and an LSTM of 128 (`networks` 2), or one of them for both (1).
cnn: images of 3 x 84 x 84, the convolutions of Mnih et al. 2015 (https://doi.org/10.1038/nature14236) for both, 512
units. All have two continuous actions. A sequence is 64 decisions without an end.
sac: gradient steps with ML-Agents' settings for two games (`SOFT`), FoodCollector's through the simple encoder.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

NUMBERS, UNITS, STEPS, SLOTS = 128, 128, 64, 256
IMAGE, FEATURES, IMAGES = (3, 84, 84), 512, 1024
ACTIONS, EPOCHS, ROUNDS = 2, 2, 5


@dataclass(frozen=True, slots=True)
class Soft:
    """A game of the work `sac`."""

    obs: tuple[int, ...]
    actions: int  # continuous; Palaestra's FoodCollector has its branch of two choices besides
    units: int
    layers: int
    batch: int
    rate: float
    entropy_coef: float
    steps: int  # gradient steps of a round


SOFT = {
    "3DBall": Soft((8,), 2, 64, 2, 64, 3e-4, 0.5, 100),
    "FoodCollector": Soft((5, 40, 40), 3, 256, 1, 256, 3e-4, 0.05, 4),
}
GAMMA, TAU, STORED = 0.99, 0.005, 2048


def report(peer: str, learn: Callable[[], object], rows: int, *, rounds: int = ROUNDS, **settings: int | str) -> None:
    """Times `learn`, which passes `rows` rows through the optimizer (sac: as many steps), and prints the median; the
    first round warms up.

    One thread: CPU seconds, which other work on the machine disturbs less; several: those of the clock.
    """
    clock = time.process_time if settings["threads"] == 1 else time.perf_counter
    rates = []
    for _ in range(rounds):
        began = clock()
        learn()
        rates.append(rows / (clock() - began))
    print(
        json.dumps(
            {
                "peer": peer,
                **settings,
                "rows_per_s": round(statistics.median(rates[1:]), 1),
                "best": round(max(rates[1:]), 1),
            }
        )
    )
