"""Small games of every kind, as an author would write them. Run as a program, one plays: `python sdk_games.py --kind
continuous`.
"""

import numpy as np

from palaestra import sdk


class Mover(sdk.Agent):
    """On a line, rewarded for being near its target."""

    behavior = sdk.Behavior("Continuous", observations=2, continuous=1)
    decision_period = 2
    max_step = 60

    def on_episode_begin(self) -> None:
        self.x, self.target = 0.0, self.academy.random.uniform(-1, 1)

    def collect_observations(self, sensor: sdk.VectorSensor) -> None:
        sensor.add(self.x, self.target)

    def on_action_received(self, actions: sdk.Actions) -> None:
        self.x += 0.1 * actions.continuous[0]
        self.add_reward(-abs(self.x - self.target))
        if abs(self.x) > 1.5:
            self.academy.stats_recorder.add("Game/Lost", abs(self.x))
            self.end_episode()

    def heuristic(self, actions: sdk.Actions) -> None:
        actions.continuous[0] = max(-1.0, min(1.0, 10 * (self.target - self.x)))


class Chooser(sdk.Agent):
    """Two branches; it is rewarded for saying what it sees."""

    behavior = sdk.Behavior("Discrete", observations=3, branches=(3, 2))
    decision_period = 1

    def on_episode_begin(self) -> None:
        self.turns, self.color = 0, self.academy.random.randrange(3)

    def collect_observations(self, sensor: sdk.VectorSensor) -> None:
        sensor.one_hot(self.color, 3)

    def on_action_received(self, actions: sdk.Actions) -> None:
        self.add_reward(float(actions.discrete[0] == self.color) + 0.25 * actions.discrete[1])
        self.color = self.academy.random.randrange(3)
        self.turns = self.turns + 1
        if self.turns == 20:
            self.end_episode()


class Masked(Mover):
    """Both kinds of actions; its second branch's first choice is forbidden while it stands left."""

    behavior = sdk.Behavior("Hybrid", observations=2, continuous=2, branches=(2, 3))
    decision_period = 1
    max_step = 40

    def write_action_mask(self, mask: sdk.ActionMask) -> None:
        mask.set_action_enabled(1, 0, self.x >= 0)

    def on_action_received(self, actions: sdk.Actions) -> None:
        if self.x < 0 and actions.discrete[1] == 0:
            raise AssertionError("a forbidden choice was made")
        self.x += 0.1 * actions.continuous[0] * actions.discrete[0]
        self.add_reward(-abs(self.x - self.target))


class Picky(sdk.Agent):
    """Two branches of two choices; one of the first is always forbidden."""

    behavior = sdk.Behavior("Picky", observations=1, branches=(2, 2))
    decision_period = 1

    def __init__(self, turns: int) -> None:
        self.turns = turns
        self.left = turns

    def on_episode_begin(self) -> None:
        self.left = self.turns

    def collect_observations(self, sensor: sdk.VectorSensor) -> None:
        sensor.add(self.left)

    def write_action_mask(self, mask: sdk.ActionMask) -> None:
        mask.set_action_enabled(0, 0, False)

    def on_action_received(self, actions: sdk.Actions) -> None:
        if actions.discrete[0] == 0:
            raise AssertionError("a forbidden choice was made")
        self.add_reward(float(actions.discrete[1]))
        self.left -= 1
        if not self.left:
            self.end_episode()


class Looker(sdk.Agent):
    """Sees pictures: in color as PNG, in grey, of four channels, and one without compression."""

    behavior = sdk.Behavior("Visual", branches=(3,))
    decision_period = 1
    max_step = 15

    def initialize(self) -> None:
        self.cameras = [
            self.add_sensor(sdk.ImageSensor(20, 24, channels, f"camera{channels}")) for channels in (1, 3, 4)
        ]  # fmt: skip
        self.plain = self.add_sensor(sdk.ImageSensor(20, 20, 2, "plain"))

    def on_episode_begin(self) -> None:
        self.place = self.academy.random.randrange(3)

    def collect_observations(self, sensor: sdk.VectorSensor) -> None:
        for camera in self.cameras:
            channels, height, width = camera.shape
            picture = np.zeros((height, width, channels), np.uint8)
            picture[:, self.place * 8 : self.place * 8 + 8] = 50 * np.arange(1, channels + 1)
            camera.write(picture)
        self.plain.write(np.full((20, 20, 2), self.place / 3, np.float32))

    def on_action_received(self, actions: sdk.Actions) -> None:
        self.add_reward(float(actions.discrete[0] == self.place))


class Stacker(Mover):
    """Sees the last four views of its place, and of a small picture."""

    behavior = sdk.Behavior("Stacked", observations=2, continuous=1, stacked=4)

    def initialize(self) -> None:
        self.camera = sdk.ImageSensor(20, 20, 1, "camera")
        self.add_sensor(sdk.StackedSensor(self.camera, 3))

    def collect_observations(self, sensor: sdk.VectorSensor) -> None:
        super().collect_observations(sensor)
        self.camera.write(np.full((20, 20), int(50 * abs(self.x)) % 256, np.uint8))


