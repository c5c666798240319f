"""Sensors of agents. Each sensor belongs to one agent and is read at that agent's decisions and ends of episodes."""

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
    """Protocol of sensors: any class with these members can be used as a sensor.

    A sensor may also have `goal` (True: its observation is a goal signal), `compressed` (True: its images are sent as
    PNG) and `reset()`, called when an episode begins.
    """

    name: str
    shape: tuple[int, ...]  # (n,), (most, size) or (C, H, W) with numbers within 0..1

    def read(self) -> ArrayLike | bytes:
        """Returns the observation, of `shape`, or its float32 bytes. Called once at each decision and at each end of an
        episode."""
        ...


def float_bytes(sensor: Sensor) -> bytes:
    """Reads a sensor as float32 bytes. Raises EnvError if the observation has another shape than declared."""
    reading = sensor.read()
    return reading if type(reading) is bytes else _as_bytes(sensor, reading)


def _as_bytes(sensor: Sensor, reading: Any) -> bytes:
    try:
        array = np.asarray(reading, np.float32)
    except (TypeError, ValueError) as error:
        raise EnvError(
            f"sensor '{sensor.name}' did not read an array of numbers ({error}); expected shape {sensor.shape}"
        ) from error
    if array.shape != tuple(sensor.shape):
        raise EnvError(f"sensor '{sensor.name}' read shape {array.shape}; it declares {sensor.shape}")
    return array.tobytes()


class VectorSensor:
    """Sensor of a vector, filled in the order of its `add` calls."""

    def __init__(self, size: int, name: str | None = None, *, goal: bool = False) -> None:
        self.name = name or f"VectorSensor_size{size}" + ("_GoalSignal" if goal else "")
        self.shape = (size,)
        self.goal = goal
        self._values: list[Any] = []
        self._packed = Struct(f"{size}f").pack

    def add(self, *values: Any) -> None:
        """Adds numbers, bools, and sequences or arrays of them."""
        self._values += values

    def one_hot(self, index: int, size: int) -> None:
        """Adds `size` numbers: 1 at `index`, 0 elsewhere."""
        if not 0 <= index < size:
            raise EnvError(
                f"sensor '{self.name}': one_hot({index}, {size}) has no such place; expected 0 to {size - 1}"
            )
        row = [0.0] * size
        row[index] = 1.0
        self._values += row

    def read(self) -> bytes:
        """Returns all values added since the last read. Raises EnvError for too many or too few values."""
        values = self._values
        self._values = []
        try:
            return self._packed(*values)
        except (
            StructError,
            TypeError,
            ValueError,
            OverflowError,
            DeprecationWarning,
        ):  # nested values, or invalid ones
            return self._flattened(values)

    def _flattened(self, values: list[Any]) -> bytes:
        if any(value is None for value in values):
            raise EnvError(f"sensor '{self.name}' was given None as its number {values.index(None)}")
        try:
            flat = np.concatenate([np.zeros(0), *(np.asarray(value, np.float64).ravel() for value in values)])
        except (TypeError, ValueError) as error:
            raise EnvError(f"sensor '{self.name}' was given a value that is not a number ({error})") from error
        if len(flat) != self.shape[0]:
            few = "too few" if len(flat) < self.shape[0] else "too many"
            raise EnvError(
                f"sensor '{self.name}' was given {len(flat)} numbers, {few}: {self.shape[0]} are declared; "
                f"declare as many as are added, at every decision the same"
            )
        with np.errstate(over="ignore"):  # infinity is reported later, with its index
            return flat.astype(np.float32).tobytes()


class ImageSensor:
    """Sensor of an image, sent as (C, H, W) within 0..1."""

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
        """Takes the image from `source`, or from `write`. `compressed`: sent as PNG; None: if it is uint8."""
        self.name = name
        self.shape = (channels, height, width)
        self.source = source
        self.goal = goal
        self.compressed = compressed
        self._given: Any = None

    def write(self, image: ArrayLike) -> None:
        """Sets the image, (H, W, C), (C, H, W) or (H, W), floats within 0..1 or uint8; copied when it is read."""
        self._given = image

    def read(self) -> bytes:
        """Returns the image last written, or the image of `source`. Raises EnvError if there is no image, or if its
        shape or its values do not fit."""
        image = np.asarray(self._given if self.source is None else self.source())
        if image.dtype == object:
            raise EnvError(
                f"sensor '{self.name}' has no picture: call its write(image) in collect_observations, or give it a "
                "source="
            )
        channels, height, width = self.shape
        if image.shape == (height, width, channels):
            image = image.transpose(2, 0, 1)
        elif image.shape != self.shape and (channels != 1 or image.shape != (height, width)):
            raise EnvError(
                f"sensor '{self.name}' was given a picture of shape {image.shape}; expected {(height, width, channels)}"
            )
        if self.compressed is None:
            self.compressed = image.dtype == np.uint8
        if image.dtype == np.uint8:
            return (image.astype(np.float32) / 255).tobytes()
        if not np.issubdtype(image.dtype, np.floating):
            raise EnvError(
                f"sensor '{self.name}' was given a picture of {image.dtype}; expected uint8, or floats within 0..1"
            )
        if image.size and not (image.min() >= 0 and image.max() <= 1):
            raise EnvError(
                f"sensor '{self.name}' was given numbers from {image.min()} to {image.max()}; expected floats within "
                "0..1"
            )
        return image.astype(np.float32).tobytes()


