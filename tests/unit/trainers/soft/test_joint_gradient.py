"""Soft actor-critic with residual bodies, bins and a delayed policy, on problems whose answer is known."""

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from soft_problems import LENGTH, bandit, chain
from tiny_envs import CPU, spec_of
from torch import Tensor
from torch.testing import assert_close

from palaestra.core.errors import ConfigError
from palaestra.core.specs import BehaviorSpec
from palaestra.losses.categorical import bin_values
from palaestra.losses.sac import backup
from palaestra.models.sac_networks import SoftActorCritic
from palaestra.parallel.rank_group import RankGroup
from palaestra.testing import check_trainer
from palaestra.testing.check_trainer import SPECS
from palaestra.trainers.behavior_settings import BehaviorSettings
from palaestra.trainers.sac import SAC
from palaestra.trainers.soft.joint_gradient import JointGradient

GAMMA = 0.5
MODERN = {"critic_bins": 41, "policy_delay": 2, "target_deviation": 0.15, "init_entcoef": 0.01}
BODY = {"body": "residual", "num_layers": 1}
TRAINER: Any = SAC


def settings(hyper: dict[str, Any], network: dict[str, Any], **more: Any) -> BehaviorSettings:
    usual = {"batch_size": 64, "buffer_size": 2000, "learning_rate": 3e-3, "tau": 0.1, "steps_per_update": 6}
    return BehaviorSettings.model_validate(
        {
            "trainer_type": "sac",
            "hyperparameters": {**usual, **hyper},
            "network_settings": {"hidden_units": 16, **network},
            "reward_signals": {"extrinsic": {"gamma": GAMMA}},
            **more,
        }
    )


def made(spec: BehaviorSpec, hyper: dict[str, Any] = MODERN, network: dict[str, Any] = BODY, **more: Any) -> SAC:
    return SAC(spec, settings(hyper, network, **more), CPU, 0)


def gradient_of(sac: SAC) -> JointGradient:
    assert isinstance(sac.gradient, JointGradient)
    return sac.gradient


@torch.no_grad()
def values_at(sac: SAC, obs: Tensor) -> Tensor:
    """What the critics say of views (N, n) on average."""
    critics = sac.network.critics
    said = critics(critics.encoding(sac.network.prepare((obs,))), torch.zeros(len(obs), 0))
    nothing = torch.zeros(len(obs), 0)
    return gradient_of(sac)._valued((nothing, nothing, []), said).values[..., 0, 0].mean(0)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("hyper", "network", "ends"),
    [(MODERN, BODY, "terminated"), ({"policy_delay": 2}, BODY, "truncated")],
    ids=["bins", "values"],
)
def test_a_chain_is_worth_what_is_left_of_it(hyper: dict[str, Any], network: dict[str, Any], ends: str):
    sac = made(spec_of((1,), branches=(1,)), hyper, network)
    for _ in range(4):
        sac.update(chain(sac, 200, ends), 0)
    if ends == "truncated":  # it would go on for ever
        assert abs(values_at(sac, torch.rand(50, 1)).mean() - 1 / (1 - GAMMA)) < 0.1
        return
    left = torch.tensor([(1 - GAMMA ** (LENGTH - t)) / (1 - GAMMA) for t in range(LENGTH)])
    assert (values_at(sac, torch.arange(LENGTH).unsqueeze(1) / LENGTH) - left).abs().max() < 0.5


def test_the_best_action_is_found():
    sac = made(spec_of((1,), continuous=1, branches=(3, 2)), {**MODERN, "noise_hold": 4, "learning_rate": 1e-3})
    found = [sac.update(bandit(sac, 40), 0).read() for _ in range(9)][-1]
    assert {"Losses/Policy Loss", "Losses/Q2 Loss", "Policy/Entropy", "Policy/Extrinsic Value"} <= found.keys()
    sac.policy.deterministic = True
    rollout = bandit(sac, 5)
    assert (rollout.sample.discrete == torch.tensor([2, 1])).all()
    assert (rollout.sample.continuous.tanh().abs() < 0.2).all()


