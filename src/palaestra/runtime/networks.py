"""The networks in a run's checkpoint, without putting the run together."""

from __future__ import annotations

from pathlib import Path

import torch

from palaestra.core.errors import CheckpointError, RunError
from palaestra.core.registry import Registry
from palaestra.core.specs import BehaviorSpec
from palaestra.models.actor_critic import ActorCritic
from palaestra.runtime.checkpoints import Checkpoints
from palaestra.runtime.environments import make_env
from palaestra.runtime.folder import CONFIGURATION
from palaestra.runtime.settings import behavior, load


def load_networks(run: Path, step: int | None = None) -> dict[str, tuple[ActorCritic, BehaviorSpec]]:
    """Network and spec of each behavior, on the CPU, from the checkpoint of `step` or the newest whole one.

    The run's environment is opened for a moment: it knows what its behaviors see and do. Raises RunError, or EnvError.
    """
    configuration = run / CONFIGURATION
    if not configuration.is_file():
        raise RunError(f"{run} is no run: it has no {CONFIGURATION}")
    settings = load(configuration).settings
    checkpoint = Checkpoints(run / "checkpoints", 0).load(step)
    place = settings.env_settings
    env = make_env(place.env_path, areas=place.num_areas, options=place.env_options)
    try:
        env.reset(0)
        specs = dict(env.behaviors)
    finally:
        env.close()
    networks = {}
    for name, spec in specs.items():
        if name not in checkpoint.state:
            continue
        own = behavior(settings, name, specs)
        network = Registry("trainers").get(own.trainer_type)(spec, own, torch.device("cpu"), 0).network
        try:
            network.load_state_dict(checkpoint.state[name]["trainer"]["network"])
        except (KeyError, RuntimeError) as error:
            raise CheckpointError(f"{checkpoint.path} does not fit the settings in {configuration} and its environment: {error}") from error
        networks[name] = (network, spec)
    if not networks:
        there = ", ".join(name for name in checkpoint.state if name != "run")
        raise CheckpointError(f"{checkpoint.path} has none of the environment's behaviors ({', '.join(specs)}); it has {there or 'none'}")
    return networks
