"""Columns of a world: torch tensors that a Warp struct also sees, allocated once, the helpers around them, and a tick's tables of copies."""

from __future__ import annotations

import logging
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import warp as wp
from numpy.typing import NDArray
from torch import Tensor

from palaestra.core.errors import EnvError
from palaestra.core.timestep import FinalObs, TimeStep

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

INLINE_MORE = (
    "-march=native -mllvm=-inline-threshold=100000 -mllvm=-inline-cold-callsite-threshold=100000 -mllvm=-slp-recursion-max-depth=4"
)
"""Warp's `cpu_compiler_flags` with a limit of inlining ten times as high: a function that is called gets a copy of the world's struct."""

_TORCH = {
    wp.float32: torch.float32,
    wp.float64: torch.float64,
    wp.int32: torch.int32,
    wp.uint32: torch.int32,  # the same bits: torch can do little with unsigned ones
    wp.int64: torch.int64,
    wp.bool: torch.bool,
}


def resolve(device: str | torch.device) -> torch.device:
    """Returns the device, with its index if it is CUDA. Raises EnvError if it does not exist."""
    try:
        where = torch.device(device)
    except RuntimeError as error:
        raise EnvError(f"device '{device}' is unknown; expected cpu, cuda or cuda:N") from error
    if where.type not in ("cpu", "cuda"):
        raise EnvError(f"device '{device}': the built-in environments run on cpu and cuda")
    if where.type == "cuda":
        if not torch.cuda.is_available():
            raise EnvError(f"device '{device}': torch sees no CUDA GPU here; use cpu")
        where = torch.device("cuda", torch.cuda.current_device() if where.index is None else where.index)
    with quiet_warp():
        start_warp()
    tell_kernel_cache()
    return where


@cache
def tell_kernel_cache() -> None:
    """Logs once if compiled kernels are stored in another folder than usual."""
    if sentence := start_warp():
        logging.getLogger("palaestra").warning(sentence)


@cache
def start_warp() -> str:
    """Starts Warp, and returns a sentence if compiled kernels had to go to another folder, else an empty string.

    Another folder is chosen if the usual one cannot be written, for example with a read-only or missing home folder.
    """
    try:
        wp.init()
        folder = Path(wp.config.kernel_cache_dir or "")
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        problem = error
    elsewhere = _private_folder()
    wp.config.kernel_cache_dir = str(elsewhere)
    wp.init()
    where = getattr(problem, "filename", None) or "its usual folder"
    why = problem.strerror or problem
    return f"Compiled environments cannot be kept in {where} ({why}); they are kept in {elsewhere}. WARP_CACHE_PATH names another folder."


def _private_folder() -> Path:
    """Returns a temporary folder that only this user can write, since its contents are executed; the same one each time if possible."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    folder = Path(tempfile.gettempdir(), f"palaestra-kernels-{user}")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        private = os.name == "nt" or (found.st_uid == user and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
        if stat.S_ISDIR(found.st_mode) and private:
            with tempfile.TemporaryFile(dir=folder):
                return folder
    except OSError:
        pass
    return Path(tempfile.mkdtemp(prefix="palaestra-kernels-"))


@contextmanager
def quiet_warp() -> Iterator[None]:
    """Keeps Warp's start-up and compiler lines off the terminal."""
    name, value = ("log_level", 30) if hasattr(wp.config, "log_level") else ("quiet", True)
    before = getattr(wp.config, name)
    setattr(wp.config, name, value)
    try:
        with nullcontext() if torch.cuda.is_available() else _no_driver_warning():
            yield
    finally:
        setattr(wp.config, name, before)


