"""The contract of a trainer. `palaestra.testing.check_trainer` tests it; docs/guides/extend/reinforce.md writes a
trainer."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch

from palaestra.core.errors import ConfigError, PluginError, exception_summary, out_of_memory
from palaestra.core.metrics import Metrics
from palaestra.core.plugins import must_have
from palaestra.core.settings import Settings
from palaestra.core.specs import BehaviorSpec, describe
from palaestra.data.rollout import Rollout, RolloutNeeds
from palaestra.models.policy import NetworkPolicy
from palaestra.models.trunk import Trunk
from palaestra.parallel.rank_group import ALONE, RankGroup
from palaestra.parallel.rank_setup import make_in_group
from palaestra.trainers.behavior_settings import GUIDE, OF_A_CLASS, OF_AN_INSTANCE, BehaviorSettings, trainer_class
from palaestra.trainers.trainer_setup import check_overrides, is_a


class Trainer(Protocol):
    """Improves the policy of one behavior.

    The `trainer_type` in the YAML names its class: as `package.module:Class`, or by an entry point of the group
    `palaestra.trainers`.
    """

    Settings: ClassVar[type[Settings]]
    """Class of the trainer's `hyperparameters`. Two class variables of a trainer decide which warnings a run shows:
    `off_policy = True` if it learns from a replay, `adds_group_rewards = True` if a group's reward is added to each
    agent's reward."""

    network: Trunk
    """The acting network and all other learned weights; model files and `--initialize-from` use it."""
    policy: NetworkPolicy
    """Acts with the network."""
    rollout_size: int
    """Decisions that a rollout has when `update` is due."""
    needs: RolloutNeeds
    """Additional parts that the trainer's rollouts must have."""

    def __init__(self, spec: BehaviorSpec, settings: BehaviorSettings, device: torch.device, seed: int) -> None:
        """Places everything on a device; random numbers come from the seed. Raises ConfigError (`refuse`).

        A class that learns together with other ranks has a last parameter `group`, a `RankGroup`.
        """
        ...

    @staticmethod
    def make_network(spec: BehaviorSpec, settings: BehaviorSettings) -> Trunk:
        """Returns a new network with the shape of `network`, on the CPU, into which a checkpoint's weights are loaded
        for export."""
        ...

    def update(self, rollout: Rollout, step: int) -> Metrics:
        """Learns from a rollout; `step` counts the decisions so far, for schedules. Metrics have TensorBoard tags."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Returns weights (under `network`), optimizer, statistics, random streams: all on which updates depend."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a saved state, so that training continues bit for bit."""
        ...


@runtime_checkable
class Remarks(Protocol):
    """A trainer with remarks for the user."""

    def remarks(self) -> list[str]:
        """Returns remarks, a sentence each: called before the trainer learns, after a state was loaded, and at each
        summary.

        Raises ConfigError if something that learning needs is not available, such as memory.
        """
        ...


@runtime_checkable
class Warns(Protocol):
    """A trainer that reports problems."""

    def warnings(self) -> list[str]:
        """Returns problems that a user should see, a sentence each, once: called with `remarks` and after updates."""
        ...


@runtime_checkable
class Progresses(Protocol):
    """A trainer that reports the progress of an update, so that a stopped run can say how long it will take."""

    @property
    def progress(self) -> float:
        """Share of the current update that is done, 0 to 1. A signal handler reads it, so it must return at once."""
        ...


def make_trainer(
    spec: BehaviorSpec, settings: BehaviorSettings, device: torch.device, seed: int, group: RankGroup = ALONE
) -> Trainer:
    """Returns a behavior's trainer, which learns with the ranks of `group`. Raises PluginError if the trainer lacks a
    member, ConfigError if it refuses the behavior or its settings."""
    kind = trainer_class(settings.trainer_type)
    title = f"trainer '{settings.trainer_type}'"
    if settings.mirror is not None:
        from palaestra.trainers.symmetry.mirrored_trainer import mirrored

        kind = mirrored(kind, settings)
    try:
        trainer: Trainer = make_in_group(kind, group, title, spec, settings, device, seed)
    except (TypeError, ValueError, RuntimeError, LookupError, AttributeError) as error:
        if out_of_memory(error) or kind.__module__.startswith("palaestra."):
            raise
        raise PluginError(f"{title} could not be made: {exception_summary(error)}") from error
    check_members(trainer, title)
    if settings.network_settings.critic_only and getattr(trainer.network, "shown", None) is None:
        raise ConfigError(
            f"network_settings.critic_only: the network of {title} shows its policy all observations; leave it out, or "
            "make the network as PPO.make_network does (palaestra.trainers.trainer_setup.actor_critic_of)"
        )
    check_overrides(trainer, {"update": is_a(Metrics)})
    return trainer


def check_members(trainer: Trainer, title: str) -> None:
    """Raises PluginError if a trainer lacks a member; the message begins with `title`."""
    must_have(trainer, OF_A_CLASS + OF_AN_INSTANCE, title, GUIDE)
    size: object = trainer.rollout_size
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise PluginError(f"{title}: rollout_size is {size!r}; expected a whole number of at least 1")


SPEEDUPS = ("compile", "bfloat16")
"""Keys of network_settings that a trainer itself must support."""


def refuse(
    trainer: str,
    spec: BehaviorSpec,
    settings: BehaviorSettings,
    *,
    continuous: bool = True,
    memory: bool = False,
    cloning: bool = False,
    signals: Collection[str] = ("extrinsic",),
    speedups: Collection[str] = (),
) -> None:
    """Raises ConfigError if settings need more than it offers: actions, memory, cloning, reward signals, SPEEDUPS."""
    wrong = []
    if spec.action.continuous and not continuous:
        wrong.append(
            f"it takes discrete actions alone, and the behavior has {describe(spec).rpartition('actions: ')[2]}"
        )
    if settings.network_settings.memory and not memory:
        wrong.append("it has no memory: leave out network_settings.memory")
    if settings.behavioral_cloning and not cloning:
        wrong.append("it does not imitate: leave out behavioral_cloning")
    for name in SPEEDUPS:
        if getattr(settings.network_settings, name) and name not in speedups:
            wrong.append(f"it does nothing with network_settings.{name}: set it to false")
    if strange := [name for name in settings.reward_signals if name not in signals]:
        wrong.append(f"it does not learn from the reward signals {', '.join(strange)}, only from {', '.join(signals)}")
    if wrong:
        raise ConfigError(f"{trainer} cannot learn this: {'; '.join(wrong)}")
