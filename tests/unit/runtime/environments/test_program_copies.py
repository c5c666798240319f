import os
import threading
from typing import Any

import gymnasium
import numpy as np
import pytest

import palaestra
from palaestra.core.errors import ConfigError, EnvError
from palaestra.envs.unity.options import UnityOptions
from palaestra.parallel.by_value import packed, unpacked
from palaestra.runtime.environments.make import copies_of, make_program_copy
from palaestra.runtime.environments.unity_games import GameSettings

TWO = GameSettings(UnityOptions(copies=2), ())


def env_of_a_notebook() -> Any:
    """A class that no other process can import, with a number that it closes over."""
    length = 5

    class Walk(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(0, 1e9, (1,), np.float32)
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
            self.age = 0
            return np.array([os.getpid()], np.float32), {}

        def step(self, action: Any) -> Any:
            self.age += 1
            return np.array([os.getpid()], np.float32), 1.0, self.age == length, False, {}

    return Walk


def test_a_class_that_cannot_be_imported_is_made_in_another_process():
    env = make_program_copy(packed(env_of_a_notebook(), "env"), {}, areas=3)
    assert env.num_areas == 3
    assert [*env.behaviors] == ["Walk"]
    assert unpacked(packed(env_of_a_notebook, "env")).__code__.co_filename == __file__  # errors there name the line


def test_what_cannot_be_copied_is_refused_with_what_to_do():
    lock = threading.Lock()
    with pytest.raises(ConfigError, match=r"env \(<lambda>\) cannot be given to another process: TypeError: .*lock"):
        copies_of(lambda: lock, None, {}, TWO)
    with pytest.raises(EnvError, match="exists already, which stays in this process: --num-envs=2 needs a function"):
        copies_of(env_of_a_notebook()(), None, {}, TWO)
    with pytest.raises(EnvError, match="--num-envs=2 copies cannot share 1 areas: each needs"):
        copies_of(env_of_a_notebook(), 1, {}, TWO)


@pytest.mark.slow
def test_a_run_with_copies_of_a_program_s_class_learns_and_keeps_its_best(tmp_path):
    behavior = {
        "hyperparameters": {"batch_size": 32, "buffer_size": 128},
        "max_steps": 400,
        "summary_freq": 200,
        "keep_best": {"every": 200, "episodes": 2},
    }
    config = {"behaviors": {"Walk": {"trainer_type": "ppo", **behavior}}}
    made = env_of_a_notebook()
    result = palaestra.train(config, env=made, num_envs=2, num_areas=4, results_dir=str(tmp_path), quiet=True)
    assert result.steps["Walk"] >= 400
    assert (result.folder / "Walk-best.onnx").is_file()
