"""Decodes records of a demonstration into columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palaestra.core.errors import DemoError, EnvError
from palaestra.core.specs import ActionSpec, BehaviorSpec, action_text
from palaestra.demos import frames
from palaestra.demos.format import DemoRecord, Pair
from palaestra.wire.messages import DecodeError
from palaestra.wire.observations import ObservationDecoder

_MAX_CHOICES = 1 << 31
_MAX_FRAMES = 32
"""Most frames for records of one length; records that fit none are read one by one."""


@dataclass(frozen=True, slots=True)
class DemoColumns:
    """N consecutive records of a demonstration. Numbers may be NaN or infinite, as in the file."""

    first: int  # number of the first record in the file
    obs: tuple[NDArray[np.float32], ...]  # each (N, *shape); images (C, H, W) within 0..1
    reward: NDArray[np.float32]  # (N,) since the previous record
    group_reward: NDArray[np.float32]  # (N,)
    done: NDArray[np.bool_]  # (N,) the episode ended
    truncated: NDArray[np.bool_]  # (N,) the episode ended by a limit
    id: NDArray[np.int64]  # (N,)
    group: NDArray[np.int64]  # (N,) 0: none
    mask: NDArray[np.bool_] | None  # (N, choices) True: allowed; None: all are allowed
    continuous: NDArray[np.float32]  # (N, numbers) as stored: the action of the previous decision
    discrete: NDArray[np.int64]  # (N, branches)
    acted: NDArray[np.bool_]  # (N,) whether an action is stored; the last records of old files have none

    def __len__(self) -> int:
        return len(self.reward)

    def rows(self, rows: slice) -> DemoColumns:
        """Returns a slice of the records."""
        cut = {f.name: value[rows] for f in fields(self) if isinstance(value := getattr(self, f.name), np.ndarray)}
        return replace(
            self, first=self.first + rows.indices(len(self))[0], obs=tuple(column[rows] for column in self.obs), **cut
        )


class RecordDecoder:
    """Decodes records. `sensors` has None for each observation that is skipped; error messages begin with `where`."""

    def __init__(self, where: str, spec: BehaviorSpec, sensors: Sequence[ObservationDecoder | None]) -> None:
        self._where = where
        self.spec = spec
        self._sensors = sensors
        self._frames: dict[int, list[frames.Frame]] = {}

    def read(self, first: int, data: bytes, begins: NDArray[np.int64], ends: NDArray[np.int64]) -> DemoColumns:
        """Decodes the records at these offsets of `data`. Raises DemoError for a damaged record, or one that does not
        fit the spec."""
        columns = empty_columns(self.spec, first, len(begins))
        lengths = ends - begins
        everything = np.frombuffer(data, np.uint8)
        masked = False
        for length in np.unique(lengths).tolist():
            rows = np.flatnonzero(lengths == length)
            known = self._frames.setdefault(length, [])
            tried = 0
            while len(rows):
                if tried == len(known) and not self._learn(known, data[begins[rows[0]] : ends[rows[0]]]):
                    masked |= self._read_row(columns, int(rows[0]), data[begins[rows[0]] : ends[rows[0]]])
                    rows = rows[1:]
                    continue
                frame = known[tried]
                tried = tried + 1
                table = _table(everything, begins[rows], length)
                fit = frame.fits(table)
                if fit.any():
                    every = fit.all()
                    masked |= self._read_rows(
                        columns, rows if every else rows[fit], table if every else table[fit], frame
                    )
                    rows = rows[~fit]
        return columns if masked else replace(columns, mask=None)

    def _learn(self, known: list[frames.Frame], record: bytes) -> bool:
        frame = frames.frame_of(record, self._sensors) if len(known) < _MAX_FRAMES else None
        if frame is None or not self._sizes_fit(frame):
            return False
        known.append(frame)
        return True

    def _sizes_fit(self, frame: frames.Frame) -> bool:
        """Whether the sizes equal the spec's; if not, parsing this record alone raises the error."""
        action, size = self.spec.action, lambda place: (place[1] - place[0]) // 4
        given = {
            number: place for number, place in frame.action.items() if place[0] < place[1] and number != frames.VALUE
        }
        new = {number for number in given if number != frames.OLD}
        if new:
            right = size(given.get(frames.CONTINUOUS, (0, 0))) == action.continuous and len(frame.discrete) == len(
                action.branches
            )
        else:
            right = frames.OLD not in given or size(given[frames.OLD]) == action.continuous + len(action.branches)
        mask = frame.info.get(frames.MASK)
        return right and (mask is None or mask[1] - mask[0] == action.choices)

    def _read_rows(
        self, columns: DemoColumns, rows: NDArray[np.int64], table: NDArray[np.uint8], frame: frames.Frame
    ) -> bool:
        """Fills in these rows; returns whether they have masks."""
        info: list[tuple[int, NDArray[Any], Callable[..., Any]]] = [
            (frames.REWARD, columns.reward, lambda place: frames.floats(table, place)[:, 0]),
            (frames.GROUP_REWARD, columns.group_reward, lambda place: frames.floats(table, place)[:, 0]),
            (frames.DONE, columns.done, lambda place: table[:, place[0]] != 0),
            (frames.MAX_STEP_REACHED, columns.truncated, lambda place: table[:, place[0]] != 0),
            (frames.ID, columns.id, lambda place: frames.numbers(table, place)),
            (frames.GROUP, columns.group, lambda place: frames.numbers(table, place)),
        ]
        for number, column, read in info:
            if number in frame.info:
                column[rows] = read(frame.info[number])
        kept = [sensor for sensor in self._sensors if sensor is not None]
        for column, place, sensor in zip(columns.obs, frame.obs_places(self._sensors), kept, strict=True):
            values = frames.floats(table, place).reshape(len(rows), *sensor.sent)
            column[rows] = values.transpose(0, 3, 1, 2) if sensor.channels_last else values
        self._read_actions(columns, rows, table, frame)
        mask = frame.info.get(frames.MASK)
        if mask is None or columns.mask is None:
            return False
        columns.mask[rows] = table[:, mask[0] : mask[1]] == 0
        return True

    def _read_actions(
        self, columns: DemoColumns, rows: NDArray[np.int64], table: NDArray[np.uint8], frame: frames.Frame
    ) -> None:
        old = frame.action.get(frames.OLD, (0, 0))
        new = [
            place
            for number, place in frame.action.items()
            if number in (frames.CONTINUOUS, frames.DISCRETE) and place[0] < place[1]
        ]
        columns.acted[rows] = bool(new) or old[0] < old[1]
        if new:
            if self.spec.action.continuous:
                columns.continuous[rows] = frames.floats(table, frame.action[frames.CONTINUOUS])
            for branch, place in enumerate(frame.discrete):
                columns.discrete[rows, branch] = frames.numbers(table, place)
        elif old[0] < old[1]:
            both = frames.floats(table, old)
            columns.continuous[rows] = both[:, : self.spec.action.continuous]
            choices = both[:, self.spec.action.continuous :]
            columns.discrete[rows] = _whole(choices, lambda i: f"{self._where}, record {columns.first + rows[i]}")

    def _read_row(self, columns: DemoColumns, row: int, record: bytes) -> bool:
        """Fills in one row; returns whether it has a mask."""
        where = f"{self._where}, record {columns.first + row}"
        pair = read_pair(where, record)
        info = pair.agent_info
        columns.reward[row] = info.reward
        columns.group_reward[row] = info.group_reward
        columns.done[row] = info.done
        columns.truncated[row] = info.max_step_reached
        columns.id[row] = info.id
        columns.group[row] = info.group_id
        if len(info.observations) != len(self._sensors):
            raise DemoError(
                f"{where} has {len(info.observations)} observations; expected {len(self._sensors)}, as in the first"
            )
        kept = [
            (blob, sensor) for blob, sensor in zip(info.observations, self._sensors, strict=True) if sensor is not None
        ]
        for column, (blob, sensor) in zip(columns.obs, kept, strict=True):
            try:
                column[row] = sensor.read([blob], columns.id[row : row + 1])[0]
            except EnvError as error:
                raise DemoError(f"{where}: {error}") from error
        self._read_action(columns, row, pair.action_info, where)
        if columns.mask is None or len(info.action_mask) != columns.mask.shape[1]:
            return False
        columns.mask[row] = np.frombuffer(info.action_mask, np.uint8) == 0
        return True

    def _read_action(self, columns: DemoColumns, row: int, sent: Any, where: str) -> None:
        wanted = self.spec.action
        numbers = stored_numbers(sent)
        choices = sent.discrete_actions
        in_one = numbers and not choices and not sent.continuous_actions  # the form of old files
        count = wanted.components if in_one else wanted.continuous
        if not choices and (not numbers or (len(numbers) != count and not any(numbers))):
            return  # no action, or zeros of an episode's first record
        if len(numbers) != count or (not in_one and len(choices) != len(wanted.branches)):
            came = [f"{len(numbers)} numbers"] * bool(numbers) + [f"{len(choices)} choices"] * bool(choices)
            raise DemoError(
                f"{where} holds an action of {' and '.join(came)}; expected {action_text(wanted)}, as the file's "
                "header says. Record it again with a heuristic that fills in as many actions as its agent's Behavior "
                "Parameters have"
            )
        if in_one:
            choices = _whole(np.array(numbers[wanted.continuous :], np.float32)[None], lambda _: where)[0]
        columns.continuous[row] = numbers[: wanted.continuous]
        columns.discrete[row] = choices
        columns.acted[row] = True


