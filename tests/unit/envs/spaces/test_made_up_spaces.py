"""Made-up spaces: each is converted there and back without loss, or refused by name."""

from itertools import zip_longest
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from tiny_envs import network_settings

import palaestra
from palaestra.core.errors import EnvError
from palaestra.core.timestep import Action
from palaestra.envs.gymnasium import GymnasiumEnv
from palaestra.envs.spaces.action_spaces import SpaceActions
from palaestra.envs.spaces.observation_spaces import observation_leaves
from palaestra.models.actor_critic import ActorCritic
from palaestra.onnx_export.onnx import export

INF = np.inf
BYTES = np.uint8
F32 = np.float32


def box(low: Any, high: Any, *shape: int, dtype: Any = F32) -> spaces.Box:
    if isinstance(low, list):
        return spaces.Box(np.array(low, dtype), np.array(high, dtype), dtype=dtype)
    return spaces.Box(low, high, shape, dtype)


SEEN = {
    "vector": box(-1, 1, 3),
    "no axes": box(0, 1),
    "one number": box(-INF, INF, 1),
    "matrix of float64": box(-9, 9, 2, 3, dtype=np.float64),
    "half unbounded": box([-INF, 0], [5, INF]),
    "negative": box(-9, -8, 2),
    "huge": box(-1e30, 1e30, 2),
    "integers": box(-5, 70000, 4, dtype=np.int64),
    "bytes that are no image": box(0, 255, 7, dtype=BYTES),
    "five axes": box(0, 1, 1, 2, 1, 2, 1),
    "image HWC": box(0, 255, 20, 24, 3, dtype=BYTES),
    "image CHW": box(0, 255, 3, 20, 24, dtype=BYTES),
    "gray image": box(0, 255, 20, 24, dtype=BYTES),
    "board of 0 to 2": box(0, 2, 20, 24, dtype=BYTES),
    "binary planes": box(0, 1, 20, 24, 4, dtype=BYTES),
    "planes of 0 to 7, first axis": box(0, 7, 4, 20, 24, dtype=BYTES),
    "gray image with a channel": box(0, 255, 20, 24, 1, dtype=BYTES),
    "image of floats": box(0, 1, 20, 24, 3),
    "four stacked gray images": box(0, 255, 4, 20, 24, dtype=BYTES),
    "stacked color images": box(0, 255, 2, 20, 24, 3, dtype=BYTES),
    "Discrete from -2": spaces.Discrete(4, start=-2),
    "MultiDiscrete of two axes": spaces.MultiDiscrete([[2, 3], [4, 1]], start=[[0, -7], [5, 9]]),
    "bits of two axes": spaces.MultiBinary([2, 3]),
    "zero-size entries": spaces.Dict(nothing=box(0, 1, 0), none=spaces.Tuple(()), some=box(0, 1, 2)),
    "nested": spaces.Dict(
        arm=spaces.Tuple((spaces.Discrete(3, start=1), box(-1, 1, 2))),
        deep=spaces.Dict(a=spaces.Dict(b=spaces.MultiBinary(2))),
    ),
    "keys of integers": spaces.Dict({3: box(0, 1, 2), 1: spaces.Discrete(2)}),
    "Tuple with an image": spaces.Tuple((box(0, 255, 20, 24, 3, dtype=BYTES), box(-1, 1, 2))),
}
DONE = {
    "unit": box(-1, 1, 2),
    "asymmetric": box([-2, 0, 100], [2, 10, 101]),
    "unbounded": box(-INF, INF, 2),
    "half unbounded": box([0, -INF], [INF, 5]),
    "no axes": box(0, 3),
    "one value": box([1, -1], [1, 1]),
    "matrix of float64": box(-3, 5, 2, 2, dtype=np.float64),
    "few integers": box([-1, 4], [2, 9], dtype=np.int32),
    "many integers": box(-500, 500, 2, dtype=np.int16),
    "Discrete": spaces.Discrete(2),
    "Discrete from -3": spaces.Discrete(3, start=-3),
    "Discrete of one": spaces.Discrete(1),
    "MultiDiscrete of two axes": spaces.MultiDiscrete([[2, 3], [4, 1]], start=[[0, -7], [5, 9]]),
    "bits of two axes": spaces.MultiBinary([2, 2]),
    "nested": spaces.Dict(
        go=spaces.Tuple((box(-2, 0, 2), spaces.Discrete(3, start=1))),
        arm=spaces.Dict(a=spaces.MultiBinary(2), b=box(0, 9)),
    ),
    "Tuple of two numbers": spaces.Tuple((spaces.Discrete(5), spaces.Discrete(2, start=4))),
}
NO_SEEN = {
    "Text": (spaces.Text(5), "'observation' is a Text.*MultiDiscrete"),
    "Graph": (spaces.Dict(net=spaces.Graph(box(0, 1, 2), None)), "'net' is a Graph.*Sequence"),
    "OneOf": (
        spaces.Dict(a=spaces.Tuple((spaces.OneOf((box(0, 1, 2), spaces.Discrete(2))),))),
        r"'a\.0' is a OneOf.*alternatives",
    ),
    "Sequence of Sequence": (spaces.Sequence(spaces.Sequence(box(0, 1, 2))), "within a Sequence"),
    "nothing": (spaces.Dict(a=spaces.Tuple(()), b=box(0, 1, 0)), "holds no number"),
    "too many numbers": (box(0, 1, 3000, 3000), r"9000000 numbers.*ResizeObservation"),
    "too many values": (spaces.Discrete(2**40), "1099511627776 values"),
    "twice the same name": (
        spaces.Dict({"a.b": box(0, 1, 1), "a": spaces.Dict(b=box(0, 1, 1))}),
        r"two observations are named 'a\.b'",
    ),
}
NO_DONE = {
    "Text": (spaces.Text(5), "Text.*TransformAction"),
    "Sequence": (spaces.Dict(a=spaces.Sequence(spaces.Discrete(2))), "action 'a' is a Sequence"),
    "nothing": (spaces.Tuple((box(0, 1, 0),)), "nothing to choose"),
    "too many choices": (spaces.Discrete(2**40), "more than 65536 choices"),
    "integers without bounds": (box(-(2**62), 2**62, 2, dtype=np.int64), "of integers without bounds"),
}


