"""Steps an environment and fills a rollout for each behavior that learns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Protocol

import torch
from torch import Tensor

from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Decision, TimeStep
from palaestra.data.rollout import Rollout, RolloutNeeds
from palaestra.data.slotted_buffer import RolloutBuffer, SlottedBuffer
from palaestra.data.steady_buffer import PLAIN, SteadyBuffer
from palaestra.envs.base import Env
from palaestra.envs.wrapper import EnvWrapper
from palaestra.models.policy import PendingDecision
from palaestra.runtime.collect.acting_policy import ActingPolicy
from palaestra.runtime.collect.env_checks import check_ends, check_rollout, check_shapes, check_step
from palaestra.runtime.collect.episode_meter import EpisodeMeter

FEW = 16
"""Fewest decisions of each agent in a rollout: with fewer, the rollout is made longer (`BehaviorCollector`), or the run
warns (`Learner`)."""


class BehaviorCollector:
    """Collects the decisions of one behavior."""

    def __init__(
        self,
        name: str,
        spec: BehaviorSpec,
        policy: ActingPolicy,
        rollout_size: int | None,
        needs: RolloutNeeds = PLAIN,
        patience: int = 0,
        longest: int = 0,
    ) -> None:
        """`rollout_size`: decisions in a rollout; None if nothing is learned. `needs`: the trainer's other requirements
        for a rollout.

        `patience`: if `rollout_size` holds fewer than `FEW` decisions of each agent, and fewer than `patience`, a
        rollout waits for `patience` decisions of each, but for at most `longest` in total; 0: it never waits.
        """
        self.name = name
        self.spec = spec
        self.policy = policy
        self.rollout_size = rollout_size
        self.needs = needs
        self.patience = patience
        self.longest = longest
        self.agents = 0
        """Greatest number of the learning policy's agents that decided within one rollout."""
        self._asked_for = rollout_size or 0
        self.buffer: RolloutBuffer | None = None
        self.meter = EpisodeMeter(0)
        self.decisions = 0
        """Completed decisions since the run began, including the decisions of lost episodes; in inference, all
        decisions that were requested."""
        self.shared = False
        """Whether fixed policies (self-play opponents) play some of the behavior's slots."""
        self.counted: Tensor | None = None
        """Slots (S,) played by the learning policy in the episodes that end with the present tables; None: all."""

    def open(self, step: TimeStep, chosen: PendingDecision) -> None:
        """Stores a decision if a trainer learns from it."""
        if self.rollout_size is not None:
            decision = chosen.decision()
            if chosen.learned is not None:
                step = replace(step, acting=step.acting & chosen.learned)
            if self.buffer is None:
                self.buffer = self.make_buffer(step, decision)
            self.buffer.open(step, decision)

    def make_buffer(self, step: TimeStep, decision: Decision) -> RolloutBuffer:
        """Allocates a buffer for one rollout of these slots."""
        assert self.rollout_size is not None
        self._wait_for(self.agents or (len(step.reward) if self.steady else int(step.acting.sum())))
        ticks = math.ceil(self.rollout_size / max(len(step.reward), 1))
        return (SteadyBuffer if self.steady else SlottedBuffer)(step, decision, ticks, self.needs)

    def complete(self, step: TimeStep) -> int:
        """Completes decisions in the buffer, and returns their number. Agents that first decided after the buffer was
        made may make a rollout longer."""
        assert self.buffer is not None
        assert self.rollout_size is not None
        completed = self.buffer.complete(step)
        if self.patience and self.buffer.decisions >= self.rollout_size:
            agents = self.buffer.agents  # where teams took turns, those of both
            self._wait_for(agents if self.counted is None else min(agents, int(self.counted.sum())))
        return completed

    def forget(self) -> None:
        """Drops the rollout and the open episodes, as the slots now get other agents, possibly more or fewer."""
        self.policy.forget()
        self.buffer = None
        self.meter.forget()
        self.counted = None

    def _wait_for(self, agents: int) -> None:
        self.agents = max(self.agents, agents, 1)
        if self._asked_for < self.agents * min(self.patience, FEW):
            self.rollout_size = max(self._asked_for, min(self.agents * self.patience, self.longest))

    def own(self, step: TimeStep) -> Tensor:
        """Returns which slots (S,) act and belong to the learning policy."""
        return step.acting if self.counted is None else step.acting & self.counted

    @property
    def steady(self) -> bool:
        """Whether every slot makes a decision to learn from on every tick."""
        return self.spec.steady and not self.shared

    @property
    def full(self) -> bool:
        """Whether the behavior's rollout is complete."""
        return self.may_be_full(0)

    def may_be_full(self, more: int) -> bool:
        """Whether the behavior's rollout would be complete after `more` further decisions."""
        return (
            self.rollout_size is not None
            and self.buffer is not None
            and self.buffer.decisions + more >= self.rollout_size
        )


class TickObserver(Protocol):
    """Receives every tick's tables before actions are chosen for them."""

    @property
    def idle(self) -> bool:
        """Whether `tick` need not be called until another behavior joins or a reset."""
        ...

    def begin(self, steps: Mapping[str, TimeStep]) -> None:
        """Processes the first tables after a reset."""
        ...

    def tick(self, steps: Mapping[str, TimeStep]) -> None:
        """Processes the tables of a tick."""
        ...


