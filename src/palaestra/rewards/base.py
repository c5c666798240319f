"""The contract of a reward signal; docs/guides/extend/own-reward.md builds one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from palaestra.core.specs import BehaviorSpec
from palaestra.data.transitions import Transitions
from palaestra.rewards.settings import RewardSettings


class RewardSignal(Protocol):
    """Computes a reward from transitions, of which there are N in a batch; most do so with a network that they train.

    A key under `reward_signals` in the YAML names its class: as `package.module:Class`, or by an entry point of the
    group `palaestra.rewards`.
    """

    Settings: ClassVar[type[RewardSettings]]
    """Class of the settings under its name in the YAML; it inherits from `SignalSettings`."""
    ignores_ends: bool
    """Whether the state after a terminated episode has a value, as for novelty, which does not end with an episode."""

    def __init__(self, settings: Any, spec: BehaviorSpec, device: torch.device, seed: int) -> None:
        """`settings` are an instance of `Settings`; all random numbers come from the seed.

        A class that averages its gradients over ranks has a last parameter `group`, a `RankGroup`.
        """
        ...

    def reward(self, batch: Transitions) -> Tensor:
        """Returns each transition's reward, (N,), before it is multiplied by `strength`. Called without gradients."""
        ...

    def learn(self, batch: Transitions) -> dict[str, Tensor]:
        """Takes one gradient step; returns losses, each (), by their TensorBoard tags; empty if none is learned."""
        ...

    def learn_statistics(self, obs: tuple[Tensor, ...]) -> None:
        """Updates the normalizer, if the signal has one, with all observations of a rollout, each (N, *shape)."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Returns weights, optimizer, statistics and random streams: everything that the next reward depends on."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a saved state."""
        ...


class Blinded:
    """A reward signal that never sees the critic's additional observations."""

    def __init__(self, signal: RewardSignal, shown: tuple[int, ...]) -> None:
        """`shown`: the observations that `signal` sees."""
        self.signal = signal
        self._shown = shown
        self.ignores_ends = signal.ignores_ends
        self.state_dict = signal.state_dict
        self.load_state_dict = signal.load_state_dict

    def reward(self, batch: Transitions) -> Tensor:
        """Returns the signal's reward, (N,), of the observations that it sees."""
        return self.signal.reward(self._seen(batch))

    def learn(self, batch: Transitions) -> dict[str, Tensor]:
        """Takes a gradient step with the signal on the observations that it sees."""
        return self.signal.learn(self._seen(batch))

    def learn_statistics(self, obs: tuple[Tensor, ...]) -> None:
        """Passes on the observations that the signal sees."""
        self.signal.learn_statistics(self._of(obs))

    def _seen(self, batch: Transitions) -> Transitions:
        return replace(batch, obs=self._of(batch.obs), next_obs=self._of(batch.next_obs))

    def _of(self, obs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(obs[i] for i in self._shown)


def blinded(signals: Mapping[str, RewardSignal], shown: tuple[int, ...] | None) -> dict[str, Any]:
    """Returns the signals; they see all observations if `shown` is None, else only the observations in `shown`."""
    return {name: signal if shown is None else Blinded(signal, shown) for name, signal in signals.items()}
