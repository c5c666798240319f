from __future__ import annotations

import pytest
import torch
from recall_env import Recall

from palaestra.core.timestep import Action
from palaestra.testing import check_env


def answered(env: Recall, choices: torch.Tensor):
    return env.step({"Recall": Action(torch.zeros(len(choices), 0), choices[:, None])})["Recall"]


@pytest.mark.parametrize(
    "env",
    [Recall(4), Recall(4, image=True), Recall(3, (5, 2), pauses=True)],
    ids=["steady", "with images", "with pauses"],
)
def test_it_keeps_the_contract(env: Recall):
    check_env(env, ticks=110)


def test_the_bit_is_seen_once_and_rewarded_after_the_wait():
    env = Recall(40, (3,))
    step = env.reset(0)["Recall"]
    bit = (step.obs[0][:, 0] > 0).long()
    for decision in range(5):
        assert step.obs[0][:, 0].any() == (decision == 0)
        assert step.obs[0][:, 1].any() == (0 < decision < 4)
        assert step.obs[0][:, 2].tolist() == [float(decision == 4)] * 40
        step = answered(env, bit)
    assert step.reward.tolist() == [1.0] * 40
    assert step.terminated.all()
    assert step.obs[0][:, 0].abs().tolist() == [1.0] * 40


def test_the_other_bit_costs_one():
    env = Recall(40, (1,), image=True)
    image = env.reset(0)["Recall"].obs[0]
    bit = (image[:, 0, 0, -1] > 0).long()
    for _ in range(3):
        step = answered(env, 1 - bit)
    assert step.reward.tolist() == [-1.0] * 40


def test_each_agent_of_an_area_waits_for_its_own_time_however_often_it_pauses():
    env = Recall(6, (4, 1), pauses=True)
    step = env.reset(3)["Recall"]
    decisions = torch.zeros(12, dtype=torch.int64)
    lengths = [set[int](), set[int]()]
    for _ in range(200):
        decisions += step.acting.long()
        step = answered(env, torch.zeros(12, dtype=torch.int64))
        for slot in step.terminated.nonzero()[:, 0].tolist():
            lengths[slot % 2].add(int(decisions[slot]))
            decisions[slot] = 0
    assert lengths == [{6}, {3}]
