"""Behavioral cloning alone: supervised learning from demonstration files or from a teacher in the same environment.

A teacher that labels the student's own decisions: Ross et al. 2011, https://arxiv.org/abs/1011.0686 (DAgger, of which
only the newest rollout is kept).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from palaestra.core.errors import ConfigError
from palaestra.core.metrics import Metrics
from palaestra.core.specs import BehaviorSpec
from palaestra.data.rollout import Rollout, RolloutNeeds
from palaestra.data.sequences import SequenceTable
from palaestra.models.actor_critic import ActorCritic
from palaestra.models.distributions import RANGE
from palaestra.models.flat_parameters import optimized
from palaestra.models.optimizer import scheduled
from palaestra.models.policy import NetworkPolicy
from palaestra.parallel.rank_group import ALONE, RankGroup
from palaestra.rewards.demonstrations import load_demonstrations
from palaestra.rewards.expert_decisions import Decisions
from palaestra.trainers.base import refuse
from palaestra.trainers.behavior_settings import BehaviorSettings
from palaestra.trainers.imitation import Imitation, ImitationBatches, imitation_batches
from palaestra.trainers.settings import LAST_LEARNING_RATE, BCSettings
from palaestra.trainers.trainer_setup import Parts, actor_critic_of, seeded_generator, seeded_network

LEAST_DEVIATION = 0.02
"""Smallest standard deviation of actions, in the environment's scale: some is left for exploration."""

MANY_PASSES = 40
"""Passes over demonstrations from which on there is a warning. Of 100 episodes of an earlier PushBlock (mean reward
4.92) clones reached 4.84 after 22 passes and 4.58 after 87."""


class BC:
    """Learns from demonstrations if there are any, and otherwise from rollouts with a teacher's actions."""

    Settings = BCSettings

    def __init__(
        self, spec: BehaviorSpec, settings: BehaviorSettings, device: torch.device, seed: int, group: RankGroup = ALONE
    ) -> None:
        """Raises ConfigError, DemoError where the settings or the demonstrations do not fit."""
        assert isinstance(settings.hyperparameters, BCSettings)
        if settings.behavioral_cloning or settings.self_play:
            wrong = "behavioral_cloning" if settings.behavioral_cloning else "self_play"
            raise ConfigError(
                f"bc only imitates: leave out {wrong}; its hyperparameters name what it imitates, as demo_path or "
                "teacher"
            )
        refuse("bc", spec, settings, memory=True)
        self.settings = settings
        self.hyper = settings.hyperparameters
        self.group = group
        self.network = seeded_network(self.make_network, spec, settings, device, seed)
        parameters = optimized(self.network.parameters(), flat=self.network.plain)
        self.action_rng = seeded_generator(device, seed + 1, group)
        self.shuffle_rng = seeded_generator(device, seed + 2, group)
        self.policy = NetworkPolicy(self.network, self.action_rng, settings.network_settings.deterministic)
        self.imitation = Imitation(self.network, parameters, self.shuffle_rng, group)
        self._parts = Parts(
            network=self.network,
            optimizer=self.imitation.optimizer,
            action_rng=self.action_rng,
            shuffle_rng=self.shuffle_rng,
        )
        self.rollout_size = group.share(self.hyper.buffer_size)
        self.needs = RolloutNeeds()
        memory = settings.network_settings.memory
        self._sequence_length = None if memory is None else memory.sequence_length
        self._demonstrated: ImitationBatches | None = None
        if self.hyper.demo_path is not None:
            self._demonstrated = imitation_batches(
                load_demonstrations(self.hyper.demo_path, self.network.spec, device),
                self.network,
                self._sequence_length,
            )
            self._learn_statistics(self._demonstrated, ALONE)  # every rank has the same demonstrations
        self._reported = False

    @staticmethod
    def make_network(spec: BehaviorSpec, settings: BehaviorSettings) -> ActorCritic:
        """Returns PPO's network, so that a PPO run can start from the result; the critic keeps its initial weights."""
        return actor_critic_of(spec, settings)

    def remarks(self) -> list[str]:
        """Returns a remark on how often each demonstration will be used; only the first call returns it."""
        if self._reported or self._demonstrated is None:
            return []
        self._reported = True
        decisions = len(self._demonstrated)
        passes = max(1, round(self.settings.max_steps * self.hyper.num_epoch / decisions))
        remark = f"It learns from {decisions:,} demonstrated decisions, in some {passes:,} passes until max_steps"
        memorized = "; a clone that knows single decisions by heart may get stuck: record more, or lower max_steps"
        return [remark + memorized if passes > MANY_PASSES else remark]

    def update(self, rollout: Rollout, step: int) -> Metrics:
        """Makes `num_epoch` passes over the rollout, or as many gradient steps on the demonstrations."""
        hyper = self.hyper
        learning_rate = scheduled(
            hyper.learning_rate_schedule, hyper.learning_rate, LAST_LEARNING_RATE, step, self.settings.max_steps
        )
        demonstrated = self._demonstrated
        if demonstrated is None:
            demonstrated = self._batches(rollout)
            self._learn_statistics(demonstrated, self.group)
        decisions = rollout.reward.numel() if rollout.lengths is None else int(rollout.lengths.sum())
        count = hyper.num_epoch * max(1, int(self.group.total(decisions)) // hyper.batch_size)
        loss, errors = self.imitation.learn(
            demonstrated, size=self.group.share(hyper.batch_size), count=count, learning_rate=learning_rate
        )
        self.group.average([errors], 1.0)
        self._set_log_std(errors)
        metrics = Metrics()
        metrics.add({"Losses/Cloning Loss": loss, "Policy/Learning Rate": learning_rate})
        return metrics

    def _batches(self, rollout: Rollout) -> ImitationBatches:
        shown = self.network.shown
        obs = tuple(map(rollout.completed, rollout.obs if shown is None else (rollout.obs[i] for i in shown)))
        mask = None if rollout.action_mask is None else rollout.completed(rollout.action_mask)
        recurrent_state = rollout.completed(rollout.recurrent_state)
        if not recurrent_state.shape[1]:  # a teacher knows nothing of what its pupils would have remembered
            recurrent_state = recurrent_state.new_zeros((1, self.network.memory_size)).expand(len(recurrent_state), -1)
        length = self._sequence_length
        table = None if length is None else SequenceTable(rollout, length, recurrent_state)
        return ImitationBatches(Decisions(obs, rollout.sample.each(rollout.completed), mask), table)

    def _learn_statistics(self, batches: ImitationBatches, group: RankGroup) -> None:
        """Takes the teachers' observations on all ranks of `group` into the normalizer."""
        parts = [tuple(part.obs[i] for i in self.network.vectors) for part in batches.decisions.parts()]
        most = -group.least(-len(parts))
        parts += [tuple(x[:0] for x in parts[0])] * (most - len(parts))
        for part in parts:
            self.network.learn_statistics(part, group)

    @torch.no_grad()
    def _set_log_std(self, errors: Tensor) -> None:
        """Sets the deviation that makes the shown actions most likely, the errors' root mean square, or the least."""
        self.network.log_std.copy_((errors.sqrt().clamp(min=LEAST_DEVIATION) * RANGE).log())

    def state_dict(self) -> dict[str, Any]:
        """Returns everything on which the next decision and update depend; demonstrations stay in their files."""
        return self._parts.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a saved state, so that training continues bit for bit."""
        self._parts.load_state_dict(state)
