"""What users read when a Gymnasium environment is missing, old or wrong."""

import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from palaestra.core.errors import EnvError, NotFinite
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.gymnasium import GymnasiumEnv
from palaestra.envs.gymnasium.packages import nearest_ids
from palaestra.envs.unity.options import UnityOptions
from palaestra.parallel.closing import close_safely
from palaestra.runtime.environments.custom_envs import as_env
from palaestra.runtime.environments.make import make_env
from palaestra.runtime.environments.unity_games import GameSettings


class Steps(gymnasium.Env):
    """Shows, returns and raises what is given; `returned` is all that `step` returns."""

    shown: Any = np.zeros(3)
    info: Any = {}  # noqa: RUF012
    obs: Any = (0.0, 0.0, 0.0)
    reward: Any = 0.0
    terminated: Any = False
    error: BaseException | None = None

    def __init__(self, **given: Any) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float64)
        self.action_space = spaces.Discrete(2)
        vars(self).update(given)

    def reset(self, *, seed=None, options=None):
        return self.shown, self.info

    def step(self, action):
        if self.error is not None:
            raise self.error
        return vars(self).get("returned", (self.obs, self.reward, self.terminated, False, {}))


class Unmakable(Steps):
    def __init__(self) -> None:
        raise FileNotFoundError("no level in ./levels")


def fails() -> gymnasium.Env:
    return Steps(error=ZeroDivisionError("the wheel fell off"))


def step(*envs: gymnasium.Env) -> TimeStep:
    env = GymnasiumEnv.wrap(list(envs))
    env.reset(0)
    return env.step({env.behavior: Action(torch.zeros(len(envs), 0), torch.zeros(len(envs), 1, dtype=torch.int64))})[
        env.behavior
    ]


@pytest.mark.parametrize(
    ("module", "id", "message"),
    [
        (
            "Box2D",
            "LunarLander-v3",
            r"needs the package Box2D, which is not installed: pip install 'palaestra\[box2d\]'",
        ),
        (
            "mujoco",
            "HalfCheetah-v5",
            r"needs the package mujoco, which is not installed: pip install 'palaestra\[mujoco\]'",
        ),
        (
            "ale_py",
            "ALE/Pong-v5",
            r"comes with the package ale_py, which is not installed: pip install 'palaestra\[atari\]'",
        ),
        ("ale_py", "BreakoutNoFrameskip-v4", r"comes with the package ale_py, .*pip install 'palaestra\[atari\]'"),
        (
            "minigrid",
            "MiniGrid-Empty-5x5-v0",
            "comes with the package minigrid, which is not installed: pip install minigrid",
        ),
    ],
)
def test_a_missing_package_is_named_with_its_pip_line(module: str, id: str, message: str):
    if module in {one.partition(".")[0] for one in sys.modules} or _installed(module):
        pytest.skip(f"{module} is installed")
    with pytest.raises(EnvError, match=message):
        GymnasiumEnv(id, 1)


def _installed(module: str) -> bool:
    from importlib.util import find_spec

    return find_spec(module) is not None


@pytest.mark.parametrize(
    ("id", "meant"),
    [
        ("CartPole-v7", ["CartPole-v1", "CartPole-v0"]),
        ("LunarLander-v2", ["LunarLander-v3"]),
        ("cartpole", ["CartPole-v1", "CartPole-v0"]),
        ("Carpole-v1", ["CartPole-v1"]),
        ("Half-Cheetah-v5", ["HalfCheetah-v5"]),
        ("Qwxyzzy", []),
    ],
)
def test_an_unknown_id_gets_the_nearest_ids_by_name_newest_version_first(id: str, meant: list[str]):
    assert [one for one in nearest_ids(id, gymnasium.registry) if "/" not in one] == meant
    with pytest.raises(
        EnvError, match=", ".join(f"'{one}'" for one in meant) or "has no environment 'Qwxyzzy' \\(for one"
    ):
        GymnasiumEnv(id, 1)


