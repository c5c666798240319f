"""Environment parameters in a run: constant ones, and those drawn for each episode of each area."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from palaestra.core.errors import EnvError
from palaestra.core.plugins import nearest
from palaestra.core.timestep import TimeStep
from palaestra.envs.sampler_seeds import sampler_seeds
from palaestra.envs.wrapper import EnvWrapper
from palaestra.runtime.collect.area_episodes import AreaEpisodes
from palaestra.runtime.control.run_requests import RunRequest
from palaestra.runtime.parts.part import Refused, RunPart
from palaestra.scenario.samplers import (
    Constant,
    Gaussian,
    MultiRangeUniform,
    Sampler,
    Stream,
    Uniform,
    key_of,
    own_seed,
    sampler_of,
)
from palaestra.scenario.settings import CurriculumSettings, Parameter, SamplerSettings


class Parameters(RunPart):
    """Sets the parameters of an environment.

    A new value applies when an area begins its next episode. Random values are drawn for many episodes ahead, so that
    most ticks take no time for this. A Unity game draws values itself: it receives the distributions, with a seed for
    each copy.
    """

    name = "parameters"

    def __init__(
        self,
        env: EnvWrapper,
        forms: Mapping[str, Parameter] | None,
        seed: int,
        games_seed: int | None = None,
        saved: Mapping[str, Any] | None = None,
    ) -> None:
        """`seed` is the run's. `games_seed` is for Unity games, which cannot restore their random streams; it differs
        in a resumed run, whose state is `saved`, also of another number of areas.

        No parameter is set until `set` is called. Raises EnvError if the environment refuses the value of any lesson.
        """
        self._env = env
        self._settings = dict(forms or {})
        self._seed = seed
        self._games_seed = seed if games_seed is None else games_seed
        self._queue = env if env.traits.queue_length else ParameterQueue(env)
        samplers = [one for form in self._settings.values() for one in samplers_of(form)]
        self._draws = not env.traits.samples_parameters and not all(isinstance(one, Constant) for one in samplers)
        self._streams: dict[str, Stream] = {}
        self._episodes_before = torch.zeros_like(self._queue.episodes)
        """Episodes of each area (areas,) that were played before the run was resumed; the queue does not count them."""
        self._filled_at = self._episodes_before
        """Number of each area's next episode (areas,) when the queue was filled."""
        self._ticks_left = 0
        """Number of ticks for which the queue lasts at least."""
        self._lessons: dict[str, int] = {}
        self.fixed: dict[str, float] = {}
        """Values that were set while the run learned; they override the settings."""
        self._dropped: list[str] = []
        """Parameters that were set in the resumed run and are not in this run's settings."""
        for _, sentence in invalid_values(env, self._settings):
            raise EnvError(sentence)
        if saved is not None:
            self.count_from(saved["episode"])
            known = env.parameters
            self.fixed = {name: value for name, value in saved["fixed"].items() if name in known or not known}
            self._dropped = [name for name in saved["names"] if name not in self._settings and name in known]

    @property
    def idle(self) -> bool:
        """Whether no lesson has values to draw."""
        return not self._draws

    def set(self, lessons: Mapping[str, int]) -> None:
        """Sets every parameter's lesson, from each area's next episode on; 0 for those not in `lessons`."""
        self._lessons = dict(lessons)
        self._set_all()
        self._refill()

    def change(self, name: str, lesson: int) -> None:
        """Sets a parameter's lesson from each area's next episode on."""
        self._lessons[name] = lesson
        self.fixed.pop(name, None)  # a lesson that begins goes before a value given earlier
        self._set(name)
        self._refill()

    def asked(self, request: RunRequest) -> str | None:
        """Gives a parameter a constant value from each area's next episode on, in place of the settings' value."""
        if request.kind != "parameter":
            return None
        env = self._env
        name = request.name
        value = float(request.value)
        if env.parameters and name not in env.parameters:
            raise Refused(f"the environment has no parameter '{name}'{nearest(name, env.parameters)}")
        try:
            env.set_parameters({name: torch.full((env.num_areas,), value)})
        except EnvError as error:
            raise Refused(str(error)) from error
        self.fixed[name] = value
        self._set(name)
        self._refill()
        return f"parameter {name} = {value:g}, from each area's next episode on"

    def _set_all(self) -> None:
        for name in self._dropped:
            self._env.set_parameters({name: torch.full((self._env.num_areas,), self._env.parameters[name])})
        for name in (*self._settings, *(self.fixed.keys() - self._settings.keys())):
            self._set(name)

    def _set(self, name: str) -> None:
        lesson = self._lessons.get(name, 0)
        value = self.fixed[name] if name in self.fixed else value_of(self._settings[name], lesson)
        sampler = sampler_of(value)
        own = own_seed(value)
        self._streams.pop(name, None)
        if isinstance(sampler, Constant):
            self._env.set_parameters({name: torch.full((self._env.num_areas,), sampler.value)})
        elif self._env.traits.samples_parameters:
            seed = key_of(self._games_seed, name, lesson)[0] if own is None else own
            kind, numbers = _sampling_arguments(sampler)
            self._env.draw_parameter(name, kind, numbers, sampler_seeds(seed, self._env.num_areas))
        else:
            _, least, most = self._env.traits.parameter_ranges.get(name, (0.0, -torch.inf, torch.inf))
            key = key_of(self._seed if own is None else own, name, lesson)
            self._streams[name] = Stream(sampler, key, (least, most))

    @property
    def _next(self) -> Tensor:
        return self._episodes_before + self._queue.episodes

    def count_from(self, episodes: Tensor) -> None:
        """Continues each area's episode count from these numbers (areas,), also with more or fewer areas now."""
        now = self._queue.episodes
        self._episodes_before = _resized(episodes, now) - now
        self._refill()

    def _refill(self) -> None:
        self._filled_at = self._next
        self._ticks_left = self._queue.queue_length - 1
        self._fill()

    def _fill(self) -> None:
        """Fills the queue with the values of the last refill, used ones too: a resumed run continues with them."""
        if not self._streams and self._queue is self._env:
            return
        length = self._queue.queue_length
        turns = (self._next - self._filled_at)[:, None] + torch.arange(length, device=self._filled_at.device)
        episodes = self._filled_at[:, None] + turns % length
        self._queue.queue_parameters({name: stream.drawn(episodes) for name, stream in self._streams.items()})

    def begin(self, steps: Mapping[str, TimeStep]) -> None:
        """Processes the first tables after a reset, in which every area has started an episode."""
        if isinstance(self._queue, ParameterQueue):
            self._queue.begin(steps)
        self._refill()

    def tick(self, steps: Mapping[str, TimeStep]) -> None:
        """Draws the next values before any area runs out of them. Does not wait for an accelerator."""
        if not self._draws:
            return
        if isinstance(self._queue, ParameterQueue):
            self._queue.watch(steps)  # also in lessons that draw nothing: later ones depend on the number of episodes
        if not self._streams:
            return
        self._ticks_left -= 1
        if self._ticks_left == 0 and self._filled_at.device.type == "cpu":
            self._ticks_left = self._queue.queue_length - 1 - int((self._next - self._filled_at).max())
        if self._ticks_left == 0:
            self._refill()

    def progress(self) -> Mapping[str, Any]:
        """Returns the values that people gave parameters while the run learned."""
        return {"fixed": self.fixed}

    def state_dict(self) -> dict[str, Any]:
        """Returns the episode counts of the areas and their open episodes."""
        return {
            "episode": self._next,
            "filled": self._filled_at,
            "left": self._ticks_left,
            "names": list(self._settings),
            "fixed": dict(self.fixed),
            **({"areas": self._queue.state_dict()} if self._draws and isinstance(self._queue, ParameterQueue) else {}),
        }

    def load_state_dict(self, state: Mapping[str, Any], *, restored: bool) -> None:
        """Lets the restored episodes continue with their values; new episodes began with the saved state's values."""
        if not restored:
            return
        self.count_from(state["episode"])
        self._filled_at = _resized(state["filled"], self._queue.episodes)
        self._ticks_left = state["left"]
        if isinstance(self._queue, ParameterQueue) and "areas" in state:
            self._queue.load_state_dict(state["areas"])
        self._set_all()
        self._fill()


