from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tiny_envs import Bandit

from palaestra.brains.base import Role, Seen
from palaestra.brains.mapped import MappedModel
from palaestra.brains.trained import make
from palaestra.core.errors import PolicyError
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec

NAMES = """\
inputs:
  my_state: [place, obs_1]
  noise: {uniform: [2, 3], shape: [2]}
  temperature: {value: 0.5}
  h_in: {memory: h_out}
outputs:
  continuous: my_action
"""


def model(path: Path, inputs, nodes, outputs) -> Path:
    """An ONNX file; inputs and outputs are name, shape and perhaps type."""
    infos = [
        [
            helper.make_tensor_value_info(name, kind[0] if kind else TensorProto.FLOAT, shape)
            for name, shape, *kind in each
        ]
        for each in (inputs, outputs)
    ]
    graph = helper.make_graph(
        [helper.make_node(*node[:3], **node[3] if len(node) > 3 else {}) for node in nodes], "g", *infos
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))
    return path


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """h_out = h_in + my_state; my_action = temperature * h_out; seen_noise = noise."""
    return model(
        tmp_path / "foreign.onnx",
        [("my_state", ["n", 3]), ("noise", ["n", 2]), ("temperature", []), ("h_in", ["n", 3])],
        [
            ("Add", ["my_state", "h_in"], ["h_out"]),
            ("Mul", ["h_out", "temperature"], ["my_action"]),
            ("Identity", ["noise"], ["seen_noise"]),
        ],
        [("my_action", ["n", 3]), ("h_out", ["n", 3]), ("seen_noise", ["n", 2])],
    )


def role(continuous=3, branches=(), deterministic=False, argument=""):
    spec = BehaviorSpec(
        (ObsSpec("place", (2,)), ObsSpec("speed", (1,)), ObsSpec("picture", (3, 4, 5))),
        ActionSpec(continuous, branches),
    )
    return Role("Hero", spec, argument, Bandit(1, continuous=1), 0, deterministic)


def seen(slots, mask=None):
    slots = np.array(slots)
    picture = np.arange(60, dtype=np.float32).reshape(3, 4, 5) / 60
    obs = (
        np.stack([slots / 10, slots / 100], 1),
        np.full((len(slots), 1), 0.5),
        np.tile(picture, (len(slots), 1, 1, 1)),
    )
    return Seen(slots, tuple(each.astype(np.float32) for each in obs), mask, np.zeros(len(slots), np.int64))


def named(tmp_path: Path, text: str) -> Path:
    (tmp_path / "names.yaml").write_text(text)
    return tmp_path / "names.yaml"


def test_a_foreign_model_plays_by_the_names_it_is_given(foreign: Path, tmp_path: Path):
    brain = make(role(argument=f"{foreign},{named(tmp_path, NAMES)}"))
    np.testing.assert_allclose(brain.decide(seen([1, 2])).continuous, [[0.05, 0.005, 0.25], [0.1, 0.01, 0.25]])
    np.testing.assert_allclose(
        brain.decide(seen([2, 3])).continuous, [[0.2, 0.02, 0.5], [0.15, 0.015, 0.25]], rtol=1e-6
    )
    brain.begin(np.array([2]))
    np.testing.assert_allclose(brain.decide(seen([2])).continuous, [[0.1, 0.01, 0.25]])