@contextmanager
def _no_driver_warning() -> Iterator[None]:
    """Hides the line that Warp's native code prints when there is no GPU driver."""
    if sys.stderr is None:  # closed, and its number perhaps another file's
        yield
        return
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def allocate(
    struct: Any, slots: int, areas: int, device: torch.device, rows: Mapping[str, int], **sizes: Any
) -> tuple[Any, dict[str, torch.Tensor]]:
    """Returns an instance of the struct over zeros, and the tensors behind its arrays, each (slots, ...) or with the rows given in `rows`.

    `sizes` gives the inner shape of each column of more than one dimension, and the value of each scalar or a function (areas) of it.
    """
    world, columns = struct(), {}
    for name, var in struct.vars.items():
        if not isinstance(var.type, wp.array):
            setattr(world, name, sizes[name](areas) if callable(sizes[name]) else sizes[name])
            continue
        inner = getattr(var.type.dtype, "_shape_", ())
        scalar = getattr(var.type.dtype, "_wp_scalar_type_", var.type.dtype)
        size = sizes[name] if var.type.ndim > 1 else ()
        outer = (size,) if isinstance(size, int) else size
        columns[name] = torch.zeros((rows.get(name, slots), *outer, *inner), dtype=_TORCH[scalar], device=device)
        setattr(world, name, wp.from_torch(columns[name], dtype=var.type.dtype))
    return world, columns


class Rows(dict[str, NDArray[Any]]):
    """Rows of some areas, gathered from a column when it is asked for: (A, agents, ...), or (A, ...) of columns with a row per area.

    Gathering waits for the device. `slots` (A, agents) are those of the agents; with roles, an agent's within its own behavior.
    """

    def __init__(self, columns: Mapping[str, torch.Tensor], areas: NDArray[np.int64], total: int, roles: Sequence[str]) -> None:
        """`roles` is the behavior of each of an area's agents, or the same name for all."""
        super().__init__()
        self._columns, self._areas, self._total = columns, torch.from_numpy(np.ascontiguousarray(areas)), total
        self.areas = len(areas)
        within = np.array([roles[:agent].count(role) for agent, role in enumerate(roles)])
        self.slots: NDArray[np.int64] = areas[:, None] * np.array([roles.count(role) for role in roles]) + within

    def __missing__(self, name: str) -> NDArray[Any]:
        column = self._columns[name]
        each = len(column) // self._total
        table = column if each == 1 else column.view(self._total, each, *column.shape[1:])
        self[name] = table[self._areas.to(column.device)].cpu().numpy()
        return self[name]


@wp.kernel
def seed_streams(streams: wp.array(dtype=wp.uint32), seed: int):
    """Seeds a random stream for each row, from the seed and the row's number."""
    i = wp.tid()
    streams[i] = wp.rand_init(seed, i)


@wp.func_native("""
    const float* now = (const float*)((const char*)seen.data + i * seen.strides[0]);
    float* kept = (float*)((char*)last.data + i * last.strides[0]);
    for (int k = 0; k < seen.shape[1]; ++k) kept[k] = now[k];
""")  # in C++ the compiler copies several numbers at once
def save_final_obs(seen: wp.array2d(dtype=wp.float32), last: wp.array2d(dtype=wp.float32), i: int):
    """Copies a row of an observation to the final observations, as an episode ends."""


@wp.func
def next_parameter(world: Any, i: int, k: int):
    """Returns the area's k-th parameter for the episode that begins now."""
    return world.pending[i, world.episodes[i] % world.pending.shape[1], k]


def column_prefix(role: str) -> str:
    """Returns the prefix of the columns that have a row for each agent of one role."""
    return f"{role.lower()}_"


def rows_of_roles(names: Iterable[str], roles: Sequence[str], areas: int) -> dict[str, int]:
    """Returns the number of rows of each named column that belongs to one role."""
    seen = {(f"{column_prefix(role)}obs", f"{column_prefix(role)}final_obs"): areas * roles.count(role) for role in roles}
    return {name: rows for name in names for starts, rows in seen.items() if name.startswith(starts)}


MOST_BUFFERS = 4  # beyond that, images that all are held cost fresh memory


