"""What soft actor-critic's networks come to as files."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.models.sac_networks import SoftActorCritic
from palaestra.models.settings import MemorySettings, NetworkSettings
from palaestra.onnx_export.check import compare
from palaestra.onnx_export.onnx import export

VECTOR = ObsSpec("vector", (4,))
IMAGE = ObsSpec("image", (3, 20, 24))
GOAL = ObsSpec("goal", (2,), goal=True)
ENTITIES = ObsSpec("e", (4, 3))
CONTINUOUS = ActionSpec(2)
DISCRETE = ActionSpec(0, (3, 2))
HYBRID = ActionSpec(2, (3, 2))


def made(spec: BehaviorSpec, memory: bool = False) -> SoftActorCritic:
    torch.manual_seed(0)
    network = SoftActorCritic(
        spec, NetworkSettings(hidden_units=16, normalize=True, memory=MemorySettings(memory_size=8) if memory else None)
    )
    with torch.no_grad():
        network.action_head.weight.mul_(20)  # far from 0, where tanh and the bounds of the deviation matter
    return network


@pytest.mark.parametrize("action", [CONTINUOUS, DISCRETE, HYBRID])
@pytest.mark.parametrize("obs", [(VECTOR,), (IMAGE, VECTOR), (VECTOR, GOAL), (VECTOR, ENTITIES)])
@pytest.mark.parametrize("memory", [False, True])
def test_a_file_answers_as_its_network(tmp_path: Path, obs: tuple[ObsSpec, ...], action: ActionSpec, memory: bool):
    spec = BehaviorSpec(obs, action)
    network = made(spec, memory)
    export(network, spec, tmp_path / "soft.onnx")
    assert compare(network, spec, tmp_path / "soft.onnx", rows=100) < 1e-4


def test_samples_have_the_networks_distribution(tmp_path: Path):
    spec = BehaviorSpec((VECTOR,), CONTINUOUS)
    network = made(spec)
    export(network, spec, tmp_path / "soft.onnx")
    obs = torch.tensor([[0.3, -0.2, 0.5, 0.1]])
    rows = 20_000
    session = onnxruntime.InferenceSession(tmp_path / "soft.onnx", providers=["CPUExecutionProvider"])
    names = ["continuous_actions", "deterministic_continuous_actions"]
    drawn, sure = (np.asarray(answer) for answer in session.run(names, {"obs_0": np.repeat(obs.numpy(), rows, 0)}))
    with torch.no_grad():
        output = network.outputs(network.prepare((obs.expand(rows, -1),)))
        sample, _ = network.draw(output, None, torch.Generator().manual_seed(0), False)
        expected = network.for_environment(sample).continuous.numpy()
        mode = network.played(output[:1]).numpy()
    np.testing.assert_allclose(sure[:1], mode, atol=1e-5)
    np.testing.assert_allclose(np.sort(drawn, 0)[::1000], np.sort(expected, 0)[::1000], atol=0.05)


def test_only_the_actor_is_in_the_file(tmp_path: Path):
    spec = BehaviorSpec((VECTOR,), CONTINUOUS)
    network = made(spec)
    export(network, spec, tmp_path / "soft.onnx")
    model = onnx.load(str(tmp_path / "soft.onnx"))
    assert sum(np.prod(x.dims) for x in model.graph.initializer) < 1.2 * sum(
        p.numel() for p in network.actor_parameters()
    )
    assert [x.name for x in model.graph.output][-3:] == [
        "continuous_actions",
        "continuous_action_output_shape",
        "deterministic_continuous_actions",
    ]
