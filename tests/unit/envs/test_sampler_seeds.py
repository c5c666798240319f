from itertools import pairwise

from palaestra.envs.sampler_seeds import sampler_seeds, spacing


def test_seeds_of_copies_are_far_apart():
    seeds = sampler_seeds(42, 64)
    assert seeds[0] == 42
    ordered = sorted(seeds)
    assert min(b - a for a, b in pairwise(ordered)) > 1_000_000
    assert max(ordered) < 2**31


def test_a_restarted_game_gets_the_seed_of_a_copy_that_does_not_exist():
    seeds = sampler_seeds(42, 15)
    restarts = range(1, 5)
    restarted = [(seed + spacing(3 * restart)) & 0x7FFFFFFF for restart in restarts for seed in seeds[:3]]
    assert restarted == seeds[3:]
