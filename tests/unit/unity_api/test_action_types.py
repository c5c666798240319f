from __future__ import annotations

import numpy as np
import pytest

from palaestra.unity.base_env import ActionSpec
from palaestra.unity.exception import UnityActionException


@pytest.mark.parametrize("action", [np.zeros((1, 2), np.float32), [[0.0, 0.0]]], ids=["array", "list"])
def test_an_action_that_is_no_action_tuple_is_told_how_to_make_one(action: object):
    with pytest.raises(
        UnityActionException, match=r"takes an ActionTuple, got a .*: wrap it as ActionTuple\(continuous=array\)"
    ):
        ActionSpec(2, ()).check(action, 1, "Ball")  # pyright: ignore[reportArgumentType]


def test_a_discrete_behavior_is_told_the_discrete_part():
    with pytest.raises(UnityActionException, match=r"ActionTuple\(discrete=array\)"):
        ActionSpec(0, (3,)).check([[1]], 1, "Basic")  # pyright: ignore[reportArgumentType]
