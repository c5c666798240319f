import torch
from torch.testing import assert_close

from palaestra.models.trunk import Normalizer


def test_it_starts_as_if_it_had_seen_one_row_of_mean_0_and_variance_1():
    normalizer = Normalizer(2)
    assert (float(normalizer.count), normalizer.mean.tolist(), normalizer.m2.tolist()) == (1.0, [0.0, 0.0], [1.0, 1.0])
    assert_close(normalizer(torch.tensor([[0.5, -2.0]])), torch.tensor([[0.5, -2.0]]))


def test_an_update_worked_by_hand():
    normalizer = Normalizer(1)
    normalizer.update(torch.tensor([[2.0], [4.0]]))
    # n = 3; mean = 0 + (2 + 4) / 3 = 2; M2 = 1 + (2 - 2)(2 - 0) + (4 - 2)(4 - 0) = 9; variance 3
    assert (float(normalizer.count), float(normalizer.mean), float(normalizer.m2)) == (3.0, 2.0, 9.0)
    assert_close(normalizer(torch.tensor([[5.0]])), torch.tensor([[3 / 3**0.5]]))


def test_rows_taken_in_at_once_or_one_by_one_give_the_same():
    rows = 100 + 3 * torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
    together = Normalizer(4)
    singly = Normalizer(4)
    together.update(rows)
    for row in rows:
        singly.update(row.unsqueeze(0))
    for name, value in together.state_dict().items():
        assert_close(singly.state_dict()[name], value, rtol=1e-12, atol=0)


def test_it_clips_at_5_standard_deviations_and_does_not_change_what_it_is_given():
    x = torch.tensor([[7.0, -100.0]])
    assert Normalizer(2)(x).tolist() == [[5.0, -5.0]]
    assert x.tolist() == [[7.0, -100.0]]


def test_loading_a_state_also_through_a_module_around_it_refreshes_what_it_computes():
    old = torch.nn.ModuleDict({"inner": Normalizer(1)})
    new = torch.nn.ModuleDict({"inner": Normalizer(1)})
    inner = old["inner"]
    assert isinstance(inner, Normalizer)
    inner.update(torch.tensor([[3.0], [9.0]]))
    new.load_state_dict(old.state_dict())
    assert torch.equal(new["inner"](torch.ones(1, 1)), inner(torch.ones(1, 1)))


def test_a_row_still_counts_after_a_hundred_million_others():
    normalizer = Normalizer(1)
    normalizer.count.fill_(1e8)
    normalizer.m2.fill_(1e8)
    normalizer.update(torch.ones(1, 1))
    assert float(normalizer.mean) > 0
    assert float(normalizer.count) == 1e8 + 1
