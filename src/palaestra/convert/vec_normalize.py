"""Reads statistics of observations: Stable-Baselines3's VecNormalize, a pickle, or an .npz with `mean` and `var`.

A pickle is a program, which could do anything. This module reads the pickle without importing anything: every class and
function that the file names becomes an inert record of its arguments, and only arrays of plain numbers are made from
these records.
"""

from __future__ import annotations

import pickle
import pickletools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from palaestra.convert.source_network import Scaling
from palaestra.core.errors import ExportError
from palaestra.core.files import read_whole
from palaestra.core.torch_files import read_npz

MOST_BYTES = 1 << 26
MOST_OPERATIONS = 100_000
"""Most operations of a pickle, and most entries of its memory; VecNormalize's pickles have a few hundred."""
INDICES = ("PUT", "BINPUT", "LONG_BINPUT")
DTYPES = re.compile(r"[<>=|]?[fiub][1248]")


@dataclass(frozen=True, slots=True)
class ObsStatistics:
    """Mean and variance of each observation by name; a single observation has the name ''."""

    mean: Mapping[str, np.ndarray]
    var: Mapping[str, np.ndarray]
    epsilon: float
    limit: float | None

    def normalizer(self, name: str) -> Scaling | None:
        """Returns the normalizer of an observation; None if it is not normalized."""
        if name not in self.mean:
            return None
        return Scaling(self.mean[name].ravel(), np.sqrt(self.var[name].ravel() + self.epsilon), self.limit)


def read_statistics(path: Path | str) -> ObsStatistics:
    """Reads a file by its ending. Raises ExportError."""
    path = Path(path)
    try:
        content = read_whole(path, MOST_BYTES)
    except OSError as error:
        raise ExportError(f"{path} cannot be read: {error.strerror or error}") from error
    if path.suffix == ".npz":
        return _from_arrays(path, content)
    if path.suffix in (".pkl", ".pickle"):
        return _from_pickle(path, content)
    raise ExportError(f"--normalizer {path}: expected VecNormalize's .pkl, or an .npz with 'mean' and 'var'")


def _from_arrays(path: Path, content: bytes) -> ObsStatistics:
    found = read_npz(content, str(path), most=MOST_BYTES)
    try:
        arrays = {key: np.asarray(found[key], np.float64) for key in ("mean", "var", "epsilon", "clip") if key in found}
    except ValueError as error:
        raise ExportError(f"{path} cannot be read as .npz: {error}") from error
    if "mean" not in arrays or "var" not in arrays:
        raise ExportError(
            f"{path} has the arrays {', '.join(arrays) or 'none'}; expected 'mean', 'var' and perhaps 'epsilon', 'clip'"
        )
    limit = arrays["clip"].item() if "clip" in arrays else None
    epsilon = arrays["epsilon"].item() if "epsilon" in arrays else 1e-8
    return _checked(path, ObsStatistics({"": arrays["mean"]}, {"": arrays["var"]}, epsilon, limit))


class _Record:
    """An object of a pickle: the name of its class, and its state."""

    def __init__(self, title: str, arguments: tuple[Any, ...]) -> None:
        self.title = title
        self.arguments = arguments
        self.state = None
        self.items: dict[Any, Any] = {}
        self.entries: list[Any] = []

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def __setitem__(self, key: Any, value: Any) -> None:
        self.items[key] = value

    def append(self, value: Any) -> None:
        """Adds an entry, if the object is a list: pickle calls this."""
        self.entries.append(value)

    def __call__(self, *arguments: Any) -> Any:
        """A record in place of a call of the named function; nothing is called."""
        return _Record(self.title, arguments)


def _record_class(title: str) -> type[_Record]:
    def new(cls: type[_Record], *arguments: Any) -> _Record:
        made = object.__new__(cls)
        _Record.__init__(made, title, arguments)
        return made

    return type("Record", (_Record,), {"__new__": new, "__init__": lambda self, *arguments: None})


class _InertUnpickler(pickle.Unpickler):
    """Runs no code of a pickle: all names in it become records."""

    def find_class(self, module: str, name: str) -> Any:
        return _record_class(f"{module}.{name}")

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("it refers to another file")


def _must_be_small(content: bytes) -> None:
    """Raises ValueError for a pickle that would take far more memory than VecNormalize does."""
    for count, (operation, argument, _) in enumerate(pickletools.genops(content)):
        if count > MOST_OPERATIONS or (operation.name in INDICES and (argument or 0) > MOST_OPERATIONS):
            raise ValueError(f"more than {MOST_OPERATIONS:,} objects")


def _from_pickle(path: Path, content: bytes) -> ObsStatistics:
    try:
        _must_be_small(content)
        whole = _InertUnpickler(BytesIO(content)).load()
        state = whole.state
        if not whole.title.endswith(".VecNormalize") or not isinstance(state, dict):
            raise ExportError(
                f"{path} holds a {whole.title}; expected the VecNormalize that was saved with env.save(FILE)"
            )
        if not state.get("norm_obs", True):
            return ObsStatistics({}, {}, 0.0, None)
        saved = state["obs_rms"]
        keys = state.get("norm_obs_keys")
        rms = saved if isinstance(saved, dict) else saved.items or {"": saved}
        names = [name for name in rms if keys is None or name in keys]
        mean, var = ({name: _array(rms[name].state[which]) for name in names} for which in ("mean", "var"))
        return _checked(path, ObsStatistics(mean, var, float(state["epsilon"]), float(state["clip_obs"])))
    except ExportError:
        raise
    except Exception as error:  # a damaged or forged pickle may raise anything
        raise ExportError(f"{path} cannot be read as VecNormalize ({type(error).__name__}: {error})") from error


def _array(record: _Record) -> np.ndarray:
    """Makes an array of plain numbers from numpy's record: (version, shape, type, column order, bytes)."""
    _, shape, dtype, by_column, raw = record.state  # type: ignore[misc]
    kind = str(dtype.arguments[0])
    order = dtype.state[1] if isinstance(dtype.state, tuple) else "="
    if isinstance(raw, _Record):  # numpy's bytes in old protocols: text in latin1
        raw = str(raw.arguments[0]).encode("latin1")
    if not DTYPES.fullmatch(kind) or not isinstance(raw, bytes) or len(shape) > 8:
        raise ValueError(f"an array of {kind}")
    values = np.frombuffer(raw, np.dtype(f"{order if order in '<>' else '='}{kind.lstrip('<>=|')}"), prod(shape))
    return values.reshape(shape, order="F" if by_column else "C").astype(np.float64)


def _checked(path: Path, found: ObsStatistics) -> ObsStatistics:
    for name, mean in found.mean.items():
        var = found.var[name]
        if mean.shape != var.shape or not np.isfinite(mean).all() or not np.isfinite(var).all() or (var < 0).any():
            raise ExportError(
                f"{path}: mean and variance of '{name or 'the observation'}' do not fit one another, or are not finite"
            )
    if not (found.epsilon >= 0 and (found.limit is None or found.limit > 0)):
        raise ExportError(f"{path}: epsilon {found.epsilon} and clip {found.limit} make no sense")
    return found
