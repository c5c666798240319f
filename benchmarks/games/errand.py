"""Imitation: fetch the key, then open the chest; nothing before that earns anything. Usage: as examples/sdk_roll.py.

The ways are long and straight, since ML-Agents takes from a demonstration what was done one decision before.
"""

from __future__ import annotations

from palaestra import sdk

SIDE, LEG, TURNS = 10, 4, 40
MOVES = ((0, -1), (0, 1), (-1, 0), (1, 0))  # up, down, left, right


class Servant(sdk.Agent):
    """Agent that observes the key and the chest relative to itself; random actions open one chest in twenty."""

    behavior = sdk.Behavior("Errand", observations=5, branches=len(MOVES))
    decision_period = 1
    max_step = TURNS

    def on_episode_begin(self) -> None:
        random = self.academy.random
        self.x = random.randrange(SIDE)
        self.y = random.randrange(SIDE)
        x, y = (random.choice([to for to in range(SIDE) if abs(to - at) >= LEG]) for at in (self.x, self.y))
        self.goals = [(x, self.y), (x, y)]

    def collect_observations(self, sensor: sdk.VectorSensor) -> None:
        sensor.add(len(self.goals) < 2)
        for x, y in (self.goals[0], self.goals[-1]) if self.goals else ((self.x, self.y),) * 2:
            sensor.add((x - self.x) / SIDE, (y - self.y) / SIDE)

    def on_action_received(self, actions: sdk.Actions) -> None:
        x, y = MOVES[actions.discrete[0]]
        self.x = min(SIDE - 1, max(0, self.x + x))
        self.y = min(SIDE - 1, max(0, self.y + y))
        if (self.x, self.y) == self.goals[0]:
            del self.goals[0]
        if not self.goals:
            self.add_reward(1.0)
            self.end_episode()

    def heuristic(self, actions: sdk.Actions) -> None:
        x, y = self.goals[0]
        actions.discrete[0] = 2 + (x > self.x) if x != self.x else int(y > self.y)


@sdk.game
def errand(academy: sdk.Academy, agents: int = 32) -> None:
    """Agents that run an errand."""
    for _ in range(agents):
        academy.add(Servant())


if __name__ == "__main__":
    errand.play()
