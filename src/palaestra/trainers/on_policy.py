"""What PPO and MA-POCA share: how values begin, how their step size and coefficients fall, the bound on gradients, and what is saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from palaestra.losses.diagnostics import gradient_norm
from palaestra.models.actor_critic import ActorCritic
from palaestra.models.optimizer import Adam
from palaestra.rewards.signals import EXTRINSIC, RewardSignals
from palaestra.trainers.behavior_settings import BehaviorSettings
from palaestra.trainers.gradients import Coefficients
from palaestra.trainers.imitation import Cloning
from palaestra.trainers.settings import LAST_BETA, LAST_EPSILON, LAST_LEARNING_RATE, POCASettings, PPOSettings, scheduled


class OnPolicy(Protocol):
    """The parts of a trainer that learns from one rollout at a time."""

    network: ActorCritic
    optimizer: Adam
    signals: RewardSignals
    cloning: Cloning | None
    acting: torch.Generator
    shuffling: torch.Generator


def coefficients(hyper: PPOSettings | POCASettings, step: int, max_steps: int) -> tuple[float, Coefficients]:
    """Learning rate and loss coefficients at this step."""
    epsilon = scheduled(hyper.epsilon_schedule, hyper.epsilon, LAST_EPSILON, step, max_steps)
    beta = scheduled(hyper.beta_schedule, hyper.beta, LAST_BETA, step, max_steps)
    rate = scheduled(hyper.learning_rate_schedule, hyper.learning_rate, LAST_LEARNING_RATE, step, max_steps)
    clip_value = isinstance(hyper, PPOSettings) and hyper.clip_value
    return rate, Coefficients(epsilon, beta, hyper.value_coef, clip_value, hyper.joint_ratio)


def bounded_gradient_norm(parameters: Sequence[Tensor], most: float | None) -> Tensor:
    """The gradient's norm, (), which is then at most `most`; None: it stays as it is."""
    return gradient_norm(parameters) if most is None else nn.utils.clip_grad_norm_(parameters, most)


@torch.no_grad()
def init_intrinsic_values(head: nn.Linear, settings: BehaviorSettings) -> None:
    """Values of rewards that are themselves learned begin at random, those of the environment's where they are, at 0.

    Before such a signal pays, a policy that follows a random value wanders off further than one that follows none.
    """
    for row, name in zip(head.weight, settings.reward_signals, strict=True):
        if name != EXTRINSIC:
            nn.init.xavier_uniform_(row.unsqueeze(0))


def state_of(trainer: OnPolicy) -> dict[str, Any]:
    """Everything the next decision and update depend on."""
    return {
        "network": dict(trainer.network.state_dict()),
        "optimizer": trainer.optimizer.state_dict(),
        "signals": trainer.signals.state_dict(),
        **({} if trainer.cloning is None else {"cloning": trainer.cloning.state_dict()}),
        "acting": trainer.acting.get_state(),
        "shuffling": trainer.shuffling.get_state(),
    }


def restore(trainer: OnPolicy, state: Mapping[str, Any]) -> None:
    """Goes on as if it had never stopped."""
    trainer.network.load_state_dict(state["network"])
    trainer.optimizer.load_state_dict(state["optimizer"])
    trainer.signals.load_state_dict(state["signals"])
    if trainer.cloning is not None and "cloning" in state:  # it may have been added since
        trainer.cloning.load_state_dict(state["cloning"])
    trainer.acting.set_state(state["acting"].cpu())
    trainer.shuffling.set_state(state["shuffling"].cpu())
