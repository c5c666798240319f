"""Set-up and saved state that PPO, MA-POCA, SAC and behavioral cloning share, and checks of methods that users
override."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

from palaestra.core.errors import Diverged, PalaestraError, PluginError, exception_summary
from palaestra.core.specs import BehaviorSpec
from palaestra.core.system_memory import keep_freed_memory
from palaestra.core.timestep import Action
from palaestra.data.group_ticks import Earned, GroupTicks
from palaestra.data.rollout import Rollout
from palaestra.data.rollout_values import RolloutValues
from palaestra.models.actor_critic import ActorCritic
from palaestra.models.critic_only.asymmetric import AsymmetricActorCritic
from palaestra.parallel.rank_group import RankGroup
from palaestra.rewards.signals import EXTRINSIC
from palaestra.trainers.behavior_settings import BehaviorSettings
from palaestra.trainers.settings import POCASettings, PPOSettings

Network = TypeVar("Network", bound=nn.Module)
T = TypeVar("T")


def seeded_network(
    make: Callable[[BehaviorSpec, BehaviorSettings], Network],
    spec: BehaviorSpec,
    settings: BehaviorSettings,
    device: torch.device,
    seed: int,
) -> Network:
    """Returns a trainer's new network on its device, with weights of this seed."""
    keep_freed_memory()
    torch.manual_seed(seed)
    return make(spec, settings).to(device)


def actor_critic_of(
    spec: BehaviorSpec,
    settings: BehaviorSettings,
    shared_critic: bool = False,
    value_head: Callable[[int, int], nn.Module] = nn.Linear,
) -> ActorCritic:
    """Returns a new on-policy network with a value for each reward signal; its critic sees the observations that the
    settings name. Raises ConfigError if these settings do not fit the behavior."""
    shape = settings.network_settings
    signals = len(settings.reward_signals)
    if shape.critic_only is None:
        return ActorCritic(spec, shape, signals, shared_critic, value_head)
    return cast(ActorCritic, AsymmetricActorCritic(spec, shape, signals, value_head))  # which has its members


@torch.no_grad()
def initialized(network: ActorCritic, values: nn.Linear, settings: BehaviorSettings) -> ActorCritic:
    """Returns the new network after setting random values for learned reward signals, in its layer `values`, and the
    settings' standard deviation of continuous actions.

    Before a learned signal gives rewards, a policy that follows random values explores further than without them; the
    values of the environment's reward start at 0.
    """
    hyper = settings.hyperparameters
    assert isinstance(hyper, PPOSettings | POCASettings)
    for row, name in zip(values.weight, settings.reward_signals, strict=True):
        if name != EXTRINSIC:
            nn.init.xavier_uniform_(row.unsqueeze(0))
    network.log_std.fill_(math.log(hyper.initial_deviation))
    return network


def seeded_generator(device: torch.device | str, seed: int, group: RankGroup) -> torch.Generator:
    """Returns a random stream of this seed that differs on every rank."""
    return torch.Generator(device).manual_seed(group.own_seed(seed))


ADDED = ("behavioral_cloning", "gradient")
"""Parts that settings may have added since a checkpoint: cloning, and the step count of a joint gradient."""


