"""Image: the quarter in which a red spot lies must be named; a blue one lies elsewhere. Usage: as
examples/sdk_roll.py.
"""

from __future__ import annotations

import numpy as np

from palaestra import sdk

SIDE, SPOT, TURNS = 20, 4, 10
QUARTERS = 4
RED, BLUE = (220, 60, 60), (60, 60, 220)


class Looker(sdk.Agent):
    """Agent that sees a new image at each decision; naming the quarter of the red spot earns 1."""

    behavior = sdk.Behavior("Spot", branches=QUARTERS)
    decision_period = 1

    def initialize(self) -> None:
        self.camera = self.add_sensor(sdk.ImageSensor(SIDE, SIDE, 3))

    def on_episode_begin(self) -> None:
        self.turn = 0
        self.place()

    def place(self) -> None:
        """Draws new spots; quarters are numbered left to right, then downwards."""
        random = self.academy.random
        half = SIDE // 2
        self.quarter, other = random.sample(range(QUARTERS), 2)
        self.picture = np.full((SIDE, SIDE, 3), random.randrange(200), np.uint8)
        for quarter, color in ((self.quarter, RED), (other, BLUE)):
            row = quarter // 2 * half + random.randint(0, half - SPOT)
            column = quarter % 2 * half + random.randint(0, half - SPOT)
            self.picture[row : row + SPOT, column : column + SPOT] = color

    def collect_observations(self, sensor: sdk.VectorSensor) -> None:
        self.camera.write(self.picture)

    def on_action_received(self, actions: sdk.Actions) -> None:
        self.add_reward(float(actions.discrete[0] == self.quarter))
        self.turn += 1
        if self.turn == TURNS:
            self.end_episode()
        else:
            self.place()

    def heuristic(self, actions: sdk.Actions) -> None:
        actions.discrete[0] = self.quarter


@sdk.game
def spot(academy: sdk.Academy, agents: int = 64) -> None:
    """Agents that say where they see a spot."""
    for _ in range(agents):
        academy.add(Looker())


if __name__ == "__main__":
    spot.play()
