"""Saves a run: checkpoints, models, and a copy elsewhere if the run's own folder is gone or cannot be written to."""

from __future__ import annotations

import copy
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any

from palaestra.core.errors import Diverged, FolderLost, PalaestraError, RankLost, RunError
from palaestra.core.files import explain
from palaestra.core.versions import MLAGENTS, palaestra_version
from palaestra.parallel import ranks
from palaestra.parallel.closing import warning_of_failure
from palaestra.runtime.logging.bottleneck import SAVING
from palaestra.runtime.logging.trackers import METRICS
from palaestra.runtime.run import report
from palaestra.runtime.run.training_run import Run
from palaestra.runtime.storage.checkpoints import Checkpoints
from palaestra.runtime.storage.rank_states import gather_states
from palaestra.runtime.storage.run_folder import RunFolder

SAFETY_SECONDS = 60.0
"""A run is saved at least this often, whatever checkpoint_interval says; models are written only when that has
passed.
"""

MOST_SHARE, FREE_SECONDS = 0.1, 5.0
"""Share of a session's time that models and checkpoints may take, beside these seconds: where a GPU makes
checkpoint_interval's decisions in less time than writing them takes, some are left out, but none of those of
`even_checkpoints`, which are few.
"""

PATIENCE = 30.0
"""Seconds that a due checkpoint is put off for updates in other processes, and for rollouts of which much is
collected.
"""

MUCH = 2**28
"""Bytes of an unfinished rollout from which on a checkpoint is put off for its end."""


def write_due_models(run: Run) -> None:
    """Writes the models of behaviors whose checkpoint_interval has passed, and notes whether a checkpoint is due."""
    if run.inference:
        return
    if any(learner.step >= learner.next_checkpoint for learner in run.learners.values()):
        must_be_writable(run)  # before a model counts as written
    due = [learner for learner in run.learners.values() if learner.checkpoint_due()]
    if due and not any(learner.settings.even_checkpoints for learner in due) and _left_out(run):
        due = []
    if due:
        run.must_be_finite()
        run.rounds.report()
        with run.clock.spending_on(SAVING):
            for learner in due if ranks.leads() else ():
                run.models.write(learner, run.statistics.recent_reward(learner.name))
    if not run.save_due and (due or (is_late(run) if ranks.size() == 1 else run.rounds.late)):
        run.save_due = True
        run.save_due_at = perf_counter()


def save_if_due(run: Run) -> None:
    """Writes the checkpoint that is due.

    While an update is under way in another process it is put off, since a checkpoint has to wait for that update; so it
    is while much of a rollout is collected, which nothing needs after its update: 131,072 pictures of GridWorld are 11
    GB. After PATIENCE seconds it is written all the same. Ranks put nothing off: all must save at the same moment.
    """
    if not run.save_due:
        return
    busy = any(learner.busy or learner.collected_bytes > MUCH for learner in run.learners.values())
    if ranks.size() > 1 or not busy or perf_counter() - run.save_due_at > PATIENCE:
        save(run)


def save(run: Run) -> None:
    """Writes a checkpoint of everything, and the list of models that belongs to it. Raises Diverged if weights are not
    finite.
    """
    if run.inference:
        return
    run.must_be_finite()
    must_be_writable(run)
    with run.timers("save"), run.clock.spending_on(SAVING):
        state = with_ranks(state_dict(run))
        run.saved_at = perf_counter()
        run.save_due = False
        if not ranks.leads():
            return
        run.checkpoints.save(run.step, state)
        run.saved_step = run.step
        for behavior in run.self_play.behaviors.values():
            behavior.write_snapshots()
        for name, behavior in run.self_play.behaviors.items():
            run.models.status.set_elo(name, behavior.elo)
        for name, number in run.lessons.numbers.items():
            run.models.status.set_lesson(name, number)
        run.models.write_status()
    run.saved_at = perf_counter()


def must_be_writable(run: Run) -> None:
    """Raises FolderLost if the run's folder can no longer be written to. All ranks take part, and all raise it."""
    trouble = ranks.from_first(run.folder.trouble() if ranks.leads() else None)
    run.rounds.lost = trouble is not None
    run.folder.report(trouble)


