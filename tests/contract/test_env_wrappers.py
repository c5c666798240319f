"""Whatever wraps an environment loses nothing of it."""

from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sdk_games
import torch
from tiny_envs import Bandit
from unity_games import make_build
from zoo_games import Crowd

from palaestra.core.errors import EnvError
from palaestra.core.timestep import Action
from palaestra.envs.base import Env
from palaestra.envs.guarded import Guarded
from palaestra.envs.pettingzoo.env import PettingZooEnv
from palaestra.envs.traits import ABILITIES, FACTS, LISTS, EnvTraits, traits_of
from palaestra.envs.transfer import Transfer
from palaestra.envs.unity.env import UnityEnv
from palaestra.envs.unity.options import UnityOptions
from palaestra.envs.wrapper import EnvWrapper
from palaestra.runtime.curriculum.parameters import EnvWithParameters, Parameters
from palaestra.runtime.doctor.examination import random_action
from palaestra.runtime.environments.make import make_env
from palaestra.runtime.environments.unity_games import GameSettings
from palaestra.testing.check_env import hashes_of

CPU = torch.device("cpu")


def with_no_parameters(env: Any) -> EnvWrapper:
    inner = EnvWrapper.of(env)
    return EnvWithParameters(inner, Parameters(inner, None, 0), {})


WRAPPERS: dict[str, Callable[[Any], EnvWrapper]] = {
    "itself": EnvWrapper,
    "guarded": lambda env: Guarded(env, "mine"),
    "transfer": lambda env: Transfer(env, CPU),
    "parameters": with_no_parameters,
    "all of them": lambda env: Transfer(with_no_parameters(Guarded(env, "mine")), CPU),
}
wrapped_in_each = pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)

PLAYED: dict[str, Callable[[], Any]] = {
    "Basic": lambda: make_env("builtin:Basic", areas=2),
    "Match3": lambda: make_env("builtin:Match3", areas=2),
    "Hallway": lambda: make_env("builtin:Hallway", areas=2),
    "WallJump": lambda: make_env("builtin:WallJump", areas=2),
    "gymnasium": lambda: make_env("gymnasium:CartPole-v1", areas=2),
    "pettingzoo": lambda: PettingZooEnv([Crowd(3, "rgb_array"), Crowd(3, "rgb_array")], "crowd"),
    "sdk": lambda: sdk_games.continuous(areas=2),
    "user": lambda: Bandit(2, branches=(2,)),
}
"""Environments that play the same with the same seed, in this process."""


@pytest.mark.parametrize("make", PLAYED.values(), ids=PLAYED)
@wrapped_in_each
def test_an_environment_plays_as_by_itself(make: Callable[[], Any], wrap: Callable[[Any], EnvWrapper]):
    plain = EnvWrapper.of(make())
    wrapped = wrap(make())
    assert wrapped.traits == plain.traits
    assert (wrapped.num_areas, wrapped.device) == (plain.num_areas, plain.device)
    assert (dict(wrapped.parameters), dict(wrapped.behaviors)) == (dict(plain.parameters), dict(plain.behaviors))
    generator = torch.Generator().manual_seed(1)
    steps = plain.reset(3)
    assert hashes_of(wrapped.reset(3)) == hashes_of(steps)
    for tick in range(30):
        assert wrapped.tick_seconds == plain.tick_seconds
        assert wrapped.take_measurements() == plain.take_measurements()
        for name in steps:
            assert_same(wrapped.heuristic(name), plain.heuristic(name))
        actions = {
            name: random_action(plain.behaviors[name].action, step, generator)
            for name, step in steps.items()
            if step.acting.any()
        }
        steps = plain.step(actions)
        if tick % 2:
            wrapped.send(actions)
            assert hashes_of(wrapped.receive()) == hashes_of(steps)
        else:
            assert hashes_of(wrapped.step(actions)) == hashes_of(steps)
    assert_same(dict(wrapped.state_dict()), dict(plain.state_dict()))
    if plain.traits.draws:
        drawn = (env.drawing(np.arange(2)).solids[0].position for env in (wrapped, plain))
        np.testing.assert_array_equal(*drawn)
    wrapped.close()
    plain.close()


def assert_same(one: Any, other: Any) -> None:
    if isinstance(other, Action):
        assert_same((one.continuous, one.discrete), (other.continuous, other.discrete))
    elif other is None:
        assert one is None
    else:
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_what_our_environments_state_is_what_they_have(tmp_path: Path):
    made: list[Any] = [make() for make in PLAYED.values()]
    made.append(UnityEnv(UnityOptions(executable=str(make_build(tmp_path, "Ball")))))
    for env in made:
        for trait, members in ABILITIES.items():
            has = all(hasattr(env, member) for member in members)
            assert bool(getattr(traits_of(env), trait)) == has, (env, trait)
        for name in (*FACTS, *LISTS):
            if hasattr(env, name):
                assert getattr(traits_of(env), name) == getattr(env, name), (env, name)


