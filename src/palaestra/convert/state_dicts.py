"""Functions for all readers of plain state_dicts: observations, actions and means, from flags and shapes of weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from palaestra.convert import named_layers as found
from palaestra.convert.convert_options import ConvertOptions, spread_bounds
from palaestra.convert.source_network import ConstantStd, Continuous, Dense, Flatten, Layer, Scaling, SourceObs
from palaestra.convert.vec_normalize import read_statistics
from palaestra.core.errors import ExportError
from palaestra.core.specs import ActionSpec, ObsSpec, RawObs

ATARI = (84, 84)


def vectors(layers: Sequence[Layer], options: ConvertOptions, own: Scaling | None = None) -> tuple[SourceObs, ...]:
    """Returns the vectors that layers read: one vector, or the shapes of --obs-shape. `own`: the file's normalizer."""
    size = found.inputs(layers)
    shapes = options.obs or ((size,),)
    if sum(int(np.prod(shape)) for shape in shapes) != size:
        raise ExportError(
            f"the network reads {size} numbers; --obs-shape names {' and '.join('x'.join(map(str, s)) for s in shapes)}"
        )
    normalizer = own
    if options.normalizer is not None:
        if own is not None:
            raise ExportError(
                f"the file has statistics of observations of its own; leave out --normalizer {options.normalizer}"
            )
        normalizer = read_statistics(options.normalizer).normalizer("")
    if normalizer is not None and normalizer.mean.size != size:
        raise ExportError(f"the statistics are of {normalizer.mean.size} numbers; the network reads {size}")
    seen = list[SourceObs]()
    at = 0
    for i, shape in enumerate(shapes):
        end = at + int(np.prod(shape))
        name = "observation" if len(shapes) == 1 else f"obs_{i}"
        if len(shape) == 3 and normalizer is not None:
            raise ExportError(f"statistics of the image {'x'.join(map(str, shape))} cannot be converted")
        seen.append(
            SourceObs(ObsSpec(name, shape), 1.0, _part(normalizer, at, end), () if len(shape) == 1 else (Flatten(),))
        )
        at = end
    return tuple(seen)


def image(weight: np.ndarray, layers: tuple[Layer, ...], options: ConvertOptions) -> SourceObs:
    """Returns an image of uint8, scaled to 0..1, with its encoder; without --obs-shape of Atari's 84 x 84 pixels."""
    channels = weight.shape[1]
    if options.normalizer is not None:
        raise ExportError(f"--normalizer {options.normalizer}: statistics of an image cannot be converted")
    shape = (channels, *ATARI) if options.obs is None else options.obs[0]
    if (options.obs is not None and len(options.obs) != 1) or len(shape) != 3 or shape[0] != channels:
        raise ExportError(
            f"the network sees one image of {channels} channels; expected --obs-shape {channels}xHEIGHTxWIDTH"
        )
    return SourceObs(ObsSpec("image", shape, raw=RawObs(shape, channels=0, scale=1 / 255)), layers=layers)


def discrete_action(size: int, options: ConvertOptions) -> ActionSpec:
    """Returns the given branches, else one branch with all outputs. Raises ExportError for continuous actions."""
    if options.continuous is not None:
        raise ExportError(f"the file has discrete actions ({size} outputs); expected --actions discrete:CHOICES,...")
    return ActionSpec(0, options.branches or (size,))


def continuous_action(size: int, options: ConvertOptions) -> ActionSpec:
    """Returns continuous actions with the bounds given. Raises ExportError if the flags say otherwise."""
    if options.branches is not None or options.continuous not in (None, size):
        raise ExportError(f"the file has {size} continuous actions; expected --actions continuous:{size}, or none")
    low, high = (None, None) if options.bounds is None else spread_bounds(options.bounds, size)
    return ActionSpec(size, low=low, high=high)


def bounds_of(action: ActionSpec) -> tuple[np.ndarray, np.ndarray] | None:
    """Returns the bounds of continuous actions as arrays; None if there are no bounds."""
    return None if action.low is None or action.high is None else (np.array(action.low), np.array(action.high))


def clipped_head(layer: Dense, std: np.ndarray, action: ActionSpec) -> Continuous:
    """Returns means with constant deviations, clipped to the bounds if there are any."""
    return Continuous((layer,), ConstantStd(std.ravel()), bounds=bounds_of(action))


UNBOUNDED = (
    "the file has no bounds of the actions, so they leave the model as the network gives them; --bounds LOW "
    "HIGH makes -1..1 of them"
)


def _part(normalizer: Scaling | None, start: int, end: int) -> Scaling | None:
    if normalizer is None:
        return None
    return Scaling(normalizer.mean[start:end], normalizer.divisor[start:end], normalizer.limit)
