"""Environment parameters in a run: constant ones, and those drawn for each episode of each area."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

import torch
from torch import Tensor

from palaestra.core.errors import EnvError
from palaestra.core.proxies import forwarding
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.base import Env, QueuesParameters, SamplesParameters
from palaestra.envs.transfer import Transfer
from palaestra.runtime.collect.episodes import AreaEpisodes
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
    seeds_of,
)
from palaestra.scenario.settings import CurriculumSettings, Parameter, SamplerSettings


class Parameters:
    """Sets the parameters of an environment: a `TickObserver` of a run's collector.

    A value takes hold where an area begins its next episode. What is drawn is drawn for many episodes at once, which cost nothing until
    an area has used them up. A game that draws by itself is told the distributions instead, with a seed for each copy.
    """

    def __init__(self, env: Env, forms: Mapping[str, Parameter] | None, seed: int, games_seed: int | None = None) -> None:
        """`seed`: the run's. `games_seed`: for games, which cannot restore their random streams; it differs in a resumed run.

        Nothing is set before `set`. Raises EnvError for values that the environment does not take, those of later lessons too.
        """
        self._env, self._forms = env, dict(forms or {})
        self._seed, self._games_seed = seed, seed if games_seed is None else games_seed
        behind = env.wrapped if isinstance(env, Transfer) else env
        self._draws = behind if isinstance(behind, SamplesParameters) else None
        self._queue: QueuesParameters = behind if isinstance(behind, QueuesParameters) else Queue(env)
        self._streams: dict[str, Stream] = {}
        self._before = torch.zeros_like(self._queue.episodes)
        """Episodes of each area (areas,) before the run was resumed, which the queue does not count."""
        self._filled, self._left = self._before, 0
        """Number of each area's next episode (areas,) when the queue was filled, and the ticks for which it lasts at least."""
        self._dropped: list[str] = []
        """Parameters that the resumed run had settings for, and this one has not."""
        for _, sentence in misfits(env, self._forms):
            raise EnvError(sentence)

    def sampler(self, name: str, lesson: int) -> Sampler:
        """Returns the value of a parameter in a lesson."""
        return sampler_of(value_of(self._forms[name], lesson))

    def set(self, lessons: Mapping[str, int]) -> None:
        """Sets the lessons from each area's next episode on; the first one for parameters not named."""
        for name in self._dropped:
            self._env.set_parameters({name: torch.full((self._env.num_areas,), self._env.parameters[name])})
        for name, form in self._forms.items():
            self._set(name, value_of(form, lessons.get(name, 0)), lessons.get(name, 0))
        if self._left:  # gone on with
            self._fill()
        else:
            self._refill()

    def change(self, name: str, lesson: int) -> None:
        """Sets a parameter's lesson from each area's next episode on."""
        self._set(name, value_of(self._forms[name], lesson), lesson)
        self._refill()

    def _set(self, name: str, value: float | SamplerSettings, lesson: int) -> None:
        sampler, own = sampler_of(value), own_seed(value)
        self._streams.pop(name, None)
        if isinstance(sampler, Constant):
            self._env.set_parameters({name: torch.full((self._env.num_areas,), sampler.value)})
        elif self._draws is not None:
            seed = key_of(self._games_seed, name, lesson)[0] if own is None else own
            kind, numbers = _told(sampler)
            self._draws.draw_parameter(name, kind, numbers, seeds_of(seed, self._env.num_areas))
        else:
            _, least, most = getattr(self._env, "parameter_ranges", {}).get(name, (0.0, -torch.inf, torch.inf))
            key = key_of(self._seed if own is None else own, name, lesson)
            self._streams[name] = Stream(sampler, key, (least, most))

    @property
    def _next(self) -> Tensor:
        """Number of each area's next episode, (areas,)."""
        return self._before + self._queue.episodes

    def _refill(self) -> None:
        self._filled, self._left = self._next, self._queue.queue_length - 1
        self._fill()

    def _fill(self) -> None:
        """Fills the queue with its last content, used or not, so that a resumed run has the same."""
        if not self._streams:
            return
        length = self._queue.queue_length
        turns = (self._next - self._filled)[:, None] + torch.arange(length, device=self._filled.device)
        episodes = self._filled[:, None] + turns % length
        self._queue.queue_parameters({name: stream.drawn(episodes) for name, stream in self._streams.items()})

    def begin(self, steps: Mapping[str, TimeStep]) -> None:
        """Whether every area has started an episode with what was set."""
        if isinstance(self._queue, Queue):
            self._queue.begin(steps)
        self._refill()

    def watch(self, steps: Mapping[str, TimeStep]) -> None:
        """Draws the next values once an area may need them. Does not wait for an accelerator."""
        if not self._streams:
            return
        if isinstance(self._queue, Queue):
            self._queue.watch(steps)
        self._left -= 1
        if self._left == 0 and self._filled.device.type == "cpu":
            self._left = self._queue.queue_length - 1 - int((self._next - self._filled).max())
        if self._left == 0:
            self._refill()

    def state_dict(self) -> dict[str, Any]:
        """Returns how many episodes the areas have had, and which go on."""
        state: dict[str, Any] = {"episode": self._next, "filled": self._filled, "left": self._left, "names": list(self._forms)}
        return {**state, "areas": self._queue.state_dict()} if isinstance(self._queue, Queue) else state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores them, also for another number of areas. Call `set` next."""
        now = self._queue.episodes
        self._before = _resized(state["episode"], now) - now
        self._filled, self._left = _resized(state["filled"], now), state["left"]
        self._dropped = [name for name in state["names"] if name not in self._forms and name in self._env.parameters]
        if isinstance(self._queue, Queue) and "areas" in state:
            self._queue.load_state_dict(state["areas"])


def misfits(env: Env, forms: Mapping[str, Parameter] | None) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Returns the path in the settings, and a sentence, for each value that an environment does not take. Games take anything."""
    if isinstance(env.wrapped if isinstance(env, Transfer) else env, SamplesParameters):
        return
    for name, form in (forms or {}).items():
        for lesson in range(lessons_of(form)):
            try:
                for value in _least_and_most(sampler_of(value_of(form, lesson))):
                    env.set_parameters({name: torch.full((env.num_areas,), value)})
            except EnvError as error:
                within = ("curriculum", lesson, "value") if isinstance(form, CurriculumSettings) else ()
                yield ("environment_parameters", name, *within), str(error)
                if name not in env.parameters:
                    break


