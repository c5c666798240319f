"""A trainer of one's own that learns on-policy: advantage actor-critic, for any actions, with memory or without: `examples/a2c.yaml`.

Mnih et al. 2016, https://arxiv.org/abs/1602.01783, all actors in step with one another; advantages by GAE (lambd: 1 is
the paper's), and normalized, which it does not do. What a trainer must have stands in docs/guides/own-trainer.md.
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
from palaestra.losses.returns import gae, horizon_cuts, normalized
from palaestra.models.actor_critic import ActorCritic
from palaestra.models.distributions import log_prob_and_entropy
from palaestra.models.optimizer import Adam
from palaestra.models.policy import NetworkPolicy
from palaestra.rewards.signals import RewardSignals
from palaestra.trainers.bc import refuse
from palaestra.trainers.behavior_settings import BehaviorSettings
from palaestra.trainers.settings import scheduled
from palaestra.trainers.values import ValueEstimates, settled


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
    """One gradient step for each rollout, which is then thrown away."""

    Settings = A2CSettings

    def __init__(self, spec: BehaviorSpec, settings: BehaviorSettings, device: torch.device, seed: int) -> None:
        refuse("A2C", spec, settings, memory=True)
        assert isinstance(settings.hyperparameters, A2CSettings)
        self.settings, self.hyper = settings, settings.hyperparameters
        torch.manual_seed(seed)
        self.network = self.make_network(spec, settings).to(device)
        self.optimizer = Adam(list(self.network.parameters()), self.hyper.learning_rate)
        self.chance = torch.Generator(device).manual_seed(seed + 1)
        self.policy = NetworkPolicy(self.network, self.chance, settings.network_settings.deterministic)
        self.signals = RewardSignals(spec, settings.reward_signals, device, seed)
        self.rollout_size, self.keeps = self.hyper.rollout_size, RolloutNeeds()

    @staticmethod
    def make_network(spec: BehaviorSpec, settings: BehaviorSettings) -> ActorCritic:
        """As `network`, fresh."""
        assert isinstance(settings.hyperparameters, A2CSettings)
        return ActorCritic(spec, settings.network_settings, shared_critic=settings.hyperparameters.shared_critic)

    def update(self, rollout: Rollout, step: int) -> Metrics:
        """Policy gradient, value loss and entropy over all settled decisions at once."""
        hyper, network, metrics = self.hyper, self.network, Metrics()
        memory = self.settings.network_settings.memory
        table = None if memory is None else SequenceTable(rollout, memory.sequence_length)
        critique = ValueEstimates(network, rollout, table)
        advantage, target = self._returns(rollout, critique)
        columns = (rollout.sample.continuous, rollout.sample.discrete, advantage, target, rollout.memory)
        mask = None if rollout.action_mask is None else settled(rollout, (rollout.action_mask,))[0]
        continuous, discrete, advantage, target, remembered = settled(rollout, columns)
        inputs, sequences = critique.inputs, None
        if table is not None:  # rows change their order: those of a sequence stand one after another
            ((rows, sequences),) = table.take([np.arange(len(table))], remembered)
            inputs = tuple(x[rows] for x in inputs)
            continuous, discrete, advantage, target = (x[rows] for x in (continuous, discrete, advantage, target))
            mask = None if mask is None else mask[rows]
        output, value = network(inputs, sequences)
        log_prob, entropy = log_prob_and_entropy(output, network.log_std, mask, Action(continuous, discrete), network.spec.action)
        policy_loss = -(log_prob.sum(1) * normalized(advantage)).mean()
        value_loss = (value.squeeze(1) - target).square().mean()
        self._step(policy_loss + hyper.value_coef * value_loss - hyper.beta * entropy.mean(), step)
        network.learn_statistics(settled(rollout, tuple(rollout.obs[i] for i in network.vectors)))
        metrics.add({"Losses/Policy Loss": policy_loss.detach().abs(), "Losses/Value Loss": value_loss.detach()})
        metrics.add({"Policy/Entropy": entropy.detach().mean(), "Policy/Extrinsic Value Estimate": value.detach().mean()})
        metrics.add({"Policy/Learning Rate": self.optimizer.learning_rate})
        return metrics

    @torch.no_grad()
    def _returns(self, rollout: Rollout, critique: ValueEstimates) -> tuple[Tensor, Tensor]:
        """Advantages and the critic's targets, each (T, S)."""
        time, _ = rollout.shape
        (reward,) = self.signals.of_rollout(rollout, rollout.reward + rollout.group_reward, None)
        value = critique.value()
        following = critique.following(value)[..., 0] * ~rollout.terminated
        ended = rollout.terminated | rollout.truncated
        cut = ended | horizon_cuts(ended, self.settings.time_horizon)
        if rollout.lengths is not None:  # what lies below a slot's last decision is not its own
            cut = cut | (torch.arange(time, device=cut.device).unsqueeze(1) >= rollout.lengths - 1)
        advantage = gae(reward, value[..., 0], following, cut, gamma=self.signals.gammas[0], gae_lambda=self.hyper.lambd)
        return advantage, advantage + value[..., 0]

    def _step(self, loss: Tensor, step: int) -> None:
        self.optimizer.learning_rate = scheduled("linear", self.hyper.learning_rate, 0.0, step, self.settings.max_steps)
        self.network.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), self.hyper.max_grad_norm)
        self.optimizer.step()

    def state_dict(self) -> dict[str, Any]:
        """All that the next decision and update depend on."""
        parts = ("network", "optimizer", "signals")
        return {"chance": self.chance.get_state(), **{name: dict(getattr(self, name).state_dict()) for name in parts}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from there."""
        self.chance.set_state(state["chance"].cpu())
        for name in state.keys() - {"chance"}:
            getattr(self, name).load_state_dict(state[name])
