"""Elo, skill and win rates of the players of one behavior in self-play."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from palaestra.parallel.rank_group import RankGroup
from palaestra.runtime.collect.learner import Learner
from palaestra.scenario.ratings import COPY_SPREAD, Skill
from palaestra.scenario.self_play_schedule import LEARNING, Pool

Game = tuple[str, int, float]
"""A learning behavior, the number of its opponent, and the result of the game."""
RatingChanges = tuple[dict[int, float], dict[int, "tuple[float, float]"]]
"""Changes of Elo and results for the skill estimate, by player."""


class PlayerRatings:
    """Elo and skill of each player: LEARNING is the policy itself, and also stands for its copies outside the pool."""

    def __init__(self, learner: Learner, initial_elo: float, group: RankGroup) -> None:
        self._learner = learner
        self._initial = initial_elo
        self._group = group
        self._elos: dict[int, float] = {}
        self._skills: dict[int, Skill] = {LEARNING: Skill(deviation=COPY_SPREAD)}
        self.set_elo(LEARNING, initial_elo)
        self._agreed_elos = dict(self._elos)
        self._agreed_skills = dict(self._skills)
        """Ratings when the ranks last met."""

    @property
    def elo(self) -> float:
        """The policy's own Elo."""
        return self._elos[LEARNING]

    @property
    def opponent_elos(self) -> list[float]:
        """Elo of all other rated players."""
        return [elo for number, elo in self._elos.items() if number != LEARNING]

    def rated(self, number: int) -> int:
        """Returns the number under which a player is rated."""
        return LEARNING if number >= 0 and number not in self._elos else number

    def elo_of(self, number: int) -> float:
        """Returns the Elo of a player."""
        return self._elos.get(self.rated(number), self._initial)

    def set_elo(self, number: int, elo: float) -> None:
        """Sets the Elo of a player; the learner shows the Elo of the policy itself."""
        self._elos[self.rated(number)] = elo
        self._learner.rating = self._elos[LEARNING]

    def skill_of(self, number: int) -> Skill:
        """Returns the skill of a player."""
        return self._skills.get(self.rated(number), Skill())

    def set_skill(self, number: int, skill: Skill) -> None:
        """Sets the skill of a player."""
        self._skills[self.rated(number)] = skill

    def admit(self, number: int) -> None:
        """Gives a new snapshot the rating of its policy. Ranks do this when they meet."""
        for ratings in (self._elos, self._agreed_elos):
            ratings[number] = self.elo
        for skills in (self._skills, self._agreed_skills):
            skills[number] = self._skills[LEARNING]

    def keep(self, snapshots: Sequence[int]) -> None:
        """Forgets all other snapshots."""
        for ratings in (self._elos, self._skills):
            for number in [number for number in ratings if number >= 0 and number not in snapshots]:
                del ratings[number]

    def changes(self) -> RatingChanges:
        """Returns by how much each rating has changed since the ranks last met."""
        elos = {number: elo - self._agreed_elos.get(number, elo) for number, elo in self._elos.items()}
        skills = {number: skill.less(self._agreed_skills.get(number, skill)) for number, skill in self._skills.items()}
        return elos, skills

    def join(self, changes: Sequence[RatingChanges]) -> None:
        """Sets every rating to the rating on which the ranks last agreed plus the changes of all ranks."""
        for elos, skills in changes:
            for number, change in elos.items():
                self._agreed_elos[number] = self._agreed_elos.get(number, self._initial) + change
            for number, evidence in skills.items():
                self._agreed_skills[number] = self._agreed_skills.get(number, Skill()).plus(evidence)
        self._agreed_elos = {number: self._agreed_elos[number] for number in self._elos}
        self._agreed_skills = {number: self._agreed_skills[number] for number in self._skills}
        self._elos = dict(self._agreed_elos)
        self._skills = dict(self._agreed_skills)
        self._learner.rating = self.elo

    def state_dict(self) -> dict[str, Any]:
        """Returns the ratings, and the ratings on which the ranks last agreed."""
        return {
            "elos": _saved(self._elos),
            "skills": _saved({number: asdict(skill) for number, skill in self._skills.items()}),
            "agreed_elos": _saved(self._group.known(self._elos, self._agreed_elos)),
            "agreed_skills": _saved(
                {
                    number: asdict(skill)
                    for number, skill in self._group.known(self._skills, self._agreed_skills).items()
                }
            ),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores Elo and skill of each player, as `state_dict` has them."""
        self._elos, self._agreed_elos = (_loaded(state[key]) for key in ("elos", "agreed_elos"))
        self._skills, self._agreed_skills = (
            {number: Skill(**skill) for number, skill in _loaded(state[key]).items()}
            for key in ("skills", "agreed_skills")
        )
        self._learner.rating = self.elo


class PoolGames:
    """Games of learning policies against the snapshots of a pool; when ranks meet, they add the games to the pool's win
    rates."""

    def __init__(self, pool: Pool, group: RankGroup) -> None:
        self._pool = pool
        self._group = group
        self._unknown: list[Game] = []
        """Games that the other ranks do not know yet."""
        self.taken: dict[int, int] = {}
        """By number of a snapshot, the step at which it was taken."""

    def add(self, learner: str, number: int, result: float) -> None:
        """Adds a game against the player with this number, if it is a snapshot of the pool."""
        if number in self._pool.numbers:
            self._unknown.append((learner, number, result))
            if self._group.known(now=True, when_met=False):
                self.join([self.take()])

    def take(self) -> list[Game]:
        """Returns the games since the last call."""
        games = self._unknown
        self._unknown = []
        return games

    def join(self, games: Iterable[Sequence[Game]]) -> None:
        """Adds the games of all ranks to the win rates."""
        for learner, number, result in (game for some in games for game in some):
            if number in self._pool.numbers:
                self._pool.rates.add(learner, number, result)

    def standings(self, learner: str) -> list[tuple[float, int]]:
        """Returns a learning policy's win rate against each snapshot with enough games, with the snapshot's step."""
        dated = [(number, self.taken[number]) for number in self._pool.numbers if number in self.taken]
        rates = [(self._pool.rates.seen(learner, number), step) for number, step in dated]
        return [(rate, step) for rate, step in rates if rate is not None]

    def keep(self, numbers: Collection[int]) -> None:
        """Forgets all other snapshots."""
        self.taken = {number: step for number, step in self.taken.items() if number in numbers}

    def state_dict(self) -> dict[str, Any]:
        """Returns the games that the other ranks do not know, and the snapshots' steps."""
        return {"unknown": [list(game) for game in self._unknown], "taken": _saved(self.taken)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the games; early checkpoints have no games."""
        self._unknown = [(learner, number, result) for learner, number, result in state.get("unknown", ())]
        self.taken = _loaded(state.get("taken", {}))


def _saved(ratings: Mapping[int, Any]) -> dict[str, Any]:
    return {str(number): rating for number, rating in ratings.items()}


def _loaded(ratings: Mapping[str, Any]) -> dict[int, Any]:
    return {int(number): rating for number, rating in ratings.items()}
