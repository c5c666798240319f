from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
import torch
from unity_games import make_build

from palaestra.core.errors import EnvError
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.builtin.ball.env import Ball
from palaestra.envs.builtin.foodcollector.env import FoodCollector
from palaestra.envs.unity.env import UnityEnv
from palaestra.envs.unity.options import UnityOptions
from palaestra.envs.wrapper import EnvWrapper
from palaestra.runtime.curriculum.parameters import ParameterQueue, Parameters, with_parameters
from palaestra.scenario.samplers import Stream, Uniform, key_of
from palaestra.scenario.settings import CurriculumSettings, Parameter, SamplerSettings

LIMIT = 27.88
"""What chi-squared with 9 degrees of freedom exceeds once in a thousand."""


def uniform(low: float, high: float, **more: int) -> SamplerSettings:
    parameters = {"min_value": low, "max_value": high, **more}
    return SamplerSettings.model_validate({"sampler_type": "uniform", "sampler_parameters": parameters})


def lessons(*values: float | SamplerSettings) -> CurriculumSettings:
    criterion = {"behavior": "3DBall"}
    return CurriculumSettings.model_validate(
        {
            "curriculum": [
                {"name": f"L{i}", "value": value, "completion_criteria": criterion} for i, value in enumerate(values)
            ]
        }
    )


class Recorder:
    """Plays 3DBall as badly as can be, and writes down which mass each area's episodes have."""

    def __init__(self, env: Ball, parameters: Parameters) -> None:
        self.env = env
        self.parameters = parameters
        self.taken: list[list[float]] = [[] for _ in range(env.num_areas)]
        self._note(env.reset(0)["3DBall"], torch.ones(env.num_areas, dtype=torch.bool))

    def _note(self, step: TimeStep, begun: torch.Tensor) -> None:
        mass = self.env.state_dict()["parameters"][:, 2]
        for area in begun.nonzero()[:, 0].tolist():
            self.taken[area].append(float(mass[area]))

    def play(self, ticks: int) -> None:
        for _ in range(ticks):
            areas = self.env.num_areas
            step = self.env.step({"3DBall": Action(torch.ones(areas, 2), torch.zeros(areas, 0, dtype=torch.int64))})
            self._note(step["3DBall"], step["3DBall"].terminated | step["3DBall"].truncated)
            self.parameters.tick(step)


def plain_env(env: Ball) -> EnvWrapper:
    """Returns an environment that takes parameters of the next episode only."""
    wrapped = EnvWrapper(env)
    wrapped.traits = replace(wrapped.traits, queue_length=0, parameter_ranges={})
    return wrapped


def recorded(form: Parameter, areas: int = 3, ticks: int = 150, *, plain: bool = False) -> Recorder:
    env = Ball(areas=areas)
    parameters = Parameters(plain_env(env) if plain else EnvWrapper(env), {"mass": form}, seed=5)
    parameters.set({})
    recorder = Recorder(env, parameters)
    parameters.begin(env_steps(env))
    recorder.play(ticks)
    return recorder


def env_steps(env: Ball) -> dict[str, TimeStep]:
    """What the reset showed, as far as parameters look at it."""
    return env._tables.make(ended=False)


def test_the_kth_episode_of_an_area_has_the_kth_value_of_its_stream():
    recorder = recorded(uniform(0.5, 10))
    assert min(len(taken) for taken in recorder.taken) > 5
    stream = Stream(Uniform(0.5, 10), key_of(5, "mass", 0))
    expected = stream.drawn(torch.arange(100).expand(3, 100))
    for area, taken in enumerate(recorder.taken):
        assert taken == pytest.approx(expected[area, : len(taken)].tolist())


def test_an_environment_that_takes_one_value_at_a_time_gets_those_that_one_with_a_queue_does():
    queued, single = (recorded(uniform(0.5, 10), ticks=2500, plain=plain) for plain in (False, True))
    assert min(len(taken) for taken in queued.taken) > 2 * ParameterQueue.queue_length
    assert queued.taken == single.taken
    assert queued.parameters.state_dict()["episode"].tolist() == [len(taken) for taken in queued.taken]


def test_each_area_s_values_are_spread_evenly_and_no_two_areas_have_the_same():
    recorder = recorded(uniform(1, 11, seed=9), areas=4, ticks=1500)
    assert len({tuple(taken[:50]) for taken in recorder.taken}) == 4
    for taken in recorder.taken:
        counts, _ = np.histogram(taken, 10, (1, 11))
        expected = len(taken) / 10
        assert expected > 5
        assert ((counts - expected) ** 2 / expected).sum() < LIMIT


def test_a_number_is_set_in_every_area_and_stays():
    assert {value for taken in recorded(2.5, ticks=100).taken for value in taken} == {2.5}


def test_a_lesson_takes_hold_at_each_area_s_next_episode():
    env = Ball(areas=2)
    parameters = Parameters(EnvWrapper(env), {"mass": lessons(1.0, uniform(5, 6), 3.0)}, seed=5)
    parameters.set({})
    recorder = Recorder(env, parameters)
    parameters.begin(env_steps(env))
    recorder.play(20)
    for lesson in (1, 2):
        before = [len(taken) for taken in recorder.taken]
        parameters.change("mass", lesson)
        recorder.play(60)
        for taken, count in zip(recorder.taken, before, strict=True):
            assert len(taken) > count
            assert all((5 <= value < 6) if lesson == 1 else value == 3 for value in taken[count:])


