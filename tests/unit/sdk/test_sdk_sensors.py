import numpy as np
import pytest
from sdk_play import Walker, advance, exchange

from palaestra import sdk
from palaestra.core.errors import EnvError
from palaestra.sdk.agents.sensors import float_bytes


def seen(sensor: sdk.Sensor) -> np.ndarray:
    return np.frombuffer(float_bytes(sensor), np.float32).reshape(sensor.shape)


def test_a_vector_takes_numbers_bools_sequences_and_arrays():
    vector = sdk.VectorSensor(9)
    vector.add(1, 2.5, True, np.float32(4))
    vector.add((5.0, 6.0), np.array([7, 8]), [9])
    assert seen(vector).tolist() == [1, 2.5, 1, 4, 5, 6, 7, 8, 9]


def test_a_vector_of_one_takes_an_array_of_one():
    vector = sdk.VectorSensor(1)
    vector.add(np.array([3.0]))
    assert seen(vector).tolist() == [3.0]


def test_one_hot_is_one_at_its_place():
    vector = sdk.VectorSensor(4)
    vector.one_hot(2, 3)
    vector.add(9)
    assert seen(vector).tolist() == [0, 0, 1, 9]
    with pytest.raises(EnvError, match=r"one_hot\(3, 3\)"):
        vector.one_hot(3, 3)


def test_a_vector_forgets_what_was_read():
    vector = sdk.VectorSensor(1)
    vector.add(1)
    seen(vector)
    vector.add(2)
    assert seen(vector).tolist() == [2]


def test_names_are_unitys():
    assert sdk.VectorSensor(8).name == "VectorSensor_size8"
    assert sdk.VectorSensor(2, goal=True).name == "VectorSensor_size2_GoalSignal"
    assert sdk.StackedSensor(sdk.VectorSensor(8), 4).name == "StackingSensor_size4_VectorSensor_size8"


def test_stacked_observations_are_the_oldest_first_and_zeros_at_first():
    vector = sdk.VectorSensor(2)
    stacked = sdk.StackedSensor(vector, 3)
    for number in (1, 2):
        vector.add(number, -number)
        view = seen(stacked)
    assert view.tolist() == [0, 0, 1, -1, 2, -2]
    stacked.reset()
    vector.add(3, -3)
    assert seen(stacked).tolist() == [0, 0, 0, 0, 3, -3]


def test_images_are_stacked_on_the_channel_axis():
    picture = sdk.ImageSensor(2, 2, 1)
    stacked = sdk.StackedSensor(picture, 2)
    assert stacked.shape == (2, 2, 2)
    picture.write(np.ones((2, 2), np.float32))
    assert seen(stacked).tolist() == [[[0, 0], [0, 0]], [[1, 1], [1, 1]]]


def test_an_image_may_be_given_channels_last_or_first_as_bytes_or_floats():
    picture = sdk.ImageSensor(4, 5)
    rng = np.random.default_rng(0)
    levels = rng.integers(0, 256, (4, 5, 3), dtype=np.uint8)
    picture.write(levels)
    expected = seen(picture)
    assert expected.shape == (3, 4, 5)
    np.testing.assert_array_equal(expected, (levels.transpose(2, 0, 1) / 255).astype(np.float32))
    picture.write(expected)
    np.testing.assert_array_equal(seen(picture), expected)


def test_an_image_of_bytes_is_compressed_and_one_of_floats_is_not_by_default():
    for given, told, compressed in (
        (np.uint8, None, True),
        (np.float32, None, False),
        (np.uint8, False, False),
        (np.float32, True, True),
    ):
        picture = sdk.ImageSensor(2, 2, 3, compressed=told, source=lambda given=given: np.zeros((2, 2, 3), given))
        seen(picture)
        assert picture.compressed is compressed


@pytest.mark.parametrize(
    ("image", "match"),
    [
        (np.zeros((3, 3, 3)), r"shape \(3, 3, 3\); expected \(4, 5, 3\)"),
        (np.full((4, 5, 3), 2.0), "numbers from 2.0 to 2.0"),
        (np.full((4, 5, 3), np.nan), "numbers from nan"),
        (np.zeros((4, 5, 3), np.int32), "picture of int32"),
        (None, "has no picture"),
    ],
)
def test_a_picture_that_is_none_is_named(image: np.ndarray | None, match: str):
    picture = sdk.ImageSensor(4, 5, 3, "Eye")
    picture.write(image)
    with pytest.raises(EnvError, match=rf"sensor 'Eye'.*{match}"):
        picture.read()