class Parts:
    """Everything on which a trainer's next decision and update depend, by its names in checkpoints.

    A part is a random generator or has `state_dict` and `load_state_dict`; parts that are None are left out.
    """

    def __init__(self, **parts: Any) -> None:
        self._parts = {name: part for name, part in parts.items() if part is not None}

    def add(self, **parts: Any) -> None:
        """Adds parts of a subclass, which are then saved and restored with the other parts."""
        self._parts |= parts

    @property
    def generators(self) -> dict[str, torch.Generator]:
        """Returns the random streams among the parts."""
        return {name: part for name, part in self._parts.items() if isinstance(part, torch.Generator)}

    def state_dict(self) -> dict[str, Any]:
        """Returns the state of each part."""
        return {
            name: part.get_state() if isinstance(part, torch.Generator) else dict(part.state_dict())
            for name, part in self._parts.items()
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores each part, so that training continues bit for bit."""
        for name, part in self._parts.items():
            if isinstance(part, torch.Generator):
                part.set_state(state[name].cpu())
            elif name in state or name not in ADDED:
                part.load_state_dict(state[name])


class KeptRollout:
    """A copy of a rollout for later updates: the rollout itself is overwritten after its own update."""

    def __init__(self, device: torch.device) -> None:
        self.rollout: Rollout | None = None
        self._device = device

    def keep(self, rollout: Rollout) -> None:
        """Copies a rollout, in place of the rollout that was kept before."""
        self.rollout = _rollout_of(asdict(rollout), torch.clone)

    def state_dict(self) -> dict[str, Any]:
        """Returns all columns; none without a rollout."""
        return {} if self.rollout is None else asdict(self.rollout)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a saved state."""
        self.rollout = _rollout_of(state, lambda column: column.to(self._device)) if state else None


def _rollout_of(state: Mapping[str, Any], each: Callable[[Tensor], Tensor]) -> Rollout:
    """Returns the rollout of these columns, of each a copy."""

    def copied(value: Any) -> Any:
        if isinstance(value, Tensor):
            return each(value)
        if isinstance(value, Mapping):
            return {name: copied(part) for name, part in value.items()}
        return tuple(map(copied, value)) if isinstance(value, tuple | list) else value

    columns = copied(state)
    ticks = columns["group_ticks"]
    if ticks is not None:
        ticks["last_sample"] = Action(**ticks["last_sample"])
        ticks["earlier"] = Earned(**ticks["earlier"])
        columns["group_ticks"] = GroupTicks(**ticks)
    return Rollout(**{**columns, "sample": Action(**columns["sample"])})


def replaces(trainer: object, base: type, *names: str) -> bool:
    """Whether a subclass overrides one of these methods of `base`."""
    return any(getattr(type(trainer), name) is not getattr(base, name) for name in names)


Check = Callable[..., str]
"""Returns what was expected in place of a result; '' if the result is right. Arguments: the result, then the method's
arguments."""
FINITE = "finite numbers"


def check_overrides(trainer: object, checks: Mapping[str, Check]) -> None:
    """Checks each result of a subclass's own methods, by their names: a wrong result raises PluginError, a result that
    is not finite raises Diverged; both name the method."""
    for name, check in checks.items():
        method = getattr(trainer, name)
        if not method.__module__.startswith("palaestra."):
            setattr(trainer, name, partial(_checked, method, check))


def _checked(method: Callable[..., T], check: Check, *arguments: Any, **keywords: Any) -> T:
    name = method.__qualname__.rpartition("<locals>.")[2]
    try:
        result = method(*arguments, **keywords)
    except PalaestraError:
        raise
    except Exception as error:
        raise PluginError(f"{name} raised {exception_summary(error)}; --debug shows the whole traceback") from error
    expected = check(result, *arguments)
    if expected == FINITE:
        raise Diverged(f"{name} returned numbers that are not finite: a mistake there, or training has diverged")
    if expected:
        raise PluginError(f"{name} returned {_described(result)}; expected {expected}")
    return result


def _described(result: object) -> str:
    if isinstance(result, Tensor):
        return f"a tensor {tuple(result.shape)} of {str(result.dtype).removeprefix('torch.')}"
    if isinstance(result, tuple):
        return f"({', '.join(map(_described, result))})"
    return repr(result) if result is None or isinstance(result, float | int | str) else f"a {type(result).__name__}"


def is_anything(*_: Any) -> str:
    """Accepts every result: only the method's exceptions are of interest."""
    return ""


def is_a(kind: type) -> Check:
    """Checks that a result is of a class."""
    return lambda result, *_: "" if isinstance(result, kind) else f"a {kind.__module__}.{kind.__name__}"


def is_loss(*shape: int) -> Check:
    """Checks that a result is a tensor of this shape with a gradient."""
    wanted = f"a tensor {shape}, the mean over the minibatch"

    def check(result: object, *_: Any) -> str:
        if not is_column(result, torch.Size(shape), torch.float32):
            return wanted
        assert isinstance(result, Tensor)
        if not result.requires_grad:
            return f"{wanted}, with a gradient, which detach(), item() and no_grad() cut off"
        return "" if finite(result) else FINITE

    return check


def on_policy_checks(coefficients: type, losses: type) -> dict[str, Check]:
    """Returns the checks of PPO's and MA-POCA's methods, given the classes of their records."""

    def check_loss(result: object, *_: Any) -> str:
        if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], losses)):
            return f"the loss, a tensor (), and its parts, a {losses.__module__}.{losses.__name__}"
        return is_loss()(result[0])

    def check_pair(result: object, rollout: Rollout, values: RolloutValues) -> str:
        column = values.value
        if not (
            isinstance(result, tuple)
            and len(result) == 2
            and all(is_column(each, column.shape, column.dtype) for each in result)
        ):
            return f"advantages and targets, each a tensor {tuple(column.shape)} of float32"
        return "" if all(finite(rollout.completed(each)) for each in result) else FINITE

    return {
        "schedule": is_a(coefficients),
        "learn": is_anything,
        "after_update": is_anything,
        "advantages": check_pair,
        "loss": check_loss,
        "policy_loss": is_loss(),
        "gradient": is_a(losses),
    }


def off_policy_checks() -> dict[str, Check]:
    """Returns the checks of SAC's methods."""

    def check_targets(result: object, batch: object, reward: Tensor, *_: Any) -> str:
        if not is_column(result, reward.shape, reward.dtype):
            return f"a tensor {tuple(reward.shape)} of float32: N decisions, K reward signals"
        assert isinstance(result, Tensor)
        return "" if finite(result) else FINITE

    def check_temperature(result: object, *_: Any) -> str:
        if not is_column(result, torch.Size(()), torch.float32):
            return "a tensor ()"
        assert isinstance(result, Tensor)
        return "" if finite(result) else FINITE

    return {
        "schedule": lambda result, *_: "" if isinstance(result, int | float) and result >= 0 else "a learning rate",
        "targets": check_targets,
        "critic_loss": is_loss(2),
        "actor_loss": is_loss(),
        "temperature_loss": check_temperature,
        "after_update": is_anything,
    }


def is_column(result: object, shape: torch.Size, dtype: torch.dtype) -> bool:
    """Whether a result is a tensor of this shape and type."""
    return isinstance(result, Tensor) and result.shape == shape and result.dtype == dtype


def finite(values: Tensor) -> bool:
    """Whether all numbers are finite. Does not wait for accelerators: there, the metrics of the update show such
    numbers later."""
    return values.device.type != "cpu" or bool(values.isfinite().all())
