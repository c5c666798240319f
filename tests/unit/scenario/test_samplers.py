import math

import pytest
import torch

from palaestra.scenario.samplers import (
    Constant,
    Gaussian,
    MultiRangeUniform,
    Sampler,
    Stream,
    Uniform,
    key_of,
    own_seed,
    philox,
    sampler_of,
)
from palaestra.scenario.settings import SamplerSettings

LIMIT = 43.82
"""What chi-squared with 19 degrees of freedom exceeds once in a thousand."""


def stream(sampler: Sampler, seed: int = 3, parameter: str = "mass", lesson: int = 0) -> Stream:
    return Stream(sampler, key_of(seed, parameter, lesson))


def drawn(sampler: Sampler, areas: int, episodes: int, **which: int | str) -> torch.Tensor:
    """(areas, episodes)."""
    return stream(sampler, **which).drawn(torch.arange(episodes).expand(areas, episodes))  # pyright: ignore[reportArgumentType]


def chi_squared(shares: torch.Tensor) -> float:
    """Of numbers within 0..1 that should be spread evenly, in 20 bins."""
    counts = torch.histc(shares, 20, 0, 1)
    expected = len(shares) / 20
    return float(((counts - expected) ** 2 / expected).sum())


def test_philox_gives_the_words_that_its_authors_published():
    def words(number: int) -> tuple[torch.Tensor, ...]:
        return tuple(torch.tensor([number]) for _ in range(4))

    assert [int(word) for word in philox(words(0), (0, 0))] == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    full = 0xFFFFFFFF
    assert [int(word) for word in philox(words(full), (full, full))] == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]


@pytest.mark.parametrize("area", range(4))
def test_each_area_s_values_are_spread_as_the_distribution_says(area: int):
    uniform = drawn(Uniform(0.5, 10), 4, 4000)[area].double()
    normal = drawn(Gaussian(2, 3), 4, 4000)[area].double()
    several = drawn(MultiRangeUniform(((0, 1), (5, 8))), 4, 4000)[area].double()
    assert chi_squared((uniform - 0.5) / 9.5) < LIMIT
    assert chi_squared(0.5 * (1 + torch.erf((normal - 2) / (3 * math.sqrt(2))))) < LIMIT
    assert chi_squared(torch.where(several <= 1, several, several - 4) / 4) < LIMIT


def test_no_two_areas_parameters_lessons_or_seeds_share_a_stream():
    whole = Uniform(0, 1)
    others = [drawn(whole, 8, 100, **which) for which in ({}, {"parameter": "scale"}, {"lesson": 1}, {"seed": 4})]  # pyright: ignore[reportArgumentType]
    rows = torch.cat(others)
    assert len(torch.unique(rows, dim=0)) == 32
    correlation = torch.corrcoef(rows) - torch.eye(32)
    assert correlation.abs().max() < 0.45  # of 100 numbers each, 496 pairs


def test_one_range_of_several_without_width_is_as_likely_as_another():
    values = drawn(MultiRangeUniform(((1, 1), (2, 2))), 1, 4000)[0]
    assert set(values.tolist()) == {1.0, 2.0}
    assert abs(float((values == 1).float().mean()) - 0.5) < 0.03


def test_the_kth_episode_gets_the_kth_value_whichever_are_asked_for_together():
    one = stream(Gaussian(0, 1))
    whole = one.drawn(torch.arange(100).expand(3, -1))
    assert torch.equal(
        one.drawn(torch.tensor([[7, 3], [99, 0], [50, 50]])), whole.gather(1, torch.tensor([[7, 3], [99, 0], [50, 50]]))
    )


def test_values_beyond_what_an_environment_takes_are_moved_to_its_bounds():
    values = Stream(Gaussian(0, 5), key_of(0, "mass", 0), (-1, 2)).drawn(torch.arange(100)[None])
    assert values.min() == -1
    assert values.max() == 2


def test_a_seed_of_its_own_makes_a_sampler_independent_of_the_run_s():
    def settings(seed: int) -> SamplerSettings:
        return SamplerSettings.model_validate({"sampler_type": "uniform", "sampler_parameters": {"seed": seed}})

    assert own_seed(settings(7)) == 7
    assert own_seed(settings(-1)) is None
    assert own_seed(2.0) is None


def test_settings_name_their_samplers_as_ml_agents_writes_them():
    shown = {
        "uniform": ({"min_value": 1, "max_value": 2}, "Uniform sampler: min=1.0, max=2.0"),
        "gaussian": ({"mean": 3, "st_dev": 4}, "Gaussian sampler: mean=3.0, stddev=4.0"),
        "multirangeuniform": (
            {"intervals": [[0, 1], [2, 3]]},
            "MultiRangeUniform sampler: intervals=[(0.0, 1.0), (2.0, 3.0)]",
        ),
        "constant": ({"value": 5}, "Float: value=5.0"),
    }
    for kind, (numbers, text) in shown.items():
        tree = {"sampler_type": kind, "sampler_parameters": numbers}
        assert str(sampler_of(SamplerSettings.model_validate(tree))) == text
    assert sampler_of(2) == Constant(2.0)
