"""Multi-agent posthumous credit assignment: PPO for groups. Cohen et al. 2022, https://arxiv.org/abs/2111.05992."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from palaestra.core.metrics import Metrics
from palaestra.core.specs import BehaviorSpec
from palaestra.core.system_memory import keep_freed_memory
from palaestra.core.timestep import Action
from palaestra.data.device_copies import to_device
from palaestra.data.group_minibatches import GroupMinibatches
from palaestra.data.group_steps import GroupSteps
from palaestra.data.rollout import Minibatch, Rollout, RolloutNeeds, completed
from palaestra.models.actor_critic import ActorCritic
from palaestra.models.group_critic import GroupCritic
from palaestra.trainers.advantages import VALUE_ROWS
from palaestra.trainers.behavior_settings import BehaviorSettings
from palaestra.trainers.gradients import GroupGradient, GroupRows
from palaestra.trainers.group_advantages import GroupValues, group_advantages
from palaestra.trainers.on_policy import OnPolicy, UpdateData, init_deviation, init_intrinsic_values
from palaestra.trainers.settings import POCASettings
from palaestra.trainers.stale_rollouts import actor_outputs, corrected
from palaestra.trainers.update_metrics import value_metrics


class POCA(OnPolicy[GroupRows]):
    """Trains a policy with a centralised critic over each group; the update itself is `OnPolicy.update`.

    An agent's reward is its own plus that of its mates and of the group. Returns bootstrap with the value of the whole
    group. The return of an agent that leaves before its mates ends there, with the value of its final observation and
    its mates' together; the paper's continues with what the mates earn. The advantage is that return less a
    counterfactual baseline, which knows what the mates see and do but not the agent's own action. With
    `individual_values` returns bootstrap with the agent's own value instead, and with the group's only where the agent
    has left or the rollout has no later decision of it.
    """

    Settings = POCASettings

    def __init__(self, spec: BehaviorSpec, settings: BehaviorSettings, device: torch.device, seed: int) -> None:
        assert isinstance(settings.hyperparameters, POCASettings)
        keep_freed_memory()
        torch.manual_seed(seed)
        network = self.make_network(spec, settings).to(device)
        # bfloat16 is off unless asked for: where rewards are rare, two runs of three learned later with it
        gradient = GroupGradient(
            network, bfloat16=settings.network_settings.bfloat16 or False, compiled=settings.network_settings.compile
        )
        super().__init__(network, [p for p in network.parameters() if p.numel()], gradient, settings, device, seed)
        self.needs = RolloutNeeds(terminal_obs=True, group_ticks=True)

    @staticmethod
    def make_network(spec: BehaviorSpec, settings: BehaviorSettings) -> ActorCritic:
        """Returns an actor, and a critic of groups with a value and a baseline for each reward signal."""
        hyper = settings.hyperparameters
        assert isinstance(hyper, POCASettings)
        head = partial(GroupCritic, action=spec.action, individual=hyper.individual_values)
        network = ActorCritic(spec, settings.network_settings, len(settings.reward_signals), hyper.shared_critic, head)
        assert isinstance(network.value_head, GroupCritic)
        init_intrinsic_values(network.value_head.own_head, settings)
        init_deviation(network, hyper)
        return network

    def _prepare(self, rollout: Rollout, metrics: Metrics) -> UpdateData[GroupRows]:
        memory = self.settings.network_settings.memory
        batches = GroupMinibatches(GroupSteps(rollout), None if memory is None else memory.sequence_length)
        estimates = GroupValues(self.network, rollout, batches)
        columns, transitions = self._rewards(rollout, self._reward(estimates))
        rewards = torch.stack([completed(rollout, (column,))[0] for column in columns], 1)
        rows = self._rows(estimates, rewards, metrics)
        if self.settings.threaded:
            rows = corrected(rows, self._outputs(estimates)[: len(rows.advantage)], self.network, metrics)
        return UpdateData(len(rows.advantage), self._minibatches(rows, estimates), transitions)

    @staticmethod
    def _reward(estimates: GroupValues) -> Tensor:
        """Returns the environment's reward, (T, S): an agent's own, its mates' and its group's."""
        rollout = estimates.rollout
        own, group = completed(rollout, (rollout.reward, rollout.group_reward))
        shared = to_device(estimates.batches.table.shared(own.cpu().numpy()), own.device) + group
        if estimates.rows is None:
            return shared.view_as(rollout.reward)
        return torch.zeros_like(rollout.reward).view(-1).index_copy_(0, estimates.rows, shared).view_as(rollout.reward)

    def _rows(self, estimates: GroupValues, rewards: Tensor, metrics: Metrics) -> Minibatch:
        """Returns the completed decisions with advantages and targets; measures values and baselines. `rewards` (N,
        K).
        """
        found, baselines = group_advantages(
            estimates, rewards, self.signals, gae_lambda=self.hyper.lambd, time_horizon=self.settings.time_horizon
        )
        metrics.add(value_metrics(self.signals.names, found, baselines))
        return found.with_actions(estimates.rollout)

    def _outputs(self, estimates: GroupValues) -> Tensor:
        """Returns the actor's output for all observations, (V, outputs); those of the N completed decisions come
        first.
        """
        if not self.network.memory_size:
            every = torch.arange(len(estimates.inputs[0]), device=estimates.device)
            return actor_outputs(self.network, estimates.inputs, ((part, None) for part in every.split(VALUE_ROWS)))
        batches = estimates.batches.in_order(VALUE_ROWS, estimates.device)
        parts = ((batch.chosen, batch.sequences_with(estimates.recurrent_state)) for batch in batches)
        return actor_outputs(self.network, estimates.inputs, parts)

    def _minibatches(self, rows: Minibatch, estimates: GroupValues) -> Iterator[GroupRows]:
        """Yields whole group steps: the rows of their decisions, and the inputs of the observations that are there."""
        action = estimates.action
        for batch in estimates.batches.shuffled(self.batch_size, self.hyper.num_epoch, self.shuffle_rng):
            chosen = rows.with_columns(
                [x.index_select(0, batch.decisions) for x in rows.columns()],
                batch.sequences_with(estimates.recurrent_state),
            )
            chosen = replace(chosen, inputs=tuple(x.index_select(0, batch.chosen) for x in estimates.inputs))
            done = Action(
                action.continuous.index_select(0, batch.chosen), action.discrete.index_select(0, batch.chosen)
            )
            yield GroupRows(chosen, done, batch.groups, batch.deciding, batch.places)
