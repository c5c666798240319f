"""What agents see. A sensor belongs to one agent; what is written to it is read at the agent's next decision or end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from math import prod
from struct import Struct
from struct import error as StructError
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from palaestra.core.errors import EnvError


@runtime_checkable
class Sensor(Protocol):
    """What anything that an agent sees with must have; a class of an author's own will do.

    It may also have `goal` (True: it tells what to do rather than what is there), `compressed` (True: its images go over a wire as
    PNG) and `reset()`, called where an episode begins.
    """

    name: str
    shape: tuple[int, ...]  # (n,), (most, size) or (C, H, W) with numbers within 0..1

    def read(self) -> ArrayLike | bytes:
        """What is there to see now, of that shape; bytes are taken for its float32. Called once a decision and at an episode's end."""
        ...


def float_bytes(sensor: Sensor) -> bytes:
    """What a sensor reads, as the bytes of float32. Raises EnvError for another shape."""
    seen = sensor.read()
    return seen if type(seen) is bytes else _as_bytes(sensor, seen)


def _as_bytes(sensor: Sensor, seen: Any) -> bytes:
    try:
        array = np.asarray(seen, np.float32)
    except (TypeError, ValueError) as error:
        raise EnvError(f"sensor '{sensor.name}' read what is no array of numbers ({error}); expected shape {sensor.shape}") from error
    if array.shape != tuple(sensor.shape):
        raise EnvError(f"sensor '{sensor.name}' read shape {array.shape}; it declares {sensor.shape}")
    return array.tobytes()


class VectorSensor:
    """Numbers, in the order in which they are added."""

    def __init__(self, size: int, name: str | None = None, *, goal: bool = False) -> None:
        self.name = name or f"VectorSensor_size{size}" + ("_GoalSignal" if goal else "")
        self.shape, self.goal = (size,), goal
        self._values: list[Any] = []
        self._packed = Struct(f"{size}f").pack

    def add(self, *values: Any) -> None:
        """Numbers, bools, and sequences or arrays of them."""
        self._values += values

    def one_hot(self, index: int, size: int) -> None:
        """Adds `size` numbers: 1 at `index`, else 0."""
        if not 0 <= index < size:
            raise EnvError(f"sensor '{self.name}': one_hot({index}, {size}) has no such place; expected 0 to {size - 1}")
        row = [0.0] * size
        row[index] = 1.0
        self._values += row

    def read(self) -> bytes:
        """All that was added since it was last read. Raises EnvError where that is too much or too little."""
        values, self._values = self._values, []
        try:
            return self._packed(*values)
        except (StructError, TypeError, ValueError, OverflowError, DeprecationWarning):  # nested ones, or a mistake
            return self._flattened(values)

    def _flattened(self, values: list[Any]) -> bytes:
        if any(value is None for value in values):
            raise EnvError(f"sensor '{self.name}' was given None as its number {values.index(None)}")
        try:
            flat = np.concatenate([np.zeros(0), *(np.asarray(value, np.float64).ravel() for value in values)])
        except (TypeError, ValueError) as error:
            raise EnvError(f"sensor '{self.name}' was given what is no number ({error})") from error
        if len(flat) != self.shape[0]:
            few = "too few" if len(flat) < self.shape[0] else "too many"
            raise EnvError(
                f"sensor '{self.name}' was given {len(flat)} numbers, {few}: {self.shape[0]} are declared; "
                f"declare as many as are added, at every decision the same"
            )
        with np.errstate(over="ignore"):  # an infinity is refused with its place, later
            return flat.astype(np.float32).tobytes()


class ImageSensor:
    """A picture, sent as (C, H, W) within 0..1."""

    def __init__(
        self,
        height: int,
        width: int,
        channels: int = 3,
        name: str = "CameraSensor",
        *,
        source: Callable[[], ArrayLike] | None = None,
        goal: bool = False,
        compressed: bool | None = None,
    ) -> None:
        """`source` gives the picture when it is read, in place of `write`. `compressed`: goes over a wire as PNG; None: if it is uint8."""
        self.name, self.shape, self.source = name, (channels, height, width), source
        self.goal, self.compressed = goal, compressed
        self._given: Any = None

    def write(self, image: ArrayLike) -> None:
        """(H, W, C), (C, H, W), or (H, W) of one channel: floats within 0..1, or uint8. It is copied at the next decision."""
        self._given = image

    def read(self) -> bytes:
        """The picture that was last written, or the source's. Raises EnvError for another size or type, or none at all."""
        image = np.asarray(self._given if self.source is None else self.source())
        if image.dtype == object:
            raise EnvError(f"sensor '{self.name}' has no picture: call its write(image) in collect_observations, or give it a source=")
        channels, height, width = self.shape
        if image.shape == (height, width, channels):
            image = image.transpose(2, 0, 1)
        elif image.shape != self.shape and (channels != 1 or image.shape != (height, width)):
            raise EnvError(f"sensor '{self.name}' was given a picture of shape {image.shape}; expected {(height, width, channels)}")
        if self.compressed is None:
            self.compressed = image.dtype == np.uint8
        if image.dtype == np.uint8:
            return (image.astype(np.float32) / 255).tobytes()
        if not np.issubdtype(image.dtype, np.floating):
            raise EnvError(f"sensor '{self.name}' was given a picture of {image.dtype}; expected uint8, or floats within 0..1")
        if image.size and not (image.min() >= 0 and image.max() <= 1):
            raise EnvError(f"sensor '{self.name}' was given numbers from {image.min()} to {image.max()}; expected floats within 0..1")
        return image.astype(np.float32).tobytes()


