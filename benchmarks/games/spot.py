"""Image: a bright spot somewhere in a noisy picture tells which quarter to name. Usage: as examples/sdk_roll.py."""

from __future__ import annotations

import numpy as np

from palaestra import sdk

SIDE, SPOT, TURNS = 36, 6, 10
QUARTERS = 4


class Looker(sdk.Agent):
    """Sees a new picture at each decision; naming the quarter of its spot earns 1."""

    behavior = sdk.Behavior("Spot", branches=QUARTERS)
    decision_period = 1

    def initialize(self) -> None:
        self.camera = self.add_sensor(sdk.ImageSensor(SIDE, SIDE, 3))
        self.noise = np.random.default_rng(self.academy.random.randrange(2**32))

    def on_episode_begin(self) -> None:
        self.turn = 0
        self.place()

    def place(self) -> None:
        """Another spot: `quarter` counts left to right, then downwards."""
        self.quarter = self.academy.random.randrange(QUARTERS)
        room = SIDE // 2 - SPOT
        self.row = self.quarter // 2 * SIDE // 2 + self.academy.random.randint(0, room)
        self.column = self.quarter % 2 * SIDE // 2 + self.academy.random.randint(0, room)

    def collect_observations(self, sensor: sdk.VectorSensor) -> None:
        picture = self.noise.integers(0, 100, (SIDE, SIDE, 3), np.uint8)
        picture[self.row : self.row + SPOT, self.column : self.column + SPOT] = (250, 200, 50)
        self.camera.write(picture)

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
