"""What authors get wrong in the first hour: each error says which behavior, which agent, and what to do."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sdk_play import Walker, advance, answer, exchange

from palaestra import sdk
from palaestra.core.errors import EnvError, NotFinite
from palaestra.sdk.protocol.exchange import AgentActions

WHO = r"behavior 'Walker', agent 0 \((Bad|Walker)\)"


def seeing(*numbers: object) -> type[Walker]:
    class Bad(Walker):
        def collect_observations(self, sensor: sdk.VectorSensor) -> None:
            sensor.add(*numbers)

    return Bad


def academy_of(*agents: sdk.Agent) -> sdk.Academy:
    academy = sdk.Academy()
    for agent in agents:
        academy.add(agent)
    return academy


def walker(*, name: str = "Walker", **spaces: Any) -> Walker:
    return Walker(behavior=sdk.Behavior(name, **{"observations": 2, **spaces}))


@pytest.mark.parametrize(
    ("numbers", "match"),
    [
        ((1,), "sensor 'VectorSensor_size2' was given 1 numbers, too few: 2 are declared"),
        ((1, 2, 3), "was given 3 numbers, too many: 2 are declared"),
        (([1, 2, 3],), "was given 3 numbers, too many: 2 are declared"),
        (("a", 1), "was given a value that is not a number"),
        ((1, None), "was given None as its number 1"),
    ],
)
def test_a_wrong_number_of_observations(numbers: tuple, match: str):
    with pytest.raises(EnvError, match=f"{WHO}.*{match}"):
        advance(academy_of(seeing(*numbers)()))


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 1e39])
def test_an_observation_that_is_not_finite(number: float):
    with pytest.raises(
        NotFinite, match=r"behavior 'Walker', agent 0: \(Bad\) observation 'VectorSensor_size2'\[1\] is (nan|inf)"
    ):
        advance(academy_of(seeing(0, number)()))


@pytest.mark.parametrize("reward", ["1.0", None, [1.0], 1e39])
def test_a_reward_that_no_trainer_could_read(reward: object):
    agent = sdk.Academy().add(Walker())
    group = sdk.Group()
    group.register_agent(agent)
    for method in (agent.add_reward, agent.set_reward, group.add_group_reward, group.set_group_reward):
        with pytest.raises(
            EnvError, match=rf"{WHO} calls {method.__name__}\({re.escape(repr(reward))}\); expected a finite number"
        ):
            method(reward)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("continuous", "discrete", "match"),
    [
        ([3.0], [0], r"received from its heuristic continuous action 0 = 3\.0; expected -1 to 1"),
        ([0.0], [3], "received from its heuristic choice 3 of branch 0; expected 0 to 2"),
        ([0.0], ["left"], r"heuristic filled in .*'left'.*whole ones for discrete actions"),
        ([0.0], [1.5], "heuristic filled in .*1.5.*whole ones for discrete actions"),
        (0.5, [1], r"heuristic filled in Actions\(continuous=0\.5"),
        ([0.0, 0.0], [1], "filled in 2 continuous and 1 discrete actions; expected 1 and 1"),
    ],
)
def test_a_heuristic_whose_actions_are_none(continuous: object, discrete: object, match: str):
    class Bad(Walker):
        behavior = sdk.Behavior("Walker", observations=2, continuous=1, branches=3)

        def heuristic(self, actions: sdk.Actions) -> None:
            actions.continuous, actions.discrete = continuous, discrete  # type: ignore[assignment]

    areas = sdk.Areas(lambda academy: academy.add(Bad()))
    areas.advance()
    with pytest.raises(EnvError, match=f"{WHO}.*{match}"):
        areas.heuristic("Walker?team=0")


@pytest.mark.parametrize(
    ("name", "steps"),
    [("decision_period", -2), ("decision_period", "5"), ("decision_period", 0.5), ("max_step", -1), ("max_step", None)],
)
def test_steps_that_cannot_be_counted(name: str, steps: object):
    with pytest.raises(EnvError, match=f"{WHO} has {name} = {steps!r}; expected a whole number of the academy's steps"):
        sdk.Academy().add(Walker(**{name: steps}))


@pytest.mark.parametrize(
    ("agent", "given", "match"),
    [
        (Walker(), {"continuous": 1.5}, "received continuous action 0 = 1.5; expected -1 to 1"),
        (walker(branches=(2, 3)), {"discrete": 2}, "received choice 2 of branch 0; expected 0 to 1"),
    ],
)
def test_an_action_that_there_is_not(agent: Walker, given: dict[str, Any], match: str):
    academy = academy_of(agent)
    with pytest.raises(EnvError, match=f"{WHO} {match}"):
        exchange(academy, advance(academy), **given)


def test_actions_of_another_shape():
    academy = academy_of(Walker())
    advance(academy)
    says = r"behavior 'Walker\?team=0' received actions of shapes .*; expected \(\(1, 1\), \(1, 0\)\)"
    with pytest.raises(EnvError, match=says):
        answer(academy, {"Walker?team=0": AgentActions(np.zeros((2, 1), np.float32), np.zeros((2, 0), np.int64))})


def masked(*forbidden: tuple[int, int]) -> sdk.Agent:
    class Bad(Walker):
        behavior = sdk.Behavior("Walker", observations=2, branches=(2, 3))

        def write_action_mask(self, mask: sdk.ActionMask) -> None:
            for branch, action in forbidden:
                mask.set_action_enabled(branch, action, False)

    return Bad()


@pytest.mark.parametrize(
    ("forbidden", "match"),
    [
        (((0, 0), (0, 1)), "forbids all 2 choices of branch 0"),
        (((2, 0),), "names branch 2; its behavior has branches 0 to 1"),
        (((1, 3),), "names choice 3 of branch 1, which has choices 0 to 2"),
    ],
)
def test_a_mask_that_cannot_be(forbidden: tuple, match: str):
    with pytest.raises(EnvError, match=f"{WHO}.*write_action_mask {match}"):
        advance(academy_of(masked(*forbidden)))


def test_a_mask_forbids_choices_and_holds_for_one_decision():
    agent = masked((0, 1), (1, 0))
    academy = academy_of(agent, Walker(behavior=agent.behavior))
    outputs = advance(academy)
    (one,) = outputs.values()
    assert one.mask is not None
    assert one.mask.tolist() == [[True, False, False, True, True], [True] * 5]
    type(agent).write_action_mask = lambda self, mask: None
    (one,) = exchange(academy, outputs).values()
    assert one.mask is None


def test_ids_count_from_0_past_those_that_are_given():
    academy = sdk.Academy()
    academy.add(Walker(), id=3)
    assert [academy.add(Walker()).id for _ in range(4)] == [0, 1, 2, 4]


@pytest.mark.parametrize("id", [-1, 2**31, "x"])
def test_an_id_that_cannot_be(id: object):
    with pytest.raises(EnvError, match=f"is added with id {id!r}, which cannot be; ids are whole numbers from 0 on"):
        sdk.Academy().add(Walker(), id=id)  # type: ignore[arg-type]


def test_a_game_whose_agents_are_all_away():
    agent = Walker()
    academy = academy_of(agent)
    outputs = advance(academy)
    agent.disable()
    outputs = exchange(academy, outputs)
    with pytest.raises(EnvError, match=r"10000 steps passed with all agents disabled or removed; call enable\(\)"):
        exchange(academy, outputs)


class Eye:
    name = "Eye"
    shape = (3,)

    def read(self) -> list[float]:
        return [1.0, 2.0]


class Eyed(Walker):
    """Has these sensors, too."""

    def __init__(self, *sensors: sdk.Sensor) -> None:
        super().__init__()
        self.own = sensors

    def initialize(self) -> None:
        for sensor in self.own:
            self.add_sensor(sensor)


class EndsWhileObserved(Walker):
    def collect_observations(self, sensor: sdk.VectorSensor) -> None:
        self.end_episode()


def twice(agent: Walker) -> None:
    sdk.Academy().add(sdk.Academy().add(agent))


def two_of_one_id() -> None:
    academy = sdk.Academy()
    academy.add(Walker(), id=3)
    academy.add(Walker(), id=3)


MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "an agent that never requests a decision": (
        lambda: advance(academy_of(Walker(decision_period=None))),
        f"10000 steps passed and no agent asked .*{WHO}.*decision_period = 5.*request_decision",
    ),
    "no agent": (lambda: advance(sdk.Academy()), r"10000 steps passed without an agent; call academy\.add"),
    "two of one id": (
        two_of_one_id,
        r"behavior 'Walker', Walker is added with id 3, .* behavior 'Walker', agent 3 \(Walker\)",
    ),
    "added twice": (lambda: twice(Walker()), f"{WHO} is added a second time"),
    "no behavior": (
        lambda: academy_of(sdk.Agent()),
        r"Agent has no behavior; write in its class: behavior = sdk\.Behavior",
    ),
    "not an agent": (lambda: academy_of("agent"), "was given a str; expected an instance of a class derived"),  # type: ignore[arg-type]
    "two specs of one behavior": (
        lambda: academy_of(Walker(), walker(observations=3, continuous=1)),
        r"agent 1 \(Walker\) has .*size3.*agent 0 \(Walker\) of the same behavior has",
    ),
    "it sees nothing": (
        lambda: academy_of(walker(observations=0, continuous=1)),
        f"{WHO} has no observations; give its Behavior observations=8",
    ),
    "two sensors of one name": (
        lambda: academy_of(Eyed(sdk.BufferSensor(1, 1), sdk.BufferSensor(1, 1))),
        r"agent 0 \(Eyed\) has two sensors named 'BufferSensor'",
    ),
    "a sensor that comes late": (
        lambda: sdk.Academy().add(Walker()).add_sensor(sdk.BufferSensor(1, 1)),
        f"{WHO} calls add_sensor after it was added",
    ),
    "a sensor of another shape than it declares": (
        lambda: advance(academy_of(Eyed(Eye()))),
        r"agent 0 \(Eyed\): sensor 'Eye' read shape \(2,\); it declares \(3,\)",
    ),
    "an episode that ends where it is observed": (
        lambda: advance(academy_of(EndsWhileObserved())),
        r"calls end_episode\(\) while .* collects observations",
    ),
    "used before it was added": (
        lambda: Walker().add_reward(1.0),
        r"Walker\.add_reward is used before the agent was added; call academy\.add",
    ),
    "a stat that is no number": (
        lambda: sdk.Academy().stats_recorder.add("Score", float("nan")),
        "stat 'Score' is nan",
    ),
}


@pytest.mark.parametrize(("act", "match"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_explained(act: Callable[[], object], match: str):
    with pytest.raises(EnvError, match=match):
        act()


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: sdk.Behavior("Still", observations=2), "behavior 'Still' has no actions"),
        (lambda: sdk.Behavior("a?b", observations=2, continuous=1), "a behavior is named 'a"),
        (
            lambda: sdk.Behavior("A", observations=2, branches=(0,)),
            "behavior 'A': .*a branch needs at least one choice",
        ),
        (lambda: sdk.Behavior("A", observations=-1, continuous=1), "observations=-1"),
        (
            lambda: sdk.Behavior("A", observations="2", continuous=1),
            "behavior 'A': observations='2'; expected a whole number",
        ),  # type: ignore[arg-type]
        (
            lambda: sdk.Behavior("A", observations=2, branches="3"),
            "behavior 'A': branches='3'; expected the choices of each branch",
        ),  # type: ignore[arg-type]
        (lambda: sdk.Behavior(3, observations=2, continuous=1), "a behavior is named 3; expected text"),  # type: ignore[arg-type]
    ],
)
def test_a_behavior_that_cannot_be(make: Callable[[], object], match: str):
    with pytest.raises(EnvError, match=match):
        make()


def test_a_behavior_that_is_changed_by_assignment():
    agent = Walker()
    advance(academy_of(agent))
    agent.behavior = sdk.Behavior("Runner", observations=2, continuous=1)
    with pytest.raises(EnvError, match=f"{WHO} was given another behavior by assignment; call its change_behavior"):
        agent.end_episode()


@pytest.mark.parametrize(
    "method", ["initialize", "on_episode_begin", "collect_observations", "on_action_received", "write_action_mask"]
)
def test_whatever_an_authors_method_raises_says_whose_it_was(method: str):
    def fails(*_: object) -> None:
        raise KeyError("speed")

    agent = type("Bad", (Walker,), {method: fails})()

    def play() -> None:
        academy = academy_of(agent)
        exchange(academy, advance(academy))

    with pytest.raises(
        EnvError, match=rf"{WHO}: (fails|{method}) raised KeyError: 'speed' \(.*test_sdk_errors\.py, line \d+\)"
    ) as caught:
        play()
    assert isinstance(caught.value.__cause__, KeyError)


def test_what_the_world_raises_says_so():
    academy = academy_of(Walker())

    @academy.on_step
    def world() -> None:
        raise ZeroDivisionError("division by zero")

    with pytest.raises(EnvError, match="the game: world raised ZeroDivisionError"):
        exchange(academy, advance(academy))
