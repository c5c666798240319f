"""A ball on a rail rolls to a flag: a game in Python, written as one writes it in Unity.

palaestra learn configs/sdk/roll.yaml --env python:examples.sdk_roll:roll --run-id roll      in one process
palaestra learn configs/sdk/roll.yaml --env examples/sdk_roll.py --run-id roll               as a process of its own
python examples/sdk_roll.py                                                                  alone: by its heuristic
"""

from __future__ import annotations

import sys

import numpy as np

from palaestra import sdk

RAIL = 5.0


class Roller(sdk.Agent):
    """Pushes itself left or right; earns most where it rests at the flag."""

    behavior = sdk.Behavior("Roll", observations=3, continuous=1)
    decision_period = 2
    max_step = 200

    def __init__(self, academy: sdk.Academy) -> None:
        self.area = academy
        self.at = self.speed = self.push = self.flag = 0.0

    def on_episode_begin(self) -> None:
        """Starts anywhere on the rail, at rest."""
        self.at = self.area.random.uniform(-RAIL, RAIL)
        self.speed = 0.0
        self.push = 0.0
        self.flag = self.area.random.uniform(-RAIL / 2, RAIL / 2)

    def collect_observations(self, sensor: sdk.VectorSensor) -> None:
        """Adds three numbers, as its behavior declares."""
        sensor.add(self.at / RAIL, self.flag / RAIL, self.speed)

    def on_action_received(self, actions: sdk.Actions) -> None:
        """Pushes the ball, on every step of the academy."""
        self.push = actions.continuous[0]

    def heuristic(self, actions: sdk.Actions) -> None:
        """Acts by a rule to compare with."""
        actions.continuous[0] = max(-1.0, min(1.0, self.flag - self.at - 2 * self.speed))

    def roll(self, drag: float) -> None:
        """Moves the ball by the world's physics, and rewards it."""
        self.speed += 0.1 * self.push - drag * self.speed
        self.at += self.speed
        self.add_reward(0.01 * (1 - abs(self.at - self.flag)))
        if abs(self.at) > RAIL:
            self.add_reward(-1.0)
            self.area.stats_recorder.add("Roll/Fell", 1.0, sdk.StatAggregationMethod.SUM)
            self.end_episode()


@sdk.game(parameters={"drag": 0.1})
def roll(academy: sdk.Academy, balls: int = 16) -> None:
    """A ball on a rail rolls to a flag."""
    rollers = [academy.add(Roller(academy)) for _ in range(balls)]

    @academy.on_step
    def physics() -> None:
        drag = academy.environment_parameters.get_with_default("drag", 0.1)
        for roller in rollers:
            roller.roll(drag)

    def draw() -> np.ndarray:
        picture = np.zeros((8 * balls, 101, 3), np.uint8)
        for row, roller in enumerate(rollers):
            for place, color in ((roller.flag, 1), (roller.at, 0)):
                x = min(100, max(0, round(50 + 50 * place / RAIL)))
                picture[8 * row : 8 * row + 7, max(0, x - 2) : x + 3, color] = 255
        return picture

    academy.render = draw


if __name__ == "__main__":
    roll.play(sys.argv[1:])