def test_an_old_version_is_taken_with_a_warning_that_names_the_newest():
    with pytest.warns(UserWarning, match="gymnasium:CartPole-v0 is out of date: CartPole-v1 replaces it"):
        assert GymnasiumEnv("CartPole-v0", 1).num_areas == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"obs": [0, 1e300, 0]}, r"observation 'observation'\[1\] is 1e\+300, too large for float32"),
        ({"reward": -1e300}, r"agent 1: reward is -1e\+300, too large for float32"),
        ({"reward": None}, "environment Steps, area 1: the reward is None; expected a number"),
        ({"reward": "1"}, "environment Steps, area 1: the reward is '1'"),
        ({"obs": np.zeros(4)}, "area 1: observation 'observation' has shape \\(4,\\); its space says \\(3,\\)"),
        ({"terminated": None}, "environment Steps, area 1: `terminated` is None; expected True or False"),
        ({"terminated": "no"}, "environment Steps, area 1: `terminated` is 'no'"),
        ({"terminated": 2}, "environment Steps, area 1: `terminated` is 2"),
        ({"terminated": [True, False]}, r"environment Steps, area 1: `terminated` is \[True, False\]"),
        ({"obs": None}, "area 1: observation 'observation' is None; expected an array of shape \\(3,\\)"),
        ({"obs": ["a", "b", "c"]}, "environment Steps, area 1: observation 'observation' is 'a'; expected numbers"),
        ({"reward": np.zeros(3)}, r"area 1: the reward has shape \(3,\); expected a number"),
        (
            {"returned": None},
            "environment Steps, area 1: `step` returned None; expected obs, reward, terminated, truncated, info",
        ),
    ],
)
def test_numbers_that_do_not_fit_are_named(given: dict[str, Any], message: str):
    with pytest.raises(EnvError, match=message) as raised:
        step(Steps(), Steps(**given))
    assert not isinstance(raised.value, NotFinite)


@pytest.mark.parametrize("flag", [np.False_, np.array(False), 0, 0.0, torch.tensor(False)], ids=repr)
def test_flags_may_be_numbers_of_any_library(flag: Any):
    assert step(Steps(terminated=flag), Steps()).terminated.tolist() == [False, False]


def test_a_reward_may_be_an_array_of_one_number():
    assert step(Steps(reward=np.array([0.5])), Steps()).reward.tolist() == [0.5, 0.0]


def test_an_environment_of_four_values_is_told_what_to_do():
    with pytest.raises(
        EnvError, match=r"`step` returned 4 values; expected five: .*pip install shimmy.*GymV21Environment-v0"
    ):
        step(Steps(returned=(np.zeros(3), 0.0, False, {})))


def test_an_exception_in_a_constructor_is_told_with_its_place():
    gymnasium.register("Unmakable-v0", Unmakable)
    try:
        with pytest.raises(
            EnvError,
            match=r"cannot be made: FileNotFoundError: no level in ./levels \(.*test_gymnasium_errors.py, line \d+\)",
        ):
            GymnasiumEnv("Unmakable-v0", 1)
    finally:
        del gymnasium.registry["Unmakable-v0"]


@pytest.mark.slow
def test_an_exception_in_a_copy_names_the_copy_the_area_and_the_line():
    env = make_env("python:test_gymnasium_errors:fails", areas=2, games=GameSettings(UnityOptions(copies=2)))
    try:
        env.reset(0)
        with pytest.raises(EnvError) as raised:
            env.step({name: Action(torch.zeros(2, 0), torch.zeros(2, 1, dtype=torch.int64)) for name in env.behaviors})
    finally:
        env.close()
    assert str(raised.value).startswith("copy ")
    assert "raised an error in step, area 0: ZeroDivisionError: the wheel fell off (" in str(raised.value)
    assert "test_gymnasium_errors.py, line " in str(raised.value)
    # the copy's traceback, which --debug prints
    assert "raise self.error" in str(raised.value.__cause__)


