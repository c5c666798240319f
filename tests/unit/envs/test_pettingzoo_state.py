"""`state()` of PettingZoo as an observation of every agent, `env_options: {state: true}`."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces

pytest.importorskip("pettingzoo", reason="needs pettingzoo: pip install 'palaestra[pettingzoo]'")
from zoo_games import Crowd, Duel, zeros

from palaestra.core.errors import EnvError
from palaestra.envs.pettingzoo.env import PettingZooEnv
from palaestra.envs.pettingzoo.opening import open_pettingzoo
from palaestra.testing import check_env


class ToldCrowd(Crowd):
    """Its state is one array, which it changes; it has no `state_space`."""

    def state(self):
        self.told = getattr(self, "told", np.zeros(2, np.float32))
        self.told[:] = 10 * self.tick, self.luck
        return self.told


class ToldDuel(Duel):
    """Its state is a Dict with the number of the turn."""

    state_space = spaces.Dict({"turn": spaces.Box(0, 99, (1,), np.float32)})

    def state(self):  # pyright: ignore[reportIncompatibleMethodOverride]
        return {"turn": np.array([self.turn], np.float32)}


def test_every_agent_of_a_parallel_game_observes_the_state_of_its_tick():
    env = PettingZooEnv([ToldCrowd(), ToldCrowd()], "crowd", {"state": True})
    assert [obs.name for obs in env.behaviors["cell"].obs] == ["clock", "me", "truth"]
    step = env.reset(0)["cell"]
    ends = 0
    for _ in range(25):
        clock, _, truth = (obs[step.acting] for obs in step.obs)
        assert torch.equal(truth, clock * torch.tensor([10, 1]))
        clock, _, truth = step.final_obs.obs
        assert torch.equal(truth, clock * torch.tensor([10, 1]))
        ends += len(truth)
        step = env.step({"cell": zeros(step, env.behaviors["cell"].action)})["cell"]
    assert ends > 10


def test_an_agent_in_turn_observes_the_state_at_its_turn():
    env = PettingZooEnv([ToldDuel(), ToldDuel()], "duel", {"state": True})
    (name,) = env.behaviors
    assert [obs.name for obs in env.behaviors[name].obs] == ["observation", "truth.turn"]
    check_env(env, 40)
    step = env.reset(0)[name]
    turns = []
    for _ in range(13):
        seen, truth = (obs[step.acting] for obs in step.obs)
        assert torch.equal(truth[:, 0], seen[:, 0])
        turns.append(int(truth[0, 0]))
        action = zeros(step, env.behaviors[name].action)
        assert step.action_mask is not None
        action.discrete[:, 0] = step.action_mask.int().argmax(1)
        step = env.step({name: action})[name]
    assert turns == [*range(12), 0]


@pytest.mark.parametrize("api", ["parallel", "aec"])
def test_the_state_of_simple_spread_is_what_all_agents_observe_together(api: str):
    pytest.importorskip("mpe2")
    env = open_pettingzoo("mpe2.simple_spread_v3", 2, {"state": True, "api": api})
    (step,) = env.reset(1).values()
    assert [obs.shape for obs in env.behaviors["agent"].obs] == [(18,), (54,)]
    first, truth = (obs[0] for obs in step.obs)
    assert torch.equal(truth[:18], first)
    check_env(env, 30)


def test_a_game_without_a_state_says_so():
    with pytest.raises(EnvError, match=r"tictactoe.*defines no `state`, which env_options\.state=true asks for"):
        open_pettingzoo("classic.tictactoe_v3", 1, {"state": True})
    with pytest.raises(EnvError, match=r"env_options\.state is 'on'; expected true or false"):
        PettingZooEnv([Crowd()], "crowd", {"state": "on"})