def may_be_lost(run: Run) -> bool:
    """Whether the run's folder can no longer be written to, as far as a check once a second tells."""
    return run.folder.check_due() and run.folder.trouble() is not None


def is_late(run: Run) -> bool:
    """Whether the last checkpoint is so long ago that another is due."""
    return perf_counter() - run.saved_at > SAFETY_SECONDS


def saves_much(run: Run) -> bool:
    """Whether writing models and checkpoints has taken its share of this session's time."""
    return run.clock.spent().get(SAVING, 0.0) > FREE_SECONDS + MOST_SHARE * run.clock.session


def _left_out(run: Run) -> bool:
    """Whether the checkpoint that is due is left out, since there were many. Says so once."""
    if run.finished or not (saves_much(run) if ranks.size() == 1 else run.rounds.saves_much):
        return False
    if not run.told_of_saving:
        run.told_of_saving = True
        run.console.info(
            "Checkpoints come less often than every checkpoint_interval, as they would take more than "
            f"{MOST_SHARE:.0%} of the time"
        )
    return True


def with_ranks(state: dict[str, Any]) -> dict[str, Any]:
    """Returns the state of a checkpoint: rank 0's, with the decisions of all ranks, and what is different on the
    others.
    """
    others = gather_states(state)
    if not others:
        return state
    run = state["run"]
    collector = state["run"]["collector"]
    own = {name: seat["decisions"] for name, seat in collector["seats"].items()}
    total = {name: met[0] for name, met in run["rounds"]["now"].items()}
    seats = {
        name: {**seat, "decisions": total.get(name, seat["decisions"])} for name, seat in collector["seats"].items()
    }
    saved = {"own": own, "others": others}
    return {**state, "run": {**run, "collector": {**collector, "seats": seats}, "ranks": saved}}


def state_dict(run: Run, *, alone: bool = False) -> dict[str, Any]:
    """Returns everything that the next tick depends on. Call it between two ticks, on all ranks.

    `alone`: without the others; in a run that goes on from there episodes begin anew.
    """
    for learner in run.learners.values():
        assert not len(learner.collector.meter)
    collector = run.collector.state_dict()
    for name, seat in collector["seats"].items() if alone else ():
        seat["decisions"] = run.learners[name].step if name in run.learners else seat["decisions"]
    whole = {
        "collector": {**collector, "seats": {**run.unseen.collectors, **collector["seats"]}},
        "tracker": run.statistics.state_dict(),
        "self_play": run.self_play.state_dict(),
        "lessons": run.lessons.state_dict(),
        **({} if alone or ranks.size() == 1 else {"rounds": run.rounds.state_dict()}),
        "symptoms": run.symptoms.state_dict(),
        "goals": run.goals.state_dict(ended=bool(run.endings)),
        "best": run.best.state_dict(),
        "elapsed": run.clock.elapsed,
        "threads": run.threads,
        "seed": run.settings.env_settings.seed,
        "specs": {**run.unseen.specs, **{name: asdict(run.env.behaviors[name]) for name in run.learners}},
    }
    return {
        "run": whole,
        **run.unseen.learned,
        **{name: learner.state_dict() for name, learner in run.learners.items()},
    }


def conclude(run: Run) -> dict[str, Path]:
    """Saves a last time and writes final models, settings and timers, each whatever fails before. Returns the models by
    behavior.
    """
    unsaved: Exception | None = None
    try:
        save(run)
    except (Diverged, RankLost):
        raise
    except Exception as error:  # the rest is written all the same
        unsaved = error
    warn = run.console.warning
    with warning_of_failure("the measurement of times", warn):
        run.rounds.report()
    finals = dict[str, Path]() if not ranks.leads() else _write_models(run)
    if ranks.leads():
        with warning_of_failure("writing configuration.yaml", warn):
            run.folder.configure(run.settings)
        with warning_of_failure("writing timers.json", warn):
            _write_timers(run)
    if unsaved is not None:
        raise unsaved
    return finals


