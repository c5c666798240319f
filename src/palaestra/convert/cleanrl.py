"""Policies of CleanRL: the state_dict of an agent, in the layouts of its scripts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from palaestra.convert.convert_options import ConvertOptions, spread_bounds
from palaestra.convert.named_layers import dense, mlp, nature_cnn, numbered, outputs
from palaestra.convert.source_network import Activation, Continuous, Discrete, LearnedStd, SourcePolicy, activation
from palaestra.convert.state_dicts import UNBOUNDED, clipped_head, continuous_action, discrete_action, image, vectors
from palaestra.core.errors import ExportError
from palaestra.core.specs import ActionSpec
from palaestra.core.torch_files import Arrays

SUPPORTED = (
    "ppo.py, ppo_continuous_action.py, ppo_atari.py, dqn.py, dqn_atari.py, sac_continuous_action.py, td3_ and "
    "ddpg_continuous_action.py"
)
RELU = Activation("relu")
LEAST_LOG_STD, MOST_LOG_STD = -5.0, 2.0
"""Range of the logarithm of SAC's standard deviations in CleanRL, which a tanh bounds."""
CONVOLUTIONS, DENSE = ("network.0", "network.2", "network.4"), "network.7"


def cleanrl_layout(arrays: Arrays) -> Callable[[Arrays, ConvertOptions], SourcePolicy] | None:
    """Returns the reader of a CleanRL script's state_dict, found by the names in it; None for other names."""
    names = arrays.keys()
    if any("lstm" in name for name in names):
        return None
    if "actor_mean.0.weight" in names and "actor_logstd" in names:
        return ppo_continuous
    if "actor.weight" in names and DENSE + ".weight" in names:
        return ppo_atari
    if "fc_mean.weight" in names and "fc_logstd.weight" in names:
        return sac
    if "fc_mu.weight" in names and "fc2.weight" in names:
        return td3
    if "network.9.weight" in names and DENSE + ".weight" in names:
        return dqn_atari
    if "network.0.weight" in names and arrays["network.0.weight"].ndim == 2 and "atoms" not in names:
        return dqn
    if "actor.0.weight" in names and "critic.0.weight" in names and not any("std" in name for name in names):
        return ppo
    return None


def ppo(arrays: Arrays, options: ConvertOptions) -> SourcePolicy:
    """Reads `ppo.py`: a separate actor, tanh between layers, and logits."""
    layers = mlp(arrays, "actor", _between(options, "tanh"), last=None)
    action = discrete_action(outputs(layers), options)
    return SourcePolicy("PPO of CleanRL (ppo.py)", vectors(layers, options), layers[:-1], Discrete(layers[-1:]), action)


def ppo_continuous(arrays: Arrays, options: ConvertOptions) -> SourcePolicy:
    """Reads `ppo_continuous_action.py`: means, and deviations that are the same in every state."""
    layers = mlp(arrays, "actor_mean", _between(options, "tanh"), last=None)
    action = continuous_action(outputs(layers), options)
    head = clipped_head(
        dense(arrays, f"actor_mean.{numbered(arrays, 'actor_mean')[-1]}"), np.exp(arrays["actor_logstd"]), action
    )
    remarks = [] if options.bounds else [UNBOUNDED]
    if options.normalizer is None:
        remarks.append(
            "statistics of NormalizeObservation, if the script used it, are not in the file; --normalizer FILE.npz "
            "adds them"
        )
    title = "PPO of CleanRL (ppo_continuous_action.py)"
    return SourcePolicy(title, vectors(layers, options), layers[:-1], head, action, tuple(remarks))


def ppo_atari(arrays: Arrays, options: ConvertOptions) -> SourcePolicy:
    """Reads `ppo_atari.py`: Reads `ppo_atari.py`: NatureCNN over images of uint8, and logits."""
    encoder = nature_cnn(arrays, CONVOLUTIONS, DENSE)
    head = dense(arrays, "actor")
    seen = image(arrays["network.0.weight"], encoder, options)
    return SourcePolicy(
        "PPO of CleanRL (ppo_atari.py)", (seen,), (), Discrete((head,)), discrete_action(len(head.weight), options)
    )


