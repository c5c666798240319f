"""One behavior in self-play: its snapshots, which of them are drawn as opponents, and their ratings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from palaestra.core.errors import ConfigError
from palaestra.core.timestep import TimeStep
from palaestra.envs.base import Env
from palaestra.parallel.rank_group import RankGroup
from palaestra.runtime.collect.learner import Learner
from palaestra.runtime.parts.run_context import RunContext
from palaestra.runtime.play.brain_policy import BrainPolicy
from palaestra.runtime.play.teachers import teacher_spec
from palaestra.runtime.self_play.opponent_policy import MixedPolicy
from palaestra.runtime.settings import RunSettings
from palaestra.runtime.storage.shared_tensors import Shared
from palaestra.runtime.storage.snapshots import SnapshotFiles, too_many
from palaestra.scenario.ratings import COPY_SPREAD, Skill
from palaestra.scenario.self_play_schedule import LEARNING, Pool, Schedule
from palaestra.scenario.settings import SelfPlaySettings

RatingChanges = tuple[dict[int, float], dict[int, "tuple[float, float]"], int]
"""Changes of Elo and evidence of skill by player, and decisions of fixed policies."""


class SelfPlayBehavior:
    """Numbers its snapshots in the order they are taken. Copies of the policy made at swaps are numbered too, but stay
    out of the pool.
    """

    def __init__(
        self,
        learner: Learner,
        policy: MixedPolicy,
        settings: SelfPlaySettings,
        seed: int,
        files: SnapshotFiles,
        group: RankGroup,
    ) -> None:
        self._group = group
        self.learner = learner
        self.policy = policy
        self.settings = settings
        self._files = files
        self.name = learner.name
        self.collector = learner.collector
        self.steady = learner.spec.steady
        self.schedule = Schedule()
        self.pool = Pool(settings, seed, learner.name)
        self._ghosts_met = 0
        self._ghosts = 0
        """Decisions by fixed policies until the ranks last met, and since then on this rank."""
        self.elo = settings.initial_elo
        self.elos: dict[int, float] = {}
        self.skills: dict[int, Skill] = {LEARNING: Skill(deviation=COPY_SPREAD)}
        self._next = 0
        self._copy = (LEARNING, -1)
        self._updates = 0
        self._first_written = False
        self._loaded = False
        self._unwritten: dict[int, Shared] = {}
        """Snapshots by step that are still to be written as files."""
        self._agreed: dict[int, float] = {}
        self._agreed_skills: dict[int, Skill] = {}
        """Ratings when the ranks last met; LEARNING is the policy's own."""
        self.first = self._take()
        """The player of every non-learning side at the start."""
        self._admit(self.first)
        self._note_agreed()

    def rating_changes(self) -> RatingChanges:
        """Returns the ratings that changed since the ranks last met, by how much, and the decisions of fixed
        policies.
        """
        elos = {
            number: elo - self._agreed.get(number, elo) for number, elo in {LEARNING: self.elo, **self.elos}.items()
        }
        skills = {number: skill.less(self._agreed_skills.get(number, skill)) for number, skill in self.skills.items()}
        ghosts = self._ghosts
        self._ghosts = 0
        return elos, skills, ghosts

    def join_ratings(self, changes: Sequence[RatingChanges]) -> None:
        """Sets every rating to the one that the ranks agreed on plus the changes of all ranks."""
        for elos, skills, ghosts in changes:
            self._ghosts_met += ghosts
            for number, change in elos.items():
                self._agreed[number] = self._agreed.get(number, self.settings.initial_elo) + change
            for number, evidence in skills.items():
                self._agreed_skills[number] = self._agreed_skills.get(number, Skill()).plus(evidence)
        self.elo = self._agreed.get(LEARNING, self.elo)
        self.elos = {number: self._agreed[number] for number in self.elos}
        self.skills = {number: self._agreed_skills[number] for number in self.skills}
        self._note_agreed()

    def _note_agreed(self) -> None:
        self._agreed = {LEARNING: self.elo, **self.elos}
        self._agreed_skills = dict(self.skills)

    def retake_first(self) -> None:
        """Replaces the first snapshot with the initialized network, unless the pool was loaded with it."""
        if not self._loaded:
            self.policy.snapshot(self.first)

    @property
    def elo(self) -> float:
        """Its own rating, which its learner shows."""
        assert self.learner.rating is not None
        return self.learner.rating

    @elo.setter
    def elo(self, elo: float) -> None:
        self.learner.rating = elo

    @property
    def step(self) -> int:
        """Number of its decisions that were learned from."""
        return self.learner.step

    @property
    def ghost_step(self) -> int:
        """Number of decisions by fixed policies that all ranks know of."""
        return self._group.known(self._ghosts_met + self._ghosts, self._ghosts_met)

    @property
    def counts(self) -> dict[str, int]:
        """Counters for statistics, by their display names."""
        schedule = self.schedule
        return {
            "Snapshots": schedule.saves,
            "Swaps": schedule.swaps,
            "Team Changes": schedule.changes,
            "Ghost Steps": self.ghost_step,
        }

    @property
    def training(self) -> bool:
        """Whether it still learns."""
        return self.learner.training

    def updated(self) -> None:
        """Notes that the policy changed."""
        self._updates += 1

    def opponent(self) -> int:
        """Draws the next player: a number of the pool, of a fixed opponent, or of a copy made now."""
        number = self.pool.draw()
        if number != LEARNING:
            return number
        if self._copy[1] != self._updates:
            self._copy = self._take(), self._updates
        return self._copy[0]

    def save_if_due(self) -> None:
        """Adds a snapshot to the pool if it is time. The first one is written only now, when no other network can
        replace it.
        """
        if not self._first_written and not self.schedule.saves and self.training:
            self._unwritten[0] = self.policy.weights(self.first)
        self._first_written = True
        if self.training and self.schedule.save_due(self.step, self.settings):
            self._admit(self._take())
            self._unwritten[self.step] = self.policy.weights(self.pool.numbers[-1])
            for superfluous in too_many(list(self._unwritten)):
                del self._unwritten[superfluous]

    def write_snapshots(self) -> None:
        """Writes the snapshots that were taken since the last call, between two ticks. Raises RunError."""
        for step, weights in self._unwritten.items():
            self._files.add(self.name, step, weights)
        self._unwritten.clear()

    def conclude(self) -> None:
        """Writes the final policy as a snapshot."""
        self._files.add(self.name, self.step, Shared(self.learner.trainer.network.state_dict()))

    def swap_due(self) -> bool:
        """Whether it is time to draw new opponents for its non-learning sides."""
        return self.schedule.swap_due(self.ghost_step, self.settings)

    def change_due(self) -> bool:
        """Whether its turn to learn is over."""
        return self.training and self.schedule.change_due(self.step, self.settings)

    def end_turn(self) -> None:
        """Notes that its team's turn is over."""
        self.schedule.change(self.step)

    def count_ghosts(self, step: TimeStep) -> None:
        """Counts the decisions that fixed policies are about to make."""
        learned = self.policy.learned
        if learned is not None:
            ghosts = self.policy.ghosts if self.steady else int((step.acting & ~learned).sum())
            self._ghosts += ghosts

    def is_current(self, number: int) -> bool:
        """Whether this player is rated as the learning policy: the policy itself, and copies of it outside the pool."""
        return number == LEARNING or (number >= 0 and number not in self.elos)

    def rating(self, number: int) -> float:
        """Returns the rating of a player."""
        return self.elo if self.is_current(number) else self.elos.get(number, self.settings.initial_elo)

    def change_rating(self, number: int, change: float) -> None:
        """Sets the rating of a player after a match."""
        self.set_rating(number, self.rating(number) + change)

    def set_rating(self, number: int, elo: float) -> None:
        """Sets the rating of a player after a match."""
        if self.is_current(number):
            self.elo = elo
        else:
            self.elos[number] = elo

    def skill(self, number: int) -> Skill:
        """Returns the rating of a player."""
        return self.skills.get(LEARNING if self.is_current(number) else number, Skill())

    def set_skill(self, number: int, skill: Skill) -> None:
        """Sets the rating of a player after a match."""
        self.skills[LEARNING if self.is_current(number) else number] = skill

    def keep(self, playing: set[int]) -> None:
        """Drops snapshots that are outside the pool and play nowhere."""
        self.policy.keep({*self.pool.numbers, *playing, self._copy[0]})
        there = set(self.policy.numbers)
        for known in (self.elos, self.skills):
            for number in [number for number in known if number >= 0 and number not in there]:
                del known[number]

    def _take(self) -> int:
        number = self._next
        self._next = self._next + 1
        self.policy.snapshot(number)
        return number

    def _admit(self, number: int) -> None:
        self.pool.admit(number)
        self.elos[number] = self.elo
        self.skills[number] = self.skills[LEARNING]
        # ranks admit where they meet
        self._agreed[number] = self.elo
        self._agreed_skills[number] = self.skills[LEARNING]

    def state_dict(self) -> dict[str, Any]:
        """Returns counters, pool, snapshots and ratings."""
        return {
            "schedule": self.schedule.state_dict(),
            "pool": self.pool.state_dict(),
            "snapshots": self.policy.state_dict(),
            "ghost_step": self.ghost_step,
            "elo": self.elo,
            "elos": {str(number): elo for number, elo in self.elos.items()},
            "skills": {str(number): asdict(skill) for number, skill in self.skills.items()},
            "agreed": self._agreed_state(),
            "numbers": [self._next, *self._copy, self._updates, self.first],
        }

    def _agreed_state(self) -> dict[str, Any]:
        """Returns ratings when the ranks last met, and what this one has counted since."""
        elos = self._group.known({LEARNING: self.elo, **self.elos}, self._agreed)
        skills = self._group.known(self.skills, self._agreed_skills)
        return {
            "elos": {str(number): elo for number, elo in elos.items()},
            "skills": {str(number): asdict(skill) for number, skill in skills.items()},
            "ghosts": self._group.known(0, self._ghosts),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores counters, pool, snapshots and ratings."""
        self._loaded = True
        self.schedule = Schedule.of(state["schedule"])
        self.pool.load_state_dict(state["pool"])
        self.policy.load_state_dict(state["snapshots"])
        self._ghosts_met = state["ghost_step"]
        self.elo = state["elo"]
        self.elos = {int(number): elo for number, elo in state["elos"].items()}
        self.skills = {int(number): Skill(**skill) for number, skill in state["skills"].items()}
        self._note_agreed()
        if "agreed" in state:
            self._agreed = {int(number): elo for number, elo in state["agreed"]["elos"].items()}
            self._agreed_skills = {int(number): Skill(**skill) for number, skill in state["agreed"]["skills"].items()}
            self._ghosts = state["agreed"]["ghosts"]
        self._next, *copy, self._updates, self.first = state["numbers"]
        self._copy = (copy[0], copy[1])
        self._files.drop_after(self.name, self.step)


OLD_GAMES = (
    "self-play with {} learns from a replay of games against opponents that are long gone; "
    "trainers that learn on-policy, such as ppo and poca, usually do better"
)


def join_self_play(learner: Learner, context: RunContext) -> SelfPlayBehavior:
    """Adds opponents to a behavior's policy, which then shares its slots with them. Raises ConfigError, EnvError."""
    own = learner.settings.self_play
    assert own is not None
    env = context.env
    settings = context.settings
    files = SnapshotFiles(context.folder.path)
    trainer = learner.trainer
    device = env.device
    seed = settings.env_settings.seed
    fixed = [_asked(text, learner, env, settings) for text in own.opponents]
    policy = MixedPolicy(
        trainer.policy, trainer.network, lambda: trainer.make_network(learner.spec, learner.settings).to(device), fixed
    )
    learner.collector.policy = policy
    learner.collector.shared = True
    return SelfPlayBehavior(learner, policy, own, seed, files, context.group)


def _asked(text: str, learner: Learner, env: Env, settings: RunSettings) -> BrainPolicy:
    try:
        part = teacher_spec(text)
    except ConfigError as error:
        raise ConfigError(
            f"behavior '{learner.name}': self_play.opponents: {str(error).replace('teacher', 'opponent')}"
        ) from error
    # brings onnxruntime, which most runs never need
    from palaestra.runtime.play.brain_assignment import BrainAssignment

    results = Path(settings.checkpoint_settings.results_dir)
    assignment = BrainAssignment([part], env, seed=settings.env_settings.seed, deterministic=False, results=results)
    return BrainPolicy(assignment.brain(learner.name, 0), learner.spec.action)
