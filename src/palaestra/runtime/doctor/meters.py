"""Collects statistics of the data that an environment sends: observations, rewards, masks, episodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from palaestra.core.specs import BehaviorSpec, ObsSpec, describe
from palaestra.core.timestep import TimeStep
from palaestra.runtime.collect.episode_meter import EpisodeMeter

FAR = 5.0
"""Absolute value above which a number counts as far outside -1..1, the range in which networks learn best."""


@dataclass(frozen=True, slots=True)
class ObservationReport:
    """Statistics of one observation over all decisions; for an observation of variable length, over the rows in use."""

    name: str
    shape: tuple[int, ...]
    kind: str  # vector, variable length, image
    goal: bool
    rows: int  # decisions with this observation
    low: float
    high: float
    mean: float
    std: float
    elements: int
    constant: tuple[int, ...]  # elements, flattened, that never changed
    far: int  # elements that were beyond FAR
    one_color: bool  # an image whose channels each had one value, everywhere and always
    entities: tuple[int, int] | None  # smallest and largest number of rows in use, if variable


@dataclass(frozen=True, slots=True)
class RewardReport:
    """Statistics of the rewards of decisions."""

    low: float
    high: float
    mean: float
    nonzero: float  # fraction


@dataclass(frozen=True, slots=True)
class BehaviorReport:
    """Statistics of one behavior."""

    name: str
    spec: str  # in words
    decisions: int
    agents: tuple[int, int]  # smallest and largest number that acted on one tick
    teams: tuple[int, ...]
    groups: int
    terminated: int
    truncated: int
    lost: int
    mean_length: float | None  # decisions of an episode
    mean_return: float | None
    length_std: float | None
    return_std: float | None
    masked: float | None  # fraction of choices that were forbidden; None: no mask forbade any
    branches: bool  # whether the action can be masked
    reward: RewardReport | None
    group_reward: RewardReport | None  # None: always zero
    observations: tuple[ObservationReport, ...]


class ObservationMeter:
    """Collects statistics of one observation."""

    def __init__(self, spec: ObsSpec) -> None:
        self.spec = spec
        self._rows = self._numbers = 0
        self._mean = self._squares = 0.0
        size = spec.shape[1:] if spec.is_entities else spec.shape
        self._low = torch.full(size, torch.inf)
        self._high = torch.full(size, -torch.inf)
        self._entities: tuple[int, int] | None = None

    def add(self, seen: Tensor) -> None:
        """Adds observations, (N, *shape)."""
        if self.spec.is_entities and len(seen):
            present = (seen != 0).any(2)
            fewest, most = (int(x) for x in present.sum(1).aminmax())
            before = self._entities or (fewest, most)
            self._entities = min(before[0], fewest), max(before[1], most)
            seen = seen[present]
        if not len(seen):
            return
        self._rows += len(seen)
        self._low = torch.minimum(self._low, seen.amin(0))
        self._high = torch.maximum(self._high, seen.amax(0))
        variance, mean = (float(x) for x in torch.var_mean(seen.double(), correction=0))
        count = seen.numel()
        total = self._numbers + seen.numel()
        apart = mean - self._mean
        self._squares += variance * count + apart**2 * self._numbers * count / total
        self._mean += apart * count / total
        self._numbers = total

    def report(self) -> ObservationReport | None:
        """Returns the statistics; None if there were no observations."""
        spec = self.spec
        if not self._rows:
            return None
        low = self._low.flatten()
        high = self._high.flatten()
        constant = (low == high).nonzero()[:, 0].tolist()
        of_channels = (
            bool((self._low.flatten(1).amin(1) == self._high.flatten(1).amax(1)).all()) if spec.is_visual else False
        )
        return ObservationReport(
            name=spec.name,
            shape=spec.shape,
            kind="vector" if spec.is_vector else "image" if spec.is_visual else "variable length",
            goal=spec.goal,
            rows=self._rows,
            low=float(low.min()),
            high=float(high.max()),
            mean=self._mean,
            std=(self._squares / self._numbers) ** 0.5,
            elements=len(low),
            constant=tuple(constant),
            far=int(((low < -FAR) | (high > FAR)).sum()),
            one_color=of_channels,
            entities=self._entities,
        )


class RewardMeter:
    """Collects statistics of one kind of reward."""

    def __init__(self) -> None:
        self._rewards: list[Tensor] = []

    def add(self, rewards: Tensor) -> None:
        """Adds rewards, (N,)."""
        self._rewards.append(rewards)

    def report(self) -> RewardReport | None:
        """Returns the statistics; None if there were no rewards."""
        rewards = torch.cat(self._rewards).double() if self._rewards else torch.zeros(0)
        if not len(rewards):
            return None
        return RewardReport(
            float(rewards.min()), float(rewards.max()), float(rewards.mean()), float((rewards != 0).double().mean())
        )


class BehaviorMeter:
    """Collects statistics of one behavior, starting with its first table."""

    def __init__(self, name: str, spec: BehaviorSpec, first: TimeStep) -> None:
        self.name = name
        self.spec = spec
        self._observations = [ObservationMeter(obs) for obs in spec.obs]
        self._reward = RewardMeter()
        self._group_reward = RewardMeter()
        self._episodes = EpisodeMeter(len(first.reward))
        self._episodes.begin(first)
        self._waiting = torch.zeros(0, dtype=torch.bool)
        self._agents: list[int] = []
        self._teams = set[int]()
        self._groups = set[int]()
        self._terminated = self._truncated = self._lost = 0
        self._choices = self._forbidden = 0
        self._see(first)

    def add(self, step: TimeStep) -> None:
        """Adds a later tick."""
        self._episodes.add(step)
        self._terminated += int(step.terminated.sum())
        self._truncated += int(step.truncated.sum())
        self._widen(len(step.reward))
        if step.lost is not None:
            self._lost += int((step.lost & self._waiting).sum())
            self._waiting &= ~step.lost
        completed = self._waiting & (step.acting | step.terminated | step.truncated)
        self._reward.add(step.reward[completed])
        self._group_reward.add(step.group_reward[completed])
        self._waiting &= ~completed
        self._see(step)

    def _see(self, step: TimeStep) -> None:
        acting = step.acting
        self._widen(len(acting))
        self._waiting |= acting
        self._agents.append(int(acting.sum()))
        for meter, seen in zip(self._observations, step.obs, strict=True):
            meter.add(seen[acting])
        self._teams.update(step.team[acting].unique().tolist())
        self._groups.update(group for group in step.group[acting].unique().tolist() if group >= 0)
        if step.action_mask is not None:
            allowed = step.action_mask[acting]
            self._choices += allowed.numel()
            self._forbidden += int((~allowed).sum())

    def _widen(self, slots: int) -> None:
        more = slots - len(self._waiting)
        if more > 0:
            self._waiting = torch.cat([self._waiting, self._waiting.new_zeros(more)])

    def report(self) -> BehaviorReport:
        """Returns the statistics of all ticks."""
        episodes = self._episodes.take()
        own = episodes.together
        group_reward = self._group_reward.report()
        seen = [meter.report() for meter in self._observations]
        return BehaviorReport(
            name=self.name,
            spec=describe(self.spec),
            decisions=sum(self._agents),
            agents=(min(self._agents), max(self._agents)),
            teams=tuple(sorted(self._teams)),
            groups=len(self._groups),
            terminated=self._terminated,
            truncated=self._truncated,
            lost=self._lost,
            mean_length=float(np.mean(episodes.lengths)) if len(own) else None,
            mean_return=float(np.mean(own)) if len(own) else None,
            length_std=float(np.std(episodes.lengths)) if len(own) else None,
            return_std=float(np.std(own)) if len(own) else None,
            masked=self._forbidden / self._choices if self._forbidden else None,
            branches=bool(self.spec.action.branches),
            reward=self._reward.report(),
            group_reward=group_reward if group_reward is not None and group_reward.nonzero else None,
            observations=tuple(report for report in seen if report is not None),
        )
