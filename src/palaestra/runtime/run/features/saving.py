"""Saves a run: its checkpoints, its models, and the files of a finished run."""

from __future__ import annotations

import math
from pathlib import Path
from time import perf_counter

from palaestra.core.errors import Diverged, PalaestraError, RankLost
from palaestra.core.versions import MLAGENTS, palaestra_version
from palaestra.parallel.closing import warning_of_failure
from palaestra.runtime.collect.learner import Learner, must_be_finite
from palaestra.runtime.control.run_requests import RunRequest
from palaestra.runtime.logging.bottleneck import ENVIRONMENT, EXCHANGE, INFERENCE, RANKS, SAVING, TRAINER, bottleneck
from palaestra.runtime.parts.part import Refused, RunPart
from palaestra.runtime.run.commands import continue_command
from palaestra.runtime.run.training_run import Run, setup_of
from palaestra.runtime.settings import RunSettings
from palaestra.runtime.showing.live_models import LiveModels
from palaestra.runtime.storage.checkpoints import Checkpoints
from palaestra.runtime.storage.rank_states import with_other_ranks

SAFETY_SECONDS = 60.0
"""Most seconds between two saved states of a run; models are only written every checkpoint_interval."""

MOST_SHARE, FREE_SECONDS = 0.1, 5.0
"""Share of a session's time that models and checkpoints may take, and seconds that they may take in any case. If a GPU
makes checkpoint_interval's decisions in less time than writing them takes, some are left out, but none of the few with
`even_checkpoints`."""

PATIENCE = 30.0
"""Seconds that a due checkpoint waits for updates in other processes and for large unfinished rollouts."""

MUCH = 2**28
"""Bytes of an unfinished rollout from which on a checkpoint waits until the rollout is complete."""

LEAST_SECONDS = 0.4
"""Least seconds between two models of a behavior."""
SHOWN_SHARE = 0.02
"""Share of the time that writing these models may take."""


