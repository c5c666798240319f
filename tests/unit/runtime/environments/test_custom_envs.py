"""What `train(env=...)` and `python:module:factory` take."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from tiny_envs import Bandit

import palaestra
from palaestra.core.errors import EnvError
from palaestra.core.timestep import Action
from palaestra.runtime.environments.custom_envs import as_env, call
from palaestra.runtime.environments.make import make_env


class Aim(gymnasium.Env):
    """Pays for the sign that it shows; succeeds where it is met."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)
    metadata = {"render_modes": []}  # noqa: RUF012 (Gymnasium's form)

    def __init__(self) -> None:
        self.closed = False

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.sign = int(self.np_random.integers(2)) * 2 - 1
        return np.array([self.sign], np.float32), {}

    def step(self, action):
        met = (action * 2 - 1) == self.sign
        return np.array([self.sign], np.float32), float(met), True, False, {"is_success": bool(met)}

    def close(self):
        self.closed = True


class Silent(Aim):
    def step(self, action):
        return *super().step(action)[:4], {}


def train(env: Any, results: Path, steps: int = 64, **more: Any) -> palaestra.Result:
    block = {
        "trainer_type": "ppo",
        "max_steps": steps,
        "summary_freq": 32,
        "hyperparameters": {"batch_size": 16, "buffer_size": 32},
    }
    config = {"default_settings": {**block, "network_settings": {"hidden_units": 8, "num_layers": 1}}}
    return palaestra.train(config, env=env, results_dir=str(results), run_id="run", seed=1, quiet=True, **more)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (Aim, "Aim"),
        (lambda: Aim(), "Aim"),
        (Aim(), "Aim"),
        ([Aim(), Aim()], "Aim"),
        (SyncVectorEnv([Aim] * 3), "Aim"),
        (lambda: SyncVectorEnv([Aim] * 3, autoreset_mode=AutoresetMode.SAME_STEP), "Aim"),
        (lambda: Bandit(4, branches=(2,)), "Bandit"),
        (Bandit(4, branches=(2,)), "Bandit"),
    ],
    ids=["class", "function", "environment", "list", "vector", "vector function", "Env function", "Env"],
)
def test_environments_vector_environments_and_what_makes_them_can_be_given(given: Any, name: str):
    env, _ = as_env(given, None, "cpu")
    steps = env.reset(0)
    assert list(env.behaviors) == list(steps) == [name]
    action = Action(torch.zeros(env.num_areas, 0), torch.ones(env.num_areas, 1, dtype=torch.int64))
    assert env.step({name: action})[name].terminated.all()


def test_what_gymnasium_makes_can_be_given():
    for given in (
        gymnasium.make("CartPole-v1"),
        gymnasium.make_vec("CartPole-v1", 2),
        partial(gymnasium.make, "CartPole-v1"),
    ):
        env, _ = as_env(given, None, "cpu")
        steps = env.reset(0)
        slots = len(steps["CartPole-v1"].acting)
        action = Action(torch.zeros(slots, 0), torch.zeros(slots, 1, dtype=torch.int64))
        assert list(env.step({"CartPole-v1": action})) == list(steps) == ["CartPole-v1"]


