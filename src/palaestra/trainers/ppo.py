"""Proximal policy optimization. Schulman et al. 2017, https://arxiv.org/abs/1707.06347, as ML-Agents does it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from palaestra.core.metrics import Metrics
from palaestra.core.specs import BehaviorSpec
from palaestra.core.system_memory import keep_freed_memory
from palaestra.data.minibatches import Minibatch, index_minibatches, minibatches
from palaestra.data.rollout import Rollout, TransitionTable
from palaestra.data.sequences import SequenceTable, sequence_minibatches
from palaestra.losses.returns import gae, horizon_cuts, normalized
from palaestra.models.actor_critic import ActorCritic
from palaestra.models.optimizer import Adam, flatten
from palaestra.models.policy import NetworkPolicy
from palaestra.rewards.signals import RewardSignals, title
from palaestra.trainers.behavior_settings import BehaviorSettings
from palaestra.trainers.gradients import Autograd, ClosedForm, Gradient, pays
from palaestra.trainers.imitation import Cloning
from palaestra.trainers.on_policy import bounded_gradient_norm, coefficients, init_intrinsic_values, restore, state_of
from palaestra.trainers.settings import PPOSettings
from palaestra.trainers.update_metrics import GRADIENT_NORM, PolicyChange, at_bounds, explained
from palaestra.trainers.values import ValueEstimates, settled


class PPO:
    """Learns from one rollout at a time, then throws it away."""

    Settings = PPOSettings

    def __init__(self, spec: BehaviorSpec, settings: BehaviorSettings, device: torch.device, seed: int) -> None:
        assert isinstance(settings.hyperparameters, PPOSettings)
        keep_freed_memory()
        self.settings, self.hyper = settings, settings.hyperparameters
        torch.manual_seed(seed)
        self.network = self.make_network(spec, settings).to(device)
        bfloat16, compiled = settings.network_settings.bfloat16, settings.network_settings.compile
        plain = self.network.plain and not (self.hyper.joint_ratio or bfloat16 or compiled)
        # many small tensors are one call when they are one tensor; large ones gain nothing from it
        self.parameters = [flatten(self.network)] if plain else [p for p in self.network.parameters() if p.numel()]
        self.optimizer = Adam(self.parameters, self.hyper.learning_rate)
        self.gradient: Gradient = (
            ClosedForm(self.network)
            if plain
            else Autograd(self.network, bfloat16=pays(self.network, device) if bfloat16 is None else bfloat16, compiled=compiled)
        )
        self.acting = torch.Generator(device).manual_seed(seed + 1)
        self.shuffling = torch.Generator(device).manual_seed(seed + 2)
        self.policy = NetworkPolicy(self.network, self.acting, settings.network_settings.deterministic)
        self.signals = RewardSignals(spec, settings.reward_signals, device, seed + 3)
        imitates = settings.behavioral_cloning is not None
        self.cloning = Cloning(self.network, self.parameters, settings, self.hyper, device, seed + 4) if imitates else None
        self.rollout_size, self.keeps = self.hyper.buffer_size, self.signals.keeps
        self.change = PolicyChange(0, 0)
        """Of the newest update, which may be under way."""

    @staticmethod
    def make_network(spec: BehaviorSpec, settings: BehaviorSettings) -> ActorCritic:
        """Actor and critic, a value for each reward signal."""
        assert isinstance(settings.hyperparameters, PPOSettings)
        network = ActorCritic(spec, settings.network_settings, len(settings.reward_signals), settings.hyperparameters.shared_critic)
        assert isinstance(network.value_head, nn.Linear)
        init_intrinsic_values(network.value_head, settings)
        return network

    def update(self, rollout: Rollout, step: int) -> Metrics:
        """`num_epoch` passes over the rollout, then its observations enter the normalizer."""
        hyper, metrics = self.hyper, Metrics()
        rate, c = coefficients(hyper, step, self.settings.max_steps)
        self.optimizer.learning_rate = rate
        memory = self.settings.network_settings.memory
        table = None if memory is None else SequenceTable(rollout, memory.sequence_length)
        reward = rollout.reward + rollout.group_reward
        seen = TransitionTable(rollout, self.network.for_environment(rollout.sample), reward) if self.signals.learned else None
        rows = self._rows(rollout, self.signals.of_rollout(rollout, reward, seen), metrics, table)
        change = self.change = PolicyChange(len(rows.advantage), hyper.num_epoch)
        for batch in self._batches(rows, rollout, table):
            losses = self.gradient(batch, c)
            norm = bounded_gradient_norm(self.parameters, hyper.max_grad_norm)
            self.optimizer.step()
            change.add(losses.log_ratio)
            metrics.add({"Losses/Policy Loss": losses.policy.abs(), "Losses/Value Loss": losses.value})
            metrics.add({"Policy/Entropy": losses.entropy, GRADIENT_NORM: norm})
        metrics.add(change.measured(c.clip_range) | at_bounds(rollout, self.network.for_environment(rollout.sample)))
        if self.cloning is not None:
            metrics.add(self.cloning.update(step))
        if seen is not None:
            for part in index_minibatches(len(seen), size=hyper.batch_size, epochs=hyper.num_epoch, generator=self.shuffling):
                metrics.add(self.signals.learn(seen.take(part)))
            self.signals.learn_statistics(settled(rollout, rollout.obs))
            metrics.add(self.signals.measured())
        self.network.learn_statistics(settled(rollout, tuple(rollout.obs[i] for i in self.network.vectors)))
        metrics.add({"Policy/Learning Rate": rate, "Policy/Epsilon": c.clip_range, "Policy/Beta": c.entropy_coef})
        return metrics

    @torch.no_grad()
    def _rows(self, rollout: Rollout, rewards: list[Tensor], metrics: Metrics, table: SequenceTable | None = None) -> Minibatch:
        """Values, advantages and targets of every signal, whose `rewards` are each (T, S); then the settled decisions, side by side."""
        time, _ = rollout.shape
        critique = ValueEstimates(self.network, rollout, table)
        value = critique.value()
        following = critique.following(value)
        ended = rollout.terminated | rollout.truncated
        cut = ended if self.settings.time_horizon >= time else ended | horizon_cuts(ended, self.settings.time_horizon)
        if rollout.lengths is not None:
            cut = cut | (torch.arange(time, device=cut.device).unsqueeze(1) >= rollout.lengths - 1)
        advantages = []
        for k, (name, gamma, endless) in enumerate(zip(self.signals.names, self.signals.gammas, self.signals.ignore_ends, strict=True)):
            next_value = following[..., k] if endless else following[..., k] * ~rollout.terminated
            advantages.append(gae(rewards[k], value[..., k], next_value, cut, gamma=gamma, gae_lambda=self.hyper.lambd))
            metrics.add({f"Policy/{title(name)} Value Estimate": settled(rollout, (value[..., k],))[0].mean()})
        advantage = torch.stack(advantages, -1)
        continuous, discrete, log_prob, mean_advantage, value, target = settled(
            rollout,
            (rollout.sample.continuous, rollout.sample.discrete, rollout.log_prob, advantage.mean(-1), value, advantage + value),
        )
        metrics.add(explained(self.signals.names, value, target))
        mask = None if rollout.action_mask is None else settled(rollout, (rollout.action_mask,))[0]
        return Minibatch(critique.inputs, continuous, discrete, log_prob, normalized(mean_advantage), value, target, mask)

    def _batches(self, rows: Minibatch, rollout: Rollout, table: SequenceTable | None) -> Iterator[Minibatch]:
        size, epochs = self.hyper.batch_size, self.hyper.num_epoch
        if table is None:
            return minibatches(rows, size=size, epochs=epochs, generator=self.shuffling)
        memory = settled(rollout, (rollout.memory,))[0]
        return sequence_minibatches(rows, memory, table, size=size, epochs=epochs, generator=self.shuffling)

    @property
    def progress(self) -> float:
        """Share of the newest update's passes that is done."""
        return self.change.progress

    def state_dict(self) -> dict[str, Any]:
        """Everything the next decision and update depend on."""
        return state_of(self)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on as if it had never stopped."""
        restore(self, state)