def _least_and_most(sampler: Sampler) -> tuple[float, ...]:
    """Returns the bounds of a distribution; the mean of a normal one, which has none: values beyond the range are clipped."""
    return (sampler.mean,) if isinstance(sampler, Gaussian) else sampler.ends or ()


def _resized(episodes: Tensor, like: Tensor) -> Tensor:
    """Returns values for all areas; those of other areas are 0."""
    resized = torch.zeros_like(like)
    resized[: len(episodes)] = episodes[: len(like)]
    return resized


def lessons_of(form: Parameter) -> int:
    """Returns the number of lessons of a parameter; one without a curriculum has one."""
    return len(form.curriculum) if isinstance(form, CurriculumSettings) else 1


def value_of(form: Parameter, lesson: int) -> float | SamplerSettings:
    """Returns the value of a parameter in a lesson; of a shorter curriculum, in its last one."""
    return form.curriculum[min(lesson, len(form.curriculum) - 1)].value if isinstance(form, CurriculumSettings) else form


def _told(sampler: Sampler) -> tuple[Any, list[float]]:
    """Returns a distribution as `SamplesParameters` takes it."""
    match sampler:
        case Uniform(low, high):
            return "uniform", [low, high]
        case Gaussian(mean, st_dev):
            return "gaussian", [mean, st_dev]
        case MultiRangeUniform(intervals):
            return "multirangeuniform", [end for interval in intervals for end in interval]
    raise AssertionError(sampler)


def with_parameters(env: Env, forms: Mapping[str, Parameter] | None, lessons: Mapping[str, int], seed: int) -> Env:
    """Returns the environment for play, with the parameters of these lessons, drawn as in training."""
    if not forms:
        return env
    parameters = Parameters(env, forms, seed)
    parameters.set(lessons)
    return cast(Env, forwarding(_Played, env)(env, parameters))


class _Played:
    def __init__(self, env: Env, parameters: Parameters) -> None:
        self._env, self._parameters = env, parameters

    def reset(self, seed: int) -> dict[str, TimeStep]:
        steps = self._env.reset(seed)
        self._parameters.begin(steps)
        return steps

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        steps = self._env.step(actions)
        self._parameters.watch(steps)
        return steps

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)


class Queue:
    """Keeps the next parameters of each area, by watching where its episodes begin, as `QueuesParameters` does."""

    queue_length = 64
    """See `Env`."""

    def __init__(self, env: Env) -> None:
        self._env, self._areas, self._values = env, AreaEpisodes(env.num_areas), dict[str, Tensor]()
        self.episodes = torch.zeros(env.num_areas, dtype=torch.int64, device=env.device)
        """See `Env`."""
        self._filled = self.episodes

    def queue_parameters(self, values: Mapping[str, Tensor]) -> None:
        """Sets the first values of each area."""
        self._values, self._filled = dict(values), self.episodes
        self._set()

    def _set(self) -> None:
        turn = (self.episodes - self._filled)[:, None]
        self._env.set_parameters({name: values.gather(1, turn)[:, 0] for name, values in self._values.items()})

    def begin(self, steps: Mapping[str, TimeStep]) -> None:
        """Whether every area has started an episode."""
        self._areas.begin(steps)
        self.episodes = self.episodes + 1

    def watch(self, steps: Mapping[str, TimeStep]) -> None:
        """Sets the next values of areas that have started an episode."""
        over = self._areas.over(steps)
        if over is not None:
            self.episodes = self.episodes + over
            self._set()

    def state_dict(self) -> dict[str, Any]:
        """Returns which episodes go on."""
        return self._areas.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores which episodes go on."""
        self._areas.load_state_dict({"living": {name: column.to(self._env.device) for name, column in state["living"].items()}})