def test_drawn_inputs_lie_in_their_range_and_differ_from_call_to_call(foreign: Path, tmp_path: Path):
    text = NAMES.replace("my_action", "seen_noise").replace("[2, 3], shape", "[0.25, 0.5], shape")
    brain = make(role(continuous=2, argument=f"{foreign},{named(tmp_path, text)}"))
    drawn = np.concatenate([brain.decide(seen(range(50))).continuous for _ in range(2)])
    assert drawn.min() >= 0.25
    assert drawn.max() <= 0.5
    assert len(np.unique(drawn)) == 200


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "my_state:",
            "my_stat:",
            r"inputs: my_stat: the model has no input of that name; did you mean 'my_state'\? \(it has: my_state, "
            r"noise",
        ),
        (
            "  temperature: {value: 0.5}\n",
            "",
            r"inputs: the model's 'temperature' \[\] is not named: name the observation that it takes",
        ),
        (
            "[place, obs_1]",
            "obs_0",
            r"inputs: my_state: the model expects \['n', 3\], but obs_0 has shape \(2,\) without the rows",
        ),
        (
            "[place, obs_1]",
            "plase",
            r"behavior 'Hero' has no observation 'plase'; did you mean 'place'\? \(it has: obs_0 \(place\)",
        ),
        ("shape: [2]", "shape: [3]", r"inputs: noise: shape \[3\] does not fit the model's \['n', 2\]"),
        (
            "uniform: [2, 3]",
            "uniform: [3, 2]",
            r"noise: uniform: \[3, 2\]; expected the smallest and the largest value",
        ),
        ("value: 0.5", "value: [1, 2]", r"inputs: temperature: shape \[2\] does not fit the model's \[\]"),
        ("value: 0.5", "valeu: 0.5", r"inputs: temperature: \{'valeu': 0.5\} is neither an observation"),
        ("value: 0.5", "value: hot", r"inputs: temperature: value 'hot' does not fit"),
        (
            "memory: h_out",
            "memory: h_oot",
            r"inputs: h_in: memory: the model has no output 'h_oot'; did you mean 'h_out'\?",
        ),
        ("[place, obs_1]", "action_mask", r"inputs: my_state: behavior 'Hero' has no discrete actions, and so no mask"),
        ("continuous:", "continous:", r"outputs: there is no 'continous'; did you mean 'continuous'\?"),
        ("continuous:", "discrete:", r"outputs: behavior 'Hero' has continuous actions; say which tensor they are"),
        (
            "my_action",
            "my_acton",
            r"outputs: continuous: the model has no output 'my_acton'; did you mean 'my_action'\?",
        ),
        ("outputs:\n", "output:\n", r"expected the keys 'inputs' and 'outputs'; got \['inputs', 'output'\]"),
        ("{value: 0.5}", "{value: 0.5", r"names.yaml is no YAML"),
    ],
)
def test_names_that_do_not_fit_are_errors_that_name_the_entry(
    foreign: Path, tmp_path: Path, old: str, new: str, message: str
):
    assert old in NAMES
    with pytest.raises(PolicyError, match=message):
        MappedModel(foreign, named(tmp_path, NAMES.replace(old, new)), role())


def test_an_output_of_another_size_is_named(foreign: Path, tmp_path: Path):
    brain = MappedModel(foreign, named(tmp_path, NAMES.replace("my_action", "seen_noise")), role())
    with pytest.raises(PolicyError, match=r"output 'seen_noise' has shape \(2, 2\); expected \(2, 3\) for continuous"):
        brain.decide(seen([1, 2]))


def test_choices_are_drawn_from_logits_within_the_mask(tmp_path: Path):
    path = model(
        tmp_path / "logits.onnx",
        [("state", ["n", 2]), ("allowed", ["n", 5], TensorProto.BOOL)],
        [("Cast", ["allowed"], ["logits"], {"to": TensorProto.FLOAT})],
        [("logits", ["n", 5])],
    )
    names = named(tmp_path, "inputs: {state: obs_0, allowed: action_mask}\noutputs: {logits: logits}")
    mask = np.array([[0, 1, 1, 0, 1]] * 400, bool)
    drawn = MappedModel(path, names, role(0, (3, 2))).decide(seen(range(400), mask)).discrete
    assert set(drawn[:, 0].tolist()) == {1, 2}
    assert set(drawn[:, 1].tolist()) == {1}
    likeliest = MappedModel(path, names, role(0, (3, 2), deterministic=True)).decide(seen([0], mask[:1])).discrete
    assert likeliest.tolist() == [[1, 1]]


def test_a_model_for_one_row_and_channels_last_is_run_once_an_agent(tmp_path: Path):
    path = model(
        tmp_path / "picture.onnx",
        [("picture", [1, 4, 5, 3])],
        [("ReduceMean", ["picture"], ["mean"], {"axes": [1, 2], "keepdims": 0})],
        [("mean", [1, 3])],
    )
    brain = MappedModel(path, named(tmp_path, "inputs: {picture: picture}\noutputs: {continuous: mean}"), role())
    view = seen([0, 1])
    np.testing.assert_allclose(brain.decide(view).continuous, view.obs[2].mean((2, 3)), rtol=1e-5)


def test_the_deterministic_output_is_taken_when_asked_for(tmp_path: Path):
    path = model(
        tmp_path / "two.onnx",
        [("state", ["n", 2])],
        [("Identity", ["state"], ["drawn"]), ("Neg", ["state"], ["mean"])],
        [("drawn", ["n", 2]), ("mean", ["n", 2])],
    )
    names = named(tmp_path, "inputs: {state: obs_0}\noutputs: {continuous: drawn, deterministic_continuous: mean}")
    assert MappedModel(path, names, role(2)).decide(seen([1])).continuous[0, 0] > 0
    assert MappedModel(path, names, role(2, deterministic=True)).decide(seen([1])).continuous[0, 0] < 0
