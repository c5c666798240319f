"""Proximal policy optimization. Schulman et al. 2017, https://arxiv.org/abs/1707.06347, as ML-Agents does it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn

from palaestra.core.allocator import keep_freed_memory
from palaestra.core.metrics import Metrics
from palaestra.core.specs import BehaviorSpec
from palaestra.data.minibatches import minibatches
from palaestra.data.rollout import Rollout
from palaestra.data.rows import Rows
from palaestra.data.sequences import SequenceTable, sequence_minibatches
from palaestra.losses.returns import gae, horizon_cuts, normalized
from palaestra.models.actor_critic import ActorCritic
from palaestra.models.flat import flatten
from palaestra.models.policy import Policy
from palaestra.rewards.extrinsic import Extrinsic
from palaestra.rewards.settings import ExtrinsicSettings
from palaestra.trainers.adam import Adam
from palaestra.trainers.behavior import BehaviorSettings
from palaestra.trainers.gradients import Autograd, ClosedForm, Coefficients, Gradient
from palaestra.trainers.precision import pays
from palaestra.trainers.schedules import LAST_BETA, LAST_EPSILON, LAST_LEARNING_RATE, scheduled
from palaestra.trainers.settings import PPOSettings
from palaestra.trainers.values import Critique, settled


class PPO:
    """Learns from one rollout at a time, then throws it away."""

    Settings = PPOSettings

    def __init__(self, spec: BehaviorSpec, settings: BehaviorSettings, device: torch.device, seed: int) -> None:
        assert isinstance(settings.hyperparameters, PPOSettings)
        keep_freed_memory()
        self.settings, self.hyper = settings, settings.hyperparameters
        extrinsic = settings.reward_signals["extrinsic"]
        assert isinstance(extrinsic, ExtrinsicSettings)
        self.signals = [Extrinsic(extrinsic)]
        torch.manual_seed(seed)
        self.network = ActorCritic(spec, settings.network_settings, len(self.signals), self.hyper.shared_critic).to(device)
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
        self.policy = Policy(self.network, self.acting, settings.network_settings.deterministic)
        self.rollout_size = self.hyper.buffer_size

    def update(self, rollout: Rollout, step: int) -> Metrics:
        """`num_epoch` passes over the rollout, then its observations enter the normalizer."""
        hyper, metrics = self.hyper, Metrics()
        rate, c = self._scheduled(step)
        self.optimizer.learning_rate = rate
        memory = self.settings.network_settings.memory
        table = None if memory is None else SequenceTable(rollout, memory.sequence_length)
        rows = self._rows(rollout, metrics, table)
        for batch in self._batches(rows, rollout, table):
            losses = self.gradient(batch, c)
            if hyper.max_grad_norm is not None:
                nn.utils.clip_grad_norm_(self.parameters, hyper.max_grad_norm)
            self.optimizer.step()
            metrics.add({"Losses/Policy Loss": losses.policy.abs(), "Losses/Value Loss": losses.value, "Policy/Entropy": losses.entropy})
        self.network.learn_statistics(settled(rollout, tuple(rollout.obs[i] for i in self.network.vectors)))
        metrics.add({"Policy/Learning Rate": rate, "Policy/Epsilon": c.clip_range, "Policy/Beta": c.entropy_coef})
        return metrics

    def _scheduled(self, step: int) -> tuple[float, Coefficients]:
        """Learning rate and loss coefficients at this step."""
        h, end = self.hyper, self.settings.max_steps
        epsilon = scheduled(h.epsilon_schedule, h.epsilon, LAST_EPSILON, step, end)
        beta = scheduled(h.beta_schedule, h.beta, LAST_BETA, step, end)
        rate = scheduled(h.learning_rate_schedule, h.learning_rate, LAST_LEARNING_RATE, step, end)
        return rate, Coefficients(epsilon, beta, h.value_coef, h.clip_value, h.joint_ratio)

    @torch.no_grad()
    def _rows(self, rollout: Rollout, metrics: Metrics, table: SequenceTable | None = None) -> Rows:
        """Values, advantages and targets of every signal; then the settled decisions, side by side."""
        time, _ = rollout.shape
        critique = Critique(self.network, rollout, table)
        value = critique.value()
        following = critique.following(value)
        ended = rollout.terminated | rollout.truncated
        cut = ended if self.settings.time_horizon >= time else ended | horizon_cuts(ended, self.settings.time_horizon)
        if rollout.lengths is not None:
            cut = cut | (torch.arange(time, device=cut.device).unsqueeze(1) >= rollout.lengths - 1)
        advantages = []
        for k, signal in enumerate(self.signals):
            next_value = following[..., k]
            if not signal.ignores_ends:
                next_value = next_value * ~rollout.terminated
            advantages.append(gae(signal(rollout), value[..., k], next_value, cut, gamma=signal.gamma, gae_lambda=self.hyper.lambd))
            metrics.add({f"Policy/{signal.name.title()} Value Estimate": settled(rollout, (value[..., k],))[0].mean()})
        advantage = torch.stack(advantages, -1)
        continuous, discrete, log_prob, mean_advantage, value, target = settled(
            rollout,
            (rollout.sample.continuous, rollout.sample.discrete, rollout.log_prob, advantage.mean(-1), value, advantage + value),
        )
        mask = None if rollout.action_mask is None else settled(rollout, (rollout.action_mask,))[0]
        return Rows(critique.inputs, continuous, discrete, log_prob, normalized(mean_advantage), value, target, mask)

    def _batches(self, rows: Rows, rollout: Rollout, table: SequenceTable | None) -> Iterator[Rows]:
        size, epochs = self.hyper.batch_size, self.hyper.num_epoch
        if table is None:
            return minibatches(rows, size=size, epochs=epochs, generator=self.shuffling)
        memory = settled(rollout, (rollout.memory,))[0]
        return sequence_minibatches(rows, memory, table, size=size, epochs=epochs, generator=self.shuffling)

    def state_dict(self) -> dict[str, Any]:
        """Everything the next decision and update depend on."""
        return {
            "network": dict(self.network.state_dict()),
            "optimizer": self.optimizer.state_dict(),
            "signals": {signal.name: signal.state_dict() for signal in self.signals},
            "acting": self.acting.get_state(),
            "shuffling": self.shuffling.get_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on as if it had never stopped."""
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        for signal in self.signals:
            signal.load_state_dict(state["signals"][signal.name])
        self.acting.set_state(state["acting"].cpu())
        self.shuffling.set_state(state["shuffling"].cpu())
