from __future__ import annotations

import torch
from tiny_envs import network_settings, spec_of, table
from torch.testing import assert_close

from palaestra.models.actor_critic import ActorCritic
from palaestra.models.policy import Policy


def policy(seed: int = 0, deterministic: bool = False) -> Policy:
    torch.manual_seed(0)
    network = ActorCritic(spec_of((3,), continuous=2, branches=(2,)), network_settings())
    return Policy(network, torch.Generator().manual_seed(seed), deterministic)


@torch.no_grad()
def test_a_decision_has_a_row_for_every_slot():
    decision = policy().act(table(torch.rand(5, 3), acting=[True, False, True, True, False]))
    assert decision.action.continuous.shape == (5, 2)
    assert decision.action.discrete.shape == (5, 1)
    assert decision.log_prob.shape == (5, 3)
    assert decision.memory.shape == (5, 0)
    assert decision.action.continuous.abs().max() <= 1
    assert_close(decision.sample.continuous.clamp(-3, 3) / 3, decision.action.continuous)


@torch.no_grad()
def test_a_mask_in_the_table_is_obeyed():
    mask = torch.tensor([[False, True]]).expand(200, 2)
    decision = policy().act(table(torch.rand(200, 3), mask=mask))
    assert decision.action.discrete.eq(1).all()


@torch.no_grad()
def test_the_seed_decides_what_is_drawn():
    step = table(torch.rand(5, 3))
    first, same, other = (policy(seed).act(step).sample.continuous for seed in (0, 0, 1))
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


@torch.no_grad()
def test_a_deterministic_policy_always_answers_the_same():
    step, player = table(torch.rand(5, 3)), policy(deterministic=True)
    first, second = player.act(step), player.act(step)
    assert torch.equal(first.sample.continuous, second.sample.continuous)
    assert torch.equal(first.action.discrete, second.action.discrete)
