"""Actions that are missing, or of a behavior that does not exist, in each kind of environment."""

from typing import Any

import pytest
import torch

pytest.importorskip("pettingzoo", reason="needs pettingzoo: pip install 'palaestra[pettingzoo]'")
from zoo_games import Crowd

import palaestra
from palaestra.core.errors import EnvError
from palaestra.core.timestep import Action
from palaestra.envs.base import Env
from palaestra.envs.pettingzoo.env import PettingZooEnv


@pytest.fixture(params=["builtin:3DBall", "gymnasium:CartPole-v1", "pettingzoo"])
def env(request: pytest.FixtureRequest) -> Env:
    opened: Any = (
        PettingZooEnv([Crowd(2)], "crowd") if request.param == "pettingzoo" else palaestra.make(request.param, areas=2)
    )
    opened.reset(0)
    return opened


def test_missing_actions_are_refused(env: Env):
    (behavior,) = env.behaviors
    with pytest.raises(EnvError, match=rf"no actions for behavior '{behavior}' \(there are some for: none\)"):
        env.step({})


def test_actions_of_an_unknown_behavior_are_refused(env: Env):
    (behavior,) = env.behaviors
    action = Action(torch.zeros(2, 2), torch.zeros(2, 1, dtype=torch.int64))
    with pytest.raises(EnvError, match=f"actions for '{behavior}s', which is no behavior; did you mean '{behavior}'"):
        env.step({behavior: action, f"{behavior}s": action})
