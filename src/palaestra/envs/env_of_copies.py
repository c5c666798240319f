"""An environment of several copies: what Unity games and pools have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Generic

import torch
from torch import Tensor

from palaestra.core.errors import EnvError
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.copies import C, Copies


class EnvOfCopies(ABC, Generic[C]):
    """An environment that steps all copies at once. A tick holds the copies that are ready; rows of the other copies
    are inactive. It cannot be saved."""

    def __init__(self, copies: Copies[C]) -> None:
        self.copies = copies
        self.device = torch.device("cpu")

    @abstractmethod
    def send(self, actions: Mapping[str, Action]) -> None:
        """Starts a tick in the copies whose agents acted in the newest tables."""

    @abstractmethod
    def _tables_of_tick(self) -> dict[str, TimeStep]:
        """Returns the tables of the copies that are ready."""

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        """Starts a tick in the copies of the newest tables and waits for the next. Raises GameGone if a copy is not to
        be restarted."""
        self.send(actions)
        return self.receive()

    def receive(self) -> dict[str, TimeStep]:
        """Waits until a copy is ready or has failed, and returns the tables of all copies that are ready. Raises
        GameGone if a copy is not to be restarted."""
        copies = self.copies
        copies.gather()
        while not (copies.ready or copies.failed or copies.interrupted):
            copies.gather()
        return self._tables_of_tick()

    def state_dict(self) -> dict[str, Tensor]:
        """Returns an empty state: copies in other processes are not saved."""
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Raises EnvError unless the state is empty."""
        if state:
            raise EnvError(
                "an environment in other processes cannot be restored from a saved state (this one has "
                f"{', '.join(state)})"
            )

    def interrupt(self) -> None:
        """Makes a waiting `receive` or `reset` return soon, with the ready copies. Safe in a signal handler."""
        self.copies.interrupt()

    def abandon(self) -> None:
        """Ends all copies at once. Safe in a signal handler."""
        self.copies.kill()

    def close(self) -> None:
        """Ends all copies. May be called again. Then raises the first error of a copy that cannot be closed."""
        self.copies.close()
