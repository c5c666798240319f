"""PPO and SAC that learn from each decision and from its mirror image.

Mittal et al. 2024, https://arxiv.org/abs/2403.04359, section IV-A, and the extension of rsl_rl: advantages and targets
are taken from the original decision; the old probability of the mirrored action is computed with the actor before the
update.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import wraps
from typing import Any

import torch
from torch import Tensor

from palaestra.core.errors import ConfigError
from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Action
from palaestra.data.replay import ReplayBatch
from palaestra.data.rollout import Minibatch, Rollout, passes
from palaestra.data.transitions import Transitions
from palaestra.models.actor_critic import ActorCritic
from palaestra.models.distributions import log_prob_and_entropy
from palaestra.parallel.rank_group import RankGroup
from palaestra.rewards.signals import RewardSignals
from palaestra.trainers.advantages import VALUE_ROWS, ValueEstimates
from palaestra.trainers.behavior_settings import BehaviorSettings
from palaestra.trainers.poca import POCA
from palaestra.trainers.ppo import PPO
from palaestra.trainers.sac import SAC
from palaestra.trainers.stale_rollouts import every_output
from palaestra.trainers.symmetry.mirror import Mirror


class MirroredEstimates(ValueEstimates):
    """Estimates of a rollout whose minibatches hold each decision twice: the original, and its mirror image."""

    def __init__(self, network: ActorCritic, rollout: Rollout, mirror: Mirror) -> None:
        super().__init__(network, rollout, None)
        self._mirror = mirror

    def passes(
        self, rows: Minibatch, size: int, epochs: int, generator: torch.Generator, group: RankGroup
    ) -> Iterator[Iterator[Minibatch]]:
        """Yields minibatches of `size` decisions and their mirror images, side by side."""
        pairs = zip(rows.columns(), self.mirrored(rows).columns(), strict=True)
        both = rows.with_columns([torch.stack(pair, 1) for pair in pairs])
        for minibatches in passes(both, size=size, epochs=epochs, generator=generator, group=group):
            yield (each.with_columns([column.flatten(0, 1) for column in each.columns()]) for each in minibatches)

    @torch.no_grad()
    def mirrored(self, rows: Minibatch) -> Minibatch:
        """Returns the mirror image of each row, with the advantage and target of the original."""
        mirror, network = self._mirror, self.network
        inputs = network.prepare(mirror.obs(tuple(map(self.rollout.completed, self.rollout.obs))))
        mask = None if rows.mask is None else mirror.mask(rows.mask)
        action = mirror.action(Action(rows.continuous, rows.discrete))
        output = every_output(network, inputs, VALUE_ROWS)
        log_prob, _ = log_prob_and_entropy(output, network.log_std, mask, action, network.spec.action)
        changed = {"inputs": inputs, "continuous": action.continuous, "discrete": action.discrete, "mask": mask}
        return replace(rows, **changed, log_prob=log_prob, value=self._values(inputs))


def with_mirror_image(batch: ReplayBatch, mirror: Mirror) -> ReplayBatch:
    """Returns decisions that were drawn one by one, and after them the mirror image of each."""
    count = len(batch.reward)

    def together(own: Tensor, image: Tensor) -> Tensor:
        return torch.cat([own[:count], image[:count], own[count:], image[count:]])  # as `ReplayBatch` has them

    action, other = batch.action, mirror.action(batch.action)
    discrete = torch.cat([action.discrete, other.discrete.to(action.discrete.dtype)])
    return replace(
        batch,
        obs=tuple(map(together, batch.obs, mirror.obs(batch.obs))),
        masks=None if batch.masks is None else together(batch.masks, mirror.mask(batch.masks)),
        now=slice(0, 2 * count),
        after=slice(2 * count, 4 * count),
        action=Action(torch.cat([action.continuous, other.continuous]), discrete),
        **{name: getattr(batch, name).repeat(2) for name in ("reward", "terminated", "ended")},
        steps=None if batch.steps is None else batch.steps.repeat(2),
    )


class RewardsOfOriginals:
    """Reward signals that rate the first half of a batch that `with_mirror_image` doubled: images earn the same."""

    def __init__(self, signals: RewardSignals) -> None:
        self._signals = signals
        self.names = signals.names

    def of_batch(self, batch: Transitions) -> Tensor:
        """Returns the rewards (2 N, K) of N decisions and their mirror images."""
        first = slice(len(batch) // 2)
        obs, next_obs = (tuple(x[first] for x in seen) for seen in (batch.obs, batch.next_obs))
        rest = (x[first] for x in (batch.reward, batch.terminated, batch.ended))
        own = Transitions(obs, batch.action.each(lambda x: x[first]), next_obs, *rest)
        return self._signals.of_batch(own).repeat(2, 1)


def mirrored(kind: type[Any], settings: BehaviorSettings) -> type[Any]:
    """Returns a trainer's class that also learns from mirror images. Raises ConfigError if the trainer or its settings
    do not allow this."""
    why = ""
    if settings.network_settings.memory is not None:
        why = "what an agent remembers of a mirrored episode is not known: leave out network_settings.memory, or mirror"
    elif issubclass(kind, POCA):
        why = "poca judges whole groups, of which one member cannot be mirrored alone: use ppo or sac, or leave it out"
    elif not issubclass(kind, PPO | SAC):
        why = f"only ppo, sac and subclasses of them learn from it, not {settings.trainer_type}"
    if why:
        raise ConfigError(f"mirror: {why}")

    base: Any = kind

    class Mirrored(base):
        __module__, __qualname__ = kind.__module__, kind.__qualname__

        @wraps(base.__init__)  # its parameters say whether it learns with other ranks
        def __init__(self, spec: BehaviorSpec, *given: Any, **named: Any) -> None:
            super().__init__(spec, *given, **named)
            assert self.settings.mirror is not None
            self._mirror = Mirror(self.settings.mirror, spec, self.action_rng.device)
            if issubclass(kind, SAC):
                self.gradient.signals = RewardsOfOriginals(self.signals)

        def _estimates(self, rollout: Rollout) -> MirroredEstimates:  # of PPO
            return MirroredEstimates(self.network, rollout, self._mirror)

        def _draw(self) -> ReplayBatch:  # of SAC
            return with_mirror_image(super()._draw(), self._mirror)

    Mirrored.__name__ = kind.__name__
    return Mirrored
