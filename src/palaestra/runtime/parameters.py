"""Environment parameters in play: what the settings fix, and what is drawn anew for each episode of each area."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor

from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.base import Draws, Env
from palaestra.envs.transfer import Transfer
from palaestra.runtime.area_episodes import AreaEpisodes
from palaestra.scenario.samplers import (
    Ahead,
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
    """A `Watcher` of a run's collector that sets the parameters of an environment.

    A value takes hold where an area begins its next episode, so that each area's next one is always set already. A game that draws by
    itself is told the distributions instead, with a seed for each copy.
    """

    def __init__(self, env: Env, forms: Mapping[str, Parameter] | None, seed: int, games_seed: int | None = None) -> None:
        """`seed` is the run's. `games_seed` is for games, which cannot go on with their streams: of a resumed run it is another.

        Nothing is set before `set`. Raises EnvError for values that the environment does not take, those of later lessons too.
        """
        self._env, self._forms = env, dict(forms or {})
        self._seed, self._games_seed = seed, seed if games_seed is None else games_seed
        behind = env.behind if isinstance(env, Transfer) else env
        self._draws = behind if isinstance(behind, Draws) else None
        self._streams: dict[str, Stream] = {}
        self._ahead = Ahead({})
        self._areas = AreaEpisodes(env.num_areas)
        self._episode = torch.zeros(env.num_areas, dtype=torch.int64, device=env.device)
        """(areas,) which of its episodes each area's next one is."""
        for name, form in self._forms.items() if self._draws is None else ():  # games take anything
            for lesson in range(lessons_of(form)):
                for end in sampler_of(value_of(form, lesson)).ends or ():
                    env.set_parameters({name: torch.full((env.num_areas,), end)})

    def sampler(self, name: str, lesson: int) -> Sampler:
        """What a parameter is in a lesson."""
        return sampler_of(value_of(self._forms[name], lesson))

    def set(self, lessons: Mapping[str, int]) -> None:
        """From each area's next episode on these are the lessons; of parameters not named, the first."""
        for name, form in self._forms.items():
            self._set(name, value_of(form, lessons.get(name, 0)), lessons.get(name, 0))
        self._ahead = Ahead(self._streams)
        self._set_next()

    def change(self, name: str, lesson: int) -> None:
        """From each area's next episode on a parameter is in another lesson."""
        self._set(name, value_of(self._forms[name], lesson), lesson)
        self._ahead = Ahead(self._streams)
        self._set_next()

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

    def _set_next(self) -> None:
        if self._streams:
            self._env.set_parameters(self._ahead.at(self._episode))

    def begin(self, steps: Mapping[str, TimeStep]) -> None:
        """Every area has begun an episode with what was set."""
        self._areas.begin(steps)
        self._episode += 1
        self._set_next()

    def watch(self, steps: Mapping[str, TimeStep]) -> None:
        """Sets the next values of the areas that have begun an episode."""
        if not self._streams:
            return
        over = self._areas.over(steps)
        if over is not None:
            self._episode += over
            self._set_next()

    def state_dict(self) -> dict[str, Any]:
        """How many episodes the areas have had, and whose go on."""
        return {"episode": self._episode.clone(), "areas": self._areas.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on with those, in another number of areas too. Call `set` next."""
        episode: Tensor = state["episode"][: len(self._episode)].to(self._episode.device)
        self._episode = torch.zeros_like(self._episode)
        self._episode[: len(episode)] = episode
        living: Mapping[str, Tensor] = state["areas"]["living"]
        self._areas.load_state_dict({"living": {name: column.to(self._env.device) for name, column in living.items()}})


def lessons_of(form: Parameter) -> int:
    """How many lessons a parameter has; one that is no curriculum has one."""
    return len(form.curriculum) if isinstance(form, CurriculumSettings) else 1


def value_of(form: Parameter, lesson: int) -> float | SamplerSettings:
    """What a parameter is in a lesson; of a shorter curriculum in its last."""
    return form.curriculum[min(lesson, len(form.curriculum) - 1)].value if isinstance(form, CurriculumSettings) else form


def _told(sampler: Sampler) -> tuple[Any, list[float]]:
    """A distribution as `Draws` takes it."""
    match sampler:
        case Uniform(low, high):
            return "uniform", [low, high]
        case Gaussian(mean, st_dev):
            return "gaussian", [mean, st_dev]
        case MultiRangeUniform(intervals):
            return "multirangeuniform", [end for interval in intervals for end in interval]
    raise AssertionError(sampler)


def with_parameters(env: Env, forms: Mapping[str, Parameter] | None, lessons: Mapping[str, int], seed: int) -> Env:
    """The same environment, to play in: its parameters are those of these lessons, and drawn as in training."""
    if not forms:
        return env
    parameters = Parameters(env, forms, seed)
    parameters.set(lessons)
    return cast(Env, _Played(env, parameters))


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
