import math

import numpy as np
import pytest
from unity_infos import CHW, HWC, agent, floats, infos, picture, png, reader

from palaestra.core.errors import NotFinite, ProtocolError
from palaestra.core.specs import ObsSpec
from palaestra.wire.messages import Observation

PIXELS = np.arange(20 * 30 * 3).reshape(20, 30, 3) % 256
PICTURE = PIXELS.transpose(2, 0, 1).astype(np.float32) / 255


def spec_of(observation: Observation, version: str = "4.0.0") -> ObsSpec:
    return reader(agent(0, observation), version=version).spec.obs[0]


def column(*observations: Observation, version: str = "4.0.0") -> np.ndarray:
    agents = [agent(i, observation) for i, observation in enumerate(observations)]
    return reader(*agents, version=version).observations(infos(*agents))[0]


def test_a_vector_has_a_row_for_each_agent_in_the_order_they_came() -> None:
    rows = np.random.default_rng(0).normal(size=(5, 8)).astype(np.float32)
    read = column(*(floats(row) for row in rows))
    assert read.dtype == np.float32
    np.testing.assert_array_equal(read, rows)


def test_a_column_belongs_to_the_caller() -> None:
    assert column(floats([1, 2])).flags.writeable


def test_numbers_that_look_like_the_bytes_around_them_are_read() -> None:
    for values in ([0.0], [1.0, 2.0], [0.0] * 8, [float(np.frombuffer(b"\x08\x01\x22\x06", "<f4")[0])] * 2):
        np.testing.assert_array_equal(column(floats(values), floats(values)), [np.float32(values)] * 2)


def test_agents_whose_messages_differ_in_more_than_numbers_are_read() -> None:
    rows = [floats([1, 2], name="eyes"), floats([3, 4], name="ears"), floats([5, 6])]
    np.testing.assert_array_equal(column(*rows), [[1, 2], [3, 4], [5, 6]])


def test_messages_of_one_length_in_all_but_each_of_another_are_kept_apart() -> None:
    here = reader(agent(0, floats([1, 2], name="eyes")))
    uneven = infos(agent(0, floats([1, 2], name="eye")), agent(1, floats([3, 4], name="eyes!")))
    np.testing.assert_array_equal(here.observations(uneven)[0], [[1, 2], [3, 4]])


def test_numbers_one_by_one_instead_of_packed_are_read() -> None:
    unpacked = bytes.fromhex("0a0102 220a 0d0000803f 0d00000040 320101")
    here = reader(agent(0, floats([5, 6])))
    came = infos(agent(0, floats([5, 6])), agent(1, Observation.FromString(unpacked)))
    as_sent = type(came)(
        **{name: getattr(came, name) for name in came.__slots__} | {"obs": ((came.obs[0][0], unpacked),)}
    )
    np.testing.assert_array_equal(here.observations(as_sent)[0], [[5, 6], [1, 2]])


def test_a_list_of_variable_length_has_two_dimensions() -> None:
    entities = floats([[1, 2, 3], [0, 0, 0]], (4, 1))
    assert spec_of(entities).is_entities
    np.testing.assert_array_equal(column(entities), [[[1, 2, 3], [0, 0, 0]]])


def test_a_goal_signal_is_a_goal() -> None:
    assert spec_of(floats([1, 0], observation_type=1)).goal
    entities = spec_of(floats(np.zeros((2, 3)), (4, 1), observation_type=1))
    assert entities.goal
    assert entities.is_entities


def test_a_compression_type_on_a_vector_is_ignored() -> None:
    np.testing.assert_array_equal(column(floats([1, 2], compression_type=1)), [[1, 2]])


@pytest.mark.parametrize(
    ("shape", "dimensions", "version", "expected"),
    [
        ((3, 20, 30), CHW, "4.0.0", (3, 20, 30)),
        ((20, 30, 3), HWC, "2.3.0", (3, 20, 30)),
        ((5, 6, 7), CHW, "2.3.0", (5, 6, 7)),
        ((5, 6, 7), HWC, "4.0.0", (7, 5, 6)),
        ((20, 30, 3), (), "4.0.0", (3, 20, 30)),
        ((3, 20, 30), (), "1.0.8", (3, 20, 30)),
        ((5, 6, 7), (), "2.3.0-exp.1", (7, 5, 6)),
        ((5, 6, 7), (0, 0, 0), "3.0.0", (5, 6, 7)),
        ((5, 6, 7), (), "", (5, 6, 7)),
    ],
)
def test_images_are_channels_first_whatever_the_package(
    shape: tuple[int, ...], dimensions: tuple[int, ...], version: str, expected: tuple[int, ...]
) -> None:
    values = np.arange(np.prod(shape)).reshape(shape)
    read = column(floats(values, dimensions), version=version)
    assert read.shape == (1, *expected)
    np.testing.assert_array_equal(read[0], values if shape == expected else values.transpose(2, 0, 1))


@pytest.mark.parametrize(
    ("shape", "dimensions", "version"),
    [
        ((3, 20, 30), CHW, "4.0.0"),
        ((20, 30, 3), HWC, "2.3.0"),
        ((20, 30, 3), (), "4.0.0"),
        ((20, 30, 3), CHW, ""),
        ((3, 20, 30), (), "1.0"),
    ],
)
def test_the_size_of_a_png_tells_where_the_channels_are(
    shape: tuple[int, ...], dimensions: tuple[int, ...], version: str
) -> None:
    np.testing.assert_array_equal(column(picture(shape, png(PIXELS), dimensions), version=version), PICTURE[None])


