"""Policies of rsl_rl: a runner's checkpoint `model_N.pt`, with an MLP and perhaps empirical normalization."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from palaestra.convert.convert_options import ConvertOptions
from palaestra.convert.named_layers import mlp, numbered
from palaestra.convert.source_network import ConstantStd, Continuous, Dense, Scaling, SourcePolicy, Spread, activation
from palaestra.convert.state_dicts import UNBOUNDED, bounds_of, continuous_action, vectors
from palaestra.core.errors import ExportError
from palaestra.core.torch_files import Arrays, arrays_of

EPSILON = 1e-2
"""Number that EmpiricalNormalization adds to the standard deviation."""
OLD, NEW = "model_state_dict", "actor_state_dict"
NORMALIZERS = ("actor_obs_normalizer", "obs_normalizer")
UNKNOWN = ("memory_a", "memory_s", "rnn", "cnns", "cnn", "actor_cnns", "student")
"""Modules of policies with more than an MLP."""
SUPPORTED = "an MLP with Gaussian actions, with or without empirical normalization (ActorCritic, MLPModel)"


def is_rsl_rl(saved: Any) -> bool:
    """Whether a file's content is a checkpoint of rsl_rl."""
    return isinstance(saved, Mapping) and (OLD in saved or NEW in saved)


def read_rsl_rl(path: Path, saved: Mapping[str, Any], options: ConvertOptions) -> SourcePolicy:
    """Reads the actor. Raises ExportError for an unsupported architecture, naming the weights that were found."""
    key = NEW if NEW in saved else OLD
    arrays = arrays_of(saved[key], f"{path}: '{key}'")
    prefix = "mlp" if key == NEW else "actor"
    unknown = [
        name
        for name in arrays
        if name.split(".")[0] in ("memory_a", "rnn", "cnns", "cnn", "actor_cnns", "student", "state_dependent_std")
    ]
    if unknown or not numbered(arrays, prefix):
        names = ", ".join((unknown or list(arrays))[:5])
        raise ExportError(f"{path} holds a policy with {names}, ...; supported of rsl_rl is {SUPPORTED}")
    between = activation(options.activation or "elu")
    layers = mlp(arrays, prefix, between, last=None)
    head, spread = _head(path, arrays, layers[-1])
    action = continuous_action(len(head.weight), options)
    remarks = (
        []
        if options.activation
        else ["the file does not name its activation: ELU is assumed; --activation names another"]
    )
    remarks += [] if options.bounds else [UNBOUNDED]
    seen = vectors(layers, options, _normalizer(arrays, saved))
    return SourcePolicy(
        "PPO of rsl_rl",
        seen,
        layers[:-1],
        Continuous((head,), spread, bounds=bounds_of(action)),
        action,
        tuple(remarks),
    )


def _head(path: Path, arrays: Arrays, last: Any) -> tuple[Dense, Spread]:
    """Returns the layer of the means and the deviations: parameters, or the second half of the last layer."""
    for name in ("std", "distribution.std_param"):
        if name in arrays:
            return last, ConstantStd(arrays[name].ravel())
    for name in ("log_std", "distribution.log_std_param"):
        if name in arrays:
            return last, ConstantStd(np.exp(arrays[name].ravel()))
    raise ExportError(
        f"{path} has no deviations that are the same in every state (std, log_std); supported of rsl_rl is {SUPPORTED}"
    )


def _normalizer(arrays: Arrays, saved: Mapping[str, Any]) -> Scaling | None:
    """Returns the actor's empirical normalization: from the weights, or in version 2 from its own entry."""
    beside = saved.get("obs_norm_state_dict")
    found = (
        {}
        if beside is None
        else {f"obs_normalizer.{key}": value for key, value in arrays_of(beside, "'obs_norm_state_dict'").items()}
    )
    for name in NORMALIZERS:
        for source in (arrays, found):
            if f"{name}._mean" in source:
                std = source.get(f"{name}._std")
                std = np.sqrt(source[f"{name}._var"]) if std is None else std
                return Scaling(source[f"{name}._mean"].ravel(), std.ravel() + EPSILON, None)
    return None
