"""What a run may tell an environment of itself, for the game's own analytics."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

_KEY = b"unity.ml-agents"


@dataclass(frozen=True, slots=True)
class TrainingFacts:
    """A run that begins. Names and fields are those of the message TrainingEnvironmentInitialized."""

    mlagents_version: str
    mlagents_envs_version: str
    python_version: str
    torch_version: str
    torch_device_type: str
    num_envs: int
    num_environment_parameters: int
    run_options: str  # JSON; what a user named or where it lies only as `hashed`


@dataclass(frozen=True, slots=True)
class BehaviorFacts:
    """A behavior that begins to learn. Names and fields are those of the message TrainingBehaviorInitialized."""

    behavior_name: str  # hashed
    trainer_type: str
    extrinsic_reward_enabled: bool
    gail_reward_enabled: bool
    curiosity_reward_enabled: bool
    rnd_reward_enabled: bool
    behavioral_cloning_enabled: bool
    recurrent_enabled: bool
    visual_encoder: str
    num_network_layers: int
    num_network_hidden_units: int
    trainer_threaded: bool
    self_play_enabled: bool
    curriculum_enabled: bool
    config: str  # JSON, as run_options


def hashed(text: str) -> str:
    """HMAC-SHA256 under ML-Agents' key, in hexadecimal: the same name is recognized again, and cannot be read."""
    return hmac.new(_KEY, text.encode(), hashlib.sha256).hexdigest()
