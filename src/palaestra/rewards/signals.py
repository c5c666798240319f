"""All reward signals of a behavior together, with discount, strength and normalization."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from palaestra.core.errors import PluginError
from palaestra.core.specs import BehaviorSpec
from palaestra.data.rollout import Rollout, RolloutNeeds
from palaestra.data.transitions import Transitions, TransitionTable
from palaestra.parallel.rank_group import ALONE, RankGroup
from palaestra.parallel.rank_setup import make_in_group
from palaestra.rewards.base import RewardSignal, blinded
from palaestra.rewards.reward_scaling import EpisodeSums, ReturnScale
from palaestra.rewards.settings import REWARDS, RewardSettings, signal_class

ROWS_AT_ONCE = 8192
"""Transitions that are rewarded in one pass."""
EXTRINSIC = "extrinsic"


class RewardSignals:
    """K reward signals of a behavior, in the order of its settings."""

    def __init__(
        self,
        spec: BehaviorSpec,
        settings: Mapping[str, RewardSettings],
        device: torch.device,
        seed: int,
        group: RankGroup = ALONE,
        shown: tuple[int, ...] | None = None,
        limit: float | None = None,
    ) -> None:
        """Makes the signals, whose weights and random streams come from `seed`. `group`: the ranks that learn them
        together; `shown`: which of the given observations `spec` has (`Trunk.shown`); `limit`: the largest normalized
        return, strengths above 1 included. Raises PluginError, ConfigError, and DemoError where a demonstration does
        not fit."""
        self.names = tuple(settings)
        self.gammas = tuple(one.gamma for one in settings.values())
        self._strengths = tuple(one.strength for one in settings.values())
        self._learned: dict[str, RewardSignal] = {
            name: make_in_group(signal_class(name), group, f"reward signal '{name}'", one, spec, device, seed + 100 * i)
            for i, (name, one) in enumerate(settings.items())
            if name != EXTRINSIC
        }
        self._learned = blinded(self._learned, shown)
        self._sums = {name: EpisodeSums() for name in self._learned}
        self.scales = {
            name: ReturnScale(one.gamma, group, None if limit is None else limit / max(one.strength, 1.0))
            for name, one in settings.items()
            if one.normalize
        }
        """Scales of normalized signals, before their strengths."""

    def __len__(self) -> int:
        return len(self.names)

    @property
    def learned(self) -> bool:
        """Whether any signal other than the environment's reward is used; such signals need transitions."""
        return bool(self._learned)

    @property
    def needs(self) -> RolloutNeeds:
        """Additional parts that rollouts must have for the signals."""
        return RolloutNeeds(terminal_obs=self.learned)

    @property
    def ignore_ends(self) -> tuple[bool, ...]:
        """Whether terminated episodes still have a value, for each of the K signals."""
        return tuple(name in self._learned and self._learned[name].ignores_ends for name in self.names)

    @torch.no_grad()
    def of_rollout(
        self, rollout: Rollout, reward: Tensor, table: TransitionTable | None, again: bool = False
    ) -> list[Tensor]:
        """Returns each signal's rewards, (T, S), and updates the running scales with them.

        `reward` (T, S) is the environment's; `table` holds the rollout's transitions, if any signal is `learned`.
        `again`: the scales already know these rewards.
        """
        columns = []
        for name, strength in zip(self.names, self._strengths, strict=True):
            column = reward
            if name in self._learned:
                assert table is not None
                given = torch.cat([self._reward(name, part) for part in table.parts(ROWS_AT_ONCE)])
                column = torch.zeros_like(reward).view(-1).index_copy_(0, table.rows, given).view_as(reward)
            if name in self.scales and again:
                column = column / self.scales[name].deviation
            elif name in self.scales:
                column = self.scales[name](
                    column, rollout.terminated | rollout.truncated, rollout.lengths, rollout.anew
                )
            column = column * strength
            if name in self._sums and not again:
                self._sums[name].add(column, rollout)
            columns.append(column)
        return columns

    @torch.no_grad()
    def of_batch(self, batch: Transitions) -> Tensor:
        """Returns the rewards (N, K) of any transitions, such as a replay's, with the current networks and scales."""
        columns = []
        for name, strength in zip(self.names, self._strengths, strict=True):
            column = self._reward(name, batch) if name in self._learned else batch.reward
            if name in self.scales:
                column = column / self.scales[name].deviation
            columns.append(column if strength == 1 else column * strength)
        return torch.stack(columns, 1) if len(columns) > 1 else columns[0].unsqueeze(1)

    def _reward(self, name: str, batch: Transitions) -> Tensor:
        """Returns a learned signal's rewards (N,). Raises PluginError where a user's class returns anything else."""
        found = self._learned[name].reward(batch)
        if name in REWARDS or (
            isinstance(found, Tensor) and found.shape == batch.reward.shape and found.dtype == batch.reward.dtype
        ):
            return found
        kind = f"a tensor {tuple(found.shape)} of {found.dtype}" if isinstance(found, Tensor) else repr(found)
        raise PluginError(
            f"reward signal '{name}' returned {kind} for {len(batch)} transitions; expected ({len(batch)},) of "
            f"{batch.reward.dtype}"
        )

    def measured(self) -> dict[str, float]:
        """Returns the mean return of each learned signal over the episodes that ended since the last call, by tag."""
        means = {f"Policy/{title(name)} Reward": sums.take() for name, sums in self._sums.items()}
        return {tag: mean for tag, mean in means.items() if mean is not None}

    def learn(self, batch: Transitions) -> dict[str, Tensor]:
        """Takes a gradient step with each signal that learns; returns their losses by tag."""
        losses: dict[str, Tensor] = {}
        for signal in self._learned.values():
            losses |= signal.learn(batch)
        return losses

    def learn_statistics(self, obs: tuple[Tensor, ...]) -> None:
        """Updates the signals' observation normalizers with all observations of a rollout, each (N, *shape)."""
        for signal in self._learned.values():
            signal.learn_statistics(obs)

    def state_dict(self) -> dict[str, Any]:
        """Returns each signal's network, sums of unfinished episodes and scale, by its name."""
        return {name: {part: one.state_dict() for part, one in self._parts(name).items()} for name in self.names}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a saved state. A scale that the saved run did not have starts empty."""
        for name in self.names:
            for part, one in self._parts(name).items():
                if part != "scale" or part in state[name]:
                    one.load_state_dict(state[name][part])

    def _parts(self, name: str) -> dict[str, Any]:
        """Returns the part of these values that belongs to a signal."""
        parts = {"network": self._learned, "episode_sums": self._sums, "scale": self.scales}
        return {part: signals[name] for part, signals in parts.items() if name in signals}


def title(name: str) -> str:
    """Returns a signal's name in TensorBoard tags, as in ML-Agents; for `package.module:Class` the class name."""
    return name.rpartition(":")[2] if ":" in name else name.capitalize()