def test_areas_of_different_spaces_are_refused():
    other = Steps(action_space=spaces.Discrete(3))
    with pytest.raises(EnvError, match=r"area 1 has the action_space Discrete\(3\), but area 0 has Discrete\(2\)"):
        GymnasiumEnv.wrap([Steps(), other])


class Fallen(BaseException):
    """Like the exceptions of Rust's panics."""


def test_an_exception_that_is_no_exception_is_named_and_ctrl_c_stays_what_it_is():
    with pytest.raises(
        EnvError,
        match=r"environment Steps raised an error in step, area 1: Fallen: odd \(.*test_gymnasium_errors.py, line "
        r"\d+\)",
    ):
        step(Steps(), Steps(error=Fallen("odd")))
    with pytest.raises(KeyboardInterrupt):
        step(Steps(error=KeyboardInterrupt()))


class Shown(Steps):
    """Shows `shown` in its space, and `last` as the third observation, at which the episode ends."""

    ticks = 0
    last: Any = None

    def step(self, action):
        self.ticks += 1
        over = self.ticks == 2
        return self.last if over else self.shown, 0.0, over, False, {}


SHOWN = [
    (spaces.Discrete(3), 1, 9, "observation 'observation' is 9; its space says 0 to 2"),
    (
        spaces.Box(-1, 1, (2,)),
        np.zeros(2),
        np.zeros(3),
        r"observation 'observation' has shape \(3,\); its space says \(2,\)",
    ),
    (
        spaces.Sequence(spaces.Discrete(3)),
        (0,),
        (0, 1, 7),
        "observation 'observation' has element 2 that is 7; its space says 0 to 2",
    ),
    (
        spaces.Dict(seen=spaces.Sequence(spaces.Dict(kind=spaces.Discrete(3)))),
        {"seen": ()},
        {"seen": ({"kind": 1}, {"kind": 3})},
        "observation 'seen' has a kind in element 1 that is 3; its space says 0 to 2",
    ),
    (
        spaces.Sequence(spaces.Box(-1, 1, (2,))),
        (),
        (np.zeros(3),),
        r"observation 'observation' has elements of shape \(3,\)",
    ),
]


@pytest.mark.parametrize(("space", "seen", "last", "message"), SHOWN)
def test_a_last_observation_that_does_not_fit_names_the_area_that_ended(
    space: spaces.Space, seen: Any, last: Any, message: str
):
    env = GymnasiumEnv.wrap([Shown(observation_space=space, shown=seen, last=end) for end in (seen, seen, last)])
    env.reset(0)
    idle = Action(torch.zeros(3, 0), torch.zeros(3, 1, dtype=torch.int64))
    env.step({env.behavior: idle})
    with pytest.raises(EnvError, match=f"environment Shown, area 2: {message}"):
        env.step({env.behavior: idle})


def test_an_entry_point_without_its_module_is_named():
    gymnasium.register("Misspelt-v0", "no_module_of_this_name:Env")
    try:
        with pytest.raises(
            EnvError,
            match="its entry point is 'no_module_of_this_name:Env', but there is no module 'no_module_of_this_name'",
        ):
            GymnasiumEnv("Misspelt-v0", 1)
    finally:
        del gymnasium.registry["Misspelt-v0"]


