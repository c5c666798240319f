import math
from pathlib import Path
from typing import Any

import pytest
import torch
from any_transitions import CPU, EVERYTHING, seen_as, transitions, vector_spec
from demo_files import episodes, write
from torch import Tensor
from torch.testing import assert_close

from palaestra.core.errors import DemoError
from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Action
from palaestra.rewards.demonstrations import Demonstrations
from palaestra.rewards.expert_decisions import Decisions
from palaestra.rewards.gail import GAIL, Bottleneck, Discriminator, steepness
from palaestra.rewards.settings import GAILSettings

VECTOR = vector_spec(2, continuous=1)


def gail(path: Path, spec: BehaviorSpec = VECTOR, seed: int = 0, rate: float = 3e-3, **settings: Any) -> GAIL:
    """With demonstrations of 15 decisions."""
    demo = write(path / "a.demo", episodes(10, 5, spec=spec), spec)
    tree = {
        "network_settings": {"hidden_units": 32, "num_layers": 2},
        "learning_rate": rate,
        "demo_path": str(demo),
        **settings,
    }
    return GAIL(GAILSettings.model_validate(tree), spec, CPU, seed)


def shown(signal: GAIL, obs: Tensor, numbers: Tensor | None = None) -> GAIL:
    """With other demonstrations: these views (N, 2) and numbers (N, 1)."""
    rows = len(obs)
    action = Action(torch.zeros(rows, 1) if numbers is None else numbers, torch.zeros(rows, 0, dtype=torch.int64))
    never = torch.zeros(rows, dtype=torch.bool)
    signal.demonstrations = Demonstrations(Decisions((obs,), action, None), never, never)
    return signal


def normal(rows: int, generator: torch.Generator) -> Tensor:
    return torch.randn(rows, 2, generator=generator)


@pytest.mark.parametrize("vail", [False, True])
def test_where_expert_and_policy_are_one_d_settles_at_a_half(vail: bool, tmp_path: Path):
    generator = torch.Generator().manual_seed(0)
    signal = shown(gail(tmp_path, use_vail=vail), normal(4000, generator))
    for step in range(400):
        if step == 300:
            signal.optimizer._optimizer.learning_rate = 3e-4
        losses = signal.learn(seen_as(normal(256, generator)))
    with torch.no_grad():
        reward = signal.reward(seen_as(normal(1000, generator)))
    assert reward.mean().item() == pytest.approx(math.log(2), abs=0.05)
    assert reward.std() < 0.15
    assert losses["Losses/GAIL Loss"].item() == pytest.approx(2 * math.log(2), abs=0.1)
    for whose in ("Policy", "Expert"):
        assert losses[f"Policy/GAIL {whose} Estimate"].item() == pytest.approx(0.5, abs=0.05)


def test_where_they_differ_it_tells_one_from_the_other(tmp_path: Path):
    generator = torch.Generator().manual_seed(0)
    signal = shown(gail(tmp_path), normal(4000, generator) + 3)
    for _ in range(200):
        losses = signal.learn(seen_as(normal(128, generator) - 3))
    assert losses["Policy/GAIL Expert Estimate"] > 0.95
    assert losses["Policy/GAIL Policy Estimate"] < 0.05
    with torch.no_grad():
        assert (
            signal.reward(seen_as(normal(9, generator) + 3)).min()
            > 20 * signal.reward(seen_as(normal(9, generator) - 3)).max()
        )


@pytest.mark.parametrize("use_actions", [False, True])
def test_it_sees_what_was_done_only_with_use_actions(use_actions: bool, tmp_path: Path):
    generator = torch.Generator().manual_seed(0)
    signal = shown(gail(tmp_path, use_actions=use_actions), normal(4000, generator), torch.ones(4000, 1))
    for _ in range(200):
        losses = signal.learn(seen_as(normal(128, generator), -torch.ones(128, 1)))
    apart = (losses["Policy/GAIL Expert Estimate"] - losses["Policy/GAIL Policy Estimate"]).item()
    assert apart > 0.8 if use_actions else abs(apart) < 0.1


