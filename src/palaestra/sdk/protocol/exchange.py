"""What goes between a game and whoever decides for its agents, whether that is this process or a trainer at the end of a wire."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from palaestra.core.specs import BehaviorSpec
from palaestra.wire.decode import AgentInfos


@dataclass(frozen=True, slots=True)
class AgentOutputs:
    """What the agents of one behavior key said in one exchange: N of them, those that ask and those that ended."""

    key: str  # such as 'Ball?team=0'
    spec: BehaviorSpec
    compressed: tuple[bool, ...]  # of each observation: goes over a wire as PNG
    infos: AgentInfos  # ids, rewards, ends; its fields `mask` and `obs`, which hold bytes of a wire, are empty
    obs: tuple[NDArray[np.float32], ...]  # each (N, *shape)
    mask: NDArray[np.bool_] | None  # (N, choices) True: allowed; None: nothing is forbidden


@dataclass(frozen=True, slots=True)
class AgentActions:
    """What those that asked are to do, in the order in which they did: M rows."""

    continuous: NDArray[np.float32]  # (M, numbers)
    discrete: NDArray[np.int64]  # (M, branches)
