"""The gradient written by hand is autograd's."""

import pytest
import torch
from tiny_envs import CPU, behavior_settings, network_settings, spec_of
from torch import Tensor

from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Action
from palaestra.data.rollout import Minibatch
from palaestra.models.actor_critic import ActorCritic
from palaestra.models.distributions import log_prob_and_entropy
from palaestra.models.flat_parameters import flatten
from palaestra.trainers.forward import Forward
from palaestra.trainers.ppo import PPO, Coefficients, Losses, closed_form_gradient
from palaestra.trainers.trainer_setup import actor_critic_of

ACTIONS = {
    "continuous": {"continuous": 3},
    "one branch": {"branches": (4,)},
    "branches": {"branches": (2, 3, 4)},
    "hybrid": {"continuous": 2, "branches": (3, 2)},
    "one number, one branch": {"continuous": 1, "branches": (3,)},
}


def some_mask(rows: int, spec: BehaviorSpec) -> Tensor:
    mask = torch.rand(rows, spec.action.choices) < 0.6
    first = [sum(spec.action.branches[:i]) for i in range(len(spec.action.branches))]
    mask[:, first] = True
    return mask


def rows_of(network: ActorCritic, rows: int, masked: bool) -> Minibatch:
    """Experience whose ratios lie on both sides of the clip range, with odd parameters in the network."""
    spec = network.spec
    action = network.spec.action
    dtype = network.log_std.dtype
    for parameter in network.parameters():
        parameter.data.add_(0.2 * torch.randn_like(parameter))
    whole = getattr(network, "whole", spec)
    inputs = network.prepare(tuple(torch.randn(rows, *obs.shape, dtype=dtype) for obs in whole.obs))
    mask = some_mask(rows, spec) if masked and action.branches else None
    allowed = torch.ones(rows, action.choices) if mask is None else mask.float()
    choices = [torch.multinomial(part, 1) for part in allowed.split(action.branches, 1)] if action.branches else []
    discrete = torch.cat(choices, 1) if choices else torch.zeros(rows, 0, dtype=torch.int64)
    sample = Action(torch.randn(rows, action.continuous, dtype=dtype), discrete)
    with torch.no_grad():
        output, value = network(inputs)
        log_prob, _ = log_prob_and_entropy(output, network.log_std, mask, sample, spec.action)
    old = log_prob + 0.4 * torch.randn_like(log_prob)
    near = value + 0.3 * torch.randn_like(value)
    return Minibatch(
        inputs,
        sample.continuous,
        sample.discrete,
        old,
        torch.randn(rows, dtype=dtype),
        near,
        value + torch.randn_like(value),
        mask,
    )


def by_autograd(network: ActorCritic, rows: Minibatch, c: Coefficients) -> Losses:
    ppo = PPO(network.spec, behavior_settings(), CPU, 0)
    ppo.network = network
    ppo.forward = Forward(network.forward, bfloat16=False, compiled=False)
    ppo.has_closed_form = False
    return ppo.gradient(rows, c)