class ImageBuffers:
    """The column `obs_image`, and columns that tell what is painted in it, each in several copies of which one is current.

    Painting in turn writes only the pixels that differ from what the buffer showed before: less than a copy does.
    """

    def __init__(self, columns: dict[str, torch.Tensor], world: Any, names: Sequence[str]) -> None:
        """`names` are `obs_image`, first, and the columns that go with it, in `columns` and in the Warp struct `world`."""
        self._columns, self._world, self._names = columns, world, tuple(names)
        self._kept: list[list[np.ndarray]] = []
        self._current = 0
        self._add(0)

    def turn(self) -> None:
        """Makes a buffer current whose images nobody holds. The columns and the struct are then other memory."""
        if sys.getrefcount(self._kept[self._current][0]) == 3:  # our list's, the column's and the call's
            return
        for k in range(len(self._kept)):
            if sys.getrefcount(self._kept[k][0]) == 2:
                self._use(k)
                return
        self._add(len(self._kept) if len(self._kept) < MOST_BUFFERS else self._current)

    def take(self) -> torch.Tensor:
        """Returns the current images; they are not written to while anything references the tensor or a view of it."""
        return torch.from_numpy(self._kept[self._current][0])

    def take_array(self) -> np.ndarray:
        """Returns what `take` does as an array."""
        return self._kept[self._current][0].view()

    def _add(self, k: int) -> None:
        """Makes copies of the current columns the k-th buffer, and uses it."""
        buffer = [self._columns[name].numpy().copy() for name in self._names]
        self._kept[k : k + 1] = [buffer]
        self._use(k)

    def _use(self, k: int) -> None:
        self._current = k
        for name, array in zip(self._names, self._kept[k], strict=True):
            self._columns[name] = torch.from_numpy(array)
            setattr(self._world, name, wp.from_torch(self._columns[name]))


WORTH_KEEPING = 1 << 18  # bytes; smaller copies come from the allocator's own pool
MOST_KEPT = 4  # copies of a column that a reader may hold before more of them cost fresh memory


class PooledCopies:
    """Copies one column repeatedly into memory of earlier copies that nobody holds; fresh memory on the host costs six times the copy."""

    def __init__(self, column: Tensor) -> None:
        self._column = column
        self._kept: list[np.ndarray] = []
        self._array = column.numpy() if column.device.type == "cpu" else np.empty(0)
        self._keeps = column.device.type == "cpu" and column.numel() * column.element_size() >= WORTH_KEEPING

    def take(self) -> Tensor:
        """Returns the column as it is now. The copy is not written to while anything references it or a view of it."""
        return torch.from_numpy(self.take_array()) if self._keeps else self._column.clone()

    def take_array(self) -> np.ndarray:
        """Returns what `take` does as an array; only on the host."""
        if self._keeps:
            for k in range(len(self._kept)):
                if sys.getrefcount(self._kept[k]) == 2:  # our list's and the call's: nothing else refers to this memory
                    return self._filled(self._kept[k])
            if len(self._kept) < MOST_KEPT:
                self._kept.append(np.empty_like(self._array))
                return self._filled(self._kept[-1])
        return self._array.copy()

    def _filled(self, memory: np.ndarray) -> np.ndarray:
        np.copyto(memory, self._array)
        return memory