def test_a_delay_may_be_added_to_a_run_that_goes_on():
    before, after = (made(spec_of((1,), continuous=1), hyper, {}) for hyper in ({}, {"policy_delay": 2}))
    after.load_state_dict(before.state_dict())
    assert isinstance(after.gradient, JointGradient)
    assert not isinstance(before.gradient, JointGradient)
    before.load_state_dict(after.state_dict())


@pytest.mark.parametrize("spec", SPECS, ids=["numbers", "choices", "image", "goal", "entities"])
def test_every_kind_of_behavior_can_have_it(spec: BehaviorSpec):
    hyper = {**MODERN, "batch_size": 16, "noise_hold": 3, "critic_hidden_units": 24}
    check_trainer(TRAINER, settings(hyper, BODY), spec)


@pytest.mark.parametrize("spec", SPECS[:3], ids=["numbers", "choices", "image"])
def test_bins_go_with_memory(spec: BehaviorSpec):
    check_trainer(
        TRAINER, settings({**MODERN, "batch_size": 16}, {"memory": {"sequence_length": 5, "memory_size": 16}}), spec
    )


def test_the_target_is_the_smaller_critics_distribution_moved_as_a_value_is():
    torch.manual_seed(0)
    sac = made(spec_of((3,), continuous=2, branches=(2, 3)))
    gradient = gradient_of(sac)
    sac.update(bandit3(sac), 0)
    batch = sac.replay.draw(16, sac.replay_rng)
    reward = torch.randn(16, 1) * 0.1
    said = 0.1 * torch.randn(2, 16, 1, 5 * 41)
    drawn = gradient._valued(gradient._sample(torch.randn(16, 2 * 2 + 5), None), said)
    found = gradient._target(said, drawn, batch, reward, sac)
    value = drawn.value
    expected = backup(reward, value, batch.terminated, torch.tensor([GAMMA]), torch.tensor([False]))
    assert_close(found.sum(-1), torch.ones(16, 1))
    assert_close(found @ bin_values(41), expected, atol=1e-4, rtol=1e-4)


def bandit3(sac: SAC) -> Any:
    """A rollout of three numbers seen."""
    rollout = chain(made(spec_of((1,), continuous=2, branches=(2, 3))), 20, "terminated")
    wide = lambda x: x.expand(*x.shape[:-1], 3).contiguous()  # noqa: E731
    return type(rollout)(
        **{
            **{name: getattr(rollout, name) for name in rollout.__slots__},
            "obs": tuple(map(wide, rollout.obs)),
            "last_obs": tuple(map(wide, rollout.last_obs)),
            "final_obs": tuple(map(wide, rollout.final_obs)),
        }
    )


def test_the_policy_moves_at_every_second_step_and_weights_stay_bounded():
    sac = made(spec_of((1,), continuous=1))
    gradient = gradient_of(sac)
    sac.update(bandit(sac, 4), 0)  # has taken some
    network = sac.network
    moved = []
    for _ in range(4):
        before = network.action_head.bias.clone(), network.log_temperature.clone(), network.critics.head_bias.clone()
        gradient(sac.replay.draw(32, sac.replay_rng), sac, sac.metrics)
        now = network.action_head.bias, network.log_temperature, network.critics.head_bias
        moved.append([not torch.equal(one, other) for one, other in zip(before, now, strict=True)])
        for body in (network.body, network.critics.body):
            for weight in body.weights:
                assert_close(weight.square().sum(2), torch.ones(weight.shape[:2]))
        assert_close(network.critics.head_weight.square().sum(1), torch.ones(2, 41))
    first = moved[0][0]
    assert moved == [[first] * 2 + [True], [not first] * 2 + [True]] * 2


