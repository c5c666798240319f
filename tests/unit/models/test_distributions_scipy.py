"""Log-probabilities and entropies against SciPy's, and ten million draws under masks, in torch and in ONNX."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from scipy import stats
from torch import Tensor

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.export.onnx import export
from palaestra.models.actor_critic import ActorCritic
from palaestra.models.distributions import draw, drawn_log_prob, log_prob_and_entropy
from palaestra.models.settings import NetworkSettings

DRAWS = 10_000_000
ROWS = 250_000
BRANCHES = (2, 3, 7)
DISCRETE = ActionSpec(branches=BRANCHES)
HYBRID = ActionSpec(3, BRANCHES)
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


def tempting(mask: Tensor, scale: float, generator: torch.Generator) -> Tensor:
    """Logits within ±`scale`, with forbidden choices at the top of that range in every second row and allowed ones at
    its bottom.
    """
    logits = (torch.rand(mask.shape, generator=generator) * 2 - 1) * scale
    logits[::2] = torch.where(mask[::2], -scale, scale)
    return logits


def categorical(logits: np.ndarray, mask: np.ndarray, row: int, branch: int) -> tuple[np.ndarray, np.ndarray]:
    """Allowed choices of a branch and their probabilities."""
    part = slice(STARTS[branch], STARTS[branch + 1])
    allowed = mask[row, part].nonzero()[0]
    values = np.exp(logits[row, part][allowed].astype(np.float64) - logits[row, part][allowed].max())
    return allowed, values / values.sum()


def test_log_probs_and_entropies_of_numbers_are_those_of_scipy():
    spec = ActionSpec(4)
    mean = 3 * torch.randn(200, 4, generator=seeded(1))
    log_std = torch.tensor([-4.0, -0.5, 0.0, 3.0])
    sample, branches = draw(mean, log_std, None, spec, seeded(2), False)
    normal = stats.norm(mean.double().numpy(), log_std.double().exp().numpy())
    expected = normal.logpdf(sample.continuous.double().numpy())
    np.testing.assert_allclose(
        drawn_log_prob(mean, log_std, sample, branches, spec).numpy(), expected, rtol=1e-3, atol=1e-5
    )
    later, entropy = log_prob_and_entropy(mean, log_std, None, sample, spec)
    np.testing.assert_allclose(later.numpy(), expected, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(float(entropy), normal.entropy()[0].mean(), rtol=1e-6)


@pytest.mark.parametrize("scale", [0.1, 3.0, 30.0])
def test_log_probs_and_entropies_of_masked_branches_are_those_of_scipy(scale: float):
    mask = random_masks(60, seeded(1))
    logits = scale * torch.randn(60, sum(BRANCHES), generator=seeded(2))
    sample, branches = draw(logits, torch.zeros(0), mask, DISCRETE, seeded(3), False)
    log_prob = drawn_log_prob(logits, torch.zeros(0), sample, branches, DISCRETE)
    later, entropy = log_prob_and_entropy(logits, torch.zeros(0), mask, sample, DISCRETE)
    assert torch.equal(log_prob, later)
    for row in range(60):
        parts = [categorical(logits.numpy(), mask.numpy(), row, branch) for branch in range(3)]
        choices = sample.discrete[row].tolist()
        expected = [stats.rv_discrete(values=part).logpmf(choice) for part, choice in zip(parts, choices, strict=True)]
        np.testing.assert_allclose(log_prob[row].numpy(), expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(float(entropy[row]), sum(stats.entropy(p) for _, p in parts), rtol=1e-4, atol=1e-5)


def test_a_hybrid_policy_has_the_mean_of_its_numbers_and_the_sum_of_its_branches():
    output = torch.randn(40, 3 + sum(BRANCHES), generator=seeded(4))
    log_std = torch.tensor([0.2, -1.0, 1.0])
    mask = random_masks(40, seeded(5))
    sample, branches = draw(output, log_std, mask, HYBRID, seeded(6), False)
    log_prob, entropy = log_prob_and_entropy(output, log_std, mask, sample, HYBRID)
    normal = stats.norm(output[:, :3].double().numpy(), log_std.double().exp().numpy())
    np.testing.assert_allclose(
        log_prob[:, :3].numpy(), normal.logpdf(sample.continuous.double().numpy()), rtol=1e-4, atol=1e-5
    )
    discrete = [
        sum(stats.entropy(categorical(output[:, 3:].numpy(), mask.numpy(), row, b)[1]) for b in range(3))
        for row in range(40)
    ]
    np.testing.assert_allclose(entropy.numpy(), normal.entropy()[0].mean() + np.array(discrete), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(drawn_log_prob(output, log_std, sample, branches, HYBRID), log_prob)


def test_draws_fall_on_choices_as_often_as_scipy_expects():
    mask = random_masks(3, seeded(7)).repeat_interleave(200_000, 0)
    logits = torch.randn(3, sum(BRANCHES), generator=seeded(8))
    sample, _ = draw(logits.repeat_interleave(200_000, 0), torch.zeros(0), mask, DISCRETE, seeded(9), False)
    for row in range(3):
        for branch in range(3):
            allowed, chances = categorical(logits.numpy(), mask[::200_000].numpy(), row, branch)
            counts = (
                sample.discrete[row * 200_000 : (row + 1) * 200_000, branch]
                .bincount(minlength=BRANCHES[branch])
                .numpy()[allowed]
            )
            assert len(allowed) == 1 or stats.chisquare(counts, chances * 200_000).pvalue > 1e-6


@pytest.mark.parametrize(
    ("deterministic", "draws"),
    [(False, DRAWS // 5), pytest.param(False, DRAWS, marks=pytest.mark.slow), (True, 3 * ROWS)],
)
def test_masked_choices_are_never_drawn(deterministic: bool, draws: int):
    generator = seeded(10)
    drawn = 0
    wrong = 0
    masks = random_masks(ROWS, generator)
    outputs = [tempting(masks, scale, generator) for scale in (0.0, 1.0, 100.0, 1e4)]
    while drawn < draws:
        for logits in outputs:
            sample, branches = draw(logits, torch.zeros(0), masks, DISCRETE, generator, deterministic)
            wrong += int((~masks.gather(1, sample.discrete + torch.from_numpy(STARTS[:3]))).sum())
            assert drawn_log_prob(logits, torch.zeros(0), sample, branches, DISCRETE).isfinite().all()
            drawn += sample.discrete.numel()
    assert wrong == 0


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
