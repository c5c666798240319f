"""An environment with every optional method, and the base class of all wrappers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from palaestra.core.errors import EnvError
from palaestra.envs.traits import EnvTraits, traits_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from palaestra.core.metrics import Measurement
    from palaestra.core.specs import BehaviorSpec
    from palaestra.core.timestep import Action, TimeStep
    from palaestra.envs.base import BehaviorFacts, Distribution, Env, TrainingFacts
    from palaestra.envs.builtin.base.host_ticks import HostTicks
    from palaestra.envs.solids import Drawing


class EnvWrapper:
    """Has all members of `Env` and all optional members, and passes each on to the environment that it wraps.

    A method that the wrapped environment lacks does nothing, or returns an empty value, unless its description names a
    trait that it needs. Subclasses override the methods that they change; a subclass that changes ticks overrides
    `send` and `receive` (`step` calls both).
    """

    def __init__(self, env: Env) -> None:
        self._env: Any = env
        self.traits: EnvTraits = traits_of(env)
        """Facts about the wrapped environment, and its abilities."""
        self.device = env.device
        self.num_areas = env.num_areas
        self.parameters = env.parameters
        self._asynchronous = self.traits.asynchronous
        self._actions: Mapping[str, Action] = {}
        """Actions of a tick, if the environment is not asynchronous: it computes the tick when its tables are asked
        for."""

    @staticmethod
    def of(env: Env) -> EnvWrapper:
        """Returns the environment with all optional members: the environment itself if it has them, else wrapped."""
        return env if isinstance(env, EnvWrapper) else EnvWrapper(env)

    @property
    def unwrapped(self) -> Any:
        """The environment itself, for a brain that knows its game."""
        return self._env.unwrapped if isinstance(self._env, EnvWrapper) else self._env

    @property
    def behaviors(self) -> Mapping[str, BehaviorSpec]:
        """See `Env`."""
        return self._env.behaviors

    def reset(self, seed: int) -> dict[str, TimeStep]:
        """See `Env`."""
        return self._env.reset(seed)

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        """See `Env`."""
        self.send(actions)
        return self.receive()

    def send(self, actions: Mapping[str, Action]) -> None:
        """Starts a tick, in the background if the environment is `asynchronous`. No other method may be called before
        `receive`."""
        if self._asynchronous:
            self._env.send(actions)
        else:
            self._actions = actions

    def receive(self) -> dict[str, TimeStep]:
        """Waits for the tick and returns its tables. Raises EnvError if the environment's process has stopped."""
        return self._env.receive() if self._asynchronous else self._env.step(self._actions)

    def step_arrays(self, arrays: Mapping[str, Mapping[str, NDArray[Any]]]) -> dict[str, TimeStep] | None:
        """Makes a tick with the actions in `arrays`: by behavior, the columns `continuous`, `discrete`, `reward`,
        `obs0`, `obs1` and so on. Needs `steps_arrays`.

        If all agents acted before and act again, writes observations and rewards into `arrays` and returns None; else
        returns the tables of `step`. The method is for copies in processes, in which each use of PyTorch takes as long
        as a tick.
        """
        return self._env.step_arrays(arrays)

    @property
    def host_ticks(self) -> HostTicks | None:
        """Returns an object that makes ticks as NumPy arrays; None if the environment has none."""
        return self._env.host_ticks if self.traits.host_ticks else None

    @property
    def tick_seconds(self) -> float | None:
        """Simulated seconds from the current state to the next tick; may change from tick to tick. None: unknown."""
        return self._env.tick_seconds if self.traits.timed else None

    def set_speed(self, speed: float) -> None:
        """Sets the speed of an environment that runs by its own clock, as a multiple of the time scale with which it
        was opened."""
        if self.traits.real_time:
            self._env.set_speed(speed)

    def set_parameters(self, values: Mapping[str, Tensor]) -> None:
        """See `Env`."""
        self._env.set_parameters(values)

    def draw_parameter(self, name: str, kind: Distribution, numbers: Sequence[float], seeds: Sequence[int]) -> None:
        """Sets the distribution of a parameter. `seeds` has a 31-bit seed for each area; a distribution with several
        parts also uses the seeds that follow. Needs `samples_parameters`.

        `numbers`: minimum and maximum; mean and standard deviation; or both ends of each of several ranges. Raises
        EnvError for an unknown name.
        """
        self._env.draw_parameter(name, kind, numbers, seeds)

    @property
    def queue_length(self) -> int:
        """Number of future episodes for which the environment accepts parameters."""
        return self.traits.queue_length

    @property
    def episodes(self) -> Tensor:
        """Number of episodes begun in each area, (areas,) int64, on the environment's device. Needs `queue_length`."""
        return self._env.episodes

    def queue_parameters(self, values: Mapping[str, Tensor]) -> None:
        """Sets values (areas, queue_length): an area's next episode uses the first value, the episode after it the
        second, and so on. Needs `queue_length`.

        The values remain until this method or `set_parameters` is called again. Raises EnvError for an unknown name.
        """
        self._env.queue_parameters(values)

    def stagger(self, seed: int) -> None:
        """Advances the clock of each area's episode by a random part of its time limit. Call it right after `reset`.
        Needs `staggers_episodes`.

        Raises EnvError if episodes have no time limit.
        """
        self._env.stagger(seed)

    def take_measurements(self) -> list[Measurement]:
        """Returns the measurements since the last call, in order."""
        return self._env.take_measurements() if self.traits.measures else []

    def busy_seconds(self) -> dict[str, float]:
        """Returns the seconds since a copy's first start in which it was not waiting for actions, by the copy's name
        for users; for copies that simulate outside this process."""
        return self._env.busy_seconds() if self.traits.reports_busy_time else {}

    def heuristic(self, behavior: str, slots: NDArray[np.int64] | None = None) -> Action | None:
        """Returns the heuristic's actions for the current state, one row for each slot, on the environment's own
        device; None if the behavior has no heuristic.

        Only the rows of `slots` (R,) are valid; if `slots` is None, the rows of all active slots.
        """
        return self._env.heuristic(behavior, slots) if self.traits.has_heuristic else None

    def training_starts(self, facts: TrainingFacts) -> None:
        """Passes on facts about the run, for analytics; called once, before the first `reset`."""
        if self.traits.run_aware:
            self._env.training_starts(facts)

    def behavior_joins(self, facts: BehaviorFacts) -> None:
        """Passes on facts about a behavior; called once for each behavior, when it first appears."""
        if self.traits.run_aware:
            self._env.behavior_joins(facts)

    def drawing(self, areas: NDArray[np.int64]) -> Drawing:
        """Returns the current solids of these areas (A,), in this order; waits for the device. Needs `draws`."""
        return self._env.drawing(areas)

    def render(self, area: int) -> np.ndarray:
        """See `Env`."""
        if not self.traits.renders:
            raise EnvError(f"{self.traits.name or type(self._env).__name__} cannot be drawn: it has no method 'render'")
        return self._env.render(area)

    def state_dict(self) -> dict[str, Tensor]:
        """See `Env`."""
        return self._env.state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """See `Env`."""
        self._env.load_state_dict(state)

    def interrupt(self) -> None:
        """Makes a waiting `step` return soon, with tables in which no agent has to act. Safe in a signal handler."""
        if self.traits.interruptible:
            self._env.interrupt()

    def abandon(self) -> None:
        """Ends the environment's processes at once, because this process is about to exit. Safe in a signal handler."""
        if self.traits.interruptible:
            self._env.abandon()

    def close(self) -> None:
        """See `Env`."""
        self._env.close()
