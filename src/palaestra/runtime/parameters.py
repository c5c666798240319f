"""Environment parameters, as settings have them."""

from __future__ import annotations

import torch

from palaestra.envs.base import Env
from palaestra.runtime.settings import RunSettings
from palaestra.scenario.settings import constant


def fix_parameters(env: Env, settings: RunSettings) -> None:
    """Sets those that the settings fix, in every area."""
    fixed = {name: constant(value) for name, value in (settings.environment_parameters or {}).items()}
    if fixed:
        env.set_parameters({name: torch.full((env.num_areas,), value or 0.0) for name, value in fixed.items()})
