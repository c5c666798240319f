"""Finds the replay that an earlier run saved, for a run that learns from it too (`prior_data.run`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from palaestra.core.errors import ConfigError, RunError
from palaestra.core.specs import differences
from palaestra.runtime.collect.learner import Learner
from palaestra.runtime.storage.checkpoints import Checkpoints
from palaestra.runtime.storage.networks import specs_of
from palaestra.runtime.storage.rank_states import whole_state
from palaestra.runtime.storage.run_folder import origin_folder


def take_prior_data(learner: Learner, results: Path) -> None:
    """Gives a behavior that appears the replays of the run that its settings name, if they name one. Raises RunError,
    ConfigError or CheckpointError.
    """
    prior = getattr(learner.settings.hyperparameters, "prior_data", None)
    if prior is None or prior.run is None or learner.inference:
        return
    folder = origin_folder(results, prior.run)
    folder.must_exist("take its replay (prior_data.run)")
    checkpoint = Checkpoints(folder.path / "checkpoints", 0).load()
    specs = specs_of(checkpoint)
    name = learner.name
    if name not in specs or name not in checkpoint.state:
        raise RunError(
            f"behavior '{name}': prior_data.run: {folder.path} has no such behavior, only {', '.join(specs)}"
        )
    if table := differences(specs[name], learner.spec, ("that run", "the behavior")):
        raise ConfigError(f"behavior '{name}': prior_data.run: the agents of {folder.path} are others:\n{table}")
    run: Any = checkpoint.state["run"]
    others = run["ranks"]["others"] if "ranks" in run else []
    states: list[Mapping[str, Any]] = [checkpoint.state, *(whole_state(checkpoint.state, other) for other in others)]
    replays = [state[name]["trainer"].get("replay") for state in states]
    if not all(replays):
        raise ConfigError(
            f"behavior '{name}': prior_data.run: {checkpoint.path} has no replay: a run of the trainer sac saves one "
            "with save_replay_buffer: true"
        )
    learner.process.take_prior(replays, str(folder.path))
