"""Returns worked by hand. Every gamma and lambda is ½, so that the numbers stay short."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from palaestra.trainers.advantages import gae, horizon_ends, normalized
from palaestra.trainers.group_advantages import group_returns


def column(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float32).unsqueeze(1)


def half(reward: Tensor, value: Tensor, next_value: Tensor, cut: Tensor) -> Tensor:
    return gae(reward, value, next_value, cut.bool(), gamma=0.5, gae_lambda=0.5)


REWARD, VALUE = column(1, 2, 4), column(2, 4, 8)
GAES = {
    # deltas: 1 + 2 - 2 = 1;  2 + 4 - 4 = 2;  4 + 0 - 8 = -4
    # 1 + ¼ (2 + ¼ * -4) = 1.25;  2 + ¼ * -4 = 1;  -4
    "terminated": (column(4, 8, 0), column(0, 0, 1), column(1.25, 1, -4)),
    # the last delta is 4 + 8 - 8 = 4;  2 + ¼ * 4 = 3;  1 + ¼ * 3 = 1.75
    "truncated": (column(4, 8, 16), column(0, 0, 1), column(1.75, 3, 4)),
    "open": (column(4, 8, 16), column(0, 0, 0), column(1.75, 3, 4)),
    # deltas: 1 + 2 - 2 = 1;  2 + 3 - 4 = 1, cut here;  4 + 8 - 8 = 4
    "cut in the middle": (column(4, 6, 16), column(0, 1, 0), column(1.25, 1, 4)),
}


@pytest.mark.parametrize(("next_value", "cut", "advantage"), GAES.values(), ids=GAES)
def test_gae_of_a_stream(next_value: Tensor, cut: Tensor, advantage: Tensor):
    assert_close(half(REWARD, VALUE, next_value, cut), advantage)


def test_slots_of_one_table_end_in_their_own_ways():
    next_values, cuts, expected = (torch.cat(columns, 1) for columns in zip(*GAES.values(), strict=True))
    assert_close(half(REWARD.expand(3, 4), VALUE.expand(3, 4), next_values, cuts), expected)


def test_with_lambda_1_advantage_and_value_make_the_discounted_return():
    torch.manual_seed(0)
    reward = torch.randn(20, 1)
    value = torch.randn(20, 1)
    next_value = torch.cat([value[1:], torch.zeros(1, 1)])
    cut = torch.zeros(20, 1, dtype=torch.bool)
    advantage = gae(reward, value, next_value, cut, gamma=0.9, gae_lambda=1.0)
    discounted = sum(0.9**t * float(r) for t, r in enumerate(reward[:, 0]))
    assert float(advantage[0, 0] + value[0, 0]) == pytest.approx(discounted, rel=1e-5)


def test_after_an_end_the_horizon_counts_from_1():
    ended = torch.zeros(8, 2, dtype=torch.bool)
    ended[1, 0] = True  # the next stream is rows 2, 3, 4
    ended[2, 1] = True  # at the horizon itself: the next is rows 3, 4, 5
    cuts = horizon_ends(ended, 3)
    assert cuts[:, 0].nonzero()[:, 0].tolist() == [4, 7]
    assert cuts[:, 1].nonzero()[:, 0].tolist() == [2, 5]


@pytest.mark.parametrize("horizon", [1, 4])
def test_horizon_ends_agree_with_counting_each_slot(horizon: int):
    ended = torch.rand(50, 6, generator=torch.Generator().manual_seed(1)) < 0.15
    cuts = horizon_ends(ended, horizon)
    for slot in range(6):
        count = 0
        for tick in range(50):
            count += 1
            assert bool(cuts[tick, slot]) == (count % horizon == 0)
            count = 0 if ended[tick, slot] else count


def test_normalized_has_mean_0_and_std_1_over_all_rows():
    # mean 3, population variance 5
    assert_close(normalized(torch.tensor([0.0, 2.0, 4.0, 6.0])), torch.tensor([-3.0, -1.0, 1.0, 3.0]) / 5**0.5)


def test_equal_advantages_normalize_to_0():
    assert normalized(torch.full((5,), 2.0)).tolist() == [0.0] * 5
    assert normalized(torch.tensor([7.0])).tolist() == [0.0]


def test_group_returns_of_a_chain():
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
