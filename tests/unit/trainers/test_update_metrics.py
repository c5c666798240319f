"""What updates measure besides their losses."""

import math
from itertools import islice
from typing import Any

import pytest
import torch
from rollouts import collected
from tiny_envs import CPU, Bandit, behavior_settings
from torch.testing import assert_close

from palaestra.trainers.behavior_settings import BehaviorSettings
from palaestra.trainers.poca import POCA
from palaestra.trainers.ppo import PPO
from palaestra.trainers.sac import SAC
from palaestra.trainers.update_metrics import (
    AT_BOUNDS,
    CLIP_FRACTION,
    GRADIENT_NORM,
    KL,
    approximate_kl,
    clip_fraction,
    explained_variance,
    policy_change,
    share_at_bounds,
)

POLICY = {KL, CLIP_FRACTION}
ALWAYS = {GRADIENT_NORM, AT_BOUNDS, "Policy/Extrinsic Explained Variance"}


def measured(
    made: type[PPO] | type[POCA] | type[SAC], settings: BehaviorSettings, updates: int = 1, **actions: Any
) -> dict[str, float]:
    """Of the last of some updates in a bandit."""
    env = Bandit(8, **(actions or {"continuous": 2, "branches": (2,)}))
    trainer = made(env.behaviors["Bandit"], settings, CPU, 0)
    values: dict[str, float] = {}
    for rollout in islice(collected(env, trainer), updates):
        values = trainer.update(rollout, 0).read()
    return values


@pytest.mark.parametrize("hyper", [{}, {"max_grad_norm": 0.01}, {"joint_ratio": True}])
@pytest.mark.parametrize(("trainer", "made"), [("ppo", PPO), ("poca", POCA)])
def test_ppo_and_poca_measure_the_change_of_the_policy_and_the_gradient(
    trainer: str, made: type[PPO] | type[POCA], hyper: dict[str, Any]
):
    values = measured(made, behavior_settings({"learning_rate": 3e-3, **hyper}, trainer_type=trainer))
    assert values.keys() >= POLICY | ALWAYS
    assert 0 < values[KL] < 1
    assert 0 <= values[CLIP_FRACTION] <= 1
    assert values[GRADIENT_NORM] > 0.01  # before it is bounded
    assert values["Policy/Extrinsic Explained Variance"] <= 1


def test_a_policy_that_does_not_move_has_no_kl_and_clips_nothing():
    values = measured(PPO, behavior_settings({"learning_rate": 1e-12}))
    assert values[KL] == pytest.approx(0, abs=1e-6)
    assert values[CLIP_FRACTION] == 0


def test_a_faster_policy_has_a_larger_kl_and_clips_more():
    slow, fast = (measured(PPO, behavior_settings({"learning_rate": rate})) for rate in (1e-3, 3e-2))
    assert fast[KL] > 10 * slow[KL]
    assert fast[CLIP_FRACTION] > slow[CLIP_FRACTION]


def test_sac_measures_its_gradient_and_its_critics():
    hyper = {"batch_size": 32, "buffer_size": 500, "steps_per_update": 8}
    settings = BehaviorSettings.model_validate(
        {"trainer_type": "sac", "hyperparameters": hyper, "network_settings": {"hidden_units": 16}}
    )
    values = measured(SAC, settings, updates=10)
    assert values.keys() >= ALWAYS
    assert not values.keys() & POLICY
    assert values[GRADIENT_NORM] > 0


def test_a_policy_without_numbers_has_none_at_bounds():
    assert AT_BOUNDS not in measured(PPO, behavior_settings(), branches=(2, 2))


def test_the_change_of_the_policy_is_that_of_all_minibatches_of_a_pass():
    log_ratios = [torch.full((2, 1), log_ratio) for log_ratio in (math.log(2), math.log(0.5))]
    values = policy_change(log_ratios, 0.6)
    assert float(values[KL]) == pytest.approx(0.25)
    assert float(values[CLIP_FRACTION]) == 0.5
    assert policy_change([], 0.2) == {}


def test_an_update_knows_how_far_its_passes_are(monkeypatch: pytest.MonkeyPatch):
    shares = list[float]()
    gradient = PPO.gradient

    def noting(self: PPO, *arguments: Any) -> Any:
        shares.append(self.progress)
        return gradient(self, *arguments)

    monkeypatch.setattr(PPO, "gradient", noting)
    measured(PPO, behavior_settings({"num_epoch": 2}), updates=2)
    assert shares == [i / 8 for i in range(8)] * 2


def test_the_kl_is_the_mean_of_r_minus_1_minus_ln_r_and_adds_up_over_action_components():
    log_ratio = torch.tensor([[math.log(2.0)], [math.log(0.5)]])
    # ((2 - 1 - ln 2) + (0.5 - 1 + ln 2)) / 2
    assert float(approximate_kl(log_ratio)) == pytest.approx(0.25)
    assert float(approximate_kl(log_ratio.t())) == pytest.approx(0.5)


def test_the_kl_estimates_that_of_two_gaussians():
    """KL(N(0, 1) || N(m, s²)) = ln s + (1 + m²) / (2 s²) - 1/2."""
    mean, std = 0.3, 1.2
    sample = torch.randn(200_000, 1, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    old = torch.distributions.Normal(0.0, 1.0)
    new = torch.distributions.Normal(mean, std)
    exact = math.log(std) + (1 + mean**2) / (2 * std**2) - 0.5
    assert float(approximate_kl(new.log_prob(sample) - old.log_prob(sample))) == pytest.approx(exact, rel=0.02)


def test_the_clip_fraction_counts_ratios_on_both_sides_of_the_range():
    log_ratio = torch.tensor([[0.5, 0.79], [0.81, 1.0], [1.19, 1.21], [2.0, 1.0]]).log()
    assert float(clip_fraction(log_ratio, 0.2)) == 4 / 8


def test_explained_variance_is_one_less_the_share_that_is_left():
    target = torch.tensor([[0.0, 0.0, 5.0], [2.0, 2.0, 5.0]])
    value = torch.tensor([[10.5, 1.0, 5.0], [11.5, 1.0, 4.0]])  # half of the step, and a constant more: 1 - 0.25 / 1
    explained = explained_variance(value, target)
    assert_close(explained[:2], torch.tensor([0.75, 0.0]))
    assert math.isnan(float(explained[2]))  # all targets alike: nothing to explain


def test_values_that_mislead_explain_less_than_nothing():
    assert float(explained_variance(torch.tensor([[2.0], [0.0]]), torch.tensor([[0.0], [2.0]]))) == -3.0


def test_numbers_at_either_end_are_at_bounds():
    assert float(share_at_bounds(torch.tensor([[-1.0, 0.2], [0.995, 0.98]]))) == 0.5
