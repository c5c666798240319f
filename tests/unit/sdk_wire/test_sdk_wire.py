"""What a game writes is what our own server reads, of every kind."""

from collections.abc import Sequence

import numpy as np
import pytest

from palaestra.core.errors import EnvError, ProtocolError
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.sdk.protocol import codec
from palaestra.sdk.protocol.exchange import AgentOutputs
from palaestra.wire import encode
from palaestra.wire.decode import AgentInfos, decode
from palaestra.wire.encode import CAPABILITIES, ActionWriter
from palaestra.wire.handshake import read_game_version
from palaestra.wire.messages import Observation, UnityMessage
from palaestra.wire.readers import AgentInfoReader

RNG = np.random.default_rng(5)
DISCRETE = ActionSpec(branches=(3, 2))


def said(
    *obs: tuple[ObsSpec, np.ndarray],
    action: ActionSpec = ActionSpec(2),  # noqa: B008
    done: Sequence[bool] | None = None,
    mask: np.ndarray | None = None,
    compressed: bool = False,
    key: str = "Ball?team=1",
) -> AgentOutputs:
    agents = len(obs[0][1])
    ended = np.zeros(agents, np.bool_) if done is None else np.array(done)
    infos = AgentInfos(
        id=np.arange(agents) * 131071 + 3,
        reward=RNG.normal(size=agents).astype(np.float32),
        done=ended,
        truncated=ended & (np.arange(agents) % 2 == 0),
        group=np.arange(agents) * 7,
        group_reward=RNG.normal(size=agents).astype(np.float32),
        mask=(),
        obs=(),
    )
    spec = BehaviorSpec(tuple(each for each, _ in obs), action)
    columns = tuple(np.asarray(column, np.float32) for _, column in obs)
    return AgentOutputs(key, spec, (compressed,) * len(obs), infos, columns, mask)


def read(raw: bytes) -> tuple[AgentInfoReader, AgentInfos]:
    """The only behavior of a message, as a trainer of ours reads it."""
    incoming = decode(raw)
    (brain,) = incoming.hello.brain_parameters
    ((key, infos),) = incoming.infos.items()
    assert brain.brain_name == key
    return AgentInfoReader(key, brain, infos, codec.PACKAGE), infos


def observations(one: AgentOutputs, without: str = "") -> tuple[np.ndarray, ...]:
    reader, infos = read(codec.MessageWriter(set(CAPABILITIES) - {without}).write({one.key: one}))
    assert reader.spec == one.spec
    return reader.observations(infos)


def first_observation(one: AgentOutputs, without: str = "") -> Observation:
    message = UnityMessage.FromString(codec.MessageWriter(set(CAPABILITIES) - {without}).write({one.key: one}))
    return message.unity_output.rl_output.agentInfos[one.key].value[0].observations[0]


KINDS = {
    "vector": (ObsSpec("speed", (3,)), RNG.normal(size=(4, 3))),
    "one number": (ObsSpec("height", (1,)), np.zeros((4, 1))),
    "goal": (ObsSpec("color", (2,), goal=True), np.eye(4, 2)),
    "variable length": (ObsSpec("enemies", (5, 3)), RNG.normal(size=(4, 5, 3))),
    "image": (ObsSpec("eye", (3, 4, 6)), RNG.random((4, 3, 4, 6))),
    "long vector": (ObsSpec("rays", (400,)), RNG.normal(size=(4, 400))),
}


@pytest.mark.parametrize("kind", KINDS)
def test_an_observation_arrives_as_it_was_sent(kind: str):
    obs, column = KINDS[kind]
    np.testing.assert_array_equal(observations(said((obs, column)))[0], column.astype(np.float32))


