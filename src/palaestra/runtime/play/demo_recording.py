"""Records agents of any environment into demonstration files, as Unity's recorder would."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from palaestra.core.files import file_name
from palaestra.core.specs import ActionSpec, BehaviorSpec
from palaestra.core.timestep import Action, TimeStep
from palaestra.demos import DemoRecord, DemoWriter, free_path
from palaestra.envs.base import Env
from palaestra.runtime.play.assigned_brains import Side

MOST_GROUPS = 1 << 31
"""Group ids in a file are below this: the bits above, with the number of a game's copy, are left out."""


@dataclass(slots=True)
class _Take:
    """An unfinished episode, as its file will store it."""

    side: Side
    records: list[tuple[bytes, float, bool]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Table:
    obs: tuple[NDArray[np.float32], ...]
    final_obs: tuple[NDArray[np.float32], ...]
    final_row: Mapping[int, int]  # of an end's slot
    reward: NDArray[np.float32]
    group_reward: NDArray[np.float32]
    mask: NDArray[np.bool_] | None
    group: NDArray[np.int64]
    truncated: NDArray[np.bool_]


class DemoRecorder:
    """Records observations and actions in an environment: a file for each behavior and team.

    Episodes are complete and follow one another, in the order in which they end. `episodes` in each file are recorded,
    those that began first (None: all). Call `note` with the tables of `reset` and of each `step`, and `decided` with
    the actions in between. `path` is a file (.demo), beside which the files of further behaviors and teams are written,
    or a folder. In a folder no file is overwritten; beside the file only if `force` is set. `pictures` writes images as
    PNGs, 8 bits a channel, instead of as numbers.

    Raises: DemoError, also in the methods: a file cannot be written.
    """

    def __init__(
        self, env: Env, path: Path, episodes: int | None = None, *, pictures: bool = False, force: bool = False
    ) -> None:
        self._env = env
        self._path = path
        self._episodes = episodes
        self._pictures = pictures
        self._force = force
        self.writers: dict[Side, DemoWriter] = {}
        self._begun: dict[Side, int] = {}
        self._takes: dict[str, dict[int, _Take]] = {}  # by behavior and slot
        self._actions: dict[str, tuple[NDArray[np.float32], NDArray[np.int64]]] = {}  # the last, a row a slot
        self._acting: dict[str, NDArray[np.bool_]] = {}  # when last noted

    @property
    def done(self) -> bool:
        """Whether every file has its episodes."""
        return (
            self._episodes is not None
            and bool(self.writers)
            and all(w.ends >= self._episodes for w in self.writers.values())
        )

    def decided(self, actions: Mapping[str, Action]) -> None:
        """Records the actions of agents that act in the newest tables; other agents keep their last actions."""
        for behavior, action in actions.items():
            new = action.continuous.cpu().numpy(), action.discrete.cpu().numpy()
            old = self._actions.get(behavior, ())
            acting = self._acting[behavior]
            held = [np.array(column) for column in new]
            for column, before in zip(held, old, strict=False):
                waiting = np.flatnonzero(~acting[: len(before)])
                column[waiting] = before[waiting]
            self._actions[behavior] = held[0], held[1]

    def note(self, steps: Mapping[str, TimeStep]) -> None:
        """Records the tables of a tick."""
        for behavior, step in steps.items():
            self._note(behavior, step)

    def close(self) -> list[Path]:
        """Gives the files their final names and returns them. The longest open episode with a decision is written last,
        without an end."""
        named = []
        for side, writer in self.writers.items():
            if writer.closed:  # it could not be written, and has said so
                continue
            open_takes = [take for takes in self._takes.values() for take in takes.values() if take.side == side]
            left = [take for take in open_takes if len(take.records) > 1]  # a first view alone answers nothing
            if left:
                self._put(writer, max(left, key=lambda take: len(take.records)))
            if writer.records:
                writer.close()
                named.append(writer.path)
            else:
                writer.discard()
        return named

    def _note(self, behavior: str, step: TimeStep) -> None:
        spec = self._env.behaviors[behavior]
        takes = self._takes.setdefault(behavior, {})
        ended = (step.terminated | step.truncated).cpu().numpy()
        acting = step.acting.cpu().numpy()
        self._acting[behavior] = acting
        if step.lost is not None:
            for slot in np.flatnonzero(step.lost.cpu().numpy()).tolist():
                if (broken := takes.pop(slot, None)) is not None:
                    self._begun[broken.side] -= 1  # another episode is recorded instead
        table = _table(step)
        teams = step.team.cpu().numpy()
        for slot in np.flatnonzero(ended).tolist():
            take = takes.pop(slot, None)
            if take is not None:
                self._record(take, table, slot, spec, done=True)
                self._put(self.writers[take.side], take)
        for slot in np.flatnonzero(acting).tolist():
            take = takes.get(slot)
            if take is None:
                take = self._begin((behavior, int(teams[slot])))
                if take is None:
                    continue
                takes[slot] = take
            self._record(take, table, slot, spec, done=False)

    def _begin(self, side: Side) -> _Take | None:
        if side not in self.writers:
            behavior, team = side
            spec = self._env.behaviors[behavior]
            images = [obs.name for obs in spec.obs if obs.is_visual] if self._pictures else []
            self.writers[side] = DemoWriter(self._file(side), behavior, f"{behavior}?team={team}", spec, images)
            self._begun[side] = 0
        if self._episodes is not None and self._begun[side] >= self._episodes:
            return None
        self._begun[side] += 1
        return _Take(side)

    def _record(self, take: _Take, table: _Table, slot: int, spec: BehaviorSpec, *, done: bool) -> None:
        first = not take.records
        row = table.final_row[slot] if done else slot
        action = _nothing(spec.action) if first else tuple(column[slot] for column in self._actions[take.side[0]])
        record = DemoRecord(
            obs=tuple(column[row] for column in (table.final_obs if done else table.obs)),
            reward=0.0
            if first
            else float(table.reward[slot]),  # what comes with a first view was earned by the episode before
            group_reward=0.0 if first else float(table.group_reward[slot]),
            done=done,
            truncated=done and bool(table.truncated[slot]),
            id=slot,
            group=max(0, int(table.group[slot]) + 1) % MOST_GROUPS,
            mask=None if table.mask is None or done else table.mask[slot],
            continuous=action[0],
            discrete=action[1],
        )
        take.records.append((self.writers[take.side].encode(record), record.reward, done))

    def _put(self, writer: DemoWriter, take: _Take) -> None:
        for raw, reward, done in take.records:
            writer.write_raw(raw, reward, done)

    def _file(self, side: Side) -> Path:
        behavior, team = side
        if self._path.suffix != ".demo":
            return free_path(self._path, file_name(behavior) + (f"-team{team}" if team else ""))
        if not self.writers:
            return self._path
        name = f"{self._path.stem}-" + re.sub(r"[^\w-]", "-", behavior) + (f"-team{team}" if team else "")
        return self._path.with_name(f"{name}.demo") if self._force else free_path(self._path.parent, name)


def record_demo(
    env: Env,
    recorder: DemoRecorder,
    act: Callable[[Mapping[str, TimeStep]], dict[str, Action]],
    note: Callable[[Mapping[str, TimeStep]], None],
    seed: int,
) -> None:
    """Plays until every file has its episodes. `act` and `note`: see `Players`."""
    steps = env.reset(seed)
    while True:
        note(steps)
        recorder.note(steps)
        if recorder.done:
            return
        actions = act(steps)
        recorder.decided(actions)
        steps = env.step(actions)


def _table(step: TimeStep) -> _Table:
    return _Table(
        obs=tuple(column.cpu().numpy() for column in step.obs),
        final_obs=tuple(column.cpu().numpy() for column in step.final_obs.obs),
        final_row={slot: row for row, slot in enumerate(step.final_obs.slots.cpu().tolist())},
        reward=step.reward.cpu().numpy(),
        group_reward=step.group_reward.cpu().numpy(),
        mask=None if step.action_mask is None else step.action_mask.cpu().numpy(),
        group=step.group.cpu().numpy(),
        truncated=step.truncated.cpu().numpy(),
    )


def _nothing(action: ActionSpec) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    return np.zeros(action.continuous, np.float32), np.zeros(len(action.branches), np.int64)
