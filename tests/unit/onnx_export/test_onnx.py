from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper

import palaestra
from palaestra.core.errors import ExportError
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.models.actor_critic import ActorCritic
from palaestra.models.settings import NetworkSettings
from palaestra.onnx_export.check import compare
from palaestra.onnx_export.onnx import export

THEIRS = Path(__file__).parents[2] / "golden" / "data" / "onnx"
PACKAGE = "unity_package_tests_2.2.1"

VECTOR = ObsSpec("vector", (4,))
WIDE = ObsSpec("wide", (28,))
IMAGE = ObsSpec("image", (3, 20, 24))
GOAL = ObsSpec("goal", (2,), goal=True)
CONTINUOUS = ActionSpec(2)
DISCRETE = ActionSpec(0, (3,))
BRANCHES = ActionSpec(0, (3, 2, 4))
HYBRID = ActionSpec(2, (3, 2))
SMALL = NetworkSettings(hidden_units=16)
NORMALIZED = NetworkSettings(hidden_units=16, normalize=True)

CASES = {
    "continuous": ((VECTOR,), CONTINUOUS, SMALL),
    "discrete": ((VECTOR,), DISCRETE, SMALL),
    "several branches": ((VECTOR,), BRANCHES, SMALL),
    "hybrid": ((VECTOR,), HYBRID, SMALL),
    "normalized": ((VECTOR, WIDE), HYBRID, NORMALIZED),
    "visual": ((IMAGE,), DISCRETE, SMALL),
    "centered images": ((IMAGE, VECTOR), DISCRETE, NetworkSettings(hidden_units=16, center_images=True)),
    "several observations": ((IMAGE, VECTOR, ObsSpec("second", (1, 36, 20)), WIDE), HYBRID, NORMALIZED),
    "vector goal": ((VECTOR, GOAL), CONTINUOUS, SMALL),
    "goal between vectors": ((VECTOR, GOAL, WIDE, ObsSpec("other", (3,), goal=True)), HYBRID, NORMALIZED),
    "visual goal": ((VECTOR, ObsSpec("sign", (3, 20, 20), goal=True), GOAL), DISCRETE, SMALL),
    "goal as an input only": (
        (VECTOR, GOAL),
        DISCRETE,
        NetworkSettings(hidden_units=16, goal_conditioning_type="none"),
    ),
    "goal of variable length": ((VECTOR, ObsSpec("things", (4, 3), goal=True)), CONTINUOUS, SMALL),
    "goals of both kinds": ((VECTOR, ObsSpec("things", (4, 3), goal=True), GOAL), HYBRID, NORMALIZED),
    "one conditioned layer": ((VECTOR, GOAL), CONTINUOUS, NetworkSettings(hidden_units=16, num_layers=1)),
    "image and goal, as GridWorld has": (
        (IMAGE, GOAL),
        ActionSpec(0, (5,)),
        NetworkSettings(hidden_units=16, num_layers=1),
    ),
}

# what ML-Agents' files are made of, and so what Unity's importers are known to read
# fmt: off
OPERATORS = {
    "Identity", "Concat", "Gemm", "MatMul", "Sigmoid", "Mul", "Add", "Sub", "Div", "Exp", "Log", "Sqrt", "Pow", "Clip",
    "Tanh", "Softmax", "RandomNormalLike", "Multinomial", "ArgMax", "Slice", "Reshape", "Transpose", "Unsqueeze",
    "Squeeze", "Constant", "Conv", "LeakyRelu", "MaxPool", "Relu", "LSTM", "ReduceSum", "ReduceMean", "Less", "Cast",
}
# fmt: on


def make(obs, action, settings, shared=False):
    """A network as if trained: every weight, also biases, away from its start, and statistics of odd scales."""
    torch.manual_seed(0)
    spec = BehaviorSpec(tuple(obs), action)
    network = ActorCritic(spec, settings, shared_critic=shared)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    if network.normalizer is not None:
        width = network.normalizer.mean.numel()
        network.normalizer.update(
            torch.randn(500, width) * torch.logspace(-2, 2, width) + torch.linspace(-50, 50, width)
        )
    return network, spec


@pytest.fixture(scope="module", params=CASES)
def exported(request, tmp_path_factory):
    network, spec = make(*CASES[request.param])
    path = tmp_path_factory.mktemp("models") / "Behavior.onnx"
    export(network, spec, path)
    return network, spec, path


def form(path):
    """Inputs and outputs in order, with types and sizes after the batch, and the outputs that are constants."""
    graph = onnx.load(str(path)).graph
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Identity":
            constants[node.output[0]] = constants[node.input[0]]

    def info(tensor):
        kind = tensor.type.tensor_type
        sizes = [dim.dim_param or dim.dim_value for dim in kind.shape.dim]
        return tensor.name, kind.elem_type, len(sizes), sizes[1:]

    fixed = {tensor.name: constants[tensor.name].tolist() for tensor in graph.output if tensor.name in constants}
    given = [tensor for tensor in graph.input if tensor.name not in {t.name for t in graph.initializer}]
    return [info(tensor) for tensor in given], [info(tensor) for tensor in graph.output], fixed


def test_file_and_network_agree_on_a_thousand_observations(exported):
    assert compare(*exported) <= 1e-4


