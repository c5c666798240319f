"""A copy of an environment, as the pool uses it, wherever it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from palaestra.core.timestep import Action
from palaestra.envs.pool.env_server import Call, CopyReply, EnvFacts
from palaestra.envs.pool.shared_tables import SharedTables


class EnvCopy(Protocol):
    """Starts a copy and exchanges tables with it. One request at a time: each is answered before the next."""

    index: int
    title: str
    """Its name in messages, such as 'copy 2 of the environment'."""
    facts: EnvFacts | None
    """None until it has told them for the first time."""
    tables: SharedTables | None
    """Tables of its newest tick."""
    ticks: int
    """Ticks since it started."""
    asked_at: float | None
    """Time of the request that it has not answered; None also before its process can hear."""
    parameters: dict[str, Tensor]
    """Values for its areas that it has not been sent."""
    calls: list[Call]
    """Other methods of the environment that are to be called before its next tick."""

    @property
    def connection(self) -> Any:
        """Has a message, or has ended, when the copy has."""
        ...

    @property
    def waiting(self) -> bool:
        """Whether an answer is outstanding."""
        ...

    def arrives(self) -> bool:
        """Whether its connection has only now been made, so that `connection` is another from now on."""
        ...

    def explain(self) -> str:
        """Returns why it may not have started, as the end of a sentence; empty if nothing is known."""
        ...

    def start(self) -> None:
        """Starts the copy again. Its first message has its facts."""
        ...

    def ask(self, request: str, value: object = None) -> None:
        """Sends a request. Raises WorkerLost if it has ended."""
        ...

    def reset(self, seed: int) -> None:
        """Starts a reset."""
        ...

    def step(self, actions: Mapping[str, Action], slots_of: Mapping[str, NDArray[np.int64]]) -> None:
        """Starts a tick with the actions of its slots."""
        ...

    def receive(self) -> CopyReply:
        """Returns the answer that has arrived. Raises WorkerLost, or what the environment raised."""
        ...

    def leave(self) -> None:
        """Asks the copy to close its environment and to end."""
        ...

    def kill(self) -> None:
        """Ends the copy at once. Safe in a signal handler."""
        ...

    def close(self) -> None:
        """Waits until the copy has ended, which was asked to or was killed. May be called again.

        Raises what the environment raises when it is closed.
        """
        ...
