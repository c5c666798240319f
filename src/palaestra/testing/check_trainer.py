"""The contract of a trainer as a test: `check_trainer(MyTrainer, settings)`.

It plays random tables and checks the trainer against the rules of `palaestra.trainers.base.Trainer`: valid decisions,
finite metrics, a saved state from which another trainer continues bit for bit, and a network that can be rebuilt and
exported. Of a subclass of PPO, SAC or POCA it also checks that each method it overrides is called and returns what it
must, and that the policy learns. It raises an error for the first broken rule.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from inspect import isfunction
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from palaestra.core.errors import ConfigError, Diverged, ExportError, PluginError, exception_summary
from palaestra.core.metrics import Metrics
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.core.timestep import Decision, FinalObs, TimeStep
from palaestra.data.rollout import Rollout
from palaestra.data.slotted_buffer import RolloutBuffer, SlottedBuffer
from palaestra.data.steady_buffer import SteadyBuffer
from palaestra.onnx_export.check import compare
from palaestra.onnx_export.onnx import export
from palaestra.parallel.rank_group import ALONE, RankGroup
from palaestra.parallel.rank_setup import takes_group
from palaestra.runtime.storage.tensor_files import flatten, restore
from palaestra.trainers.base import Trainer, check_members
from palaestra.trainers.behavior_settings import GUIDE, BehaviorSettings
from palaestra.trainers.update_metrics import EXPLAINED

T = TypeVar("T")
SLOTS, EXPORT_ROWS = 16, 50
OVERRIDDEN = (
    *("schedule", "learn", "advantages", "loss", "policy_loss", "after_update"),
    *("targets", "critic_loss", "actor_loss", "temperature_loss"),
)
"""Methods of PPO, SAC and POCA that subclasses may replace."""

SPECS = (
    BehaviorSpec((ObsSpec("vector", (5,)),), ActionSpec(continuous=2), steady=True),
    BehaviorSpec((ObsSpec("vector", (5,)),), ActionSpec(branches=(3, 2))),
    BehaviorSpec((ObsSpec("image", (1, 20, 20)), ObsSpec("vector", (5,))), ActionSpec(continuous=1, branches=(3,))),
    BehaviorSpec((ObsSpec("vector", (5,)), ObsSpec("goal", (2,), goal=True)), ActionSpec(branches=(3,)), steady=True),
    BehaviorSpec((ObsSpec("vector", (5,)), ObsSpec("entities", (4, 3))), ActionSpec(continuous=2)),
)
"""Behaviors of every kind: steady or not, with numbers, branches or both, with an image, with a goal, with entities."""


def check_trainer(
    trainer: Callable[[BehaviorSpec, BehaviorSettings, torch.device, int], Trainer],
    settings: BehaviorSettings,
    *specs: BehaviorSpec,
    device: str | torch.device = "cpu",
) -> tuple[str, ...]:
    """Raises PluginError for the first rule that `trainer`, a class or a function that makes one, breaks.

    Plays six rollouts for each of `specs` (by default `SPECS`): a small `rollout_size` keeps them short. A trainer may
    refuse some of the specs with ConfigError, but not all. Returns these refusals. A trainer whose constructor has a
    parameter `group` is also tested as one of two ranks.
    """
    place = torch.device(device)
    refusals = []
    for spec in specs or SPECS:
        names = ", ".join(f"{obs.name} {obs.shape}" for obs in spec.obs)
        where = f"{getattr(trainer, '__name__', 'trainer')}, observations {names}, {spec.action}"
        try:
            trainer(spec, settings, place, 0)
        except ConfigError as refusal:
            refusals.append(str(refusal))
            if len(refusals) == len(specs or SPECS):
                raise PluginError(f"{where}: the trainer refused this spec and all others: {refusal}") from refusal
            continue
        _check(lambda seed, spec=spec: trainer(spec, settings, place, seed), spec, settings, where)
        if takes_group(trainer):
            _check_in_ranks(partial(trainer, spec, settings, place, 0), spec, where)
    return tuple(refusals)


def _check(make: Callable[[int], Trainer], spec: BehaviorSpec, settings: BehaviorSettings, where: str) -> None:
    first = make(0)
    same = make(0)
    check_members(first, where)
    device = first.policy.generator.device
    overrides = _Overrides(first)
    for trainer in (first, same):
        _learn(trainer, _Tables(spec, device, seed=1), 0, where)
    _compare(_saved(same, where), _saved(first, where), f"{where}: the same seed and experience give the same state")
    other = make(5)
    other.load_state_dict(_read_back(first, where))
    _compare(_saved(other, where), _saved(first, where), f"{where}: a state that was loaded is the one that was saved")
    for update in (1, 2):
        for trainer in (first, other):
            _learn(trainer, _Tables(spec, device, seed=1 + update), update, where)
        _compare(
            _saved(other, where),
            _saved(first, where),
            f"{where}: update {update} after loading continues as without a stop",
        )
    overrides.check(where)
    _check_network(first, spec, settings, where)


class _Overrides:
    """Counts the calls of the methods that a subclass of PPO, SAC or POCA overrides."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        self._calls: Counter[str] = Counter()
        above = [kind for kind in type(trainer).__mro__ if kind.__module__.startswith("palaestra.trainers.")]
        self._replaced = {
            name: owner
            for name in OVERRIDDEN
            if any(name in vars(kind) for kind in above)
            and (owner := next(kind for kind in type(trainer).__mro__ if name in vars(kind))) not in above
        }
        self._policy = self._weights().clone() if above else None
        self._near = _nearly_named(type(trainer), above)
        for name in (*self._replaced, *self._near):
            setattr(trainer, name, partial(self._call, name, getattr(trainer, name)))

    def _weights(self) -> Tensor:
        """Returns the weights of the policy's last layer."""
        return self._trainer.network.get_parameter("action_head.weight").detach()

    def _call(self, name: str, method: Callable[..., T], *arguments: Any, **keywords: Any) -> T:
        self._calls[name] += 1
        return method(*arguments, **keywords)

    def check(self, where: str) -> None:
        """Raises PluginError if an overridden method was never called, or if the policy has not changed."""
        for name, said in self._near.items():
            if not self._calls[name]:
                raise PluginError(f"{where}: {said}")
        for name, owner in self._replaced.items():
            if not self._calls[name]:
                raise PluginError(
                    f"{where}: {owner.__name__}.{name} was never called in three updates: does another method that is "
                    "overridden leave it out, or are the updates too small?"
                )
        if self._policy is not None and torch.equal(self._policy, self._weights()):
            raise PluginError(
                f"{where}: three updates have not changed the policy: does the loss have a gradient for it, and is "
                "the learning rate above 0?"
            )