def test_a_buffer_is_padded_with_zeros_and_leaves_out_what_is_too_much():
    buffer = sdk.BufferSensor(3, 2)
    buffer.append(1, 2)
    assert seen(buffer).tolist() == [[1, 2], [0, 0], [0, 0]]
    for number in range(5):
        buffer.append([number, number])
    assert seen(buffer).tolist() == [[0, 0], [1, 1], [2, 2]]
    with pytest.raises(EnvError, match="a row of 3 numbers; its rows have 2"):
        buffer.append(1, 2, 3)


def test_rays_are_laid_out_as_unitys():
    rays = sdk.RaySensor(("wall", "food"), rays=3)
    rays.write([("food", 0.25), None, (None, 0.5)])
    assert seen(rays).tolist() == [0, 1, 0, 0.25, 0, 0, 1, 1, 0, 0, 0, 0.5]
    rays.write([("wal", 0.1), None, None])
    with pytest.raises(EnvError, match="the tag 'wal'; it declares wall, food"):
        rays.read()
    rays.write([None])
    with pytest.raises(EnvError, match="1 of 3 rays"):
        rays.read()


class Seer(Walker):
    """Sees with everything."""

    behavior = sdk.Behavior("Seer", observations=1, continuous=1, stacked=2)

    def initialize(self) -> None:
        self.goal = self.add_sensor(sdk.VectorSensor(2, goal=True))
        self.things = self.add_sensor(sdk.BufferSensor(2, 1, "things"))
        self.eye = self.add_sensor(sdk.ImageSensor(2, 2, 1, "Camera", source=lambda: np.zeros((2, 2, 1), np.uint8)))
        self.own = self.add_sensor(Compass())

    def collect_observations(self, sensor: sdk.VectorSensor) -> None:
        sensor.add(self.at)
        self.goal.one_hot(1, 2)
        self.things.append(5)


class Compass:
    """A sensor of an author's own."""

    name = "Compass"
    shape = (2,)

    def __init__(self) -> None:
        self.resets = 0

    def read(self) -> list[float]:
        return [0.5, self.resets]

    def reset(self) -> None:
        self.resets += 1


def test_sensors_are_sorted_by_name_and_each_says_what_it_is():
    academy = sdk.Academy()
    agent = academy.add(Seer())
    (outputs,) = advance(academy).values()
    assert [(obs.name, obs.shape, obs.goal) for obs in outputs.spec.obs] == [
        ("Camera", (1, 2, 2), False),
        ("Compass", (2,), False),
        ("StackingSensor_size2_VectorSensor_size1", (2,), False),
        ("things", (2, 1), False),
        ("VectorSensor_size2_GoalSignal", (2,), True),
    ]
    assert outputs.compressed == (True, False, False, False, False)
    assert [column.tolist() for column in outputs.obs[1:]] == [
        [[0.5, 1.0]],
        [[0.0, 0.0]],
        [[[5.0], [0.0]]],
        [[0.0, 1.0]],
    ]
    assert agent.own.resets == 1


def test_stacks_are_cleared_at_the_start_of_an_episode():
    academy = sdk.Academy()
    agent = academy.add(Seer())
    outputs = exchange(academy, advance(academy), 1.0)
    assert outputs["Seer?team=0"].obs[2].tolist() == [[0.0, 1.0]]
    agent.end_episode()
    outputs = exchange(academy, outputs)
    assert outputs["Seer?team=0"].obs[2].tolist() == [[1.0, 1.0], [0.0, 0.0]]  # the end, then the next episode's first


def test_what_agents_see_is_a_copy_that_the_caller_may_keep():
    academy = sdk.Academy()
    academy.add(Walker())
    first = advance(academy)
    kept = first["Walker?team=0"].obs[0]
    exchange(academy, first, 1.0)
    assert kept.tolist() == [[0.0, 1.0]]
    assert kept.flags.writeable
