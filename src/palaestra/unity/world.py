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
from palaestra.unity.exception import (
    UnityActionException,
    UnityEnvironmentException,
    UnityNotFiniteException,
    UnitySideChannelException,
)
from palaestra.unity.game_backend import StepResult, Steps
from palaestra.unity.logging_util import get_logger
from palaestra.wire.encode import CAPABILITIES, Capabilities
from palaestra.wire.observations import DIMENSIONS
from palaestra.wire.side_channels import IncomingMessage, message_of, pack, unpack
from palaestra.wire.unity_channels import KINDS, PARAMETERS, STATS, read_parameter


class InProcessBackend:
    """Environment in this process. Each team becomes a behavior key once one of its agents has appeared; agents keep
    their ids."""

    def __init__(self, name: str, seed: int, areas: int, args: Sequence[str]) -> None:
        """Makes the environment. Raises UnityEnvironmentException if it does not exist."""
        if args:
            raise UnityEnvironmentException(
                f"only a Unity build takes additional_args; {name} is no Unity build, and got {list(args)}"
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
        """Why the environment ignores the latest value of a parameter, by the parameter's name."""
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
        """Returns steps by key. The end of an episode has the final observation and the reward; a decision after it has
        no reward."""
        acting = _array(step.acting)
        ended = _array(step.terminated | step.truncated)
        if len(acting) > len(self._ids):
            self._ids = np.concatenate([self._ids, self._new_ids(len(acting) - len(self._ids))])
        if step.lost is not None and (lost := _array(step.lost)).any():
            self._ids = self._ids.copy()
            self._ids[lost] = self._new_ids(int(lost.sum()))
        obs = [_array(column) for column in step.obs]
        rewards = _array(step.reward), _array(step.group_reward)
        groups = _array(step.group) + 1  # 0: no group
        truncated = _array(step.truncated)
        mask = None if step.action_mask is None else ~_array(step.action_mask)
        slots_of_ends = _array(step.final_obs.slots)
        shown = ended[slots_of_ends]  # on an accelerator, final observations have rows for all slots
        slots_of_ends = slots_of_ends[shown]
        last = [_array(column)[shown] for column in step.final_obs.obs]
        teams = _array(step.team)
        self._keys |= {f"{self._name}?team={team}" for team in np.unique(teams[acting | ended]).tolist()}
        steps = {}
        for key in sorted(self._keys):
            of_team = teams == int(key.rpartition("=")[2])
            slots = self._waiting_slots[key] = np.flatnonzero(acting & of_team)
            own, shared = (np.where(ended[slots], 0, reward[slots]) for reward in rewards)
            decisions = DecisionSteps(
                [column[slots] for column in obs],
                own,
                self._ids[slots],
                self._masks(mask, slots),
                groups[slots].tolist(),
                shared,
            )
            rows = of_team[slots_of_ends]
            slots = slots_of_ends[rows]
            own, shared = (reward[slots] for reward in rewards)
            obs_of_ends = [column[rows] for column in last]
            terminals = TerminalSteps(
                obs_of_ends, own, truncated[slots], self._ids[slots], groups[slots].tolist(), shared
            )
            steps[key] = decisions, terminals
        return steps

    def _masks(self, forbidden: NDArray[np.bool_] | None, slots: NDArray[np.int64]) -> list[NDArray[np.bool_]] | None:
        branches = self.spec.action_spec.discrete_branches
        if not branches or not len(slots):
            return None
        rows = np.zeros((len(slots), sum(branches)), np.bool_) if forbidden is None else forbidden[slots]
        return np.split(rows, np.cumsum(branches)[:-1], axis=1)

    def action(self, actions: Mapping[str, ActionTuple]) -> Action:
        """Returns the actions of all slots; zeros for slots that do not wait for an action."""
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
