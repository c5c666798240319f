"""Random tables of agents that join and leave groups."""

import dataclasses

import torch
from tiny_envs import Stream

from palaestra.core.timestep import TimeStep
from palaestra.data.rollout import RolloutNeeds

KEEPS = RolloutNeeds(terminal_obs=True, group_ticks=True)


class Grouped:
    """A stream whose agents join one of two groups, or none, with each episode."""

    def __init__(self, seed: int, stream: Stream) -> None:
        self.stream = stream
        self.generator = torch.Generator().manual_seed(seed)
        self.group = torch.zeros(0, dtype=torch.int64)
        self.alive = torch.zeros(0, dtype=torch.bool)

    def next(self) -> TimeStep:
        step = self.stream.next()
        more = len(step.acting) - len(self.group)
        self.group = torch.cat([self.group, torch.zeros(more, dtype=torch.int64)])
        self.alive = torch.cat([self.alive, torch.zeros(more, dtype=torch.bool)])
        over = step.terminated | step.truncated if step.lost is None else step.terminated | step.truncated | step.lost
        joins = step.acting & (over | ~self.alive)
        fresh = torch.randint(-1, 2, (len(joins),), generator=self.generator)
        self.group = torch.where(joins, fresh, self.group)
        self.alive = (self.alive & ~over) | step.acting
        return dataclasses.replace(step, group=self.group.clone())