def test_critics_begin_with_a_gaussian_about_0_and_actors_with_a_deviation_of_1():
    network = made(spec_of((1,), continuous=2)).network
    chances = network.critics.head_bias[:, 0].softmax(1)
    values = bin_values(41)
    assert_close(chances @ values, torch.zeros(2), atol=1e-5, rtol=0)
    assert_close(chances @ values.square(), torch.ones(2), atol=1e-3, rtol=0)
    _, log_std = network.gaussian(network.action_head.bias.unsqueeze(0))
    assert_close(log_std, torch.zeros(1, 2), atol=1e-5, rtol=0)
    _, log_std = network.gaussian(torch.tensor([[0.0, 0.0, -50.0, 50.0]]))
    assert_close(log_std, torch.tensor([[-10.0, 2.0]]))


class SeveralOfThese(RankGroup):
    """As if the other ranks had 7 everywhere, and as many rows, wherever means are taken."""

    def average(self, tensors: Sequence[Tensor], rows: float) -> None:
        self.rows = rows
        for tensor in tensors:
            tensor.add_(7).div_(2)


def test_ranks_average_the_statistics_of_actor_critics_and_targets():
    group = SeveralOfThese()
    sac = SAC(spec_of((1,), continuous=1), settings(MODERN, BODY), CPU, 0, group)
    alone = made(spec_of((1,), continuous=1))
    for each in (sac, alone):
        each.update(bandit(each, 3), 0)  # no step yet
        each.gradient(each.replay.draw(32, each.replay_rng), each, each.metrics)
    assert group.rows == 32
    mine, other = (
        {name: values for name, values in each.network.named_buffers() if ".norms." in name} for each in (sac, alone)
    )
    assert {name.split(".")[0] for name in mine} == {"body", "critics", "targets"}
    for name, values in mine.items():
        assert_close(values, (other[name] + 7) / 2)


def test_a_cosine_ends_at_half_of_the_learning_rate():
    sac = made(
        spec_of((1,), continuous=1), {"learning_rate_schedule": "cosine", "learning_rate": 1.0}, {}, max_steps=100
    )
    assert [sac.schedule(x) for x in (0, 25, 50, 100, 200)] == pytest.approx(
        [1, 0.75 + 0.125 * math.sqrt(2), 0.75, 0.5, 0.5]
    )


def test_critics_have_sizes_of_their_own():
    sac = made(spec_of((1,), continuous=1), {**MODERN, "critic_hidden_units": 24, "critic_num_layers": 2})
    assert [len(body.weights) for body in (sac.network.body, sac.network.critics.body)] == [3, 5]
    assert (sac.network.width, sac.network.critics.width) == (16, 24)
    plain = made(spec_of((1,), continuous=1), {"critic_hidden_units": 24}, {})
    assert (plain.network.width, plain.network.critics.width) == (16, 24)
    assert not isinstance(plain.gradient, JointGradient)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"trainer_type": "ppo", "hyperparameters": {}},
            "body: residual learns statistics of minibatches, with the",
        ),
        ({"network_settings": {**BODY, "memory": {}}}, "body: residual has no recurrent memory"),
    ],
)
def test_where_the_residual_body_cannot_be_is_said(change: dict[str, Any], sentence: str):
    with pytest.raises(ValueError, match=sentence):
        settings({}, BODY, **change)


def test_an_own_network_without_the_bins_of_the_settings_is_refused():
    class Mine(SAC):
        @staticmethod
        def make_network(spec: BehaviorSpec, settings: BehaviorSettings) -> SoftActorCritic:
            return SoftActorCritic(spec, settings.network_settings)

    with pytest.raises(ConfigError, match=r"Mine\.make_network returned critics of 1 bins; expected critic_bins: 41;"):
        Mine(spec_of((1,), branches=(82,)), settings(MODERN, BODY), CPU, 0)


def test_an_own_loss_of_values_does_not_fit_bins():
    class Mine(SAC):
        def critic_loss(self, taken: Tensor, target: Tensor, batch: Any) -> Tensor:
            return super().critic_loss(taken, target, batch)

    with pytest.raises(ConfigError, match=r"Mine\.critic_loss compares values"):
        Mine(spec_of((1,), continuous=1), settings(MODERN, BODY), CPU, 0)
