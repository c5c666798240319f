"""Unity games through Gymnasium's and PettingZoo's interfaces, played by games that speak Unity's protocol."""

import gc
import json
import os
import time
import warnings
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from unity_games import make_build

import palaestra.gymnasium  # noqa: F401 - registers its environments
from palaestra.core.errors import EnvError
from palaestra.pettingzoo import parallel_env

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its tests import deprecated games
    from pettingzoo.test import api_test, parallel_api_test
    from pettingzoo.utils.conversions import parallel_to_aec

pytestmark = pytest.mark.filterwarnings("ignore")  # recommendations of PettingZoo's tests


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_seed_given_twice_in_a_row_begins_the_same_episode_of_a_unity_game(tmp_path: Path):
    env = gymnasium.make("palaestra/Game-v0", env=str(make_build(tmp_path, "Ball", agents=1)))
    first, _ = env.reset(seed=3)
    np.testing.assert_array_equal(env.reset(seed=3)[0], first)
    env.step(np.zeros(1, np.float32))
    env.reset()
    np.testing.assert_array_equal(env.reset(seed=3)[0], first)
    env.close()


def test_a_game_whose_agents_come_and_go_passes_the_tests_of_pettingzoo(tmp_path: Path):
    build = str(make_build(tmp_path, "Crowd"))
    env = parallel_env(build)
    assert env.reset()[0], "the game's first ticks have no agents"
    parallel_api_test(env, num_cycles=20)
    api_test(parallel_to_aec(env), num_cycles=20)
    env.close()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"args": "--agents 2"}, r"args is '--agents 2'; expected a list of the game's arguments"),
        ({"args": 5}, "args is 5; expected a list"),
        ({"executable": "x"}, "takes no option 'executable'"),
        ({"all_copies": 2}, "takes no option 'all_copies'"),
        ({"engine": None}, "takes no option 'engine'"),
        ({"time_scal": 2.0}, "did you mean 'time_scale'"),
        ({"time_scale": float("nan")}, "option 'time_scale' is nan: input should be a finite number"),
        ({"width": 0}, "option 'width' is 0: input should be greater than 0"),
    ],
)
def test_wrong_options_of_a_unity_game_are_told_before_it_starts(options: dict[str, object], told: str, tmp_path: Path):
    with pytest.raises(EnvError, match=told):
        parallel_env(str(make_build(tmp_path, "Ball")), **options)


def test_arguments_of_a_game_may_be_numbers_and_its_logs_a_name(tmp_path: Path):
    env = parallel_env(str(make_build(tmp_path, "Ball")), args=["--level", 2], logs=str(tmp_path / "logs"))
    assert env.reset()[0]
    env.close()
    assert list((tmp_path / "logs").iterdir())


@pytest.mark.slow
def test_a_game_ends_with_its_environment_even_if_it_is_not_closed(tmp_path: Path):
    env = parallel_env(str(make_build(tmp_path, "Ball", notes=tmp_path / "notes")))
    (note,) = (tmp_path / "notes").glob("*.json")
    pid = json.loads(note.read_text())["pid"]
    assert is_running(pid)
    del env
    gc.collect()
    deadline = time.monotonic() + 60
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_running(pid)
