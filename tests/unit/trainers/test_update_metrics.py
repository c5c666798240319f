"""What updates measure besides their losses."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from tiny_envs import CPU, Bandit, behavior_settings

from palaestra.runtime.collect.collector import BehaviorCollector, Collector
from palaestra.trainers.behavior_settings import BehaviorSettings
from palaestra.trainers.poca import POCA
from palaestra.trainers.ppo import PPO
from palaestra.trainers.sac import SAC
from palaestra.trainers.update_metrics import AT_BOUNDS, CLIP_FRACTION, GRADIENT_NORM, KL, policy_change

POLICY = {KL, CLIP_FRACTION}
ALWAYS = {GRADIENT_NORM, AT_BOUNDS, "Policy/Extrinsic Explained Variance"}


def measured(
    made: type[PPO] | type[POCA] | type[SAC], settings: BehaviorSettings, updates: int = 1, **actions: Any
) -> dict[str, float]:
    """Of the last of some updates in a bandit."""
    env = Bandit(8, **(actions or {"continuous": 2, "branches": (2,)}))
    trainer = made(env.behaviors["Bandit"], settings, CPU, 0)
    collector = Collector(
        env,
        lambda name, spec: BehaviorCollector(name, spec, trainer.policy, trainer.rollout_size, trainer.needs),
        seed=0,
    )
    values: dict[str, float] = {}
    for _ in range(updates):
        values = trainer.update(collector.collect(1000, lambda: False)["Bandit"], 0).read()
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
