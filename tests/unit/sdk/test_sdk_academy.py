import pytest
from sdk_play import Walker, advance, answer, begun, exchange, rows, same_actions

from palaestra import sdk
from palaestra.core.errors import EnvError


def test_an_agent_observes_and_acts_in_unitys_order():
    academy = sdk.Academy()
    agent = academy.add(Walker())
    academy.on_step(lambda: agent.log.append("world"))
    outputs = advance(academy)
    outputs = exchange(academy, outputs, 0.5)
    assert agent.log == ["initialize", "begin", "observe", ("act", 0.5), "world", "observe"]
    assert rows(outputs) == [(0, "asks", 0.0, [0.5, 2.0])]  # the step counts before it looks


def test_rewards_go_with_the_next_decision_and_are_then_zero():
    academy, agent, outputs = begun(Walker())
    agent.add_reward(1.0)
    agent.add_reward(0.5)
    outputs = exchange(academy, outputs)
    assert rows(outputs)[0][2] == 1.5
    assert rows(exchange(academy, outputs))[0][2] == 0.0
    assert agent.cumulative_reward == 1.5


def test_set_reward_takes_the_place_of_what_was_added_since_the_last_decision():
    academy, agent, outputs = begun(Walker())
    agent.add_reward(1.0)
    outputs = exchange(academy, outputs)
    agent.add_reward(5.0)
    agent.set_reward(2.0)
    assert agent.cumulative_reward == 3.0
    assert rows(exchange(academy, outputs))[0][2] == 2.0


def test_a_decision_period_asks_on_every_such_step_and_acts_between():
    academy, agent, outputs = begun(Walker(decision_period=3))
    outputs = exchange(academy, outputs, 1.0)
    assert academy.step_count == 4  # asked at steps 0 and 3
    assert agent.log.count(("act", 1.0)) == 3
    assert rows(outputs) == [(0, "asks", 0.0, [3.0, 4.0])]


def test_an_agent_may_rest_between_decisions():
    academy = sdk.Academy()
    agent = academy.add(Walker(decision_period=3, take_actions_between_decisions=False))
    exchange(academy, advance(academy), 1.0)
    assert agent.log.count(("act", 1.0)) == 1


def test_a_game_can_ask_by_itself():
    academy = sdk.Academy()
    agent = academy.add(Walker(decision_period=None))
    academy.on_step(lambda: agent.request_decision() if academy.step_count == 7 else None)
    outputs = advance(academy)
    assert academy.step_count == 8
    assert rows(outputs)[0][:2] == (0, "asks")


def test_request_action_acts_with_the_last_decision():
    academy = sdk.Academy()
    agent = academy.add(Walker(decision_period=4, take_actions_between_decisions=False))
    academy.on_step(lambda: agent.request_action() if academy.step_count == 2 else None)
    exchange(academy, advance(academy), 0.25)
    assert agent.log.count(("act", 0.25)) == 2


def test_agents_with_other_periods_are_in_exchanges_of_their_own():
    academy = sdk.Academy()
    academy.add(Walker(decision_period=2))
    academy.add(Walker(decision_period=3))
    outputs = advance(academy)
    heard = []
    for _ in range(4):
        heard.append((academy.step_count - 1, [row[0] for row in rows(outputs)]))
        outputs = exchange(academy, outputs)
    assert heard == [(0, [0, 1]), (2, [0]), (3, [1]), (4, [0])]


def test_an_agent_without_actions_does_zeros():
    academy = sdk.Academy()
    agent = academy.add(Walker())
    outputs = exchange(academy, advance(academy), 0.5)
    answer(academy, {})
    assert outputs
    assert agent.log[-1] == ("act", 0.0)


def test_reset_drops_what_was_asked_and_begins_all_episodes_without_ends():
    academy = sdk.Academy()
    agent = academy.add(Walker(decision_period=5))
    begun = []
    academy.on_reset(lambda: begun.append(len(agent.log)))
    outputs = exchange(academy, advance(academy), 1.0)
    agent.add_reward(3.0)
    agent.end_episode()
    academy.observation_queue.drop()
    academy.begin()
    outputs = advance(academy)
    assert rows(outputs) == [(0, "asks", 0.0, [0.0, 1.0])]
    assert (academy.step_count, academy.episode_count, len(begun)) == (1, 2, 2)
    assert academy.total_step_count == 7


def test_a_newcomer_begins_at_once_and_asks_on_the_next_step():
    academy, _, outputs = begun(Walker())
    late = academy.add(Walker())
    assert late.log == ["initialize", "begin"]
    assert [row[:2] for row in rows(exchange(academy, outputs))] == [(0, "asks"), (1, "asks")]


def test_an_agent_that_is_added_while_all_begins_begins_once():
    academy = sdk.Academy()
    academy.add(Walker())
    late: list[Walker] = []
    academy.on_reset(lambda: late.append(academy.add(Walker())))
    advance(academy)
    assert late[0].log.count("begin") == 1


def test_to_advance_twice_without_an_answer_is_an_error():
    academy, _, outputs = begun(Walker())
    with pytest.raises(EnvError, match="before the agents"):
        advance(academy)
    answer(academy, same_actions(outputs))
    with pytest.raises(EnvError, match="without open decision requests"):
        answer(academy, same_actions(outputs))


def test_areas_of_one_seed_have_streams_of_their_own_that_a_seed_repeats():
    def draws(seed: int, area: int) -> tuple[float, float]:
        academy = sdk.Academy(seed, area)
        return academy.random.random(), academy.rng.random()

    assert draws(1, 0) == draws(1, 0)
    assert len({draws(1, 0), draws(1, 1), draws(2, 0)}) == 3


def test_teams_have_behavior_keys_of_their_own():
    academy = sdk.Academy()
    academy.add(Walker())
    other = academy.add(Walker(behavior=sdk.Behavior("Walker", observations=2, continuous=1, team=1)))
    outputs = advance(academy)
    assert list(outputs) == ["Walker?team=0", "Walker?team=1"]
    other.set_team(0)
    outputs = exchange(academy, outputs)
    assert rows({"old": outputs["Walker?team=1"]})[0][:2] == (1, "ended")
    assert [row[:2] for row in rows({"new": outputs["Walker?team=0"]})] == [(0, "asks"), (1, "asks")]


def test_an_agent_may_change_its_behavior_and_what_it_sees():
    class Changing(Walker):
        def collect_observations(self, sensor: sdk.VectorSensor) -> None:
            sensor.add(*[self.at] * sensor.shape[0])

    academy, agent, outputs = begun(Changing())
    agent.change_behavior(sdk.Behavior("Runner", observations=3, branches=2))
    outputs = exchange(academy, outputs)
    assert rows({"": outputs["Walker?team=0"]}) == [(0, "ended", 0.0, [0.0, 0.0])]
    assert rows({"": outputs["Runner?team=0"]}) == [(0, "asks", 0.0, [0.0, 0.0, 0.0])]
    assert agent.completed_episodes == 0
