"""Columns of a world: torch tensors that a Warp struct also sees, allocated once, and the helpers around them."""

from __future__ import annotations

import errno
import logging
import os
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import warp as wp
from numpy.typing import NDArray
from torch import Tensor

from palaestra.core.display import flush
from palaestra.core.errors import EnvError
from palaestra.core.files import home

if TYPE_CHECKING:
    from palaestra.core.specs import BehaviorSpec
    from palaestra.envs.builtin.base.host_ticks import Given

wp.set_module_options({"enable_backward": False, "max_unroll": 1})

INLINE_MORE = (
    "-march=native -mllvm=-inline-threshold=100000 -mllvm=-inline-cold-callsite-threshold=100000 "
    "-mllvm=-slp-recursion-max-depth=4"
)
"""Warp's `cpu_compiler_flags` with a tenfold limit of inlining: a function that is not inlined gets a copy of the
world's struct."""

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
    log_kernel_cache()
    return where


@cache
def log_kernel_cache() -> None:
    """Logs once if compiled kernels are stored in another folder than usual."""
    if sentence := start_warp():
        logging.getLogger("palaestra").warning(sentence)


@cache
def start_warp() -> str:
    """Starts Warp; returns a sentence if compiled kernels had to go to another folder, else an empty string.

    Another folder is chosen if the usual one cannot be written, for example with a read-only or missing home folder.
    """
    try:
        # Warp would make a folder named `~`
        if home() is None and not {"WARP_CACHE_PATH", "XDG_CACHE_HOME"} & os.environ.keys():
            raise OSError(errno.ENOENT, "there is no home folder")
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
    return (
        f"Compiled environments cannot be kept in {where} ({why}); they are kept in {elsewhere}. WARP_CACHE_PATH "
        "names another folder."
    )


def _private_folder() -> Path:
    """Returns a temporary folder that only this user can write, since its contents are executed."""
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
    flush(sys.stderr)
    try:
        kept = os.dup(2)
    except OSError:  # closed beneath a stream that a program has put in its place
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def allocate(
    struct: Any, slots: int, areas: int, device: torch.device, rows: Mapping[str, int], sizes: Mapping[str, Any]
) -> tuple[Any, dict[str, torch.Tensor]]:
    """Returns an instance of the struct over zeros, and the tensors behind its arrays, each (slots, ...) or with the
    rows given in `rows`.

    `sizes` gives the inner shape of each column of more than one dimension, and for each scalar its value or a function
    of (areas, device).
    """
    world = struct()
    columns = {}
    for name, var in struct.vars.items():
        if not isinstance(var.type, wp.array):
            setattr(world, name, sizes[name](areas, str(device)) if callable(sizes[name]) else sizes[name])
            continue
        inner = getattr(var.type.dtype, "_shape_", ())
        scalar = getattr(var.type.dtype, "_wp_scalar_type_", var.type.dtype)
        size = sizes[name] if var.type.ndim > 1 else ()
        outer = (size,) if isinstance(size, int) else size
        columns[name] = torch.zeros((rows.get(name, slots), *outer, *inner), dtype=_TORCH[scalar], device=device)
        setattr(world, name, wp.from_torch(columns[name], dtype=var.type.dtype))
    return world, columns


class Rows(dict[str, NDArray[Any]]):
    """Rows of some areas, gathered on access: (A, agents, ...), or (A, ...) for columns with a row per area.

    Gathering waits for the device. `slots` (A, agents): the agents' slots; with roles, slots within the behavior.
    """

    def __init__(
        self, columns: Mapping[str, torch.Tensor], areas: NDArray[np.int64], total: int, roles: Sequence[str]
    ) -> None:
        """`roles` is the behavior of each of an area's agents, or the same name for all."""
        super().__init__()
        self._columns = columns
        self._areas = torch.from_numpy(np.ascontiguousarray(areas))
        self._total = total
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
def save_final_rows(seen: wp.array2d(dtype=wp.float32), last: wp.array2d(dtype=wp.float32)):
    """Copies an agent's observations to the table of final observations, as an episode ends."""
    for k in range(seen.shape[0]):
        save_final_obs(seen, last, k)


