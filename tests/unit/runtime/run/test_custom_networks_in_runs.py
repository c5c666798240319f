"""A network of one's own in a run: the example trains, resumes to the same digits, exports and plays."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from small_runs import differences, settings, state
from torch import Tensor, nn

import palaestra
from palaestra.core.errors import ExportError
from palaestra.models.custom import own_body
from palaestra.models.encoders import visual_encoder
from palaestra.onnx_export.custom import check_exportable
from palaestra.runtime.logging.tracker import Summary
from palaestra.runtime.run.result import Result

ROOT = Path(__file__).parents[4]
SMALL = {
    "hyperparameters.batch_size": 16,
    "hyperparameters.buffer_size": 64,
    "network_settings.hidden_units": 8,
    "max_steps": 256,
    "summary_freq": 64,
}


class Rounded(nn.Module):
    """A body with an operator that Unity does not read."""

    def __init__(self, inputs: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(inputs, hidden), *(nn.GELU() for _ in range(layers)))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


@pytest.fixture
def results(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A folder for them; the example is named from the project's root."""
    monkeypatch.chdir(ROOT)
    return str(tmp_path / "results")


def train(results: str, run_id: str, until: int | None = None, **more: Any) -> Result:
    """The example in miniature; stops at the first summary from `until` on."""
    callbacks: list[Callable[[Summary], object]] = [] if until is None else [lambda summary: summary.step >= until]
    given: dict[str, Any] = {"seed": 1, "num_areas": 4, "quiet": True, "callbacks": callbacks, **more}
    return palaestra.train("examples/own_encoder.yaml", results_dir=results, run_id=run_id, settings=SMALL, **given)


def test_the_example_trains_resumes_exports_and_plays(results):
    whole = train(results, "whole")
    stopped = train(results, "parts", until=128)
    assert not stopped.finished
    resumed = train(results, "parts", resume=True)
    assert differences(state(whole.folder), state(resumed.folder)) == []

    policy = palaestra.load_policy(resumed.models["GridWorld"], seed=0)
    action = policy.act([np.random.default_rng(0).random((3, *shape)) for shape in policy.obs_shapes])
    assert action.discrete.shape == (3, 1)


def test_what_cannot_be_exported_ends_a_run_before_its_first_step(results):
    tree = settings("Basic", network_settings={"body": f"{__name__}:Rounded"})
    with pytest.raises(ExportError, match=r"body '\w+:Rounded': Rounded.layers.1 uses Erf, .*; use nn.SiLU"):
        palaestra.train(tree, env="Basic", results_dir=results, run_id="refused", quiet=True)
    assert not Path(results, "refused").exists()


def test_the_example_follows_its_own_rules(monkeypatch):
    monkeypatch.chdir(ROOT)
    encoder = visual_encoder("examples.own_encoder:Places", "camera", (3, 64, 84), 16)
    check_exportable(nn.ModuleList([encoder, own_body("examples.own_encoder:Residual", 18, 16, 2)]))
    encoder = visual_encoder("examples.own_encoder:Places", "camera", (1, 4, 4), 16)
    assert encoder(torch.rand(1, 1, 4, 4)).shape == (1, 16)


def test_the_guide_shows_the_settings_of_the_example():
    blocks = yaml.safe_load((ROOT / "examples" / "own_encoder.yaml").read_text())["behaviors"]
    example = blocks["GridWorld"]["network_settings"]
    guide = (ROOT / "docs" / "guides" / "extend" / "own-network.md").read_text()
    assert all(f"{key}: {value}" in guide for key, value in example.items())