def test_a_png_whose_size_fits_both_ways_is_taken_as_it_is_marked() -> None:
    square = np.arange(27).reshape(3, 3, 3)
    for dimensions in (CHW, HWC):
        read = column(picture((3, 3, 3), png(square), dimensions))
        np.testing.assert_array_equal(read[0], square.transpose(2, 0, 1).astype(np.float32) / 255)


@pytest.mark.parametrize(("shape", "dimensions"), [((3, 20, 30), CHW), ((20, 30, 3), HWC)])
def test_an_agent_may_send_numbers_and_another_a_png(shape: tuple[int, ...], dimensions: tuple[int, ...]) -> None:
    values = np.random.default_rng(0).random(shape, np.float32)
    read = column(picture(shape, png(PIXELS), dimensions), floats(values, dimensions))
    np.testing.assert_array_equal(read, [PICTURE, values if dimensions == CHW else values.transpose(2, 0, 1)])


@pytest.mark.parametrize(
    ("bad", "at"),
    [([1.0, math.nan], "[1] is nan"), ([-math.inf, 0.0], "[0] is -inf"), ([math.inf, -math.inf], "[0] is inf")],
)
@pytest.mark.parametrize("name", ["eyes", "another"])
def test_a_number_that_is_not_finite_is_named(bad: list[float], at: str, name: str) -> None:
    here = reader(agent(0, floats([1, 2], name="eyes")))
    with pytest.raises(NotFinite) as raised:
        here.observations(infos(agent(3, floats([3, 4], name="eyes")), agent(8, floats(bad, name=name))))
    assert f"behavior 'Ball', agent 8: observation 'eyes'{at}" in str(raised.value)


def test_the_place_in_a_list_is_row_and_column() -> None:
    with pytest.raises(NotFinite, match=r"'obs_0'\[1, 0\] is nan"):
        column(floats([[1, 2], [math.nan, 0]], (4, 1)))


def test_finite_numbers_with_an_infinite_sum_are_read() -> None:
    assert np.isfinite(column(floats([3e38, 3e38]))).all()


@pytest.mark.parametrize(
    ("observation", "says"),
    [
        (floats(1.0), r"agent 0: observation 'obs_0' has shape \(\); expected"),
        (floats(np.zeros((1, 1, 1, 1))), r"has shape \(1, 1, 1, 1\)"),
        (
            floats(np.zeros((2, 3))),
            r"two dimensions \(2, 3\) that are not marked .* \(dimension properties \(1,\), expected \(4, 1\)\)",
        ),
        (floats(np.zeros((2, 3)), ()), "dimension properties absent, expected"),
        (Observation(shape=[0]), r"observation 'obs_0' has shape \(0,\)"),
        (Observation(shape=[1 << 30], float_data={"data": [1, 2]}), "came as 2 numbers; expected 1073741824 numbers"),
        (
            Observation(shape=[1 << 30, 20, 30], compression_type=1, compressed_data=png(PIXELS)),
            "expected at least 1073741824 channels",
        ),
        (Observation(shape=[3], compressed_data=png(PIXELS)), "came as a compressed image; expected 3 numbers"),
        (
            picture((3, 21, 30), png(PIXELS)),
            r"a PNG of 20x30 pixels \(height x width\), but its shape is \(3, 21, 30\)",
        ),
        (Observation(shape=(3, 2, 2), compression_type=1), "compression type 1 with no data; expected PNG"),
        (
            Observation(shape=(3, 2, 2), compression_type=7, compressed_data=b"?"),
            "compression type 7 with compressed_data",
        ),
    ],
)
def test_an_impossible_sensor_is_refused_at_its_first_message(observation: Observation, says: str) -> None:
    with pytest.raises(ProtocolError, match=says) as raised:
        reader(agent(0, observation))
    assert "behavior 'Ball'" in str(raised.value)


@pytest.mark.parametrize(
    ("observation", "says"),
    [
        (
            floats([1, 2, 3], name="ears"),
            r"agent 9: observation 'eyes' came with shape \(3,\) named 'ears'; expected \(2,\)",
        ),
        (Observation(shape=[2], float_data={"data": [1]}), "agent 9: observation 'eyes' came as 1 numbers; expected 2"),
    ],
)
def test_an_agent_that_sends_something_else_later_is_named(observation: Observation, says: str) -> None:
    here = reader(agent(0, floats([1, 2], name="eyes")))
    with pytest.raises(ProtocolError, match=says):
        here.observations(infos(agent(1, floats([1, 2], name="eyes")), agent(9, observation)))


def test_a_damaged_png_is_named_with_its_agent() -> None:
    here = reader(agent(0, picture((3, 20, 30), png(PIXELS), name="camera")))
    with pytest.raises(ProtocolError, match=r"behavior 'Ball', agent 5: observation 'camera': its PNG is cut off"):
        here.observations(infos(agent(5, picture((3, 20, 30), png(PIXELS)[:-5], name="camera"))))
