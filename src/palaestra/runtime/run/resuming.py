"""Resumes a run from a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from palaestra.core.errors import CheckpointError, PalaestraError
from palaestra.parallel import ranks
from palaestra.runtime.run.training_run import Run
from palaestra.runtime.settings import load
from palaestra.runtime.settings.tree import changes
from palaestra.runtime.storage.checkpoints import Checkpoint
from palaestra.runtime.storage.rank_states import whole_state
from palaestra.runtime.storage.run_folder import CONFIGURATION

STREAMS = ("action_rng", "shuffle_rng", "replay_rng", "gradient_rng")
"""Random streams of trainers that every rank has of its own."""
MOST_CHANGES = 4
"""Number of changed settings that one message names."""


def resume(run: Run, checkpoint: Checkpoint) -> None:
    """Restores a run from a checkpoint. Raises CheckpointError if it does not fit the environment or the settings."""
    whole: Any = checkpoint.state["run"]
    same = len(whole.get("ranks", {"others": ()})["others"]) + 1 == ranks.size()
    if "ranks" in whole and same:
        checkpoint = replace(checkpoint, state=state_of_rank(checkpoint.state))
        whole = checkpoint.state["run"]
    run.unseen.take(checkpoint.state)
    run.outlined |= run.unseen.learned.keys()
    _must_share_behaviors(run, checkpoint)
    try:
        restored = run.collector.load_state_dict(
            whole["collector"], ranks.own_seed(run.settings.env_settings.seed + checkpoint.step), episodes=same
        )
        if same and "rounds" in whole:
            run.rounds.load_state_dict(whole["rounds"])
        elif not same:
            divide_decisions(run)
        for learner in run.learners.values():
            run.restore(learner)
        if "self_play" in whole:  # not in checkpoints of earlier versions
            run.self_play.load_state_dict(whole["self_play"], run.collector.steps, restored=restored)
        if "lessons" in whole and restored:  # else those of the first reset hold
            run.lessons.load_state_dict(whole["lessons"])
        if not same:
            reseed(run, checkpoint.step)
    except (KeyError, RuntimeError, ValueError, TypeError) as error:
        reason = str(error).strip().splitlines()[-1].strip() if str(error).strip() else type(error).__name__
        anew = (
            f", or start a new run from it with --initialize-from={run.folder.run_id}"
            if _could_initialize(run, checkpoint)
            else ""
        )
        raise CheckpointError(
            f"{checkpoint.path} does not fit this environment and these settings: {reason}{_changes(run)}; resume "
            "with the "
            f"settings it was trained with ({run.folder.path / CONFIGURATION}){anew}"
        ) from error
    if not same:
        were = len(whole.get("ranks", {"others": ()})["others"]) + 1
        run.console.warning(
            f"this run was trained in {were} {'processes' if were > 1 else 'process'} and goes on in {ranks.size()}: "
            "episodes begin anew; everything else goes on"
        )
    elif not restored:
        run.console.warning(
            "this environment cannot go on with its old episodes (it cannot store them, or has another number of "
            "areas now): "
            "it starts new ones; everything else goes on"
        )
    _warn_of_scales(run, whole.get("specs", {}))
    run.statistics.load_state_dict(whole["tracker"])
    if "symptoms" in whole:
        run.symptoms.load_state_dict(whole["symptoms"])
    else:  # a checkpoint of an earlier version: what was earned at first is not known
        for name in run.learners:
            run.symptoms.started_trained(name)
    run.goals.load_state_dict(whole.get("goals", {}))
    run.best.load_state_dict(whole.get("best", {}))
    run.clock.before = whole["elapsed"]
    run.first_step = run.step
    if run.settings.torch_settings.threads is None:
        run.threads = whole["threads"]
        run.set_threads()
    run.retire()


def _warn_of_scales(run: Run, specs: Mapping[str, Any]) -> None:
    """Warns of observations whose numbers are multiplied by another factor than when the run was saved."""
    for name in (name for name in specs if name in run.learners):
        for was, obs in zip(specs[name]["obs"], run.env.behaviors[name].obs, strict=False):
            before = (was.get("raw") or {}).get("scale", 1.0)
            now = 1.0 if obs.raw is None else obs.raw.scale
            if before != now:
                run.console.warning(
                    f"behavior '{name}': observation '{obs.name}' was multiplied by {before:.3g} when this run was "
                    "saved and is "
                    f"multiplied by {now:.3g} now, so what was learned from it does not fit: better start a new run"
                )


def state_of_rank(state: Mapping[str, Any]) -> dict[str, Any]:
    """Returns this rank's state from a checkpoint of as many ranks."""
    saved = state["run"]["ranks"]
    if not ranks.leads():
        return whole_state(state, saved["others"][ranks.number() - 1])
    run = dict(state["run"])
    seats = {
        name: {**seat, "decisions": saved["own"].get(name, seat["decisions"])}
        for name, seat in run["collector"]["seats"].items()
    }
    return {**state, "run": {**run, "collector": {**run["collector"], "seats": seats}}}