def test_a_module_that_imports_a_missing_package_is_told_with_the_pip_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "lacks_a_package.py").write_text("import not_a_package_abc\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(EnvError) as raised:
        GymnasiumEnv("lacks_a_package:X-v0", 1)
    assert str(raised.value) == (
        "gymnasium:lacks_a_package:X-v0: module 'lacks_a_package' needs the package not_a_package_abc, which is not "
        f"installed ({tmp_path / 'lacks_a_package.py'}, line 1): pip install not_a_package_abc"
    )


@pytest.mark.parametrize(
    ("id", "options", "message"),
    [
        ("", {}, "'gymnasium:' is incomplete; expected gymnasium:ID"),
        (
            "Pendulum-v1",
            {"gg": 1},
            "gymnasium:Pendulum-v1 takes no option 'gg'; did you mean 'g'.*it takes: render_mode, g",
        ),
        ("Pendulum-v1", {"leave_out": 3.5}, "leave_out is 3.5; expected a list of names"),
        ("Pendulum-v1", {"max_elements": 0}, "max_elements is 0; expected the largest number of elements"),
    ],
)
def test_a_wrong_option_is_named(id: str, options: dict[str, Any], message: str):
    with pytest.raises(EnvError, match=message):
        GymnasiumEnv(id, 1, **options)


class Closes(Steps):
    """Counts who was closed; those of `bad` raise."""

    area: int
    bad: dict[int, BaseException]
    closed: list[int]

    def close(self):
        self.closed.append(self.area)
        if self.area in self.bad:
            raise self.bad[self.area]


@pytest.mark.parametrize("error", [OSError("the port is gone"), SystemExit("the port is gone")])
def test_all_areas_are_closed_though_some_raise_and_the_first_error_is_named(error: BaseException):
    closed = list[int]()
    told = list[str]()
    env = GymnasiumEnv.wrap(
        [Closes(area=i, bad={1: error, 2: OSError("so is this one")}, closed=closed) for i in range(4)]
    )
    close_safely(env.close, "the environment", told.append)
    assert closed == [0, 1, 2, 3]
    (text,) = told
    assert "environment Closes raised an error in close, area 1:" in text
    assert f"{type(error).__name__}: the port is gone" in text


def test_a_reset_without_return_is_named():
    env = Steps()
    env.reset = lambda *, seed=None, options=None: None
    with pytest.raises(EnvError, match="`reset` returned None; expected obs, info: does it end without `return`"):
        GymnasiumEnv.wrap(env).reset(0)


@pytest.mark.parametrize("attribute", ["observation_space", "action_space"])
def test_an_environment_without_a_space_is_told_which_one_it_lacks(attribute: str):
    env = Steps(**{f"{attribute}s": 1})
    delattr(env, attribute)
    with pytest.raises(EnvError, match=rf"environment Steps has no `{attribute}`; did you mean '{attribute}s'"):
        GymnasiumEnv.wrap(env)


def raising(error: type[Exception]) -> property:
    def read(self: Any) -> Any:
        raise error("nothing yet")

    return property(read)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"observation_space": raising(ValueError)}, "`observation_space` cannot be read: ValueError: nothing yet"),
        ({"action_space": raising(AttributeError)}, "`action_space` cannot be read: AttributeError: nothing yet"),
        ({"action_space": lambda self: 3}, "`action_space` is a method: make it a property, with @property above it"),
        ({"spec": "Steps-v0"}, "`spec` is 'Steps-v0'; gymnasium.make sets it: leave it out, or set it to None"),
        ({"metadata": raising(KeyError)}, "`metadata` cannot be read: KeyError"),
        ({"unwrapped": None}, "`unwrapped` is None; expected the environment itself"),
        ({"step": gymnasium.Env.step, "steps": Steps.step}, "defines no `step`; did you mean 'steps'? (expected a"),
        ({"reset": gymnasium.Env.reset}, "its class defines no `reset` (expected a method reset(self, *, seed=None"),
    ],
)
def test_a_class_that_declares_something_else_is_told_in_one_line(attributes: dict[str, Any], message: str):
    def make(self: gymnasium.Env) -> None:
        given = {"observation_space": spaces.Discrete(2), "action_space": spaces.Discrete(2)}
        vars(self).update({name: space for name, space in given.items() if name not in attributes})

    kind = type("Own", (Steps,), {"__init__": make, **attributes})
    with pytest.raises(EnvError) as error:
        as_env(kind, 1, "cpu")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