def test_observations_of_all_kinds_arrive_together():
    one = said(*KINDS.values(), compressed=True)
    for obs, sent, came in zip(one.spec.obs, one.obs, observations(one), strict=True):
        np.testing.assert_allclose(came, sent, atol=0.5 / 255 + 1e-6 if obs.is_visual else 0)


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 6, 8])
def test_a_compressed_image_of_255ths_arrives_exactly(channels: int):
    column = RNG.integers(0, 256, (3, channels, 5, 7)).astype(np.float32) / np.float32(255)
    one = said((ObsSpec("eye", (channels, 5, 7)), column), compressed=True)
    np.testing.assert_array_equal(observations(one)[0], column)
    sent = first_observation(one)
    assert sent.compression_type == 1
    assert sent.compressed_data.count(b"IHDR") == -(-channels // 3)


def test_channels_that_only_fill_up_a_file_are_dropped():
    four = (ObsSpec("grid", (4, 5, 7)), np.zeros((1, 4, 5, 7)))
    assert list(first_observation(said(four, compressed=True)).compressed_channel_mapping) == [0, 1, 2, 3, -1, -1]


@pytest.mark.parametrize(
    ("channels", "without", "png"),
    [
        (1, "compressedChannelMapping", True),
        (4, "compressedChannelMapping", False),
        (6, "compressedChannelMapping", True),
        (6, "concatenatedPngObservations", False),
        (3, "concatenatedPngObservations", True),
    ],
)
def test_images_go_uncompressed_to_trainers_that_could_not_read_them(channels: int, without: str, png: bool):
    column = RNG.integers(0, 256, (2, channels, 5, 7)).astype(np.float32) / np.float32(255)
    one = said((ObsSpec("eye", (channels, 5, 7)), column), compressed=True)
    assert (first_observation(one, without).compression_type == 1) is png
    np.testing.assert_array_equal(observations(one, without)[0], column)


@pytest.mark.parametrize(("kind", "dimensions"), [("vector", [1]), ("variable length", [4, 1]), ("image", [1, 2, 2])])
def test_dimensions_are_marked_as_unity_marks_them(kind: str, dimensions: list[int]):
    sent = first_observation(said(KINDS[kind]))
    assert list(sent.dimension_properties) == dimensions
    assert sent.name == KINDS[kind][0].name


def test_ids_rewards_ends_and_groups_arrive():
    one = said(KINDS["vector"], done=[True, True, False, False])
    _, came = read(codec.MessageWriter(CAPABILITIES).write({one.key: one}))
    for name in ("id", "reward", "done", "truncated", "group", "group_reward"):
        np.testing.assert_array_equal(getattr(came, name), getattr(one.infos, name), err_msg=name)


def test_largest_ids_arrive():
    one = said(KINDS["vector"])
    one.infos.id[:] = [0, 127, 128, 2**31 - 1]
    _, came = read(codec.MessageWriter(CAPABILITIES).write({one.key: one}))
    assert came.id.tolist() == [0, 127, 128, 2**31 - 1]


@pytest.mark.parametrize("compressed", [False, True])
def test_masks_are_forbidden_choices(compressed: bool):
    allowed = np.array([[1, 0, 1, 1, 1], [1, 1, 1, 1, 1], [0, 0, 1, 0, 1], [1, 1, 1, 1, 0]], np.bool_)
    one = said(KINDS["image"], action=DISCRETE, mask=allowed, compressed=compressed)
    raw = codec.MessageWriter(CAPABILITIES).write({one.key: one})
    message = UnityMessage.FromString(raw)
    assert list(message.unity_output.rl_output.agentInfos[one.key].value[0].action_mask) == [
        False,
        True,
        False,
        False,
        False,
    ]
    reader, infos = read(raw)
    np.testing.assert_array_equal(reader.masks(infos), allowed)


def test_without_a_written_mask_none_is_sent():
    one = said(KINDS["vector"], action=DISCRETE)
    message = UnityMessage.FromString(codec.MessageWriter(CAPABILITIES).write({one.key: one}))
    assert not message.unity_output.rl_output.agentInfos[one.key].value[0].action_mask


@pytest.mark.parametrize("action", [ActionSpec(3), DISCRETE, ActionSpec(2, (4,))])
def test_actions_are_introduced(action: ActionSpec):
    reader, _ = read(codec.MessageWriter(CAPABILITIES).write({"Ball?team=1": said(KINDS["vector"], action=action)}))
    assert reader.spec.action == action
    assert reader.team == 1


@pytest.mark.parametrize("action", [ActionSpec(3), DISCRETE])
def test_trainers_without_hybrid_actions_read_the_fields_of_old(action: ActionSpec):
    raw = codec.MessageWriter(set(CAPABILITIES) - {"hybridActions"}).write(
        {"Ball?team=1": said(KINDS["vector"], action=action)}
    )
    assert not decode(raw).hello.brain_parameters[0].HasField("action_spec")
    assert read(raw)[0].spec.action == action


def test_hybrid_actions_are_an_error_where_the_trainer_cannot_take_them():
    writer = codec.MessageWriter(set(CAPABILITIES) - {"hybridActions"})
    with pytest.raises(EnvError, match=r"behavior 'Ball\?team=1' has continuous and discrete actions together"):
        writer.write({"Ball?team=1": said(KINDS["vector"], action=ActionSpec(1, (2,)))})


def test_variable_length_is_an_error_where_the_trainer_cannot_take_it():
    writer = codec.MessageWriter(set(CAPABILITIES) - {"variableLengthObservation"})
    with pytest.raises(EnvError, match="its observation 'enemies' has a variable length"):
        writer.write({"Ball?team=1": said(KINDS["variable length"])})


def test_behaviors_are_introduced_once_and_may_come_later():
    writer = codec.MessageWriter(CAPABILITIES)
    one = said(KINDS["vector"])
    two = said(KINDS["goal"], key="Late?team=0")
    first = decode(writer.write({one.key: one}))
    second = decode(writer.write({one.key: one, two.key: two}, b"stats"))
    assert [brain.brain_name for brain in first.hello.brain_parameters] == [one.key]
    assert [brain.brain_name for brain in second.hello.brain_parameters] == [two.key]
    assert set(second.infos) == {one.key, two.key}
    assert second.side_channel == b"stats"
    assert decode(writer.write({one.key: one})).hello is None


def test_the_first_messages_are_those_of_a_player():
    game = read_game_version(decode(codec.hello()).hello)
    assert (game.package, game.communication, game.missing) == ("3.0.0", "1.5.0", [])
    assert decode(codec.ready()).hello is None
    trainer = codec.read_greeting(encode.initialization(7, 3))
    assert trainer == codec.TrainerGreeting(7, 3, encode.PACKAGE, "1.5.0", frozenset(CAPABILITIES))


def test_commands_are_read():
    assert codec.read_reply(encode.reset(b"x")) == codec.Reply(False, True, b"x", {})
    assert codec.read_reply(encode.step({"a": b"z"}, b"")) == codec.Reply(False, False, b"", {"a": b"z"})
    assert codec.read_reply(encode.goodbye()).ends_game
    assert codec.read_greeting(encode.goodbye()) is None


@pytest.mark.parametrize("action", [ActionSpec(3), ActionSpec(branches=(3, 200)), ActionSpec(2, (4,))])
def test_actions_come_in_the_order_in_which_they_were_asked_for(action: ActionSpec):
    one = said(KINDS["vector"], action=action, done=[False, True, False, False])
    continuous = RNG.normal(size=(3, action.continuous)).astype(np.float32)
    discrete = (
        np.stack([np.arange(3) % size for size in action.branches], 1)
        if action.branches
        else np.zeros((3, 0), np.int64)
    )
    told = codec.read_actions(one, ActionWriter(action).write(continuous, discrete))
    np.testing.assert_array_equal(told.continuous, continuous)
    np.testing.assert_array_equal(told.discrete, discrete)


def test_actions_of_a_trainer_of_old_are_read():
    action = ActionSpec(branches=(3, 2))
    raw = codec.Actions(
        value=[{"vector_actions_deprecated": row} for row in ([2, 1], [0, 1], [1, 0], [0, 0])]
    ).SerializeToString()
    told = codec.read_actions(said(KINDS["vector"], action=action), raw)
    assert told.discrete.tolist() == [[2, 1], [0, 1], [1, 0], [0, 0]]
    assert told.continuous.shape == (4, 0)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[0, 0]] * 3, "4 agents requested decisions, but the trainer sent actions for 3"),
        ([[0]] * 4, "the trainer's actions do not fit; expected 0 continuous numbers and 2 discrete ones"),
        ([[0, 0], [], [0, 0], [0, 0]], "the trainer's actions do not fit"),
        ([[0, 2]] * 4, r"agent \d+: the trainer chose 2 of branch 1; expected 0 to 1"),
    ],
)
def test_actions_that_do_not_fit_are_an_error(rows: list[list[int]], message: str):
    raw = codec.Actions(value=[{"discrete_actions": row} for row in rows]).SerializeToString()
    with pytest.raises(ProtocolError, match=message):
        codec.read_actions(said(KINDS["vector"], action=DISCRETE), raw)


def test_an_invalid_answer_is_an_error():
    with pytest.raises(ProtocolError, match="not a message of the protocol"):
        codec.read_reply(b"\xff\xff\xff")
    with pytest.raises(ProtocolError, match="does not introduce it"):
        codec.read_greeting(encode.reset(b""))
