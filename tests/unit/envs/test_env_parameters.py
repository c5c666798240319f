"""Environment parameters of Gymnasium and PettingZoo environments."""

from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import batch_space
from gymnasium.wrappers import TimeLimit, TransformReward

from palaestra.core.errors import EnvError
from palaestra.core.timestep import Action
from palaestra.envs.gymnasium import GymnasiumEnv
from palaestra.envs.pettingzoo.env import PettingZooEnv
from palaestra.envs.spaces.conventions import Conventions
from palaestra.envs.unity.options import UnityOptions
from palaestra.envs.wrapper import EnvWrapper
from palaestra.runtime.curriculum.parameters import with_parameters
from palaestra.runtime.environments.custom_envs import as_env
from palaestra.runtime.environments.make import make_env
from palaestra.runtime.environments.unity_games import GameSettings
from palaestra.scenario.samplers import Stream, Uniform, key_of
from palaestra.scenario.settings import SamplerSettings


class Shown(gymnasium.Env):
    """Observes `level` in episodes of two steps."""

    observation_space = spaces.Box(-1000, 1000, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, level: float = 4.0) -> None:
        self.level = level
        self.episodes = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.begin(options)
        self.episodes += 1
        self.age = 0
        return self.seen(), {}

    def begin(self, options: Any) -> None:
        """Takes the options of `reset`."""

    def step(self, action):
        self.age += 1
        return self.seen(), 1.0, self.age == 2, False, {}

    def seen(self) -> np.ndarray:
        return np.array([self.level], np.float32)


class Gets(Shown):
    def begin(self, options):
        self.level = (options or {}).get("level", 4.0)


class Asks(Shown):
    def begin(self, options):
        if options and "level" in options:
            self.level = options["level"]


class Needs(Shown):
    def begin(self, options):
        self.level = options["level"]


class Spreads(Shown):
    def begin(self, options):
        for name, value in (options or {}).items():
            setattr(self, name, value)


class Keeps(Shown):
    """Reads its options later."""

    def begin(self, options):
        self.options = options or {"level": 4.0}

    def seen(self):
        return np.array([self.options["level"]], np.float32)


class Told(Shown):
    def set_parameters(self, values):
        assert type(values) is dict
        self.level = values["level"]


class Inside(Shown):
    """Has its level in a simulator, which it calls env, and which knows it."""

    def __init__(self) -> None:
        super().__init__()
        del self.level
        self.env = SimpleNamespace(level=4.0, env=self)

    def seen(self):
        return np.array([self.env.level], np.float32)


class Named(Shown):
    """Has the level in places of other names."""

    def __init__(self) -> None:
        super().__init__()
        self.physics = SimpleNamespace(level=4.0)
        self.config = {"levels": np.array([0.0, 4.0])}
        self.name = "a text"

    def set_level(self, value: float) -> None:
        self.physics.level = value

    def seen(self):
        return np.array([max(self.physics.level, self.config["levels"][1])], np.float32)


def opened(kind: Any, areas: int = 2, **members: str | None) -> GymnasiumEnv:
    """Opens an environment whose parameters these are."""
    return GymnasiumEnv.wrap([kind() for _ in range(areas)], "shown", Conventions(parameters=members))


def levels(env: Any, ticks: int = 4, **change: Any) -> list[list[float]]:
    """Returns the level of each area after a reset and each tick; after the first, parameters become `change`."""
    env = EnvWrapper.of(env)
    (behavior,) = env.behaviors
    seen = [env.reset(0)[behavior].obs[0][:, 0].tolist()]
    for tick in range(ticks):
        if tick == 1 and change:
            env.set_parameters({name: torch.tensor(value) for name, value in change.items()})
        action = Action(torch.zeros(env.num_areas, 0), torch.zeros(env.num_areas, 1, dtype=torch.int64))
        seen.append(env.step({behavior: action})[behavior].obs[0][:, 0].tolist())
    return seen


@pytest.mark.parametrize("kind", [Shown, Gets, Asks, Spreads, Told, Inside, lambda: TimeLimit(Shown(), 9)])
def test_a_parameter_finds_its_way_and_applies_from_each_area_s_next_episode(kind):
    env = opened(kind, level=None)
    assert env.parameters == {"level": 4.0}
    assert levels(env, level=[7.5, -2.0]) == [[4, 4], [4, 4], [7.5, -2], [7.5, -2], [7.5, -2]]
    with pytest.raises(EnvError, match=r"shown has no parameter 'lvel'; did you mean 'level'\? \(it has: level\); par"):
        env.set_parameters({"lvel": torch.zeros(2)})


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        (Named, "physics.level"),
        (Named, "config.levels.1"),
        (Named, "set_level"),
        (Keeps, "reset"),
        (lambda: TransformReward(Told(), float), "set_parameters"),
    ],
)
def test_a_named_member_takes_a_parameter(kind, place: str):
    assert levels(opened(kind, level=place), 3, level=[7.5, 8.0])[2:] == [[7.5, 8]] * 2


