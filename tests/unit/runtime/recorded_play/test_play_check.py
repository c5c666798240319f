"""A game that plays an exported model is recorded; what it does to the model's observations and actions is found."""

import json
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
import torch

import palaestra
from palaestra.cli.main import main
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.demos import DemoRecord, DemoWriter
from palaestra.models.actor_critic import ActorCritic
from palaestra.models.settings import NetworkSettings
from palaestra.onnx_export.onnx import export
from palaestra.runtime.recorded_play.model_odds import NOISE, SAME, Odds
from palaestra.runtime.recorded_play.play_check import measure

EPISODES, LENGTH = 8, 25
STACKED = BehaviorSpec(
    (ObsSpec("StackingSensor_size3_own", (9,)), ObsSpec("left", (4,)), ObsSpec("right", (4,))), ActionSpec(2, (3, 3))
)
CAMERAS = BehaviorSpec(
    (ObsSpec("front", (3, 20, 20)), ObsSpec("StackingSensor_size3_back", (3, 20, 20)), ObsSpec("others", (5, 3))),
    ActionSpec(0, (5,)),
)
SEEING = BehaviorSpec((ObsSpec("camera", (3, 20, 24)), ObsSpec("speed", (4,))), ActionSpec(0, (5,)))
MEMORY = NetworkSettings(hidden_units=16, memory={"memory_size": 16, "sequence_length": 8})


def made(
    spec: BehaviorSpec, path: Path, seed: int = 0, sharp: float = 50, settings: NetworkSettings | None = None
) -> Path:
    """A model whose actions depend much on what it sees."""
    torch.manual_seed(seed)
    network = ActorCritic(spec, settings or NetworkSettings(hidden_units=32), shared_critic=True)
    with torch.no_grad():
        network.action_head.weight.mul_(sharp)
        for weight in network.parameters():
            if weight.ndim == 4:
                weight.mul_(4)
        if spec.action.continuous:
            network.log_std.fill_(-1.0)
    export(network, spec, path)
    return path


def seen(spec: BehaviorSpec, seed: int = 1) -> list[np.ndarray]:
    """Observations (episodes, decisions, *shape); frames are stacked as Unity does."""
    rng = np.random.default_rng(seed)
    columns = []
    for obs in spec.obs:
        if obs.is_visual:
            columns.append(spots(rng, obs.shape))
        elif "size3" in obs.name:
            frames = np.concatenate([np.zeros((EPISODES, 2, 3)), rng.normal(size=(EPISODES, LENGTH, 3))], 1)
            columns.append(np.concatenate([frames[:, k : k + LENGTH] for k in range(3)], 2).astype(np.float32))
        else:
            columns.append(rng.normal(size=(EPISODES, LENGTH, *obs.shape)).astype(np.float32))
    return columns


def spots(rng, shape) -> np.ndarray:
    """Images with a bright spot each, anywhere, in a color of its own."""
    place = rng.random((2, EPISODES, LENGTH, 1, 1, 1))
    color = rng.random((EPISODES, LENGTH, shape[0], 1, 1))
    y, x = np.arange(shape[1])[:, None] / shape[1], np.arange(shape[2]) / shape[2]
    return (color * np.exp(-40 * ((y - place[0]) ** 2 + (x - place[1]) ** 2))).astype(np.float32)


def played(path: Path, obs: list[np.ndarray], *, deterministic=True, mask=None, memory="carried"):
    """What the model answers to (episodes, decisions, *shape): continuous actions and choices."""
    policy = palaestra.load_policy(path, seed=3)
    state = np.zeros((EPISODES, policy.memory_size), np.float32)
    continuous, discrete = [], []
    for t in range(LENGTH):
        remembered = (
            {} if not policy.memory_size else {"memory": state if memory == "carried" else np.zeros_like(state)}
        )
        answer = policy.act([one[:, t] for one in obs], mask, deterministic=deterministic, rescale=False, **remembered)
        state = answer.memory if policy.memory_size else state
        continuous.append(np.zeros((EPISODES, 0)) if answer.continuous is None else answer.continuous)
        discrete.append(np.zeros((EPISODES, 0), np.int64) if answer.discrete is None else answer.discrete)
    return np.stack(continuous, 1), np.stack(discrete, 1)


def recorded(path: Path, spec: BehaviorSpec, obs, actions, mask=None) -> Path:
    """A recording as Unity writes it: each record has the action of the decision before."""
    continuous, discrete = actions
    with DemoWriter(path, "played", "Agent?team=0", spec) as writer:
        for e in range(EPISODES):
            for t in range(LENGTH + 1):
                row = tuple(one[e, min(t, LENGTH - 1)] for one in obs)
                before = (
                    (continuous[e, t - 1], discrete[e, t - 1])
                    if t
                    else (np.zeros_like(continuous[0, 0]), np.zeros_like(discrete[0, 0]))
                )
                writer.write(
                    DemoRecord(row, 0.0, 0.0, t == LENGTH, False, e, 0, None if t == LENGTH else mask, *before)
                )
    return path