class Saving(RunPart):
    """Writes the models whose checkpoint_interval has passed, and checkpoints of the whole run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._checkpoints = Checkpoints(run.folder.checkpoints, most_kept(run.settings))
        self._due_since: float | None = None
        """Time since which a checkpoint is due; None: none is due."""
        self._saved_at = perf_counter()
        self.saved_step = -1
        """The step at which this session saved last."""
        self._has_warned = False
        """Whether this session has reported that it leaves out checkpoints."""

    def started(self) -> None:
        """Removes a killed run's incomplete checkpoints, and saves a new run's first state."""
        run = self._run
        if run.inference:
            return
        lock = run.folder.lock
        run.group.first(lambda: self._checkpoints.sweep(alone=lock is not None and lock.locked))
        if run.saved.checkpoint is None:
            self.save()

    def ticks_ahead(self) -> int | None:
        """Returns 1 while a checkpoint is postponed: the next tick may be one on which no trainer is busy."""
        return None if self._due_since is None else 1

    def asked(self, request: RunRequest) -> str | None:
        """Saves a checkpoint."""
        if request.kind != "save":
            return None
        if self._run.inference:
            raise Refused("the run only plays, and has nothing to save")
        self._due_since = perf_counter()
        return "a checkpoint is saved"

    def round_ended(self) -> None:
        """Writes what is due."""
        run = self._run
        if run.inference:
            return
        self._write_models()
        # While an update is under way in another process a checkpoint is put off, since it has to wait for that update;
        # so it is while much of a rollout is collected, which nothing needs after its update: 131,072 pictures of
        # GridWorld are 11 GB.
        if self._due_since is not None:
            busy = any(learner.process.busy or collected_bytes(learner) > MUCH for learner in run.learners.values())
            if not (busy and run.meetings.may_put_off) or perf_counter() - self._due_since > PATIENCE:
                self.save()

    def paused(self) -> None:
        """Raises FolderLost if the folder cannot be written to; several ranks find this out when they meet."""
        if not self._run.inference:
            self._run.meetings.check_folder(self._run.folder)

    def _write_models(self) -> None:
        run = self._run
        shared = run.meetings.shared()
        if any(learner.step >= learner.next_checkpoint for learner in shared):
            run.must_be_writable()  # before a model counts as written
        due = [learner for learner in shared if learner.checkpoint_due()]
        late = run.group.from_first(perf_counter() - self._saved_at > SAFETY_SECONDS)
        much = bool(due) and run.group.from_first(self._saves_much())
        if much and not run.finished and not any(learner.settings.even_checkpoints for learner in due):
            if not self._has_warned:
                run.console.info(
                    "Checkpoints come less often than every checkpoint_interval, as they would take more than "
                    f"{MOST_SHARE:.0%} of the time"
                )
            self._has_warned = True
            due = []
        if due:
            must_be_finite(run.learners)
            run.meetings.report()
            with run.clock.spending_on(SAVING):
                for learner in run.group.first(lambda: due) or ():
                    run.models.write(learner, run.statistics.recent_reward(learner.name))
        if self._due_since is None and (due or late):
            self._due_since = perf_counter()

    def _saves_much(self) -> bool:
        clock = self._run.clock
        return clock.spent().get(SAVING, 0.0) > FREE_SECONDS + MOST_SHARE * clock.session

    def save(self) -> None:
        """Writes a checkpoint and the files that belong to it. Raises Diverged if weights are not finite."""
        run = self._run
        if run.inference:
            return

        def write() -> None:
            self._checkpoints.save(run.step, state)
            self.saved_step = run.step
            for part in run.parts:
                part.saved()
            run.models.status.save()

        must_be_finite(run.learners)
        run.must_be_writable()
        with run.clock.spending_on(SAVING):
            state = with_other_ranks(run.state_dict(), run.group)
            self._saved_at = perf_counter()
            self._due_since = None
            run.group.first(write)
        self._saved_at = perf_counter()

    def show_saved(self) -> None:
        """Prints, after an error, how much of the run is saved, if the run has learned anything."""
        run = self._run
        if not run.inference and (steps := self._checkpoints.steps()) and steps[-1]:
            again = continue_command(run)
            run.console.info(f"The run is saved in its state of step {steps[-1]:,}; to continue from there: {again}")

    def conclude(self) -> dict[str, Path]:
        """Saves a last time and writes the final files, even if some of them fail. Returns models by behavior."""
        run = self._run
        unsaved: Exception | None = None
        try:
            self.save()
        except (Diverged, RankLost):
            raise
        except Exception as error:  # the rest is written all the same
            unsaved = error
        with warning_of_failure("the measurement of times", run.console.warning):
            run.meetings.report()
        finals = run.group.first(self._write_last)
        if unsaved is not None:
            raise unsaved
        return finals or {}

    def _write_last(self) -> dict[str, Path]:
        run = self._run
        warn = run.console.warning
        for part in run.parts:
            part.concluded()
        finals = self._write_finals()
        with warning_of_failure("writing configuration.yaml", warn):
            run.folder.configure(run.settings)
        with warning_of_failure("writing timers.json", warn):
            self._write_timers()
        return finals

    def _write_finals(self) -> dict[str, Path]:
        run = self._run
        finals = dict[str, Path]()
        for name, learner in run.learners.items():
            with warning_of_failure(f"the final model of '{name}'", run.console.warning):
                if (final := run.models.write_final(learner, run.statistics.recent_reward(name))) is not None:
                    finals[name] = final
        return finals

    def _write_timers(self) -> None:
        run = self._run
        versions = {"palaestra_version": palaestra_version(), "mlagents_version": MLAGENTS}
        versions |= {"mlagents_envs_version": MLAGENTS, "communication_protocol_version": "1.5.0"}
        run.timers.write(run.folder.logs / "timers.json", {**versions, **_add_times(run)})


def collected_bytes(learner: Learner) -> int:
    """Returns the size of the observations in the current rollout."""
    buffer = learner.collector.buffer
    numbers = sum(math.prod(obs.shape) for obs in learner.spec.obs)
    return 0 if buffer is None else 4 * buffer.decisions * numbers


def most_kept(settings: RunSettings) -> int:
    """Returns how many checkpoints to keep: the largest number that any behavior asks for; 0: all."""
    blocks = [*settings.behaviors.values(), *([settings.default_settings] if settings.default_settings else [])]
    kept = [block.keep_checkpoints for block in blocks]
    return 0 if min(kept, default=5) <= 0 else max(kept, default=5)


def _add_times(run: Run) -> dict[str, str]:
    """Adds times of other parts to the timers, under ML-Agents' names if it has them. Returns more metadata."""
    own, *others = run.meetings.times
    run.clock.add_to(run.timers)
    add = run.timers.add
    add(("collect", "env_step"), own.parts[ENVIRONMENT])
    add(("collect", "TorchPolicy.evaluate"), own.parts[INFERENCE])
    for name, seconds in own.copies.items():
        add(("collect", "env_step", "workers", name), seconds, parallel=True)
    for part, place in ((TRAINER, ("update",)), (EXCHANGE, ("update",)), (RANKS, ())):
        if part in own.parts:
            add((*place, part), own.parts[part])
    for name, seconds in own.trainers.items():
        add(("trainer_threads", name), seconds, parallel=True)
    for rank, use in enumerate(others, 1):
        place = ("ranks", f"rank {rank}")
        add(place, use.total, parallel=True)
        for part, seconds in use.parts.items():
            add((*place, part), seconds)
        for name, seconds in use.copies.items():
            add((*place, ENVIRONMENT, "workers", name), seconds, parallel=True)
    return {"bottleneck": bottleneck(run.meetings.times, setup_of(run))}


class Showing(RunPart):
    """Writes a model after an update while a person watches, and nothing otherwise."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._models = None if run.inference else run.group.first(lambda: LiveModels(run.folder.path))
        self._next: dict[str, float] = {}

    def started(self) -> None:
        """Removes models of an earlier run of this name, and models of steps that this run has not reached."""
        if self._models is not None:
            self._models.drop_after(self._run.step if self._run.saved.checkpoint is not None else -1)

    def updated(self, learner: Learner) -> None:
        """Writes the policy if a person watches, but not too often."""
        began = perf_counter()
        if self._models is None or began < self._next.get(learner.name, 0.0):
            return
        self._next[learner.name] = began + LEAST_SECONDS / 4
        if not self._models.watched:
            return
        try:
            from palaestra.onnx_export import onnx

            network = learner.trainer.network
            self._models.add(
                learner.name, learner.step, lambda path: onnx.export(network, learner.spec, path, for_unity=False)
            )
        except (PalaestraError, OSError, ImportError, RuntimeError, ValueError) as problem:
            self._run.console.detail(f"'{learner.name}' is not shown while it learns: {problem}")
            self._models = None
            return
        spent = perf_counter() - began
        self._next[learner.name] = began + max(LEAST_SECONDS, spent / SHOWN_SHARE)
