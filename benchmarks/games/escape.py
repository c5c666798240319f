"""Sacrifice: one agent must hold the gate, and is lost, so that the others get through. Usage: as
examples/sdk_roll.py.
"""

from __future__ import annotations

from palaestra import sdk

CREW, LENGTH, TURNS = 3, 5, 20


class Sailor(sdk.Agent):
    """Agent in a passage: the lever of the gate is at its left end, the gate at its right end."""

    behavior = sdk.Behavior("Escape", observations=3 + 2 * (CREW - 1), branches=3)
    decision_period = 1

    def __init__(self, ship: Ship) -> None:
        self.ship = ship
        self.at = 0

    def collect_observations(self, sensor: sdk.VectorSensor) -> None:
        """Observes itself, the gate, and for each mate whether it is alive and where."""
        sensor.add(self.at / LENGTH, self.ship.open, self.ship.turn / TURNS)
        for mate in self.ship.crew:
            if mate is not self:
                sensor.add(mate.enabled, mate.at / LENGTH * mate.enabled)

    def on_action_received(self, actions: sdk.Actions) -> None:
        self.at = max(-LENGTH, min(LENGTH, self.at + actions.discrete[0] - 1))

    def heuristic(self, actions: sdk.Actions) -> None:
        first = min(self.ship.group.agents, key=lambda mate: mate.at)
        actions.discrete[0] = 0 if self is first and not self.ship.open else 2


class Ship:
    """Area of one group."""

    def __init__(self, academy: sdk.Academy) -> None:
        self.academy = academy
        self.group = sdk.Group()
        self.crew = [academy.add(Sailor(self)) for _ in range(CREW)]
        self.open = False
        self.turn = 0

    def board(self) -> None:
        """Starts an episode: all agents at different places, at least two steps from the lever, and the gate shut."""
        self.open = False
        self.turn = 0
        places = self.academy.random.sample(range(2 - LENGTH, LENGTH), CREW)
        for sailor, place in zip(self.crew, places, strict=True):
            sailor.enable()
            self.group.register_agent(sailor)
            sailor.at = place

    def judge(self) -> None:
        """Removes an agent that pulls the lever; the others win when all of them stand in the open gate."""
        self.turn += 1
        for sailor in self.group.agents:
            if sailor.at == -LENGTH:
                self.open = True
                sailor.disable()
        left = self.group.agents
        won = self.open and bool(left) and all(sailor.at == LENGTH for sailor in left)
        if won or not left or self.turn == TURNS:
            self.group.add_group_reward(float(won))
            self.group.end_group_episode()
            self.board()


@sdk.game
def escape(academy: sdk.Academy, ships: int = 12) -> None:
    """Groups of which one must stay behind."""
    for _ in range(ships):
        ship = Ship(academy)
        academy.on_reset(ship.board)
        academy.on_step(ship.judge)


if __name__ == "__main__":
    escape.play()
