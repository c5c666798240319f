"""Self-play in a run: which policy plays which side, which team learns, and how the policies are rated."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Any

import torch

from palaestra.core.timestep import TimeStep
from palaestra.parallel.closing import warning_of_failure
from palaestra.runtime.collect.learner import Learner
from palaestra.runtime.parts.part import RunPart
from palaestra.runtime.parts.run_context import RunContext
from palaestra.runtime.self_play.exploiter import Exploiter
from palaestra.runtime.self_play.match_ratings import MatchRatings
from palaestra.runtime.self_play.self_play_behavior import SelfPlayBehavior, join_self_play
from palaestra.runtime.self_play.sides import Sides
from palaestra.runtime.self_play.slot_players import SlotPlayers
from palaestra.scenario.standing import standing_in_words


class SelfPlay(RunPart):
    """Runs self-play for all behaviors of a run that have it. A change of players or of the learning team takes effect
    when an area begins its next episode."""

    name = "self_play"

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._behaviors = dict[str, SelfPlayBehavior]()
        self._sides = Sides(self._behaviors, context.group, context.console.info)
        seed = context.group.own_seed(context.settings.env_settings.seed)
        self._players = SlotPlayers(context.env, self._sides, seed)
        self._ratings = MatchRatings(self._sides, self._players, context.journal, context.console.warning)
        self._steps: Mapping[str, TimeStep] = {}
        """The newest tables after a reset."""
        self._warned = set[str]()
        """Warnings that were shown."""
        self._saved: Mapping[str, Any] = {}
        """States of behaviors that have not appeared."""
        settings = context.settings
        blocks = (*settings.behaviors.values(), settings.default_settings)
        self._wanted = not context.inference and any(one is not None and one.self_play is not None for one in blocks)

    @property
    def idle(self) -> bool:
        """Whether no behavior can be in self-play. With ranks that have seen no such behavior, it also takes part in
        their meetings."""
        return not self._wanted

    def joined(self, learner: Learner) -> None:
        """Gives a behavior opponents if its settings say so."""
        settings = learner.settings.self_play
        if settings is None or learner.inference:
            return
        behavior = join_self_play(learner, settings, self._context)
        self._behaviors[learner.name] = behavior
        if learner.name in self._saved:
            behavior.load_state_dict(self._saved[learner.name])
        if getattr(learner.settings.hyperparameters, "off_policy", False):
            self._context.console.warning(
                f"{learner.name}: self-play with {learner.settings.trainer_type} learns from a replay of games against "
                "opponents that are long gone; trainers that learn on-policy, such as ppo and poca, usually do better"
            )

    def started(self) -> None:
        """Takes the first snapshots again, since the networks may have been loaded from another run."""
        for behavior in self._behaviors.values():
            behavior.retake_first()

    def begin(self, steps: Mapping[str, TimeStep]) -> None:
        """Starts new episodes in all areas."""
        self._steps = steps
        mine = _those_of(self._behaviors, steps)
        for _, _, exploiter in _exploited(self._behaviors):
            exploiter.forget()
        self._players.begin(mine)
        self._ratings.begin()
        self._players.register(mine)
        self._assign(mine, None)

    def tick(self, steps: Mapping[str, TimeStep]) -> None:
        """Rates the episodes that ended, then chooses the players for these tables."""
        mine = _those_of(self._behaviors, steps)
        if not mine:
            return
        by_slot = self._players.by_slot
        over = self._players.areas.over(mine)
        for name, step in mine.items():
            behavior = self._behaviors[name]
            behavior.learner.collector.counted = _widened(behavior.policy.learned, len(step.acting))
        if over is not None or by_slot:
            self._ratings.rate(mine, over)
        if over is not None and self._players.never_end(mine, over):
            self._warn_once(
                "agents begin new episodes one by one, so that the episode of a whole area never ends: opponents are "
                "never exchanged, and no other team learns. End the episodes of all agents of an area on one tick, or "
                "say with `shared_areas = True` on the environment that an agent may change its opponents whenever it "
                "starts a new episode"
            )
        for name, behavior, exploiter in _exploited(self._behaviors):
            if name in mine:
                exploiter.complete(mine[name])
            if self._sides.decided_alone:
                exploiter.advance(behavior.admit, full=exploiter.full)
        if self._sides.decided_alone:
            self._sides.advance()
        grew = self._players.register(mine)
        if over is not None or grew or by_slot:
            self._assign(mine, over)
        for name, step in mine.items():
            self._behaviors[name].count_fixed(step)

    def _warn_once(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            self._context.console.warning(text)

    def _assign(self, steps: Mapping[str, TimeStep], over: torch.Tensor | None) -> None:
        """Sets the chosen players in areas that start an episode, and drops snapshots that play nowhere."""
        self._players.assign(steps, over)
        for name, step in steps.items():
            self._behaviors[name].policy.assign(self._players.of_slots(name, step))
        for name, behavior in self._behaviors.items():
            behavior.keep(self._players.playing(name))

    def met(self) -> None:
        """Exchanges ratings and sides with the other ranks, and makes the changes that are due."""
        changes = {name: behavior.changes() for name, behavior in self._behaviors.items()}
        found = self._context.group.gather((changes, self._sides.all))
        for name, behavior in self._behaviors.items():
            behavior.join([one[name] for one, _ in found if name in one])
        for name, behavior, exploiter in _exploited(self._behaviors):
            if all(name in one for one, _ in found):
                full = all(exploited is not None and exploited[2] for *_, exploited in (one[name] for one, _ in found))
                exploiter.advance(behavior.admit, full=full)
        if any(set(sides) != set(found[0][1]) for _, sides in found):
            for side in sorted({side for _, sides in found for side in sides} - {*self._sides.all}):
                if side.behavior in self._behaviors:
                    self._players.add_side(side)
            learning = self._context.group.from_first(self._sides.learning)
            if learning != self._sides.learning:
                self._sides.learn(learning)
        self._sides.advance()

    def updated(self, learner: Learner) -> None:
        """Records that a behavior's policy was updated."""
        if learner.name in self._behaviors:
            self._behaviors[learner.name].updates += 1

    def collected(self) -> None:
        """Adds the counters of all behaviors to the statistics."""
        if len(teams := self._sides.teams) == 1:
            names = " and ".join(f"'{name}'" for name in self._behaviors)
            others = " and ".join(f"'{name}'" for name in self._steps if name not in self._behaviors)
            self._warn_once(
                f"all agents of {names} are of team {teams.pop()}: without another team self-play has no opponents"
                + (f"; if {others} plays against them, give it `self_play` too" if others else "")
            )
        for name, behavior in self._behaviors.items():
            counts: dict[str, float] = {
                "Snapshots": behavior.schedule.saves,
                "Swaps": behavior.schedule.swaps,
                "Team Changes": behavior.schedule.changes,
                "Ghost Steps": behavior.fixed_steps,
            }
            if self._sides.learning is not None:
                counts = {"Learning Team": self._sides.learning, **counts}
            if behavior.exploiter is not None:
                counts |= behavior.exploiter.metrics()
            for title, count in counts.items():
                self._context.journal.latest(name, f"Self-play/{title}", count)
            for tag, value in self._sides.standing(name).items():
                self._context.journal.latest(name, tag, value)

    def report(self) -> Iterator[tuple[str, str]]:
        """Yields how the policies perform against the snapshots."""
        for name in self._behaviors:
            if words := standing_in_words(self._sides.standing(name)):
                yield "pool", words if len(self._behaviors) == 1 else f"{name} {words}"

    def saved(self) -> None:
        """Writes the new snapshots, and lists the ratings."""
        for name, behavior in self._behaviors.items():
            behavior.write_snapshots()
            self._context.status.set_elo(name, behavior.ratings.elo)

    def concluded(self) -> None:
        """Writes the final policies as snapshots."""
        for name, behavior in self._behaviors.items():
            with warning_of_failure(f"the final snapshot of '{name}'", self._context.console.warning):
                behavior.write_final()

    def state_dict(self) -> dict[str, Any]:
        """Returns everything on which the next tick depends. Call it between two ticks."""
        return {
            **self._sides.state_dict(),
            **self._players.state_dict(),
            "results": self._ratings.state_dict(),
            "behaviors": {**self._saved, **{name: one.state_dict() for name, one in self._behaviors.items()}},
        }

    def load_state_dict(self, state: Mapping[str, Any], *, restored: bool) -> None:
        """Restores a state; `restored`: the same episodes continue, else all areas start new episodes."""
        self._saved = {name: one for name, one in state["behaviors"].items() if name not in self._behaviors}
        for name, behavior in self._behaviors.items():
            if name in state["behaviors"]:
                behavior.load_state_dict(state["behaviors"][name])
        here = self._sides.load_state_dict(state, self._steps)
        self._players.side_of = {}
        if not restored:
            self.begin(self._steps)
            return
        mine = _those_of(self._behaviors, self._steps)
        self._players.load_state_dict(state, here)
        if len(here) == len(state["sides"]):
            self._ratings.load_state_dict(state["results"])
        self._players.register(mine)
        for name, step in mine.items():
            self._behaviors[name].policy.assign(self._players.of_slots(name, step))
        for name, _, exploiter in _exploited(self._behaviors):
            if name in mine:
                exploiter.go_on(mine[name])


def _those_of(behaviors: Container[str], steps: Mapping[str, TimeStep]) -> dict[str, TimeStep]:
    return {name: step for name, step in steps.items() if name in behaviors}


def _exploited(behaviors: Mapping[str, SelfPlayBehavior]) -> list[tuple[str, SelfPlayBehavior, Exploiter]]:
    """Returns the behaviors that have an exploiter, in an order that all ranks have."""
    return [(name, one, one.exploiter) for name, one in sorted(behaviors.items()) if one.exploiter is not None]


def _widened(mask: torch.Tensor | None, slots: int) -> torch.Tensor | None:
    """Extends the mask by False for new slots, which have no player yet."""
    return mask if mask is None or len(mask) >= slots else torch.cat([mask, mask.new_zeros(slots - len(mask))])