def _nearly_named(kind: type, above: Sequence[type]) -> dict[str, str]:
    """Returns public methods that no class in `above` has but that resemble one to override, each with its warning."""
    known = [name for name in OVERRIDDEN if any(name in vars(one) for one in above)]
    found = {}
    for owner in (one for one in kind.__mro__ if one not in above and one is not object):
        for name, member in vars(owner).items():
            if name.startswith("_") or not isfunction(member) or any(hasattr(one, name) for one in above):
                continue
            if near := get_close_matches(name, known, n=1, cutoff=0.8):
                said = f"{owner.__name__}.{name} overrides no method of {above[0].__name__}, and is never called"
                found[name] = f"{said}; did you mean '{near[0]}'?"
    return found


class _SecondOfTwo(RankGroup):
    """Rank 1 of two, in a single process: rank 0 has the same numbers."""

    size = 2
    number = 1

    def __init__(self) -> None:
        self.averages = 0
        """How often gradients were averaged."""

    def gather(self, value: T) -> list[T]:
        return [value, value]

    def gather_numbers(self, values: Sequence[float]) -> list[list[float]]:
        return [list(values), list(values)]

    def gather_tensor(self, values: Tensor) -> list[Tensor]:
        return [values, values]

    def average_gradients(self, parameters: Sequence[Tensor], rows: float) -> None:
        self.averages += 1


