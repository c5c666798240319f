import torch
from torch.testing import assert_close

from palaestra.losses.poca import group_returns, share_explained
from palaestra.losses.returns import gae


def test_returns_of_a_chain_worked_by_hand():
    found = group_returns(torch.tensor([0.0, 0.5, 1.0]), torch.tensor([2.0, 4.0, 0.0]), torch.tensor([1, 2, -1]), gamma=0.5, gae_lambda=0.5)
    # last: 1; before: 0.5 + 0.5 (0.5 * 4 + 0.5 * 1) = 1.75; first: 0.5 (0.5 * 2 + 0.5 * 1.75) = 0.9375
    assert_close(found, torch.tensor([0.9375, 1.75, 1.0]))


def test_two_may_have_one_heir():
    found = group_returns(torch.zeros(3) + 1, torch.zeros(3), torch.tensor([2, 2, -1]), gamma=0.5, gae_lambda=1.0)
    assert_close(found, torch.tensor([1.5, 1.5, 1.0]))


def test_without_an_heir_the_value_of_what_followed_stands_for_all():
    assert_close(group_returns(torch.ones(1), torch.full((1,), 3.0), torch.tensor([-1]), gamma=0.9, gae_lambda=0.95), torch.tensor([3.7]))


def test_where_nobody_has_mates_returns_are_those_of_gae():
    generator = torch.Generator().manual_seed(0)
    reward, value, following = torch.randn(3, 200, 4, generator=generator).unbind()
    cut = torch.rand(200, 4, generator=generator) < 0.05
    cut[-1] = True
    following = torch.where(cut, following, torch.cat([value[1:], value[:1]]))
    expected = gae(reward, value, following, cut, gamma=0.99, gae_lambda=0.95) + value
    heir = torch.where(cut, -1, torch.arange(800).view(200, 4) + 4)
    found = group_returns(reward.flatten(), following.flatten(), heir.flatten(), gamma=0.99, gae_lambda=0.95)
    assert_close(found.view(200, 4), expected)


def test_the_share_of_a_part_that_is_taken_away_worked_by_hand():
    left = torch.tensor([[1.0, 4.0, 0.0], [2.0, 0.0, 1.0], [3.0, 2.0, 5.0]])
    part = torch.tensor([[0.0, 5.0, 1.0], [4.0, 1.0, 2.0], [8.0, 3.0, 3.0]])
    # part less its mean: -4, 0, 4; 2, -2, 0; -1, 0, 1. Products with left: 8, 8 and 5; of its own: 32, 8 and 2, so that the last is 2.5
    assert_close(share_explained(left, part), torch.tensor([0.25, 1.0, 1.0]))
    assert_close(share_explained(-left, part), torch.zeros(3))


def test_what_never_changes_and_what_is_not_there_explains_nothing():
    assert_close(share_explained(torch.tensor([[1.0], [2.0]]), torch.ones(2, 1)), torch.zeros(1))
    assert_close(share_explained(torch.zeros(0, 2), torch.zeros(0, 2)), torch.zeros(2))


def test_noise_is_not_followed():
    noise = torch.randn(2, 100_000, 1, generator=torch.Generator().manual_seed(0))
    assert share_explained(noise[0], noise[1]).item() < 0.01
    assert_close(share_explained(noise[0], 2 * noise[0] + noise[1]), torch.tensor([0.4]), atol=0.01, rtol=0)