def test_an_environment_that_needs_its_options_gets_them_from_the_first_episode_on():
    env = opened(Needs, level=None)
    env.set_parameters({"level": torch.tensor([0.1, 9.8])})
    assert levels(env, 0) == [[np.float32(0.1), np.float32(9.8)]]
    assert [one.level for one in env._envs._envs] == [0.1, 9.8]  # not 9.800000190734863


class Wrong(Shown):
    """Each has a fault."""


class Overwrites(Wrong):
    def begin(self, options):
        self.level = 5.0


class Refuses(Wrong):
    def __init__(self) -> None:
        super().__init__()
        del self.level

    def begin(self, options):
        for name in options or ():
            raise ValueError(f"no option {name}")


class Fixed(Wrong):
    level = property(lambda self: 4.0, lambda self, value: self.accept(value))

    def accept(self, value: float) -> None:
        if hasattr(self, "episodes"):
            raise AttributeError("not this one")


class Raises(Shown):
    def set_parameters(self, values):
        raise KeyError("nothing fits")


@pytest.mark.parametrize(
    ("kind", "members", "sentence"),
    [
        (Shown, {"levle": None}, r"shown takes no parameter 'levle'; did you mean 'level'\? \(there is no attribute of "
         r"this name that is a number, it has: age, episodes, level; no method set_parameters\(values\); and `reset`,"
         r" .* does not ask for it\)\. env_settings\.env_options\.parameters=\{levle: MEMBER\} names another"),
        (Refuses, {"level": None}, r"`reset`, called with .*, raised ValueError: no option level .* in a trial\)"),
        (Overwrites, {"level": None}, r"`reset` gives the attribute `level` .* own, 5.0, .*options\['level'\]"),
        (Fixed, {"level": None}, "has an attribute 'level' that cannot be set: AttributeError: not this one"),
        (Raises, {"level": None}, "area 0: setting level=2 by the method `set_parameters` raised KeyError: 'noth"),
        (Shown, {"level": "lvel"}, r"sends it to 'lvel', but there is no such member; did you mean 'level'\?"),
        (Named, {"level": "name"}, "sends it to 'name', but that is 'a text'; expected an attribute that is a number"),
        (lambda: Old(), {"level": "reset"}, "has a `reset` without options, where .*parameters sends 'level'"),
    ],
)  # fmt: skip
def test_a_parameter_that_nothing_takes_is_refused_with_the_way_out(kind, members, sentence: str):
    env = opened(kind, **members)
    with pytest.raises(EnvError, match=sentence):
        set_and_reset(env, {name: torch.full((2,), 2.0) for name in members})


def set_and_reset(env: GymnasiumEnv, values: dict[str, torch.Tensor]) -> None:
    env.set_parameters(values)
    env.reset(0)


class Old(Shown):
    def reset(self, *, seed=None):
        return super().reset(seed=seed)


def test_a_whole_number_and_a_switch_keep_their_types():
    env = opened(lambda: Shown(level=3), level=None)
    env.set_parameters({"level": torch.tensor([5.0, 5.5])})
    env.reset(0)
    assert [repr(one.level) for one in env._envs._envs] == ["5", "5.5"]
    env = opened(lambda: Shown(level=False), level=None)
    env.set_parameters({"level": torch.tensor([0.0, 1.0])})
    env.reset(0)
    assert [one.level for one in env._envs._envs] == [False, True]


def test_the_kth_episode_of_each_area_has_the_kth_number_of_its_stream():
    sampler = SamplerSettings.model_validate(
        {"sampler_type": "uniform", "sampler_parameters": {"min_value": 5, "max_value": 15}}
    )
    env = with_parameters(EnvWrapper.of(opened(Gets, 3, level=None)), {"level": sampler}, {}, seed=5)
    seen = levels(env, 60)
    expected = Stream(Uniform(5, 15), key_of(5, "level", 0)).drawn(torch.arange(31).expand(3, 31))
    assert seen[::2] == expected.T.tolist()
    assert seen[::2][:-1] == seen[1::2]
    assert env.parameters == {"level": 10.0}
    assert env.traits.parameter_ranges == {"level": (10.0, 5.0, 15.0)}


def test_options_name_parameters_and_a_constructor_s_own_come_first():
    made = make_env("gymnasium:CartPole-v1", areas=2, options={"parameters": ["gravity", "high"]})
    assert made.parameters == {"gravity": 9.8, "high": 0.0}
    assert list(made.traits.notes) == [
        "parameter 'gravity' is set by the attribute `gravity`",
        "parameter 'high' is set by the options of `reset`",
    ]

    def make(parameters: float = 1.0) -> Shown:
        return Shown(parameters)

    theirs, _ = as_env(make, 2, "cpu", {"parameters": 3.0, "environment_parameters": ("level",)})
    assert theirs.parameters == {"level": 3.0}
    for wrong in (3, {"level": 2}):
        with pytest.raises(EnvError, match=r"parameters is .*; expected a map from parameters to members"):
            as_env(Shown, 2, "cpu", {"parameters": wrong})
    with pytest.raises(EnvError, match="environment_parameters is a separate section, next to env_settings"):
        as_env(Shown, 2, "cpu", {"environment_parameters": {"level": 2}})


