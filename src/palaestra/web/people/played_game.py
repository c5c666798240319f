"""A game that people play: one playback, and a seat for each person."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import fmean

from nicegui import run as worker

from palaestra.brains.base import Role
from palaestra.brains.player import PlayerBrain
from palaestra.core.errors import PalaestraError
from palaestra.core.files import MODEL_FILES
from palaestra.core.timestep import Action, TimeStep
from palaestra.runtime.play.brain_assignment import side_name
from palaestra.runtime.playback.agent_slots import Moves
from palaestra.runtime.playback.demo_takes import DemoTakes
from palaestra.runtime.playback.played_env import PlayedEnv
from palaestra.runtime.playback.playing import Playback
from palaestra.runtime.playback.sources import PlaybackSource
from palaestra.runtime.playback.tally import PersonRating
from palaestra.web.people.opponents import OWN, rating
from palaestra.web.scene.stream import SceneStreams
from palaestra.web.watch.watched import WatchedPlayback

COUNTDOWN = 3.0
"""Seconds from a person's first key to the first tick."""
NEXT_ROUND = 2.0
"""Seconds between two episodes of a game between teams, at normal speed or slower, to get ready."""

games: dict[str, PlayedGame] = {}
"""Open games by their key, which the address for a second person has."""


@dataclass(frozen=True, slots=True)
class AgentSeat:
    """An agent that a person may play."""

    behaviors: tuple[str, ...]  # several, if the agent changes its behavior
    slot: int
    team: int
    number: int  # among all agents of the area

    @property
    def label(self) -> str:
        """Text for the list of seats."""
        return f"Agent {self.number + 1} of {' / '.join(self.behaviors)}, team {self.team}"


class PlayedGame:
    """A playback with people in it. It ends when the last person leaves."""

    def __init__(self, source: PlaybackSource, streams: SceneStreams) -> None:
        self.source = source
        self.watched = WatchedPlayback(source, streams, paused=True)
        self.playback: Playback = self.watched.playback
        self.begun = False
        """Whether a person has pressed a key: the game waits for it."""
        self.people: dict[str, Person] = {}
        games[self.watched.key] = self

    @property
    def key(self) -> str:
        """Key of the game and its stream."""
        return self.watched.key

    def begin(self) -> None:
        """Counts down, then plays, when the first person is ready."""
        if not self.begun:
            self.begun = True
            self.playback.hold(COUNTDOWN)
            self.playback.resume()

    def places(self) -> list[AgentSeat]:
        """Returns the agents of the first area."""
        return [] if self.playback.game is None else places(self.playback.game)

    def free(self) -> list[AgentSeat]:
        """Returns the agents of the first area that no person plays, first the agents of teams without a person."""
        taken = {(person.place.behaviors, person.place.slot) for person in self.people.values()}
        teams = {person.place.team for person in self.people.values()}
        found = [place for place in self.places() if (place.behaviors, place.slot) not in taken]
        return sorted(found, key=lambda place: place.team in teams)

    def stand_up(self, name: str) -> None:
        """Gives the person's agent back to the brain that played it."""
        if (person := self.people.pop(name, None)) is not None:
            person.stand_up()

    def leave(self, name: str) -> None:
        """Gives the person's agent back to the brain that played it, and ends the game if no person is left."""
        self.stand_up(name)
        if not self.people:
            games.pop(self.key, None)
            self.watched.close()

    def sides(self) -> dict[tuple[str, int], str]:
        """Returns each behavior and team in the first area, with its text."""
        found = dict.fromkeys((behavior, place.team) for place in self.places() for behavior in place.behaviors)
        several = len({behavior for behavior, _ in found}) > 1
        return {(behavior, team): f"Team {team}" + (f", {behavior}" if several else "") for behavior, team in found}

    def brain_of_side(self, behavior: str, team: int) -> str:
        """Returns the brain chosen for a side, in the form for --brain; `OWN` if none was chosen."""
        for whom in ((behavior, team), (behavior, None), (None, None)):
            for part in self.source.parts(None):
                if (part.behavior, part.team) == whom:
                    return part.brain
        return OWN

    async def play_side(self, behavior: str, team: int, brain: str) -> str | None:
        """Lets another brain play a side, except for agents that people play. Returns an error as text."""
        others = [text for text in self.source.chosen if not text.startswith(f"{side_name(behavior, team)}=")]
        source = replace(self.source, chosen=(*others, *([f"{side_name(behavior, team)}={brain}"] if brain else [])))
        try:
            await worker.io_bound(self._exchange, source, behavior, team)
        except (PalaestraError, OSError) as error:
            return str(error)
        self.source = source
        return None

    def _exchange(self, source: PlaybackSource, behavior: str, team: int) -> None:
        game = self.playback.game
        if game is not None:
            brain_of = source.brain_of(game.env, source.parts(None if source.run is None else source.models()))
            brain_of(behavior, team)  # raises what the thread that plays would meet
            self.playback.order(lambda game: game.set_brains(brain_of, anew=True))

    def rating_of(self, behavior: str, team: int) -> float | None:
        """Returns the self-play rating of the model that plays a team; None if the model has none."""
        kind, _, argument = self.brain_of_side(behavior, team).partition(":")
        model = argument if kind == "model" and not argument.endswith(MODEL_FILES) else None
        model = model if kind else self.source.run
        return rating(self.source.results, model, behavior) if model else None


