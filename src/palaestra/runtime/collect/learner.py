"""One behavior of a run: its trainer, and when its summaries and checkpoints are due."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from palaestra.core.errors import ConfigError, DemoError, Diverged, ExportError, PluginError
from palaestra.core.files import scratch_in
from palaestra.core.specs import BehaviorSpec
from palaestra.data.rollout import Rollout
from palaestra.models.actor_critic import ActorCritic
from palaestra.models.custom import OwnModule
from palaestra.models.lstm import LSTMLayer
from palaestra.models.optimizer import scheduled
from palaestra.models.policy import Actor
from palaestra.models.trunk import StackedMLP, Trunk
from palaestra.parallel.rank_group import ALONE, RankGroup
from palaestra.parallel.rank_setup import share_weights
from palaestra.rewards.demonstrations import load_demonstrations
from palaestra.runtime.collect.collector import FEW, BehaviorCollector
from palaestra.runtime.collect.random_streams import reseed
from palaestra.runtime.collect.trainer_process import TrainerProcess
from palaestra.runtime.settings import BehaviorSettings
from palaestra.trainers.base import Progresses, Remarks, Trainer, Warns, make_trainer
from palaestra.trainers.settings import LAST_BETA, LAST_EPSILON, LAST_LEARNING_RATE, POCASettings, PPOSettings, changed

LAST = {"learning_rate": LAST_LEARNING_RATE, "beta": LAST_BETA, "epsilon": LAST_EPSILON}
"""Values at which schedules end."""
MOST_WEIGHT = 1e15
"""Weights above this size give outputs that float32 cannot hold."""
FLOAT_BYTES = 4
ENOUGH = 128
"""Decisions of each agent, or `time_horizon` if it is less, that a rollout waits for where `buffer_size` holds few."""


class Learner:
    """Trains one behavior. Steps are decisions, as in ML-Agents."""

    def __init__(
        self,
        name: str,
        spec: BehaviorSpec,
        settings: BehaviorSettings,
        device: torch.device,
        seed: int,
        inference: bool,
        scratch: Path | None = None,
        group: RankGroup = ALONE,
    ) -> None:
        """`group`: the ranks that learn together. `scratch`: the folder for demonstrations
        that are too large for memory; None: the system's temporary one.
        """
        self.name = name
        self.spec = spec
        self.settings = settings
        self._group = group
        try:
            self.trainer: Trainer | TrainerProcess
            if settings.threaded and not inference:
                self.trainer = TrainerProcess(name, spec, settings, device, seed, scratch, trainer_and_oddities, group)
                self.oddities = self.trainer.oddities
            else:
                self.trainer, self.oddities = trainer_and_oddities(
                    spec, settings, device, seed, scratch, group, inference=inference
                )
            if any(isinstance(module, OwnModule) for module in self.trainer.network.modules()):
                from palaestra.export.custom import check_exportable

                check_exportable(self.trainer.network)  # better now than after an hour of training
        except (ConfigError, PluginError, ExportError, DemoError) as error:
            raise type(error)(f"behavior '{name}': {error}") from error
        self.inference = inference
        self._watches_groups = getattr(settings.hyperparameters, "adds_group_rewards", False)
        self._found = list[str]()
        """Warnings about the demonstrations that it learns from, one line each."""
        self._watches_length = isinstance(settings.hyperparameters, PPOSettings | POCASettings)
        self.collector = BehaviorCollector(
            name,
            spec,
            self.trainer.policy,
            None if inference else self.trainer.rollout_size,
            self.trainer.needs,
            longest=max(group.share(settings.max_steps, rounded_down=True), 1),  # a short run learns, too
        )
        self.next_summary = settings.summary_freq
        self.next_checkpoint = settings.checkpoint_interval
        self.agreed = 0
        self.met = 0
        """Decisions of all ranks, and of this one, when the ranks last met."""
        self._aligned = False
        self.starts_trained = False
        """Whether its network comes from another run."""
        self.rating: float | None = None
        """Its Elo rating, if it is in self-play."""
        self.changes: dict[str, float] = {}
        """Hyperparameters that were given a constant value while the run learned, which is part of its state."""

    def wait_for_agents(self) -> None:
        """Lets rollouts wait for the agents of an environment that has its own number of areas, as in ML-Agents."""
        if self._watches_length:
            self.collector.patience = min(self.settings.time_horizon, ENOUGH)

    def current(self, name: str) -> float | None:
        """Returns the value of a hyperparameter that follows a schedule, at this step; None if its trainer has none of
        that name.
        """
        hyper = self.settings.hyperparameters
        first: float | None = getattr(hyper, name, None)
        kind: Any = getattr(hyper, f"{name}_schedule", "constant")
        if first is None or not hasattr(self.trainer, "hyper"):
            return None
        if name in self.changes:
            return self.changes[name]
        return scheduled(kind, first, LAST.get(name, 0.0), self.step, self.settings.max_steps)

    def change(self, changes: Mapping[str, float]) -> None:
        """Gives hyperparameters constant values, from the next update on."""
        self.changes = dict(changes)
        if not self.inference and self.changes:
            cast(Any, self.trainer).hyper = changed(self.settings.hyperparameters, self.changes)

    @property
    def waited(self) -> float:
        """Seconds spent waiting for an update in another process."""
        return self.trainer.waiting_seconds if isinstance(self.trainer, TrainerProcess) else 0.0

    @property
    def learned_beside(self) -> float | None:
        """Seconds that updates in another process took; None if there is none."""
        return self.trainer.learning_seconds if isinstance(self.trainer, TrainerProcess) else None

    @property
    def busy(self) -> bool:
        """Whether an update is under way in another process."""
        return isinstance(self.trainer, TrainerProcess) and self.trainer.busy

    @property
    def collected_bytes(self) -> int:
        """Size of the observations in the rollout under way."""
        buffer = self.collector.buffer
        return (
            0 if buffer is None else buffer.decisions * sum(FLOAT_BYTES * math.prod(obs.shape) for obs in self.spec.obs)
        )

    def finish(self) -> None:
        """Waits for an update in another process and lets it take effect, so that the network is the newest."""
        if isinstance(self.trainer, TrainerProcess):
            self.trainer.finish()

    def close(self) -> None:
        """Ends the trainer's process, if it has one."""
        if isinstance(self.trainer, TrainerProcess):
            self.trainer.close()

    def abandon(self) -> None:
        """Ends the trainer's process at once, if it has one. Safe in a signal handler."""
        if isinstance(self.trainer, TrainerProcess):
            self.trainer.kill()

    def remarks(self) -> list[str]:
        """Returns the trainer's messages to the user. Raises ConfigError if the trainer cannot get what it needs."""
        if self.inference or not isinstance(self.trainer, Remarks):
            return []
        try:
            return self.trainer.remarks()
        except ConfigError as error:
            raise ConfigError(f"behavior '{self.name}': {error}") from error

    def warnings(self) -> list[str]:
        """Returns the warnings since the last call, including its trainer's."""
        found = self._found
        self._found = []
        return found + (self.trainer.warnings() if isinstance(self.trainer, Warns) and not self.inference else [])

    def tell(self, info: Callable[[str], object], warning: Callable[[str], object]) -> None:
        """Passes on the trainer's messages and warnings. Raises ConfigError if the trainer cannot get what it needs."""
        for remark in self.remarks():
            info(f"{self.name}: {remark}")
        self.warn(warning)

    def warn(self, warning: Callable[[str], object]) -> None:
        """Passes on the warnings since the last call."""
        for found in self.warnings():
            warning(f"{self.name}: {found}")

    @property
    def step(self) -> int:
        """Number of decisions so far."""
        return self._group.known(self.collector.decisions, self.agreed)

    def meet(self, decisions: int) -> None:
        """Notes the decisions of all ranks, which meet now."""
        self.agreed = decisions
        self.met = self.collector.decisions

    def left(self, step: int) -> int:
        """Returns the decisions that this rank still makes until the behavior is at `step`."""
        return self._group.share(step - self.agreed) - (self.collector.decisions - self.met)

    @property
    def training(self) -> bool:
        """Whether it still learns."""
        return not self.inference and self.step < self.settings.max_steps

    @property
    def work(self) -> int:
        """Multiplications in one forward pass of the largest batch."""
        rows = max(self.slots, getattr(self.settings.hyperparameters, "batch_size", 0))
        return rows * multiplications(self.trainer.network)

    def ticks_ahead(self) -> int:
        """Returns the least number of ticks until something is due."""
        slots = max(self.slots, 1)
        due = min(
            self.next_summary, self.next_checkpoint, self.settings.max_steps if self.training else self.next_summary
        )
        return max(-(-self.left(due) // slots), 1)

    @property
    def due(self) -> bool:
        """Whether this rank has made its share of the decisions until something is due."""
        return (
            self.left(
                min(
                    self.next_summary,
                    self.next_checkpoint,
                    self.settings.max_steps if self.training else self.next_summary,
                )
            )
            <= 0
        )

    @property
    def slots(self) -> int:
        """Number of slots of its table."""
        return self.collector.meter.slots

    @property
    def agents(self) -> float:
        """Mean number of agents that decided in a tick of this session."""
        return self.collector.meter.agents

    @property
    def progress(self) -> float | None:
        """Share of the present update that is done; None if its trainer does not know."""
        return self.trainer.progress if isinstance(self.trainer, Progresses) else None

    def update(self, rollout: Rollout) -> dict[str, float]:
        """Learns from a rollout. Returns measurements by tag. Raises Diverged if a loss is not finite."""
        self._look_for_groups(rollout)
        self._look_at_length(rollout)
        if not self._aligned:  # networks of a user's own may have begun differently
            self.align()
        measured = self.trainer.update(rollout, self.step).read()
        for tag, value in measured.items():
            if tag.startswith("Losses/") and not math.isfinite(value):
                raise self._diverged(f"{tag} is {value}")
        return measured

    def align(self) -> None:
        """Takes over rank 0's network. All ranks take part."""
        share_weights(self.trainer.network, self._group)
        self._aligned = True

    def reseed(self, seed: int) -> None:
        """Gives the trainer's streams of random numbers this rank's own seeds."""
        if isinstance(self.trainer, TrainerProcess):
            self.trainer.reseed(seed)
        else:
            reseed(self.trainer, seed)

    def _look_for_groups(self, rollout: Rollout) -> None:
        """Warns at the first group reward if the trainer is not made for groups."""
        if self._watches_groups and bool(rollout.group_reward.any()):
            self._watches_groups = False
            kind = self.settings.trainer_type
            self._found.append(
                f"Group rewards arrive, but trainer_type is {kind}: {kind} adds them to each agent's own rewards and "
                "does not learn which agent of a group earned them; trainer_type: poca does"
            )

    def _look_at_length(self, rollout: Rollout) -> None:
        """Says at the first rollout if `buffer_size` holds few decisions of each agent, and what follows from it."""
        hyper, horizon, (time, _) = self.settings.hyperparameters, self.settings.time_horizon, rollout.shape
        if not (self._watches_length and isinstance(hyper, PPOSettings | POCASettings)):
            return
        self._watches_length = False
        agents = int(self._group.total(self.collector.agents))
        held = min(horizon, ENOUGH)
        few = (
            f"buffer_size {hyper.buffer_size:,} holds {hyper.buffer_size // agents:,} decisions of each of "
            f"{agents:,} agents"
        )
        if self.collector.rollout_size != self.trainer.rollout_size:
            self._found.append(
                f"{few}: a rollout waits for {time} of each ({agents * time:,} in all), as ML-Agents does up to "
                "time_horizon"
            )
        elif time < min(horizon, FEW):
            self._found.append(
                f"{few}, and rewards that come later are only estimated. Without num_areas a rollout would wait for "
                f"{held} of each, as ML-Agents does up to time_horizon: buffer_size {agents * held:,}"
            )

    def must_be_finite(self) -> None:
        """Raises Diverged if a weight is not finite, or so large that outputs are not. Waits for an accelerator."""
        newest = (
            self.trainer.learned
            if isinstance(self.trainer, TrainerProcess)
            else dict(self.trainer.network.named_parameters())
        )
        for name, weights in newest.items():
            lost = ~(weights.abs() < MOST_WEIGHT)
            if lost.any():
                raise self._diverged(f"weights '{name}' hold {weights[lost][0]:g}")

    def _diverged(self, sign: str) -> Diverged:
        return Diverged(
            f"behavior '{self.name}': {sign} at step {self.step:,}: training has diverged. A smaller learning_rate, "
            "or rewards of another size (reward_signals.extrinsic.strength, or normalize: true) may prevent it"
        )

    def summary_due(self) -> int | None:
        """Returns the step of a summary that is due: the multiple of summary_freq that was passed, as in ML-Agents;
        else None.
        """
        return self._passed("next_summary", self.settings.summary_freq)

    def checkpoint_due(self) -> bool:
        """Whether its model must be written now; true a last time when training ends."""
        interval = self.settings.checkpoint_interval
        new = self.next_checkpoint < self.settings.max_steps + interval
        return self._passed("next_checkpoint", interval) is not None and new

    def _passed(self, counter: str, every: int) -> int | None:
        due = getattr(self, counter)
        if self.step < due:
            return None
        passed = self.step // every * every
        setattr(self, counter, passed + every)
        return passed

    def state_dict(self) -> dict[str, Any]:
        """Returns the content of its file in a checkpoint."""
        return {
            "trainer": self.trainer.state_dict(),
            "next_summary": self.next_summary,
            "next_checkpoint": self.next_checkpoint,
            "signals": sorted(self.settings.reward_signals),
            "changes": self.changes,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a state; a summary or checkpoint that new settings make due earlier comes at once."""
        self.trainer.load_state_dict(state["trainer"])
        self.change(state["changes"])
        every = self.settings.summary_freq
        interval = self.settings.checkpoint_interval
        self.next_summary = min(state["next_summary"], (self.step // every + 1) * every)
        self.next_checkpoint = min(state["next_checkpoint"], (self.step // interval + 1) * interval)

    def misfits(self, saved: Mapping[str, Any]) -> list[str]:
        """Returns the weights, except those of the values, whose shapes differ from a saved network's, as text."""
        heads = self.trainer.network.reward_heads
        return [line for line in self._differences(saved) if not line.startswith(heads)]

    def _differences(self, saved: Mapping[str, Any]) -> list[str]:
        own = self.trainer.network.state_dict()
        return [
            f"{key}: {_shape(saved, key)} there, {_shape(own, key)} here"
            for key in dict.fromkeys((*own, *saved))  # a memory that is only there would be missed in play
            if _shape(saved, key) != _shape(own, key)
        ]

    def initialize(self, state: Mapping[str, Any], origin: Path) -> bool:
        """Copies another run's network. Raises ConfigError if the networks differ in shape.

        Returns whether values were copied: they belong to that run's reward signals and trainer, and start anew if
        these differ.
        """
        network = self.trainer.network
        saved = state["trainer"]["network"]
        own = network.state_dict()
        differ = self._differences(saved)
        heads = network.reward_heads
        if self.misfits(saved):
            raise ConfigError(
                f"behavior '{self.name}' cannot start from {origin}: its network has another shape "
                f"({'; '.join(differ[:3])}); use the same network_settings, observations and actions, and trainers "
                "with the same networks (ppo, poca and bc have)"
            )
        others = differ or state["signals"] != sorted(self.settings.reward_signals)
        anew = {key: value for key, value in own.items() if others and key.startswith(heads)}
        if network.zeroed_heads:
            anew = {key: torch.zeros_like(value) for key, value in anew.items()}
        network.load_state_dict({key: anew.get(key, saved.get(key)) for key in own})
        self.starts_trained = True
        return not anew


def trainer_and_oddities(
    spec: BehaviorSpec,
    settings: BehaviorSettings,
    device: torch.device,
    seed: int,
    scratch: Path | None,
    group: RankGroup = ALONE,
    *,
    inference: bool = False,
) -> tuple[Trainer, list[str]]:
    """Returns a behavior's trainer, and warnings about its demonstrations. Raises ConfigError, PluginError,
    DemoError.
    """
    gpus = [device] if device.type == "cuda" else []
    with scratch_in(scratch), torch.random.fork_rng(gpus):  # the program's own random numbers go on as they were
        trainer = make_trainer(spec, settings, device, seed, group)
        found = [load_demonstrations(path, spec, device) for path in ([] if inference else _demo_paths(settings))]
    return trainer, list(dict.fromkeys(line for demonstrations in found for line in demonstrations.oddities))


def _shape(tensors: Mapping[str, Any], key: str) -> str:
    return str(tuple(tensors[key].shape)) if key in tensors else "missing"


def _demo_paths(settings: BehaviorSettings) -> Iterator[str | Sequence[str]]:
    """Yields the paths of all demonstrations that a behavior uses."""
    learners = (*settings.reward_signals.values(), settings.behavioral_cloning, settings.hyperparameters)
    yield from (path for one in learners if (path := getattr(one, "demo_path", None)) is not None)


@torch.no_grad()
def multiplications(network: Trunk) -> int:
    """Returns the multiplications of one row's forward pass through actor and critics; of attention it counts only the
    linear layers.
    """
    sized = [module for module in network.modules() if isinstance(module, StackedMLP | LSTMLayer)]
    total = sum(
        weight.numel()
        for module in sized
        for weight in module.parameters()
        if weight.dim() > 1 and weight.shape[-2] > 1
    )

    def count(layer: nn.Module, _: object, out: Tensor) -> None:
        nonlocal total
        weight = layer.weight
        assert isinstance(weight, Tensor)
        total += out.numel() * weight[0].numel()

    hooks = [
        layer.register_forward_hook(count) for layer in network.modules() if isinstance(layer, nn.Linear | nn.Conv2d)
    ]
    device = next(network.parameters()).device
    # ones: an entity of zeros would count as none
    inputs = network.prepare(tuple(torch.ones((1, *obs.shape), device=device) for obs in network.spec.obs))
    memory = torch.zeros((1, network.memory_size), device=device)
    actor: Actor = network  # type: ignore[assignment]
    actor.decide(inputs, memory)
    if isinstance(network, ActorCritic):
        network.value_with(inputs, memory)
    for hook in hooks:
        hook.remove()
    return total
