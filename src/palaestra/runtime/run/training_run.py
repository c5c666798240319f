"""The state of a run: environment, learners, statistics and files."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from palaestra.core.errors import ConfigError, EnvError
from palaestra.core.files import belongs_to_run
from palaestra.core.processes import usable_cores
from palaestra.core.specs import BehaviorSpec, describe
from palaestra.envs.base import Env, Interruptible, RunAware, StaggersEpisodes
from palaestra.envs.transfer import Transfer
from palaestra.parallel import ranks
from palaestra.parallel.closing import close_safely
from palaestra.runtime.collect.collector import BehaviorCollector, Collector
from palaestra.runtime.collect.learner import Learner
from palaestra.runtime.control.goals import Course, Goals
from palaestra.runtime.control.progress_file import ProgressFile
from palaestra.runtime.control.run_requests import RequestBox
from palaestra.runtime.curriculum.lessons import Lessons
from palaestra.runtime.logging.bottleneck import EnvKind, Setup, TimeUse
from palaestra.runtime.logging.console import Console
from palaestra.runtime.logging.journal import Journal
from palaestra.runtime.logging.statistics import Statistics
from palaestra.runtime.logging.symptoms import Symptoms
from palaestra.runtime.logging.timers import Timers
from palaestra.runtime.play.best_models import BestModels
from palaestra.runtime.play.teachers import Teachers
from palaestra.runtime.run.analytics_facts import behavior_facts, training_facts
from palaestra.runtime.run.model_writer import ModelWriter
from palaestra.runtime.run.rounds import Rounds
from palaestra.runtime.run.run_times import RunClock, UpdateTimes
from palaestra.runtime.self_play.match_ratings import MatchRatings
from palaestra.runtime.self_play.self_play_behavior import OLD_GAMES, join_self_play
from palaestra.runtime.self_play.sides import SelfPlay
from palaestra.runtime.settings import RunSettings, behavior_settings
from palaestra.runtime.storage.checkpoints import Checkpoint, Checkpoints
from palaestra.runtime.storage.run_folder import RunFolder
from palaestra.runtime.storage.snapshots import SnapshotFiles


class Run:
    """Owns all state that changes during a run."""

    def __init__(  # noqa: PLR0915
        self,
        settings: RunSettings,
        folder: RunFolder,
        env: Env,
        statistics: Statistics,
        console: Console,
        timers: Timers,
        origin: Checkpoint | None = None,
        own_areas: bool = False,
    ) -> None:
        """`origin`: the checkpoint that will be resumed, if any; its lessons hold from the first reset on. `own_areas`:
        as in `Learner`.
        """
        self.settings = settings
        self.folder = folder
        self.env = env
        self.own_areas = own_areas
        self.statistics = statistics
        self.console = console
        self.timers = timers
        self.models = ModelWriter(folder, console, statistics.model)
        self.device = env.device
        self.inference = settings.checkpoint_settings.inference
        self.learners: dict[str, Learner] = {}
        self.checkpoints = Checkpoints(folder.checkpoints, most_kept(settings))
        self.stopped = self.told_to_stop = False
        """Set by a signal, a callback or a goal: the run saves and ends at the next tick. `told_to_stop`: someone waits
        for it, after a signal or a request, so that an evaluation is left out.
        """
        self.goals = Goals(console.warning)
        self.best = BestModels()
        self.outlined: set[str] = set()
        """Behaviors whose settings have been written to TensorBoard."""
        self.update_times = UpdateTimes()
        self.symptoms = Symptoms()
        self.save_due = False
        self.save_due_at = 0.0
        """Whether a checkpoint is due, and since when."""
        self.saved_step = -1
        """The step at which this session saved last."""
        self.first_step = 0
        """The step at which this session started."""
        self.saved_at = time.perf_counter()
        self.env_kind: EnvKind = "own"
        self.times_at_summary: dict[str, list[TimeUse]] = {}
        """By behavior, the times of each rank at its last summary."""
        self.told_bottleneck = self.told_of_saving = False
        """Whether this session has said what holds it up, and that it leaves out checkpoints."""
        self.threads = settings.torch_settings.threads
        self.unseen = UnseenBehaviors()
        learns = ranks.leads() and not self.inference
        self.requests = RequestBox(folder.path, console.warning) if learns else None
        self.progress = ProgressFile(folder.path, time.time()) if learns else None
        saved: Any = None if origin is None else origin.state["run"].get("lessons")
        self.lessons = Lessons(
            env, settings, console, saved, settings.env_settings.seed + (0 if origin is None else origin.step)
        )
        if isinstance(env, RunAware):
            env.training_starts(training_facts(settings, self.device))
        self.teachers = Teachers(settings, env)
        self.journal = Journal(statistics, self.lessons.curricula.episodes)
        self.self_play = SelfPlay(env, MatchRatings(self.journal, console), console.info)
        watchers = [self.self_play, self.lessons]
        staggers = None if self.inference else staggering(env, settings)
        try:
            self.collector = Collector(env, self._join, ranks.own_seed(settings.env_settings.seed), watchers, staggers)
        except BaseException:
            self.close()
            raise
        self.clock = RunClock(
            self.collector.seconds, lambda: sum(learner.waited for learner in self.learners.values()), env
        )
        self.rounds = Rounds(
            self.collector, self.learners, self.journal, self.self_play, console.warning, self.time_use
        )
        self.set_threads()
        self.clock.start()

    def _join(self, name: str, spec: BehaviorSpec) -> BehaviorCollector:
        if belongs_to_run(name):
            raise EnvError(
                f"a behavior cannot be named '{name}': a run keeps files of its own under that name; rename the "
                "behavior"
            )
        if (collector := self.teachers.collector_of(name, spec)) is not None:
            self.teachers.check_specs_match(self.learners)
            return collector
        settings = behavior_settings(self.settings, name, self.env.behaviors)
        seed = self.settings.env_settings.seed + 1000 * len(self.learners)
        learner = Learner(name, spec, settings, self.device, seed, self.inference, self.folder.path, self.own_areas)
        self.learners[name] = learner
        self.lessons.add_behavior(name)
        taught = self.teachers.add_student(learner)
        if name in self.unseen.collectors:
            learner.collector.decisions = self.unseen.collectors[name]["decisions"]
            self.rounds.joined(learner)
            self.restore(learner)
        if settings.self_play is not None and not self.inference:
            self.self_play.join(join_self_play(learner, self.env, self.settings, SnapshotFiles(self.folder.path)))
            if getattr(settings.hyperparameters, "off_policy", False):
                self.console.warning(f"{name}: {OLD_GAMES.format(settings.trainer_type)}")
        if isinstance(self.env, RunAware):
            self.env.behavior_joins(behavior_facts(name, settings, self.settings))
        self.console.info(f"New behavior '{name}': {describe(spec)}")
        for oddity in learner.oddities:
            self.console.warning(f"{name}: {oddity}")
        learner.tell(self.console.info, self.console.warning)
        if taught is not None:
            self.console.info(taught)
            self.teachers.check_specs_match(self.learners)
        return learner.collector

    def set_threads(self) -> None:
        """Sets the number of threads: the setting's, else one chosen by the size of the networks."""
        if self.threads is None:
            self.threads, why = threads_for(max((learner.work for learner in self.learners.values()), default=0))
            self.console.info(why)
        torch.set_num_threads(self._acting_threads)

    @property
    def _acting_threads(self) -> int:
        """Threads between updates: one where copies of the environment, or trainers, compete for the cores: several
        would wait for them.
        """
        threaded = any(learner.settings.threaded for learner in self.learners.values())
        return 1 if threaded or getattr(self.env, "busy_cores", False) else self.threads or 1

    @contextmanager
    def all_threads(self) -> Iterator[None]:
        """Uses all threads within the block."""
        torch.set_num_threads(self.threads or 1)
        try:
            yield
        finally:
            torch.set_num_threads(self._acting_threads)

    def time_use(self) -> TimeUse:
        """Returns what this rank has spent its time on in this session."""
        beside = {name: learner.learned_beside for name, learner in self.learners.items()}
        return self.clock.use({name: seconds for name, seconds in beside.items() if seconds is not None})

    def setup(self) -> Setup:
        """Returns the facts on which advice about speed depends."""
        return Setup(
            kind=self.env_kind,
            agents=max(round(sum(learner.agents for learner in self.learners.values())), 1),
            copies=self.settings.env_settings.num_envs,
            runners=self.settings.env_settings.env_runners is not None,
            cores=usable_cores(),
            gpus=torch.cuda.device_count(),
            on_gpu=self.device.type == "cuda",
            threaded=any(learner.learned_beside is not None for learner in self.learners.values()),
        )

    @property
    def step(self) -> int:
        """Decisions of all behaviors."""
        return sum(learner.step for learner in self.learners.values())

    @property
    def finished(self) -> bool:
        """Whether every behavior has reached its max_steps."""
        if self.inference or not self.learners:
            return False
        return not any(learner.training for name, learner in self.learners.items() if self.rounds.counts(name))

    @property
    def endings(self) -> dict[str, Course]:
        """Behaviors that need no more training by their `stop_when`; empty while others still train."""
        still = [
            name
            for name, learner in self.learners.items()
            if learner.training and self.rounds.counts(name) and not self.goals.met(name)
        ]
        return {} if still else {name: course for name, course in self.goals.courses.items() if course.ending}

    def ticks_ahead(self) -> int:
        """Returns the number of ticks until something is due."""
        return min(
            (self.lessons.ticks_ahead(), *(learner.ticks_ahead() for learner in self.learners.values())), default=1
        )

    def stop(self) -> None:
        """Saves and ends at the next tick; an environment that waits for a game stops waiting. Safe in a signal
        handler.
        """
        self.stopped = self.told_to_stop = True
        if isinstance(self.env, Interruptible):
            self.env.interrupt()

    def wait(self) -> str:
        """Returns what a stop has to wait for; empty if the wait is short. Safe in a signal handler."""
        return self.update_times.wait(lambda name: self.learners[name].progress)

    def abandon(self) -> None:
        """Ends the processes of environment and trainers at once. Safe in a signal handler."""
        for learner in self.learners.values():
            learner.abandon()
        if isinstance(self.env, Interruptible):
            self.env.abandon()

    def close(self) -> None:
        """Ends the processes of trainers, and the environment of evaluations."""
        warn = self.console.warning
        close_safely(self.best.close, "the environment of evaluations", warn)
        for name, learner in self.learners.items():
            close_safely(learner.close, f"the trainer of '{name}'", warn)

    def retire(self) -> None:
        """Stops collecting for behaviors that have reached max_steps; their agents go on acting.

        When all have, the run ends and their unfinished rollouts are saved, so that the run can be continued with more
        steps.
        """
        if not any(learner.training for learner in self.learners.values()):
            return
        for learner in self.learners.values():
            if not learner.training and not self.inference:
                learner.collector.rollout_size = None
                learner.collector.buffer = None
        self.teachers.retire(self.learners)

    def must_be_finite(self) -> None:
        """Raises Diverged if weights are not finite."""
        for learner in self.learners.values():
            learner.must_be_finite()

    def restore(self, learner: Learner) -> None:
        """Restores a learner from the checkpoint when its behavior appears."""
        if self.unseen.give(learner):
            self.self_play.initialized(learner.name)
            learner.tell(self.console.info, self.console.warning)


