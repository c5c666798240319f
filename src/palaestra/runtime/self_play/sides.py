"""Self-play in a run: which policy plays which side, which team learns, and when that changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from palaestra.core.timestep import TimeStep
from palaestra.parallel.closing import warning_of_failure
from palaestra.runtime.collect.area_episodes import AreaEpisodes
from palaestra.runtime.collect.learner import Learner
from palaestra.runtime.parts.part import RunPart
from palaestra.runtime.parts.run_context import RunContext
from palaestra.runtime.self_play.match_ratings import Match, MatchRatings
from palaestra.runtime.self_play.self_play_behavior import OLD_GAMES, SelfPlayBehavior, join_self_play
from palaestra.scenario.self_play_schedule import FIRST_FIXED, LEARNING, next_team

Numbers = NDArray[np.int64]
PATIENCE = 20
"""Episodes that an agent may finish, on average, before a warning that the area's episode never ends."""


class Side(NamedTuple):
    """A side: a team of a behavior."""

    behavior: str
    team: int


class SelfPlay(RunPart):
    """Runs self-play for all behaviors of a run that have it.

    One team learns at a time, even if it has several behaviors; each other side has one current opponent. A change
    takes effect when an area begins its next episode: players and the learning team of an area stay the same until its
    episode ends. If an area holds several games that cannot be told apart (`EnvTraits.shared_areas`), each slot counts
    as an area of its own.
    """

    name = "self_play"

    def __init__(self, context: RunContext) -> None:
        self.ratings = MatchRatings(context.journal, context.console)
        self.behaviors = dict[str, SelfPlayBehavior]()
        self._context = context
        self._journal = context.journal
        self._console = context.console
        self._group = context.group
        self._decides_now = context.group.known(now=True, when_met=False)
        """Whether changes are decided at every tick: ranks decide when they meet."""
        env = context.env
        self._steps: Mapping[str, TimeStep] = {}
        """The newest tables after a reset."""
        self.learning: int | None = None
        """The team that learns now."""
        self.sides: list[Side] = []
        self.chosen = np.zeros(0, np.int64)
        """Player of each side (sides,) in episodes that start from now on."""
        self._by_slot = env.traits.shared_areas
        self._areas = AreaEpisodes(env.num_areas)
        self._num_areas = env.num_areas
        self._players: dict[str, Numbers] = {}
        """Player of each side in the present episode, (areas, sides); by behavior if its slots are areas of their
        own.
        """
        self._side_of: dict[str, Numbers] = {}
        """Side of each slot (S,), by behavior."""
        self._restarts: int | None = 0
        """Episodes of agents that ended since an area's last one; None: the warning was given."""
        self._alone = False
        """Whether the warning of a single team was given."""
        self._saved: Mapping[str, Any] = {}

    @property
    def idle(self) -> bool:
        """Whether no behavior is in self-play."""
        return not self.behaviors

    def joined(self, learner: Learner) -> None:
        """Gives a behavior opponents if its settings say so."""
        if learner.settings.self_play is None or learner.inference:
            return
        behavior = join_self_play(learner, self._context)
        self.behaviors[learner.name] = behavior
        if learner.name in self._saved:
            behavior.load_state_dict(self._saved[learner.name])
        if getattr(learner.settings.hyperparameters, "off_policy", False):
            self._console.warning(f"{learner.name}: {OLD_GAMES.format(learner.settings.trainer_type)}")

    def started(self) -> None:
        """Takes the first snapshots again: the networks may be those of another run."""
        for behavior in self.behaviors.values():
            behavior.retake_first()

    def collected(self) -> None:
        """Adds the counters and ratings of all behaviors to the statistics."""
        statistics = self._journal
        if len({side.team for side in self.sides}) == 1 and not self._alone:
            self._alone = True
            names = " and ".join(f"'{name}'" for name in self.behaviors)
            self.ratings.warn(
                f"all agents of {names} are of team {self.sides[0].team}: without another team self-play has no "
                "opponents"
            )
        for name, behavior in self.behaviors.items():
            if self.learning is not None:
                statistics.latest(name, "Self-play/Learning Team", self.learning)
            for title, count in behavior.counts.items():
                statistics.latest(name, f"Self-play/{title}", count)

    def updated(self, learner: Learner) -> None:
        """Notes that a behavior's policy was updated."""
        if learner.name in self.behaviors:
            self.behaviors[learner.name].updated()

    def saved(self) -> None:
        """Writes the new snapshots, and lists the ratings."""
        for name, behavior in self.behaviors.items():
            behavior.write_snapshots()
            self._context.status.set_elo(name, behavior.elo)

    def concluded(self) -> None:
        """Writes the final policies as snapshots."""
        for name, behavior in self.behaviors.items():
            with warning_of_failure(f"the final snapshot of '{name}'", self._console.warning):
                behavior.conclude()

    def begin(self, steps: Mapping[str, TimeStep]) -> None:
        """Starts new episodes in all areas."""
        self._steps = steps
        mine = self._mine(steps)
        self._areas.begin(mine)
        self.ratings.begin()
        self._players = {}
        self._register(mine)
        self._assign_players(mine, None)

    def tick(self, steps: Mapping[str, TimeStep]) -> None:
        """Rates the episodes that ended, then chooses the players for these tables."""
        mine = self._mine(steps)
        if not mine:
            return
        over = self._areas.over(mine)
        for name, step in mine.items():
            behavior = self.behaviors[name]
            behavior.collector.counted = _widened(behavior.policy.learned, len(step.acting))
        if over is not None or self._by_slot:
            self._rate(mine, over)
        if over is not None and not self._by_slot and self._restarts is not None:
            self._restarts = self._must_end(mine, over, self._restarts)
        if self._decides_now:
            self._advance()
        grew = self._register(mine)
        if over is not None or grew or self._by_slot:
            self._assign_players(mine, None if over is None else over.cpu().numpy())
        for name, step in mine.items():
            self.behaviors[name].count_ghosts(step)

    def _must_end(self, steps: Mapping[str, TimeStep], over: torch.Tensor, restarts: int) -> int | None:
        """Warns if episodes of agents end again and again while no area's episode is ever over. Counts on from
        `restarts`.
        """
        if bool(over.any()):
            return 0
        restarts += sum(int((step.terminated | step.truncated).sum()) for step in steps.values())
        if restarts <= PATIENCE * sum(len(step.acting) for step in steps.values()):
            return restarts
        self.ratings.warn(
            "agents begin new episodes one by one, so that the episode of a whole area never ends: opponents are "
            "never exchanged, and no other team learns. End the episodes of all agents of an area on one tick, or say "
            "with `shared_areas = True` on the environment that an agent may change its opponents whenever it begins "
            "anew"
        )
        return None

    def _mine(self, steps: Mapping[str, TimeStep]) -> dict[str, TimeStep]:
        return {name: step for name, step in steps.items() if name in self.behaviors}

    def _register(self, steps: Mapping[str, TimeStep]) -> bool:
        """Registers new slots and teams. Returns whether there were any."""
        grew = False
        for name, step in steps.items():
            slots = len(step.team)
            known = slots == len(self._side_of.get(name, ()))
            if known and (self.behaviors[name].steady or not step.acting.any()):
                continue
            teams = step.team.cpu().numpy()
            for team in np.unique(teams[step.acting.cpu().numpy()]).tolist():
                if Side(name, team) not in self.sides:
                    self._add_side(Side(name, team))
                    grew = True
            side_of = np.full(slots, -1)
            for i, side in enumerate(self.sides):
                if side.behavior == name:
                    side_of[teams == side.team] = i
            grew |= (
                name not in self._side_of
                or slots != len(self._side_of[name])
                or bool((side_of != self._side_of[name]).any())
            )
            self._side_of[name] = side_of
        return grew

    def _add_side(self, side: Side) -> None:
        self.sides.append(side)
        begun = any(behavior.step for behavior in self.behaviors.values())
        if self.learning is None or (side.team < self.learning and not begun):
            self.learning = side.team  # the lowest learns first, whichever the environment shows first
            chosen = [LEARNING if one.team == side.team else self.behaviors[one.behavior].first for one in self.sides]
        else:
            behavior = self.behaviors[side.behavior]
            opponent = behavior.opponent() if begun and self._decides_now else behavior.first  # ranks draw together
            chosen = [*self.chosen.tolist(), LEARNING if side.team == self.learning else opponent]
        self.chosen = np.array(chosen, np.int64)
        missing = {name: len(self.sides) - players.shape[1] for name, players in self._players.items()}
        for name, players in self._players.items():  # of an area in which it had not been seen
            self._players[name] = np.concatenate([players, np.tile(self.chosen[-1:], (len(players), missing[name]))], 1)

    def met(self) -> None:
        """Joins what the ranks know of ratings, and makes the changes that are due."""
        changes = {name: behavior.rating_changes() for name, behavior in self.behaviors.items()}
        found = self._group.gather((changes, [(side.behavior, side.team) for side in self.sides]))
        for name, behavior in self.behaviors.items():
            behavior.join_ratings([one[name] for one, _ in found if name in one])
        if any(set(sides) != set(found[0][1]) for _, sides in found):
            self._agree_on_sides({Side(*side) for _, sides in found for side in sides})
        self._advance()

    def _agree_on_sides(self, sides: set[Side]) -> None:
        """Adds the sides that only other ranks have seen so far, and takes over which team learns."""
        for side in sorted(sides - {*self.sides}):
            if side.behavior in self.behaviors:
                self._add_side(side)
        learning = self._group.from_first(self.learning)
        if learning != self.learning:
            self.learning = learning
            first = [self.behaviors[side.behavior].first for side in self.sides]
            self.chosen = np.array(
                [LEARNING if side.team == learning else one for side, one in zip(self.sides, first, strict=True)],
                np.int64,
            )

    def _in_order(self) -> list[tuple[int, Side]]:
        """Returns the sides and their indices, in an order that all ranks have, so that all draw the same opponents for
        them.
        """
        numbered = list(enumerate(self.sides))
        return numbered if self._decides_now else sorted(numbered, key=lambda one: one[1])

    def _advance(self) -> None:
        """Makes the snapshots, swaps and team changes that are due."""
        for name, behavior in self.behaviors.items():
            behavior.save_if_due()
            if behavior.swap_due():
                for i, side in self._in_order():
                    if side.behavior == name and side.team != self.learning:
                        self.chosen[i] = behavior.opponent()
        turn = [self.behaviors[side.behavior] for side in self.sides if side.team == self.learning]
        if any(one.change_due() for one in turn) or not any(one.training for one in turn):
            self._change_team(turn)

    def _change_team(self, turn: Sequence[SelfPlayBehavior]) -> None:
        """Lets the next team that still trains learn; the previous one plays fixed policies from now on."""
        able = {side.team for side in self.sides if self.behaviors[side.behavior].training}
        if self.learning is None or not turn or not able:
            return
        before = self.learning
        self.learning = next_team(self.learning, able)
        if before != self.learning:
            steps = ", ".join(f"'{name}' is at step {behavior.step:,}" for name, behavior in self.behaviors.items())
            self._console.info(f"It is team {self.learning}'s turn to learn ({steps})")
        for behavior in turn:  # the first behavior of a team that is due ends the turn of all behaviors of that team
            behavior.end_turn()
        for i, side in self._in_order():
            if side.team == self.learning:
                self.chosen[i] = LEARNING
            elif side.team == before:
                self.chosen[i] = self.behaviors[side.behavior].opponent()

    def _assign_players(self, steps: Mapping[str, TimeStep], over: NDArray[np.bool_] | None) -> None:
        """Sets the chosen players in areas that start an episode, then tells each behavior the player of each slot."""
        keys = list(steps) if self._by_slot else [""]
        for key in keys:
            rows = len(steps[key].acting) if self._by_slot else self._num_areas
            before = self._players.get(key)
            players = np.tile(self.chosen, (rows, 1))
            if before is not None:
                stays = (
                    self._areas.going[key].cpu().numpy()
                    if self._by_slot
                    else np.ones(rows, bool)
                    if over is None
                    else ~over
                )
                stays[len(before) :] = False
                players[stays] = before[stays[: len(before)]]
            self._players[key] = players
        self._tell(steps)
        self._forget()

    def _tell(self, steps: Mapping[str, TimeStep]) -> None:
        for name, step in steps.items():
            players = self._players[name if self._by_slot else ""]
            at = np.arange(len(step.acting)) if self._by_slot else step.area.cpu().numpy()
            side = self._side_of[name]
            self.behaviors[name].policy.assign(np.where(side < 0, LEARNING, players[at, side]))

    def _forget(self) -> None:
        """Drops snapshots that play nowhere now or later."""
        for name, behavior in self.behaviors.items():
            mine = [i for i, side in enumerate(self.sides) if side.behavior == name]
            playing = [players[:, mine].ravel() for players in self._players.values()]
            behavior.keep(set(np.unique(np.concatenate([self.chosen[mine], *playing])).tolist()))

    def _rate(self, steps: Mapping[str, TimeStep], over: torch.Tensor | None) -> None:
        """Rates the episodes that ended with these tables."""
        match = Match(self.sides, self._players, self._side_of, self._by_slot, self._areas.going)
        for name, step in steps.items():
            self.ratings.of_agents(match, name, step, self.behaviors)
        if over is not None and not self._by_slot:
            self.ratings.of_areas(match, steps, over, self.behaviors)

    def state_dict(self) -> dict[str, Any]:
        """Returns everything that the next tick depends on. Call it between two ticks."""
        return {
            "learning": self.learning,
            "sides": [list(side) for side in self.sides],
            "chosen": torch.from_numpy(self.chosen.copy()),
            "players": {name: torch.from_numpy(players.copy()) for name, players in self._players.items()},
            "areas": self._areas.state_dict(),
            "results": self.ratings.state_dict(),
            "behaviors": {**self._saved, **{name: one.state_dict() for name, one in self.behaviors.items()}},
        }

    def load_state_dict(self, state: Mapping[str, Any], *, restored: bool) -> None:
        """Restores a state; `restored`: with the same episodes, else all areas start new ones."""
        steps = self._steps
        self._saved = {name: part for name, part in state["behaviors"].items() if name not in self.behaviors}
        for name, behavior in self.behaviors.items():
            if name in state["behaviors"]:
                behavior.load_state_dict(state["behaviors"][name])
        here = self._load_sides(state, steps)
        if not restored:
            self.begin(steps)
            return
        mine = self._mine(steps)
        self._areas.load_state_dict(state["areas"])
        self._players = {name: self._able(players.cpu().numpy()[:, here]) for name, players in state["players"].items()}
        if len(here) == len(state["sides"]):
            self.ratings.load_state_dict(state["results"])
        self._register(mine)
        self._tell(mine)

    def _load_sides(self, state: Mapping[str, Any], steps: Mapping[str, TimeStep]) -> list[int]:
        """Returns the indices of the sides whose behaviors have appeared and are still in self-play."""
        sides = [Side(name, team) for name, team in state["sides"]]
        here = [i for i, side in enumerate(sides) if side.behavior in self.behaviors]
        self.learning = state["learning"]
        self.sides = [sides[i] for i in here]
        self._side_of = {}
        self.chosen = self._able(state["chosen"].cpu().numpy()[here])
        teams = {side.team for side in sides if side.behavior in self.behaviors or side.behavior not in steps}
        if self.learning is not None and self.learning not in teams:
            self.learning = next_team(self.learning, teams) if teams else None
            self.chosen[[side.team == self.learning for side in self.sides]] = LEARNING
        return here

    def _able(self, players: Numbers) -> Numbers:
        """Returns a copy (..., sides) in which fixed opponents that no longer exist are replaced."""
        players = players.copy()
        for i, side in enumerate(self.sides):
            behavior = self.behaviors[side.behavior]
            gone = players[..., i] < FIRST_FIXED + 1 - len(behavior.settings.opponents)
            if gone.any():
                players[..., i] = np.where(gone, behavior.opponent(), players[..., i])
        return players


def _widened(mask: torch.Tensor | None, slots: int) -> torch.Tensor | None:
    """Extends the mask by False for new slots, which have no player yet."""
    return mask if mask is None or len(mask) >= slots else torch.cat([mask, mask.new_zeros(slots - len(mask))])
