"""Compares a converted model, played by onnxruntime, with its source's network and with recorded actions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from palaestra.brains.model import Policy, PolicyAction, load_policy
from palaestra.convert.source_evaluation import answers
from palaestra.convert.source_network import SourcePolicy
from palaestra.core.errors import ExportError
from palaestra.core.files import read_whole
from palaestra.core.torch_files import read_npz

TOLERANCE = 1e-5
ROWS = 1000
PART = 50
MOST_BYTES = 1 << 28


def compare(policy: SourcePolicy, path: Path, rows: int = ROWS, seed: int = 0) -> float:
    """Returns the largest difference on random observations; for discrete actions, how far the chosen value lies below
    the best. Raises ExportError."""
    model = load_policy(path, seed=seed)
    rng = np.random.default_rng(seed)
    gaps = [0.0]
    sizes = [1.0]
    for start in range(0, rows, PART):
        obs = _observations(policy, min(PART, rows - start), rng)
        expected = answers(policy, obs)
        action = model.act(obs, deterministic=True, rescale=False)
        gaps.append(largest_gap(action, expected, policy.action.branches))
        sizes.append(float(np.abs(expected).max()))
    model.act(_observations(policy, 1, rng))  # samples are drawn by other nodes, which must run as well
    return checked_gap(float(np.max(gaps)), float(np.max(sizes)), "its source")  # unlike `max`, never hides a NaN


def largest_gap(action: PolicyAction, expected: np.ndarray, branches: tuple[int, ...]) -> float:
    """Returns the largest difference from actions (N, continuous); for values (N, choices), how far the chosen one lies
    below the best."""
    if not branches:
        return float(np.abs(np.asarray(action.continuous) - expected).max())
    gaps = [0.0]
    at = 0
    for size, taken in zip(branches, np.asarray(action.discrete).T, strict=True):
        part = expected[:, at : at + size]
        gaps.append(float((part.max(1) - np.take_along_axis(part, taken[:, None], 1)[:, 0]).max()))
        at += size
    return float(np.max(gaps))


def checked_gap(gap: float, scale: float, source: str) -> float:
    """Returns the difference. Raises ExportError if the gap exceeds 1e-5 of the largest action (at least 1e-5)."""
    most = TOLERANCE * max(1.0, scale)
    if not gap <= most:
        raise ExportError(
            f"the model differs from {source} by {gap:.2g} (at most {most:.2g} is expected), so it is not written"
        )
    return gap


def _observations(policy: SourcePolicy, rows: int, rng: np.random.Generator) -> list[np.ndarray]:
    obs = []
    for seen in policy.seen:
        if seen.spec.is_visual:
            obs.append(rng.random((rows, *seen.spec.shape)).astype(np.float32))
            continue
        values = rng.normal(size=(rows, *seen.spec.shape))
        if seen.normalizer is not None:
            values = values * seen.normalizer.divisor + seen.normalizer.mean
        obs.append(values.astype(np.float32))
    return obs


def compare_recorded(path: Path, samples: Path) -> tuple[int, float]:
    """Compares the model with observations and actions that the source itself gave: an .npz with `obs` (or `obs.NAME`
    of each) and `actions`.

    Returns the number of rows, and the largest difference of continuous actions or the share of rows with other
    choices. Raises ExportError if the file cannot be read or does not fit, and where actions differ by more than 1e-5
    of the largest.
    """
    arrays = _recorded(samples)
    model = load_policy(path, seed=0)
    named = {key.removeprefix("obs."): value for key, value in arrays.items() if key.startswith("obs.")}
    actions = arrays.get("actions")
    obs: Any = named or arrays.get("obs")
    if obs is None or actions is None or not len(actions):
        raise ExportError(
            f"{samples} has the arrays {', '.join(arrays) or 'none'}; expected 'obs' (or 'obs.NAME' of each) and "
            "'actions'"
        )
    parts = [_act(model, obs, slice(start, start + PART)) for start in range(0, len(actions), PART)]
    mine = np.concatenate(parts)
    theirs = actions.reshape(len(actions), -1)
    if mine.shape != theirs.shape:
        raise ExportError(f"{samples} has actions of shape {actions.shape}; the model gives {mine.shape}")
    if model.branches:
        share = float((mine != theirs).any(1).mean())
        if share:
            raise ExportError(
                f"the model takes other choices than the source in {share:.1%} of the {len(actions)} rows of {samples}"
            )
        return len(actions), share
    gap = float(np.abs(mine - theirs).max())
    scale = max(1.0, float(np.abs(theirs).max()))
    if not gap <= TOLERANCE * scale:
        raise ExportError(
            f"the model differs from the actions in {samples} by {gap:.2g} (at most {TOLERANCE * scale:.2g} is "
            "expected)"
        )
    return len(actions), gap


def _act(model: Policy, obs: Any, rows: slice) -> np.ndarray:
    part: Any = (
        {key: value[rows] for key, value in obs.items()}
        if isinstance(obs, Mapping)
        else _channels_first(model, obs[rows])
    )
    action = model.act(part, deterministic=True)
    found = action.discrete if model.branches else action.continuous
    assert found is not None
    return np.asarray(found)


def _channels_first(model: Policy, images: np.ndarray) -> np.ndarray:
    """Returns images (N, H, W, C), as many environments give them, as (N, C, H, W); anything else as it is."""
    shape = model.obs_shapes[0]
    turned = len(shape) == 3 and images.shape[1:] == (*shape[1:], shape[0]) and images.shape[1:] != shape
    return np.moveaxis(images, -1, 1) if turned else images


def _recorded(samples: Path) -> dict[str, np.ndarray]:
    try:
        return read_npz(read_whole(samples, MOST_BYTES), str(samples), most=MOST_BYTES)
    except OSError as error:
        raise ExportError(f"{samples} cannot be read: {error.strerror or error}") from error
