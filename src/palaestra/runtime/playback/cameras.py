"""Pictures of agents' observations, for environments that draw nothing themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import TimeStep
from palaestra.runtime.play.assigned_brains import AgentKey

HEIGHT = 240
"""Height in pixels to which small pictures are enlarged."""
MOST = 4
"""Most agents that are shown."""
GAP = 4


def has_cameras(behaviors: Mapping[str, BehaviorSpec]) -> bool:
    """Whether the agents of some behavior observe pictures of one or three channels."""
    return any(_is_picture(part.shape) for spec in behaviors.values() for part in spec.obs)


def camera_pictures(
    behaviors: Mapping[str, BehaviorSpec], steps: Mapping[str, TimeStep], agents: Sequence[AgentKey]
) -> NDArray[np.uint8] | None:
    """Returns the pictures that these agents (else the first agents) observe, side by side (H, W, 3); None without
    pictures."""
    cameras = [
        (name, number)
        for name, spec in behaviors.items()
        if name in steps
        for number, part in enumerate(spec.obs)
        if _is_picture(part.shape)
    ]
    chosen = [(name, slot) for name, slot in agents if name in steps and slot < len(steps[name].acting)]
    if not any(name == camera for name, _ in chosen for camera, _ in cameras):
        chosen = [(name, slot) for name in dict(cameras) for slot in steps[name].acting.nonzero()[:, 0].tolist()]
    shown = [
        _colored(steps[name].obs[number][slot].cpu().numpy())
        for name, slot in chosen[:MOST]
        for camera, number in cameras
        if camera == name
    ]
    return _side_by_side(shown) if shown else None


def _is_picture(shape: Sequence[int]) -> bool:
    return len(shape) == 3 and shape[0] in (1, 3)


def _colored(values: NDArray[np.float32]) -> NDArray[np.uint8]:
    picture = (np.clip(np.moveaxis(values, 0, -1), 0, 1) * 255).astype(np.uint8)
    factor = max(1, HEIGHT // picture.shape[0])
    return np.broadcast_to(picture, (*picture.shape[:2], 3)).repeat(factor, 0).repeat(factor, 1)


def _side_by_side(pictures: list[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    height = max(len(picture) for picture in pictures)
    parts = [np.pad(picture, ((0, height - len(picture)), (0, GAP), (0, 0))) for picture in pictures]
    return np.concatenate(parts, axis=1)[:, :-GAP]
