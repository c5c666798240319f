"""Reads the spaces that Stable-Baselines3 prints into a file's JSON. The pickles in the same file are never opened."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from palaestra.core.errors import ExportError
from palaestra.core.specs import ObsSpec, RawObs

INTEGER = r"-?[0-9]{1,9}"
NUMBER = re.compile(r"[-+]?(?:inf|[0-9]+\.?[0-9]*(?:e[-+]?[0-9]+)?|\.[0-9]+(?:e[-+]?[0-9]+)?)", re.IGNORECASE)
IMAGE_MOST = 255.0
ADVICE = "name the observations with --obs-shape, the actions with --actions"


@dataclass(frozen=True, slots=True)
class Space:
    """A space of observations or actions."""

    kind: str
    """Box, Discrete, MultiDiscrete or MultiBinary."""
    shape: tuple[int, ...] = ()
    dtype: str = "float32"
    sizes: tuple[int, ...] = ()
    """Number of values of each integer, if the kind has integers."""
    starts: tuple[int, ...] = ()
    low: np.ndarray | None = None
    """Lower bounds of a Box, of its shape; None if the file abbreviates them."""
    high: np.ndarray | None = None

    @property
    def is_image(self) -> bool:
        """Whether Stable-Baselines3 treats it as an image, which it divides by 255."""
        bounded = (
            self.low is not None
            and self.high is not None
            and bool((self.low == 0).all() and (self.high == IMAGE_MOST).all())
        )
        return self.kind == "Box" and len(self.shape) == 3 and self.dtype == "uint8" and bounded


def read_space(saved: Any, what: str) -> Space | dict[str, Space]:
    """Returns the space in the JSON of a file, a dictionary of them for a Dict. Raises ExportError."""
    if not isinstance(saved, Mapping) or not isinstance(saved.get(":type:"), str):
        raise ExportError(f"the file does not say what its {what} is; {ADVICE}")
    kind = saved[":type:"].strip("<>' ").rpartition(".")[2]
    if kind == "Dict":
        return _parts(str(saved.get("spaces", "")), what)
    try:
        sizes = saved.get("_shape") or ()
        shape = tuple(int(size) for size in (re.findall(INTEGER, sizes) if isinstance(sizes, str) else sizes))
        if kind == "Box":
            sides = (_array(saved.get(side), saved.get(f"{side}_repr"), shape) for side in ("low", "high"))
            return Space(kind, shape, str(saved.get("dtype")), (), (), *sides)
        if kind == "Discrete":
            return Space(kind, (), "int64", (int(saved["n"]),), (int(saved.get("start", 0)),))
        if kind == "MultiDiscrete":
            sizes = tuple(int(number) for number in re.findall(INTEGER, _uncut(saved["nvec"])))
            starts = tuple(int(number) for number in re.findall(INTEGER, _uncut(saved.get("start", ""))))
            return Space(kind, shape, "int64", sizes, starts or (0,) * len(sizes))
        if kind == "MultiBinary":
            return Space(kind, shape, "int8", (2,) * prod(shape), (0,) * prod(shape))
    except (KeyError, TypeError, ValueError) as error:
        raise ExportError(f"the {what} in the file, a {kind}, cannot be read ({error}); {ADVICE}") from error
    raise ExportError(
        f"the {what} is a {kind}, which cannot be converted (Box, Discrete, MultiDiscrete, MultiBinary and Dict can)"
    )


def _parts(text: str, what: str) -> dict[str, Space]:
    """Reads "{'a': Box(-3.0, 3.0, (6,), float32), 'b': Discrete(5)}", as Gymnasium prints it."""
    spaces: dict[str, Space] = {}
    rest = text.strip()
    ordered = rest.startswith("OrderedDict(")
    rest = rest.removeprefix("OrderedDict(").removeprefix("[").removeprefix("{")
    start = re.compile(r"[(]?'((?:[^'\\]|\\.){1,200})'[:,] ([A-Za-z]+)\(")
    while found := start.match(rest):
        body, rest = _body(rest[found.end() :])
        if body is None:
            break
        spaces[found[1]] = _printed(found[2], body, f"'{found[1]}' of the {what}")
        rest = rest.lstrip(")" if ordered else "").removeprefix(", ")
    if not spaces or rest.strip("])} "):
        raise ExportError(f"the {what} in the file is a Dict that cannot be read ({text[:100]}); {ADVICE}")
    return spaces


def _body(text: str) -> tuple[str | None, str]:
    depth = 1
    for i, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if depth == 0:
            return text[:i], text[i + 1 :]
    return None, text


def _printed(kind: str, body: str, what: str) -> Space:
    if kind == "Box" and (found := re.fullmatch(r"(.*), (.*), \(([0-9, ]*)\), ([a-z0-9]+)", body, re.DOTALL)):
        shape = tuple(int(size) for size in re.findall("[0-9]+", found[3]))
        low, high = (_array(found[i], None, shape) for i in (1, 2))
        return Space(kind, shape, found[4], (), (), low, high)
    if kind == "Discrete" and (found := re.fullmatch(rf"({INTEGER})(?:, start=({INTEGER}))?", body)):
        return Space(kind, (), "int64", (int(found[1]),), (int(found[2] or 0),))
    if kind == "MultiDiscrete" and (found := re.match(r"\[([0-9 \n]+)\]", body)):
        sizes = tuple(int(size) for size in found[1].split())
        return Space(kind, (len(sizes),), "int64", sizes, (0,) * len(sizes))
    if kind == "MultiBinary" and (found := re.fullmatch(r"\(?([0-9]+),?\)?", body)):
        return Space(kind, (int(found[1]),), "int8", (2,) * int(found[1]), (0,) * int(found[1]))
    raise ExportError(f"{what} is a {kind}({body[:60]}), which cannot be converted")


def _uncut(saved: Any) -> str:
    text = str(saved)
    if "..." in text:
        raise ValueError("its numbers are cut short in the file")
    return text


def _array(printed: Any, summary: Any, shape: tuple[int, ...]) -> np.ndarray | None:
    """Returns a bound of a Box: all its numbers, or one number if all shown numbers are equal."""
    for text in (printed, summary):
        numbers = [float(number) for number in NUMBER.findall(str(text))]
        if text is None or not numbers:
            continue
        if len(numbers) == prod(shape) and "..." not in str(text):
            return np.array(numbers).reshape(shape)
        if len(set(numbers)) == 1:
            return np.full(shape, numbers[0])
    return None


def seen_as(name: str, space: Space) -> tuple[ObsSpec, float]:
    """Returns the observation that Unity gives for a space (images within 0..1), and the network's factor for it."""
    if space.kind in ("Discrete", "MultiDiscrete"):
        raw = RawObs(space.shape, sizes=space.sizes, starts=space.starts)
        return ObsSpec(name, (sum(space.sizes),), raw=raw), 1.0
    if len(space.shape) == 3:
        if space.dtype != "uint8":
            return ObsSpec(name, space.shape), 1.0
        return ObsSpec(name, space.shape, raw=RawObs(space.shape, channels=0, scale=1 / IMAGE_MOST)), IMAGE_MOST
    size = prod(space.shape)
    return ObsSpec(name, (size,), raw=None if space.shape == (size,) else RawObs(space.shape)), 1.0