def test_the_reward_is_minus_the_logarithm_of_1_minus_d_and_never_infinite(tmp_path: Path):
    signal = gail(tmp_path, EVERYTHING, use_actions=True)
    batch = transitions(EVERYTHING, 6)
    d = signal.model.logit(signal.model.features(signal.model.evidence(batch.obs, batch.action, batch.ended))).sigmoid()
    assert_close(signal.reward(batch), -torch.log(1 - d))
    with torch.no_grad():
        signal.model.verdict.bias.fill_(200)
    assert signal.reward(batch).tolist() == pytest.approx([-math.log(1e-7)] * 6)


@pytest.mark.parametrize(("slope", "penalty"), [(2.0, 0.0), (20.0, 16.0)])
def test_a_linear_discriminator_pays_for_what_its_slope_is_above_1(slope: float, penalty: float):
    settings = GAILSettings(demo_path="").network_settings.model_copy(update={"hidden_units": 1, "num_layers": 1})
    model = Discriminator(VECTOR, settings, actions=True, bottleneck=False)
    # as far from 0 Swish is the identity: the logit is the sum of all four numbers times slope / 2
    with torch.no_grad():
        model.trunk.body.weights[0].fill_(slope / 2)
        model.trunk.body.biases[0].fill_(1000.0)
        model.verdict.weight.fill_(1.0)
        model.verdict.bias.fill_(-1000.0)
    here = (torch.zeros(3, 2), torch.zeros(3, 2))
    # D is ½ there, so that it rises by ¼ of the logit's slope, whose length is sqrt(4) * slope / 2
    assert_close(steepness(model, here, here, torch.Generator()), torch.tensor(penalty))


def test_the_slope_is_that_over_all_observations_and_the_action_at_once(tmp_path: Path):
    signal = gail(tmp_path, EVERYTHING, use_actions=True)
    ours = transitions(EVERYTHING, 5)
    theirs = transitions(EVERYTHING, 5, seed=1)
    model = signal.model
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)
    one, other = (model.evidence(batch.obs, batch.action, batch.ended) for batch in (ours, theirs))
    share = torch.rand(5, generator=torch.Generator().manual_seed(4))
    steep = []
    for row in range(5):
        parts = [
            (a[row : row + 1] + share[row] * (b - a)[row : row + 1]).requires_grad_()
            for a, b in zip(one, other, strict=True)
        ]
        d = model.logit(model.features(tuple(parts))).sigmoid()
        slope = torch.cat([grad.flatten() for grad in torch.autograd.grad(d, parts)])
        steep.append((slope.norm() - 1).clamp(min=0).square())
    assert sum(steep) > 0
    assert_close(
        steepness(model, one, other, torch.Generator().manual_seed(4)), torch.stack(steep).mean(), rtol=1e-3, atol=1e-6
    )


def test_beta_follows_what_a_bottleneck_lets_through_beyond_half_a_nat(tmp_path: Path):
    generator = torch.Generator().manual_seed(0)
    signal = shown(gail(tmp_path, use_vail=True), normal(4000, generator) + 3)
    beta = 0.0
    for _ in range(100):
        losses = signal.learn(seen_as(normal(64, generator) - 3))
        assert losses["Policy/GAIL Beta"].item() == pytest.approx(beta)
        beta = max(0.0, beta + 5e-4 * (losses["Losses/GAIL KL Loss"].item() - 0.5))
    assert beta > 0.05  # they are easily told apart, by as many nats as it is let


def test_the_divergence_of_codes_is_that_of_normal_distributions():
    bottleneck = Bottleneck(4)
    with torch.no_grad():
        bottleneck.log_deviation.normal_()
    mean = torch.randn(5, 128)
    codes, standard = (
        torch.distributions.Normal(*pair) for pair in ((mean, bottleneck.log_deviation.exp().expand(5, -1)), (0.0, 1.0))
    )
    expected = torch.distributions.kl_divergence(codes, standard).sum(1).mean()
    assert_close(bottleneck.nats(mean), expected)


def test_a_demonstration_of_other_agents_is_refused(tmp_path: Path):
    other = write(tmp_path / "b.demo", episodes(3, spec=vector_spec(3, continuous=1)), vector_spec(3, continuous=1))
    with pytest.raises(DemoError, match=r"(?s)other agents.*vector \(3\).*vector \(2\)"):
        GAIL(GAILSettings(demo_path=str(other)), VECTOR, CPU, 0)