class Mirror(gymnasium.Env):
    """Shows what it is told to show, and keeps the actions that it gets."""

    def __init__(self, seen: spaces.Space, done: spaces.Space) -> None:
        self.observation_space = seen
        self.action_space = done
        self.shown = list[Any]()
        self.got = list[Any]()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._show(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.got.append(action)
        return self._show(), 0.0, False, False, {}

    def _show(self) -> Any:
        self.shown.append(self.observation_space.sample())
        return self.shown[-1]


def expected(space: spaces.Space, value: Any) -> list[np.ndarray]:
    """Columns of an observation: images by hand, everything else as Gymnasium flattens it."""
    if isinstance(space, spaces.Dict):
        return [column for key, one in space.spaces.items() for column in expected(one, value[key])]
    if isinstance(space, spaces.Tuple):
        return [column for one, part in zip(space.spaces, value, strict=True) for column in expected(one, part)]
    if 0 in (space.shape or ()):
        return []
    if isinstance(space, spaces.Box) and 24 in space.shape:
        image = np.asarray(value, np.float32) / (space.high.max() if space.dtype == BYTES else 1)
        if image.shape[-1] != 24:
            image = np.moveaxis(image, -1, -3)
        return [image.reshape(-1, 20, 24)]
    return [spaces.flatten(space, value).astype(np.float32)]


PAIRS = [(seen, done) for seen, done in zip_longest(SEEN, DONE, fillvalue="Discrete")]


@pytest.mark.parametrize(("seen", "done"), PAIRS, ids=[" / ".join(pair) for pair in PAIRS])
def test_observations_and_actions_of_a_space_are_converted_there_and_back(seen: str, done: str, tmp_path: Path):
    inner = Mirror(SEEN[seen], DONE[done])
    inner.observation_space.seed(1)
    env = GymnasiumEnv.wrap(inner)
    spec = env.behaviors["Mirror"]
    torch.manual_seed(0)
    export(ActorCritic(spec, network_settings()), spec, tmp_path / "model.onnx")
    policy = palaestra.load_policy(tmp_path / "model.onnx", seed=0)

    step = env.reset(0)["Mirror"]
    for tick in range(4):
        columns = expected(inner.observation_space, inner.shown[-1])
        assert [tuple(obs.shape) for obs in spec.obs] == [column.shape for column in columns]
        for ours, column in zip(step.obs, columns, strict=True):
            np.testing.assert_allclose(ours[0].numpy(), column, rtol=1e-6)
        # the exported model takes the same observation in the environment's own form, and gives the action in that of
        # its space
        again = {"deterministic": True} if spec.action.continuous or tick % 2 else {}
        native = policy.act(inner.shown[-1], **again).native
        assert inner.action_space.contains(native), native
        flat = policy.act(inner.shown[-1], deterministic=True, rescale=False)
        chosen = Action(
            torch.from_numpy(np.zeros(0, F32) if flat.continuous is None else flat.continuous).reshape(1, -1),
            torch.from_numpy(
                np.zeros(0, np.int64) if flat.discrete is None else flat.discrete.astype(np.int64)
            ).reshape(1, -1),
        )
        step = env.step({"Mirror": chosen})["Mirror"]
        if again:
            same(inner.got[-1], native)


def same(one: Any, other: Any) -> None:
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            same(one[key], other[key])
    elif isinstance(one, tuple):
        for a, b in zip(one, other, strict=True):
            same(a, b)
    else:
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
        assert np.asarray(one).dtype == np.asarray(other).dtype


@pytest.mark.parametrize("name", DONE)
def test_the_ends_of_actions_are_the_ends_of_their_space(name: str):
    space = DONE[name]
    actions = SpaceActions(space)
    numbers = actions.spec.continuous
    sizes = np.array(actions.spec.branches, np.int64)
    ends = [
        actions.batch_arrays(np.full((1, numbers), end, F32), (sizes - 1 if end > 0 else sizes * 0)[None])
        for end in (-2.0, 2.0)
    ]
    for native in (next(iter(actions.single(end, 1))) for end in ends):
        assert space.contains(native), native
    if isinstance(space, spaces.Box) and np.isfinite([space.low, space.high]).all():
        np.testing.assert_allclose(ends[0][0], space.low)
        np.testing.assert_allclose(ends[1][0], space.high)
    if isinstance(space, spaces.MultiDiscrete | spaces.Discrete):
        np.testing.assert_array_equal(ends[0][0], space.start)


@pytest.mark.parametrize(
    ("space", "most", "scale"),
    [
        (box(0, 1, 3, 3, dtype=BYTES), 1, 1),
        (box(0, 2, 3, 3, dtype=BYTES), 2, 1 / 2),
        (box(0, 7, 8, 8, 4, dtype=BYTES), 7, 1 / 7),
        (box(0, 255, 8, 8, 3, dtype=BYTES), 255, 1 / 255),
        (box(0, 255, 8, 8, 3, dtype=np.int32), 255, 1 / 255),
        (box(0, 0, 3, 3, dtype=BYTES), 0, 1),
        (box(0, 1, 8, 8, 3), 1, 1),
    ],
)
def test_an_image_or_a_board_fills_0_to_1_whatever_its_highest_number_is(space: spaces.Box, most: int, scale: float):
    (leaf,) = observation_leaves(space)
    assert leaf.spec.raw is not None
    assert leaf.spec.raw.scale == scale
    column = leaf.column(leaf.gather([np.full(space.shape, most, space.dtype)]))
    np.testing.assert_allclose(column, min(most, 1))


@pytest.mark.parametrize("stack", [False, True])
def test_a_sequence_becomes_rows_that_begin_with_a_one(stack: bool):
    space = spaces.Dict(
        seen=spaces.Sequence(spaces.Dict(kind=spaces.Discrete(2, start=1), at=box(-9, 9, 2)), stack=stack)
    )
    elements = [{"kind": 2, "at": np.array([3, 4], F32)}, {"kind": 1, "at": np.array([5, 6], F32)}]
    value: Any = tuple(elements)
    if stack:
        value = {"kind": np.array([2, 1]), "at": np.array([[3, 4], [5, 6]], F32)}
    (leaf,) = observation_leaves(space, most=3)
    column = leaf.column(leaf.gather([value]))
    rows = {tuple(row[1:]) for row in column[0, :2].tolist()}
    keys = [key for key, _ in leaf.spec.raw.rows]  # type: ignore[union-attr]
    first = {"kind": (0, 1), "at": (3, 4)}
    second = {"kind": (1, 0), "at": (5, 6)}
    assert rows == {tuple(float(x) for key in keys for x in one[key]) for one in (first, second)}
    assert column[0, :, 0].tolist() == [1, 1, 0]
    assert column[0, 2].tolist() == [0] * 5
    (narrow,) = observation_leaves(space, most=2)
    long: Any = {"kind": np.ones(3, int), "at": np.ones((3, 2), F32)} if stack else (*elements, elements[0])
    with pytest.raises(EnvError, match=r"3 elements; there is room for 2: --set env_settings.env_options.max_elements"):
        narrow.gather([long])


@pytest.mark.parametrize("name", NO_SEEN)
def test_an_observation_space_that_cannot_be_learned_from_is_refused_by_name(name: str):
    space, reason = NO_SEEN[name]
    with pytest.raises(EnvError, match=reason):
        observation_leaves(space)


@pytest.mark.parametrize("name", NO_DONE)
def test_an_action_space_that_cannot_be_learned_is_refused_by_name(name: str):
    space, reason = NO_DONE[name]
    with pytest.raises(EnvError, match=reason):
        SpaceActions(space)


def test_an_entry_that_cannot_be_learned_from_may_be_left_out():
    space = spaces.Dict(place=box(0, 1, 2), told=spaces.Dict(mission=spaces.Text(9), kind=spaces.Discrete(3)))
    with pytest.raises(EnvError, match=r"'told.mission' is a Text.*env_options.leave_out=\[told.mission\]"):
        observation_leaves(space, leave_out=())
    assert [leaf.spec.name for leaf in observation_leaves(space, leave_out=["told.mission"])] == ["place", "told.kind"]
    assert [leaf.spec.name for leaf in observation_leaves(space, leave_out=["told"])] == ["place"]
    with pytest.raises(EnvError, match=r"no observation 'told.misson' to leave out; did you mean 'told.mission'"):
        observation_leaves(space, leave_out=["told.misson"])
