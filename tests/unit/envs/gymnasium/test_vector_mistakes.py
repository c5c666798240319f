"""What users read when a vector environment returns the wrong number of rows, or one of its environments fails."""

import warnings
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import batch_space

from palaestra.core.errors import EnvError
from palaestra.core.timestep import Action
from palaestra.envs.gymnasium import GymnasiumEnv

AREAS = 4


class Bent(VectorEnv):
    """Returns what `bend` makes of a right step."""

    def __init__(self, bend: Callable[..., Any], mode: AutoresetMode = AutoresetMode.SAME_STEP) -> None:
        self.bend = bend
        self.num_envs = AREAS
        self.metadata = {"autoreset_mode": mode}
        self.single_observation_space = spaces.Box(-1, 1, (2,))
        self.single_action_space = spaces.Discrete(2)
        self.observation_space = batch_space(self.single_observation_space, AREAS)
        self.action_space = batch_space(self.single_action_space, AREAS)

    def reset(self, *, seed=None, options=None):
        return np.zeros((AREAS, 2), np.float32), {"action_mask": np.ones((AREAS, 2), np.int8)}

    def step(self, actions):
        right = np.zeros((AREAS, 2), np.float32), np.zeros(AREAS), np.zeros(AREAS, bool), np.zeros(AREAS, bool)
        return self.bend(*right, {"action_mask": np.ones((AREAS, 2), np.int8)})


BENT = {
    "observations": (
        lambda o, r, t, u, i: (o[:2], r, t, u, i),
        r"observation 'observation' has 2 rows, shape \(2, 2\); expected 4, one for each area",
    ),
    "one observation": (
        lambda o, r, t, u, i: (np.float32(0), r, t, u, i),
        r"observation 'observation' has no rows, shape \(\)",
    ),
    "shape": (
        lambda o, r, t, u, i: (o[:, :1], r, t, u, i),
        r"observation 'observation' has shape \(1,\); its space says \(2,\)",
    ),
    "rewards": (
        lambda o, r, t, u, i: (o, r[:3], t, u, i),
        r"returned rewards of shape \(3,\); expected 4, one for each area",
    ),
    "terminated": (
        lambda o, r, t, u, i: (o, r, t[:1], u, i),
        r"returned `terminated` of shape \(1,\); expected \(4,\), one for each area",
    ),
    "truncated": (
        lambda o, r, t, u, i: (o, r, t, False, i),
        r"returned `truncated` of shape \(\); expected \(4,\), one for each area",
    ),
    "no flags": (
        lambda o, r, t, u, i: (o, r, [False, None, False, False], u, i),
        "area 1: `terminated` is None; expected True or False",
    ),
    "masks": (
        lambda o, r, t, u, i: (o, r, t, u, {"action_mask": i["action_mask"][:3]}),
        r"info\['action_mask'\] has masks for 3 areas; expected 4, one for each area",
    ),
}


@pytest.mark.parametrize("arrays", [False, True], ids=["tables", "arrays"])
@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("part", BENT)
def test_a_wrong_number_of_rows_is_refused_with_both_numbers(part: str, mode: AutoresetMode, arrays: bool):
    bend, message = BENT[part]
    env = GymnasiumEnv.wrap(Bent(bend, mode), "gymnasium:Bent-v0")
    env.reset(0)
    with pytest.raises(EnvError, match=f"^gymnasium:Bent-v0(, area 0)?(:|,)? {message}"):
        step(env, arrays=arrays)


@pytest.mark.parametrize(
    "flag", [np.zeros(AREAS, np.int8), [False] * AREAS, np.zeros((AREAS, 1), bool), np.zeros(AREAS)], ids=str
)
def test_flags_of_a_vector_environment_may_be_numbers(flag: Any):
    env = GymnasiumEnv.wrap(Bent(lambda o, r, t, u, i: (o, r, flag, u, i)))
    env.reset(0)
    told = env.step({env.behavior: Action(torch.zeros(AREAS, 0), torch.zeros(AREAS, 1, dtype=torch.int64))})
    assert told[env.behavior].terminated.tolist() == [False] * AREAS


