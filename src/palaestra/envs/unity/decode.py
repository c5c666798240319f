"""The bytes of a game's message to plain arrays: the one place that reads messages of a tick."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Infos:
    """What one message says of the agents of one behavior key, in its order. N agents; ended and asking ones alike."""

    id: NDArray[np.int64]  # (N,) unique among those that ask; the same id may end and ask
    reward: NDArray[np.float32]  # (N,)
    done: NDArray[np.bool_]  # (N,) the episode ended; else it asks for an action
    cut: NDArray[np.bool_]  # (N,) it ended by a limit, not by what happened: truncated
    group: NDArray[np.int64]  # (N,) 0: none
    group_reward: NDArray[np.float32]  # (N,)
    mask: tuple[bytes, ...]  # N of them; a byte a choice, 1: forbidden; empty: nothing is
    obs: tuple[tuple[bytes, ...], ...]  # a tuple an observation, in it N ObservationProtos


@dataclass(frozen=True, slots=True)
class Incoming:
    """One message of a game."""

    status: int  # 200; anything else: the game says goodbye
    hello: Any  # UnityRLInitializationOutputProto, or None: what the game says of itself and of new behaviors (brain_parameters)
    infos: Mapping[str, Infos]  # by behavior key, such as 'Ball?team=0'; keys without agents are left out
    side_channel: bytes
