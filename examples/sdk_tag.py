"""Tag in a small yard: two foxes who share what they earn hunt a hare. Two teams, choices with masks, a group.

palaestra learn configs/sdk/tag.yaml --env python:examples.sdk_tag:tag --run-id tag
python examples/sdk_tag.py
"""

from __future__ import annotations

import sys

from palaestra import sdk

SIZE = 7
MOVES = ((0, 0), (0, -1), (0, 1), (-1, 0), (1, 0))  # stay, up, down, left, right
HARE, FOX = 0, 1


class Animal(sdk.Agent):
    """Walks from square to square; may not leave the yard."""

    decision_period = 1

    def __init__(self, yard: Yard, team: int) -> None:
        self.behavior = sdk.Behavior("Tag", observations=6, branches=len(MOVES), team=team)
        self.yard = yard
        self.team = team
        self.x = 0
        self.y = 0

    def collect_observations(self, sensor: sdk.VectorSensor) -> None:
        """Adds where it is, and where the others are from there."""
        others = sorted((a for a in self.yard.animals if a is not self), key=lambda a: a.team == self.team)
        sensor.add(self.x / SIZE, self.y / SIZE)
        for other in others:  # for a fox the hare comes first
            sensor.add((other.x - self.x) / SIZE, (other.y - self.y) / SIZE)

    def write_action_mask(self, mask: sdk.ActionMask) -> None:
        """Forbids steps beyond the fence."""
        for move, (dx, dy) in enumerate(MOVES):
            mask.set_action_enabled(0, move, 0 <= self.x + dx < SIZE and 0 <= self.y + dy < SIZE)

    def on_action_received(self, actions: sdk.Actions) -> None:
        """Moves one square a step."""
        dx, dy = MOVES[actions.discrete[0]]
        self.x = min(SIZE - 1, max(0, self.x + dx))
        self.y = min(SIZE - 1, max(0, self.y + dy))

    def heuristic(self, actions: sdk.Actions) -> None:
        """Sends a fox towards the hare, the hare away from the nearest fox."""
        hare = self.yard.hare
        foxes = self.yard.animals[1:]

        def danger(move: int) -> int:
            x = self.x + MOVES[move][0]
            y = self.y + MOVES[move][1]
            if not (0 <= x < SIZE and 0 <= y < SIZE):
                return 2 * SIZE if self.team == FOX else -SIZE
            return (
                abs(x - hare.x) + abs(y - hare.y)
                if self.team == FOX
                else min(abs(x - f.x) + abs(y - f.y) for f in foxes)
            )

        moves = range(len(MOVES))
        actions.discrete[0] = min(moves, key=danger) if self.team == FOX else max(moves, key=danger)


class Yard:
    """The world of one area."""

    def __init__(self, academy: sdk.Academy, patience: int) -> None:
        self.academy = academy
        self.patience = patience
        self.steps = 0
        self.foxes = sdk.Group()
        self.hare = academy.add(Animal(self, HARE))
        self.animals = [self.hare, academy.add(Animal(self, FOX)), academy.add(Animal(self, FOX))]
        for fox in self.animals[1:]:
            self.foxes.register_agent(fox)

    def scatter(self) -> None:
        """Puts everyone on a square of its own."""
        self.steps = 0
        squares = self.academy.random.sample(range(SIZE * SIZE), len(self.animals))
        for animal, square in zip(self.animals, squares, strict=True):
            animal.x = square % SIZE
            animal.y = square // SIZE

    def judge(self) -> None:
        """Rewards everyone, once all have moved."""
        self.steps += 1
        caught = any((fox.x, fox.y) == (self.hare.x, self.hare.y) for fox in self.animals[1:])
        if caught or self.steps == self.patience:
            self.foxes.add_group_reward(1.0 if caught else -1.0)
            self.hare.add_reward(-1.0 if caught else 1.0)
            self.foxes.end_group_episode()
            self.hare.end_episode()
            self.scatter()


@sdk.game
def tag(academy: sdk.Academy, patience: int = 50) -> None:
    """Two foxes hunt a hare, who wins if it is not caught in `patience` moves."""
    yard = Yard(academy, patience)
    academy.on_reset(yard.scatter)
    academy.on_step(yard.judge)


if __name__ == "__main__":
    tag.play(sys.argv[1:])