def test_an_environment_that_takes_one_value_at_a_time_draws_what_one_with_a_queue_does_after_a_constant_lesson():
    taken = []
    for plain in (False, True):
        env = Ball(areas=2)
        form = lessons(1.0, uniform(5, 6), 3.0, uniform(7, 8))
        parameters = Parameters(plain_env(env) if plain else EnvWrapper(env), {"mass": form}, seed=5)
        parameters.set({})
        recorder = Recorder(env, parameters)
        parameters.begin(env_steps(env))
        for lesson in range(4):
            parameters.change("mass", lesson)
            recorder.play(60)
        taken.append(recorder.taken)
    assert taken[0] == taken[1]


def test_parameters_of_which_a_later_lesson_draws_are_not_idle():
    for form, idle in (
        (1.0, True),
        (lessons(1.0, 2.0), True),
        (uniform(1, 2), False),
        (lessons(1.0, uniform(1, 2)), False),
    ):
        assert Parameters(EnvWrapper(Ball(areas=2)), {"mass": form}, seed=0).idle == idle


def test_values_that_the_environment_does_not_take_are_refused_before_it_starts_those_of_later_lessons_too():
    with pytest.raises(EnvError, match=r"parameter 'mass' is 30, expected a number within 0.1..20"):
        Parameters(EnvWrapper(Ball(areas=2)), {"mass": lessons(1.0, uniform(1, 30))}, seed=0)
    with pytest.raises(EnvError, match="has no parameter 'mess'; did you mean 'mass'"):
        Parameters(EnvWrapper(Ball(areas=2)), {"mess": uniform(1, 3)}, seed=0)


def test_a_normal_distribution_stays_within_what_the_environment_takes():
    numbers = {"mean": 0.5, "st_dev": 5}
    form = SamplerSettings.model_validate({"sampler_type": "gaussian", "sampler_parameters": numbers})
    values = [value for taken in recorded(form).taken for value in taken]
    assert min(values) == pytest.approx(0.1)
    assert len(set(values)) > 5


def test_an_area_of_several_agents_has_one_value_an_episode():
    env = FoodCollector(areas=2)
    played = with_parameters(EnvWrapper(env), {"laser_length": uniform(1, 2)}, {}, seed=3)
    played.reset(0)
    seen: list[list[float]] = []
    nothing = Action(torch.zeros(10, 3), torch.zeros(10, 1, dtype=torch.int64))
    ends = 0
    for _ in range(1002):
        step = played.step({"GridFoodCollector": nothing})["GridFoodCollector"]
        ends += int((step.terminated | step.truncated).any())
        seen.append(env.state_dict()["parameters"][:, 0].tolist())
    assert ends >= 1
    assert len({tuple(values) for values in seen}) == ends + 1
    assert all(a != b for a, b in seen)


def test_what_is_played_again_from_a_seed_has_the_same_values_in_each_episode():
    env = Ball(areas=3)
    played = with_parameters(EnvWrapper(env), {"mass": uniform(1, 2)}, {}, seed=3)
    fall = Action(torch.ones(3, 2), torch.zeros(3, 0, dtype=torch.int64))

    def values() -> list[list[list[float]]]:
        played.reset(0)
        return [played.step({"3DBall": fall}) and env.state_dict()["parameters"].tolist() for _ in range(60)]

    first = values()
    assert first[0] != first[-1]
    assert values() == first


def test_episodes_go_on_counting_in_another_number_of_areas():
    few = recorded(uniform(0.5, 10)).parameters
    many = Parameters(EnvWrapper(Ball(areas=5)), {"mass": uniform(0.5, 10)}, seed=5, saved=few.state_dict())
    assert many.state_dict()["episode"].tolist() == [*few.state_dict()["episode"].tolist(), 0, 0]


def test_playing_without_parameters_is_playing_the_environment_itself():
    env = EnvWrapper(Ball(areas=1))
    assert with_parameters(env, None, {}, seed=0) is env


def test_playing_takes_the_lesson_that_was_reached():
    env = Ball(areas=2)
    played = with_parameters(EnvWrapper(env), {"mass": lessons(1.0, 2.0, 3.0)}, {"mass": 1}, seed=0)
    played.reset(0)
    assert env.state_dict()["parameters"][:, 2].tolist() == [2.0, 2.0]


def test_a_game_names_no_parameters_and_has_those_of_the_settings_when_played(tmp_path):
    game = UnityEnv(UnityOptions(executable=str(make_build(tmp_path, "Ball"))))
    forms: Mapping[str, Parameter] = {"mass": lessons(1.0, 2.0, 3.0), "scale": uniform(1, 2), "gravity": 9.0}
    played = with_parameters(EnvWrapper(game), forms, {"mass": 1}, seed=0)
    assert played.parameters == {"mass": 2.0, "scale": 1.5, "gravity": 9.0}
    ranges = {"mass": (2.0, 1.0, 3.0), "scale": (1.5, 1.0, 2.0), "gravity": (9.0, 0.0, 18.0)}
    assert played.traits.parameter_ranges == ranges
    assert with_parameters(EnvWrapper(Ball(areas=1)), {"mass": 2.0}, {}, seed=0).parameters == Ball(areas=1).parameters
