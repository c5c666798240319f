"""Exploration: a corridor winds to and fro, and only its far end earns anything. Usage: as examples/sdk_roll.py."""

from __future__ import annotations

from palaestra import sdk

SIDE, TURNS = 5, 60
MOVES = ((0, -1), (0, 1), (-1, 0), (1, 0))  # up, down, left, right


class Mouse(sdk.Agent):
    """Agent that observes its square; random actions reach the end once in tens of thousands of episodes."""

    behavior = sdk.Behavior("Maze", observations=2 * SIDE, branches=len(MOVES))
    decision_period = 1
    max_step = TURNS

    def on_episode_begin(self) -> None:
        self.x = self.y = 0

    def collect_observations(self, sensor: sdk.VectorSensor) -> None:
        sensor.add(*(self.x == x for x in range(SIDE)), *(self.y == y for y in range(SIDE)))

    def on_action_received(self, actions: sdk.Actions) -> None:
        x, y = MOVES[actions.discrete[0]]
        if y == 0 or self.x == self.gap(min(self.y, self.y + y)):
            self.x = min(SIDE - 1, max(0, self.x + x))
            self.y = min(SIDE - 1, max(0, self.y + y))
        if self.y == SIDE - 1 and self.x == self.gap(self.y):
            self.add_reward(1.0)
            self.end_episode()

    @staticmethod
    def gap(row: int) -> int:
        """Returns the place where a row leads to the next: alternately at the right and at the left."""
        return SIDE - 1 if row % 2 == 0 else 0

    def heuristic(self, actions: sdk.Actions) -> None:
        gap = self.gap(self.y)
        actions.discrete[0] = 1 if self.x == gap else 3 if gap else 2


@sdk.game
def maze(academy: sdk.Academy, agents: int = 32) -> None:
    """Agents that look for the end of a corridor."""
    for _ in range(agents):
        academy.add(Mouse())


if __name__ == "__main__":
    maze.play()
