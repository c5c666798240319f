"""Data that a game exchanges with the trainer, in the same process or over the wire."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from palaestra.core.specs import BehaviorSpec
from palaestra.wire.decode import AgentInfos


@dataclass(frozen=True, slots=True)
class AgentOutputs:
    """Outputs of N agents of one behavior key in one exchange: decision requests and ends of episodes."""

    key: str  # such as 'Ball?team=0'
    spec: BehaviorSpec
    compressed: tuple[bool, ...]  # whether each observation is sent as PNG
    infos: AgentInfos  # ids, rewards, ends; its fields `mask` and `obs`, for encoded messages, are empty
    obs: tuple[NDArray[np.float32], ...]  # each (N, *shape)
    mask: NDArray[np.bool_] | None  # (N, choices) True: allowed; None: nothing is forbidden


@dataclass(frozen=True, slots=True)
class AgentActions:
    """Actions of the M agents that requested decisions, in the order of their requests."""

    continuous: NDArray[np.float32]  # (M, numbers)
    discrete: NDArray[np.int64]  # (M, branches)