class Gatherer(Mover):
    """Sees now more, now fewer things."""

    behavior = sdk.Behavior("Variable", observations=2, continuous=1)

    def initialize(self) -> None:
        self.things = self.add_sensor(sdk.BufferSensor(5, 2, "things"))

    def collect_observations(self, sensor: sdk.VectorSensor) -> None:
        super().collect_observations(sensor)
        for thing in range(self.academy.random.randrange(6)):
            self.things.append(thing / 5, self.target)


class Seeker(Chooser):
    """Chooses the color that a goal signal shows."""

    behavior = sdk.Behavior("Goal", observations=2, branches=(3,))

    def initialize(self) -> None:
        self.goal = self.add_sensor(sdk.VectorSensor(3, "goal", goal=True))

    def collect_observations(self, sensor: sdk.VectorSensor) -> None:
        sensor.add(1.0, self.turns / 20)
        self.goal.one_hot(self.color, 3)

    def on_action_received(self, actions: sdk.Actions) -> None:
        self.add_reward(float(actions.discrete[0] == self.color))
        self.color = self.academy.random.randrange(3)
        self.turns = self.turns + 1
        if self.turns == 20:
            self.end_episode()


class Duelist(sdk.Agent):
    """Adds numbers; the larger total wins."""

    decision_period = 1

    def __init__(self, team: int) -> None:
        self.behavior = sdk.Behavior("Duel", observations=2, branches=(3,), team=team)
        self.total = self.turns = 0

    def on_episode_begin(self) -> None:
        self.total = self.turns = 0

    def collect_observations(self, sensor: sdk.VectorSensor) -> None:
        sensor.add(self.total, self.turns / 10)

    def on_action_received(self, actions: sdk.Actions) -> None:
        self.total = self.total + actions.discrete[0]
        self.turns = self.turns + 1


class Mate(sdk.Agent):
    """One of three, rewarded as a group for standing at one place; one leaves early."""

    behavior = sdk.Behavior("Group", observations=2, continuous=1)
    decision_period = 1

    def on_episode_begin(self) -> None:
        self.x = self.academy.random.uniform(-1, 1)

    def collect_observations(self, sensor: sdk.VectorSensor) -> None:
        sensor.add(self.x, 0.0)

    def on_action_received(self, actions: sdk.Actions) -> None:
        self.x += 0.2 * actions.continuous[0]


@sdk.game
def continuous(academy: sdk.Academy, agents: int = 1) -> None:
    """Agents on a line."""
    for _ in range(agents):
        academy.add(Mover())


@sdk.game
def discrete(academy: sdk.Academy) -> None:
    """Says what it sees."""
    academy.add(Chooser())


@sdk.game
def hybrid(academy: sdk.Academy) -> None:
    """Three agents with masks."""
    for _ in range(3):
        academy.add(Masked())


@sdk.game
def hybrid_alone(academy: sdk.Academy) -> None:
    """One agent with masks."""
    academy.add(Masked())


@sdk.game
def picky(academy: sdk.Academy) -> None:
    """One agent with masks of two branches."""
    academy.add(Picky(9))


@sdk.game
def picky_pair(academy: sdk.Academy) -> None:
    """Two agents with masks, of whom one ends its episodes sooner."""
    academy.add(Picky(2))
    academy.add(Picky(9))


@sdk.game
def visual(academy: sdk.Academy) -> None:
    """Sees pictures."""
    for _ in range(2):
        academy.add(Looker())


@sdk.game
def stacked(academy: sdk.Academy) -> None:
    """Sees what it saw."""
    academy.add(Stacker())


@sdk.game
def variable(academy: sdk.Academy) -> None:
    """Sees now more, now fewer."""
    academy.add(Gatherer())


@sdk.game
def goal(academy: sdk.Academy) -> None:
    """One agent with a goal signal."""
    academy.add(Seeker())


def finish(one: Duelist, two: Duelist) -> None:
    """Ends a duel: the agent with the higher total wins."""
    won = float(np.sign(one.total - two.total))
    one.set_reward(won)
    two.set_reward(-won)
    one.end_episode()
    two.end_episode()


@sdk.game
def duel(academy: sdk.Academy) -> None:
    """Two teams."""
    two = academy.add(Duelist(1))
    one = academy.add(Duelist(0))

    @academy.on_step
    def judge() -> None:
        if one.turns >= 10:
            finish(one, two)


@sdk.game
def group(academy: sdk.Academy) -> None:
    """Mates with one reward, of whom one leaves early."""
    mates = [academy.add(Mate()) for _ in range(3)]
    together = sdk.Group()
    turns = 0

    @academy.on_reset
    def gather() -> None:
        nonlocal turns
        turns = 0
        for mate in mates:
            mate.enable()
            together.register_agent(mate)

    @academy.on_step
    def judge() -> None:
        nonlocal turns
        turns += 1
        together.add_group_reward(-float(np.std([mate.x for mate in mates])))
        if turns == 8:
            mates[2].disable()
        if turns == 20:
            together.group_episode_interrupted()
            gather()


GAMES = {each.name: each for each in (continuous, discrete, hybrid, visual, stacked, variable, goal, duel, group)}


@sdk.game
def any_kind(academy: sdk.Academy, kind: str) -> None:
    """The game that --kind names."""
    GAMES[kind].fill(academy)


if __name__ == "__main__":
    any_kind.play()
