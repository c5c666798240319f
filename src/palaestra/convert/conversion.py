"""Converts a policy's file to the ONNX model that Unity and `load_policy` read."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from palaestra.brains.barracuda.nn_evaluation import evaluate
from palaestra.brains.barracuda.nn_policy import MASK, VECTORS, BarracudaPolicy, policy_graph, read_policy, zeros
from palaestra.brains.model import load_policy
from palaestra.convert.cleanrl import SUPPORTED as OF_CLEANRL
from palaestra.convert.cleanrl import read_cleanrl
from palaestra.convert.convert_options import ConvertOptions
from palaestra.convert.rsl_rl import SUPPORTED as OF_RSL_RL
from palaestra.convert.rsl_rl import is_rsl_rl, read_rsl_rl
from palaestra.convert.sb3 import SUPPORTED as OF_SB3
from palaestra.convert.sb3 import read_sb3
from palaestra.convert.source_check import checked_gap, compare, compare_recorded, largest_gap
from palaestra.convert.source_graph import source_graph
from palaestra.convert.source_network import SourcePolicy, check_shapes
from palaestra.core.errors import ConfigError, ExportError
from palaestra.core.files import explain, must_be_new, near_files, write_whole
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.core.torch_files import arrays_of, check_archive, read_saved

SOURCES = f"""
  Stable-Baselines3 (.zip): {OF_SB3}
  CleanRL (state_dict): {OF_CLEANRL}
  rsl_rl (model_N.pt): {OF_RSL_RL}
  ML-Agents before release 17 (.nn)"""
NN_ROWS = 200
OF_WEIGHTS = {
    "--bounds": "bounds",
    "--activation": "activation",
    "--normalizer": "normalizer",
    "--actions continuous": "continuous",
}
"""Flags that are only needed for files of weights."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """Result of a conversion: the ONNX file that was written, and the largest difference from its source."""

    path: Path
    title: str
    """Library and algorithm of the source."""
    spec: BehaviorSpec
    difference: float
    """Largest difference from the source on random observations; for choices, the least lead of the best one."""
    remarks: tuple[str, ...]
    """Assumptions about what the file does not say."""
    recorded: tuple[int, float] | None
    """Number of rows of recorded actions that were compared, and the largest difference."""


def convert(
    source: Path | str,
    target: Path | str,
    options: ConvertOptions | None = None,
    *,
    check: Path | str | None = None,
    force: bool = False,
) -> Conversion:
    """Converts a model file and compares the result with its source; `check` is a file of actions that the source
    itself gave.

    Code in the source is never run. Raises ExportError or PolicyError if the source cannot be read or the result
    differs, ConfigError for a target that is no .onnx file, or that exists if `force` is not set.
    """
    source = Path(source)
    target = Path(target)
    options = options or ConvertOptions()
    _check_target(source, target, force)
    with tempfile.TemporaryDirectory() as place:  # nothing that differs from its source reaches the target
        made = Path(place) / target.name
        if source.suffix.lower() == ".nn":
            title, spec, difference, remarks = _convert_nn(source, made, options)
        else:
            policy = read_source(source, options)
            source_graph(policy).write(made)
            title, spec, difference, remarks = policy.title, policy.spec, compare(policy, made), policy.remarks
        recorded = None if check is None else compare_recorded(made, Path(check))
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            write_whole(target, made.read_bytes())
        except OSError as error:
            raise ExportError(f"{target} cannot be written: {explain(error)}") from error
    return Conversion(target, title, spec, difference, remarks, recorded)


def read_source(source: Path, options: ConvertOptions | None = None) -> SourcePolicy:
    """Reads a policy of Stable-Baselines3, CleanRL or rsl_rl. Raises ExportError."""
    options = options or ConvertOptions()
    names = check_archive(source, str(source), f"a model of one of these:{SOURCES}")
    if "policy.pth" in names or ("data" in names and any(name.endswith(".pth") for name in names)):
        policy = read_sb3(source, options)
    else:
        saved = read_saved(source, str(source))
        if is_rsl_rl(saved):
            policy = read_rsl_rl(source, saved, options)
        else:
            policy = read_cleanrl(source, arrays_of(_state_dict(source, saved), str(source)), options)
    check_shapes(policy)
    return policy


def _state_dict(source: Path, saved: Any) -> Any:
    """Returns the agent's state_dict: itself, or the first of several, as CleanRL's off-policy scripts save them."""
    if isinstance(saved, tuple | list) and saved and isinstance(saved[0], Mapping):
        return saved[0]
    if isinstance(saved, Mapping) and saved and all(isinstance(value, Mapping) for value in saved.values()):
        there = ", ".join(map(str, saved))
        raise ExportError(
            f"{source} holds several parts ({there}) of a layout that is not known; supported are:{SOURCES}"
        )
    return saved


def _convert_nn(
    source: Path, target: Path, options: ConvertOptions
) -> tuple[str, BehaviorSpec, float, tuple[str, ...]]:
    useless = [flag for flag, given in OF_WEIGHTS.items() if getattr(options, given) is not None]
    if useless:
        raise ConfigError(f"{source}: a Barracuda file says that itself; leave out {useless[0]}")
    policy = read_policy(source, options.obs, options.branches)
    policy_graph(policy).write(target)
    spec = BehaviorSpec(
        tuple(ObsSpec(f"obs_{i}", shape) for i, shape in enumerate(policy.obs)),
        ActionSpec(policy.continuous, policy.branches),
    )
    remarks = []
    if options.obs is None and VECTORS in policy.network.inputs:
        remarks.append(
            "the file has all vectors in one; where the agent has several sensors, give the length of each in the "
            "order that Unity has them, sorted by name, such as --obs-shape 105,105 for two of 105 numbers"
        )
    return "a Barracuda model of ML-Agents", spec, _compare_nn(policy, target), tuple(remarks)


def _compare_nn(policy: BarracudaPolicy, path: Path) -> float:
    network = policy.network
    rng = np.random.default_rng(0)
    model = load_policy(path, seed=0)
    feeds = zeros(network, NN_ROWS)
    obs = [
        (rng.random if len(shape) == 3 else rng.standard_normal)((NN_ROWS, *shape), dtype=np.float32)
        for shape in policy.obs
    ]
    images = iter(each for each in obs if each.ndim == 4)
    for name in network.inputs:
        if name.startswith("visual"):
            feeds[name] = next(images).transpose(0, 2, 3, 1)
    if VECTORS in feeds:
        feeds[VECTORS] = np.concatenate([each for each in obs if each.ndim == 2], 1).reshape(feeds[VECTORS].shape)
    mask = None
    if policy.branches:
        mask = rng.random((NN_ROWS, sum(policy.branches))) < 0.7
        mask[:, np.cumsum((0, *policy.branches[:-1]))] = True
        if MASK in feeds:
            feeds[MASK] = mask.reshape(feeds[MASK].shape).astype(np.float32)
    expected = evaluate(network, feeds)["action"].reshape(NN_ROWS, -1)
    if mask is not None:
        expected = np.where(mask, expected, -np.inf)
    gap = largest_gap(model.act(obs, mask, deterministic=True), expected, policy.branches)
    return checked_gap(gap, float(np.abs(expected[np.isfinite(expected)]).max(initial=0.0)), str(network.path))


def _check_target(source: Path, target: Path, force: bool) -> None:
    if not source.exists():
        near = near_files(source, [source.suffix]) or f"; expected a model of one of these:{SOURCES}"
        raise ExportError(f"there is no file {source}{near}")
    if source.is_dir():
        raise ExportError(f"{source} is a folder; expected a model file of one of these:{SOURCES}")
    if source.suffix.lower() == ".onnx":
        raise ExportError(
            f"{source} is an ONNX model already, which needs no conversion; expected a model of one of these:{SOURCES}"
        )
    if target.suffix.lower() != ".onnx" or target.is_dir():
        raise ConfigError(f"{target}: expected the name of a file that ends in .onnx")
    must_be_new(target, force=force)
