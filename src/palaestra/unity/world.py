"""Runs an environment of Palaestra in this process, with the API of ML-Agents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from palaestra.core import specs
from palaestra.core.errors import EnvError, NotFinite
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.wrapper import EnvWrapper
from palaestra.runtime.environments.make import make_env
from palaestra.scenario.samplers import Constant, Gaussian, MultiRangeUniform, Sampler
from palaestra.unity.base_env import (
    ActionSpec,
    ActionTuple,
    BehaviorSpec,
    DecisionSteps,
    DimensionProperty,
    ObservationSpec,
    ObservationType,
    TerminalSteps,
)
from palaestra.unity.behaviors import StepResult, Steps
from palaestra.unity.exception import (
    UnityActionException,
    UnityEnvironmentException,
    UnityNotFiniteException,
    UnitySideChannelException,
)
from palaestra.unity.logging_util import get_logger
from palaestra.wire.encode import CAPABILITIES, Capabilities
from palaestra.wire.observations import DIMENSIONS
from palaestra.wire.side_channels import IncomingMessage, message_of, pack, unpack
from palaestra.wire.unity_channels import KINDS, PARAMETERS, STATS, read_parameter


class InProcessBackend:
    """Environment in this process. Each team is a behavior key once an agent of it appeared; agents keep ids."""

    def __init__(self, name: str, seed: int, areas: int, args: Sequence[str]) -> None:
        """Makes the environment. Raises UnityEnvironmentException if it does not exist."""
        if args:
            raise UnityEnvironmentException(
                f"{name} is no Unity build, which alone takes additional_args; {list(args)} were given"
            )
        try:
            self._env = EnvWrapper.of(make_env(name, areas=areas))
        except EnvError as error:
            raise UnityEnvironmentException(str(error)) from error
        self.specs: dict[str, BehaviorSpec] = {}
        self.capabilities = Capabilities(**dict.fromkeys(CAPABILITIES, True))
        self._seed = seed
        self._random = np.random.default_rng(seed & 0x7FFFFFFF)
        self._agents_of: dict[str, _BehaviorAgents] = {}
        self._samplers: dict[str, tuple[Sampler, np.random.Generator]] = {}
        self._values: dict[str, torch.Tensor] = {}
        self._refused: dict[str, str] = {}
        """Why the environment ignores the latest value of a parameter, by name."""
        self._agents = 0

    def reset(self, side_channel: bytes) -> StepResult:
        """Begins new episodes: the first time with the seed, later with seeds drawn from it."""
        self._read_side_channel(side_channel)
        seed = self._seed
        self._seed = int(self._random.integers(1 << 31))
        return self._play(lambda: self._env.reset(seed & 0x7FFFFFFF))

    def step(self, actions: Mapping[str, ActionTuple], side_channel: bytes) -> StepResult:
        """Steps; continuous actions are clipped to -1..1. Raises UnityActionException for an invalid choice."""
        self._read_side_channel(side_channel)
        env_actions = {name: agents.action(actions) for name, agents in self._agents_of.items()}
        return self._play(lambda: self._env.step(env_actions))

    def close(self) -> None:
        """Closes the environment."""
        self._env.close()

    def _play(self, tick: Callable[[], dict[str, TimeStep]]) -> StepResult:
        try:
            tables = tick()
        except NotFinite as error:
            raise UnityNotFiniteException(str(error)) from error
        except EnvError as error:
            raise UnityEnvironmentException(str(error)) from error
        steps: dict[str, Steps] = {}
        for name, step in tables.items():
            if name not in self._agents_of:
                self._agents_of[name] = _BehaviorAgents(
                    name, self._env.behaviors[name], self._env.device, self._new_ids
                )
            steps |= self._agents_of[name].read(step)
            self._resample(step)
        self.specs.update({key: self._agents_of[key.partition("?")[0]].spec for key in steps if key not in self.specs})
        return StepResult(steps, self._measured())

    def _new_ids(self, count: int) -> NDArray[np.int32]:
        first = self._agents
        self._agents = self._agents + count
        return np.arange(first, self._agents, dtype=np.int32)

    # Side channels

    def _read_side_channel(self, side_channel: bytes) -> None:
        """Reads environment parameters; other channels are for Unity's engine or a game's code."""
        for id, payload in unpack(side_channel):
            if id == PARAMETERS:
                name, sampler, seed = _read_sampler(IncomingMessage(payload))
                self._samplers[name] = sampler, np.random.default_rng(seed & 0xFFFFFFFF)
                self._values[name] = self._draw(name, self._env.num_areas)
                self._send_parameter(name)

    def _draw(self, name: str, count: int) -> torch.Tensor:
        sampler, random = self._samplers[name]
        u, v = torch.from_numpy(random.random((2, count)))
        return sampler.values(1 - u, v).float()  # of numbers above 0, whose logarithm is finite

    def _resample(self, step: TimeStep) -> None:
        """Samples parameters again in areas where an episode ended, for the episode after the next."""
        varied = [name for name, (sampler, _) in self._samplers.items() if not isinstance(sampler, Constant)]
        if varied := [name for name in varied if name not in self._refused]:
            areas = torch.unique(step.area[step.terminated | step.truncated]).cpu()
            for name in varied if len(areas) else ():
                self._values[name][areas] = self._draw(name, len(areas))
                self._send_parameter(name)

    def _send_parameter(self, name: str) -> None:
        before = self._refused.pop(name, None)
        try:
            self._env.set_parameters({name: self._values[name].clone().to(self._env.device)})
        except EnvError as error:
            self._refused[name] = str(error)
            if str(error) != before:
                get_logger(__name__).warning(f"the environment ignores the parameter '{name}': {error}")

    def _measured(self) -> bytes:
        if not self._env.traits.measures:
            return b""
        values = [(one.name, float(one.value), KINDS.index(one.kind)) for one in self._env.take_measurements()]
        return pack((STATS, bytes(message_of(*each).buffer)) for each in values)


class _BehaviorAgents:
    """Agents of one behavior: their ids and the slots that wait for actions."""

    def __init__(
        self, name: str, spec: specs.BehaviorSpec, device: torch.device, new_ids: Callable[[int], NDArray[np.int32]]
    ) -> None:
        self.spec = BehaviorSpec(
            [
                ObservationSpec(
                    obs.shape,
                    tuple(map(DimensionProperty, DIMENSIONS[len(obs.shape)])),
                    ObservationType.GOAL_SIGNAL if obs.goal else ObservationType.DEFAULT,
                    obs.name,
                )
                for obs in spec.obs
            ],
            ActionSpec(spec.action.continuous, spec.action.branches),
        )
        self._name = name
        self._device = device
        self._new_ids = new_ids
        self._ids = np.zeros(0, np.int32)
        self._waiting_slots: dict[str, NDArray[np.int64]] = {}  # by key: the slots of its DecisionSteps
        self._keys: set[str] = set()

    def read(self, step: TimeStep) -> dict[str, Steps]:
        """Returns steps by key. An end has the final observation and the reward; a decision beside it has none."""
        acting = _array(step.acting)
        ended = _array(step.terminated | step.truncated)
        if len(acting) > len(self._ids):
            self._ids = np.concatenate([self._ids, self._new_ids(len(acting) - len(self._ids))])
        if step.lost is not None and (lost := _array(step.lost)).any():
            self._ids = self._ids.copy()
            self._ids[lost] = self._new_ids(int(lost.sum()))
        arrays = _StepArrays(step, ended, self._ids, self.spec.action_spec.discrete_branches)
        teams = _array(step.team)
        self._keys |= {f"{self._name}?team={team}" for team in np.unique(teams[acting | ended]).tolist()}
        steps = {}
        for key in sorted(self._keys):
            of_team = teams == int(key.rpartition("=")[2])
            self._waiting_slots[key] = np.flatnonzero(acting & of_team)
            steps[key] = arrays.decisions(self._waiting_slots[key]), arrays.terminals(of_team)
        return steps

    def action(self, actions: Mapping[str, ActionTuple]) -> Action:
        """Returns actions of all slots; zeros for slots that do not wait for one."""
        spec = self.spec.action_spec
        rows = spec.empty_action(len(self._ids))
        continuous = rows.continuous
        discrete = rows.discrete.astype(np.int64)
        for key, slots in self._waiting_slots.items():
            if key in actions:
                continuous[slots] = actions[key].continuous.clip(-1, 1)
                discrete[slots] = actions[key].discrete
        wrong = np.argwhere((discrete < 0) | (discrete >= np.array(spec.discrete_branches, np.int64)))
        if len(wrong):
            slot, branch = wrong[0]
            raise UnityActionException(
                f"behavior '{self._name}', agent {self._ids[slot]}: branch {branch} has "
                f"{spec.discrete_branches[branch]} choices, and choice {discrete[slot, branch]} was given; they count "
                "from 0"
            )
        return Action(torch.from_numpy(continuous).to(self._device), torch.from_numpy(discrete).to(self._device))


class _StepArrays:
    """A TimeStep as arrays. `ended` and `ids` have one row for each slot."""

    def __init__(
        self, step: TimeStep, ended: NDArray[np.bool_], ids: NDArray[np.int32], branches: tuple[int, ...]
    ) -> None:
        self._obs = [_array(column) for column in step.obs]
        self._reward = _array(step.reward)
        self._group_reward = _array(step.group_reward)
        self._ended = ended
        self._ids = ids
        self._truncated = _array(step.truncated)
        self._group = _array(step.group) + 1  # 0: no group
        self._mask = None if step.action_mask is None else _array(step.action_mask)
        self._branches = branches
        slots = _array(step.final_obs.slots)
        rows = ended[slots]  # on an accelerator, final observations have rows for all slots
        self._end_slots = slots[rows]
        self._last = [_array(column)[rows] for column in step.final_obs.obs]

    def decisions(self, slots: NDArray[np.int64]) -> DecisionSteps:
        """Returns the decision requests of slots."""
        fresh = self._ended[slots]
        reward = self._reward[slots]
        group_reward = self._group_reward[slots]
        reward[fresh] = group_reward[fresh] = 0.0
        obs = [column[slots] for column in self._obs]
        return DecisionSteps(
            obs, reward, self._ids[slots], self._masks(slots), self._group[slots].tolist(), group_reward
        )

    def terminals(self, of_team: NDArray[np.bool_]) -> TerminalSteps:
        """Returns the ends of episodes in a team's slots, a mask (S,)."""
        rows = of_team[self._end_slots]
        slots = self._end_slots[rows]
        obs = [column[rows] for column in self._last]
        group = self._group[slots].tolist()
        return TerminalSteps(
            obs, self._reward[slots], self._truncated[slots], self._ids[slots], group, self._group_reward[slots]
        )

    def _masks(self, slots: NDArray[np.int64]) -> list[NDArray[np.bool_]] | None:
        if not self._branches or not len(slots):
            return None
        forbidden = np.zeros((len(slots), sum(self._branches)), np.bool_) if self._mask is None else ~self._mask[slots]
        return np.split(forbidden, np.cumsum(self._branches)[:-1], axis=1)


def _array(tensor: torch.Tensor) -> NDArray:
    return tensor.detach().cpu().numpy()


def _read_sampler(message: IncomingMessage) -> tuple[str, Sampler, int]:
    """Reads a parameter's name, distribution and seed. Raises UnitySideChannelException."""
    name, kind, numbers, seed = read_parameter(message)
    if kind == "value":
        return name, Constant(numbers[0]), seed
    if kind == "gaussian":
        if numbers[1] < 0:
            raise UnitySideChannelException(
                f"environment parameter '{name}': the standard deviation is {numbers[1]:g}; expected a number of at "
                "least 0"
            )
        return name, Gaussian(*numbers), seed
    intervals = [(min(pair), max(pair)) for pair in zip(numbers[::2], numbers[1::2], strict=True)]
    if not intervals:
        raise UnitySideChannelException(
            f"environment parameter '{name}': there are no intervals; expected at least one"
        )
    return name, MultiRangeUniform(tuple(intervals)), seed
