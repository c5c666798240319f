from typing import Any

import pytest
from tiny_envs import network_settings, spec_of

from palaestra.core.specs import BehaviorSpec
from palaestra.models.actor_critic import ActorCritic
from palaestra.runtime.collect.threads import multiplications

HEADS = 16 * 2 + 16  # two means and a value
CASES: dict[str, tuple[BehaviorSpec, dict[str, Any], int]] = {
    "two bodies": (spec_of((5,), continuous=2), {}, 2 * (5 * 16 + 16 * 16) + HEADS),
    "memory": (
        spec_of((5,), continuous=2),
        {"memory": {"memory_size": 8}},
        2 * (5 * 16 + 16 * 16 + 16 * 16 + 4 * 16) + HEADS // 4,
    ),
    # 1 x 20 x 20: convolutions of 4 x 4 x 16 numbers of 64 each, and of 32 of 256; then 32 to 16
    "image": (spec_of((1, 20, 20), continuous=2), {}, 2 * (256 * 64 + 32 * 256 + 32 * 16 + 16 * 16 + 16 * 16) + HEADS),
}


@pytest.mark.parametrize("name", CASES)
def test_multiplications_are_counted_as_by_hand(name: str):
    spec, settings, expected = CASES[name]
    assert multiplications(ActorCritic(spec, network_settings(**settings))) == expected
