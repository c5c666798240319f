"""A trainer of one's own that learns on-policy: advantage actor-critic, for any actions, with memory or without:
`examples/a2c.yaml`.

Mnih et al. 2016, https://arxiv.org/abs/1602.01783, all actors in step with one another; advantages by GAE (lambd: 1 is
the paper's), and normalized, which it does not do. What a trainer must have stands in
docs/guides/extend/own-trainer.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from palaestra.core.metrics import Metrics
from palaestra.core.settings import Settings
from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Action
from palaestra.data.rollout import Rollout, RolloutNeeds
from palaestra.data.sequences import SequenceTable
from palaestra.models.actor_critic import ActorCritic
from palaestra.models.distributions import log_prob_and_entropy
from palaestra.models.optimizer import Adam, scheduled
from palaestra.models.policy import NetworkPolicy
from palaestra.parallel.rank_group import ALONE, RankGroup
from palaestra.rewards.signals import RewardSignals
from palaestra.trainers.advantages import ValueEstimates, generalized_advantages
from palaestra.trainers.base import refuse
from palaestra.trainers.behavior_settings import BehaviorSettings
from palaestra.trainers.trainer_setup import Parts


class A2CSettings(Settings):
    """The `hyperparameters` in the YAML, checked as ours are."""

    rollout_size: int = Field(default=512, gt=0)  # decisions of one gradient step
    learning_rate: float = Field(default=1e-3, gt=0)  # falls to 0 until max_steps
    beta: float = Field(default=0.01, ge=0)  # entropy coefficient
    lambd: float = Field(default=0.95, ge=0, le=1)
    value_coef: float = Field(default=0.5, ge=0)
    max_grad_norm: float = Field(default=0.5, gt=0)
    shared_critic: bool = False


class A2C:
    """Takes one gradient step for each rollout, which is then thrown away."""

    Settings = A2CSettings

    def __init__(
        self,
        spec: BehaviorSpec,
        settings: BehaviorSettings,
        device: torch.device,
        seed: int,
        group: RankGroup = ALONE,
    ) -> None:
        refuse("A2C", spec, settings, memory=True)
        assert isinstance(settings.hyperparameters, A2CSettings)
        self.settings = settings
        self.hyper = settings.hyperparameters
        self.group = group
        torch.manual_seed(seed)
        self.network = self.make_network(spec, settings).to(device)
        self.optimizer = Adam(list(self.network.parameters()), self.hyper.learning_rate)
        self.action_rng = torch.Generator(device).manual_seed(group.own_seed(seed + 1))
        self.policy = NetworkPolicy(self.network, self.action_rng, settings.network_settings.deterministic)
        self.signals = RewardSignals(spec, settings.reward_signals, device, seed, group)
        self.rollout_size = group.share(self.hyper.rollout_size)
        self.needs = RolloutNeeds()

    @staticmethod
    def make_network(spec: BehaviorSpec, settings: BehaviorSettings) -> ActorCritic:
        """Returns a fresh network, like `network`."""
        assert isinstance(settings.hyperparameters, A2CSettings)
        return ActorCritic(spec, settings.network_settings, shared_critic=settings.hyperparameters.shared_critic)

    def update(self, rollout: Rollout, step: int) -> Metrics:
        """Takes a step along policy gradient, value loss and entropy over all completed decisions at once."""
        hyper = self.hyper
        network = self.network
        metrics = Metrics()
        memory = self.settings.network_settings.memory
        table = None if memory is None else SequenceTable(rollout, memory.sequence_length)
        rewards = self.signals.of_rollout(rollout, rollout.reward + rollout.group_reward, None)
        with torch.no_grad():
            estimates = ValueEstimates(network, rollout, table)
            values = estimates.of(rewards, self.signals, self.settings.time_horizon)
            advantage = generalized_advantages(values, self.signals.gammas, hyper.lambd)
            rows = estimates.training_rows(advantage, values.value, advantage + values.value, self.group)
        if table is not None:  # rows are put in the order of their sequences
            ((order, sequences),) = table.take([np.arange(len(table))])
            rows = rows.take(order, sequences)
        output, value = network(rows.inputs, rows.sequences)
        action = Action(rows.continuous, rows.discrete)
        log_prob, entropy = log_prob_and_entropy(output, network.log_std, rows.mask, action, network.spec.action)
        policy_loss = -(log_prob.sum(1) * rows.advantage).mean()
        value_loss = (value - rows.target).square().mean()
        loss = policy_loss + hyper.value_coef * value_loss - hyper.beta * entropy.mean()
        self._step(loss, len(rows.advantage), step)
        network.learn_statistics(tuple(rollout.completed(rollout.obs[i]) for i in network.vectors), self.group)
        metrics.add({"Losses/Policy Loss": policy_loss.detach().abs(), "Losses/Value Loss": value_loss.detach()})
        metrics.add(
            {"Policy/Entropy": entropy.detach().mean(), "Policy/Extrinsic Value Estimate": value.detach().mean()}
        )
        metrics.add({"Policy/Learning Rate": self.optimizer.learning_rate})
        return metrics

    def _step(self, loss: Tensor, rows: int, step: int) -> None:
        self.optimizer.learning_rate = scheduled("linear", self.hyper.learning_rate, 0.0, step, self.settings.max_steps)
        self.network.zero_grad()
        loss.backward()
        self.group.average_gradients(list(self.network.parameters()), rows)  # of all processes
        nn.utils.clip_grad_norm_(self.network.parameters(), self.hyper.max_grad_norm)
        self.optimizer.step()

    def state_dict(self) -> dict[str, Any]:
        """Returns everything that the next decision and update depend on."""
        return self._parts().state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a saved state."""
        self._parts().load_state_dict(state)

    def _parts(self) -> Parts:
        return Parts(network=self.network, optimizer=self.optimizer, signals=self.signals, action_rng=self.action_rng)
