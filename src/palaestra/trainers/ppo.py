"""Proximal policy optimization. Schulman et al. 2017, https://arxiv.org/abs/1707.06347, as ML-Agents does it."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from palaestra.core.metrics import Metrics
from palaestra.core.specs import BehaviorSpec
from palaestra.core.system_memory import keep_freed_memory
from palaestra.data.rollout import Minibatch, Rollout, completed, minibatches
from palaestra.data.sequences import SequenceTable, sequence_minibatches
from palaestra.models.actor_critic import ActorCritic
from palaestra.models.optimizer import flatten
from palaestra.trainers.advantages import VALUE_ROWS, advantages
from palaestra.trainers.behavior_settings import BehaviorSettings
from palaestra.trainers.gradients import Autograd, ClosedForm, bfloat16_pays
from palaestra.trainers.on_policy import OnPolicy, UpdateData, init_deviation, init_intrinsic_values
from palaestra.trainers.settings import PPOSettings
from palaestra.trainers.stale_rollouts import actor_outputs, corrected
from palaestra.trainers.update_metrics import value_metrics


class PPO(OnPolicy[Minibatch]):
    """Trains actor and critic with the clipped surrogate and GAE; the update itself is `OnPolicy.update`."""

    Settings = PPOSettings

    def __init__(self, spec: BehaviorSpec, settings: BehaviorSettings, device: torch.device, seed: int) -> None:
        assert isinstance(settings.hyperparameters, PPOSettings)
        keep_freed_memory()
        torch.manual_seed(seed)
        network = self.make_network(spec, settings).to(device)
        bfloat16 = settings.network_settings.bfloat16
        compiled = settings.network_settings.compile
        plain = network.plain and not (settings.hyperparameters.joint_ratio or bfloat16 or compiled)
        # many small tensors are one call when they are one tensor; large ones gain nothing from it
        parameters = [flatten(network)] if plain else [p for p in network.parameters() if p.numel()]
        if plain:
            gradient = ClosedForm(network)
        else:
            gradient = Autograd(
                network, bfloat16=bfloat16_pays(network, device) if bfloat16 is None else bfloat16, compiled=compiled
            )
        super().__init__(network, parameters, gradient, settings, device, seed)

    @staticmethod
    def make_network(spec: BehaviorSpec, settings: BehaviorSettings) -> ActorCritic:
        """Returns an actor and a critic with a value for each reward signal."""
        assert isinstance(settings.hyperparameters, PPOSettings)
        network = ActorCritic(
            spec, settings.network_settings, len(settings.reward_signals), settings.hyperparameters.shared_critic
        )
        assert isinstance(network.value_head, nn.Linear)
        init_intrinsic_values(network.value_head, settings)
        init_deviation(network, settings.hyperparameters)
        return network

    def _prepare(self, rollout: Rollout, metrics: Metrics) -> UpdateData[Minibatch]:
        memory = self.settings.network_settings.memory
        table = None if memory is None else SequenceTable(rollout, memory.sequence_length)
        rewards, transitions = self._rewards(rollout, rollout.reward + rollout.group_reward)
        rows = self._rows(rollout, rewards, metrics, table)
        if self.settings.threaded:
            rows = corrected(rows, self._outputs(rows, rollout, table), self.network, metrics)
        return UpdateData(len(rows.advantage), self._minibatches(rows, rollout, table), transitions)

    def _rows(
        self, rollout: Rollout, rewards: list[Tensor], metrics: Metrics, table: SequenceTable | None = None
    ) -> Minibatch:
        """Returns the completed decisions with advantages and targets; measures the values."""
        found = advantages(
            rollout,
            self.network,
            rewards,
            self.signals,
            gae_lambda=self.hyper.lambd,
            time_horizon=self.settings.time_horizon,
            table=table,
        )
        metrics.add(value_metrics(self.signals.names, found))
        return found.with_actions(rollout)

    def _outputs(self, rows: Minibatch, rollout: Rollout, table: SequenceTable | None) -> Tensor:
        """Returns the actor's output for all rows, (N, outputs)."""
        if table is None:
            every = torch.arange(len(rows.advantage), device=rows.advantage.device)
            return actor_outputs(self.network, rows.inputs, ((part, None) for part in every.split(VALUE_ROWS)))
        recurrent_state = completed(rollout, (rollout.recurrent_state,))[0]
        return actor_outputs(self.network, rows.inputs, table.take(table.in_parts(VALUE_ROWS), recurrent_state))

    def _minibatches(self, rows: Minibatch, rollout: Rollout, table: SequenceTable | None) -> Iterator[Minibatch]:
        size = self.batch_size
        epochs = self.hyper.num_epoch
        if table is None:
            return minibatches(rows, size=size, epochs=epochs, generator=self.shuffle_rng)
        recurrent_state = completed(rollout, (rollout.recurrent_state,))[0]
        return sequence_minibatches(rows, recurrent_state, table, size=size, epochs=epochs, generator=self.shuffle_rng)
