"""Multi-agent posthumous credit assignment: PPO for groups. Cohen et al. 2022, https://arxiv.org/abs/2111.05992."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from palaestra.core.metrics import Metrics
from palaestra.core.specs import BehaviorSpec
from palaestra.core.system_memory import keep_freed_memory
from palaestra.core.timestep import Action
from palaestra.data.group_minibatches import GroupMinibatches
from palaestra.data.group_steps import GroupSteps
from palaestra.data.minibatches import Minibatch, index_minibatches
from palaestra.data.rollout import Rollout, RolloutNeeds, TransitionTable
from palaestra.data.timeline import NOBODY
from palaestra.losses.returns import group_returns, horizon_cuts, normalized
from palaestra.models.actor_critic import ActorCritic
from palaestra.models.group_critic import GroupCritic
from palaestra.models.optimizer import Adam
from palaestra.models.policy import NetworkPolicy
from palaestra.rewards.signals import RewardSignals, title
from palaestra.trainers.behavior_settings import BehaviorSettings
from palaestra.trainers.gradients import GroupGradient, GroupRows
from palaestra.trainers.imitation import Cloning
from palaestra.trainers.on_policy import bounded_gradient_norm, coefficients, init_intrinsic_values, restore, state_of
from palaestra.trainers.settings import POCASettings
from palaestra.trainers.update_metrics import GRADIENT_NORM, PolicyChange, at_bounds, explained
from palaestra.trainers.values import GroupValues, settled


class POCA:
    """Trains a policy with a centralised critic over each group, from one rollout at a time.

    An agent's reward is its own plus that of its mates and of the group. Returns bootstrap with the value of the whole
    group, so an agent that leaves early is still credited with what its mates earn later. The advantage is that return less a
    counterfactual baseline, which knows what the mates see and do but not the agent's own action. With `individual_values`
    returns bootstrap with the agent's own value instead, and with the group's only where the agent has left.
    """

    Settings = POCASettings

    def __init__(self, spec: BehaviorSpec, settings: BehaviorSettings, device: torch.device, seed: int) -> None:
        assert isinstance(settings.hyperparameters, POCASettings)
        keep_freed_memory()
        self.settings, self.hyper = settings, settings.hyperparameters
        torch.manual_seed(seed)
        self.network = self.make_network(spec, settings).to(device)
        self.parameters = [p for p in self.network.parameters() if p.numel()]
        self.optimizer = Adam(self.parameters, self.hyper.learning_rate)
        # not by itself: where rewards are rare, two runs of three learned later with it
        bfloat16 = settings.network_settings.bfloat16 or False
        self.gradient = GroupGradient(self.network, bfloat16=bfloat16, compiled=settings.network_settings.compile)
        self.acting = torch.Generator(device).manual_seed(seed + 1)
        self.shuffling = torch.Generator(device).manual_seed(seed + 2)
        self.policy = NetworkPolicy(self.network, self.acting, settings.network_settings.deterministic)
        self.signals = RewardSignals(spec, settings.reward_signals, device, seed + 3)
        imitates = settings.behavioral_cloning is not None
        self.cloning = Cloning(self.network, self.parameters, settings, self.hyper, device, seed + 4) if imitates else None
        self.rollout_size = self.hyper.buffer_size
        self.change = PolicyChange(0, 0)
        """Of the newest update, which may be under way."""
        self.keeps = RolloutNeeds(terminal_views=self.signals.keeps.terminal_views, moments=True)

    @staticmethod
    def make_network(spec: BehaviorSpec, settings: BehaviorSettings) -> ActorCritic:
        """An actor, and a critic of groups with a value and a baseline for each reward signal."""
        hyper = settings.hyperparameters
        assert isinstance(hyper, POCASettings)
        head = partial(GroupCritic, action=spec.action, individual=hyper.individual_values)
        network = ActorCritic(spec, settings.network_settings, len(settings.reward_signals), hyper.shared_critic, head)
        assert isinstance(network.value_head, GroupCritic)
        init_intrinsic_values(network.value_head.own_head, settings)
        return network

    def update(self, rollout: Rollout, step: int) -> Metrics:
        """`num_epoch` passes over the rollout, then its observations enter the normalizer."""
        hyper, metrics = self.hyper, Metrics()
        rate, c = coefficients(hyper, step, self.settings.max_steps)
        self.optimizer.learning_rate = rate
        memory = self.settings.network_settings.memory
        table = GroupSteps(rollout)
        batches = GroupMinibatches(table, None if memory is None else memory.sequence_length)
        critique = GroupValues(self.network, rollout, batches)
        reward = self._reward(critique)
        seen = TransitionTable(rollout, self.network.for_environment(rollout.sample), reward) if self.signals.learned else None
        rewards = torch.stack([settled(rollout, (one,))[0] for one in self.signals.of_rollout(rollout, reward, seen)], 1)
        rows = self._rows(critique, rewards, metrics)
        change = self.change = PolicyChange(len(rows.advantage), hyper.num_epoch)
        for batch in self._batches(rows, critique):
            losses = self.gradient(batch, c)
            norm = bounded_gradient_norm(self.parameters, hyper.max_grad_norm)
            self.optimizer.step()
            change.add(losses.log_ratio)
            metrics.add({"Losses/Policy Loss": losses.policy.abs(), "Losses/Value Loss": losses.value})
            metrics.add({"Losses/Baseline Loss": losses.baseline, "Policy/Entropy": losses.entropy, GRADIENT_NORM: norm})
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

    @staticmethod
    def _reward(critique: GroupValues) -> Tensor:
        """The environment's, (T, S): an agent's own, its mates', and its group's."""
        rollout = critique.rollout
        own, group = settled(rollout, (rollout.reward, rollout.group_reward))
        shared = torch.from_numpy(critique.batches.table.shared(own.cpu().numpy())).to(own.device) + group
        if critique.rows is None:
            return shared.view_as(rollout.reward)
        return torch.zeros_like(rollout.reward).view(-1).index_copy_(0, critique.rows, shared).view_as(rollout.reward)

    @torch.no_grad()
    def _rows(self, critique: GroupValues, rewards: Tensor, metrics: Metrics) -> Minibatch:
        """The settled decisions with advantages and targets, of `rewards` (N, K)."""
        rollout, table = critique.rollout, critique.batches.table
        ended = rollout.terminated | rollout.truncated
        stops = settled(rollout, (horizon_cuts(ended, self.settings.time_horizon) & ~ended,))[0]
        dead = settled(rollout, (rollout.terminated,))[0]
        successor = torch.from_numpy(table.successor).to(stops.device).masked_fill(stops, NOBODY)
        value, baseline, following, following_endless = critique()
        targets = []
        for k, (name, gamma, endless) in enumerate(zip(self.signals.names, self.signals.gammas, self.signals.ignore_ends, strict=True)):
            next_value = (following_endless if endless else following)[:, k]
            chain = successor.masked_fill(dead, NOBODY) if endless else successor
            targets.append(group_returns(rewards[:, k], next_value, chain, gamma=gamma, gae_lambda=self.hyper.lambd))
            metrics.add({f"Policy/{title(name)} Value Estimate": value[:, k].mean()})
            metrics.add({f"Policy/{title(name)} Baseline Estimate": baseline[:, k].mean()})
        target = torch.stack(targets, 1)
        metrics.add(explained(self.signals.names, value, target))
        continuous, discrete, log_prob = settled(rollout, (rollout.sample.continuous, rollout.sample.discrete, rollout.log_prob))
        mask = None if rollout.action_mask is None else settled(rollout, (rollout.action_mask,))[0]
        return Minibatch((), continuous, discrete, log_prob, normalized((target - baseline).mean(1)), value, target, mask)

    def _batches(self, rows: Minibatch, critique: GroupValues) -> Iterator[GroupRows]:
        """Whole moments, their decisions' rows and their views' inputs."""
        action = critique.action
        for batch in critique.batches.shuffled(self.hyper.batch_size, self.hyper.num_epoch, self.shuffling):
            chosen = rows.with_columns([x.index_select(0, batch.decisions) for x in rows.columns()], batch.sequences_with(critique.memory))
            chosen = replace(chosen, inputs=tuple(x.index_select(0, batch.chosen) for x in critique.inputs))
            done = Action(action.continuous.index_select(0, batch.chosen), action.discrete.index_select(0, batch.chosen))
            yield GroupRows(chosen, done, batch.groups, batch.views, batch.places)

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
