"""Loads the networks from a run's checkpoint, without an environment or a trainer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from palaestra.core.errors import CheckpointError, RunError
from palaestra.core.onnx_models.onnx_metadata import raw_action, raw_obs
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.models.trunk import Trunk
from palaestra.runtime.settings import behavior_settings, load
from palaestra.runtime.storage.checkpoints import Checkpoint, Checkpoints
from palaestra.runtime.storage.run_folder import CONFIGURATION, tensorflow_run
from palaestra.runtime.storage.trust import must_be_trusted, network_code
from palaestra.trainers.behavior_settings import trainer_class


def load_networks(run: Path, step: int | None = None, trust: bool = False) -> dict[str, tuple[Trunk, BehaviorSpec]]:
    """Returns network and spec of each behavior, on the CPU, from the checkpoint of `step` or from the newest intact
    one.

    Raises RunError. Without `trust`, it also raises RunError if another user's run folder names code that the networks
    need.
    """
    configuration = run / CONFIGURATION
    if not configuration.is_file():
        raise RunError(f"{run} is not a run's folder: {tensorflow_run(run) or f'it has no {CONFIGURATION}'}")
    named = load(configuration, own_code=False).settings
    must_be_trusted(run, named, network_code(named), trust)
    settings = load(configuration).settings
    checkpoint = Checkpoints(run / "checkpoints", 0).load(step)
    specs = specs_of(checkpoint)
    networks = {}
    for name, spec in specs.items():
        own = behavior_settings(settings, name, specs)
        try:
            saved = checkpoint.state[name]["trainer"]["network"]
            must_fit(lambda spec=spec, own=own: trainer_class(own.trainer_type).make_network(spec, own), saved)
            network = trainer_class(own.trainer_type).make_network(spec, own)
            network.load_state_dict(saved)
        except (KeyError, RuntimeError) as error:
            raise CheckpointError(f"{checkpoint.path} does not fit the settings in {configuration}: {error}") from error
        networks[name] = (network, spec)
    return networks


def specs_of(checkpoint: Checkpoint) -> dict[str, BehaviorSpec]:
    """Returns the spec of each behavior. Raises CheckpointError for a checkpoint of an early version."""
    whole: Any = checkpoint.state["run"]
    if "specs" not in whole:
        raise CheckpointError(
            f"{checkpoint.path} was written by an earlier version: resume the run with this version, to save a new "
            "checkpoint"
        )
    return {name: spec_of(saved) for name, saved in whole["specs"].items()}


def must_fit(make: Callable[[], nn.Module], saved: Mapping[str, Tensor]) -> None:
    """Raises RuntimeError for a network that is larger than its saved weights, before the network takes any memory.

    A few digits in a folder's settings or manifest could ask for a network of any size.
    """
    with (
        suppress(NotImplementedError),
        torch.device("meta"),
    ):  # a custom network may compute with its weights, which it has none of here
        needed = sum(value.numel() for value in make().state_dict().values())
        there = sum({value.data_ptr(): value.numel() for value in saved.values()}.values())
        if needed > there:
            raise RuntimeError(f"the network has {needed:,} numbers, and {there:,} are saved")


def spec_of(saved: Mapping[str, Any]) -> BehaviorSpec:
    """Restores a spec from the result of `dataclasses.asdict`."""
    obs = tuple(ObsSpec(**{**obs, "raw": raw_obs(obs.get("raw"))}) for obs in saved["obs"])
    return BehaviorSpec(
        obs, ActionSpec(**{**saved["action"], "raw": raw_action(saved["action"].get("raw"))}), saved["steady"]
    )