def test_a_file_is_valid_onnx_and_made_of_known_operators_only(exported):
    model = onnx.load(str(exported[2]))
    onnx.checker.check_model(model, full_check=True)
    assert {node.op_type for node in model.graph.node} <= OPERATORS
    assert (model.opset_import[0].version, model.ir_version, model.producer_name) == (9, 4, "palaestra")


def test_a_file_plays(exported):
    _, spec, path = exported
    policy = palaestra.load_policy(path, seed=0)
    assert policy.obs_shapes == tuple(obs.shape for obs in spec.obs)
    assert (policy.continuous_size, policy.branches) == (spec.action.continuous, spec.action.branches)
    assert (policy.version, policy.memory_size) == (3, 0)
    action = policy.act([np.zeros((5, *obs.shape)) for obs in spec.obs])
    assert (action.continuous is None) == (spec.action.continuous == 0)
    assert (action.discrete is None) == (not spec.action.branches)


def test_sampled_actions_are_spread_as_the_network_says(tmp_path):
    network, spec = make((VECTOR,), ActionSpec(2, (3,)), SMALL)
    with torch.no_grad():
        network.log_std.copy_(torch.tensor([-1.0, -0.5]))
    export(network, spec, tmp_path / "a.onnx")
    policy = palaestra.load_policy(tmp_path / "a.onnx", seed=3)
    action = policy.act(np.zeros((40_000, 4)))
    output = network.act(network.prepare((torch.zeros(1, 4),)))[0].detach()
    np.testing.assert_allclose(action.continuous.mean(0), output[:2] / 3, atol=0.005)
    np.testing.assert_allclose(action.continuous.std(0), network.log_std.detach().exp() / 3, atol=0.005)
    np.testing.assert_allclose(np.bincount(action.discrete[:, 0]) / 40_000, output[2:].softmax(0), atol=0.012)


@pytest.mark.parametrize(
    ("obs", "action", "settings", "theirs"),
    [
        ((WIDE, ObsSpec("second", (6,))), ActionSpec(2, (3,)), SMALL, "runs/TTrain_ppo_hybrid"),
        ((ObsSpec("vector", (8,)),), CONTINUOUS, NORMALIZED, f"{PACKAGE}/deterContinuous2vis8vec2action_v2_0"),
        ((ObsSpec("vector", (20,)),), DISCRETE, SMALL, f"{PACKAGE}/deterDiscrete1obs3action_v2_0"),
    ],
)
def test_the_form_is_that_of_a_file_of_ml_agents(tmp_path, obs, action, settings, theirs):
    network, spec = make(obs, action, settings)
    export(network, spec, tmp_path / "ours.onnx")
    assert form(tmp_path / "ours.onnx") == form(THEIRS / f"{theirs}.onnx")


def test_the_form_of_several_branches_and_images(tmp_path):
    network, spec = make((IMAGE, VECTOR), BRANCHES, SMALL)
    export(network, spec, tmp_path / "branches.onnx")
    inputs, outputs, fixed = form(tmp_path / "branches.onnx")
    assert inputs == [("obs_0", 1, 4, [3, 20, 24]), ("obs_1", 1, 2, [4]), ("action_masks", 1, 2, [9])]
    names = [
        "version_number",
        "memory_size",
        "discrete_actions",
        "discrete_action_output_shape",
        "deterministic_discrete_actions",
    ]
    assert [output[0] for output in outputs] == names
    assert fixed == {"version_number": [3.0], "memory_size": [0.0], "discrete_action_output_shape": [[3.0, 2.0, 4.0]]}


def test_a_shared_critic_changes_nothing_in_the_file(tmp_path):
    network, spec = make((VECTOR,), HYBRID, SMALL, shared=True)
    export(network, spec, tmp_path / "shared.onnx")
    assert compare(network, spec, tmp_path / "shared.onnx", rows=100) <= 1e-4


def test_a_network_that_changed_since_is_found_out(tmp_path):
    path = tmp_path / "old.onnx"
    for action in (CONTINUOUS, DISCRETE):
        network, spec = make((VECTOR,), action, SMALL)
        export(network, spec, path)
        with torch.no_grad():
            network.action_head.bias[0] += 0.01
        with pytest.raises(ExportError, match=r"old\.onnx differs from its network by 0\.00"):
            compare(network, spec, path, rows=50)


def test_weights_that_are_not_finite_are_named_and_leave_the_old_file(tmp_path):
    network, spec = make((VECTOR,), CONTINUOUS, SMALL)
    path = tmp_path / "model.onnx"
    export(network, spec, path)
    before = path.read_bytes()
    with torch.no_grad():
        network.action_head.weight[0, 0] = float("nan")
    with pytest.raises(ExportError, match=r"'action\.mean\.weight' hold nan: training has diverged"):
        export(network, spec, path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_module_of_an_unknown_kind_is_named(tmp_path):
    network, spec = make((IMAGE,), CONTINUOUS, SMALL)
    network.encoders[0][0] = torch.nn.Flatten()
    with pytest.raises(ExportError, match=r"'encoder_0' is a Flatten, which cannot be written .* SimpleEncoder"):
        export(network, spec, tmp_path / "model.onnx")


def test_a_place_that_cannot_be_written_is_an_export_error(tmp_path):
    network, spec = make((VECTOR,), CONTINUOUS, SMALL)
    (tmp_path / "file").write_text("")
    with pytest.raises(ExportError, match="cannot be written"):
        export(network, spec, tmp_path / "file" / "model.onnx")