def test_training_calls_a_function_once_for_each_area_closes_what_it_made_and_logs_successes(tmp_path: Path):
    made: list[Aim] = []

    def make() -> Aim:
        made.append(Aim())
        return made[-1]

    result = train(make, tmp_path, num_areas=5)
    assert (len(made), list(result.steps)) == (5, ["Aim"])
    assert result.models["Aim"].is_file()
    assert all(env.closed for env in made)
    for line in map(json.loads, (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()):
        assert line["Environment/Success Rate"] == pytest.approx(line["Environment/Cumulative Reward"], abs=1e-6)


def test_an_environment_that_a_program_made_is_left_open_and_one_that_speaks_of_no_success_has_no_such_metric(tmp_path):
    env = Silent()
    train(env, tmp_path)
    assert not env.closed
    assert "Success" not in (tmp_path / "run" / "metrics.jsonl").read_text()


def test_one_environment_is_one_area_and_more_need_a_function():
    assert as_env(Aim(), None, "cpu")[0].num_areas == 1
    with pytest.raises(EnvError, match=r"env \(Aim\): num_areas is 4, but the environment's is 1; pass a function"):
        as_env(Aim(), 4, "cpu")


def test_a_function_that_gives_one_environment_again_and_again_is_refused():
    env = Aim()
    with pytest.raises(EnvError, match="returned the same environment twice"):
        as_env(lambda: env, None, "cpu")


@pytest.mark.parametrize("given", [3, {}, [], object(), "made"])
def test_what_is_no_environment_is_refused_with_what_is_expected(given: object):
    with pytest.raises(EnvError, match=r"expected an Env .*gymnasium\.Env.* or a function or class that makes one"):
        as_env(given, None, "cpu")


def test_what_a_function_gives_is_held_against_the_same_list():
    with pytest.raises(
        EnvError, match=r"an instance of int, which has neither `reset` nor `step`; expected an Env .*gymnasium\.Env"
    ):
        as_env(lambda: 3, None, "cpu")


def test_an_environment_that_breaks_off_is_named(tmp_path: Path):
    class Breaks(Aim):
        def step(self, action):
            raise KeyError("floor")

    with pytest.raises(EnvError, match=r"environment Breaks raised an error in step, area 0: KeyError.*floor"):
        train(Breaks, tmp_path)


def test_a_module_may_make_gymnasium_environments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    name = f"gym_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(
        "import gymnasium\n\ndef make(gravity=10.0):\n    return gymnasium.make('Pendulum-v1', g=gravity)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    env = make_env(f"python:{name}:make", areas=3, options={"gravity": 5.0})
    assert (env.num_areas, list(env.behaviors)) == (3, ["Pendulum-v1"])


class Drawing:
    """A user's class that takes a render mode."""

    def __init__(self, size: int = 3, render_mode: str | None = None) -> None:
        self.size = size
        self.render_mode = render_mode


class Blind:
    """A user's class that does not draw."""


@pytest.mark.parametrize(
    ("options", "mode"), [({}, None), ({"render": True}, "rgb_array"), ({"render": True, "render_mode": "x"}, "x")]
)
def test_a_class_that_takes_a_render_mode_is_given_it_where_it_is_to_be_drawn(options, mode):
    assert call(Drawing, "mine", None, "cpu", options).render_mode == mode


def test_a_class_that_takes_any_keyword_and_can_draw_is_given_a_render_mode():
    class Passing(gymnasium.Env):
        metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012 (Gymnasium's form)

        def __init__(self, **options: str) -> None:
            self.render_mode = options["render_mode"]

    assert call(Passing, "mine", None, "cpu", {"render": True}).render_mode == "rgb_array"


def test_a_class_without_a_render_mode_is_made_all_the_same():
    assert isinstance(call(Blind, "mine", None, "cpu", {"render": True}), Blind)


def test_a_factory_that_passes_its_keywords_on_is_not_given_ours():
    def make(**given: Any) -> Aim:
        return Aim(**given)

    env, _ = as_env(make, 3, "cpu", {"render": True})
    assert env.num_areas == 3
    with pytest.raises(EnvError, match="unexpected keyword argument 'speed'"):
        as_env(make, 3, "cpu", {"speed": 2})


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (None, "returned None: does it end without `return`?"),
        (Aim, "returned the class Aim, not Aim()"),
    ],
)
def test_a_factory_that_makes_no_environment_is_told_what_it_returned(made: object, message: str):
    with pytest.raises(EnvError) as error:
        as_env(lambda: made, 1, "cpu")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("member", "value", "expected"),
    [
        ("device", "cpu", "a torch.device"),
        ("num_areas", "2", "a whole number of at least 1"),
        ("behaviors", {"A": 3}, "a dictionary of BehaviorSpec"),
        ("parameters", None, "a dictionary of numbers by name"),
    ],
)
def test_a_member_of_an_own_env_that_is_something_else_is_named(member: str, value: object, expected: str):
    env = Bandit(2, continuous=1)
    setattr(env, member, value)
    for given in (env, lambda: env):
        with pytest.raises(EnvError, match=f"`{member}` is .*; expected {expected}"):
            as_env(given, None, "cpu")
