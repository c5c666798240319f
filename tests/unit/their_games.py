"""Games with the observations and actions of Unity's own models. What is seen there is drawn at random and noted."""

import numpy as np

from palaestra import sdk

Decision = tuple[list[np.ndarray], list[int]]
"""What an agent saw, an array an observation, and what it was told to do."""
LOG: list[list[Decision]] = []
"""An entry an episode, in the order in which they began."""


class Noting(sdk.Agent):
    """Ends its episodes by itself, after 12 and 7 decisions in turns."""

    decision_period = 1
    seen: list[np.ndarray]

    def on_episode_begin(self) -> None:
        self.decisions: list[Decision] = []
        LOG.append(self.decisions)
        self.last = 12 if len(LOG) % 2 else 7

    def drawn(self, *shape: int) -> np.ndarray:
        """Numbers within 0..1, which are what it sees now."""
        random = self.academy.random
        values = np.array([random.random() for _ in range(int(np.prod(shape)))], np.float32).reshape(shape)
        self.seen.append(values)
        return values

    def on_action_received(self, actions: sdk.Actions) -> None:
        self.decisions.append((self.seen, list(actions.discrete)))
        if len(self.decisions) == self.last:
            self.end_episode()


class Walker(Noting):
    """Sees what the agents of Hallway.onnx see: rays and the time, three views each."""

    behavior = sdk.Behavior("Hallway", branches=5)

    def initialize(self) -> None:
        self.rays = self.add_sensor(sdk.VectorSensor(105, "A rays"))
        self.times = self.add_sensor(sdk.VectorSensor(3, "B time"))

    def collect_observations(self, sensor: sdk.VectorSensor) -> None:
        self.seen = []
        rays = self.drawn(15, 7)
        rays[:, :6] = np.eye(6)[(rays[:, 0] * 6).astype(int)]  # of each either a tag, or the flag that nothing was met
        self.seen[0] = rays.ravel()
        self.rays.add(rays)
        self.times.add(self.drawn(3))


class Sorting(Noting):
    """Sees what the agents of Sorter.onnx see: some tiles, and 18 numbers."""

    behavior = sdk.Behavior("Sorter", observations=18, branches=(3, 3, 3))

    def initialize(self) -> None:
        self.tiles = self.add_sensor(sdk.BufferSensor(20, 23))

    def collect_observations(self, sensor: sdk.VectorSensor) -> None:
        self.seen = []
        sensor.add(self.drawn(18))
        tiles = np.zeros((20, 23), np.float32)
        tiles[: len(LOG) % 5] = self.drawn(len(LOG) % 5, 23)
        for tile in tiles[: len(LOG) % 5]:
            self.tiles.append(tile)
        self.seen[1] = tiles


class Pushing(Noting):
    """Sees what the agents of PushBlockCollab.onnx see: a grid of 6 channels, and 10 numbers."""

    behavior = sdk.Behavior("PushBlockCollab", observations=10, branches=7)

    def initialize(self) -> None:
        self.grid = self.add_sensor(sdk.ImageSensor(20, 20, 6, "GridSensor"))

    def collect_observations(self, sensor: sdk.VectorSensor) -> None:
        self.seen = []
        self.grid.write(self.drawn(6, 20, 20))
        sensor.add(self.drawn(10))


@sdk.game
def hall(academy: sdk.Academy) -> None:
    """One walker."""
    academy.add(Walker())


@sdk.game
def sorter(academy: sdk.Academy) -> None:
    """One that sorts."""
    academy.add(Sorting())


@sdk.game
def pushers(academy: sdk.Academy) -> None:
    """One that pushes."""
    academy.add(Pushing())
