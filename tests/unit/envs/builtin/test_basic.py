from pathlib import Path

import pytest
import torch
from envs.builtin.worlds import act

from palaestra.core.errors import EnvError
from palaestra.demos import read_demo
from palaestra.envs.builtin.basic.env import Basic

RECORDING = Path(__file__).parents[3] / "golden" / "data" / "demos" / "unity_examples_0.15" / "ExpertBasic.demo"
NOTHING, LEFT, RIGHT = 0, 1, 2


def test_seven_moves_to_the_large_goal_earn_the_benchmark():
    env = Basic()
    first = env.reset(0)["Basic"]
    assert first.obs[0].argmax() == 10
    rewards = [act(env, RIGHT) for _ in range(7)]
    assert [round(step.reward.item(), 4) for step in rewards] == [-0.01] * 6 + [0.99]
    assert sum(step.reward.item() for step in rewards) == pytest.approx(Basic.benchmark)
    assert [step.terminated.item() for step in rewards] == [False] * 6 + [True]
    assert rewards[-1].final_obs.obs[0].argmax() == 17
    assert torch.equal(rewards[-1].obs[0], first.obs[0])


def test_three_moves_to_the_small_goal_earn_seven_hundredths():
    env = Basic(2)
    env.reset(0)
    total = torch.zeros(2)
    for _ in range(3):
        step = act(env, LEFT, NOTHING)
        total += step.reward
    torch.testing.assert_close(total, torch.tensor([0.07, -0.03]))
    assert step.terminated.tolist() == [True, False]
    assert step.final_obs.slots.tolist() == [0]
    assert step.obs[0].sum(1).tolist() == [1.0, 1.0]


def test_an_agent_that_stays_is_never_cut():
    env = Basic()
    env.reset(0)
    steps = [act(env, NOTHING) for _ in range(1000)]
    assert not any(step.truncated.item() or step.terminated.item() for step in steps)
    assert steps[-1].obs[0].argmax() == 10


def test_unitys_recording_is_replayed_place_by_place():
    env = Basic()
    decisions = 0
    for episode in read_demo(RECORDING).episodes():
        seen = env.reset(0)["Basic"].obs[0]
        for k in range(len(episode.pairs)):
            assert torch.equal(seen[0], torch.from_numpy(episode.pairs.obs[0][k]))
            step = act(env, int(episode.pairs.discrete[k, 0]))
            assert step.reward.item() == pytest.approx(episode.pairs.reward[k], abs=1e-5)
            assert step.terminated.item() == episode.pairs.terminated[k]
            seen = step.obs[0]
            decisions = decisions + 1
    assert decisions >= 70


def test_it_has_no_parameters():
    with pytest.raises(EnvError, match="no parameter 'gravity'"):
        Basic().set_parameters({"gravity": torch.ones(1)})
