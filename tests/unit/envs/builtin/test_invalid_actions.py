"""Actions that no agent has, in the worlds that replace them by doing nothing: the message tells what came."""

import numpy as np
import pytest
import torch

from palaestra.core.errors import EnvError
from palaestra.core.timestep import Action
from palaestra.runtime.environments.make import make_env


def given(rows: int, continuous: int, branches: int, number: float = 0.0, choice: int = 0) -> Action:
    """Returns actions that are all the same, but the first agent's are not valid."""
    action = Action(torch.zeros(rows, continuous), torch.zeros(rows, branches, dtype=torch.int64))
    action.continuous[0] = number
    action.discrete[0] = choice
    return action


@pytest.mark.parametrize(
    ("env", "number", "choice", "message"),
    [
        ("Worm", torch.nan, 0, r"action \[nan, nan, .* must be finite numbers"),
        ("FoodCollector", torch.inf, 0, r"action \[inf, inf, inf\] and \[0\] must be"),
        ("FoodCollector", 0.5, 7, r"action \[0.5, 0.5, 0.5\] and \[7\] must be"),
        ("PushBlockCollab", 0.0, 7, r"action \[7\] must be choices of branches \(7,\)"),
        ("DungeonEscape", 0.0, -1, r"action \[-1\] must be choices of branches \(7,\)"),
    ],
)
def test_the_message_has_the_action_that_came(env: str, number: float, choice: int, message: str):
    made = make_env(env, areas=1)
    (steps,) = made.reset(0).values()
    ((behavior, spec),) = made.behaviors.items()
    action = given(len(steps.acting), spec.action.continuous, len(spec.action.branches), number, choice)
    with pytest.raises(EnvError, match=rf"'{behavior}', agent 0: {message}"):
        made.step({behavior: action})


def test_the_message_has_the_action_of_the_behavior_that_was_played():
    env = make_env("WallJump", areas=24)
    steps = env.reset(0)
    wrong = Action(torch.zeros(24, 0), torch.full((24, 4), 9))
    fine = Action(torch.zeros(24, 0), torch.zeros(24, 4, dtype=torch.int64))
    assert steps["BigWallJump"].acting.any()
    with pytest.raises(EnvError, match=r"'BigWallJump', agent \d+: action \[9, 9, 9, 9\] must be choices of branches"):
        env.step({"SmallWallJump": fine, "BigWallJump": wrong})


def test_ticks_as_arrays_tell_the_same():
    env = make_env("Worm", areas=1)
    env.reset(0)
    with pytest.raises(EnvError, match=r"action \[nan, nan, .* must be finite numbers"):
        env.host_ticks.step(np.full((1, 9), np.nan, np.float32))
