"""Observations of several frames, as Unity's stacked sensors: the oldest first, zeros before an episode's first."""

from __future__ import annotations

import warp as wp


@wp.func_native("""
    float* frames = (float*)((char*)obs.data + row * obs.strides[0]);
    int newest = obs.shape[1] - size;
    for (int k = 0; k < newest; ++k) frames[k] = frames[k + size];
    return newest;
""")  # in C++ the compiler moves several numbers at once; the same loop in Warp took a third of PushBlock's whole tick
def shift_frames(obs: wp.array2d(dtype=wp.float32), row: int, size: int) -> int:
    """Moves the frames of this size back by one, and returns the column at which the newest begins."""


@wp.func_native("""
    float* frames = (float*)((char*)obs.data + row * obs.strides[0]);
    for (int k = 0; k < obs.shape[1]; ++k) frames[k] = 0.0f;
""")
def clear_frames(obs: wp.array2d(dtype=wp.float32), row: int):
    """Sets all frames to zero."""