def divide_decisions(run: Run) -> None:
    """Counts all decisions so far as those of rank 0, in a run that another number of ranks has saved."""
    for learner in run.learners.values():
        learner.agreed = learner.collector.decisions
        if not ranks.leads():
            learner.collector.decisions = 0
        learner.met = learner.collector.decisions
    for name, seat in run.unseen.collectors.items():
        if name not in run.learners:
            own = seat["decisions"] if ranks.leads() else 0
            run.rounds.later[name] = [seat["decisions"], own]
            run.unseen.collectors[name] = {**seat, "decisions": own}


def reseed(run: Run, step: int) -> None:
    """Gives every rank random numbers of its own, in a run that another number of ranks has saved."""
    for learner in run.learners.values():
        for i, name in enumerate(STREAMS):
            if isinstance(stream := getattr(learner.trainer, name, None), torch.Generator):
                stream.manual_seed(ranks.own_seed(run.settings.env_settings.seed + step + i))


def steps_in(checkpoint: Checkpoint) -> dict[str, int]:
    """Returns the decisions of each behavior at a checkpoint."""
    run: Any = checkpoint.state["run"]
    return {name: collector["decisions"] for name, collector in run["collector"]["seats"].items()}


def _could_initialize(run: Run, checkpoint: Checkpoint) -> bool:
    """Whether a new run with these settings could start from the networks of a checkpoint."""
    state: Any = checkpoint.state
    try:
        return not any(learner.misfits(state[name]["trainer"]["network"]) for name, learner in run.learners.items())
    except (KeyError, TypeError, AttributeError):
        return False


def _changes(run: Run) -> str:
    """Lists settings of behaviors that changed since the run was saved; empty if none did or the old settings cannot be
    read.
    """
    try:
        before = load(run.folder.path / CONFIGURATION, own_code=False).settings
    except PalaestraError:
        return ""
    found = changes(before, run.settings)
    more = [f"{len(found) - MOST_CHANGES} more"] if len(found) > MOST_CHANGES else []
    return f"; changed since: {'; '.join(found[:MOST_CHANGES] + more)}" if found else ""


def _must_share_behaviors(run: Run, checkpoint: Checkpoint) -> None:
    """Raises CheckpointError if run and checkpoint share no behavior; some may still appear later."""
    new = [name for name in run.learners if name not in run.unseen.learned]
    if run.unseen.learned and new and len(new) == len(run.learners):
        raise CheckpointError(
            f"{checkpoint.path} is of a run with other behaviors: it has {', '.join(run.unseen.learned)}, this "
            "environment has "
            f"{', '.join(new)}; resume in the environment it was trained in, or choose another --run-id"
        )
    for name in new:
        run.console.warning(f"the behavior '{name}' is not in {checkpoint.path}: it starts from step 0")