def most_kept(settings: RunSettings) -> int:
    """Returns how many checkpoints to keep: the largest number that a behavior asks for; 0: all."""
    blocks = [*settings.behaviors.values(), *([settings.default_settings] if settings.default_settings else [])]
    kept = [block.keep_checkpoints for block in blocks]
    return 0 if min(kept, default=5) <= 0 else max(kept, default=5)


def staggering(env: Env, settings: RunSettings) -> StaggersEpisodes | None:
    """Returns the environment if `stagger_episodes` is on, which spreads the ends of first episodes. Raises ConfigError
    if it cannot.
    """
    if not settings.env_settings.stagger_episodes:
        return None
    behind = env.wrapped if isinstance(env, Transfer) else env
    if not isinstance(behind, StaggersEpisodes):
        raise ConfigError(
            "env_settings.stagger_episodes: this environment cannot have its first episodes end at different times; "
            "built-in ones can, and those of your own that have a method `stagger`"
        )
    return behind


MUCH_WORK = 30_000_000
"""Multiplications in one forward pass from which a second core pays off."""


def threads_for(work: int) -> tuple[int, str]:
    """Returns the number of threads, and why: all cores that it may use (or OMP_NUM_THREADS) if a forward pass is
    large, else one.
    """
    told = os.environ.get("OMP_NUM_THREADS", "")
    cores = int(told) if told.isdigit() else usable_cores()
    threads = max(1, cores // ranks.local_size()) if work >= MUCH_WORK else 1
    much = f"{work / 1e6:,.0f} million" if work >= 1e6 else "less than a million"
    why = f"{much} multiplications in a pass of a minibatch or a tick; --torch-threads chooses"
    return threads, f"Computing with {threads} {'thread' if threads == 1 else 'threads'}: {why}"


class UnseenBehaviors:
    """Keeps the checkpointed state of behaviors that have not appeared yet, and passes it on to new checkpoints."""

    def __init__(self) -> None:
        self.learned: dict[str, Any] = {}
        """State of each behavior's learner, by behavior name."""
        self.collectors: dict[str, Any] = {}
        """By behavior, the state of its collector."""
        self.specs: dict[str, Any] = {}
        """By behavior, its spec; specs of behaviors that have appeared stay."""

    def take(self, state: Mapping[str, Any]) -> None:
        """Stores the state of a checkpoint."""
        self.learned = {name: part for name, part in state.items() if name != "run"}
        self.collectors = dict(state["run"]["collector"]["seats"])
        self.specs = dict(state["run"].get("specs", {}))

    def give(self, learner: Learner) -> bool:
        """Restores a learner, once. Returns whether there was a state for it."""
        self.collectors.pop(learner.name, None)
        if learner.name not in self.learned:
            return False
        learner.load_state_dict(self.learned.pop(learner.name))
        return True
