"""Starts a behavior's network from the weights of another run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from palaestra.core.errors import ConfigError
from palaestra.models.trunk import Trunk
from palaestra.runtime.collect.learner import Learner

OTHER_REWARDS = "its value estimates start untrained, because its reward signals, its trainer or its critic_bins differ"
OTHER_CRITIC = (
    "its policy is taken over, and its critic starts untrained, because it sees other observations (critic_only) or "
    "has another size"
)
SAME_SIGHT = "; critic_only hides some from the policy in one of the runs, and both policies must see the same"
CRITICS = re.compile(r"(critics?|targets|value_head|(encoders|attentions|bodies|memory\.lstms)\.1)\.")
"""Begin of the names of a critic's tensors in a network's state; stacked layers (`body`) contain actor and critic."""
SEPARATE = re.compile(r"(critics?|targets)\.")
"""Begin of the names of tensors of critics with separate observations, or of SAC."""


def initialize(learner: Learner, state: Mapping[str, Any], origin: Path) -> str:
    """Copies another run's network. Raises ConfigError if the networks differ in shape.

    Returns the parts that start untrained, and why: values depend on the run's reward signals and trainer, a critic on
    its observations; '' if all parts get the saved weights.
    """
    network = learner.trainer.network
    saved = state["trainer"]["network"]
    own = network.state_dict()
    differ = differences(network, saved)
    if (policy := policy_of(network, saved, differ)) is not None:
        network.load_state_dict(policy)
        learner.starts_trained = True
        return OTHER_CRITIC
    heads = network.reward_heads
    if any(not line.startswith(heads) for line in differ):
        separate = network.shown is not None or any(key.startswith("critic.") for key in saved)
        raise ConfigError(
            f"behavior '{learner.name}' cannot start from {origin}: its network has another shape "
            f"({'; '.join(differ[:3])}); use the same network_settings, observations and actions, and trainers "
            f"with the same networks (ppo, poca and bc have){SAME_SIGHT if separate else ''}"
        )
    others = differ or state["signals"] != sorted(learner.settings.reward_signals)
    anew = {key: value for key, value in own.items() if others and key.startswith(heads)}
    if network.zeroed_heads:
        anew = {key: torch.zeros_like(value) if key.endswith("weight") else value for key, value in anew.items()}
    network.load_state_dict({key: anew.get(key, saved.get(key)) for key in own})
    learner.starts_trained = True
    return OTHER_REWARDS if anew else ""


def could_start(network: Trunk, saved: Mapping[str, Any]) -> bool:
    """Whether all saved weights fit a network, except the weights of values, or of a critic with other observations."""
    differ = differences(network, saved)
    fits = all(line.startswith(network.reward_heads) for line in differ)
    return fits or policy_of(network, saved, differ) is not None


def policy_of(network: Trunk, saved: Mapping[str, Any], differ: Sequence[str]) -> dict[str, Tensor] | None:
    """Returns the network's state with a saved policy and its own new critic, if both critics see other observations
    (`critic_only`); None if they see the same, or if the policies differ in shape."""
    if not any(SEPARATE.match(line) and not line.startswith(network.reward_heads) for line in differ):
        return None
    state = dict(network.state_dict())
    for key, value in state.items():
        if CRITICS.match(key):
            continue
        theirs = saved.get(key)
        stacked = network.networks > 1 and key.startswith("body.")
        if theirs is not None and theirs.shape == value.shape and not stacked:
            state[key] = theirs
        elif theirs is not None and key.startswith("body.") and theirs.shape[1:] == value.shape[1:]:
            state[key] = torch.cat([theirs[:1].to(value.device), value[1:]])  # the policy's layers come first
        else:
            return None
    return state if all(key in state or CRITICS.match(key) for key in saved) else None


def differences(network: Trunk, saved: Mapping[str, Any]) -> list[str]:
    """Returns the weights whose shapes differ between a network and a saved network, as text."""
    own = network.state_dict()
    return [
        f"{key}: {_shape(saved, key)} saved, {_shape(own, key)} in this run"
        for key in dict.fromkeys((*own, *saved))  # a memory that is only there would be missed in play
        if _shape(saved, key) != _shape(own, key)
    ]


def _shape(tensors: Mapping[str, Any], key: str) -> str:
    return str(tuple(tensors[key].shape)) if key in tensors else "missing"