class Table:
    """Table of all agents of each area, or of some of them.

    The k-th of an area's `agents` sits in slot i * len(agents) + k, on team `teams[agents[k]]`. If there is a column `group_reward`, the
    agents of a team in an area form a group. If there is a column `acting`, it marks who awaits an action; otherwise all do.
    """

    def __init__(
        self,
        columns: Mapping[str, Tensor],
        teams: Sequence[int],
        agents: Sequence[int],
        prefix: str = "",
        images: ImageBuffers | None = None,
    ) -> None:
        """`teams`: of all of an area's agents; `prefix` begins the columns' names; `images` hold `obs_image`, if they take turns."""
        device, areas = columns["reward"].device, len(columns["reward"]) // len(teams)
        self._columns, self._on_host = columns, device.type == "cpu"
        obs = {name: column for name, column in columns.items() if name.startswith(f"{prefix}obs") and column.shape[1]}
        self.obs = tuple(images if images and name == "obs_image" else PooledCopies(column) for name, column in obs.items())
        self._final_obs = tuple(column for name, column in columns.items() if name.startswith(f"{prefix}final_obs") and column.shape[1])
        self._area = torch.arange(areas, device=device).repeat_interleave(len(agents))
        self._team = torch.tensor([teams[agent] for agent in agents], device=device).repeat(areas)
        self._slots = torch.arange(len(self._area), device=device)
        in_groups = "group_reward" in columns
        self._group = self._area * (max(teams) + 1) + self._team if in_groups else torch.full_like(self._slots, -1)
        self.rows = None if len(agents) == len(teams) else self._area * len(teams) + torch.tensor(agents, device=device).repeat(areas)
        """(S,) int64: rows of its agents in columns with a row per agent; None: all rows."""
        self._acting = torch.ones_like(self._slots, dtype=torch.bool)
        self._no_group_reward = torch.zeros(len(self._slots), device=device)
        self._no_final_obs = FinalObs(self._slots[:0], tuple(column[:0].clone() for column in obs.values()))

    def make(self, ended: bool) -> TimeStep:
        """Returns the current TimeStep. `ended` tells whether an episode ended; it is ignored on an accelerator."""
        terminated, truncated = self._copied("terminated"), self._copied("truncated")
        return TimeStep(
            obs=tuple([copies.take() for copies in self.obs]),
            acting=self._copied("acting") if "acting" in self._columns else self._acting,
            reward=self._copied("reward"),
            group_reward=self._copied("group_reward") if "group_reward" in self._columns else self._no_group_reward,
            terminated=terminated,
            truncated=truncated,
            final_obs=self._take_final_obs(terminated, truncated) if ended or not self._on_host else self._no_final_obs,
            action_mask=self._copied("mask") if "mask" in self._columns else None,
            area=self._area,
            team=self._team,
            group=self._group,
        )

    def _copied(self, name: str) -> Tensor:
        return self._columns[name].clone() if self.rows is None else self._columns[name][self.rows]

    def _take_final_obs(self, terminated: Tensor, truncated: Tensor) -> FinalObs:
        if not self._on_host:
            return FinalObs(self._slots, tuple([column.clone() for column in self._final_obs]))
        slots = (terminated | truncated).nonzero()[:, 0]
        rows = slots.numpy()  # torch's threads, which would gather them, keep their cores busy for a while afterwards
        return FinalObs(slots, tuple([torch.from_numpy(column.numpy()[rows]) for column in self._final_obs]))


class Tables:
    """One table for each behavior: a table of its own for each role, or each behavior's share of all slots."""

    def __init__(
        self,
        columns: Mapping[str, Tensor],
        names: Iterable[str],
        teams: Sequence[int],
        roles: Sequence[str] = (),
        images: ImageBuffers | None = None,
    ) -> None:
        """`roles` are the fixed behaviors of an area's agents, if they have any; `images` hold those that take turns."""
        self._columns, self._names = columns, tuple(names)
        self._tables: dict[str, Table] = {}
        for name in self._names if roles else self._names[:1]:
            agents = [agent for agent in range(len(teams)) if not roles or roles[agent] == name]
            self._tables[name] = Table(columns, teams, agents, column_prefix(name) if roles else "", images)
        self._on_host = columns["reward"].device.type == "cpu"

    def make(self, ended: bool) -> dict[str, TimeStep]:
        """Returns the current TimeStep of each behavior. `ended` tells whether an episode ended; it is ignored on an accelerator."""
        steps = {name: table.make(ended) for name, table in self._tables.items()}
        if len(steps) == len(self._names):
            return steps
        (whole,) = steps.values()
        plays, played = self._columns["plays"], self._columns["played"]
        return {name: self._share(whole, plays == k, played == k) for k, name in enumerate(self._names)}

    def obs_copies(self) -> list[Callable[[], np.ndarray]]:
        """Returns for each observation of the first behavior what copies it, on the host."""
        return [copies.take_array for copies in next(iter(self._tables.values())).obs]

    def rows(self, name: str) -> Tensor | None:
        """(S,) int64: the rows of a behavior's slots in columns with a row per agent; None for all rows."""
        return self._tables[name].rows if name in self._tables else None

    def _share(self, whole: TimeStep, plays: Tensor, played: Tensor) -> TimeStep:
        """Returns one behavior's share: agents act by `plays` (S,), while rewards and ends belong to `played` (S,)."""
        final_obs = whole.final_obs
        if self._on_host:  # on an accelerator there is a row for every slot
            mine = played[final_obs.slots]
            final_obs = FinalObs(final_obs.slots[mine], tuple(obs[mine] for obs in final_obs.obs))
        return replace(
            whole,
            acting=whole.acting & plays,
            reward=whole.reward * played,
            group_reward=whole.group_reward * played,
            terminated=whole.terminated & played,
            truncated=whole.truncated & played,
            final_obs=final_obs,
        )