def report(capsys, demo: Path, *models: Path) -> dict:
    status = main(["demo", str(demo), "--json", *(part for model in models for part in ("--model", str(model)))])
    captured = capsys.readouterr()
    assert captured.out, captured.err
    (shown,) = json.loads(captured.out)
    assert status == (shown["model"]["verdict"] != "plays")
    return shown["model"]


def restacked(change):
    return lambda obs: [change(obs[0].reshape(EPISODES, LENGTH, 3, 3)).reshape(obs[0].shape), *obs[1:]]


def filled(frames):
    frames = frames.copy()
    frames[:, 0, :2] = frames[:, 0, 2:]
    frames[:, 1, :1] = frames[:, 1, 1:2]
    return frames


def not_cleared(frames):
    frames = frames.copy()
    frames[1:, 0, 0], frames[1:, 0, 1] = frames[:-1, -2, 2], frames[:-1, -1, 2]
    frames[1:, 1, 0] = frames[:-1, -1, 2]
    return frames


def on_image(change):
    return lambda obs: [np.ascontiguousarray(change(obs[0])), *obs[1:]]


SEES = {
    "image_rows": (SEEING, on_image(lambda x: x[..., ::-1, :])),
    "image_channels_last": (SEEING, on_image(lambda x: np.moveaxis(x, 2, 4).reshape(x.shape))),
    "image_channels, image_rows": (SEEING, on_image(lambda x: x[:, :, ::-1, ::-1])),
    "of back: stack_reversed": (CAMERAS, lambda obs: [obs[0], np.ascontiguousarray(obs[1][:, :, ::-1]), obs[2]]),
    "of others: vector_times_10": (CAMERAS, lambda obs: [*obs[:2], obs[2] * 10]),
    "image_rows, vector_centered": (SEEING, lambda obs: [obs[0][..., ::-1, :].copy(), 2 * obs[1] - 1]),
    "stack_newest": (STACKED, restacked(lambda x: x * np.array([0, 0, 1], np.float32)[:, None])),
    "stack_filled": (STACKED, restacked(filled)),
    "stack_kept": (STACKED, restacked(not_cleared)),
    "sensor_missing": (STACKED, lambda obs: [obs[0], obs[1], obs[2] * 0]),
    "sensor_order, stack_reversed": (
        STACKED,
        lambda obs: [obs[0].reshape(EPISODES, LENGTH, 3, 3)[:, :, ::-1].reshape(obs[0].shape), obs[2], obs[1]],
    ),
    "image_columns": (SEEING, on_image(lambda x: x[..., ::-1])),
    "image_channels": (SEEING, on_image(lambda x: x[:, :, ::-1])),
    "image_times_255": (SEEING, on_image(lambda x: x * 255)),
    "image_blank": (SEEING, on_image(np.zeros_like)),
    "of front: image_rows": (CAMERAS, on_image(lambda x: x[..., ::-1, :])),
    "of front: image_channels": (CAMERAS, on_image(lambda x: x[:, :, ::-1])),
    "stack_reversed": (STACKED, restacked(lambda x: x[:, :, ::-1])),
    "sensor_order": (STACKED, lambda obs: [obs[0], obs[2], obs[1]]),
}


@pytest.mark.few(11)
@pytest.mark.parametrize(
    ("keys", "sampled"),
    [*((keys, False) for keys in SEES), *((keys, True) for keys in ("image_rows", "stack_reversed", "sensor_order"))],
)
def test_what_the_game_shows_the_model_is_named(tmp_path, capsys, keys, sampled):
    spec, change = SEES[keys]
    model = made(spec, tmp_path / "Agent.onnx", sharp=300 if sampled and spec is SEEING else 50)
    obs = seen(spec)
    demo = recorded(tmp_path / "a.demo", spec, obs, played(model, change(obs), deterministic=not sampled))
    found = report(capsys, demo, model)
    of, _, keys = keys.rpartition("of ")[2].rpartition(": ")
    assert sorted(cause["key"] for cause in found["causes"]) == keys.split(", ")
    assert all(f"{of}'" in cause["what"] for cause in found["causes"] if of)
    assert found["sampled"] == sampled
    if not sampled:
        assert (found["agreement"] < 0.97, found["agreement_with_causes"]) == (True, 1.0)


