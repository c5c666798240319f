"""Ten million draws of an exported model under masks."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.models.actor_critic import ActorCritic
from palaestra.models.settings import NetworkSettings
from palaestra.onnx_export.onnx import export

DRAWS = 10_000_000
ROWS = 250_000
BRANCHES = (2, 3, 7)
DISCRETE = ActionSpec(branches=BRANCHES)
STARTS = np.cumsum((0, *BRANCHES))


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random_masks(rows: int, generator: torch.Generator) -> Tensor:
    """One choice of each branch is always allowed, any other in half of the rows; a third of the rows has no other."""
    mask = torch.rand(rows, sum(BRANCHES), generator=generator) < 0.5
    mask[: rows // 3] = False
    for start, size in zip(STARTS, BRANCHES, strict=False):
        mask.scatter_(1, start + torch.randint(0, size, (rows, 1), generator=generator), True)
    return mask


def session(head_scale: float, folder: Path) -> onnxruntime.InferenceSession:
    """An exported policy whose logits grow with `head_scale`."""
    torch.manual_seed(0)
    spec = BehaviorSpec((ObsSpec("vector", (4,)),), DISCRETE)
    network = ActorCritic(spec, NetworkSettings(hidden_units=4, num_layers=1), shared_critic=False)
    with torch.no_grad():
        network.action_head.weight.mul_(head_scale)
    export(network, spec, folder / "Behavior.onnx")
    return onnxruntime.InferenceSession(str(folder / "Behavior.onnx"), providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("draws", [DRAWS // 5, pytest.param(DRAWS, marks=pytest.mark.slow)])
def test_masked_choices_are_never_drawn_by_an_exported_model(draws: int, tmp_path: Path):
    generator = seeded(11)
    drawn = 0
    wrong = 0
    masks = random_masks(ROWS, generator)
    given = {"obs_0": torch.randn(ROWS, 4, generator=generator).numpy(), "action_masks": masks.float().numpy()}
    models = [session(scale, tmp_path) for scale in (1.0, 1e3, 1e6)]
    while drawn < draws:
        for model in models:
            for choices in model.run(["discrete_actions", "deterministic_discrete_actions"], given):
                assert isinstance(choices, np.ndarray)
                wrong += int((~masks.numpy()[np.arange(ROWS)[:, None], choices + STARTS[:3]]).sum())
            drawn += choices.size
    assert wrong == 0
