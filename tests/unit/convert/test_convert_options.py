import pytest

from palaestra.convert.convert_options import parse_actions, parse_bounds, parse_shapes
from palaestra.core.errors import ConfigError


def test_shapes_of_vectors_and_images():
    assert parse_shapes("8, 3x84x84,2") == ((8,), (3, 84, 84), (2,))


@pytest.mark.parametrize("text", ["", "8,", "3x84", "0", "-1", "axb", "8x", "9999999999", "3,84x", "1x1x1x1"])
def test_other_shapes_are_refused(text: str):
    with pytest.raises(ConfigError, match="is no shape; expected a length such as 8"):
        parse_shapes(text)


def test_actions():
    assert parse_actions("continuous:6") == (6, None)
    assert parse_actions("discrete:3,2") == (None, (3, 2))


@pytest.mark.parametrize(
    "text",
    ["", "continuous", "continuous:", "continuous:1,2", "discrete:0", "discrete:3;2", "discret:3", "discrete:-1"],
)
def test_other_actions_are_refused(text: str):
    with pytest.raises(ConfigError, match="expected continuous:NUMBER or discrete"):
        parse_actions(text)


def test_bounds():
    assert parse_bounds([-2, 2]) == ((-2,), (2,))
    assert parse_bounds([-1, 0, 1, 0.5]) == ((-1, 0), (1, 0.5))


@pytest.mark.parametrize("numbers", [[1], [2, -2], [0, 0], [-1, 0, 1], [float("nan"), 1], [-1, float("inf")]])
def test_other_bounds_are_refused(numbers: list[float]):
    with pytest.raises(ConfigError, match="expected LOW HIGH"):
        parse_bounds(numbers)
