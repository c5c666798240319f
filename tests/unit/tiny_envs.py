"""Streams, environments and settings small enough to be checked by hand."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor

from palaestra.core.errors import EnvError
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.core.timestep import Action, Decision, FinalObs, TimeStep
from palaestra.data.rollout import Rollout
from palaestra.data.slotted_buffer import RolloutBuffer
from palaestra.models.settings import NetworkSettings
from palaestra.runtime.collect.episodes import Episodes
from palaestra.trainers.behavior_settings import BehaviorSettings

CPU = torch.device("cpu")


def spec_of(
    *shapes: tuple[int, ...], continuous: int = 0, branches: tuple[int, ...] = (), goals: tuple[int, ...] = ()
) -> BehaviorSpec:
    """Observations `o0`, `o1`, ... of these shapes."""
    obs = tuple(ObsSpec(f"o{i}", shape, goal=i in goals) for i, shape in enumerate(shapes))
    return BehaviorSpec(obs, ActionSpec(continuous, branches), steady=True)


def network_settings(**values: Any) -> NetworkSettings:
    return NetworkSettings.model_validate({"hidden_units": 16, "num_layers": 2, **values})


def behavior_settings(
    hyper: Mapping[str, Any] | None = None,
    network: Mapping[str, Any] | None = None,
    extrinsic: Mapping[str, Any] | None = None,
    **rest: Any,
) -> BehaviorSettings:
    """PPO in miniature: 64 decisions a rollout, 16 a minibatch, a network of 16 units."""
    return BehaviorSettings.model_validate(
        {
            "trainer_type": "ppo",
            "hyperparameters": {
                "batch_size": 16,
                "buffer_size": 64,
                "learning_rate_schedule": "constant",
                **(hyper or {}),
            },
            "network_settings": {"hidden_units": 16, "num_layers": 2, **(network or {})},
            "reward_signals": {"extrinsic": dict(extrinsic or {})},
            **rest,
        }
    )


def table(
    obs: Tensor | tuple[Tensor, ...],
    *,
    acting: list[bool] | None = None,
    reward: list[float] | None = None,
    terminated: list[int] = (),  # type: ignore[assignment]
    truncated: list[int] = (),  # type: ignore[assignment]
    final_obs: tuple[Tensor, ...] | None = None,
    mask: Tensor | None = None,
) -> TimeStep:
    """A TimeStep; `terminated` and `truncated` list the slots that are."""
    obs = obs if isinstance(obs, tuple) else (obs,)
    slots = len(obs[0])
    ended = torch.zeros(2, slots, dtype=torch.bool)
    ended[0, list(terminated)] = True
    ended[1, list(truncated)] = True
    where = ended.any(0).nonzero()[:, 0]
    none = torch.zeros(slots, dtype=torch.int64)
    return TimeStep(
        obs=obs,
        acting=torch.ones(slots, dtype=torch.bool) if acting is None else torch.tensor(acting),
        reward=torch.zeros(slots) if reward is None else torch.tensor(reward),
        group_reward=torch.zeros(slots),
        terminated=ended[0],
        truncated=ended[1],
        final_obs=FinalObs(where, tuple(x[where] for x in obs) if final_obs is None else final_obs),
        action_mask=mask,
        area=none,
        team=none,
        group=none - 1,
    )


class Stream:
    """Random tables of a behavior: slots that act, wait, end (some before they ever acted), are cut, stay empty, grow
    and are lost.

    No two observations are equal.
    """

    def __init__(
        self,
        seed: int,
        slots: int = 4,
        steady: bool = False,
        masked: bool = False,
        grows_at: int | None = None,
        losses: float = 0,
    ) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.steady = steady
        self.masked = masked
        self.grows_at = grows_at
        self.losses = losses
        self.tick = 0
        self.alive = torch.zeros(slots, dtype=torch.bool)

    def next(self) -> TimeStep:
        if self.tick == self.grows_at:
            self.alive = torch.cat([self.alive, torch.zeros_like(self.alive)])
        slots = len(self.alive)
        ended = self._chance(0.2)
        if self.steady:
            ended = ended & self.alive
        terminated = ended & self._chance(0.5)
        acting = torch.ones_like(ended) if self.steady else self._chance(0.6)
        lost = self._chance(self.losses) & ~ended if self.losses else torch.zeros_like(ended)
        self.alive = (self.alive & ~ended & ~lost) | acting
        self.tick += 1
        seen = torch.stack([torch.full((slots,), float(self.tick)), torch.arange(float(slots))], 1)
        where = ended.nonzero()[:, 0]
        return TimeStep(
            obs=(seen, seen[:, :1] / 1000),
            acting=acting,
            reward=torch.randn(slots, generator=self.generator),
            group_reward=torch.randn(slots, generator=self.generator),
            terminated=terminated,
            truncated=ended & ~terminated,
            final_obs=FinalObs(where, (seen[where] + 0.5, seen[where, :1] / 1000 + 0.5)),
            action_mask=self._mask(slots) if self.masked else None,
            area=torch.arange(slots),
            team=torch.zeros(slots, dtype=torch.int64),
            group=torch.full((slots,), -1),
            lost=lost if lost.any() else None,
        )

    def _chance(self, probability: float) -> Tensor:
        return torch.rand(len(self.alive), generator=self.generator) < probability

    def _mask(self, slots: int) -> Tensor:
        mask = torch.rand(slots, 5, generator=self.generator) < 0.5
        mask[:, (0, 3)] = True
        return mask


def decide(step: TimeStep, generator: torch.Generator) -> Decision:
    """Any answer: two numbers and two branches."""
    slots = len(step.reward)
    sample = Action(torch.randn(slots, 2, generator=generator), torch.randint(0, 2, (slots, 2), generator=generator))
    return Decision(sample, sample, torch.randn(slots, 4, generator=generator), torch.zeros(slots, 0))


@dataclass
class PlainBuffer:
    """What a RolloutBuffer must do, one slot and one number at a time."""

    open_decisions: dict[int, dict[str, Any]] = field(default_factory=dict)
    done: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    decisions: int = 0

    def open(self, step: TimeStep, decision: Decision) -> None:
        for slot in range(len(step.reward)):
            if step.acting[slot]:
                self.open_decisions[slot] = {
                    "obs": [x[slot].tolist() for x in step.obs],
                    "continuous": decision.sample.continuous[slot].tolist(),
                    "discrete": decision.sample.discrete[slot].tolist(),
                    "log_prob": decision.log_prob[slot].tolist(),
                    "mask": None if step.action_mask is None else step.action_mask[slot].tolist(),
                }

    def complete(self, step: TimeStep) -> int:
        for slot in [] if step.lost is None else step.lost.nonzero()[:, 0].tolist():
            self._forget(slot)
        before = self.decisions
        final = {int(slot): [x[i].tolist() for x in step.final_obs.obs] for i, slot in enumerate(step.final_obs.slots)}
        for slot in list(self.open_decisions):
            if step.acting[slot] or step.terminated[slot] or step.truncated[slot]:
                row = self.open_decisions.pop(slot)
                for name in ("reward", "group_reward", "terminated", "truncated"):
                    row[name] = getattr(step, name)[slot].item()
                row["final"] = final[slot] if step.truncated[slot] else None
                self.done.setdefault(slot, []).append(row)
                self.decisions += 1
        return self.decisions - before

    def _forget(self, slot: int) -> None:
        self.open_decisions.pop(slot, None)
        rows = self.done.pop(slot, [])
        while rows and not (rows[-1]["terminated"] or rows[-1]["truncated"]):
            rows.pop()
            self.decisions -= 1
        if rows:
            self.done[slot] = rows

    def take(self, step: TimeStep) -> dict[int, tuple[list[dict[str, Any]], list[list[float]]]]:
        """For each slot with decisions: them, and the view that followed the last."""
        following = {
            slot: self.open_decisions[slot]["obs"]
            if slot in self.open_decisions
            else [x[slot].tolist() for x in step.obs]
            for slot in self.done
        }
        taken = {slot: (rows, following[slot]) for slot, rows in self.done.items()}
        self.done = {}
        self.decisions = 0
        return taken


def plainly(rollout: Rollout) -> dict[int, tuple[list[dict[str, Any]], list[list[float]]]]:
    """A Rollout in the shape of `PlainBuffer.take`."""
    time, slots = rollout.shape
    final = {int(row): [x[i].tolist() for x in rollout.final_obs] for i, row in enumerate(rollout.final_rows)}
    lengths = [time] * slots if rollout.lengths is None else rollout.lengths.tolist()

    def row(t: int, slot: int) -> dict[str, Any]:
        return {
            "obs": [x[t, slot].tolist() for x in rollout.obs],
            "continuous": rollout.sample.continuous[t, slot].tolist(),
            "discrete": rollout.sample.discrete[t, slot].tolist(),
            "log_prob": rollout.log_prob[t, slot].tolist(),
            "mask": None if rollout.action_mask is None else rollout.action_mask[t, slot].tolist(),
            **{
                name: getattr(rollout, name)[t, slot].item()
                for name in ("reward", "group_reward", "terminated", "truncated")
            },
            "final": final.get(t * slots + slot),
        }

    return {
        slot: ([row(t, slot) for t in range(length)], [x[slot].tolist() for x in rollout.last_obs])
        for slot, length in enumerate(lengths)
        if length
    }


def fill(
    buffers: list[RolloutBuffer | PlainBuffer], stream: Stream, first: TimeStep, ticks: int, generator: torch.Generator
) -> TimeStep:
    """The same ticks into each buffer; the last table."""
    step = first
    for _ in range(ticks):
        decision = decide(step, generator)
        for buffer in buffers:
            buffer.open(step, decision)
        step = stream.next()
        for buffer in buffers:
            buffer.complete(step)
    return step


EpisodeList = list[tuple[float, float, int]]


def slow_episodes(steps: list[TimeStep]) -> EpisodeList:
    """Return, group return and decisions of each episode that ends, slot by slot."""
    waiting = set[int]()
    sums = dict[int, list[float]]()
    ended = []
    for tick, step in enumerate(steps):
        for slot in range(len(step.reward)):
            end = bool(step.terminated[slot] | step.truncated[slot])
            acts = bool(step.acting[slot])
            if step.lost is not None and step.lost[slot]:
                waiting.discard(slot)
                sums.pop(slot, None)
            total = sums.setdefault(slot, [0.0, 0.0, 0])
            if tick and slot in waiting and (end or acts):
                total[0] += float(step.reward[slot])
                total[1] += float(step.group_reward[slot])
                total[2] += 1
                waiting.discard(slot)
            if tick and end and total[2]:
                ended.append((total[0], total[1], int(total[2])))
                sums[slot] = [0.0, 0.0, 0]
            if acts:
                waiting.add(slot)
    return ended


def episodes_of(*taken: Episodes) -> EpisodeList:
    return [
        (float(own), float(group), int(length))
        for episodes in taken
        for own, group, length in zip(episodes.returns, episodes.group_returns, episodes.lengths, strict=True)
    ]


def same_episodes(found: EpisodeList, expected: EpisodeList) -> None:
    assert len(found) == len(expected) > 0
    for mine, theirs in zip(found, expected, strict=True):
        assert mine == pytest.approx(theirs, rel=1e-6)


class Bandit:
    """Every episode is one decision. The observation names the best choice, or the best number; rewards fall off from
    it.
    """

    device = CPU
    parameters: Mapping[str, float] = {}

    def __init__(self, areas: int, continuous: int = 0, branches: tuple[int, ...] = ()) -> None:
        self.num_areas = areas
        self.behaviors: Mapping[str, BehaviorSpec] = {"Bandit": spec_of((2,), continuous=continuous, branches=branches)}
        self.generator = torch.Generator()
        self.side = torch.zeros(areas)

    def reset(self, seed: int) -> dict[str, TimeStep]:
        self.generator.manual_seed(seed)
        return {"Bandit": self._table(torch.zeros(self.num_areas), ended=False)}

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        action = actions["Bandit"]
        wanted = self.side
        numbers = 1 - (action.continuous - 0.5 * wanted.unsqueeze(1)).abs().mean(1) if action.continuous.shape[1] else 0
        choices = (
            (action.discrete == (wanted > 0).long().unsqueeze(1)).float().mean(1) if action.discrete.shape[1] else 0
        )
        return {"Bandit": self._table(torch.zeros(self.num_areas) + numbers + choices, ended=True)}

    def _table(self, reward: Tensor, ended: bool) -> TimeStep:
        before = self._observe()
        self.side = torch.randint(0, 2, (self.num_areas,), generator=self.generator) * 2.0 - 1
        rows = list(range(self.num_areas)) if ended else []
        step = table(self._observe(), terminated=rows, final_obs=(before[rows],))
        return TimeStep(**{**{name: getattr(step, name) for name in step.__slots__}, "reward": reward.float()})

    def _observe(self) -> Tensor:
        return torch.stack([self.side, torch.ones_like(self.side)], 1)

    def set_parameters(self, values: Mapping[str, Tensor]) -> None:
        if values:
            raise EnvError(f"Bandit has no parameters, so not {', '.join(values)}")

    def render(self, area: int) -> Any:
        raise EnvError("Bandit has no picture")

    def state_dict(self) -> dict[str, Tensor]:
        return {"generator": self.generator.get_state(), "side": self.side}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.generator.set_state(state["generator"])
        self.side = state["side"].clone()

    def close(self) -> None:
        pass


class Scripted:
    """Plays `Stream`s, one a behavior, each from its own tick on; what agents do changes nothing. Cannot be saved."""

    device = CPU
    num_areas = 16
    parameters: Mapping[str, float] = {}

    def __init__(
        self,
        streams: dict[str, dict[str, Any]],
        appears: dict[str, int] | None = None,
        absent: dict[str, int] | None = None,
    ) -> None:
        """`appears`: the first tick of a behavior; `absent`: a tick at which it has no table."""
        self.made = streams
        self.appears = appears or {}
        self.absent = absent or {}
        self.behaviors: Mapping[str, BehaviorSpec] = {}
        self.tick = 0
        self.streams = dict[str, Stream]()
        self.tables: list[dict[str, TimeStep]] = []
        """Everything it ever showed since reset."""

    def reset(self, seed: int) -> dict[str, TimeStep]:
        self.tick = 0
        self.tables = []
        self.streams = {name: Stream(seed + i, **options) for i, (name, options) in enumerate(self.made.items())}
        return self._show()

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        self.tick += 1
        return self._show()

    def _show(self) -> dict[str, TimeStep]:
        steps = {}
        for name, stream in self.streams.items():
            if self.tick >= self.appears.get(name, 0) and self.tick != self.absent.get(name):
                masked = stream.masked
                steady = stream.steady
                obs = (ObsSpec("place", (2,)), ObsSpec("time", (1,)))
                spec = BehaviorSpec(obs, ActionSpec(2, (3, 2)) if masked else ActionSpec(2, (2, 2)), steady)
                self.behaviors = {**self.behaviors, name: spec}
                steps[name] = stream.next()
        self.tables.append(steps)
        return steps

    def set_parameters(self, values: Mapping[str, Tensor]) -> None:
        raise EnvError("Scripted has no parameters")

    def render(self, area: int) -> Any:
        raise EnvError("Scripted has no picture")

    def state_dict(self) -> dict[str, Tensor]:
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        raise EnvError("Scripted cannot be saved")

    def close(self) -> None:
        pass
