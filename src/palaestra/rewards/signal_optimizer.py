"""A learned signal's network, and the optimizer that trains it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from palaestra.core.specs import ActionSpec
from palaestra.core.timestep import Action
from palaestra.models.flat_parameters import flatten
from palaestra.models.optimizer import Adam
from palaestra.models.settings import NetworkSettings
from palaestra.parallel.rank_group import ALONE, RankGroup

Network = TypeVar("Network", bound=nn.Module)


class SignalOptimizer(Generic[Network]):
    """A network whose weights are one tensor, and its Adam optimizer."""

    def __init__(
        self,
        make: Callable[[], Network],
        device: torch.device,
        learning_rate: float,
        seed: int,
        group: RankGroup = ALONE,
    ) -> None:
        """`group`: the ranks that average their gradients."""
        self.network = seeded(make, seed).to(device)
        self._weights = flatten(self.network)
        self._optimizer = Adam([self._weights], learning_rate)
        self._group = group

    def step(self, loss: Tensor, rows: int) -> None:
        """Takes one step against the gradient of `loss`, (), a mean over `rows` rows of this rank."""
        assert self._weights.grad is not None
        self._weights.grad.zero_()
        loss.backward()
        self._group.average_gradients([self._weights], rows)
        self._optimizer.step()

    def state_dict(self) -> dict[str, Any]:
        """Returns weights, statistics and optimizer."""
        return {"weights": dict(self.network.state_dict()), "optimizer": self._optimizer.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a saved state."""
        self.network.load_state_dict(state["weights"])
        self._optimizer.load_state_dict(state["optimizer"])


def seeded(make: Callable[[], Network], seed: int) -> Network:
    """Returns the network that `make` makes, with weights from this seed; torch's global random state stays."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return make()


def of_signal(settings: NetworkSettings) -> NetworkSettings:
    """Returns the settings without memory: a signal sees transitions one by one."""
    return settings.model_copy(update={"memory": None})


def flat(action: Action, spec: ActionSpec) -> Tensor:
    """Returns an action as numbers, (N, continuous + choices): its branches one-hot."""
    device = action.continuous.device
    kind = action.continuous.dtype
    # functional.one_hot waits for the device
    one_hot = (
        (action.discrete[:, i : i + 1] == torch.arange(size, device=device)).to(kind)
        for i, size in enumerate(spec.branches)
    )
    return torch.cat([action.continuous, *one_hot], 1)