def stored_numbers(sent: Any) -> Sequence[float]:
    """Returns the numbers of an AgentActionProto, from its old field where the new fields are empty."""
    return (
        sent.continuous_actions if sent.continuous_actions or sent.discrete_actions else sent.vector_actions_deprecated
    )


def read_pair(where: str, record: bytes) -> Any:
    """Parses a record's message. Raises DemoError; its message begins with `where`."""
    try:
        return Pair.FromString(record)
    except DecodeError:
        raise DemoError(
            f"{where}: its {len(record)} bytes ({record[:16].hex(' ')}) are not a record; the file is damaged"
        ) from None


def records_of(chunks: Iterable[DemoColumns]) -> Iterator[DemoRecord]:
    """Yields the records of columns one by one."""
    for chunk in chunks:
        for row in range(len(chunk)):
            yield DemoRecord(
                tuple(column[row] for column in chunk.obs),
                float(chunk.reward[row]),
                float(chunk.group_reward[row]),
                bool(chunk.done[row]),
                bool(chunk.truncated[row]),
                int(chunk.id[row]),
                int(chunk.group[row]),
                None if chunk.mask is None else chunk.mask[row],
                chunk.continuous[row] if chunk.acted[row] else chunk.continuous[row, :0],
                chunk.discrete[row] if chunk.acted[row] else chunk.discrete[row, :0],
            )


