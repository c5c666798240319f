"""The environment interface, which `palaestra.testing.check_env` tests. The optional members of environments stand in
`EnvWrapper`."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    import torch
    from torch import Tensor

    from palaestra.core.specs import BehaviorSpec
    from palaestra.core.timestep import Action, TimeStep

Distribution = Literal["uniform", "gaussian", "multirangeuniform"]
"""Distributions for sampled parameters, by their names in settings."""


@runtime_checkable
class Env(Protocol):
    """An environment that steps many agents at once and returns one table for each behavior.

    An episode restarts on the tick on which it ends (Gymnasium's SAME_STEP): `obs` is already the first observation of
    the new episode. A returned TimeStep is never modified.
    """

    device: torch.device  # where its tables are
    num_areas: int  # copies that are stepped together
    parameters: Mapping[str, float]  # defaults of the parameters that `set_parameters` accepts

    @property
    def behaviors(self) -> Mapping[str, BehaviorSpec]:
        """Specs by name; an attribute is enough. Names may be added between ticks, but never removed."""
        ...

    def reset(self, seed: int) -> dict[str, TimeStep]:
        """Resets every area. The same seed and actions give the same results."""
        ...

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        """Simulates one tick. Rows of inactive slots are ignored; a behavior without active slots needs no actions.

        Raises EnvError if the environment's process has stopped.
        """
        ...

    def set_parameters(self, values: Mapping[str, Tensor]) -> None:
        """Sets a value for each area, (num_areas,), which applies from the area's next episode on. Raises EnvError for
        an unknown name."""
        ...

    def render(self, area: int) -> np.ndarray:
        """Returns an image of one area, (H, W, 3) uint8. Raises EnvError if the environment cannot draw."""
        ...

    def state_dict(self) -> dict[str, Tensor]:
        """Returns the complete state; empty if it cannot be saved, so that a resumed run starts new episodes."""
        ...

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restores a saved state, from which the same actions give the same results."""
        ...

    def close(self) -> None:
        """Frees resources; may be called again."""
        ...


_KEY = b"unity.ml-agents"


@dataclass(frozen=True, slots=True)
class TrainingFacts:
    """Facts about a run at its start. Has the names and fields of ML-Agents' message TrainingEnvironmentInitialized."""

    mlagents_version: str
    mlagents_envs_version: str
    python_version: str
    torch_version: str
    torch_device_type: str
    num_envs: int
    num_environment_parameters: int
    run_options: str  # JSON; users' names and paths are `hashed`


@dataclass(frozen=True, slots=True)
class BehaviorFacts:
    """Facts about a behavior when it starts to train. It has the names and fields of ML-Agents' message
    TrainingBehaviorInitialized."""

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
    config: str  # JSON, hashed like run_options


def hashed(text: str) -> str:
    """Returns the HMAC-SHA256 of a text under ML-Agents' key, in hexadecimal: equal names stay equal."""
    return hmac.new(_KEY, text.encode(), hashlib.sha256).hexdigest()
