"""Chooses the number of threads with which PyTorch computes in a run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping

import psutil
import torch
from torch import Tensor, nn

from palaestra.core.processes import usable_cores
from palaestra.models.actor_critic import ActorCritic
from palaestra.models.critic_only.asymmetric import AsymmetricActorCritic
from palaestra.models.lstm import LSTMLayer
from palaestra.models.policy import Actor
from palaestra.models.trunk import StackedMLP, Trunk
from palaestra.parallel.rank_group import RankGroup
from palaestra.runtime.collect.learner import Learner

MUCH_WORK = 30_000_000
"""Multiplications in one forward pass from which a second core pays off."""
SPAN = 5.0
"""Seconds of a run after which it checks whether other programs use its cores."""
ENOUGH = 0.75
"""Cores for each thread below which threads mostly wait for one another."""


class ComputeThreads:
    """Sets the number of threads: from the settings, or else by the size of the networks, chosen anew when a behavior
    appears.

    Between updates the number is 1 if copies of the environment, or trainers, compete for the cores, because several
    threads would have to wait for them.
    """

    def __init__(
        self, setting: int | None, learners: Mapping[str, Learner], group: RankGroup, *, cores_are_busy: bool
    ) -> None:
        """`cores_are_busy`: the environment simulates beside this process."""
        self.number = setting
        self._is_given = setting is not None
        self._learners = learners
        self._group = group
        self._cores_are_busy = cores_are_busy
        self.learning = 1
        """Threads during an update."""
        self.acting = 1
        """Threads between updates."""
        self._began: tuple[float, float, float] | None = None

    def choose(self, info: Callable[[str], object], saved: int | None = None) -> None:
        """Chooses the number unless the settings do, and prints it. `saved`: the number of threads of a resumed run."""
        if not self._is_given:
            if saved is None:
                work = max(map(work_of, self._learners.values()), default=0)
                number, why = threads_for(work, self._group)
                if number != self.number:
                    info(why)
                self.number = number
            else:
                self.number = saved
        threaded = any(learner.settings.threaded for learner in self._learners.values())
        self.learning = self.number or 1
        self.acting = 1 if threaded or self._cores_are_busy else self.learning
        torch.set_num_threads(self.acting)
        alone = self._group.local_size == 1 and not threaded and not self._cores_are_busy
        self._began = _clocks() if self.learning > 1 and alone else None

    def look_for_company(self, warn: Callable[[str], object]) -> None:
        """Warns once, after some seconds, if other programs leave fewer cores than there are threads."""
        if self._began is None or time.perf_counter() - self._began[0] < SPAN:
            return
        seconds, own, idle = (now - before for now, before in zip(_clocks(), self._began, strict=True))
        self._began = None
        if (cores := (own + idle) / seconds) < ENOUGH * self.learning:
            warn(
                f"other programs on this machine leave about {cores:.1f} cores for {self.learning} threads, which wait "
                "for one another: --torch-threads=1 may be several times as fast, also with --resume"
            )


def _clocks() -> tuple[float, float, float]:
    """Returns the time, this process's time on all cores, and the idle time of all cores, in seconds."""
    times = psutil.cpu_times()
    return time.perf_counter(), time.process_time(), times.idle + getattr(times, "iowait", 0.0)


def threads_for(work: int, group: RankGroup) -> tuple[int, str]:
    """Returns how many threads, and why: all usable cores (or OMP_NUM_THREADS) if a forward pass is large, else one."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    cores = int(given) if given.isdigit() else usable_cores()
    threads = max(1, cores // group.local_size) if work >= MUCH_WORK else 1
    much = f"{work / 1e6:,.0f} million" if work >= 1e6 else "less than a million"
    why = f"{much} multiplications in a pass of a minibatch or a tick; --torch-threads chooses"
    return threads, f"Computing with {threads} {'thread' if threads == 1 else 'threads'}: {why}"


def work_of(learner: Learner) -> int:
    """Returns the multiplications in one forward pass of a behavior's largest batch."""
    rows = max(learner.collector.meter.slots, getattr(learner.settings.hyperparameters, "batch_size", 0))
    return rows * multiplications(learner.trainer.network)


@torch.no_grad()
def multiplications(network: Trunk) -> int:
    """Returns the multiplications of one row's forward pass through actor and critics; attention counts only by its
    linear layers."""
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
    seen = getattr(network, "whole", network.spec).obs  # those for the critic alone, too
    inputs = network.prepare(tuple(torch.ones((1, *obs.shape), device=device) for obs in seen))
    memory = torch.zeros((1, network.memory_size), device=device)
    actor: Actor = network  # type: ignore[assignment]
    actor.decide(inputs, memory)
    if isinstance(network, ActorCritic | AsymmetricActorCritic):
        network.value_with(inputs, memory)
    for hook in hooks:
        hook.remove()
    return total