class Batch(VectorEnv):
    """Observes its levels, in episodes of two steps."""

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(self, mode: AutoresetMode = AutoresetMode.SAME_STEP) -> None:
        self.num_envs = 2
        self.metadata = {"autoreset_mode": mode}
        self.single_observation_space, self.single_action_space = Shown.observation_space, Shown.action_space
        self.observation_space = batch_space(self.single_observation_space, 2)
        self.action_space = batch_space(self.single_action_space, 2)
        self.levels = self.next = np.full(2, 4.0)

    def reset(self, *, seed=None, options=None):
        options = options or {}
        mask = options.get("reset_mask", np.ones(2, bool))
        self.levels = np.where(mask, options.get("level", self.next), self.levels)
        self.age = 0
        return self.seen(), {}

    def step(self, actions):
        self.age += 1
        over = np.full(2, self.age == 2)
        infos = {}
        if over.all() and self.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP:
            infos = {"final_obs": self.seen()}
            self.reset()
        return self.seen(), np.ones(2), over, np.zeros(2, bool), infos

    def seen(self):
        return self.levels[:, None].astype(np.float32)


class ToldBatch(Batch):
    def set_parameters(self, values):
        self.next = values["level"]


@pytest.mark.parametrize("made", [ToldBatch(), Batch(AutoresetMode.DISABLED), SyncVectorEnv([Shown, Shown])])
def test_vector_environments_take_a_number_for_each_environment(made: VectorEnv):
    env = GymnasiumEnv.wrap(made, conventions=Conventions(parameters={"level": None}))
    assert levels(env, level=[7.5, -2.0]) == [[4, 4], [4, 4], [7.5, -2], [7.5, -2], [7.5, -2]]


def test_a_vector_environment_that_can_take_none_is_refused_with_the_way_out():
    made = AsyncVectorEnv([Shown, Shown])
    env = GymnasiumEnv.wrap(made, conventions=Conventions(parameters={"level": None}))
    with pytest.raises(EnvError, match=r"needs a method set_parameters\(values\).*single environment; num_envs runs"):
        env.set_parameters({"level": torch.zeros(2)})
    env.close()
    made.close()


@pytest.mark.slow
def test_copies_in_processes_have_the_values_of_their_areas(tmp_path, monkeypatch):
    module = tmp_path / "shown_env.py"
    module.write_text(
        "import gymnasium, numpy\nfrom gymnasium import spaces\n\n\nclass Shown(gymnasium.Env):\n"
        "    observation_space = spaces.Box(-99, 99, (1,))\n    action_space = spaces.Discrete(2)\n"
        "    def reset(self, *, seed=None, options=None):\n"
        "        self.level = (options or {}).get('level', 4.0)\n"
        "        return numpy.array([self.level], numpy.float32), {}\n"
        "    def step(self, action):\n"
        "        return numpy.array([self.level], numpy.float32), 1.0, True, False, {}\n"
    )
    monkeypatch.chdir(tmp_path)
    games = GameSettings(UnityOptions(copies=2), ())
    options = {"environment_parameters": ("level", "depth")}
    env = make_env("python:shown_env:Shown", areas=3, options=options, games=games)
    try:
        assert env.parameters == {"level": 4.0}
        with pytest.raises(EnvError, match=r"takes no parameter 'depth'.*env_options.parameters"):
            env.set_parameters({"depth": torch.zeros(3)})
        env.set_parameters({"level": torch.tensor([5.0, 6.0, 7.0])})
        assert levels(env, 0) == [[5, 6, 7]]
    finally:
        env.close()


@pytest.mark.parametrize("turns", [False, True])
def test_pettingzoo_s_environments_take_parameters_like_gymnasium_s(turns: bool):
    pytest.importorskip("pettingzoo", reason="needs pettingzoo: pip install 'palaestra[pettingzoo]'")
    from zoo_games import Crowd, Duel

    class Many(Duel if turns else Crowd):
        strength = 1.0
        seen = ()

        def reset(self, seed=None, options=None):
            self.seen = (*self.seen, (options or {}).get("luck"), self.strength)
            return super().reset(seed=seed, options=options)

    games = [Many(), Many()]
    env = PettingZooEnv(games, "many", {"environment_parameters": ("luck", "strength", "hope")})
    assert env.parameters == {"luck": 0.0, "strength": 1.0}
    with pytest.raises(EnvError, match=r"many takes no parameter 'hope' .*env_options\.parameters=\{hope: MEMBER\}"):
        env.set_parameters({"hope": torch.zeros(2)})
    env.set_parameters({"luck": torch.tensor([2.0, 3.0]), "strength": torch.tensor([5.0, 6.0])})
    env.reset(0)
    assert [game.seen[-2:] for game in games] == [(2.0, 5.0), (3.0, 6.0)]