class StackedSensor:
    """Stacks the last `count` observations of a vector or image, the oldest first (along channels), zeros at first."""

    def __init__(self, sensor: Sensor, count: int) -> None:
        if len(sensor.shape) not in (1, 3) or count < 1:
            raise EnvError(
                f"sensor '{sensor.name}' of shape {sensor.shape} cannot be stacked {count} times; expected a vector "
                "or an image"
            )
        self.name = f"StackingSensor_size{count}_{sensor.name}"
        self.shape = (count * sensor.shape[0], *sensor.shape[1:])
        self.goal = getattr(sensor, "goal", False)
        self._sensor = sensor
        self._frames: deque[bytes] = deque(maxlen=count)
        self.reset()

    @property
    def compressed(self) -> bool | None:
        """Compression of the stacked sensor."""
        return getattr(self._sensor, "compressed", None)

    def reset(self) -> None:
        """Fills the stack with zeros."""
        size = 4 * prod(self._sensor.shape)
        self._frames.extend([bytes(size)] * (self._frames.maxlen or 0))
        if hasattr(self._sensor, "reset"):
            self._sensor.reset()  # type: ignore[attr-defined]

    def read(self) -> bytes:
        """Reads the sensor and returns the stack, with the new observation last."""
        self._frames.append(float_bytes(self._sensor))
        return b"".join(self._frames)


class BufferSensor:
    """Sensor of a varying number of entities: one row each, at most `most`; the other rows are zeros."""

    goal = False

    def __init__(self, most: int, size: int, name: str = "BufferSensor") -> None:
        self.name = name
        self.shape = (most, size)
        self._rows: list[bytes] = []

    def append(self, *values: Any) -> None:
        """Adds an entity of `size` numbers. Entities beyond `most` are dropped, so append the nearest first."""
        row = (
            np.concatenate([np.asarray(value, np.float32).ravel() for value in values])
            if values
            else np.zeros(0, np.float32)
        )
        if len(row) != self.shape[1]:
            raise EnvError(f"sensor '{self.name}' was given a row of {len(row)} numbers; its rows have {self.shape[1]}")
        if len(self._rows) < self.shape[0]:
            self._rows.append(row.tobytes())

    def read(self) -> bytes:
        """Returns all rows added since the last read."""
        rows = b"".join(self._rows)
        self._rows = []
        return rows.ljust(4 * prod(self.shape), b"\0")


class RaySensor:
    """Ray casts in Unity's layout: for each ray one number per tag, a flag that is 1 if it hit nothing, and the hit
    fraction."""

    goal = False

    def __init__(self, tags: Sequence[str], rays: int, name: str = "RayPerceptionSensor") -> None:
        self.name = name
        self.tags = tuple(tags)
        self.rays = rays
        self.shape = (rays * (len(self.tags) + 2),)
        self._hits: list[tuple[str | None, float] | None] | None = None

    def write(self, hits: Iterable[tuple[str | None, float] | None]) -> None:
        """Sets each ray's result: None for no hit, else the tag (None: a tag that is not declared) and the fraction."""
        self._hits = list(hits)

    def read(self) -> NDArray[np.float32]:
        """Returns all rays. Raises EnvError for a wrong number of rays, or a tag that is not declared."""
        if self._hits is None or len(self._hits) != self.rays:
            given = "none" if self._hits is None else len(self._hits)
            raise EnvError(
                f"sensor '{self.name}' was given {given} of {self.rays} rays; write all of them in collect_observations"
            )
        rows = np.zeros((self.rays, len(self.tags) + 2), np.float32)
        for row, hit in zip(rows, self._hits, strict=True):
            if hit is None:
                row[-2:] = 1
                continue
            tag, row[-1] = hit
            if tag is not None and tag not in self.tags:
                raise EnvError(
                    f"sensor '{self.name}' was given the tag {tag!r}; it declares {', '.join(self.tags) or 'none'}"
                )
            if tag is not None:
                row[self.tags.index(tag)] = 1
        return rows.ravel()
