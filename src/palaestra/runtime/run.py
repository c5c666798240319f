"""A run put together: environment, learners, tracker and files, and everything a checkpoint holds."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from palaestra.core.errors import CheckpointError, ConfigError, PalaestraError
from palaestra.core.specs import BehaviorSpec, describe
from palaestra.data.rollout import Rollout
from palaestra.envs.base import Env
from palaestra.runtime.checkpoints import Checkpoint, Checkpoints, palaestra_version
from palaestra.runtime.collector import Collector, Seat
from palaestra.runtime.console import Console
from palaestra.runtime.model_writer import ModelWriter
from palaestra.runtime.folder import RunFolder
from palaestra.runtime.learner import Learner
from palaestra.runtime.settings import RunSettings, behavior
from palaestra.runtime.status import MLAGENTS
from palaestra.runtime.timers import Timers
from palaestra.runtime.tracker import Tracker
from palaestra.scenario.settings import constant

WIDE_ROWS = 1024
"""Rows at which a second core begins to pay: below, handing work over costs more than it saves."""
SAFETY_SECONDS = 60.0
"""A run is saved at least this often, whatever checkpoint_interval says; models are written at the latter alone."""


class Run:
    """Owns all state that changes while a run goes on."""

    def __init__(self, settings: RunSettings, folder: RunFolder, env: Env, tracker: Tracker, console: Console, timers: Timers) -> None:
        self.settings, self.folder, self.env = settings, folder, env
        self.tracker, self.console, self.timers = tracker, console, timers
        self.models = ModelWriter(folder, console)
        self.device = env.device
        self.inference = settings.checkpoint_settings.inference
        self.learners: dict[str, Learner] = {}
        self.checkpoints = Checkpoints(folder.checkpoints, max((b.keep_checkpoints for b in settings.behaviors.values()), default=5))
        self.stopped = False
        """Set by a signal or a callback: the run ends at the next tick, saved."""
        self.learning = 0.0
        """Seconds spent in updates."""
        self._first_step = 0
        self._elapsed_before, self._started, self._saved = 0.0, time.perf_counter(), time.perf_counter()
        self.threads = settings.torch_settings.threads
        self._state: Mapping[str, Any] = {}
        self._set_parameters()
        self.collector = Collector(env, self._join, settings.env_settings.seed)
        self.set_threads()

    def _set_parameters(self) -> None:
        """The environment parameters that the settings fix, in every area."""
        fixed = {name: constant(value) for name, value in (self.settings.environment_parameters or {}).items()}
        if fixed:
            self.env.set_parameters({name: torch.full((self.env.num_areas,), value or 0.0) for name, value in fixed.items()})

    def _join(self, name: str, spec: BehaviorSpec) -> Seat:
        settings = behavior(self.settings, name, self.env.behaviors)
        seed = self.settings.env_settings.seed + 1000 * len(self.learners)
        learner = Learner(name, spec, settings, self.device, seed, self.inference)
        self.learners[name] = learner
        if name in self._state:
            learner.load_state_dict(self._state[name])
        self.console.info(f"New behavior '{name}': {describe(spec)}")
        return learner.seat

    def set_threads(self) -> None:
        """As many as asked for; else all cores where tables or minibatches are wide, one where they are small."""
        if self.threads is None:
            sizes = [max(seat.slots, getattr(seat.settings.hyperparameters, "batch_size", 0)) for seat in self.learners.values()]
            self.threads = os.cpu_count() or 1 if max(sizes, default=0) >= WIDE_ROWS else 1
        torch.set_num_threads(self.threads)

    @property
    def elapsed(self) -> float:
        """Seconds of this run, those before it was resumed included."""
        return self._elapsed_before + time.perf_counter() - self._started

    @property
    def seconds(self) -> dict[str, float]:
        """Where this session's time went."""
        return {**self.collector.seconds, "learning": self.learning}

    @property
    def session_seconds(self) -> float:
        """Since the run was put together."""
        return time.perf_counter() - self._started

    def step_now(self) -> int:
        """Decisions of this session."""
        return self.step - self._first_step

    @property
    def step(self) -> int:
        """Decisions of all behaviors."""
        return sum(learner.step for learner in self.learners.values())

    @property
    def finished(self) -> bool:
        """Every behavior has reached its max_steps."""
        return not self.inference and bool(self.learners) and not any(learner.training for learner in self.learners.values())

    def ticks_ahead(self) -> int:
        """Ticks until anything is due."""
        return min((learner.ticks_ahead() for learner in self.learners.values()), default=1)

    def note_episodes(self) -> None:
        """Sums the episodes that ended and tells the tracker."""
        for name, learner in self.learners.items():
            ended = learner.seat.meter.take()
            if len(ended.returns):
                strength = learner.settings.reward_signals["extrinsic"].strength
                extrinsic = (ended.returns + ended.group_returns) * strength
                self.tracker.episodes(name, ended.returns.tolist(), ended.lengths.tolist(), extrinsic=extrinsic.tolist())

    def update(self, name: str, rollout: Rollout) -> None:
        """A behavior learns from a rollout, and the tracker hears what was measured."""
        start = time.perf_counter()
        metrics = self.learners[name].update(rollout)
        self.learning += time.perf_counter() - start
        for tag, value in metrics.items():
            self.tracker.add(name, tag, value)
        self.tracker.policy_updated(name)

    def retire(self) -> None:
        """Behaviors that have reached max_steps go on acting, and keep no more experience."""
        for learner in self.learners.values():
            if not learner.training and not self.inference:
                learner.seat.rollout_size, learner.seat.buffer = None, None

    def checkpoint_due(self) -> bool:
        """A behavior's checkpoint_interval has passed, or so much time that losing it would hurt."""
        due = [learner for learner in self.learners.values() if learner.checkpoint_due()]
        for learner in due:
            self.models.write(learner, self.tracker.recent_reward(learner.name))
        return bool(due) or time.perf_counter() - self._saved > SAFETY_SECONDS

    def save(self) -> None:
        """Writes a checkpoint of everything, and the list of models that belongs to it."""
        if self.inference:
            return
        with self.timers("save"):
            self.checkpoints.save(self.step, self.state_dict())
            self.models.write_status()
        self._saved = time.perf_counter()

    def state_dict(self) -> dict[str, Any]:
        """Between two ticks, everything that the next one depends on."""
        for learner in self.learners.values():
            assert not len(learner.seat.meter)
        whole = {
            "collector": self.collector.state_dict(),
            "tracker": self.tracker.state_dict(),
            "elapsed": self.elapsed,
            "threads": self.threads,
            "seed": self.settings.env_settings.seed,
        }
        return {"run": whole, **{name: learner.state_dict() for name, learner in self.learners.items()}}

    def load(self, checkpoint: Checkpoint) -> None:
        """Goes on from a checkpoint. Raises CheckpointError where it does not fit the environment or the settings."""
        state = checkpoint.state
        self._state = {name: part for name, part in state.items() if name != "run"}
        whole = state["run"]
        try:
            restored = self.collector.load_state_dict(whole["collector"], self.settings.env_settings.seed + checkpoint.step)
            for name, learner in self.learners.items():
                if name in self._state:
                    learner.load_state_dict(self._state[name])
        except (KeyError, RuntimeError, ValueError, TypeError) as error:
            reason = str(error).strip().splitlines()[-1].strip() if str(error).strip() else type(error).__name__
            raise CheckpointError(
                f"{checkpoint.path} does not fit this environment and these settings: {reason}; resume with the settings it was "
                f"trained with ({self.folder.path / 'configuration.yaml'}), or start a new run from it with --initialize-from={self.folder.run_id}"
            ) from error
        if not restored:
            self.console.warning("this environment cannot go on with its old episodes: it starts new ones; everything else goes on")
        self.tracker.load_state_dict(whole["tracker"])
        self._elapsed_before, self._first_step = whole["elapsed"], self.step
        if self.settings.torch_settings.threads is None:
            self.threads = whole["threads"]
            self.set_threads()
        if self.inference:
            for learner in self.learners.values():
                learner.seat.rollout_size = None
        self.retire()

    def note_beginning(self, checkpoint: Checkpoint | None) -> None:
        """Logs where the run starts and, for a new one, with which settings."""
        if checkpoint is None:
            for name, learner in self.learners.items():
                self.tracker.text(name, "Hyperparameters", outline(learner.settings.model_dump()))
            self.console.info(f"Starting '{self.folder.run_id}' from step 0; its files are in {self.folder.path}")
            return
        for warning in self.models.status.load():
            self.console.warning(warning)
        if self.finished:
            limit = max(learner.settings.max_steps for learner in self.learners.values())
            self.console.info(
                f"The run '{self.folder.run_id}' is finished: it has reached its max_steps of {limit:,}. To train it further, raise them, "
                f"such as with --set 'behaviors.*.max_steps={2 * limit}'"
            )
        else:
            self.console.info(f"Resuming '{self.folder.run_id}' from step {checkpoint.step:,}; its files are in {self.folder.path}")

    def conclude(self) -> dict[str, Path]:
        """Saves a last time and writes final models, timers, settings and curves. The models by behavior."""
        if self.stopped:
            self.console.info("Training was stopped; saving what it has learned")
        finals = {}
        for name, learner in self.learners.items():
            final = self.models.write_final(learner, self.tracker.recent_reward(name))
            if final is not None:
                finals[name] = final
        self.save()
        versions = {"palaestra_version": palaestra_version(), "mlagents_version": MLAGENTS, "mlagents_envs_version": MLAGENTS}
        self.timers.write(self.folder.logs / "timers.json", {**versions, "communication_protocol_version": "1.5.0"})
        self.folder.configure(self.settings)
        self.console.info(conclusion(self, finals, self._draw()))
        return finals

    def _draw(self) -> Path | None:
        """Learning curves as a picture; None, and a warning, where it cannot be drawn: that must not make a good run fail."""
        from palaestra.runtime.curves import save_curves  # matplotlib takes half a second to import

        try:
            return save_curves(self.folder.path)
        except (PalaestraError, OSError, ValueError) as problem:
            self.console.warning(f"the learning curves could not be drawn: {problem}")
            return None

    def initialize(self, name: str, state: Mapping[str, Any], origin: Path) -> None:
        """Starts a behavior's network from another run's. Raises ConfigError where the networks differ in shape."""
        network = self.learners[name].trainer.network
        saved = state["trainer"]["network"]
        wanted = {key: tuple(value.shape) for key, value in network.state_dict().items()}
        differ = [
            f"{key}: {tuple(saved[key].shape) if key in saved else 'missing'} there, {shape} here"
            for key, shape in wanted.items()
            if key not in saved or tuple(saved[key].shape) != shape
        ]
        if differ:
            raise ConfigError(
                f"behavior '{name}' cannot start from {origin}: its network has another shape ({'; '.join(differ[:3])}); use the same "
                f"network_settings, observations and actions"
            )
        network.load_state_dict({key: saved[key] for key in wanted})