@wrapped_in_each
def test_the_traits_of_a_game_stay(wrap: Callable[[Any], EnvWrapper], tmp_path: Path):
    game = UnityEnv(UnityOptions(executable=str(make_build(tmp_path, "Ball"))))
    assert wrap(game).traits == game.traits


def test_copies_can_what_their_environment_can_as_far_as_it_goes_through_pipes_in_every_wrapper():
    copies = make_env("gymnasium:CartPole-v1", areas=2, games=GameSettings(UnityOptions(copies=2)))
    with closing(copies) as pool:
        traits = traits_of(pool)
        for wrap in WRAPPERS.values():
            assert wrap(pool).traits == traits
            assert wrap(pool).busy_seconds().keys() == {"copy 0 of the environment", "copy 1 of the environment"}
        assert (traits.name, traits.benchmark) == ("gymnasium:CartPole-v1", 475.0)
        assert traits.asynchronous
        assert traits.uses_cores
        assert not traits.steps_arrays
        for trait, members in ABILITIES.items():
            if getattr(traits, trait):
                assert all(hasattr(pool, member) for member in members), trait


ACTIONS = {"Bandit": Action(torch.zeros(2, 0), torch.ones(2, 1, dtype=torch.int64))}
COLUMN = {"mass": torch.ones(2)}
CALLS: dict[str, tuple[Any, ...]] = {
    "reset": (3,),
    "send": (ACTIONS,),
    "receive": (),
    "step_arrays": ({},),
    "set_speed": (2.0,),
    "set_parameters": (COLUMN,),
    "draw_parameter": ("mass", "uniform", (0.0, 1.0), (5, 6)),
    "queue_parameters": ({"mass": torch.ones(2, 4)},),
    "stagger": (3,),
    "take_measurements": (),
    "busy_seconds": (),
    "heuristic": ("Bandit", np.array([1])),
    "training_starts": ("facts",),
    "behavior_joins": ("facts",),
    "drawing": (np.array([1]),),
    "render": (1,),
    "state_dict": (),
    "load_state_dict": (COLUMN,),
    "interrupt": (),
    "abandon": (),
    "close": (),
}
"""The methods of an environment, each with arguments."""
VALUES = ("traits", "device", "num_areas", "parameters", "behaviors", "tick_seconds", "queue_length", "episodes")
SILENT = ("send", "set_speed", "set_parameters", "draw_parameter", "queue_parameters", "stagger", "training_starts")
SILENT += ("behavior_joins", "load_state_dict", "interrupt", "abandon", "close")
"""Methods that return nothing."""


class Able(Bandit):
    """Has every optional member. Notes the calls of its methods, and answers each of them with something of its own."""

    traits = EnvTraits(
        **{trait: True for trait in ABILITIES if trait != "queue_length"},
        queue_length=4,
        shared_areas=True,
        reassigns_slots=True,
        uses_cores=True,
        opponents=("Bandit",),
        notes=("It is able.",),
        parameter_ranges={"mass": (1.0, 0.0, 2.0)},
    )
    parameters: Mapping[str, float] = {"mass": 1.0}
    tick_seconds = 0.25
    queue_length = 4
    host_ticks = "host ticks"

    def __init__(self) -> None:
        super().__init__(2, branches=(2,))
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.episodes = torch.tensor([4, 7])
        tables = Bandit.reset(self, 3)
        for name in CALLS:
            answer = tables if name in ("reset", "receive", "step_arrays") else f"what {name} returns"
            setattr(self, name, self._noting(name, answer))

    def _noting(self, name: str, answer: object) -> Callable[..., object]:
        def call(*arguments: Any) -> object:
            self.calls.append((name, arguments))
            return answer

        return call


def check_forwarding(wrap: Callable[[Any], Any]) -> None:
    """Fails if a member of the wrapper is not that of the environment behind it."""
    env = Able()
    wrapper = wrap(env)
    for name in VALUES:
        value = getattr(env, name)
        assert getattr(wrapper, name) is value or (name == "device" and wrapper.device == value), name
    for name, arguments in CALLS.items():
        env.calls.clear()
        answer = getattr(wrapper, name)(*arguments)
        ((called, given),) = env.calls
        assert called == name
        assert_same_values(given, arguments)
        wanted = getattr(env, name)()
        if name in SILENT:
            assert answer is None, name
        elif isinstance(wanted, str):
            assert answer is wanted, name
        else:
            assert hashes_of(answer) == hashes_of(wanted), name
    env.calls.clear()
    assert wrapper.unwrapped is env
    wrapper.step(ACTIONS)
    assert [name for name, _ in env.calls] == ["send", "receive"]