def _write_models(run: Run) -> dict[str, Path]:
    """Writes the final snapshots and models. Returns the models by behavior, without those that could not be
    written.
    """
    for name, behavior in run.self_play.behaviors.items():
        with warning_of_failure(f"the final snapshot of '{name}'", run.console.warning):
            behavior.conclude()
    finals = dict[str, Path]()
    for name, learner in run.learners.items():
        with warning_of_failure(f"the final model of '{name}'", run.console.warning):
            learner.finish()
            if (final := run.models.write_final(learner, run.statistics.recent_reward(name))) is not None:
                finals[name] = final
    return finals


def _write_timers(run: Run) -> None:
    versions = {
        "palaestra_version": palaestra_version(),
        "mlagents_version": MLAGENTS,
        "mlagents_envs_version": MLAGENTS,
    }
    metadata = {**versions, "communication_protocol_version": "1.5.0", **report.add_times(run)}
    run.timers.write(run.folder.logs / "timers.json", metadata)


def rescue(run: Run, error: RunError) -> FolderLost | None:
    """Saves what a run has learned after its folder could not be written to. Returns the error that says where it is
    and how to go on.

    Returns None if the run's own folder has everything.
    """
    together = run.rounds.lost  # else rank 0 alone has failed, and the others wait for it
    if run.inference or (
        not together and (not ranks.leads() or (run.saved_step == run.step and run.folder.trouble() is None))
    ):
        return None
    state = with_ranks(state_dict(run)) if together or ranks.size() == 1 else state_dict(run, alone=True)
    lost = save_elsewhere(run, error, state) if ranks.leads() else None
    if together:
        told = ranks.from_first(None if lost is None else (str(lost), lost.saved))
        lost = None if told is None else FolderLost(*told)
    return lost


def save_elsewhere(run: Run, error: RunError, state: dict[str, Any]) -> FolderLost:
    """Saves a state in another folder. Returns the error that says where."""
    failed: list[str] = []
    for folder in places(run):
        try:
            save_in(folder, run, state)
        except (OSError, PalaestraError) as problem:
            shutil.rmtree(folder.path, ignore_errors=True)
            failed.append(f"{folder.path}: {explain(problem) if isinstance(problem, OSError) else problem}")
        else:
            return FolderLost(
                f"{error}. What was learned until step {run.step:,} is saved in {folder.path}; to go on from there: "
                f"{report.resume_command(folder)}",
                folder.path,
            )
    return FolderLost(
        f"{error}. What was learned since could not be saved in another place either ({'; '.join(failed)})"
    )


def places(run: Run) -> Iterator[RunFolder]:
    """Yields folders to try: beside the run's own folder, then among temporary files."""
    *above, name = run.folder.run_id.split("/")
    for number in range(1, 100):
        saved = f"{name}-saved-{run.step}" + (f"-{number}" if number > 1 else "")
        folder = RunFolder(run.folder.results, "/".join((*above, saved)))
        if not folder.path.exists():
            yield folder
            break
    with suppress(OSError):
        yield RunFolder(Path(tempfile.mkdtemp(prefix="palaestra-")), name)


def save_in(folder: RunFolder, run: Run, state: dict[str, Any]) -> None:
    """Makes a folder from which the run can be resumed; curves and snapshots are copied if they can be read."""
    folder.path.mkdir(parents=True)
    Checkpoints(folder.checkpoints, 1).save(run.step, state)
    place = {"run_id": folder.run_id, "results_dir": str(folder.results)}
    chosen = run.settings.checkpoint_settings.model_copy(update=place)
    folder.configure(run.settings.model_copy(update={"checkpoint_settings": chosen}))
    status = copy.copy(run.models.status)
    status.file = folder.logs / status.file.name
    status.save()
    with suppress(OSError, shutil.Error):
        shutil.copy(run.folder.path / METRICS, folder.path / METRICS)
    for snapshots in run.folder.path.glob("*/snapshots"):
        with suppress(OSError, shutil.Error):
            shutil.copytree(snapshots, folder.path / snapshots.relative_to(run.folder.path))