def dqn(arrays: Arrays, options: ConvertOptions) -> SourcePolicy:
    """Reads `dqn.py`: values of choices, with ReLU between layers."""
    layers = mlp(arrays, "network", _between(options, "relu"), last=None)
    action = discrete_action(outputs(layers), options)
    return SourcePolicy(
        "DQN of CleanRL (dqn.py)", vectors(layers, options), layers[:-1], Discrete(layers[-1:], greedy=True), action
    )


def dqn_atari(arrays: Arrays, options: ConvertOptions) -> SourcePolicy:
    """Reads `dqn_atari.py`: Reads `dqn_atari.py`: NatureCNN over images of uint8, and values of choices."""
    encoder = nature_cnn(arrays, CONVOLUTIONS, DENSE)
    head = dense(arrays, "network.9")
    seen = image(arrays["network.0.weight"], encoder, options)
    action = discrete_action(len(head.weight), options)
    return SourcePolicy("DQN of CleanRL (dqn_atari.py)", (seen,), (), Discrete((head,), greedy=True), action)


def sac(arrays: Arrays, options: ConvertOptions) -> SourcePolicy:
    """Reads `sac_continuous_action.py`: means and deviations, then tanh."""
    body = (dense(arrays, "fc1"), _between(options, "relu"), dense(arrays, "fc2"), _between(options, "relu"))
    mean = dense(arrays, "fc_mean")
    spread = LearnedStd(dense(arrays, "fc_logstd"), LEAST_LOG_STD, MOST_LOG_STD, squashed=True)
    action = _scaled_action(arrays, len(mean.weight), options)
    return SourcePolicy("SAC of CleanRL", vectors(body, options), body, Continuous((mean,), spread, True), action)


def td3(arrays: Arrays, options: ConvertOptions) -> SourcePolicy:
    """Reads `td3_continuous_action.py` and `ddpg_continuous_action.py`: a deterministic action after tanh."""
    body = (dense(arrays, "fc1"), _between(options, "relu"), dense(arrays, "fc2"), _between(options, "relu"))
    mean = dense(arrays, "fc_mu")
    action = _scaled_action(arrays, len(mean.weight), options)
    return SourcePolicy("TD3 or DDPG of CleanRL", vectors(body, options), body, Continuous((mean,), None, True), action)


def _scaled_action(arrays: Arrays, size: int, options: ConvertOptions) -> ActionSpec:
    if options.bounds is not None:
        low, high = spread_bounds(options.bounds, size)
        return continuous_action(size, options) if low and high else ActionSpec(size)
    continuous_action(size, options)
    scale, middle = (
        arrays.get(name, np.full(size, usual)).ravel() for name, usual in (("action_scale", 1.0), ("action_bias", 0.0))
    )
    if (scale.size, middle.size) != (size, size):
        raise ExportError(
            f"'action_scale' and 'action_bias' have {scale.size} and {middle.size} numbers; expected {size}"
        )
    return ActionSpec(size, low=tuple((middle - scale).tolist()), high=tuple((middle + scale).tolist()))


def _between(options: ConvertOptions, usual: str) -> Activation:
    return activation(options.activation or usual)


def read_cleanrl(path: Path, arrays: Arrays, options: ConvertOptions) -> SourcePolicy:
    """Reads a state_dict of CleanRL. Raises ExportError for an unsupported script, naming the weights found."""
    layout = cleanrl_layout(arrays)
    if layout is None:
        names = ", ".join(f"{name} {'x'.join(map(str, value.shape))}" for name, value in list(arrays.items())[:6])
        raise ExportError(
            f"{path} holds weights of a layout that is not known ({names}, ...); supported of CleanRL are {SUPPORTED}"
        )
    return layout(arrays, options)