@wp.func
def save_final_image(seen: wp.array4d(dtype=wp.float32), last: wp.array4d(dtype=wp.float32), slot: int):
    """Copies an agent's image to the final observations, as an episode ends."""
    for channel in range(seen.shape[1]):
        save_final_rows(seen[slot, channel], last[slot, channel])


@wp.func
def checked_choice(world: Any, slot: int, branch: int, choices: int, report: wp.array(dtype=wp.int32)):
    """Returns an agent's choice in a branch; an invalid choice is reported and becomes 0."""
    choice = world.action[slot, branch]
    if choice < wp.int64(0) or choice >= wp.int64(choices):
        report[1] = slot + 1
        choice = wp.int64(0)
    return int(choice)


@wp.func
def direction_of(choice: int):
    """Returns +1 for choice 1, -1 for choice 2, and 0 for any other choice."""
    return wp.where(choice == 1, 1.0, wp.where(choice == 2, -1.0, 0.0))


@wp.func
def next_parameter(world: Any, i: int, k: int):
    """Returns the area's k-th parameter for the episode that begins now."""
    return world.pending[i, world.episodes[i] % world.pending.shape[1], k]


def column_prefix(role: str) -> str:
    """Returns the prefix of the columns that have a row for each agent of one role."""
    return f"{role.lower()}_"


def rows_of_roles(names: Iterable[str], roles: Sequence[str], areas: int) -> dict[str, int]:
    """Returns the number of rows of each named column that belongs to one role."""
    seen = {
        (f"{column_prefix(role)}obs", f"{column_prefix(role)}final_obs"): areas * roles.count(role) for role in roles
    }
    return {name: rows for name in names for starts, rows in seen.items() if name.startswith(starts)}


MOST_BUFFERS = 4  # beyond that, images that all are held cost fresh memory


class ImageBuffers:
    """The column `obs_image`, and columns that record its contents: each exists in several copies, one of which is
    current.

    Painting into them alternately writes only the pixels that differ from the buffer's previous image, which is less
    work than a copy.
    """

    def __init__(self, columns: dict[str, torch.Tensor], world: Any, names: Sequence[str]) -> None:
        """`names` are `obs_image`, first, and the columns that go with it."""
        self._columns = columns
        self._world = world
        self._names = tuple(names)
        self._kept: list[list[np.ndarray]] = []
        self._current = 0
        self._add(0)

    def turn(self) -> None:
        """Makes a buffer current whose images are no longer in use. The columns and the struct then use the memory of
        this buffer."""
        if sys.getrefcount(self._kept[self._current][0]) == 3:  # our list's, the column's and the call's
            return
        for k in range(len(self._kept)):
            if sys.getrefcount(self._kept[k][0]) == 2:
                self._use(k)
                return
        self._add(len(self._kept) if len(self._kept) < MOST_BUFFERS else self._current)

    def take(self) -> torch.Tensor:
        """Returns the current images; their memory is not overwritten while the tensor or a view is referenced."""
        return torch.from_numpy(self._kept[self._current][0])

    def take_array(self) -> np.ndarray:
        """Returns the result of `take` as an array."""
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


def invalid_action(
    given: Given,
    behaviors: Mapping[str, BehaviorSpec],
    roles: Sequence[str],
    agents: int,
    columns: Mapping[str, Tensor],
    row: int,
) -> str:
    """Describes what is wrong with the action in a row of the columns; an area has `agents` agents, with these roles if
    any.

    `given` returns the action columns of a behavior with the actions as they were given, since a kernel may replace
    them.
    """
    names = list(behaviors)
    agent = row % agents
    name = roles[agent] if roles else names[int(columns["played"][row])] if len(names) > 1 else names[0]
    slot = row // agents * roles.count(name) + roles[:agent].count(name) if roles else row
    spec = behaviors[name].action
    came = [values[slot].tolist() for _, values in given(name)]
    numbers = "finite numbers" if spec.continuous else ""
    choices = f"choices of branches {spec.branches}, counted from 0" if spec.branches else ""
    expected = " and ".join(part for part in (numbers, choices) if part)
    return f"behavior '{name}', agent {slot}: action {' and '.join(map(str, came))} must be {expected}"
