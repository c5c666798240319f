"""Memory: a light shown at first must be named when asked, some decisions later. Usage: as examples/sdk_roll.py."""

from __future__ import annotations

from palaestra import sdk

LIGHTS, WAIT = 2, 6


class Watcher(sdk.Agent):
    """Agent that sees the light at its first decision only and must name it at its last: 1 if right, -1 if wrong."""

    behavior = sdk.Behavior("Recall", observations=LIGHTS + 1, branches=LIGHTS)
    decision_period = 1

    def on_episode_begin(self) -> None:
        self.turn, self.light = 0, self.academy.random.randrange(LIGHTS)

    def collect_observations(self, sensor: sdk.VectorSensor) -> None:
        sensor.add(*(self.turn == 0 and self.light == light for light in range(LIGHTS)), self.turn == WAIT)

    def on_action_received(self, actions: sdk.Actions) -> None:
        if self.turn == WAIT:
            self.add_reward(1.0 if actions.discrete[0] == self.light else -1.0)
            self.end_episode()
        else:
            self.turn += 1

    def heuristic(self, actions: sdk.Actions) -> None:
        actions.discrete[0] = self.light


@sdk.game
def recall(academy: sdk.Academy, agents: int = 64) -> None:
    """Agents that must remember a light."""
    for _ in range(agents):
        academy.add(Watcher())


if __name__ == "__main__":
    recall.play()
