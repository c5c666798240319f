"""Snapshots of a policy: their weights, and the networks that act with them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from torch import nn

from palaestra.models.policy import Actor
from palaestra.runtime.storage.shared_tensors import Shared


class PolicySnapshots:
    """Weights of a policy at earlier times, by number."""

    def __init__(self, live: nn.Module, make_network: Callable[[], Any]) -> None:
        """`live`: the policy's network. `make_network`: makes an `Actor` of its shape, on its device."""
        self._live = live
        self._make_network = make_network
        self._weights: dict[int, Shared] = {}
        self._networks: dict[int, Any] = {}
        self._spare: list[Any] = []

    @property
    def numbers(self) -> list[int]:
        """Numbers of the snapshots that are kept."""
        return list(self._weights)

    def take(self, number: int, network: nn.Module | None = None) -> None:
        """Keeps the current weights of the policy, or of another network of its shape, under a number."""
        self._networks.pop(number, None)
        weights = (network or self._live).state_dict()
        self._weights[number] = Shared({key: value.detach().clone() for key, value in weights.items()})

    def keep(self, numbers: Collection[int]) -> None:
        """Forgets all other snapshots."""
        for number in self._weights.keys() - set(numbers):
            del self._weights[number]
            if number in self._networks:
                self._spare.append(self._networks.pop(number))

    def weights(self, number: int) -> Shared:
        """Returns the weights of a snapshot."""
        return self._weights[number]

    def network(self, number: int) -> Actor:
        """Returns a network with the weights of a snapshot."""
        if number not in self._networks:
            network = self._spare.pop() if self._spare else self._make_network().requires_grad_(False).eval()
            network.load_state_dict(self._weights[number].tensors)
            self._networks[number] = network
        return self._networks[number]

    def state_dict(self) -> dict[str, Any]:
        """Returns the weights."""
        return {str(number): weights for number, weights in self._weights.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the weights of a checkpoint."""
        device = next(self._live.parameters()).device
        weights = {number: {key: x.to(device) for key, x in tensors.items()} for number, tensors in state.items()}
        self._weights = {int(number): Shared(tensors) for number, tensors in weights.items()}
        self._networks.clear()
