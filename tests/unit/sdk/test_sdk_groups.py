import pytest
from sdk_play import Walker, advance, exchange, rows

from palaestra import sdk
from palaestra.core.errors import EnvError


def together(academy: sdk.Academy, count: int = 2) -> tuple[sdk.Group, list[Walker]]:
    group = sdk.Group()
    agents = [academy.add(Walker()) for _ in range(count)]
    for agent in agents:
        group.register_agent(agent)
    return group, agents


def test_groups_count_from_one_and_their_rewards_go_with_each_members_decision():
    academy = sdk.Academy()
    group, _ = together(academy)
    other, _ = together(academy, 1)
    outputs = advance(academy)
    group.add_group_reward(1.0)
    group.add_group_reward(0.5)
    other.set_group_reward(4.0)
    (one,) = exchange(academy, outputs).values()
    assert one.infos.group.tolist() == [1, 1, 2]
    assert one.infos.group_reward.tolist() == [1.5, 1.5, 4.0]
    assert one.infos.reward.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(("how", "word"), [("end_group_episode", "ended"), ("group_episode_interrupted", "truncated")])
def test_a_group_ends_for_all_its_members(how: str, word: str):
    academy = sdk.Academy()
    group, _ = together(academy)
    alone = academy.add(Walker())
    outputs = advance(academy)
    getattr(group, how)()
    outputs = exchange(academy, outputs)
    assert [row[:2] for row in rows(outputs)] == [(0, word), (1, word), (0, "asks"), (1, "asks"), (2, "asks")]
    assert alone.completed_episodes == 0


def test_a_disabled_member_leaves_with_its_groups_number_and_earns_no_more():
    academy = sdk.Academy()
    group, (first, second) = together(academy)
    outputs = advance(academy)
    first.disable()
    group.add_group_reward(1.0)
    (one,) = exchange(academy, outputs).values()
    assert one.infos.group.tolist() == [1, 1]
    assert one.infos.group_reward.tolist() == [0.0, 1.0]
    assert group.agents == (second,)


def test_a_member_that_comes_back_earns_once():
    academy = sdk.Academy()
    group, (first, second) = together(academy)
    first.disable()
    second.disable()
    for agent in (first, second):
        agent.enable()
        group.register_agent(agent)
    outputs = advance(academy)
    group.add_group_reward(1.0)
    (one,) = exchange(academy, outputs).values()
    assert group.agents == (first, second)
    assert one.infos.group_reward[-2:].tolist() == [1.0, 1.0]


def test_who_is_in_a_group_must_leave_it_before_joining_another():
    academy = sdk.Academy()
    group, (agent, _) = together(academy)
    other = sdk.Group()
    with pytest.raises(EnvError, match=r"agent 0 \(Walker\) joins a group while it is in another"):
        other.register_agent(agent)
    group.unregister_agent(agent)
    other.register_agent(agent)
    assert other.agents == (agent,)


def test_a_group_refuses_agents_of_another_area_and_disabled_ones():
    academy = sdk.Academy()
    group, (agent, _) = together(academy)
    agent.disable()
    with pytest.raises(EnvError, match="while it is disabled"):
        group.register_agent(agent)
    with pytest.raises(EnvError, match="another area"):
        group.register_agent(sdk.Academy().add(Walker()))


def test_a_groups_reward_must_be_finite():
    academy = sdk.Academy()
    group, _ = together(academy)
    with pytest.raises(EnvError, match=r"behavior 'Walker', agent 0 \(Walker\).*add_group_reward\(nan\)"):
        group.add_group_reward(float("nan"))
