"""All reward signals of a behavior: each has its own discount, strength and, but for the environment's, network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch import Tensor

from palaestra.core.plugins import Registry
from palaestra.core.specs import BehaviorSpec
from palaestra.data.rollout import Rollout, RolloutNeeds, Transitions, TransitionTable
from palaestra.rewards.reward_scaling import EpisodeSums, ReturnScale
from palaestra.rewards.settings import RewardSettings

ROWS_AT_ONCE = 8192
"""Transitions that are judged in one pass."""
EXTRINSIC = "extrinsic"


class LearnedSignal(Protocol):
    """A reward that a network gives. N transitions.

    Constructed as Signal(settings, spec, device, seed); entry points of the group `palaestra.rewards` name the classes.
    """

    ignores_ends: bool
    """A terminated episode is still worth something: what is new or strange does not end with it."""

    def reward(self, batch: Transitions) -> Tensor:
        """(N,), before it is multiplied by `strength`. Called without gradients."""
        ...

    def learn(self, batch: Transitions) -> dict[str, Tensor]:
        """One gradient step. Losses, each (), by their TensorBoard tag."""
        ...

    def learn_statistics(self, obs: tuple[Tensor, ...]) -> None:
        """Takes all observations of a rollout, each (N, *shape), into the normalizer of its network, where there is one."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Weights, optimizer, statistics, random streams."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from there."""
        ...


class RewardSignals:
    """K signals in the order of the settings."""

    def __init__(self, spec: BehaviorSpec, settings: Mapping[str, RewardSettings], device: torch.device, seed: int) -> None:
        """`seed`: of the signals' own weights and random streams. Raises ConfigError, DemoError where a demonstration does not fit."""
        self.names = tuple(settings)
        self.gammas = tuple(one.gamma for one in settings.values())
        self._strengths = tuple(one.strength for one in settings.values())
        self._learned: dict[str, LearnedSignal] = {
            name: Registry("rewards").get(name)(one, spec, device, seed + 100 * i)
            for i, (name, one) in enumerate(settings.items())
            if name != EXTRINSIC
        }
        self._sums = {name: EpisodeSums() for name in self._learned}
        self._scales = {name: ReturnScale(one.gamma) for name, one in settings.items() if one.normalize}

    def __len__(self) -> int:
        return len(self.names)

    @property
    def learned(self) -> bool:
        """Any of them has a network, and needs transitions."""
        return bool(self._learned)

    @property
    def keeps(self) -> RolloutNeeds:
        """What rollouts must have for them."""
        return RolloutNeeds(terminal_views=self.learned)

    @property
    def ignore_ends(self) -> tuple[bool, ...]:
        """(K,) whether a terminated episode is still worth something to each."""
        return tuple(name in self._learned and self._learned[name].ignores_ends for name in self.names)

    @torch.no_grad()
    def of_rollout(self, rollout: Rollout, reward: Tensor, table: TransitionTable | None) -> list[Tensor]:
        """Each signal's rewards (T, S); running scales take them in. `reward` (T, S): the environment's; `table`: where any is learned."""
        columns = []
        for name, strength in zip(self.names, self._strengths, strict=True):
            column = reward
            if name in self._learned:
                assert table is not None
                given = torch.cat([self._learned[name].reward(part) for part in table.parts(ROWS_AT_ONCE)])
                column = torch.zeros_like(reward).view(-1).index_copy_(0, table.rows, given).view_as(reward)
            if name in self._scales:
                column = self._scales[name](column, rollout.terminated | rollout.truncated, rollout.lengths)
            column = column * strength
            if name in self._sums:
                self._sums[name].add(column, rollout)
            columns.append(column)
        return columns

    def measured(self) -> dict[str, float]:
        """The mean over the episodes that ended since the last call of each learned signal's rewards, summed, by tag."""
        means = {f"Policy/{title(name)} Reward": sums.take() for name, sums in self._sums.items()}
        return {tag: mean for tag, mean in means.items() if mean is not None}

    @torch.no_grad()
    def of_batch(self, batch: Transitions) -> Tensor:
        """Rewards (N, K) of any transitions, such as a replay's, as networks and scales are now."""
        columns = []
        for name, strength in zip(self.names, self._strengths, strict=True):
            column = self._learned[name].reward(batch) if name in self._learned else batch.reward
            if name in self._scales:
                column = column / self._scales[name].deviation
            columns.append(column * strength)
        return torch.stack(columns, 1)

    def learn(self, batch: Transitions) -> dict[str, Tensor]:
        """A gradient step of each that has a network. Their losses by tag."""
        losses: dict[str, Tensor] = {}
        for signal in self._learned.values():
            losses |= signal.learn(batch)
        return losses

    def learn_statistics(self, obs: tuple[Tensor, ...]) -> None:
        """All observations of a rollout, each (N, *shape), enter their normalizers."""
        for signal in self._learned.values():
            signal.learn_statistics(obs)

    def state_dict(self) -> dict[str, Any]:
        """Of each signal its network and its scale."""
        return {
            name: {
                **({"network": self._learned[name].state_dict(), "sums": self._sums[name].state_dict()} if name in self._learned else {}),
                **({"scale": self._scales[name].state_dict()} if name in self._scales else {}),
            }
            for name in self.names
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from there."""
        for name in self.names:
            if name in self._learned:
                self._learned[name].load_state_dict(state[name]["network"])
                self._sums[name].load_state_dict(state[name]["sums"])
            if name in self._scales:
                self._scales[name].load_state_dict(state[name]["scale"])


def title(name: str) -> str:
    """A signal's name in TensorBoard tags, as ML-Agents writes it."""
    return {"gail": "GAIL", "rnd": "RND"}.get(name, name.title())