class Drawn(Steps):
    """Draws what is given."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(self, drawn: Any = None, **given: Any) -> None:
        super().__init__(**given)
        self.drawn = drawn

    def render(self):
        return self.drawn if self.render_mode == "rgb_array" else None


@pytest.mark.parametrize(
    ("drawn", "corner"),
    [
        (np.full((4, 6, 3), 7, np.uint8), [7, 7, 7]),
        (np.full((4, 6), 9, np.uint8), [9, 9, 9]),
        (np.full((4, 6, 4), 200), [200, 200, 200]),
        (np.ones((4, 6, 3)), [255, 255, 255]),
        ([np.zeros((4, 6, 3)), np.full((4, 6, 3), 5)], [5, 5, 5]),
    ],
)
def test_a_class_draws_though_it_takes_no_render_mode(drawn: Any, corner: list[int]):
    env, _ = as_env(lambda: Drawn(drawn), 2, "cpu", {"render": True})
    env.reset(0)
    picture = env.render(1)
    assert (picture.shape, picture.dtype, picture[0, 0].tolist()) == ((4, 6, 3), np.uint8, corner)


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (Steps(), "its class Steps has no `render`; add `render(self)`, which returns an array (height, width, 3)"),
        (Drawn(), "its `render` returned None; expected an array (height, width, 3) of whole numbers from 0"),
        (Drawn(np.zeros(5)), "its `render` returned an array (5,) of float64; expected"),
        (Drawn(render_mode="human"), "its render_mode is 'human'; leave out the option render_mode, or give"),
    ],
)
def test_an_environment_that_cannot_be_drawn_is_told_what_its_class_needs(env: gymnasium.Env, message: str):
    with pytest.raises(EnvError) as error:
        GymnasiumEnv.wrap(env).render(0)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"action_space": spaces.Discrete}, "`action_space` is the class Discrete, not an instance of it"),
        ({"observation_space": None}, "`observation_space` is None; expected a space of gymnasium.spaces"),
        ({"metadata": ["rgb_array"]}, "`metadata` is ['rgb_array']; expected a dictionary"),
        ({"info": []}, "area 0: the info that `reset` returned, its second value, is []; expected a dictionary"),
        (
            {"shown": np.array([0.5, "x", 0], object)},
            "is 'x'; expected numbers, as its space says (entry [1] of an array of dtype object)",
        ),
        (
            {"observation_space": spaces.Discrete(4), "shown": 2.5},
            "observation 'observation' is 2.5; expected a whole number",
        ),
    ],
)
def test_what_a_class_declares_or_returns_in_a_wrong_form_is_named(attributes: dict[str, Any], message: str):
    with pytest.raises(EnvError) as error:
        GymnasiumEnv.wrap(Steps(**attributes)).reset(0)
    assert message in str(error.value)


@pytest.mark.parametrize(
    "attributes", [{"metadata": None}, {"metadata": {"render_fps": "fast"}}, {"shown": np.array([0.5, 1, 0], object)}]
)
def test_what_is_clearly_meant_is_taken(attributes: dict[str, Any]):
    env = GymnasiumEnv.wrap(Steps(**attributes))
    expected = [[0.5, 1.0, 0.0]] if "shown" in attributes else [[0.0] * 3]
    assert env.reset(0)["Steps"].obs[0].tolist() == expected


def test_an_array_of_rows_of_numbers_is_an_array_of_numbers():
    rows = np.empty(2, object)
    rows[:] = [[0.0, 1.0], np.array([0.5, 1.0])]
    env = GymnasiumEnv.wrap(Steps(observation_space=spaces.Box(-1, 1, (2, 2), np.float32), shown=rows))
    assert env.reset(0)["Steps"].obs[0].tolist() == [[0.0, 1.0, 0.5, 1.0]]


def test_a_class_that_only_looks_like_an_environment_is_told_what_to_derive_from():
    class Look:
        def reset(self) -> None: ...

        def step(self, action: int) -> None: ...

    with pytest.raises(
        EnvError, match=r"has `reset` and `step` but is no gymnasium\.Env: derive its class from gymnasium\.Env"
    ):
        as_env(Look(), None, "cpu")
