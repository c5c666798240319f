"""Variable length: the number of fruits changes; the ripest must be picked. Usage: as examples/sdk_roll.py."""

from __future__ import annotations

from palaestra import sdk

SIDES, MOST, TURNS = 4, 4, 10


class Picker(sdk.Agent):
    """Agent that sees 1 to 4 fruits at each decision, each with its side and ripeness; picking the ripest earns 1."""

    behavior = sdk.Behavior("Ripest", observations=1, branches=SIDES)
    decision_period = 1

    def initialize(self) -> None:
        self.fruits = self.add_sensor(sdk.BufferSensor(MOST, SIDES + 1, "fruits"))

    def on_episode_begin(self) -> None:
        self.turn = 0
        self.grow()

    def grow(self) -> None:
        """Draws new fruits in random order, no two on the same side."""
        random = self.academy.random
        self.ripe = {side: random.random() for side in random.sample(range(SIDES), random.randint(1, MOST))}

    def collect_observations(self, sensor: sdk.VectorSensor) -> None:
        sensor.add(self.turn / TURNS)
        for side, ripe in self.ripe.items():
            self.fruits.append([*(side == other for other in range(SIDES)), ripe])

    def on_action_received(self, actions: sdk.Actions) -> None:
        self.add_reward(float(actions.discrete[0] == self.best()))
        self.turn += 1
        if self.turn == TURNS:
            self.end_episode()
        else:
            self.grow()

    def best(self) -> int:
        """Returns the side of the ripest fruit."""
        return max(self.ripe, key=lambda side: self.ripe[side])

    def heuristic(self, actions: sdk.Actions) -> None:
        actions.discrete[0] = self.best()


@sdk.game
def ripest(academy: sdk.Academy, agents: int = 64) -> None:
    """Agents that pick the ripest of several fruits."""
    for _ in range(agents):
        academy.add(Picker())


if __name__ == "__main__":
    ripest.play()