def test_a_cause_that_explains_nothing_more_is_left_out(tmp_path, capsys):
    spec = BehaviorSpec((ObsSpec("a", (1,)), ObsSpec("b", (1,)), ObsSpec("c", (5,))), ActionSpec(2, (3,)))
    model = made(spec, tmp_path / "Agent.onnx", sharp=200)
    obs = [1 + 2 * x for x in seen(spec)]
    game = [((x - x.mean((0, 1))) / x.std((0, 1))).clip(-5, 5) for x in obs]
    demo = recorded(tmp_path / "a.demo", spec, obs, played(model, game, deterministic=False))
    assert [cause["key"] for cause in report(capsys, demo, model)["causes"]] == ["vector_normalized"]


def test_a_recording_of_unitys_that_was_not_played_by_the_model_is_not_explained_by_chance(capsys):
    data = Path(__file__).parents[3] / "golden" / "data"
    demo = data / "demos" / "unity_examples_0.15" / "Expert3DBall.demo"
    for model in ("onnx/unity_examples/3DBall.onnx", "nn/unity_examples/3DBall.nn"):
        assert report(capsys, demo, data / model)["verdict"] == "unexplained"


def late(actions):
    return tuple(np.concatenate([one[:, :1] * 0, one[:, :-1]], 1) for one in actions)


DOES = {
    "action_times_3_clipped": lambda a: ((a[0] * 3).clip(-1, 1), a[1]),
    "action_by_3, action_sign": lambda a: (a[0] * [1 / 3, -1 / 3], a[1]),
    "action_late": late,
    "action_order": lambda a: (a[0][..., ::-1], a[1]),
    "branch_order": lambda a: (a[0], a[1][..., ::-1]),
    "choice_shift": lambda a: (a[0], (a[1] + [0, 1]) % 3),
    "action_sign, choice_shift": lambda a: (a[0] * [-1, 1], a[1] + [1, 0]),
    "action_times_3": lambda a: (a[0] * 3, a[1]),
    "action_by_3": lambda a: (a[0] / 3, a[1]),
    "action_sign, action_late": lambda a: late((a[0] * [-1, 1], a[1])),
    "action_sign": lambda a: (a[0] * [1, -1], a[1]),
}


SAMPLED = ("action_sign", "choice_shift", "action_late", "action_by_3, action_sign", "action_sign, action_late")


@pytest.mark.few(7)
@pytest.mark.parametrize(("keys", "sampled"), [*((keys, False) for keys in DOES), *((keys, True) for keys in SAMPLED)])
def test_what_the_game_does_with_actions_is_named(tmp_path, capsys, keys, sampled):
    model = made(STACKED, tmp_path / "Agent.onnx")
    obs = seen(STACKED)
    actions = DOES[keys](played(model, obs, deterministic=not sampled))
    found = report(capsys, recorded(tmp_path / "a.demo", STACKED, obs, actions), model)
    assert [cause["key"] for cause in found["causes"]] == keys.split(", ")
    assert found["sampled"] == sampled


@pytest.mark.parametrize("deterministic", [True, False])
def test_a_game_that_plays_the_model_is_told_so(tmp_path, capsys, deterministic):
    model = made(STACKED, tmp_path / "Agent.onnx")
    obs = seen(STACKED)
    demo = recorded(tmp_path / "a.demo", STACKED, obs, played(model, obs, deterministic=deterministic))
    found = report(capsys, demo, model)
    assert (found["verdict"], found["sampled"], found["causes"]) == ("plays", not deterministic, [])
    assert main(["demo", str(demo), "--model", str(model)]) == 0
    assert ("tick Deterministic Inference" in capsys.readouterr().out) == (not deterministic)
    demo.write_bytes(demo.read_bytes()[:-900])
    assert main(["demo", str(demo), "--model", str(model)]) == 0
    assert "warning       is cut off" in capsys.readouterr().out


def test_an_empty_recording_does_not_pass_as_one_that_plays_the_model(tmp_path):
    model = made(SEEING, tmp_path / "Agent.onnx")
    DemoWriter(tmp_path / "empty.demo", "empty", "Agent", SEEING).close()
    assert main(["demo", str(tmp_path / "empty.demo")]) == 0
    assert main(["demo", str(tmp_path / "empty.demo"), "--model", str(model)]) == 1


def test_drawn_actions_of_an_undecided_model_are_said_to_prove_little(tmp_path, capsys):
    model = made(SEEING, tmp_path / "Agent.onnx", sharp=1)
    obs = seen(SEEING)
    demo = recorded(tmp_path / "a.demo", SEEING, obs, played(model, obs, deterministic=False))
    assert main(["demo", str(demo), "--model", str(model)]) == 0
    assert "is so undecided about these observations that drawn actions prove little" in capsys.readouterr().out


