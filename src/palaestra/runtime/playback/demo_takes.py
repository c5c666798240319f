"""Records the episodes of one seat; single episodes can be dropped before the demonstration is written."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import torch

from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.base import Env
from palaestra.runtime.play.demo_recording import DemoRecorder
from palaestra.runtime.playback.tally import Tally

T = TypeVar("T")
Tables = Mapping[str, TimeStep]


@dataclass(slots=True)
class Take:
    """Ticks of one episode: the tables before each action, the actions, and the tables in which the episode ended."""

    slot: int
    ticks: list[tuple[dict[str, TimeStep], dict[str, Action]]] = field(default_factory=list)
    last: dict[str, TimeStep] = field(default_factory=dict)
    reward: float = 0.0


class DemoTakes:
    """Watches a playback (see `Playback.watchers`) and, while it records, keeps the complete episodes of one slot.

    Recording keeps only complete episodes: an episode that was running when recording began is left out, and so is an
    unfinished last one.
    """

    def __init__(self, slot: int, behaviors: Collection[str] = (), *, tally: Tally) -> None:
        """`behaviors`: those that the agent may have (empty: all). `tally`: the playback's, for the rewards."""
        self.slot = slot
        self._behaviors = frozenset(behaviors)
        self._tally = tally
        self.recording = False
        self.kept: list[Take] = []
        self.ended_reward = 0.0
        """Return of the last episode that ended, whether it was recorded or not."""
        self._open: Take | None = None

    def __call__(self, before: Tables, actions: Mapping[str, Action], after: Tables) -> None:
        """Takes a tick in."""
        before = self._own(before)
        actions = self._own(actions)
        after = self._own(after)
        if not before:
            self._open = Take(self.slot) if self.recording else None
            return
        take = self._open
        if take is not None and any(self._acts(step) for step in before.values()):
            take.ticks.append((dict(before), dict(actions)))
        if any(self._is_lost(step) for step in after.values()):
            self._open = Take(self.slot) if self.recording else None
        elif any(self._has_ended(step) for step in after.values()):
            self.ended_reward = sum(won for name, slot, won in self._tally.ended if slot == self.slot and name in after)
            if take is not None and take.ticks:
                take.last = dict(after)
                take.reward = self.ended_reward
                self.kept.append(take)
            self._open = Take(self.slot) if self.recording else None

    def move(self, slot: int) -> None:
        """Follows the agent to the slot in which its next episode runs."""
        self.slot = slot
        if self._open is not None:
            self._open.slot = slot

    def start(self) -> None:
        """Records, beginning with the next episode."""
        self.recording = True

    def stop(self) -> None:
        """Stops recording; drops the open episode."""
        self.recording = False
        self._open = None

    def drop_last(self) -> bool:
        """Drops the last complete episode. Returns whether there was one."""
        if not self.kept:
            return False
        self.kept.pop()
        return True

    def save(self, env: Env, path: Path) -> list[Path]:
        """Writes the kept episodes to a file (.demo), and then drops them. Raises DemoError."""
        recorder = DemoRecorder(env, path)
        for take in self.kept:
            for number, (tables, actions) in enumerate(take.ticks):
                recorder.note(
                    {name: _alone(step, take.slot, ends=number > 0, acts=True) for name, step in tables.items()}
                )
                recorder.decided(actions)
            recorder.note({name: _alone(step, take.slot, ends=True, acts=False) for name, step in take.last.items()})
        files = recorder.close()
        self.kept.clear()
        return files

    def _own(self, tables: Mapping[str, T]) -> Mapping[str, T]:
        return {name: table for name, table in tables.items() if name in self._behaviors} if self._behaviors else tables

    def _acts(self, step: TimeStep) -> bool:
        return self.slot < len(step.acting) and bool(step.acting[self.slot])

    def _has_ended(self, step: TimeStep) -> bool:
        return self.slot < len(step.acting) and bool(step.terminated[self.slot] | step.truncated[self.slot])

    def _is_lost(self, step: TimeStep) -> bool:
        return step.lost is not None and self.slot < len(step.lost) and bool(step.lost[self.slot])


def _alone(step: TimeStep, slot: int, *, ends: bool, acts: bool) -> TimeStep:
    own = torch.zeros_like(step.acting)
    if slot < len(own):
        own[slot] = True
    nobody = torch.zeros_like(own)
    ended = own if ends else nobody
    return replace(
        step,
        acting=step.acting & own if acts else nobody,
        terminated=step.terminated & ended,
        truncated=step.truncated & ended,
        lost=None,
    )
