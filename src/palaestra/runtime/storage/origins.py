"""Finds the data that a run takes from an earlier run: initial networks (also from ML-Agents' `checkpoint.pt`) and
prior data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palaestra.core.errors import CheckpointError, ConfigError, PalaestraError, RunError
from palaestra.core.files import file_kind, file_name
from palaestra.core.specs import BehaviorSpec, differences
from palaestra.core.torch_files import read_saved
from palaestra.hub.fetching import checkpoint_folder
from palaestra.models.trunk import Trunk
from palaestra.parallel.rank_group import RankGroup
from palaestra.runtime.collect.initialization import OTHER_CRITIC, OTHER_REWARDS
from palaestra.runtime.collect.initialization import initialize as initialized
from palaestra.runtime.collect.learner import Learner
from palaestra.runtime.settings import CheckpointSettings
from palaestra.runtime.storage.checkpoints import Checkpoints
from palaestra.runtime.storage.networks import specs_of
from palaestra.runtime.storage.original_weights import POLICY, Mismatch, converted
from palaestra.runtime.storage.rank_states import whole_state
from palaestra.runtime.storage.run_folder import THEIRS, RunFolder, origin_folder, tensorflow_run, their_checkpoints


@dataclass(frozen=True, slots=True)
class FirstWeights:
    """Place of a behavior's first weights."""

    place: Path
    """Run folder or file, for messages."""
    step: int | None
    """Step of a checkpoint of Palaestra; None: the newest."""
    theirs: bool
    """Whether `place` is a file of ML-Agents."""

    def state(self, behavior: str, network: Trunk, signals: Sequence[str]) -> tuple[Mapping[str, Any], bool]:
        """Returns the saved state of the behavior, and whether its critic is part of it.

        `network` and `signals` (reward signals in their order) belong to the new run; weights of ML-Agents are
        arranged as this network needs them. Raises CheckpointError, ConfigError or RunError.
        """
        if self.theirs:
            return self._their_state(behavior, network, signals)
        state = Checkpoints(self.place / "checkpoints", 0).load(self.step).state
        if behavior not in state:
            there = ", ".join(f"'{other}'" for other in state if other != "run")
            raise RunError(f"behavior '{behavior}' cannot start from {self.place}: it has {there} only")
        return state[behavior], True

    def _their_state(self, behavior: str, network: Trunk, signals: Sequence[str]) -> tuple[Mapping[str, Any], bool]:
        saved = read_saved(self.place, str(self.place), CheckpointError)
        if not isinstance(saved, Mapping) or POLICY not in saved:
            raise CheckpointError(
                f"{self.place} is no checkpoint of ML-Agents: it has no '{POLICY}'; expected the {THEIRS} of a behavior"
            )
        modules = {str(name): part for name, part in saved.items() if isinstance(part, Mapping)}
        try:
            weights, whole = converted(modules, network, signals)
        except (Mismatch, AttributeError, RuntimeError) as error:
            raise ConfigError(
                f"behavior '{behavior}' cannot start from {self.place}: its network has another shape ({error}); use "
                "the same network_settings, observations and actions"
            ) from error
        return {"trainer": {"network": weights}, "signals": sorted(signals)}, whole


def find_origin(behavior: str, init_path: str | None, run: RunFolder | None) -> FirstWeights:
    """Returns a behavior's starting state: from its `init_path`, else from the run of --initialize-from. Raises
    RunError if there is no such state.

    `init_path` is a run's folder or one of its checkpoints, or a checkpoint.pt of ML-Agents or its folder.
    """
    if init_path is None:
        assert run is not None
        return _in_folder(behavior, run.path)
    place = checkpoint_folder(init_path)  # downloaded, if it is on the Hub
    if place.is_file():
        if place.suffix != ".pt":
            kind = file_kind(place)
            raise RunError(
                f"init_path {init_path} is no checkpoint{f': it is {kind}' if kind else ''}; name a run's folder, one "
                f"of its checkpoints, or a {THEIRS} of ML-Agents"
            )
        return FirstWeights(place, None, True)
    if not place.is_dir():
        raise RunError(
            f"init_path {init_path} does not exist: name a run's folder, such as results/first, one of its "
            f"checkpoints, or a {THEIRS} of ML-Agents"
        )
    if place.name.isdigit() and place.parent.name == "checkpoints":
        return FirstWeights(place.parent.parent, int(place.name), False)
    if (place / THEIRS).is_file():
        return FirstWeights(place / THEIRS, None, True)
    return _in_folder(behavior, place)