def _check_in_ranks(make: Callable[..., Trainer], spec: BehaviorSpec, where: str) -> None:
    """Checks the rules for a trainer that learns in several processes."""
    group = _SecondOfTwo()
    first = make(group=ALONE)
    second = make(group=group)
    before = {name: weight.detach().clone() for name, weight in second.network.named_parameters()}
    _compare(before, dict(first.network.named_parameters()), f"{where}: every rank begins with the same weights")
    if torch.equal(first.policy.generator.get_state(), second.policy.generator.get_state()):
        raise PluginError(
            f"{where}: every rank draws actions of its own, but rank 1 has the random stream of rank 0; expected "
            "group.own_seed(seed) for its seed"
        )
    device = second.policy.generator.device
    for update in range(3):
        _learn(second, _Tables(spec, device, seed=1 + update), update, where)
        moved = any(not torch.equal(weight, before[name]) for name, weight in second.network.named_parameters())
        if moved and not group.averages:
            raise PluginError(
                f"{where}: it has a parameter 'group', but an update changed its weights without "
                "group.average_gradients, so that ranks would learn apart; call it between backward pass and step"
            )


def _check_network(trainer: Trainer, spec: BehaviorSpec, settings: BehaviorSettings, where: str) -> None:
    """Checks that a fresh network takes the saved weights, and that its exported file answers as it does."""
    network = trainer.make_network(spec, settings)
    saved = trainer.state_dict().get("network")
    if not isinstance(saved, Mapping):
        raise PluginError(f"{where}: state_dict has no map of weights under 'network', from which models are exported")
    there, here = ({name: tuple(x.shape) for name, x in weights.items()} for weights in (network.state_dict(), saved))
    for name in {**here, **there}:
        if there.get(name) != here.get(name):
            shapes = f"{there.get(name, 'missing')}; the trainer's network has {here.get(name, 'none')}"
            raise PluginError(f"{where}: make_network gives a network whose {name} is {shapes}")
    network.load_state_dict({name: weights.cpu() for name, weights in saved.items()})
    try:
        with tempfile.TemporaryDirectory() as folder:
            export(network, spec, Path(folder, "model.onnx"))
            compare(network, spec, Path(folder, "model.onnx"), rows=EXPORT_ROWS)
    except (ExportError, AttributeError, AssertionError) as error:
        raise PluginError(f"{where}: its network cannot be exported: {exception_summary(error)}; {GUIDE}") from error


class _Tables:
    """Random tables of one behavior; actions change nothing."""

    def __init__(self, spec: BehaviorSpec, device: torch.device, seed: int) -> None:
        self.spec = spec
        self.device = device
        self._generator = torch.Generator().manual_seed(seed)
        self._open = torch.zeros(SLOTS, dtype=torch.bool)

    def next(self) -> TimeStep:
        ended = self._open & self._random_flags(0.1)
        terminated = ended & self._random_flags(0.5)
        acting = torch.ones_like(ended) if self.spec.steady else self._random_flags(0.7)
        self._open = (self._open & ~ended) | acting
        where = ended.nonzero()[:, 0] if self.device.type == "cpu" else torch.arange(SLOTS)
        none = torch.zeros(SLOTS, dtype=torch.int64, device=self.device)
        return TimeStep(
            obs=self._observations(SLOTS),
            acting=acting.to(self.device),
            reward=torch.randn(SLOTS, generator=self._generator).to(self.device),
            group_reward=torch.randn(SLOTS, generator=self._generator).to(self.device),
            terminated=terminated.to(self.device),
            truncated=(ended & ~terminated).to(self.device),
            final_obs=FinalObs(where.to(self.device), self._observations(len(where))),
            action_mask=self._mask(),
            area=none,
            team=none,
            group=torch.arange(SLOTS, device=self.device) // 4 - 1,  # some agents alone, the rest in groups of four
        )

    def _random_flags(self, probability: float) -> Tensor:
        return torch.rand(SLOTS, generator=self._generator) < probability

    def _observations(self, rows: int) -> tuple[Tensor, ...]:
        return tuple(torch.rand(rows, *obs.shape, generator=self._generator).to(self.device) for obs in self.spec.obs)

    def _mask(self) -> Tensor | None:
        """Forbids about a third of the choices, never a branch's first."""
        branches = self.spec.action.branches
        if not branches:
            return None
        parts = [torch.rand(SLOTS, size, generator=self._generator) < 0.67 for size in branches]
        for part in parts:
            part[:, 0] = True
        return torch.cat(parts, 1).to(self.device)


