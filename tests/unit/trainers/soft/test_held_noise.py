import math

import pytest
import torch
from tiny_envs import spec_of, table
from torch.testing import assert_close

from palaestra.models.sac_networks import SoftActorCritic
from palaestra.models.settings import NetworkSettings
from palaestra.trainers.soft.held_noise import HeldNoisePolicy, zeta_shares


def policy(slots: int, longest: int = 3, deterministic: bool = False) -> HeldNoisePolicy:
    torch.manual_seed(0)
    network = SoftActorCritic(spec_of((2,), continuous=2, branches=(2,)), NetworkSettings(hidden_units=8))
    return HeldNoisePolicy(network, torch.Generator().manual_seed(1), deterministic, longest=longest)


def test_the_zeta_law_is_cut_off_and_sums_to_1():
    # 1, 1/4 and 1/9 of a sum of 49/36
    assert_close(zeta_shares(3), torch.tensor([36 / 49, 45 / 49]))


@torch.no_grad()
def test_noise_is_kept_for_as_long_as_was_drawn_and_no_longer():
    acting = policy(1)
    rows = 4000
    step = table(torch.zeros(rows, 2))
    samples = torch.stack([acting.act(step).sample.continuous for _ in range(4)])
    kept = (samples[1:] == samples[:1]).all(2)  # (3, rows): still the first tick's
    shares = kept.float().mean(1)
    assert_close(shares, torch.tensor([13 / 49, 4 / 49, 0.0]), atol=0.02, rtol=0)
    fresh = samples[1][~kept[0]]
    assert fresh.unique(dim=0).shape == fresh.shape


@torch.no_grad()
def test_samples_are_the_mean_and_the_held_noise_times_the_deviation():
    acting = policy(1)
    rows = 4000
    network = acting.network
    network.action_head.weight.zero_()
    network.action_head.bias[:4] = torch.tensor([0.5, -1.0, math.log(2.0), math.log(0.25)])
    step = table(torch.zeros(rows, 2))
    for _ in range(2):
        sample = acting.act(step).sample.continuous
        noise = acting.recurrent_state[:, :2]
        assert_close(sample, torch.tensor([0.5, -1.0]) + torch.tensor([2.0, 0.25]) * noise)
        assert_close(noise.std(0), torch.ones(2), atol=0.05, rtol=0)
        assert_close(noise.mean(0), torch.zeros(2), atol=0.07, rtol=0)


@torch.no_grad()
def test_noise_ends_with_its_episode_and_is_no_part_of_what_is_learned_from():
    acting = policy(1, longest=10**4)
    steps = table(torch.zeros(2000, 2)), table(torch.zeros(2000, 2), terminated=list(range(1000)))
    before, after = (acting.act(step) for step in steps)
    same = (before.sample.continuous == after.sample.continuous).all(1)
    assert not same[:1000].any()
    assert 0.3 < same[1000:].float().mean() < 0.5  # 1 - 6 / pi²
    assert before.recurrent_state.shape == (2000, 0)
    assert acting.recurrent_state.shape == (2000, 3)


@torch.no_grad()
def test_what_is_saved_goes_on_with_the_same_noise():
    acting = policy(1, longest=50)
    step = table(torch.zeros(30, 2))
    acting.act(step)
    saved = acting.recurrent_state.clone(), acting.generator.get_state()
    blank = acting.blank(step)
    expected = [acting.act(step).sample.continuous for _ in range(5)]
    assert torch.equal(blank.sample.continuous, expected[0])
    other = policy(1, longest=50)
    other.recurrent_state = saved[0]
    other.generator.set_state(saved[1])
    assert all(torch.equal(other.act(step).sample.continuous, one) for one in expected)


@torch.no_grad()
@pytest.mark.parametrize("acts", [[True, False, True], [True] * 3])
def test_slots_that_do_not_act_keep_theirs(acts: list[bool]):
    acting = policy(1, longest=10**4)
    for _ in range(3):
        before = acting.see(table(torch.zeros(3, 2), acting=acts)).clone()
        acting.act(table(torch.zeros(3, 2), acting=acts))
        unmoved = (acting.recurrent_state == before).all(1)
        assert not unmoved[torch.tensor(acts)].any()


def test_a_deterministic_policy_has_no_noise():
    acting = policy(1, deterministic=True)
    seen = torch.rand(3, 2)
    with torch.no_grad():
        decision = acting.act(table(seen))
    network = acting.network
    with torch.no_grad():
        output = network.outputs(network.prepare((seen,)))
    assert_close(decision.sample.continuous, output[:, :2])
    assert_close(decision.action.continuous, output[:, :2].tanh())
