"""Hidden goal: a boat in fog looks for a buoy whose bell it hears from about where it is. Usage: as
examples/sdk_roll.py.

With the option `state`, a second sensor, `truth`, tells where the buoy is: for a critic that may know.
"""

from __future__ import annotations

import math

from palaestra import sdk

STRIDE, REACH, TURNS, COST = 0.1, 0.15, 80, 0.01
ASTRAY = 1.5  # radians: standard deviation of what is heard
WAYS = 8


class Boat(sdk.Agent):
    """Agent that sails in eight directions; a decision costs 0.01, the buoy pays 1."""

    behavior = sdk.Behavior("Fog", observations=5, branches=WAYS)
    decision_period = 1
    max_step = TURNS

    def __init__(self, told: bool) -> None:
        self.told = told

    def initialize(self) -> None:
        self.truth = self.add_sensor(sdk.VectorSensor(2, "truth")) if self.told else None

    def on_episode_begin(self) -> None:
        random = self.academy.random
        self.turn = 0
        self.at, self.buoy = ([random.uniform(-1, 1) for _ in range(2)] for _ in range(2))

    @property
    def off(self) -> list[float]:
        """The buoy as seen from the boat."""
        return [there - here for there, here in zip(self.buoy, self.at, strict=True)]

    def collect_observations(self, sensor: sdk.VectorSensor) -> None:
        x, y = self.off
        heard = math.atan2(y, x) + self.academy.random.gauss(0, ASTRAY)
        sensor.add(*self.at, self.turn / TURNS, math.cos(heard), math.sin(heard))
        if self.truth is not None:
            self.truth.add(x, y)

    def on_action_received(self, actions: sdk.Actions) -> None:
        way = 2 * math.pi * actions.discrete[0] / WAYS
        self.turn += 1
        self.at = [
            max(-1.0, min(1.0, at + STRIDE * step))
            for at, step in zip(self.at, (math.cos(way), math.sin(way)), strict=True)
        ]
        self.add_reward(-COST)
        if math.hypot(*self.off) < REACH:
            self.add_reward(1.0)
            self.end_episode()

    def heuristic(self, actions: sdk.Actions) -> None:
        x, y = self.off
        actions.discrete[0] = round(math.atan2(y, x) / (2 * math.pi) * WAYS) % WAYS


@sdk.game
def fog(academy: sdk.Academy, agents: int = 32, state: bool = False) -> None:
    """Boats that look for buoys, each on a sea of its own."""
    for _ in range(agents):
        academy.add(Boat(state))


if __name__ == "__main__":
    fog.play()
