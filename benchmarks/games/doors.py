"""Group members that leave on success: each agent looks for its own door and leaves through it.

An agent sees itself and its door, not its mates: whether it is the last one left must come from the critic. Usage: as
examples/sdk_roll.py.
"""

from __future__ import annotations

from palaestra import sdk

CREW, STRIDE, REACH, TURNS = 3, 0.1, 0.12, 120


class Walker(sdk.Agent):
    """Agent that walks along a line to its door."""

    behavior = sdk.Behavior("Doors", observations=2, branches=3)
    decision_period = 3

    def __init__(self) -> None:
        self.at = self.door = 0.0

    def on_episode_begin(self) -> None:
        self.at, self.door = self.academy.random.uniform(-1, 1), self.academy.random.uniform(-1, 1)

    def collect_observations(self, sensor: sdk.VectorSensor) -> None:
        sensor.add(self.at, self.door)

    def on_action_received(self, actions: sdk.Actions) -> None:
        self.at = max(-1.5, min(1.5, self.at + STRIDE * (actions.discrete[0] - 1)))
        self.add_reward(-0.001)

    def heuristic(self, actions: sdk.Actions) -> None:
        actions.discrete[0] = 2 if self.door > self.at else 0


class Room:
    """Area of one group."""

    def __init__(self, academy: sdk.Academy) -> None:
        self.crew = [academy.add(Walker()) for _ in range(CREW)]
        self.group = sdk.Group()
        self.turn = 0

    def fill(self) -> None:
        """Brings all walkers back into the group."""
        self.turn = 0
        for walker in self.crew:
            walker.enable()
            self.group.register_agent(walker)

    def judge(self) -> None:
        """Rewards the walkers that reached their doors with 0.1, and the group with 1; its last member ends the
        episode.
        """
        self.turn += 1
        for walker in list(self.group.agents):
            if abs(walker.at - walker.door) < REACH:
                walker.add_reward(0.1)
                self.group.add_group_reward(1.0)
                if len(self.group.agents) > 1:
                    walker.disable()
                else:
                    self.group.end_group_episode()
                    self.fill()
                    return
        self.group.add_group_reward(-0.002)
        if self.turn == TURNS:
            self.group.group_episode_interrupted()
            self.fill()


@sdk.game
def doors(academy: sdk.Academy, rooms: int = 2) -> None:
    """Groups whose members leave one by one."""
    for _ in range(rooms):
        room = Room(academy)
        academy.on_reset(room.fill)
        academy.on_step(room.judge)


if __name__ == "__main__":
    doors.play()