class Person:
    """A person at a keyboard, in one agent's seat."""

    def __init__(self, game: PlayedGame, place: AgentSeat) -> None:
        """Raises ConfigError for a file of keys that does not fit."""
        assert game.playback.game is not None
        self.game = game
        self.place = place
        self.played = game.playback.game
        self.brains: list[PlayerBrain] = []
        self.takes = DemoTakes(place.slot, place.behaviors, tally=self.played.tally)
        self.won = self.drawn = self.lost = 0
        self.last_reward: float | None = None
        self.last_result: str | None = None
        """How the last episode between teams ended."""
        self.elo: float | None = None
        self._rating = PersonRating(game.source.results)
        env = self.played.env
        for behavior in place.behaviors:
            role = Role(behavior, env.behaviors[behavior], keys_file(game.source, behavior, place.team), env, 0, False)
            self.brains.append(PlayerBrain(role))
        game.playback.order(self._sit_down)
        self.played.watchers += [self.takes, self._watch]
        self.played.followers.append(self._follow)

    def _sit_down(self, played: PlayedEnv) -> None:
        for behavior, brain in zip(self.place.behaviors, self.brains, strict=True):
            played.brains.assign(behavior, self.place.slot, brain)

    def hold(self, key: str, down: bool) -> None:
        """Presses a key, or releases it; an empty key releases all."""
        for brain in self.brains:
            if not key:
                brain.release_all()
            elif down:
                brain.press(key)
            else:
                brain.release(key)

    def stand_up(self) -> None:
        """Gives the agent back."""
        for watcher in (self.takes, self._watch):
            self.played.watchers.remove(watcher)
        self.played.followers.remove(self._follow)
        for behavior in self.place.behaviors:
            self.game.playback.order(lambda played, behavior=behavior: played.brains.release(behavior, self.place.slot))

    def _follow(self, moves: Moves) -> None:
        """Continues in the slot of the agent's next episode."""
        slot = moves.get((self.place.behaviors[0], self.place.slot))
        if slot is not None:
            self.place = replace(self.place, slot=slot)
            self.takes.move(slot)

    def _watch(
        self, before: Mapping[str, TimeStep], actions: Mapping[str, Action], after: Mapping[str, TimeStep]
    ) -> None:
        """Counts the person's episodes; the sign of the last reward says who won."""
        for behavior in self.place.behaviors if before else ():
            step = after.get(behavior)
            slot = self.place.slot
            if step is None or slot >= len(step.reward) or not bool(step.terminated[slot] | step.truncated[slot]):
                continue
            reward = float(step.reward[slot] + step.group_reward[slot])
            self.last_reward = self.takes.ended_reward
            self.won = self.won + (reward > 0)
            self.drawn = self.drawn + (reward == 0)
            self.lost = self.lost + (reward < 0)
            others = {place.team for place in self.game.places()} - {self.place.team}
            if others:
                self.last_result = "You won." if reward > 0 else "You lost." if reward < 0 else "A draw."
                self.game.playback.hold(NEXT_ROUND / max(self.game.playback.state.speed, 1.0))
            ratings = [rating for team in others if (rating := self.game.rating_of(behavior, team)) is not None]
            if ratings:
                self.elo = self._rating.played(behavior, fmean(ratings), 0.5 * (1 + (reward > 0) - (reward < 0)))


def keys_file(source: PlaybackSource, behavior: str, team: int) -> str:
    """Returns the file of keys in `--brain BEHAVIOR=player:FILE`; empty if there is none."""
    parts = [part for part in source.people() if part.behavior in (behavior, None) and part.team in (team, None)]
    return parts[0].argument if parts else ""


def places(game: PlayedEnv) -> list[AgentSeat]:
    """Returns the agents of the first area, in the order of behaviors, teams and slots."""
    shared = game.env.traits.shared_slots  # agents that change their behavior have one slot in all of them
    tables = {(name,): step for name, step in game.steps.items()}
    if shared and shared[0] in game.steps:
        tables = {shared: game.steps[shared[0]]}
    found: list[AgentSeat] = []
    for names, step in tables.items():
        present = None if game.slots is None else game.slots.present(names[0], len(step.area))
        for slot in (step.area == 0).nonzero()[:, 0].tolist():
            if present is not None and not present[slot]:
                continue
            found.append(AgentSeat(names, slot, int(step.team[slot]), len(found)))
    return found
