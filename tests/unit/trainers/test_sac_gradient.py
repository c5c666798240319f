"""SAC's gradient by the chain rule is autograd's, and so are the steps taken with it."""

from typing import Any

import pytest
import torch
from tiny_envs import CPU, spec_of
from torch import Tensor

from palaestra.core.metrics import Metrics
from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Action
from palaestra.data.replay import ReplayBatch
from palaestra.trainers.behavior_settings import BehaviorSettings
from palaestra.trainers.sac import SAC
from palaestra.trainers.sac_gradient import SoftGradient
from palaestra.trainers.soft.sac_closed_form import ClosedFormGradient

EXTRINSIC = {"extrinsic": {"gamma": 0.99, "strength": 0.5}}
THREE = {**EXTRINSIC, "rnd": {"gamma": 0.9, "strength": 0.1}, "curiosity": {"gamma": 0.8, "strength": 0.1}}
KINDS: dict[str, tuple[BehaviorSpec, bool, dict[str, Any]]] = {
    "continuous": (spec_of((8,), continuous=2), False, EXTRINSIC),
    "branches": (spec_of((8,), branches=(3, 2, 4)), True, EXTRINSIC),
    "hybrid": (spec_of((8,), continuous=3, branches=(3, 2, 4)), True, THREE),
    "image": (spec_of((2, 20, 20), (3,), continuous=2, branches=(2,)), False, EXTRINSIC),
    "image, branches": (spec_of((2, 20, 20), branches=(3,)), True, EXTRINSIC),
    "entities": (spec_of((5,), (4, 3), continuous=2), False, EXTRINSIC),
    "numbers for the critics alone": (spec_of((5,), (3,), continuous=2), False, EXTRINSIC),
    "an image for the critics alone": (spec_of((5,), (2, 20, 20), continuous=2), False, EXTRINSIC),
}


class AutogradSAC(SAC):
    """SAC with a loss of its own, though the same."""

    def critic_loss(self, taken: Tensor, target: Tensor, batch: ReplayBatch) -> Tensor:
        return super().critic_loss(taken, target, batch)


def made(
    kind: type[SAC], spec: BehaviorSpec, signals: dict[str, Any], hyper: dict[str, Any] | None = None, **network: Any
) -> SAC:
    settings = {
        "trainer_type": "sac",
        "hyperparameters": {
            "batch_size": 32,
            "buffer_size": 2000,
            "learning_rate": 3e-3,
            "init_entcoef": 0.5,
            **(hyper or {}),
        },
        "network_settings": {"hidden_units": 32, "normalize": True, **network},
        "reward_signals": signals,
    }
    return kind(spec, BehaviorSettings.model_validate(settings), CPU, 3)


def drawn(spec: BehaviorSpec, rows: int, masked: bool, seed: int) -> ReplayBatch:
    """A minibatch of noise, as from a replay."""
    chance = torch.Generator().manual_seed(seed)
    action = spec.action
    mask = torch.rand(2 * rows, action.choices, generator=chance) < 0.6
    mask[:, [sum(action.branches[:i]) for i in range(len(action.branches))]] = True  # never none at all
    allowed = (mask[:rows] if masked else torch.ones_like(mask[:rows])).float()
    choices = [torch.multinomial(part, 1, generator=chance) for part in allowed.split(action.branches, 1)]
    return ReplayBatch(
        tuple(torch.rand(2 * rows, *obs.shape, generator=chance) for obs in spec.obs),
        mask if masked else None,
        slice(0, rows),
        slice(rows, 2 * rows),
        None,
        Action(
            torch.rand(rows, action.continuous, generator=chance) * 2 - 1,
            torch.cat(choices, 1) if choices else torch.zeros(rows, 0, dtype=torch.int64),
        ),
        torch.randn(rows, generator=chance),
        torch.rand(rows, generator=chance) < 0.2,
        torch.zeros(rows, dtype=torch.bool),
    )


@pytest.mark.parametrize("kind", KINDS)
def test_the_closed_form_is_autograds_gradient(kind: str):
    spec, masked, signals = KINDS[kind]
    network = {"critic_only": ["o1"]} if kind.endswith("alone") else {}
    hyper = {"backup_entropy": False} if kind == "hybrid" else {}
    closed, plain = (made(each, spec, signals, hyper, **network) for each in (SAC, AutogradSAC))
    assert type(closed.gradient) is ClosedFormGradient
    assert type(plain.gradient) is SoftGradient
    chance = torch.Generator().manual_seed(0)
    for step, rows in enumerate((32, 32, 32, 1)):
        for sac in (closed, plain):
            sac.metrics = Metrics()
            sac.gradient(drawn(spec, rows, masked, step), sac, sac.metrics)
        for (name, one), other in zip(closed.network.named_parameters(), plain.network.parameters(), strict=True):
            if one.requires_grad:
                assert one.grad is not None
                scale = max(float(other.grad.abs().max()), 1e-3)  # type: ignore[union-attr]
                torch.testing.assert_close(one.grad, other.grad, rtol=1e-5, atol=4e-6 * scale, msg=name)
        torch.testing.assert_close(closed.metrics.read(), plain.metrics.read(), rtol=1e-4, atol=1e-4, equal_nan=True)
        with torch.no_grad():  # at first both critics agree, since heads are mirrored; at last deviations are bounds
            for name, weight in plain.network.named_parameters():
                weight += 0.2 * torch.randn(weight.shape, generator=chance)
                weight += 4.0 * (step == 1 and name == "action_head.bias")
        closed.network.load_state_dict(plain.network.state_dict())


@pytest.mark.parametrize("name", ["critic_loss", "actor_loss", "temperature_loss"])
def test_losses_of_a_users_own_have_autograds_gradient(name: str):
    own = type("Own", (SAC,), {name: lambda self, *arguments: getattr(SAC, name)(self, *arguments)})
    assert type(made(own, KINDS["continuous"][0], EXTRINSIC).gradient) is SoftGradient


@pytest.mark.parametrize("network", [{"memory": {"sequence_length": 4, "memory_size": 8}}, {"bfloat16": True}])
def test_memory_and_bfloat16_have_autograds_gradient(network: dict[str, Any]):
    assert type(made(SAC, KINDS["continuous"][0], EXTRINSIC, **network).gradient) is SoftGradient
