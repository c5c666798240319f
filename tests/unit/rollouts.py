"""Rollouts of tables and of what answers them, as buffers take them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

import torch
from tiny_envs import Stream, decide

from palaestra.core.timestep import Decision, TimeStep
from palaestra.data.rollout import Minibatch, Rollout, RolloutNeeds
from palaestra.data.slotted_buffer import RolloutBuffer, SlottedBuffer
from palaestra.data.steady_buffer import PLAIN, SteadyBuffer
from palaestra.envs.base import Env
from palaestra.runtime.collect.collector import BehaviorCollector, Collector
from palaestra.trainers.base import Trainer
from palaestra.trainers.ppo import PPO

Answer = Callable[[TimeStep], Decision]


def buffer_of(steady: bool) -> type[SteadyBuffer] | type[SlottedBuffer]:
    return SteadyBuffer if steady else SlottedBuffer


def answers(seed: int) -> Answer:
    """Random ones, as `decide` makes them."""
    generator = torch.Generator().manual_seed(seed)
    return lambda step: decide(step, generator)


def rollouts_of(
    following: Callable[[], TimeStep],
    lengths: Iterable[int],
    answer: Answer,
    needs: RolloutNeeds = PLAIN,
    *,
    steady: bool = False,
) -> Iterator[Rollout]:
    """Rollouts in a row, each of so many ticks. The next overwrites the last."""
    buffer: RolloutBuffer | None = None
    step = following()
    for ticks in lengths:
        for _ in range(ticks):
            decision = answer(step)
            buffer = buffer or buffer_of(steady)(step, decision, ticks, needs)
            buffer.open(step, decision)
            step = following()
            buffer.complete(step)
        assert buffer is not None
        yield buffer.take(step)


def rollout_of(
    steps: Sequence[TimeStep], answer: Answer, needs: RolloutNeeds = PLAIN, *, steady: bool = False
) -> Rollout:
    """The rollout of these tables, of which the last is not answered."""
    return next(rollouts_of(iter(steps).__next__, [len(steps) - 1], answer, needs, steady=steady))


def experience(
    seed: int, steady: bool = False, ticks: int = 16, needs: RolloutNeeds = PLAIN, **stream: object
) -> Rollout:
    """A rollout of a random stream."""
    made = Stream(seed, steady=steady, **stream)  # type: ignore[arg-type]
    return next(rollouts_of(made.next, [ticks], answers(seed), needs, steady=steady))


def collected(env: Env, trainer: Trainer) -> Iterator[Rollout]:
    """Rollouts of a trainer's own decisions in an environment with one behavior, without end."""
    collector = Collector(
        env,
        lambda name, spec: BehaviorCollector(name, spec, trainer.policy, trainer.rollout_size, trainer.needs),
        seed=0,
    )
    while True:
        yield from collector.collect(1000, lambda: False).values()


@torch.no_grad()
def training_rows(trainer: PPO, rollout: Rollout) -> Minibatch:
    """Returns the rows from which an update with this rollout draws its minibatches."""
    estimates = trainer._estimates(rollout)
    rewards = trainer.signals.of_rollout(rollout, estimates.reward(), None)
    values = estimates.of(rewards, trainer.signals, trainer.settings.time_horizon)
    advantage, target = trainer.advantages(rollout, values)
    return estimates.training_rows(advantage, values.value, target, trainer.group)


def minibatches(trainer: PPO, rollout: Rollout) -> Iterator[Minibatch]:
    """Minibatches of all passes of an update with this rollout."""
    rows = training_rows(trainer, rollout)
    epochs = trainer.hyper.num_epoch
    estimates = trainer._estimates(rollout)
    return chain.from_iterable(estimates.passes(rows, trainer.batch_size, epochs, trainer.shuffle_rng, trainer.group))
