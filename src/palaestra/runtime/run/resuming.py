"""Resumes a run from a checkpoint."""

from __future__ import annotations

from typing import Any

from palaestra.core.errors import CheckpointError, PalaestraError
from palaestra.runtime.run.training_run import Run
from palaestra.runtime.settings import load
from palaestra.runtime.settings.tree import changes
from palaestra.runtime.storage.checkpoints import Checkpoint
from palaestra.runtime.storage.run_folder import CONFIGURATION

MOST_CHANGES = 4
"""Number of changed settings that one message names."""


def resume(run: Run, checkpoint: Checkpoint) -> None:
    """Restores a run from a checkpoint. Raises CheckpointError if it does not fit the environment or the settings."""
    whole: Any = checkpoint.state["run"]
    run.unseen.take(checkpoint.state)
    run.outlined |= run.unseen.learned.keys()
    _must_share_behaviors(run, checkpoint)
    try:
        restored = run.collector.load_state_dict(whole["collector"], run.settings.env_settings.seed + checkpoint.step)
        for learner in run.learners.values():
            run.restore(learner)
        if "self_play" in whole:  # not in checkpoints of earlier versions
            run.self_play.load_state_dict(whole["self_play"], run.collector.steps, restored=restored)
        if "lessons" in whole and restored:  # else those of the first reset hold
            run.lessons.load_state_dict(whole["lessons"])
    except (KeyError, RuntimeError, ValueError, TypeError) as error:
        reason = str(error).strip().splitlines()[-1].strip() if str(error).strip() else type(error).__name__
        raise CheckpointError(
            f"{checkpoint.path} does not fit this environment and these settings: {reason}{_changes(run)}; resume with the "
            f"settings it was trained with ({run.folder.path / CONFIGURATION}), or start a new run from it with "
            f"--initialize-from={run.folder.run_id}"
        ) from error
    if not restored:
        run.console.warning("this environment cannot go on with its old episodes: it starts new ones; everything else goes on")
    run.statistics.load_state_dict(whole["tracker"])
    if "symptoms" in whole:
        run.symptoms.load_state_dict(whole["symptoms"])
    else:  # a checkpoint of an earlier version: what was earned at first is not known
        for name in run.learners:
            run.symptoms.started_trained(name)
    run.clock.before, run.first_step = whole["elapsed"], run.step
    if run.settings.torch_settings.threads is None:
        run.threads = whole["threads"]
        run.set_threads()
    run.retire()


def steps_in(checkpoint: Checkpoint) -> dict[str, int]:
    """Returns the decisions of each behavior at a checkpoint."""
    run: Any = checkpoint.state["run"]
    return {name: collector["decisions"] for name, collector in run["collector"]["seats"].items()}


def _changes(run: Run) -> str:
    """Lists settings of behaviors that changed since the run was saved; empty if none did or the old settings cannot be read."""
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
            f"{checkpoint.path} is of a run with other behaviors: it has {', '.join(run.unseen.learned)}, this environment has "
            f"{', '.join(new)}; resume in the environment it was trained in, or choose another --run-id"
        )
    for name in new:
        run.console.warning(f"the behavior '{name}' is not in {checkpoint.path}: it starts from step 0")
