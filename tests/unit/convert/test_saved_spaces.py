from typing import Any

import numpy as np
import pytest

from palaestra.convert.saved_spaces import Space, read_space, seen_as
from palaestra.core.errors import ExportError


def saved(kind: str, **rest: Any) -> dict[str, Any]:
    return {":type:": f"<class 'gymnasium.spaces.{kind.lower()}.{kind}'>", ":serialized:": "gASV", **rest}


def read(kind: str, **rest: Any) -> Any:
    return read_space(saved(kind, **rest), "observation space")


def test_bounds_of_a_box_are_read_number_by_number():
    box = read("Box", dtype="float32", _shape=[2], low="[-1.5e+00 -inf]", high="[inf 3.]")
    assert box.low.tolist() == [-1.5, -np.inf]
    assert box.high.tolist() == [np.inf, 3]


def test_bounds_that_are_cut_short_are_read_where_all_are_alike():
    image = read("Box", dtype="uint8", _shape=[3, 64, 64], low="[[[0 0 ... 0]]]", high="[[[255 ... 255]]]")
    assert image.is_image
    many = read("Box", dtype="float32", _shape=[2000], low="[-1. -2. ... -1.]", high="[1. 1. ... 1.]")
    assert many.low is None


def test_a_dict_is_read_as_gymnasium_prints_it():
    text = (
        "{'cam': Box(0, 255, (3, 48, 48), uint8), 'id': Discrete(5, start=2), 'arm.x': Box([-1. -2.], [1. 2.], "
        "(2,), float32)}"
    )
    parts = read("Dict", spaces=text)
    assert list(parts) == ["cam", "id", "arm.x"]
    assert parts["cam"].is_image
    assert parts["id"] == Space("Discrete", (), "int64", (5,), (2,))
    assert parts["arm.x"].high.tolist() == [1, 2]


def test_an_ordered_dict_of_older_versions_is_read():
    parts = read("Dict", spaces="OrderedDict([('b', MultiDiscrete([3 2])), ('a', MultiBinary(4))])")
    assert {name: part.sizes for name, part in parts.items()} == {"b": (3, 2), "a": (2, 2, 2, 2)}


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (None, "does not say what its observation space is"),
        (saved("Tuple"), "is a Tuple, which cannot be converted"),
        (saved("Discrete", n="many"), "a Discrete, cannot be read"),
        (saved("MultiDiscrete", nvec="[2 2 ... 2]", _shape=[2000]), "cut short"),
        (saved("Dict", spaces="{'a': Tuple(Discrete(2))}"), "'a' of the observation space is a Tuple"),
        (saved("Dict", spaces="{'a': Dict('b': Discrete(2))}"), "is a Dict"),
        (saved("Dict", spaces="{'a': Box(0, 1"), "a Dict that cannot be read"),
        (saved("Dict", spaces="{" + "'a': Discrete(2), " * 3 + "rest}"), "a Dict that cannot be read"),
    ],
)
def test_spaces_that_cannot_be_read_are_named(space: Any, message: str):
    with pytest.raises(ExportError, match=message):
        read_space(space, "observation space")


def test_integers_are_seen_one_hot_and_images_within_one():
    integers, _ = seen_as("id", Space("MultiDiscrete", (2,), "int64", (3, 2), (0, 0)))
    assert integers.shape == (5,)
    image, factor = seen_as("cam", Space("Box", (1, 8, 9), "uint8"))
    assert (image.shape, factor) == ((1, 8, 9), 255)
    assert image.raw is not None
    assert image.raw.scale == 1 / 255
    matrix, _ = seen_as("m", Space("Box", (2, 3)))
    assert matrix.shape == (6,)
