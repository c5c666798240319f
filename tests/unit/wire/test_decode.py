import math

import numpy as np
import pytest
from conversations import FOLDER, NAMES, read
from unity_infos import KEY, agent, brain, floats, infos, message

from palaestra.core.errors import NotFinite, ProtocolError
from palaestra.wire.decode import decode
from palaestra.wire.messages import Observation, UnityMessage

SEES = floats([1.0, 2.0])


def test_every_field_of_an_agent_comes_in_its_column_in_the_order_of_the_message() -> None:
    ended = agent(7, SEES, reward=-1.5, done=True, max_step_reached=True, group_id=3, group_reward=0.25)
    asks = agent(2, SEES, reward=2.0, action_mask=[True, False])
    came = infos(ended, asks)
    assert came.id.tolist() == [7, 2]
    assert came.reward.tolist() == [-1.5, 2.0]
    assert came.done.tolist() == [True, False]
    assert came.truncated.tolist() == [True, False]
    assert came.group.tolist() == [3, 0]
    assert came.group_reward.tolist() == [0.25, 0.0]
    assert came.mask == (b"", b"\1\0")
    assert [len(column) for column in came.obs] == [2]
    assert Observation.FromString(came.obs[0][1]) == SEES


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_message_holds_in_columns_what_it_holds_by_name(name: str) -> None:
    for said in [said for direction, said in read(FOLDER / f"{name}.txt") if direction == "game"]:
        came = decode(said.SerializeToString())
        output = said.unity_output
        assert came.status == said.header.status
        assert (came.hello is None) == (not output.HasField("rl_initialization_output"))
        assert came.side_channel == output.rl_output.side_channel
        assert set(came.infos) == {key for key, listed in output.rl_output.agentInfos.items() if listed.value}
        for key, columns in came.infos.items():
            agents = output.rl_output.agentInfos[key].value
            assert columns.id.tolist() == [one.id for one in agents]
            assert columns.reward.tolist() == [one.reward for one in agents]
            assert columns.done.tolist() == [one.done for one in agents]
            assert columns.group.tolist() == [one.group_id for one in agents]
            assert [list(mask) for mask in columns.mask] == [list(one.action_mask) for one in agents]
            for row, one in enumerate(agents):
                assert [Observation.FromString(column[row]) for column in columns.obs] == list(one.observations)


def test_a_message_without_agents_has_no_infos_and_no_hello() -> None:
    empty = decode(b"\x0a\x03\x08\xc8\x01")
    assert (empty.status, empty.hello, empty.infos, empty.side_channel) == (200, None, {}, b"")


def test_a_key_with_an_empty_list_of_agents_is_left_out() -> None:
    assert set(decode(message({KEY: [agent(0, SEES)], "Late?team=0": []})).infos) == {KEY}


def test_new_behaviors_are_in_hello() -> None:
    assert [one.brain_name for one in decode(message({KEY: [agent(0, SEES)]}, [brain(2)])).hello.brain_parameters] == [
        KEY
    ]


def test_a_goodbye_is_a_status_alone() -> None:
    assert decode(b"\x0a\x03\x08\x90\x03").status == 400


def test_an_agent_may_end_and_ask_again_in_one_message() -> None:
    came = infos(agent(4, SEES, done=True), agent(4, SEES))
    assert (came.id.tolist(), came.done.tolist()) == ([4, 4], [True, False])


def test_the_first_of_two_ends_of_an_agent_counts() -> None:
    first = floats([1.0])
    second = floats([2.0])
    came = infos(
        agent(4, first, done=True, reward=1), agent(5, first), agent(4, second, done=True, reward=2), agent(4, second)
    )
    assert came.id.tolist() == [4, 5, 4]
    assert came.reward.tolist() == [1.0, 0.0, 0.0]
    assert came.done.tolist() == [True, False, False]
    assert [Observation.FromString(blob) for blob in came.obs[0]] == [first, first, second]
    assert len(came.mask) == 3


def test_two_behaviors_may_use_the_same_ids() -> None:
    assert len(decode(message({"A?team=0": [agent(0, SEES)], "B?team=0": [agent(0, SEES)]})).infos) == 2


def test_numbers_are_of_the_promised_types() -> None:
    came = infos(agent(1, SEES))
    types = [
        column.dtype for column in (came.id, came.reward, came.done, came.truncated, came.group, came.group_reward)
    ]
    assert types == [np.int64, np.float32, np.bool_, np.bool_, np.int64, np.float32]


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"GET / HTTP/1.1\r\n\r\n and so on", r"28 bytes \(47 45 54 .* \.\.\.\) are not a message"),
        (b"\x0a\x05\x08", r"3 bytes \(0a 05 08\) are not a message"),
        (b"", "0 bytes are a message without a header"),
        (UnityMessage(unity_output={}).SerializeToString(), "without a header"),
        (UnityMessage(header={"status": 200}, unity_input={}).SerializeToString(), "message of a trainer"),
        (message({KEY: [agent(-3, SEES)]}), "'Ball.team=0', agent -3: its id is -3; expected 0 or more"),
        (message({KEY: [agent(1, SEES), agent(3, SEES, group_id=-2)]}), "agent 3: its group is -2"),
        (
            message({KEY: [agent(3, SEES), agent(3, SEES)]}),
            "'Ball.team=0': agent 3 asks for two actions in one message",
        ),
        (
            message({KEY: [agent(3, SEES)], "Ball?team=1": [agent(3, SEES)]}),
            "agent 3 asks for two actions in one message",
        ),
        (message({KEY: [agent(3, SEES), agent(4, SEES, SEES)]}), "agent 3 sent 1 observations and agent 4 sent 2"),
        (message({KEY: [agent(3)]}), "'Ball.team=0', agent 3 sent no observation"),
    ],
    ids=lambda value: value if isinstance(value, str) else "bytes",
)
def test_an_inconsistent_message_is_named(raw: bytes, says: str) -> None:
    with pytest.raises(ProtocolError, match=says):
        decode(raw)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"reward": math.nan}, "behavior 'Ball.team=0', agent 6: its reward is nan"),
        ({"group_reward": -math.inf}, "agent 6: its group's reward is -inf"),
    ],
)
def test_a_reward_that_is_not_finite_is_named(fields: dict[str, float], says: str) -> None:
    with pytest.raises(NotFinite, match=says):
        infos(agent(1, SEES), agent(6, SEES, **fields))
