import dataclasses

import pytest
import torch
from tiny_envs import network_settings, spec_of, table
from torch.testing import assert_close

from palaestra.core.specs import BehaviorSpec
from palaestra.models.actor_critic import ActorCritic
from palaestra.models.policy import NetworkPolicy

SPEC = spec_of((3,), continuous=2, branches=(2,))
LOOSE = dataclasses.replace(SPEC, steady=False)


def policy(seed: int = 0, deterministic: bool = False, spec: BehaviorSpec = SPEC) -> NetworkPolicy:
    torch.manual_seed(0)
    network = ActorCritic(spec, network_settings())
    return NetworkPolicy(network, torch.Generator().manual_seed(seed), deterministic)


@torch.no_grad()
def test_a_decision_has_a_row_for_every_slot():
    decision = policy().act(table(torch.rand(5, 3), acting=[True, False, True, True, False]))
    assert decision.action.continuous.shape == (5, 2)
    assert decision.action.discrete.shape == (5, 1)
    assert decision.log_prob.shape == (5, 3)
    assert decision.recurrent_state.shape == (5, 0)
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
    step = table(torch.rand(5, 3))
    player = policy(deterministic=True)
    first = player.act(step)
    second = player.act(step)
    assert torch.equal(first.sample.continuous, second.sample.continuous)
    assert torch.equal(first.action.discrete, second.action.discrete)


@torch.no_grad()
@pytest.mark.parametrize("masked", [False, True])
def test_where_not_all_act_those_who_do_are_answered_as_if_they_were_alone(masked: bool):
    seen = torch.rand(40, 3)
    mask = torch.tensor([[True, False]]).expand(40, 2) if masked else None
    acting = torch.rand(40) < 0.4
    step = dataclasses.replace(table(seen, mask=mask), acting=acting)
    alone = table(seen[acting], mask=None if mask is None else mask[acting])
    whole = policy(spec=LOOSE).act(step)
    expected = policy(spec=LOOSE).act(alone)
    for column, theirs in (
        (whole.action.continuous, expected.action.continuous),
        (whole.action.discrete, expected.action.discrete),
        (whole.sample.continuous, expected.sample.continuous),
        (whole.log_prob, expected.log_prob),
    ):
        assert len(column) == 40
        assert torch.equal(column[acting], theirs)
        assert not column[~acting].any()


@torch.no_grad()
def test_who_acts_not_where_they_sit_decides_what_is_drawn():
    rows = torch.rand(3, 3)
    few = policy(spec=LOOSE)
    many = policy(spec=LOOSE)
    for _ in range(3):
        wide = torch.zeros(9, 3)
        wide[[1, 4, 8]] = rows
        sparse = many.act(table(wide, acting=[slot in (1, 4, 8) for slot in range(9)]))
        dense = few.act(table(rows))
        assert torch.equal(sparse.sample.continuous[[1, 4, 8]], dense.sample.continuous)
        assert torch.equal(few.generator.get_state(), many.generator.get_state())


@torch.no_grad()
@pytest.mark.parametrize("shape", [(3,), (3, 20, 20)])
def test_nobody_acting_is_answered_with_zeros_and_draws_nothing(shape: tuple[int, ...]):
    torch.manual_seed(0)
    spec = dataclasses.replace(spec_of(shape, continuous=1, branches=(2, 3)), steady=False)
    player = NetworkPolicy(ActorCritic(spec, network_settings()), torch.Generator().manual_seed(1))
    before = player.generator.get_state()
    decision = player.act(table(torch.rand(4, *shape), acting=[False] * 4))
    assert decision.action.discrete.shape == (4, 2)
    assert not decision.log_prob.any()
    assert torch.equal(player.generator.get_state(), before)
