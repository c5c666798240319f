"""What authors get wrong in the first hour: each error says which behavior, which agent, and what to do."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from sdk_play import Walker, exchange, same_actions

from palaestra import sdk
from palaestra.core.errors import EnvError, NotFinite
from palaestra.sdk.protocol.exchange import AgentActions

WHO = r"behavior 'Walker', agent 0 \((Bad|Walker)\)"


def seeing(*numbers: object) -> type[Walker]:
    class Bad(Walker):
        def collect_observations(self, sensor: sdk.VectorSensor) -> None:
            sensor.add(*numbers)

    return Bad


def advance(agent: sdk.Agent) -> dict:
    academy = sdk.Academy()
    academy.add(agent)
    return academy.advance()


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
        advance(seeing(*numbers)())


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 1e39])
def test_an_observation_that_is_not_finite(number: float):
    with pytest.raises(
        NotFinite, match=r"behavior 'Walker', agent 0: \(Bad\) observation 'VectorSensor_size2'\[1\] is (nan|inf)"
    ):
        advance(seeing(0, number)())


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


def test_an_action_outside_its_range():
    academy = sdk.Academy()
    academy.add(Walker())
    outputs = academy.advance()
    with pytest.raises(EnvError, match=f"{WHO} received continuous action 0 = 1.5; expected -1 to 1"):
        academy.answer(same_actions(outputs, 1.5))


def test_a_choice_that_there_is_not():
    academy = sdk.Academy()
    academy.add(Walker(behavior=sdk.Behavior("Walker", observations=2, branches=(2, 3))))
    outputs = academy.advance()
    with pytest.raises(EnvError, match=f"{WHO} received choice 2 of branch 0; expected 0 to 1"):
        academy.answer(same_actions(outputs, discrete=2))


def test_actions_of_another_shape():
    academy = sdk.Academy()
    academy.add(Walker())
    academy.advance()
    with pytest.raises(
        EnvError, match=r"behavior 'Walker\?team=0' received actions of shapes .*; expected \(\(1, 1\), \(1, 0\)\)"
    ):
        academy.answer({"Walker?team=0": AgentActions(np.zeros((2, 1), np.float32), np.zeros((2, 0), np.int64))})


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
        advance(masked(*forbidden))


def test_a_mask_forbids_choices_and_holds_for_one_decision():
    academy = sdk.Academy()
    agent = academy.add(masked((0, 1), (1, 0)))
    academy.add(Walker(behavior=agent.behavior))
    outputs = academy.advance()
    (one,) = outputs.values()
    assert one.mask is not None
    assert one.mask.tolist() == [[True, False, False, True, True], [True] * 5]
    type(agent).write_action_mask = lambda self, mask: None
    (one,) = exchange(academy, outputs).values()
    assert one.mask is None


def test_an_agent_that_never_requests_a_decision_is_an_error():
    agent = Walker(decision_period=None)
    with pytest.raises(
        EnvError, match=f"10000 steps passed and no agent asked .*{WHO}.*decision_period = 5.*request_decision"
    ):
        advance(agent)


def test_a_game_without_agents():
    with pytest.raises(EnvError, match=r"10000 steps passed without an agent; call academy\.add"):
        sdk.Academy().advance()


def test_two_agents_with_one_id():
    academy = sdk.Academy()
    academy.add(Walker(), id=3)
    with pytest.raises(
        EnvError, match=r"behavior 'Walker', Walker is added with id 3, .* behavior 'Walker', agent 3 \(Walker\)"
    ):
        academy.add(Walker(), id=3)
    assert [academy.add(Walker()).id for _ in range(4)] == [0, 1, 2, 4]


@pytest.mark.parametrize("id", [-1, 2**31, "x"])
def test_an_id_that_cannot_be(id: object):
    with pytest.raises(EnvError, match=f"is added with id {id!r}, which cannot be; ids are whole numbers from 0 on"):
        sdk.Academy().add(Walker(), id=id)  # type: ignore[arg-type]


def test_a_game_whose_agents_are_all_away():
    academy = sdk.Academy()
    agent = academy.add(Walker())
    outputs = academy.advance()
    agent.disable()
    outputs = exchange(academy, outputs)
    with pytest.raises(EnvError, match=r"10000 steps passed with all agents disabled or removed; call enable\(\)"):
        exchange(academy, outputs)


def test_an_agent_that_is_added_twice():
    academy = sdk.Academy()
    agent = academy.add(Walker())
    with pytest.raises(EnvError, match=f"{WHO} is added a second time"):
        academy.add(agent)


def test_an_agent_without_a_behavior():
    with pytest.raises(EnvError, match=r"Agent has no behavior; write in its class: behavior = sdk\.Behavior"):
        sdk.Academy().add(sdk.Agent())


def test_what_is_no_agent():
    with pytest.raises(EnvError, match="was given a str; expected an instance of a class derived"):
        sdk.Academy().add("agent")  # type: ignore[type-var]


def test_two_specs_of_one_behavior():
    academy = sdk.Academy()
    academy.add(Walker())
    with pytest.raises(EnvError, match=r"agent 1 \(Walker\) has .*size3.*agent 0 \(Walker\) of the same behavior has"):
        academy.add(Walker(behavior=sdk.Behavior("Walker", observations=3, continuous=1)))


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


def test_an_agent_that_sees_nothing():
    with pytest.raises(EnvError, match=f"{WHO} has no observations; give its Behavior observations=8"):
        sdk.Academy().add(Walker(behavior=sdk.Behavior("Walker", continuous=1)))


def test_two_sensors_of_one_name():
    agent = Walker()
    agent.initialize = lambda: [agent.add_sensor(sdk.BufferSensor(1, 1)) for _ in range(2)]
    with pytest.raises(EnvError, match=f"{WHO} has two sensors named 'BufferSensor'"):
        sdk.Academy().add(agent)


def test_a_sensor_that_comes_late():
    agent = sdk.Academy().add(Walker())
    with pytest.raises(EnvError, match=f"{WHO} calls add_sensor after it was added"):
        agent.add_sensor(sdk.BufferSensor(1, 1))


def test_a_sensor_of_another_shape_than_it_declares():
    class Eye:
        name = "Eye"
        shape = (3,)

        def read(self) -> list[float]:
            return [1.0, 2.0]

    agent = Walker()
    agent.initialize = lambda: agent.add_sensor(Eye())
    with pytest.raises(EnvError, match=rf"{WHO}: sensor 'Eye' read shape \(2,\); it declares \(3,\)"):
        advance(agent)


def test_an_episode_that_ends_where_it_is_observed():
    class Bad(Walker):
        def collect_observations(self, sensor: sdk.VectorSensor) -> None:
            self.end_episode()

    with pytest.raises(EnvError, match=rf"{WHO} calls end_episode\(\) while .* collects observations"):
        advance(Bad())


def test_a_behavior_that_is_changed_by_assignment():
    academy = sdk.Academy()
    agent = academy.add(Walker())
    outputs = academy.advance()
    agent.behavior = sdk.Behavior("Runner", observations=2, continuous=1)
    agent.end_episode = agent.end_episode
    with pytest.raises(EnvError, match=f"{WHO} was given another behavior by assignment; call its change_behavior"):
        agent.end_episode()
    assert outputs


def test_an_agent_that_is_used_before_it_was_added():
    with pytest.raises(EnvError, match=r"Walker\.add_reward is used before the agent was added; call academy\.add"):
        Walker().add_reward(1.0)


@pytest.mark.parametrize(
    "method", ["initialize", "on_episode_begin", "collect_observations", "on_action_received", "write_action_mask"]
)
def test_whatever_an_authors_method_raises_says_whose_it_was(method: str):
    def fails(*_: object) -> None:
        raise KeyError("speed")

    agent = type("Bad", (Walker,), {method: fails})()

    def play() -> None:
        academy = sdk.Academy()
        academy.add(agent)
        exchange(academy, academy.advance())

    with pytest.raises(
        EnvError, match=rf"{WHO}: (fails|{method}) raised KeyError: 'speed' \(.*test_sdk_errors\.py, line \d+\)"
    ) as caught:
        play()
    assert isinstance(caught.value.__cause__, KeyError)


def test_what_the_world_raises_says_so():
    academy = sdk.Academy()
    academy.add(Walker())

    @academy.on_step
    def world() -> None:
        raise ZeroDivisionError("division by zero")

    with pytest.raises(EnvError, match="the game: world raised ZeroDivisionError"):
        exchange(academy, academy.advance())


def test_a_stat_that_is_no_number():
    with pytest.raises(EnvError, match="stat 'Score' is nan"):
        sdk.Academy().stats_recorder.add("Score", float("nan"))
