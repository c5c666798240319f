"""Slow control: a drone with two rotors flies from mark to mark. Usage: as examples/sdk_roll.py.

`tick_ms` is how long the game takes for a tick, as one does whose physics or pictures are dear.
"""

from __future__ import annotations

import math
import time

from palaestra import sdk

TURNS, STEP, GRAVITY, LIFT, SPIN, DRAG, SIDE, NEAR = 300, 0.05, 2.0, 2.0, 12.0, 0.2, 2.0, 0.25


class Drone(sdk.Agent):
    """Agent that sets both rotors; a mark reached earns 1, nearness a little at each turn, and leaving the field -1."""

    behavior = sdk.Behavior("Drone", observations=8, continuous=2)
    decision_period = 1
    max_step = TURNS

    def on_episode_begin(self) -> None:
        self.x = self.y = self.speed_x = self.speed_y = self.turn_rate = 0.0
        self.angle = self.academy.random.uniform(-0.5, 0.5)
        self.place_mark()

    def place_mark(self) -> None:
        self.mark = [self.academy.random.uniform(-SIDE / 2, SIDE / 2) for _ in range(2)]

    def collect_observations(self, sensor: sdk.VectorSensor) -> None:
        sensor.add(self.mark[0] - self.x, self.mark[1] - self.y, self.speed_x, self.speed_y)
        sensor.add(math.sin(self.angle), math.cos(self.angle), self.turn_rate / 3, max(abs(self.x), abs(self.y)) / SIDE)

    def on_action_received(self, actions: sdk.Actions) -> None:
        left, right = (1 + push for push in actions.continuous)  # 1 each carries its weight
        lift = LIFT * (left + right) / 2
        self.turn_rate += STEP * (SPIN * (right - left) / 2 - self.turn_rate)
        self.angle += STEP * self.turn_rate
        self.speed_x += STEP * (-lift * math.sin(self.angle) - DRAG * self.speed_x)
        self.speed_y += STEP * (lift * math.cos(self.angle) - GRAVITY - DRAG * self.speed_y)
        self.x += STEP * self.speed_x
        self.y += STEP * self.speed_y
        distance = math.dist((self.x, self.y), self.mark)
        self.add_reward(0.02 * (1 - distance))
        if distance < NEAR:
            self.add_reward(1)
            self.place_mark()
        if max(abs(self.x), abs(self.y)) > SIDE:
            self.add_reward(-1)
            self.end_episode()


@sdk.game
def drone(academy: sdk.Academy, agents: int = 4, tick_ms: float = 0.0) -> None:
    """Drones that fly from mark to mark."""
    for _ in range(agents):
        academy.add(Drone())
    academy.on_step(lambda: time.sleep(tick_ms / 1000))


if __name__ == "__main__":
    drone.play()
