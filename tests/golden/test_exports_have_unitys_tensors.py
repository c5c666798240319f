"""Models trained in the built-in worlds with the official settings, against those that Unity trained in its own: the
same tensors.
"""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from palaestra.cli.main import main

CONFIGS = Path(__file__).parent / "data" / "configs"
MODELS = Path(__file__).parent / "data" / "onnx" / "unity_examples"
CASES = {
    "3DBall": ("3DBall", "ppo/3DBall.yaml", "3DBall"),
    "Basic": ("Basic", "ppo/Basic.yaml", "Basic"),
    "Crawler": ("Crawler", "ppo/Crawler.yaml", "Crawler"),
    "Hallway": ("Hallway", "ppo/Hallway.yaml", "Hallway"),
    "PushBlock": ("PushBlock", "ppo/PushBlock.yaml", "PushBlock"),
    "PushBlockCollab": ("PushBlockCollab", "poca/PushBlockCollab.yaml", "PushBlockCollab"),
    "SmallWallJump": ("WallJump", "ppo/WallJump.yaml", "SmallWallJump"),
    "Walker": ("Walker", "ppo/Walker.yaml", "Walker"),
}
"""For each of Unity's models of version 3: environment, official settings, behavior."""
ADDED_LATER = {"deterministic_continuous_actions", "deterministic_discrete_actions"}
"""Outputs that exporters have added since the oldest of these models."""


def tensors(session: onnxruntime.InferenceSession) -> dict[str, tuple[str, tuple[int | None, ...]]]:
    """Type and shape of each input and output; a free dimension is None."""
    found = [*session.get_inputs(), *session.get_outputs()]
    return {one.name: (one.type, tuple(size if isinstance(size, int) else None for size in one.shape)) for one in found}


def constants(session: onnxruntime.InferenceSession) -> dict[str, list[float]]:
    """What the outputs say that depend on no input."""
    inputs = {
        one.name: np.ones([size if isinstance(size, int) else 1 for size in one.shape], np.float32)
        for one in session.get_inputs()
    }
    names = [
        one.name
        for one in session.get_outputs()
        if one.name in ("version_number", "memory_size") or one.name.endswith("_output_shape")
    ]
    return {
        name: np.asarray(value).ravel().tolist() for name, value in zip(names, session.run(names, inputs), strict=True)
    }


@pytest.mark.few(3)
@pytest.mark.parametrize("model", CASES)
def test_a_model_trained_here_has_the_tensors_of_unitys(model: str, tmp_path: Path):
    env, settings, behavior = CASES[model]
    command = [
        "learn",
        str(CONFIGS / settings),
        f"--env={env}",
        "--run-id=one",
        f"--results-dir={tmp_path}",
        "--num-areas=1",
    ]
    assert main([*command, "--max-steps=1", "--seed=1"]) == 0
    ours = onnxruntime.InferenceSession(tmp_path / "one" / f"{behavior}.onnx")
    theirs = onnxruntime.InferenceSession(MODELS / f"{model}.onnx")
    assert constants(ours) == constants(theirs)
    mine = tensors(ours)
    other = tensors(theirs)
    assert set(mine) - set(other) <= ADDED_LATER
    assert set(other) - set(mine) == set()
    for name, (kind, shape) in other.items():
        assert mine[name][0] == kind, name
        assert mine[name][1][1:] == shape[1:], name  # the oldest exporters fixed the batch of some outputs at 1