class Collector:
    """Steps one environment and collects a rollout for each of its behaviors.

    `join(name, spec)` is called when a behavior first appears, and returns its collector.
    """

    def __init__(
        self,
        env: Env,
        join: Callable[[str, BehaviorSpec], BehaviorCollector],
        seed: int,
        observers: Sequence[TickObserver] = (),
        stagger: bool = False,
    ) -> None:
        """`stagger`: its first episodes end at different times, and are not counted."""
        self._stagger = stagger
        self.env = EnvWrapper.of(env)
        self.collectors = dict[str, BehaviorCollector]()
        self._join = join
        self._observers = observers
        self._at_work: list[TickObserver] = []
        """Observers that are not idle, as known when a behavior last appeared or the environment was last reset."""
        self.seconds = {"environment": 0.0, "inference": 0.0}
        self.on_host = env.device.type == "cpu"
        """Whether tables are in the CPU's memory, so that reading them does not wait for a device."""
        self._recorded = True
        """Whether the tables in `steps` are recorded in buffers and meters."""
        self.steps: dict[str, TimeStep] = env.reset(seed)
        self._stagger_and_begin(seed)

    def _begin(self, *, partial: bool = False) -> None:
        """Takes in the first tables of a session or after a reset. `partial`: episodes begin in their midst."""
        self._add_new_behaviors()
        for name, step in self.steps.items():
            self.collectors[name].meter.begin(step, partial=partial)
        for observer in self._observers:
            observer.begin(self.steps)

    def _add_new_behaviors(self) -> None:
        for name in self.steps:
            if name not in self.collectors:
                check_shapes(name, self.env.behaviors[name], self.steps[name])
                self.collectors[name] = self._join(name, self.env.behaviors[name])
        self._at_work = [observer for observer in self._observers if not observer.idle]

    def restart(self, seed: int) -> None:
        """Resets the environment. Open episodes and rollouts are dropped."""
        self.steps = self.env.reset(seed)
        for collector in self.collectors.values():
            collector.forget()
        self._stagger_and_begin(seed)

    def go_on(self, steps: dict[str, TimeStep]) -> None:
        """Continues with the tables of an environment whose state was restored."""
        self.steps = steps
        self._begin()

    def _stagger_and_begin(self, seed: int) -> None:
        if self._stagger:
            self.env.stagger(seed)
        self._begin(partial=self._stagger)

    @torch.no_grad()
    def collect(self, ticks: int, until: Callable[[], bool]) -> dict[str, Rollout]:
        """Steps as `advance` does. Returns the full rollouts."""
        self.advance(ticks, until)
        return {name: self.take(name) for name in self.full}

    @torch.no_grad()
    def advance(self, ticks: int, until: Callable[[], bool]) -> None:
        """Steps until a rollout is full, `ticks` have passed, `until()` is true or a behavior appears."""
        known = len(self.collectors)
        for _ in range(ticks):
            self._tick()
            if any(collector.full for collector in self.collectors.values()) or len(self.collectors) > known or until():
                break
        self._record()

    @property
    def full(self) -> list[str]:
        """Behaviors whose rollout is full."""
        return [name for name, collector in self.collectors.items() if collector.full]

    def _tick(self) -> None:
        """Makes one tick. The environment gets its actions first, so that it works while the rest is done."""
        start = perf_counter()
        chosen = {
            name: self.collectors[name].policy.choose(step)
            for name, step in self.steps.items()
            if self._may_ask(name, step)
        }
        for name, step in self.steps.items():
            if name not in chosen:
                self.collectors[name].policy.see(step)
        actions = {name: choice.action for name, choice in chosen.items()}
        sending = perf_counter()
        self.env.send(actions)
        sending = perf_counter() - sending
        self._record()
        for name, choice in chosen.items():
            self.collectors[name].open(self.steps[name], choice)
        decided = perf_counter()
        self.steps = self.env.receive()
        stepped = perf_counter()
        if not self.collectors.keys() >= self.steps.keys():
            self._add_new_behaviors()
        for observer in self._at_work:
            observer.tick(self.steps)
        self._recorded = False
        if any(self.collectors[name].may_be_full(len(step.acting)) for name, step in self.steps.items()):
            self._record()  # the next decisions may be those of another policy
        self.seconds["environment"] += stepped - decided + sending
        self.seconds["inference"] += decided - start - sending + perf_counter() - stepped

    def _may_ask(self, name: str, step: TimeStep) -> bool:
        """Whether an agent of a behavior may be waiting for an action."""
        return not self.on_host or self.collectors[name].spec.steady or bool(step.acting.any())

    def _record(self) -> None:
        if not self._recorded:
            self._recorded = True
            for name, step in self.steps.items():
                self._record_behavior(self.collectors[name], step)

    def _record_behavior(self, collector: BehaviorCollector, step: TimeStep) -> None:
        if self.on_host and not (step.action_mask is None and finite(*step.obs, step.reward, step.group_reward)):
            check_step(collector.name, collector.spec, step)
        collector.meter.add(step, collector.counted)
        if collector.buffer is not None:
            collector.decisions += collector.complete(step)
        elif collector.rollout_size is None:
            collector.decisions += len(step.acting) if collector.steady else int(collector.own(step).sum())

    def take(self, name: str) -> Rollout:
        """Returns a behavior's rollout and begins the next one. Raises EnvError if the environment sent numbers that
        are not finite."""
        return taken(self.collectors[name], self.steps[name])


def taken(collector: BehaviorCollector, step: TimeStep) -> Rollout:
    """Returns the rollout that a collector has filled up to this table, and lets it begin the next one. Raises EnvError
    if the environment sent numbers that are not finite."""
    assert collector.buffer is not None
    rollout = collector.buffer.take(step)
    if not finite(*rollout.final_obs):
        check_ends(collector.name, collector.spec, rollout)
    if step.reward.device.type != "cpu":
        check_rollout(collector.name, collector.spec, rollout)
    return rollout


def finite(*columns: Tensor) -> bool:
    """Whether the sums of columns are finite, which they are if all numbers are finite and not huge."""
    return all(map(math.isfinite, map(torch.sum, columns)))
