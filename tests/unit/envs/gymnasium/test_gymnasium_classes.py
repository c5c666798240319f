"""Common mistakes in a class of one's own that is to be a Gymnasium environment."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from palaestra.core.errors import EnvError
from palaestra.core.timestep import Action
from palaestra.envs.gymnasium import GymnasiumEnv
from palaestra.runtime.environments.custom_envs import as_env


class Plain(gymnasium.Env):
    """An environment whose observations and infos may be replaced."""

    shown: Any = np.zeros(2, np.float32)
    info: Any = None

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-1, 1, (2,), np.float32)
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return self.shown, {} if self.info is None else self.info

    def step(self, action):
        return self.shown, 1.0, False, False, {}


def changed(**attributes: Any) -> Plain:
    env = Plain()
    for name, value in attributes.items():
        setattr(env, name, value)
    return env


class Steps(Plain):
    """An environment whose `step` returns what is given."""

    returned: Any = None

    def step(self, action):
        return self.returned


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, "environment Steps, area 0: `step` returned None; expected obs, reward, terminated, truncated, info"),
        ((np.zeros(2), np.zeros(2), False, False, {}), "area 0: the reward has shape (2,); expected a number"),
        ((None, 1.0, False, False, {}), "area 0: observation 'observation' is None; expected an array of shape (2,)"),
    ],
)
def test_what_step_returns_in_a_wrong_form_is_named(returned: Any, message: str):
    env = GymnasiumEnv.wrap(changed_steps(returned))
    env.reset(0)
    with pytest.raises(EnvError) as error:
        env.step({env.behavior: Action(torch.zeros(1, 0), torch.zeros(1, 1, dtype=torch.int64))})
    assert message in str(error.value)


def changed_steps(returned: Any) -> Steps:
    env = Steps()
    env.returned = returned
    return env


def test_a_reset_without_return_is_named():
    env = Plain()
    env.reset = lambda *, seed=None, options=None: None
    with pytest.raises(EnvError, match="`reset` returned None; expected obs, info: does it end without `return`"):
        GymnasiumEnv.wrap(env).reset(0)


def test_a_fraction_for_a_discrete_space_is_named():
    env = changed(observation_space=spaces.Discrete(4), shown=2.5)
    with pytest.raises(EnvError, match=r"observation 'observation' is 2\.5; expected a whole number"):
        GymnasiumEnv.wrap(env).reset(0)


@pytest.mark.parametrize("attribute", ["observation_space", "action_space"])
def test_an_environment_without_a_space_is_told_which_one_it_lacks(attribute: str):
    env = changed(**{f"{attribute}s": 1})
    delattr(env, attribute)
    with pytest.raises(EnvError, match=rf"environment Plain has no `{attribute}`; did you mean '{attribute}s'"):
        GymnasiumEnv.wrap(env)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"action_space": spaces.Discrete}, "`action_space` is the class Discrete, not an instance of it"),
        ({"observation_space": None}, "`observation_space` is None; expected a space of gymnasium.spaces"),
        ({"metadata": ["rgb_array"]}, "`metadata` is ['rgb_array']; expected a dictionary"),
        ({"info": []}, "area 0: the info that `reset` returned, its second value, is []; expected a dictionary"),
        (
            {"shown": np.array([0.5, "x"], object)},
            "is 'x'; expected numbers, as its space says (entry [1] of an array of dtype object)",
        ),
    ],
)
def test_what_a_class_declares_or_returns_in_a_wrong_form_is_named(attributes: dict[str, Any], message: str):
    with pytest.raises(EnvError) as error:
        GymnasiumEnv.wrap(changed(**attributes)).reset(0)
    assert message in str(error.value)


@pytest.mark.parametrize(
    "attributes", [{"metadata": None}, {"metadata": {"render_fps": "fast"}}, {"shown": np.array([0.5, 1], object)}]
)
def test_what_is_clearly_meant_is_taken(attributes: dict[str, Any]):
    env = GymnasiumEnv.wrap(changed(**attributes))
    expected = [[0.5, 1.0]] if "shown" in attributes else [[0.0, 0.0]]
    assert env.reset(0)["Plain"].obs[0].tolist() == expected


def test_an_array_of_rows_of_numbers_is_an_array_of_numbers():
    rows = np.empty(2, object)
    rows[:] = [[0.0, 1.0], np.array([0.5, 1.0])]
    env = GymnasiumEnv.wrap(changed(observation_space=spaces.Box(-1, 1, (2, 2), np.float32), shown=rows))
    assert env.reset(0)["Plain"].obs[0].tolist() == [[0.0, 1.0, 0.5, 1.0]]


def test_a_class_that_only_looks_like_an_environment_is_told_what_to_derive_from():
    class Look:
        def reset(self) -> None: ...

        def step(self, action: int) -> None: ...

    with pytest.raises(
        EnvError, match=r"has `reset` and `step` but is no gymnasium\.Env: derive its class from gymnasium\.Env"
    ):
        as_env(Look(), None, "cpu")