def _learn(trainer: Trainer, tables: _Tables, update: int, where: str) -> None:
    """Plays one rollout and lets the trainer learn from it."""
    rollout = _rollout(trainer, tables, where)
    try:
        metrics = trainer.update(rollout, update * trainer.rollout_size)
    except (PluginError, Diverged) as error:
        raise PluginError(f"{where}: {error}") from error
    if not isinstance(metrics, Metrics):
        raise PluginError(f"{where}: update gave a {type(metrics).__name__}; expected core.metrics.Metrics")
    for tag, value in metrics.read().items():
        if not math.isfinite(value) and not (math.isnan(value) and tag.endswith(EXPLAINED)):  # targets all alike
            raise PluginError(f"{where}: update measured {tag} as {value}; expected a finite number")


@torch.no_grad()
def _rollout(trainer: Trainer, tables: _Tables, where: str) -> Rollout:
    step = tables.next()
    trainer.policy.forget()
    buffer: RolloutBuffer | None = None
    while buffer is None or buffer.decisions < trainer.rollout_size:
        decision = trainer.policy.act(step)
        _check_decision(decision, step, tables.spec.action, where)
        if buffer is None:
            ticks = math.ceil(trainer.rollout_size / SLOTS)
            buffer = (SteadyBuffer if tables.spec.steady else SlottedBuffer)(step, decision, ticks, trainer.needs)
        buffer.open(step, decision)
        step = tables.next()
        buffer.complete(step)
    return buffer.take(step)


def _check_decision(decision: Decision, step: TimeStep, spec: ActionSpec, where: str) -> None:
    continuous = decision.action.continuous
    discrete = decision.action.discrete
    shapes = {"action.continuous": (continuous, spec.continuous), "action.discrete": (discrete, len(spec.branches))}
    log_probs = spec.components if decision.log_prob.shape[1:].numel() else 0  # no columns if nothing learns from them
    for name, (column, width) in {**shapes, "log_prob": (decision.log_prob, log_probs)}.items():
        if column.shape != (SLOTS, width):
            raise PluginError(
                f"{where}: {name} of a decision has shape {tuple(column.shape)}; expected {(SLOTS, width)}"
            )
    if not bool((continuous.abs() <= 1).all()):
        raise PluginError(
            f"{where}: action.continuous reaches {continuous.abs().max().item()}; expected numbers within -1..1"
        )
    if not bool(decision.log_prob.isfinite().all()):
        raise PluginError(f"{where}: log_prob of a decision has numbers that are not finite")
    for branch, size in enumerate(spec.branches):
        choice = discrete[:, branch]
        if not bool(((choice >= 0) & (choice < size)).all()):
            raise PluginError(f"{where}: branch {branch} got {choice.tolist()}; expected 0 to {size - 1}")
        if step.action_mask is not None:
            allowed = step.action_mask.split(spec.branches, 1)[branch].gather(1, choice.unsqueeze(1)).squeeze(1)
            if not bool((allowed | ~step.acting).all()):
                raise PluginError(f"{where}: branch {branch} got a choice that the action mask forbids")


def _saved(trainer: Trainer, where: str) -> dict[str, Any]:
    """Returns the state as a checkpoint would hold it: names to tensors, and the rest as JSON."""
    tensors: dict[str, Tensor] = {}
    try:
        rest = json.dumps(flatten(trainer.state_dict(), tensors))
    except TypeError as error:
        raise PluginError(f"{where}: state_dict cannot be saved: {error}") from error
    return {**{name: tensor.cpu().clone() for name, tensor in tensors.items()}, "": rest}


def _read_back(trainer: Trainer, where: str) -> Any:
    saved = _saved(trainer, where)
    return restore(json.loads(saved.pop("")), saved)


def _compare(found: Mapping[str, Any], expected: Mapping[str, Any], rule: str) -> None:
    for name in {**expected, **found}:
        mine = found.get(name)
        theirs = expected.get(name)
        equal = torch.equal(mine, theirs) if isinstance(mine, Tensor) and isinstance(theirs, Tensor) else mine == theirs
        if not equal:
            raise PluginError(f"{rule}, but {name or 'something that is no tensor'} differs")
