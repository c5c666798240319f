from __future__ import annotations

import numpy as np
import torch

from palaestra.data.device_copies import permutations, to_device


def test_orders_are_those_that_would_be_drawn_one_by_one():
    orders = permutations(7, 3, torch.Generator().manual_seed(5))
    one_by_one = torch.Generator().manual_seed(5)
    assert orders.tolist() == [torch.randperm(7, generator=one_by_one).tolist() for _ in range(3)]


def test_an_array_on_the_cpu_is_not_copied():
    array = np.arange(3)
    tensor = to_device(array, torch.device("cpu"))
    array[1] = 9
    assert tensor.tolist() == [0, 9, 2]
