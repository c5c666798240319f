from sdk_play import Walker, advance, begun, exchange, rows

from palaestra import sdk


def test_an_end_is_reported_at_once_and_before_the_next_decision_of_the_same_id():
    academy, agent, outputs = begun(Walker())

    @academy.on_step
    def world() -> None:
        if agent.at > 0:
            agent.add_reward(1.0)
            agent.end_episode()

    outputs = exchange(academy, outputs, 0.5)
    assert rows(outputs) == [(0, "ended", 1.0, [0.5, 1.0]), (0, "asks", 0.0, [0.0, 1.0])]
    assert (agent.completed_episodes, agent.cumulative_reward) == (1, 0.0)


def test_an_end_between_decisions_has_an_exchange_of_its_own():
    academy, agent, outputs = begun(Walker(decision_period=5))
    academy.on_step(lambda: agent.end_episode() if academy.step_count == 2 else None)
    outputs = exchange(academy, outputs, 0.5)
    assert rows(outputs) == [(0, "ended", 0.0, [1.0, 2.0])]
    outputs = exchange(academy, outputs)
    assert rows(outputs) == [(0, "asks", 0.0, [0.0, 4.0])]
    assert academy.step_count == 6


def test_the_step_limit_truncates_an_episode_after_the_agent_acted():
    academy = sdk.Academy()
    agent = academy.add(Walker(max_step=3, decision_period=10))
    outputs = exchange(academy, advance(academy), 0.5)
    assert rows(outputs) == [(0, "truncated", 0.0, [1.5, 3.0])]
    assert agent.step_count == 1  # of the next episode


def test_an_interrupted_episode_is_truncated():
    academy, agent, outputs = begun(Walker())
    agent.episode_interrupted()
    assert rows(exchange(academy, outputs))[0][:2] == (0, "truncated")


def test_an_end_that_no_decision_follows_is_reported_once():
    academy, agent, outputs = begun(Walker(decision_period=5))
    agent.end_episode()
    agent.add_reward(9.0)
    agent.end_episode()
    outputs = exchange(academy, outputs)
    assert [row[:3] for row in rows(outputs)] == [(0, "ended", 0.0)]
    assert agent.completed_episodes == 1
    assert agent.log.count("begin") == 3
    assert rows(exchange(academy, outputs))[0][2] == 0.0


def test_an_agent_whose_episode_ended_does_not_act_in_that_step():
    academy = sdk.Academy()
    first = academy.add(Walker())
    second = Walker()
    academy.add(second)

    def end_the_other(actions: sdk.Actions) -> None:
        second.end_episode()

    first.on_action_received = end_the_other
    exchange(academy, advance(academy), 0.5)
    assert ("act", 0.5) not in second.log


def test_a_disabled_agent_is_terminated_and_comes_back_with_another_id():
    academy = sdk.Academy()
    agent = academy.add(Walker())
    other = academy.add(Walker())
    outputs = advance(academy)
    agent.disable()
    agent.disable()
    assert academy.agents == (other,)
    outputs = exchange(academy, outputs)
    assert [row[:2] for row in rows(outputs)] == [(0, "ended"), (1, "asks")]
    assert agent.completed_episodes == 0
    agent.enable()
    outputs = exchange(academy, outputs)
    assert [row[:2] for row in rows(outputs)] == [(1, "asks"), (2, "asks")]
    assert agent.log.count("initialize") == 1
    assert agent.id == 2


def test_a_disabled_agent_neither_asks_acts_nor_begins():
    academy = sdk.Academy()
    agent = academy.add(Walker())
    _ = academy.add(Walker())
    outputs = advance(academy)
    agent.disable()
    agent.request_decision()
    agent.end_episode()
    begun = agent.log.count("begin")
    outputs = exchange(academy, outputs)
    academy.observation_queue.drop()
    academy.begin()
    assert [row[0] for row in rows(advance(academy))] == [1]
    assert agent.log.count("begin") == begun


def test_a_removed_agent_can_be_added_to_another_academy():
    academy = sdk.Academy()
    other = sdk.Academy()
    agent = academy.add(Walker())
    academy.remove(agent)
    assert not agent.enabled
    assert other.add(agent).enabled


def test_an_agent_may_end_at_its_own_action():
    class Brief(Walker):
        def on_action_received(self, actions: sdk.Actions) -> None:
            super().on_action_received(actions)
            self.add_reward(2.0)
            self.end_episode()

    academy = sdk.Academy()
    academy.add(Brief())
    outputs = exchange(academy, advance(academy), 0.5)
    assert rows(outputs) == [(0, "ended", 2.0, [0.5, 1.0]), (0, "asks", 0.0, [0.0, 1.0])]


def test_actions_are_zero_again_where_an_episode_begins():
    academy = sdk.Academy()
    agent = academy.add(Walker(decision_period=4))
    academy.on_step(lambda: agent.end_episode() if academy.step_count == 2 else None)
    outputs = exchange(academy, advance(academy), 0.5)
    exchange(academy, outputs)
    assert [entry for entry in agent.log if isinstance(entry, tuple)] == [
        ("act", 0.5),
        ("act", 0.5),
        ("act", 0.0),
        ("act", 0.0),
    ]
