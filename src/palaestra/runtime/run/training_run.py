"""A run: its environment, the learners of its behaviors, and its parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch

from palaestra.core.errors import ConfigError, EnvError
from palaestra.core.files import belongs_to_run
from palaestra.core.processes import usable_cores
from palaestra.core.specs import BehaviorSpec, describe
from palaestra.envs.wrapper import EnvWrapper
from palaestra.parallel.closing import close_safely
from palaestra.runtime.collect.collector import BehaviorCollector, Collector
from palaestra.runtime.collect.collector_state import restore, state_of
from palaestra.runtime.collect.learner import Learner, patience_of
from palaestra.runtime.collect.threads import ComputeThreads
from palaestra.runtime.logging.bottleneck import EnvKind, Setup
from palaestra.runtime.logging.run_times import RunClock, Timers, wait_for
from palaestra.runtime.logging.statistics import Statistics
from palaestra.runtime.parts.part import RunPart, at_work, observers
from palaestra.runtime.parts.rank_meetings import meetings_of
from palaestra.runtime.parts.rank_warnings import RankWarnings
from palaestra.runtime.parts.run_context import RunContext
from palaestra.runtime.play.teachers import Teachers
from palaestra.runtime.run.analytics_facts import behavior_facts, training_facts
from palaestra.runtime.run.model_writer import ModelWriter
from palaestra.runtime.run.resuming import SavedRun
from palaestra.runtime.settings import RunSettings, behavior_seed, behavior_settings
from palaestra.runtime.storage.checkpoints import Checkpoint
from palaestra.runtime.storage.origins import initialize, take_prior_data


class Run:
    """Makes a learner for each behavior that appears, and holds the state that its parts share.

    The parts own everything else. The training loop records in the run which learners are updating, and the time of its
    rounds.
    """

    def __init__(
        self,
        context: RunContext,
        statistics: Statistics,
        timers: Timers,
        parts: Callable[[Run], Sequence[RunPart]],
        *,
        checkpoint: Checkpoint | None = None,
        warnings: RankWarnings | None = None,
        kind: EnvKind = "own",
        own_areas: bool = False,
    ) -> None:
        """`parts`: makes the features that take part. `checkpoint`: the state from which the run continues, or which it
        plays. `warnings`: of this rank. `own_areas`: the number of areas is the environment's own, not the user's."""
        self.context = context
        self.settings = context.settings
        self.folder = context.folder
        self.env = context.env
        self.console = context.console
        self.group = context.group
        self.journal = context.journal
        self.learners = context.learners
        self.inference = context.inference
        self.statistics = statistics
        self.timers = timers
        self.stopped = False
        """Whether the run saves and ends at the next tick: after a signal, a request, a callback or a goal."""
        self.asked_to_stop = False
        """Whether someone waits for the run to stop, after a signal or a request, so that an evaluation is left out."""
        self.begun = False
        """Whether the run collects; before that, settings that can never work are refused."""
        self.at_work: Mapping[str, Sequence[RunPart]] = {}
        """By moment, the parts that take part in it and are not idle, as known when the last behavior joined."""
        self.unused: set[str] = set()
        """Unused blocks of settings that a warning has named, together with the behavior that each may be meant for."""
        self.students: dict[str, list[Learner]] = {}
        """By behavior, the learners that learn from its rollouts."""
        self.updating: list[Learner] = []
        """Learners whose updates have not ended, the running update first."""
        settings, env, group = context.settings, context.env, context.group
        self.models = ModelWriter(context, statistics.trackers.model)
        self.meetings = meetings_of(context, warnings or RankWarnings())
        self.saved = SavedRun(checkpoint, group)
        self.kind: EnvKind = kind
        self._own_areas = own_areas
        env.training_starts(training_facts(settings, env.device))
        self.teachers = Teachers(settings, env)
        self.parts = list(parts(self))
        self.threads = ComputeThreads(
            settings.torch_settings.threads, self.learners, group, cores_are_busy=env.traits.uses_cores
        )
        seed = group.own_seed(settings.env_settings.seed)
        stagger = not self.inference and staggering(env, settings)
        try:
            self.collector = Collector(env, self._join, seed, observers(self.parts), stagger)
            self.clock = RunClock(self.collector.seconds, self.learners, env, group)
            self.meetings.time_use = self.clock.use
            self._resume()
        except BaseException:
            self.close()
            raise
        self.first_step = self.step
        """The step at which this session started."""
        self.threads.choose(self.console.detail, self.saved.threads)
        self.clock.start()

    def _join(self, name: str, spec: BehaviorSpec) -> BehaviorCollector:
        if belongs_to_run(name):
            raise EnvError(
                f"a behavior cannot be named '{name}': a run keeps files of its own under that name; rename the "
                "behavior"
            )
        if (collector := self.teachers.collector_of(name, spec)) is not None:
            self.teachers.check_specs_match(self.learners)
            self.students[name] = self.teachers.students(name, self.learners)
            with self.saved.explaining_mismatches(self.settings, self.folder, self.learners):
                self.saved.restore_teacher(collector)
            return collector
        settings = behavior_settings(self.settings, name, self.env.behaviors)
        seed = behavior_seed(name, self.settings)
        learner = Learner(name, spec, settings, self.env.device, seed, self.inference, self.folder.path, self.group)
        if self._own_areas:
            learner.collector.patience = patience_of(settings)
        self.learners[name] = learner
        taught = self.teachers.add_student(learner)
        with self.saved.explaining_mismatches(self.settings, self.folder, self.learners):
            restored = self.saved.restore(learner, seed)
        joins = "Behavior" if restored else "New behavior"
        self.console.info(f"{joins} '{name}': {describe(spec, learner.trainer.network.shown)}")
        learner.messages.send_found(learner.found, self.console.info, self.console.warning)
        late = self.console.warning if self.begun else None
        if not restored and not self.inference:
            initialize(learner, self.settings.checkpoint_settings, self.folder, self.group, self.console.info, late)
        take_prior_data(learner, self.folder, late)
        for part in self.parts:
            part.joined(learner)
        with self.saved.explaining_mismatches(self.settings, self.folder, self.learners):
            self.saved.restore_brains(learner.collector)
        self.env.behavior_joins(behavior_facts(name, settings, self.settings))
        learner.messages.send(self.console.info, self.console.warning)
        if taught is not None:
            self.console.info(taught)
            self.teachers.check_specs_match(self.learners)
        self.students = {each: self.teachers.students(each, self.learners) for each in {*self.students, name}}
        if self.begun:
            self.threads.choose(self.console.detail)
            self.at_work = at_work(self.parts)
        return learner.collector

    def _resume(self) -> None:
        """Restores what belongs to no behavior alone. Raises CheckpointError if it does not fit."""
        saved = self.saved
        if saved.checkpoint is None:
            return
        saved.must_share_behaviors(self.learners, self.console.warning)
        with self.saved.explaining_mismatches(self.settings, self.folder, self.learners):
            seed = self.group.own_seed(self.settings.env_settings.seed + saved.checkpoint.step)
            restored = restore(self.collector, saved.run["collector"], seed, episodes=saved.same_ranks)
            if saved.same_ranks and "meetings" in saved.run:
                self.meetings.load_state_dict(saved.run["meetings"])
            for part in self.parts:
                if part.name in saved.parts:
                    part.load_state_dict(saved.parts[part.name], restored=restored)
        restored = restored or self.inference or self.finished
        if not restored:
            saved.tell_of_new_episodes(self.env.num_areas, self.console.info, self.console.warning)
        saved.warn_of_scales(self.learners, self.env.behaviors, self.console.warning)
        if not self.inference:  # what is played is measured anew
            self.statistics.load_state_dict(saved.run["statistics"])
        self.clock.before = saved.run["elapsed"]
        self.retire()

    @property
    def step(self) -> int:
        """Decisions of all behaviors."""
        return sum(learner.step for learner in self.learners.values())

    def still_training(self) -> list[str]:
        """Returns the behaviors that all ranks have and that have not reached their max_steps."""
        return [learner.name for learner in self.meetings.shared() if learner.training]

    @property
    def finished(self) -> bool:
        """Whether every behavior that all ranks have has reached its max_steps."""
        return bool(self.meetings.shared()) and not self.inference and not self.still_training()

    def must_be_writable(self) -> None:
        """Raises FolderLost if the run's folder can no longer be written to. All ranks take part, and all raise it."""
        trouble = self.group.from_first(self.group.first(self.folder.trouble))
        self.meetings.lost = trouble is not None
        self.folder.report(trouble)

    def lesson_began(self, *, restarts: bool) -> None:
        """Tells all parts that the environment's parameters have changed. `restarts`: all episodes start again."""
        for part in self.parts:
            part.lesson_began()
        for collector in self.collector.collectors.values():
            collector.meter.mark()
        if restarts:
            self.collector.restart(self.group.own_seed(self.settings.env_settings.seed + self.step))

    def start(self) -> None:
        """Begins to collect: all ranks have rank 0's networks, and every part is ready."""
        self.meetings.begin(self.collector)
        first = {name: one.trainer.network.state_dict() for name, one in self.learners.items() if one.starts_trained}
        for name, weights in self.group.from_first(first).items():
            if name in self.learners:
                self.learners[name].trainer.network.load_state_dict(weights)
        self.begun = True
        for part in self.parts:
            part.started()
        self.at_work = at_work(self.parts)

    def end(self) -> None:
        """Saves and ends at the next tick."""
        self.stopped = True

    def stop(self) -> None:
        """Saves and ends at the next tick; a wait for a game ends. Safe in a signal handler."""
        self.stopped = True
        self.asked_to_stop = True
        self.env.interrupt()

    def wait_message(self) -> str:
        """Returns the work for which a stop waits; empty if the wait is short. Safe in a signal handler."""
        return wait_for(self.updating)

    def abandon(self) -> None:
        """Ends the processes of environment and trainers at once. Safe in a signal handler."""
        for learner in self.learners.values():
            learner.process.kill()
        self.env.abandon()

    def close(self) -> None:
        """Ends the processes of trainers, and closes the resources of the parts."""
        for part in self.parts:
            close_safely(part.close, part.what_is_closed, self.console.warning)
        for name, learner in self.learners.items():
            close_safely(learner.process.close, f"the trainer of '{name}'", self.console.warning)

    def retire(self) -> None:
        """Stops collecting for behaviors that have reached max_steps. Waits for their last updates, with which their
        agents continue to act, so that results do not depend on the duration of an update.

        When all behaviors have reached it, the run ends and their unfinished rollouts are saved, so that the run can
        continue with more steps.
        """
        if not any(learner.training for learner in self.learners.values()):
            return
        for learner in self.learners.values():
            if not learner.training and not self.inference:
                learner.collector.rollout_size = None
                learner.collector.buffer = None
                if measured := learner.finish():
                    for tag, value in measured.items():
                        self.journal.add(learner.name, tag, value)
                    self.statistics.policy_updated(learner.name)
                    for part in self.parts:
                        part.updated(learner)
        if self.teachers.collectors:
            self.teachers.retire(self.learners)

    def state_dict(self, *, alone: bool = False) -> dict[str, Any]:
        """Returns everything on which the next tick depends. Call it between two ticks, on all ranks.

        `alone`: called on this rank only; a run that resumes from this state starts new episodes.
        """
        for learner in self.learners.values():
            assert not len(learner.collector.meter)
        collector = state_of(self.collector)
        for name, one in collector["behaviors"].items() if alone else ():
            one["decisions"] = self.learners[name].step if name in self.learners else one["decisions"]
        specs = {name: asdict(self.env.behaviors[name]) for name in self.learners}
        whole = {
            "collector": {**collector, "behaviors": {**self.saved.collectors, **collector["behaviors"]}},
            "statistics": self.statistics.state_dict(),
            **({} if alone else self.meetings.state_dict(self.saved.collectors)),
            "parts": {part.name: part.state_dict() for part in self.parts if part.name},
            "elapsed": self.clock.elapsed,
            "threads": self.threads.number,
            "seed": self.settings.env_settings.seed,
            "specs": {**self.saved.specs, **specs},
        }
        learned = {name: learner.state_dict() for name, learner in self.learners.items()}
        return {"run": whole, **self.saved.learned, **learned}


def setup_of(run: Run) -> Setup:
    """Returns the facts on which advice about speed depends."""
    return Setup(
        kind=run.kind,
        agents=max(round(sum(learner.collector.meter.agents for learner in run.learners.values())), 1),
        copies=run.settings.env_settings.num_envs,
        runners=run.settings.env_settings.env_runners is not None,
        cores=usable_cores(),
        gpus=torch.cuda.device_count(),
        on_gpu=run.env.device.type == "cuda",
        threaded=any(learner.process.learning_seconds is not None for learner in run.learners.values()),
    )


def staggering(env: EnvWrapper, settings: RunSettings) -> bool:
    """Whether the first episodes end at different times (`stagger_episodes`). Raises ConfigError if the environment
    cannot do this."""
    wanted = settings.env_settings.stagger_episodes
    if wanted and not env.traits.staggers_episodes:
        raise ConfigError(
            "env_settings.stagger_episodes: this environment cannot have its first episodes end at different times; "
            "built-in ones can, and those of your own that have a method `stagger`"
        )
    return wanted