def empty_columns(spec: BehaviorSpec, first: int, count: int) -> DemoColumns:
    """Returns columns of zeros in which every choice is allowed."""
    action: ActionSpec = spec.action
    return DemoColumns(
        first,
        tuple(np.zeros((count, *obs.shape), np.float32) for obs in spec.obs),
        np.zeros(count, np.float32),
        np.zeros(count, np.float32),
        np.zeros(count, np.bool_),
        np.zeros(count, np.bool_),
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
        np.ones((count, action.choices), np.bool_) if action.choices else None,
        np.zeros((count, action.continuous), np.float32),
        np.zeros((count, len(action.branches)), np.int64),
        np.zeros(count, np.bool_),
    )


def join(parts: Sequence[DemoColumns]) -> DemoColumns:
    """Joins consecutive columns into one table."""
    if len(parts) == 1:
        return parts[0]
    names = [f.name for f in fields(DemoColumns) if f.name not in ("first", "obs", "mask")]
    columns: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    obs = tuple(np.concatenate(column) for column in zip(*(part.obs for part in parts), strict=True))
    return DemoColumns(
        first=parts[0].first, obs=obs, mask=join_masks([(part.mask, len(part)) for part in parts]), **columns
    )


def join_masks(masks: Sequence[tuple[NDArray[np.bool_] | None, int]]) -> NDArray[np.bool_] | None:
    """Joins masks, each given with its number of rows; None: all choices are allowed."""
    choices = next((mask.shape[1] for mask, _ in masks if mask is not None), None)
    if choices is None:
        return None
    return np.concatenate([np.ones((rows, choices), np.bool_) if mask is None else mask for mask, rows in masks])


def _whole(values: NDArray[np.float32], where: Callable[[int], str]) -> NDArray[np.int64]:
    """Converts choices that old files store as floats; NaN and infinity become 0. Raises DemoError for a fraction."""
    values = np.clip(np.nan_to_num(values, posinf=0, neginf=0), -_MAX_CHOICES, _MAX_CHOICES)
    broken = np.argwhere(values != np.rint(values))
    if len(broken):
        row, branch = broken[0].tolist()
        raise DemoError(
            f"{where(row)}: the choice of branch {branch} is {values[row, branch]:g}; expected a whole number. The "
            "file's header says that its actions are discrete, but its records hold continuous ones: record it again "
            "with the right Space Type"
        )
    return values.astype(np.int64)


def _table(data: NDArray[np.uint8], begins: NDArray[np.int64], length: int) -> NDArray[np.uint8]:
    """Returns the records at these offsets as (N, length), without a copy if they are equally spaced."""
    steps = np.diff(begins)
    strided = np.lib.stride_tricks.as_strided
    if len(steps) and (steps == steps[0]).all() and steps[0] >= length:
        return strided(data[begins[0] :], (len(begins), length), (int(steps[0]), 1), writeable=False)
    return strided(data, (len(data) - length + 1, length), (1, 1), writeable=False)[begins]
