"""One behavior in self-play: its snapshots, and which of them are drawn as opponents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from palaestra.core.errors import ConfigError
from palaestra.core.timestep import TimeStep
from palaestra.parallel.rank_group import RankGroup
from palaestra.runtime.collect.learner import Learner
from palaestra.runtime.parts.run_context import RunContext
from palaestra.runtime.play.brain_policy import BrainPolicy
from palaestra.runtime.play.teachers import teacher_spec
from palaestra.runtime.self_play import exploiter as exploiting
from palaestra.runtime.self_play.exploiter import Exploiter
from palaestra.runtime.self_play.opponent_policy import MixedPolicy
from palaestra.runtime.self_play.player_ratings import Game, PlayerRatings, PoolGames, RatingChanges
from palaestra.runtime.self_play.policy_snapshots import PolicySnapshots
from palaestra.runtime.storage.shared_tensors import Shared
from palaestra.runtime.storage.snapshots import SnapshotFiles, too_many
from palaestra.scenario.self_play_schedule import LEARNING, Pool, Schedule
from palaestra.scenario.settings import PRIORITIZED, UNIFORM, SelfPlaySettings
from palaestra.trainers.behavior_settings import trainer_class

Changes = tuple[RatingChanges, int, list[Game], "exploiting.Changes | None"]


class SelfPlayBehavior:
    """Numbers its snapshots in the order in which they are taken; copies made when opponents change get numbers too,
    but are not in the pool."""

    def __init__(
        self,
        learner: Learner,
        policy: MixedPolicy,
        settings: SelfPlaySettings,
        seed: int,
        files: SnapshotFiles,
        group: RankGroup,
        exploiter: Exploiter | None,
    ) -> None:
        self.name = learner.name
        self.learner = learner
        self.policy = policy
        self.exploiter = policy.exploiter = exploiter
        self.settings = settings
        self.schedule = Schedule()
        self.ratings = PlayerRatings(learner, settings.initial_elo, group)
        self.updates = 0
        """Updates of the policy so far."""
        self._group = group
        self._files = files
        self._snapshots = policy.snapshots
        self._pool = Pool(settings, seed, learner.name)
        self.games = PoolGames(self._pool, group)
        self._steps_when_met = 0
        self._steps_since = 0
        """Decisions by fixed policies until the ranks last met, and on this rank since then."""
        self._next = 0
        self._copy = (LEARNING, -1)
        """Newest copy of the policy, and the number of updates when it was made."""
        self._first_written = False
        self._loaded = False
        self._unwritten: dict[int, Shared] = {}
        """Snapshots by step that are still to be written as files."""
        self.first = self.admit()
        """The player of every non-learning side at the start."""

    def retake_first(self) -> None:
        """Replaces the first snapshot with the initialized network, unless the pool was loaded with it; also for the
        exploiter."""
        if not self._loaded:
            self._snapshots.take(self.first)
            if self.exploiter is not None:
                self.exploiter.begin_anew()

    @property
    def oldest(self) -> int:
        """The oldest snapshot that the pool still has."""
        return self._pool.numbers[0]

    @property
    def fixed_steps(self) -> int:
        """Number of decisions by fixed policies that all ranks know."""
        return self._group.known(self._steps_when_met + self._steps_since, self._steps_when_met)

    def count_fixed(self, step: TimeStep) -> None:
        """Counts the decisions that fixed policies make next."""
        fixed = self.policy.fixed
        if fixed is not None:
            steady = self.learner.spec.steady
            self._steps_since += self.policy.fixed_slots if steady else int((step.acting & fixed).sum())

    def changes(self) -> Changes:
        """Returns changes since the ranks last met: ratings, decisions of fixed policies, games, and the exploiter's
        changes."""
        steps = self._steps_since
        self._steps_since = 0
        exploited = None if self.exploiter is None else self.exploiter.changes()
        return self.ratings.changes(), steps, self.games.take(), exploited

    def join(self, changes: Sequence[Changes]) -> None:
        """Adds the changes of all ranks to the state on which they last agreed."""
        self._steps_when_met += sum(steps for _, steps, *_ in changes)
        self.ratings.join([ratings for ratings, *_ in changes])
        self.games.join([games for _, _, games, _ in changes])
        if self.exploiter is not None:
            self.exploiter.join([exploited for *_, exploited in changes if exploited is not None])

    def opponent(self, learners: Sequence[str]) -> int:
        """Draws the next player against a team of these behaviors: the number of a snapshot in the pool, of a fixed
        opponent, or of a copy made now."""
        number = self._pool.draw(learners)
        if number != LEARNING:
            return number
        if self._copy[1] != self.updates:
            self._copy = self._take(), self.updates
        return self._copy[0]

    def save_if_due(self) -> None:
        """Adds a snapshot to the pool if one is due; writes the first snapshot now, since it no longer changes."""
        training = self.learner.training
        if not self._first_written and not self.schedule.saves and training:
            self._unwritten[0] = self._snapshots.weights(self.first)
        self._first_written = True
        step = self.learner.step
        if training and self.schedule.save_due(step, self.settings):
            number = self.admit()
            self._unwritten[step] = self._snapshots.weights(number)
            for superfluous in too_many(list(self._unwritten)):
                del self._unwritten[superfluous]

    def write_snapshots(self) -> None:
        """Writes the snapshots that were taken since the last call, between two ticks. Raises RunError."""
        for step, weights in self._unwritten.items():
            self._files.add(self.name, step, weights)
        self._unwritten.clear()

    def write_final(self) -> None:
        """Writes the final policy as a snapshot."""
        self._files.add(self.name, self.learner.step, Shared(self.learner.process.newest_network().state_dict()))

    def keep(self, playing: set[int]) -> None:
        """Drops snapshots that are not in the pool and do not play in any area."""
        self._snapshots.keep({*self._pool.numbers, *playing, self._copy[0]})
        self.games.keep(self._snapshots.numbers)
        self.ratings.keep(self._snapshots.numbers)

    def admit(self, network: nn.Module | None = None) -> int:
        """Adds a snapshot of the policy, or of its exploiter's network, to the pool. Returns its number."""
        number = self._take(network)
        self._pool.admit(number)
        self.ratings.admit(number)
        return number

    def _take(self, network: nn.Module | None = None) -> int:
        number = self._next
        self._next = self._next + 1
        self._snapshots.take(number, network)
        self.games.taken[number] = self.learner.step
        return number

    def state_dict(self) -> dict[str, Any]:
        """Returns counters, pool, snapshots and ratings."""
        return {
            "schedule": self.schedule.state_dict(),
            "pool": self._pool.state_dict(),
            "snapshots": self._snapshots.state_dict(),
            "ratings": self.ratings.state_dict(),
            "games": self.games.state_dict(),
            "exploiter": None if self.exploiter is None else self.exploiter.state_dict(),
            "fixed_steps": self.fixed_steps,
            "fixed_steps_since": self._group.known(0, self._steps_since),
            "numbers": [self._next, *self._copy, self.updates, self.first],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores counters, pool, snapshots and ratings."""
        self._loaded = True
        self.schedule = Schedule.of(state["schedule"])
        self._pool.load_state_dict(state["pool"])
        self._snapshots.load_state_dict(state["snapshots"])
        self.ratings.load_state_dict(state["ratings"])
        self.games.load_state_dict(state.get("games", {}))
        if self.exploiter is not None and state.get("exploiter") is not None:
            self.exploiter.load_state_dict(state["exploiter"])
        self._steps_when_met = state["fixed_steps"]
        self._steps_since = state["fixed_steps_since"]
        self._next, copy, updates_then, self.updates, self.first = state["numbers"]
        self._copy = (copy, updates_then)
        self._files.drop_after(self.name, self.learner.step)


def join_self_play(learner: Learner, settings: SelfPlaySettings, context: RunContext) -> SelfPlayBehavior:
    """Adds opponents to a behavior's policy, which then shares its slots with them. Raises ConfigError, EnvError."""
    trainer = learner.trainer
    device = context.env.device
    snapshots = PolicySnapshots(
        trainer.network,
        lambda: trainer_class(learner.settings.trainer_type).make_network(learner.spec, learner.settings).to(device),
    )
    fixed = [_fixed_opponent(text, learner, context) for text in settings.brains]
    policy = MixedPolicy(trainer.policy, snapshots, fixed)
    learner.collector.policy = policy
    learner.collector.shared = True
    files = SnapshotFiles(context.folder.path)
    exploiter = (
        None if settings.exploiter is None else Exploiter(learner, settings.exploiter, settings.save_steps, context)
    )
    return SelfPlayBehavior(
        learner, policy, settings, context.settings.env_settings.seed, files, context.group, exploiter
    )


def _fixed_opponent(text: str, learner: Learner, context: RunContext) -> BrainPolicy:
    try:
        part = teacher_spec(text)
    except ConfigError as error:
        said = str(error).replace("teacher", "opponent").replace("expected", f"expected {UNIFORM}, {PRIORITIZED},")
        raise ConfigError(f"behavior '{learner.name}': self_play.opponents: {said}") from error
    # brings onnxruntime, which most runs never need
    from palaestra.runtime.play.brain_assignment import BrainAssignment

    results = Path(context.settings.checkpoint_settings.results_dir)
    seed = context.settings.env_settings.seed
    assignment = BrainAssignment([part], context.env, seed=seed, deterministic=False, results=results)
    return BrainPolicy(assignment.brain(learner.name, 0), learner.spec.action)