def test_another_version_of_the_model_is_named(tmp_path, capsys):
    made(STACKED, tmp_path / "Agent.onnx")
    old = made(STACKED, tmp_path / "Agent-500.onnx", seed=7)
    obs = seen(STACKED)
    demo = recorded(tmp_path / "a.demo", STACKED, obs, played(old, obs))
    found = report(capsys, demo, tmp_path)
    assert (found["verdict"], found["causes"][0]["key"]) == ("explained", "another_model")
    assert str(old) in found["causes"][0]["what"]


@pytest.mark.parametrize(("memory", "keys"), [("carried", []), ("none", ["memory_not_carried"])])
def test_memory_is_followed_through_episodes(tmp_path, capsys, memory, keys):
    model = made(STACKED, tmp_path / "Agent.onnx", settings=MEMORY)
    obs = seen(STACKED)
    found = report(capsys, recorded(tmp_path / "a.demo", STACKED, obs, played(model, obs, memory=memory)), model)
    assert [cause["key"] for cause in found["causes"]] == keys


def test_a_mask_that_the_model_did_not_get_is_named(tmp_path, capsys):
    model = made(SEEING, tmp_path / "Agent.onnx")
    obs = seen(SEEING)
    mask = np.array([True, True, False, False, True])
    demo = recorded(tmp_path / "a.demo", SEEING, obs, played(model, obs), mask)
    assert [cause["key"] for cause in report(capsys, demo, model)["causes"]] == ["mask_ignored"]


def test_a_model_of_another_game_is_an_error(tmp_path, capsys):
    model = made(SEEING, tmp_path / "Agent.onnx")
    obs = seen(STACKED)
    demo = recorded(
        tmp_path / "a.demo", STACKED, obs, (np.zeros((EPISODES, LENGTH, 2)), np.zeros((EPISODES, LENGTH, 2), int))
    )
    assert main(["demo", str(demo), "--model", str(model)]) == 1
    error = capsys.readouterr().err
    assert "takes the observations 3x20x24, 4" in error
    assert "has StackingSensor_size3_own 9, left 4, right 4" in error


@pytest.mark.slow
def test_what_the_critic_alone_saw_may_be_recorded_too(tmp_path, capsys):
    model = made(STACKED, tmp_path / "Agent.onnx")
    spec = BehaviorSpec((ObsSpec("truth", (4,)), *STACKED.obs), STACKED.action)
    truth, *obs = seen(spec)
    demo = recorded(tmp_path / "a.demo", spec, [truth, *obs], played(model, obs))
    assert report(capsys, demo, model)["agreement"] == 1
    obs[1] = -obs[1]  # not what the model was given
    found = report(capsys, recorded(tmp_path / "b.demo", spec, [truth, *obs], played(model, seen(spec)[1:])), model)
    assert found["verdict"] != "plays"


def test_noise_and_chances_are_measured_as_worked_by_hand():
    # mean 0.1, deviation 0.2: 0.4 is 1.5 deviations away; 0.1 is the mean itself; all beyond 0.5 is clipped there
    numbers = np.minimum(0.1 + 0.2 * np.array(NOISE), 0.5)[:, None, None] * np.ones((9, 3, 1))
    action = np.array([[0.4], [0.1], [0.5]], np.float32)
    odds = Odds(numbers, np.log([[0.5, 0.5], [0.2, 0.8], [0.9, 0.1]]), (2,), True)
    fit = measure(odds, (action, np.array([[0], [1], [1]]), np.ones(3, bool)))
    assert fit.same.tolist() == [False, True, False]
    chances = np.log([0.98 * 0.5 + 0.01, 0.98 * 0.8 + 0.01, 0.98 * 0.1 + 0.01])
    noise, narrow = np.array([1.5, 0, 2]), np.array([0.2, SAME, SAME])
    np.testing.assert_allclose(fit.score, chances - 2.5 * np.log1p(noise**2 / 4) - np.log(narrow), atol=1e-5)


@pytest.mark.parametrize(("deviations", "means", "drawn"), [(1, 0, True), (0.8, 0, False), (1, 0.3, False)])
def test_drawn_numbers_of_which_many_are_clipped_are_known_as_drawn(deviations, means, drawn):
    """A mean of 0.7 and 0.2 deviations: all from 1.25 deviations on is 0.95, and a tenth of the draws."""
    count = 1000
    at = np.array(NOISE)[:, None, None] * np.ones((len(NOISE), count, 1))
    noise = np.array([NormalDist(means, deviations).inv_cdf((i + 0.5) / count) for i in range(count)])
    action = np.minimum(0.7 + 0.2 * noise, 0.95)[:, None].astype(np.float32)
    odds = Odds(np.minimum(0.7 + 0.2 * at, 0.95), np.zeros((count, 0)), (), True)
    assert measure(odds, (action, np.zeros((count, 0), np.int64), np.ones(count, bool))).drawn == drawn