def invalid_values(
    env: EnvWrapper, forms: Mapping[str, Parameter] | None
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yields path and error of each value that the environment refuses. Unity games accept any value."""
    if env.traits.samples_parameters:
        return
    for name, form in (forms or {}).items():
        for lesson, sampler in enumerate(samplers_of(form)):
            try:
                for value in _bounds(sampler):
                    env.set_parameters({name: torch.full((env.num_areas,), value)})
            except EnvError as error:
                within = ("curriculum", lesson, "value") if isinstance(form, CurriculumSettings) else ()
                yield ("environment_parameters", name, *within), str(error)
                if name not in env.parameters:
                    break


def _bounds(sampler: Sampler) -> tuple[float, ...]:
    """Returns the bounds of a distribution; of a normal one, whose samples are clipped, its mean."""
    return (sampler.mean,) if isinstance(sampler, Gaussian) else sampler.ends or ()


def _resized(episodes: Tensor, like: Tensor) -> Tensor:
    resized = torch.zeros_like(like)
    resized[: len(episodes)] = episodes[: len(like)]
    return resized


def samplers_of(form: Parameter) -> list[Sampler]:
    """Returns the distribution of a parameter in each of its lessons; without a curriculum it has one."""
    values = [lesson.value for lesson in form.curriculum] if isinstance(form, CurriculumSettings) else [form]
    return [sampler_of(value) for value in values]


def value_of(form: Parameter, lesson: int) -> float | SamplerSettings:
    """Returns the value of a parameter in a lesson. Beyond the last lesson, returns the value of the last."""
    if not isinstance(form, CurriculumSettings):
        return form
    return form.curriculum[min(lesson, len(form.curriculum) - 1)].value


def _sampling_arguments(sampler: Sampler) -> tuple[Any, list[float]]:
    match sampler:
        case Uniform(low, high):
            return "uniform", [low, high]
        case Gaussian(mean, st_dev):
            return "gaussian", [mean, st_dev]
        case MultiRangeUniform(intervals):
            return "multirangeuniform", [end for interval in intervals for end in interval]
    raise AssertionError(sampler)


def with_parameters(
    env: EnvWrapper, forms: Mapping[str, Parameter] | None, lessons: Mapping[str, int], seed: int
) -> EnvWrapper:
    """Wraps an environment for play: parameters get the values of the given lessons, drawn as in training."""
    if not forms:
        return env
    parameters = Parameters(env, forms, seed)
    parameters.set(lessons)
    ranges = {name: _range(form, lessons.get(name, 0)) for name, form in forms.items()}
    return EnvWithParameters(env, parameters, ranges)


def _range(form: Parameter, lesson: int) -> tuple[float, float, float]:
    """Returns a parameter's mean in a lesson, and the bounds of all lessons' values, widened if they are one."""
    bounds = [bound for sampler in samplers_of(form) for bound in _bounds(sampler)]
    now = _bounds(sampler_of(value_of(form, lesson)))
    value = (min(now) + max(now)) / 2 if now else 0.0
    low = min(bounds, default=value)
    high = max(bounds, default=value)
    return (value, low, high) if low < high else (value, min(0.0, 2 * value), max(1.0, 2 * value))


class EnvWithParameters(EnvWrapper):
    """Sets an environment's parameters as its episodes begin."""

    def __init__(
        self, env: EnvWrapper, parameters: Parameters, named: Mapping[str, tuple[float, float, float]]
    ) -> None:
        """`named`: value, least and greatest of each parameter in the settings, for an environment that does not
        declare them, such as a Unity game."""
        super().__init__(env)
        self._parameters = parameters
        ranges = env.traits.parameter_ranges
        added = {name: one for name, one in named.items() if name not in ranges}
        if added:
            self.traits = replace(env.traits, parameter_ranges={**ranges, **added})
            self.parameters = {**env.parameters, **{name: value for name, (value, _, _) in added.items()}}

    def reset(self, seed: int) -> dict[str, TimeStep]:
        """Resets the environment. Parameters are drawn again, so that later values depend only on the seeds."""
        self._parameters.count_from(torch.zeros(0, dtype=torch.int64))
        steps = super().reset(seed)
        self._parameters.begin(steps)
        return steps

    def receive(self) -> dict[str, TimeStep]:
        """Waits for the tick and returns its tables."""
        steps = super().receive()
        self._parameters.tick(steps)
        return steps

    def step_arrays(self, arrays: Mapping[str, Mapping[str, NDArray[Any]]]) -> dict[str, TimeStep] | None:
        """Makes a tick; a tick that returns no tables ends no episode."""
        steps = super().step_arrays(arrays)
        self._parameters.tick(steps or {})
        return steps

    @property
    def host_ticks(self) -> None:
        """Returns None: the parameters are set from the tables of each tick."""


class ParameterQueue:
    """A queue of each area's next parameters, for environments without one: sets values when episodes begin."""

    queue_length = 64
    """See `EnvWrapper`."""

    def __init__(self, env: EnvWrapper) -> None:
        self._env = env
        self._areas = AreaEpisodes(env.num_areas)
        self._values = dict[str, Tensor]()
        self.episodes = torch.zeros(env.num_areas, dtype=torch.int64, device=env.device)
        """See `EnvWrapper`."""
        self._filled_at = self.episodes

    def queue_parameters(self, values: Mapping[str, Tensor]) -> None:
        """Stores the next `queue_length` values of each area, and sets the first ones."""
        self._values = dict(values)
        self._filled_at = self.episodes
        self._set()

    def _set(self) -> None:
        if self._values:
            turn = (self.episodes - self._filled_at)[:, None]
            self._env.set_parameters({name: values.gather(1, turn)[:, 0] for name, values in self._values.items()})

    def begin(self, steps: Mapping[str, TimeStep]) -> None:
        """Counts the first episode of every area."""
        self._areas.begin(steps)
        self.episodes = self.episodes + 1

    def watch(self, steps: Mapping[str, TimeStep]) -> None:
        """Sets the next values of areas that have started an episode in this tick."""
        ended = self._areas.over(steps)
        if ended is not None:
            self.episodes = self.episodes + ended
            self._set()

    def state_dict(self) -> dict[str, Any]:
        """Returns the open episodes of the areas."""
        return self._areas.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores `state_dict`."""
        self._areas.load_state_dict(state)