def _in_folder(behavior: str, folder: Path) -> FirstWeights:
    found = their_checkpoints(folder)
    if not found:
        if old := tensorflow_run(folder):
            raise RunError(f"behavior '{behavior}' cannot start from {folder}: {old}")
        if not (folder / "checkpoints").is_dir():
            raise RunError(
                f"behavior '{behavior}' cannot start from {folder}: it has neither checkpoints/, as our runs have, nor "
                f"{behavior}/{THEIRS}, as runs of ML-Agents have"
            )
        return FirstWeights(folder, None, False)
    wanted = [path for path in found if path.parent.name in (behavior, file_name(behavior))]
    if not wanted:
        there = ", ".join(f"'{path.parent.name}'" for path in found)
        raise RunError(
            f"behavior '{behavior}' cannot start from {folder}, a run of ML-Agents: it has {there} only; name one "
            "with init_path"
        )
    return FirstWeights(wanted[0], None, True)


def initialize(
    learner: Learner,
    chosen: CheckpointSettings,
    folder: RunFolder,
    group: RankGroup,
    info: Callable[[str], object],
    late: Callable[[str], object] | None = None,
) -> None:
    """Loads a behavior's initial network when the behavior appears, if the settings name one. Raises RunError or
    ConfigError.

    `late`: in a resumed run, warns instead of raising. A rank on a machine without the files gets rank 0's network when
    the ranks first learn together.
    """
    path = learner.settings.init_path
    named = chosen.initialize_from if not chosen.resume else None
    if path is None and named is None:
        return
    try:
        origin = None if named is None else origin_folder(folder.results, named)
        if origin is not None:
            origin.must_exist("initialize from it")
        found = find_origin(learner.name, path, origin)
        state, whole = found.state(learner.name, learner.trainer.network, list(learner.settings.reward_signals))
        anew = initialized(learner, state, found.place)
        if not (anew or whole):
            anew = OTHER_REWARDS if learner.trainer.network.shown is None else OTHER_CRITIC
    except PalaestraError as error:
        problem = error

        def report() -> None:
            if late is None:
                raise problem
            late(f"'{learner.name}' begins with random weights: {problem}")

        group.first(report)
        return
    info(f"Initialized '{learner.name}' from {found.place}{f'; {anew}' if anew else ''}")


def take_prior_data(
    learner: Learner, folder: RunFolder, late: Callable[[str], object] | None = None, behavior: str | None = None
) -> None:
    """When a behavior appears, gives it the replays of the run that its settings name, if they name a run. `folder`:
    the run's own folder. Raises RunError, ConfigError or CheckpointError; `late`: in a resumed run, warns instead.
    `behavior`: the behavior whose replays are taken, by default the learner's own name."""
    prior = getattr(learner.settings.hyperparameters, "prior_data", None)
    if prior is None or prior.run is None or learner.inference:
        return
    try:
        origin = origin_folder(folder.results, prior.run)
        if origin.path.resolve() == folder.path.resolve():
            raise ConfigError(
                f"behavior '{learner.name}': prior_data.run: {prior.run} is this run itself, which learns from its own "
                "replay anyway; name another run, or give this one another --run-id"
            )
        replays, place = _replays_of(behavior or learner.name, learner.spec, origin)
        learner.process.take_prior(replays, place)
    except PalaestraError as error:
        if late is None:
            raise
        late(f"'{learner.name}' learns without that run's data: {error}")


def _replays_of(name: str, spec: BehaviorSpec, folder: RunFolder) -> tuple[list[Mapping[str, Any]], str]:
    """Returns the replays that an earlier run's ranks saved of a behavior, and the run's place."""
    folder.must_exist("take its replay (prior_data.run)")
    try:
        checkpoint = Checkpoints(folder.path / "checkpoints", 0).load()
    except RunError as error:
        raise RunError(f"behavior '{name}': prior_data.run: {error}") from error
    specs = specs_of(checkpoint)
    if name not in specs or name not in checkpoint.state:
        raise RunError(
            f"behavior '{name}': prior_data.run: {folder.path} has no such behavior, only {', '.join(specs)}"
        )
    if table := differences(specs[name], spec, ("that run", "the behavior")):
        raise ConfigError(
            f"behavior '{name}': prior_data.run: the agents of {folder.path} have other observations or "
            f"actions:\n{table}"
        )
    run: Any = checkpoint.state["run"]
    others = run["ranks"]["others"] if "ranks" in run else []
    states: list[Mapping[str, Any]] = [checkpoint.state, *(whole_state(checkpoint.state, other) for other in others)]
    replays = [state[name]["trainer"].get("replay") for state in states]
    if not all(replays):
        raise ConfigError(
            f"behavior '{name}': prior_data.run: {checkpoint.path} has no replay: a run of the trainer sac saves one "
            "with save_replay_buffer: true"
        )
    return replays, str(folder.path)
