"""Starts a behavior's network from the weights of another run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from palaestra.core.errors import ConfigError
from palaestra.models.trunk import Trunk
from palaestra.runtime.collect.learner import Learner


def initialize(learner: Learner, state: Mapping[str, Any], origin: Path) -> bool:
    """Copies another run's network. Raises ConfigError if the networks differ in shape.

    Returns whether values were copied: they belong to that run's reward signals and trainer, and start anew if these
    differ.
    """
    network = learner.trainer.network
    saved = state["trainer"]["network"]
    own = network.state_dict()
    differ = differences(network, saved)
    heads = network.reward_heads
    if any(not line.startswith(heads) for line in differ):
        raise ConfigError(
            f"behavior '{learner.name}' cannot start from {origin}: its network has another shape "
            f"({'; '.join(differ[:3])}); use the same network_settings, observations and actions, and trainers "
            "with the same networks (ppo, poca and bc have)"
        )
    others = differ or state["signals"] != sorted(learner.settings.reward_signals)
    anew = {key: value for key, value in own.items() if others and key.startswith(heads)}
    if network.zeroed_heads:
        anew = {key: torch.zeros_like(value) for key, value in anew.items()}
    network.load_state_dict({key: anew.get(key, saved.get(key)) for key in own})
    learner.starts_trained = True
    return not anew


def could_start(network: Trunk, saved: Mapping[str, Any]) -> bool:
    """Whether all saved weights but those of values fit a network."""
    return all(line.startswith(network.reward_heads) for line in differences(network, saved))


def differences(network: Trunk, saved: Mapping[str, Any]) -> list[str]:
    """Returns the weights whose shapes differ from a saved network's, as text."""
    own = network.state_dict()
    return [
        f"{key}: {_shape(saved, key)} there, {_shape(own, key)} here"
        for key in dict.fromkeys((*own, *saved))  # a memory that is only there would be missed in play
        if _shape(saved, key) != _shape(own, key)
    ]


def _shape(tensors: Mapping[str, Any], key: str) -> str:
    return str(tuple(tensors[key].shape)) if key in tensors else "missing"
