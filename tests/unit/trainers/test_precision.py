"""bfloat16 and torch.compile change how fast a gradient is worked out, and by how much it is rounded."""

from typing import Any

import pytest
import torch
from tiny_envs import CPU, behavior_settings, spec_of
from torch import Tensor

from palaestra.core.row_index import Sequences
from palaestra.core.specs import BehaviorSpec
from palaestra.data.rollout import Minibatch
from palaestra.trainers import forward
from palaestra.trainers.ppo import PPO, Coefficients

SPECS = {
    "vector": (spec_of((6,), continuous=2), {}),
    "memory": (spec_of((6,), continuous=2), {"memory": {"sequence_length": 4, "memory_size": 8}}),
    "image": (spec_of((3, 36, 36), branches=(3,)), {"vis_encode_type": "nature_cnn"}),
}


def gradient(spec: BehaviorSpec, network: dict[str, Any]) -> tuple[PPO, Tensor]:
    """Of one minibatch of 16 rows, and the trainer that works it out."""
    ppo = PPO(spec, behavior_settings(network=network), CPU, 0)
    torch.manual_seed(1)
    obs = tuple(torch.rand(16, *one.shape) for one in spec.obs)
    components = spec.action.components
    sequences = Sequences(4, torch.arange(16), torch.zeros(4, ppo.network.memory_size)) if ppo.network.memory else None
    rows = Minibatch(
        inputs=ppo.network.prepare(obs),
        continuous=torch.randn(16, spec.action.continuous),
        discrete=torch.zeros(16, len(spec.action.branches), dtype=torch.int64),
        log_prob=torch.full((16, components), -1.0),
        advantage=torch.randn(16),
        value=torch.zeros(16, 1),
        target=torch.randn(16, 1),
        mask=None,
        sequences=sequences,
    )
    ppo.gradient(rows, Coefficients(3e-4, 0.2, 0.01, 0.5, False))
    return ppo, torch.cat([p.grad.flatten() for p in ppo.network.parameters() if p.grad is not None])


@pytest.mark.parametrize("kind", SPECS)
def test_a_gradient_in_bfloat16_is_that_in_float32_rounded(kind: str):
    spec, network = SPECS[kind]
    _, exact = gradient(spec, {**network, "bfloat16": False})
    ppo, rounded = gradient(spec, {**network, "bfloat16": True})
    assert rounded.dtype == torch.float32
    assert all(p.dtype == torch.float32 for p in ppo.network.parameters())
    error = (rounded - exact).norm() / exact.norm()
    assert 1e-5 < error < 0.05


@pytest.mark.parametrize(
    ("kind", "units", "expected"), [("image", True, True), ("image", False, False), ("memory", True, False)]
)
def test_unless_told_only_large_encoders_are_rounded_and_only_where_the_processor_can(
    kind: str, units: bool, expected: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(forward, "has_bfloat16", lambda device: units)
    spec, network = SPECS[kind]
    trainer = PPO(spec, behavior_settings(network=network), CPU, 0)
    assert not trainer.has_closed_form
    assert trainer.forward.bfloat16 is expected


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's compiler warns of parts of torch
def test_a_compiled_network_gives_the_same_gradient():
    spec, network = SPECS["vector"]
    _, plain = gradient(spec, network)
    ppo, compiled = gradient(spec, {**network, "compile": True})
    assert not ppo.has_closed_form
    torch.testing.assert_close(compiled, plain, rtol=1e-4, atol=1e-6)
