"""Control: a puck on ice must be pushed onto a mark and held there. Usage: as examples/sdk_roll.py."""

from __future__ import annotations

import math

from palaestra import sdk

TURNS, PUSH, DRAG = 30, 0.05, 0.1


class Puck(sdk.Agent):
    """Agent that accelerates in two directions; each turn earns more the nearer it is to its mark."""

    behavior = sdk.Behavior("Reach", observations=6, continuous=2)
    decision_period = 1
    max_step = TURNS

    def on_episode_begin(self) -> None:
        random = self.academy.random
        self.at = [random.uniform(-1, 1) for _ in range(2)]
        self.speed = [0.0, 0.0]
        self.mark = [random.uniform(-1, 1) for _ in range(2)]

    def collect_observations(self, sensor: sdk.VectorSensor) -> None:
        sensor.add(
            *self.at,
            *(5 * speed for speed in self.speed),
            *(mark - at for mark, at in zip(self.mark, self.at, strict=True)),
        )

    def on_action_received(self, actions: sdk.Actions) -> None:
        for axis, push in enumerate(actions.continuous):
            self.speed[axis] += PUSH * push - DRAG * self.speed[axis]
            self.at[axis] += self.speed[axis]
        self.add_reward(1 - math.dist(self.at, self.mark))

    def heuristic(self, actions: sdk.Actions) -> None:
        for axis in range(2):
            actions.continuous[axis] = max(
                -1.0, min(1.0, 8 * (self.mark[axis] - self.at[axis]) - 25 * self.speed[axis])
            )


@sdk.game
def reach(academy: sdk.Academy, agents: int = 16) -> None:
    """Agents that slide onto a mark."""
    for _ in range(agents):
        academy.add(Puck())


if __name__ == "__main__":
    reach.play()