class StackedSensor:
    """The last `count` views of a vector or image sensor, the oldest first (images: channel after channel); at first zeros."""

    def __init__(self, sensor: Sensor, count: int) -> None:
        if len(sensor.shape) not in (1, 3) or count < 1:
            raise EnvError(f"sensor '{sensor.name}' of shape {sensor.shape} cannot be stacked {count} times; expected a vector or an image")
        self.name = f"StackingSensor_size{count}_{sensor.name}"
        self.shape = (count * sensor.shape[0], *sensor.shape[1:])
        self.goal = getattr(sensor, "goal", False)
        self._sensor = sensor
        self._frames: deque[bytes] = deque(maxlen=count)
        self.reset()

    @property
    def compressed(self) -> bool | None:
        """As the sensor itself."""
        return getattr(self._sensor, "compressed", None)

    def reset(self) -> None:
        """Forgets what was seen."""
        size = 4 * prod(self._sensor.shape)
        self._frames.extend([bytes(size)] * (self._frames.maxlen or 0))
        if hasattr(self._sensor, "reset"):
            self._sensor.reset()  # type: ignore[attr-defined]

    def read(self) -> bytes:
        """One view more, without the oldest."""
        self._frames.append(float_bytes(self._sensor))
        return b"".join(self._frames)


class BufferSensor:
    """Things of which there are now more, now fewer: a row each, at most `most`; the rest of the rows are zeros."""

    goal = False

    def __init__(self, most: int, size: int, name: str = "BufferSensor") -> None:
        self.name, self.shape = name, (most, size)
        self._rows: list[bytes] = []

    def append(self, *values: Any) -> None:
        """One thing more: `size` numbers. Beyond `most` they are left out, so append the nearest first."""
        row = np.concatenate([np.asarray(value, np.float32).ravel() for value in values]) if values else np.zeros(0, np.float32)
        if len(row) != self.shape[1]:
            raise EnvError(f"sensor '{self.name}' was given a row of {len(row)} numbers; its rows have {self.shape[1]}")
        if len(self._rows) < self.shape[0]:
            self._rows.append(row.tobytes())

    def read(self) -> bytes:
        """All rows since it was last read."""
        rows, self._rows = b"".join(self._rows), []
        return rows.ljust(4 * prod(self.shape), b"\0")


class RaySensor:
    """What rays hit, laid out as Unity's: of each ray one number a tag, then 1 where it hit nothing, then how far it went (0..1)."""

    goal = False

    def __init__(self, tags: Sequence[str], rays: int, name: str = "RayPerceptionSensor") -> None:
        self.name, self.tags, self.rays = name, tuple(tags), rays
        self.shape = (rays * (len(self.tags) + 2),)
        self._hits: list[tuple[str | None, float] | None] | None = None

    def write(self, hits: Iterable[tuple[str | None, float] | None]) -> None:
        """One a ray: None where it hit nothing, else the tag (None: something without one of these tags) and the fraction of its length."""
        self._hits = list(hits)

    def read(self) -> NDArray[np.float32]:
        """Raises EnvError for another number of rays, or a tag that is not declared."""
        if self._hits is None or len(self._hits) != self.rays:
            given = "none" if self._hits is None else len(self._hits)
            raise EnvError(f"sensor '{self.name}' was given {given} of {self.rays} rays; write all of them in collect_observations")
        view = np.zeros((self.rays, len(self.tags) + 2), np.float32)
        for row, hit in zip(view, self._hits, strict=True):
            if hit is None:
                row[-2:] = 1
                continue
            tag, row[-1] = hit
            if tag is not None and tag not in self.tags:
                raise EnvError(f"sensor '{self.name}' was given the tag {tag!r}; it declares {', '.join(self.tags) or 'none'}")
            if tag is not None:
                row[self.tags.index(tag)] = 1
        return view.ravel()