def steps_in(checkpoint: Checkpoint) -> dict[str, int]:
    """Decisions of each behavior at a checkpoint."""
    run: Any = checkpoint.state["run"]
    return {name: seat["decisions"] for name, seat in run["collector"]["seats"].items()}


def outline(tree: Mapping[str, Any], depth: int = 1) -> str:
    """Settings as an indented list, for people."""
    lines = []
    for key, value in tree.items():
        nested = isinstance(value, Mapping)
        lines.append("\t" * depth + f"{key}:" + ("" if nested else f"\t{value}"))
        if nested:
            lines.append(outline(value, depth + 1))
    return "\n".join(lines)


def conclusion(run: Run, finals: Mapping[str, Path], curves: Path | None) -> str:
    """Where everything is, and where the time went."""
    seconds = run.seconds
    total = max(run.session_seconds, 1e-9)
    shares = ", ".join(f"{name} {100 * spent / total:.0f} %" for name, spent in seconds.items())
    lines = [f"{run.step_now():,} decisions in {total:.1f} s: {run.step_now() / total:,.0f} a second ({shares})"]
    for name in run.learners:
        reward = run.tracker.mean_reward(name)
        lines.append(f"{name}: " + ("no episode ended" if reward is None else f"mean reward {reward:.2f} over the last episodes"))
    lines += [f"model        {path}" for path in finals.values()]
    if curves is not None:
        lines.append(f"curves       {curves}")
    lines.append(f"TensorBoard  tensorboard --logdir {run.folder.results}")
    lines.append(f"go on        palaestra learn --run-id={run.folder.run_id} --resume")
    return "\n  ".join(lines)
