"""What trainers save, and the random streams among it."""

from typing import Any

import pytest
import torch
from tiny_envs import CPU, behavior_settings, spec_of

from palaestra.models.optimizer import Adam
from palaestra.parallel.rank_group import ALONE
from palaestra.runtime.collect.random_streams import streams_of
from palaestra.trainers.base import make_trainer
from palaestra.trainers.trainer_setup import Parts, seeded_generator


def test_parts_go_on_with_the_same_numbers_and_those_that_are_none_are_left_out():
    def made(seed: int) -> tuple[Parts, Adam, torch.Generator]:
        weight = torch.ones(2)
        weight.grad = torch.tensor([1.0, -2.0])
        optimizer = Adam([weight], 0.1)
        generator = seeded_generator(CPU, seed, ALONE)
        return Parts(optimizer=optimizer, shuffle_rng=generator, behavioral_cloning=None), optimizer, generator

    parts, optimizer, generator = made(1)
    optimizer.step()
    torch.rand(3, generator=generator)
    assert parts.generators == {"shuffle_rng": generator}
    assert parts.state_dict().keys() == {"optimizer", "shuffle_rng"}
    others, other_optimizer, other_generator = made(2)
    others.load_state_dict(parts.state_dict())
    assert torch.equal(torch.rand(3, generator=generator), torch.rand(3, generator=other_generator))
    torch.testing.assert_close(optimizer.state_dict(), other_optimizer.state_dict())


def test_a_part_that_is_not_in_a_checkpoint_is_an_error_unless_the_settings_may_have_added_it():
    optimizer = Adam([torch.ones(2)], 0.1)
    with pytest.raises(KeyError, match="signals"):
        Parts(signals=optimizer).load_state_dict({})
    Parts(behavioral_cloning=optimizer).load_state_dict({})


@pytest.mark.parametrize(
    ("trainer", "hyper", "streams"),
    [
        ("ppo", {}, {"action_rng", "shuffle_rng"}),
        ("poca", {}, {"action_rng", "shuffle_rng"}),
        ("sac", {"buffer_size": 100}, {"action_rng", "replay_rng", "gradient_rng"}),
        ("bc", {"teacher": "heuristic"}, {"action_rng", "shuffle_rng"}),
    ],
)
def test_the_random_streams_of_a_trainer_are_found_and_saved(trainer: str, hyper: dict[str, Any], streams: set[str]):
    settings = behavior_settings(hyper, trainer_type=trainer)
    made = make_trainer(spec_of((2,), continuous=1), settings, CPU, 0)
    assert len(list(streams_of(made))) == len(streams)
    assert made.state_dict().keys() >= streams
