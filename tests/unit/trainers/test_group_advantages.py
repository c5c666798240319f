import torch
from torch.testing import assert_close

from palaestra.trainers.advantages import gae
from palaestra.trainers.group_advantages import group_returns


def test_returns_of_a_chain_worked_by_hand():
    found = group_returns(
        torch.tensor([0.0, 0.5, 1.0]),
        torch.tensor([2.0, 4.0, 0.0]),
        torch.tensor([1, 2, -1]),
        gamma=0.5,
        gae_lambda=0.5,
    )
    # last: 1; before: 0.5 + 0.5 (0.5 * 4 + 0.5 * 1) = 1.75; first: 0.5 (0.5 * 2 + 0.5 * 1.75) = 0.9375
    assert_close(found, torch.tensor([0.9375, 1.75, 1.0]))


def test_two_may_have_one_successor():
    found = group_returns(torch.zeros(3) + 1, torch.zeros(3), torch.tensor([2, 2, -1]), gamma=0.5, gae_lambda=1.0)
    assert_close(found, torch.tensor([1.5, 1.5, 1.0]))


def test_without_a_successor_the_value_of_what_followed_stands_for_all():
    assert_close(
        group_returns(torch.ones(1), torch.full((1,), 3.0), torch.tensor([-1]), gamma=0.9, gae_lambda=0.95),
        torch.tensor([3.7]),
    )


def test_where_nobody_has_mates_returns_are_those_of_gae():
    generator = torch.Generator().manual_seed(0)
    reward, value, following = torch.randn(3, 200, 4, generator=generator).unbind()
    cut = torch.rand(200, 4, generator=generator) < 0.05
    cut[-1] = True
    following = torch.where(cut, following, torch.cat([value[1:], value[:1]]))
    expected = gae(reward, value, following, cut, gamma=0.99, gae_lambda=0.95) + value
    successor = torch.where(cut, -1, torch.arange(800).view(200, 4) + 4)
    found = group_returns(reward.flatten(), following.flatten(), successor.flatten(), gamma=0.99, gae_lambda=0.95)
    assert_close(found.view(200, 4), expected)