def assert_same_values(given: tuple[Any, ...], wanted: tuple[Any, ...]) -> None:
    assert len(given) == len(wanted)
    for one, other in zip(given, wanted, strict=True):
        if isinstance(other, dict):
            assert one.keys() == other.keys()
            for key in other:
                assert_same(one[key], other[key])
        else:
            assert one is other


@wrapped_in_each
def test_every_member_is_that_of_the_environment(wrap: Callable[[Any], EnvWrapper]):
    check_forwarding(wrap)


def test_these_tests_know_every_member():
    known = {*CALLS, *VALUES, "of", "step", "host_ticks", "unwrapped"}
    assert {name for name in dir(EnvWrapper(Able())) if not name.startswith("_")} == known


def test_ticks_on_the_host_go_past_no_wrapper_that_has_to_see_them():
    assert EnvWrapper(Able()).host_ticks == Able.host_ticks
    assert Guarded(Able(), "mine").host_ticks == Able.host_ticks
    assert Transfer(Able(), CPU).host_ticks is None
    assert with_no_parameters(Able()).host_ticks is None


class Forgets(EnvWrapper):
    def take_measurements(self) -> list[Any]:
        return []


class ForgetsTraits(EnvWrapper):
    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self.traits = EnvTraits()


class Stands:
    """Is no `EnvWrapper`, and has what `Env` has."""

    def __init__(self, env: Env) -> None:
        for name in ("device", "num_areas", "parameters", "behaviors", "reset", "step", "set_parameters", "render"):
            setattr(self, name, getattr(env, name))


@pytest.mark.parametrize("wrap", [Forgets, ForgetsTraits, Stands])
def test_a_wrapper_that_forgets_something_is_found(wrap: Callable[[Any], Any]):
    with pytest.raises((AssertionError, AttributeError, ValueError)):
        check_forwarding(wrap)


@wrapped_in_each
def test_what_an_environment_lacks_does_nothing(wrap: Callable[[Any], EnvWrapper]):
    env = wrap(Bandit(2, branches=(2,)))
    assert env.traits == EnvTraits(summary=traits_of(Bandit(1, continuous=1)).summary)
    assert (env.take_measurements(), env.busy_seconds()) == ([], {})
    assert (env.heuristic("Bandit"), env.tick_seconds, env.host_ticks, env.queue_length) == (None, None, None, 0)
    env.set_speed(2.0)
    env.training_starts(None)  # type: ignore[arg-type]
    env.behavior_joins(None)  # type: ignore[arg-type]
    env.interrupt()
    env.abandon()


class Mine(Bandit):
    """An environment of one's own with optional members, which states no traits."""

    shared_areas = True
    notes = ("Two lines.",)
    tick_seconds = 0.5
    uses_cores = True

    def stagger(self, seed: int) -> None:
        self.staggered = seed

    def take_measurements(self) -> list[Any]:
        return []


@wrapped_in_each
def test_an_environment_of_one_s_own_has_the_traits_of_its_members(wrap: Callable[[Any], EnvWrapper]):
    env = Mine(2, branches=(2,))
    wrapped = wrap(env)
    assert wrapped.traits == EnvTraits(
        summary="An environment of one's own with optional members, which states no traits.",
        shared_areas=True,
        notes=("Two lines.",),
        uses_cores=True,
        timed=True,
        staggers_episodes=True,
        measures=True,
    )
    wrapped.stagger(5)
    assert env.staggered == 5


def test_traits_that_are_something_else_are_refused():
    class Wrong(Bandit):
        traits = "fast"

    with pytest.raises(EnvError, match=r"Wrong: 'traits' is an instance of str; expected palaestra.envs.traits"):
        EnvWrapper(Wrong(1, branches=(2,)))


def test_an_environment_without_pictures_says_so():
    class Blind:
        """Sees nothing."""

        def __init__(self) -> None:
            env = Bandit(1, branches=(2,))
            for name in ("device", "num_areas", "parameters", "behaviors"):
                setattr(self, name, getattr(env, name))

    env = EnvWrapper(Blind())  # type: ignore[arg-type]
    assert not env.traits.renders
    with pytest.raises(EnvError, match="Blind cannot be drawn: it has no method 'render'"):
        env.render(0)