def step(env: GymnasiumEnv, *, arrays: bool = False) -> None:
    if not arrays:
        env.step({env.behavior: Action(torch.zeros(AREAS, 0), torch.zeros(AREAS, 1, dtype=torch.int64))})
        return
    own = {"continuous": np.zeros((AREAS, 0), np.float32), "discrete": np.zeros((AREAS, 1), np.int64)}
    own |= {"reward": np.zeros(AREAS, np.float32), "obs0": np.zeros((AREAS, 2), np.float32)}
    env.step_arrays({env.behavior: own})


class Breaks(gymnasium.Env):
    """Raises in the third step of one copy."""

    observation_space = spaces.Box(-1, 1, (2,))
    action_space = spaces.Discrete(2)

    def __init__(self, breaks: bool) -> None:
        self.breaks = breaks
        self.ticks = 0

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.ticks += 1
        if self.breaks and self.ticks == 3:
            raise ZeroDivisionError("the wheel fell off")
        return np.zeros(2, np.float32), 0.0, False, False, {}


class OwnSync(SyncVectorEnv):
    """Not stepped one by one, as a SyncVectorEnv itself is."""


@pytest.mark.parametrize("kind", [OwnSync, SyncVectorEnv, AsyncVectorEnv])
def test_an_exception_names_the_copy_that_raised_it_with_file_and_line(kind: type[VectorEnv]):
    made: Any = kind
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python warns of forks in a process with threads
        envs = made([lambda i=i: Breaks(i == 2) for i in range(AREAS)])
    env = GymnasiumEnv.wrap(envs, "python:broken")
    env.reset(0)
    level = gymnasium.logger.min_level
    try:
        step(env)
        step(env)
        with pytest.raises(EnvError) as raised:  # and no warning, which would fail the test
            step(env)
    finally:
        env.close()
    assert "python:broken raised an error in step, area 2: ZeroDivisionError: the wheel fell off (" in str(raised.value)
    assert "test_vector_mistakes.py, line " in str(raised.value)
    if kind is AsyncVectorEnv:
        # the worker's traceback, for --debug
        assert 'raise ZeroDivisionError("the wheel fell off")' in str(raised.value.__cause__)
    assert gymnasium.logger.min_level == level


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"num_envs": "4"}, "has `num_envs` = '4'; expected how many environments it steps"),
        ({"num_envs": 0}, "has `num_envs` = 0; expected how many"),
        ({"metadata": {}}, "has no metadata['autoreset_mode']"),
        ({"spec": 5}, "`spec` is 5; gymnasium.make sets it"),
    ],
)
def test_what_a_vector_environment_declares_in_a_wrong_form_is_named(attributes: dict[str, Any], message: str):
    envs = Bent(lambda *right: right)
    vars(envs).update(attributes)
    with pytest.raises(EnvError) as error:
        GymnasiumEnv.wrap(envs)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("bend", "message"),
    [
        (lambda *right: None, "`step` returned None; expected obs, rewards, terminated, truncated, infos"),
        (lambda *right: 5, "`step` returned a int; expected five"),
        (lambda o, r, t, u, i: (o, r, t, u, None), "its fifth value, are None; expected a dictionary"),
    ],
)
def test_a_step_of_a_vector_environment_that_returns_something_else_is_named(bend: Callable[..., Any], message: str):
    env = GymnasiumEnv.wrap(Bent(bend))
    env.reset(0)
    with pytest.raises(EnvError) as error:
        env.step({env.behavior: Action(torch.zeros(AREAS, 0), torch.zeros(AREAS, 1, dtype=torch.int64))})
    assert message in str(error.value)


class DrawnVectors(Bent):
    def render(self):
        return tuple(np.full((2, 3, 3), i, np.uint8) for i in range(AREAS)) if self.render_mode else None


def test_a_vector_environment_draws_each_area_and_one_that_cannot_is_told_why():
    env = GymnasiumEnv.wrap(DrawnVectors(lambda *right: right))
    assert [env.render(area)[0, 0, 0] for area in range(AREAS)] == [0, 1, 2, 3]
    with pytest.raises(EnvError, match="its class Bent has no `render`"):
        GymnasiumEnv.wrap(Bent(lambda *right: right)).render(0)