def compare(network: ActorCritic, rows: Minibatch, c: Coefficients) -> None:
    losses = by_autograd(network, rows, c)
    expected = {name: p.new_zeros(p.shape) if p.grad is None else p.grad for name, p in network.named_parameters()}
    whole = flatten(network)
    assert whole.grad is not None
    whole.grad.fill_(torch.nan)  # whatever is not written shows
    mine = closed_form_gradient(network, rows, c)
    for name, parameter in network.named_parameters():
        scale = float(expected[name].abs().max()) if expected[name].numel() else 0.0
        assert parameter.grad is not None
        torch.testing.assert_close(
            parameter.grad, expected[name], rtol=1e-6, atol=1e-6 * scale, msg=lambda text, name=name: f"{name}: {text}"
        )
    for loss in ("policy", "value", "entropy"):
        torch.testing.assert_close(getattr(mine, loss), getattr(losses, loss), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("kind", ACTIONS)
@pytest.mark.parametrize("clip_value", [False, True])
@pytest.mark.parametrize("rows", [1, 64])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("signals", [1, 2])
def test_closed_form_equals_autograd(kind: str, clip_value: bool, rows: int, shared: bool, signals: int):
    torch.manual_seed(rows + signals)
    # in float64 the comparison is of formulas, not of roundings
    network = ActorCritic(spec_of((5,), **ACTIONS[kind]), network_settings(), signals, shared).double()
    experience = rows_of(network, rows, masked=kind == "branches")
    compare(network, experience, Coefficients(3e-4, 0.2, 0.03, 0.5, clip_value))


@pytest.mark.parametrize("kind", ACTIONS)
def test_closed_form_equals_autograd_where_the_critic_sees_more(kind: str):
    torch.manual_seed(1)
    settings = behavior_settings(network={"critic_only": ["o1"]}, reward_signals={"extrinsic": {}, "rnd": {}})
    network = actor_critic_of(spec_of((5,), (3,), **ACTIONS[kind]), settings).double()
    assert network.plain
    compare(network, rows_of(network, 64, masked=True), Coefficients(3e-4, 0.2, 0.03, 0.5, clip_value=True))


def test_closed_form_equals_autograd_in_float32_to_rounding():
    torch.manual_seed(0)
    network = ActorCritic(spec_of((5,), continuous=2, branches=(3, 2)), network_settings())
    rows = rows_of(network, 64, masked=True)
    c = Coefficients(3e-4, 0.2, 0.03, 0.5, clip_value=True)
    by_autograd(network, rows, c)
    expected = torch.cat([p.grad.flatten() for p in network.parameters() if p.grad is not None])
    whole = flatten(network)
    closed_form_gradient(network, rows, c)
    torch.testing.assert_close(whole.grad, expected, rtol=1e-3, atol=1e-6)


def test_the_experience_of_these_tests_lies_on_both_sides_of_the_clip_range():
    torch.manual_seed(0)
    network = ActorCritic(spec_of((5,), continuous=3), network_settings())
    rows = rows_of(network, 64, masked=False)
    output = network.act(rows.inputs)
    log_prob, _ = log_prob_and_entropy(
        output, network.log_std, None, Action(rows.continuous, rows.discrete), network.spec.action
    )
    ratio = (log_prob - rows.log_prob).exp()
    assert (ratio < 0.8).any()
    assert (ratio > 1.2).any()
    assert ((ratio > 0.8) & (ratio < 1.2)).any()


def test_with_a_joint_ratio_the_loss_is_that_of_the_whole_action():
    ppo = PPO(
        spec_of((5,), continuous=2, branches=(3,)), behavior_settings({"joint_ratio": True, "epsilon": 0.3}), CPU, 0
    )
    torch.manual_seed(0)
    rows, c = rows_of(ppo.network, 64, masked=False), ppo.schedule(0)
    sample = Action(rows.continuous, rows.discrete)
    log_prob, _ = log_prob_and_entropy(
        ppo.network.act(rows.inputs), ppo.network.log_std, None, sample, ppo.network.spec.action
    )
    ratio = (log_prob - rows.log_prob).sum(1).exp()
    gain = torch.minimum(ratio * rows.advantage, ratio.clamp(0.7, 1.3) * rows.advantage)
    torch.testing.assert_close(ppo.gradient(rows, c).policy, -gain.mean())


def test_masked_choices_get_no_gradient():
    torch.manual_seed(0)
    network = ActorCritic(spec_of((5,), branches=(3,)), network_settings())
    rows = rows_of(network, 8, masked=False)
    mask = torch.tensor([[True, True, False]]).expand(8, 3)
    rows = Minibatch(
        rows.inputs,
        rows.continuous,
        rows.discrete.clamp(max=1),
        rows.log_prob,
        rows.advantage,
        rows.value,
        rows.target,
        mask,
    )
    flatten(network)
    closed_form_gradient(network, rows, Coefficients(3e-4, 0.2, 0.03, 0.5, False))
    assert network.action_head.bias.grad is not None
    assert float(network.action_head.bias.grad[2]) == 0.0
    assert network.action_head.bias.grad[:2].ne(0).all()
