"""The update that PPO and MA-POCA share: passes over one rollout, schedules, metrics, and what a checkpoint holds."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from palaestra.core.metrics import Metrics
from palaestra.data.rollout import Rollout, completed, index_minibatches
from palaestra.data.transitions import TransitionTable
from palaestra.models.actor_critic import ActorCritic
from palaestra.models.optimizer import Adam, gradient_norm, scheduled
from palaestra.models.policy import NetworkPolicy
from palaestra.parallel import ranks
from palaestra.rewards.signals import EXTRINSIC, RewardSignals
from palaestra.trainers.behavior_settings import BehaviorSettings
from palaestra.trainers.gradients import Coefficients, Losses
from palaestra.trainers.imitation import Cloning
from palaestra.trainers.settings import LAST_BETA, LAST_EPSILON, LAST_LEARNING_RATE, POCASettings, PPOSettings
from palaestra.trainers.update_metrics import GRADIENT_NORM, PolicyChange, at_bounds

Batch = TypeVar("Batch")


@dataclass(frozen=True, slots=True)
class UpdateData(Generic[Batch]):
    """A rollout made ready for the gradient steps of one update."""

    decisions: int
    minibatches: Iterator[Batch]
    transitions: TransitionTable | None
    """The rollout as transitions, where a reward signal is learned."""


class OnPolicy(ABC, Generic[Batch]):
    """Base class of trainers that learn from one rollout at a time, then throw it away. Subclasses say how minibatches
    are made.
    """

    def __init__(
        self,
        network: ActorCritic,
        parameters: Sequence[Tensor],
        gradient: Callable[[Batch, Coefficients], Losses],
        settings: BehaviorSettings,
        device: torch.device,
        seed: int,
    ) -> None:
        """`parameters`: what the optimizer moves; `gradient`: fills the `.grad` of these from a minibatch."""
        assert isinstance(settings.hyperparameters, PPOSettings | POCASettings)
        self.settings = settings
        self.hyper = settings.hyperparameters
        self.network = network
        self.parameters = parameters
        self.gradient = gradient
        self.optimizer = Adam(parameters, self.hyper.learning_rate)
        self.action_rng = torch.Generator(device).manual_seed(ranks.own_seed(seed + 1))
        self.shuffle_rng = torch.Generator(device).manual_seed(ranks.own_seed(seed + 2))
        self.policy = NetworkPolicy(network, self.action_rng, settings.network_settings.deterministic)
        self.signals = RewardSignals(network.spec, settings.reward_signals, device, seed + 3)
        imitates = settings.behavioral_cloning is not None
        self.cloning = Cloning(network, parameters, settings, self.hyper, device, seed + 4) if imitates else None
        self.rollout_size = ranks.share(self.hyper.buffer_size)
        self.needs = self.signals.needs
        self.batch_size = ranks.share(self.hyper.batch_size)
        """Decisions of this rank in a minibatch."""
        self.change = PolicyChange(0, 0)
        """Change of the policy by the newest update, which may be under way."""

    @abstractmethod
    def _prepare(self, rollout: Rollout, metrics: Metrics) -> UpdateData[Batch]:
        """Computes rewards, advantages and targets, and measures the critic's values."""

    def update(self, rollout: Rollout, step: int) -> Metrics:
        """Makes `num_epoch` passes over the rollout, then takes its observations into the normalizer."""
        hyper = self.hyper
        metrics = Metrics()
        learning_rate, c = coefficients(hyper, step, self.settings.max_steps)
        self.optimizer.learning_rate = learning_rate
        data = self._prepare(rollout, metrics)
        change = self.change = PolicyChange(data.decisions, hyper.num_epoch)
        for batch in data.minibatches:
            losses = self.gradient(batch, c)
            ranks.average_gradients(self.parameters, len(losses.log_ratio))
            norm = clip_gradients(self.parameters, hyper.max_grad_norm)
            self.optimizer.step()
            change.add(losses.log_ratio)
            metrics.add(losses.tagged() | {GRADIENT_NORM: norm})
        metrics.add(change.measured(c.clip_range) | at_bounds(rollout, self.network.for_environment(rollout.sample)))
        if self.cloning is not None:
            metrics.add(self.cloning.update(step))
        if data.transitions is not None:
            self._learn_signals(rollout, data.transitions, metrics)
        self.network.learn_statistics(completed(rollout, tuple(rollout.obs[i] for i in self.network.vectors)))
        metrics.add(
            {"Policy/Learning Rate": learning_rate, "Policy/Epsilon": c.clip_range, "Policy/Beta": c.entropy_coef}
        )
        return metrics

    def _rewards(self, rollout: Rollout, reward: Tensor) -> tuple[list[Tensor], TransitionTable | None]:
        """Returns the rewards of each signal, (T, S), and the transitions, where a signal is learned. `reward`: the
        environment's.
        """
        played = self.network.for_environment(rollout.sample)
        transitions = TransitionTable(rollout, played, reward) if self.signals.learned else None
        return self.signals.of_rollout(rollout, reward, transitions), transitions

    def _learn_signals(self, rollout: Rollout, transitions: TransitionTable, metrics: Metrics) -> None:
        """Trains the reward signals that learn, in as many passes as the policy."""
        hyper = self.hyper
        for part in index_minibatches(
            len(transitions), size=self.batch_size, epochs=hyper.num_epoch, generator=self.shuffle_rng
        ):
            metrics.add(self.signals.learn(transitions.take(part)))
        self.signals.learn_statistics(completed(rollout, rollout.obs))
        metrics.add(self.signals.measured())

    @property
    def progress(self) -> float:
        """Share of the newest update's passes that is done."""
        return self.change.progress

    def state_dict(self) -> dict[str, Any]:
        """Returns everything that the next decision and update depend on."""
        return {
            "network": dict(self.network.state_dict()),
            "optimizer": self.optimizer.state_dict(),
            "signals": self.signals.state_dict(),
            **({} if self.cloning is None else {"cloning": self.cloning.state_dict()}),
            "acting": self.action_rng.get_state(),
            "shuffling": self.shuffle_rng.get_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a saved state, so that training goes on with the same digits."""
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.signals.load_state_dict(state["signals"])
        if self.cloning is not None and "cloning" in state:  # it may have been added since
            self.cloning.load_state_dict(state["cloning"])
        self.action_rng.set_state(state["acting"].cpu())
        self.shuffle_rng.set_state(state["shuffling"].cpu())


def coefficients(hyper: PPOSettings | POCASettings, step: int, max_steps: int) -> tuple[float, Coefficients]:
    """Returns the learning rate and the loss coefficients at this step."""
    epsilon = scheduled(hyper.epsilon_schedule, hyper.epsilon, LAST_EPSILON, step, max_steps)
    beta = scheduled(hyper.beta_schedule, hyper.beta, LAST_BETA, step, max_steps)
    learning_rate = scheduled(hyper.learning_rate_schedule, hyper.learning_rate, LAST_LEARNING_RATE, step, max_steps)
    clip_value = isinstance(hyper, PPOSettings) and hyper.clip_value
    return learning_rate, Coefficients(epsilon, beta, hyper.value_coef, clip_value, hyper.joint_ratio)


def clip_gradients(parameters: Sequence[Tensor], max_norm: float | None) -> Tensor:
    """Scales gradients down to a norm of `max_norm` (None: leaves them) and returns their norm before, ()."""
    return gradient_norm(parameters) if max_norm is None else nn.utils.clip_grad_norm_(parameters, max_norm)


@torch.no_grad()
def init_intrinsic_values(head: nn.Linear, settings: BehaviorSettings) -> None:
    """Draws random initial values for learned rewards; those of the environment's reward start at 0.

    Before a learned signal pays, a policy that follows a random value explores further than one that follows none.
    """
    for row, name in zip(head.weight, settings.reward_signals, strict=True):
        if name != EXTRINSIC:
            nn.init.xavier_uniform_(row.unsqueeze(0))


@torch.no_grad()
def init_deviation(network: ActorCritic, hyper: PPOSettings | POCASettings) -> None:
    """Sets the standard deviation with which continuous actions are first drawn."""
    network.log_std.fill_(math.log(hyper.initial_deviation))
