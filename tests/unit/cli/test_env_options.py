"""--set of commands that open an environment: its options and parameters, and nothing else."""

import json
from pathlib import Path
from typing import ClassVar

import gymnasium
import numpy as np
import pytest

import palaestra
from palaestra.cli.main import main
from palaestra.core.errors import ConfigError, EnvError
from palaestra.envs.base import Env

pytestmark = pytest.mark.usefixtures("patient_games")

SETTINGS = {
    "default_settings": {
        "trainer_type": "ppo",
        "hyperparameters": {"batch_size": 16, "buffer_size": 64},
        "network_settings": {"hidden_units": 8, "num_layers": 1},
        "max_steps": 64,
    }
}


BRAIN = """
import numpy as np

def right(obs):
    return np.full((len(obs[0]), 1), 2)
"""


def test_an_option_reaches_the_environment_that_is_played(tmp_path, terminal, monkeypatch):
    (tmp_path / "option_brains.py").write_text(BRAIN)
    monkeypatch.syspath_prepend(str(tmp_path))
    lake = ["run", "gymnasium:FrozenLake-v1", "--brain", "python:option_brains:right", "--episodes=20", "--json"]
    lengths: list[float] = []
    for more in ([], ["--set", "env_settings.env_options.is_slippery=false"]):
        lengths.append(json.loads(terminal(*lake, *more))["FrozenLake-v1"]["length"])
    assert lengths[0] < lengths[1] == 100  # only who slips leaves the first row, where all is ice


def test_a_run_is_evaluated_with_its_own_options_and_with_those_that_are_typed(tmp_path, terminal):
    own = {"env_settings": {"env_options": {"desc": ["SFFF"], "is_slippery": False}}}
    palaestra.train(
        {**SETTINGS, **own},
        env="gymnasium:FrozenLake-v1",
        num_areas=4,
        run_id="lake",
        results_dir=str(tmp_path),
        quiet=True,
    )
    evaluate = ["evaluate", "lake", f"--results-dir={tmp_path}", "--episodes=8", "--json", "--num-areas=4"]
    assert json.loads(terminal(*evaluate))["FrozenLake-v1"]["mean"] == 0  # no goal
    assert json.loads(terminal(*evaluate, "--set", "env_settings.env_options.desc=[SGGG]"))["FrozenLake-v1"]["mean"] > 0


FALL = {"sampler_type": "uniform", "sampler_parameters": {"min_value": 90, "max_value": 100}}


def test_a_run_is_evaluated_at_its_own_parameters_and_at_those_that_are_typed(tmp_path, terminal):
    lessons = [
        {
            "name": "slow",
            "completion_criteria": {"measure": "progress", "behavior": "3DBall", "threshold": 0.9},
            "value": 4,
        },
        {"name": "fast", "value": 100},
    ]
    settings = {
        "behaviors": {"3DBall": {"max_steps": 200}},
        "environment_parameters": {"gravity": {"curriculum": lessons}},
    }
    palaestra.train(settings, env="3DBall", run_id="ball", results_dir=str(tmp_path), quiet=True)
    evaluate = ["evaluate", "ball", f"--results-dir={tmp_path}", "--episodes=12", "--json"]

    def length(*more: str) -> float:
        return json.loads(terminal(*evaluate, *(part for one in more for part in ("--set", one))))["3DBall"]["length"]

    first = length()  # the run is in its first lesson
    fast = length("environment_parameters.gravity=100")
    assert first == length("environment_parameters.gravity=4") > 1.5 * fast
    assert length(f"environment_parameters.gravity={json.dumps(FALL)}") < 1.5 * fast
    assert length("environment_parameters.gravity=100", "environment_parameters.scale=5") != fast

    def made(areas: int = 12) -> Env:
        return palaestra.make("3DBall", areas=areas)

    asked = {"episodes": 12, "results_dir": tmp_path, "quiet": True}
    for env in (None, "3DBall", made):
        found = palaestra.evaluate("ball", env=env, environment_parameters={"gravity": 100}, **asked)
        assert found.lengths.mean() == fast
    with pytest.raises(EnvError, match="3DBall has no parameter 'gravty'; did you mean 'gravity'"):
        palaestra.evaluate("ball", environment_parameters={"gravty": 1}, **asked)
    with pytest.raises(ConfigError, match=r"environment_parameters\.gravity: expected a number"):
        palaestra.evaluate("ball", environment_parameters={"gravity": "low"}, **asked)


@pytest.mark.parametrize(
    ("command", "typed", "message"),
    [
        (
            ["run", "Match3", "--brain=random"],
            "env_settings.env_options.largest_bords=1",
            "did you mean 'largest_boards'?",
        ),
        (
            ["run", "Match3", "--brain=random"],
            "largest_boards=true",
            "only options and parameters of the environment are set here",
        ),
        (["run", "3DBall", "--brain=random"], "environment_parameters.gravty=3", "did you mean 'gravity'?"),
        (["run", "3DBall", "--brain=random"], "environment_parameters.gravity=3", "expected a number within 4..105"),
        (
            ["evaluate", "none"],
            "env_settings.env_options.environment_parameters.gravity=3",
            "is a separate section",
        ),
        (["envs", "3DBall"], "environment_parameters.gravity=30", "only options of the environment are set here"),
        (
            ["evaluate", "none"],
            "behaviors.Match3.max_steps=3",
            "only options and parameters of the environment are set here",
        ),
        (["run", "Match3", "--brain=random"], "env_settings.env_options=3", "env_settings.env_options: expected a"),
        (["run", "Match3", "--brain=random"], "env_settings.env_options.areas=3", "is a setting of its own"),
        (
            ["run", "gymnasium:CartPole-v1", "--brain=random"],
            "env_settings.env_options.areas=3",
            "is a setting of its own",
        ),
        (["envs", "Match3"], "env_settings.env_options.greedy=3", "option 'greedy' is 3; expected true or false"),
        (["envs"], "env_settings.env_options.greedy=false", "--set is for one environment"),
        (["envs", "Match3", "--unity"], "env_settings.env_options.greedy=false", "--set is for one environment"),
        (["view"], "env_settings.env_options.greedy=false", "--set is for one run or environment"),
        (
            ["doctor", "Match3"],
            "env_settings.num_areas=3",
            "only options and parameters of the environment are set here",
        ),
        (
            ["record", "--demo", "--env=Match3", "--brain=random"],
            "env_settings.env_options.greedy=3",
            "option 'greedy' is 3",
        ),
    ],
)
def test_what_is_no_option_is_refused(command: list[str], typed: str, message: str, terminal):
    assert message in terminal.fails(*command, "--set", typed)


def test_an_option_reaches_recordings(tmp_path: Path, terminal):
    demo = ["record", "--demo", "--env=gymnasium:FrozenLake-v1", "--brain=random", "--episodes=1", "--areas=1"]
    assert main([*demo, f"--demo-out={tmp_path / 'lake.demo'}", "--set", "env_settings.env_options.desc=[SG]"]) == 0
    (shown,) = json.loads(terminal("demo", tmp_path / "lake.demo", "--json"))
    assert shown["observations"][0]["shape"] == [2]  # one number for each field


def test_brains_play_and_are_recorded_at_given_parameters(tmp_path):
    lengths = [
        palaestra.run(
            env, "random", episodes=12, environment_parameters={"gravity": gravity}, quiet=True
        ).lengths.mean()
        for env in ("3DBall", lambda areas=12: palaestra.make("3DBall", areas=areas))
        for gravity in (4, 100)
    ]
    assert lengths[:2] == lengths[2:]
    assert lengths[0] > 1.5 * lengths[1]
    run = {"run_id": "ball", "results_dir": str(tmp_path), "quiet": True}
    result = palaestra.train(env=lambda areas=4: palaestra.make("3DBall", areas=areas), max_steps=100, **run)
    film = {"seconds": 0.2, "results_dir": tmp_path, "areas": 1, "force": True}
    pictures = [
        palaestra.record(result, tmp_path / "a.gif", environment_parameters={"scale": scale}, **film).file.read_bytes()
        for scale in (1, 1, 5)
    ]
    assert pictures[0] == pictures[1] != pictures[2]


class Windy(gymnasium.Env):
    """Earns its attribute `wind`, which no metadata declare, on each of ten decisions."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)
    metadata: ClassVar = {"render_modes": ["rgb_array"]}

    def __init__(self, render_mode=None):
        self.wind, self.render_mode = 0.0, "rgb_array"

    def reset(self, *, seed=None, options=None):
        self.age = 0
        return np.float32([self.wind, 0]), {}

    def step(self, action):
        self.age += 1
        return np.float32([self.wind, 0]), self.wind, self.age == 10, False, {}

    def render(self):
        return np.full((32, 32, 3), int(100 * self.wind), np.uint8)


def test_a_parameter_that_is_an_attribute_of_an_own_environment_is_played_as_in_training(tmp_path):
    tree = {**SETTINGS, "environment_parameters": {"wind": 0.5}}
    result = palaestra.train(tree, env=Windy, run_id="w", results_dir=str(tmp_path), quiet=True)
    asked = {"episodes": 3, "quiet": True}
    assert palaestra.evaluate(result, **asked).mean == 5.0
    for env in (None, Windy, Windy()):
        assert palaestra.evaluate(result, env=env, environment_parameters={"wind": 0.25}, **asked).mean == 2.5
    assert palaestra.run(Windy, "random", environment_parameters={"wind": 0.25}, **asked).mean == 2.5
    films = [
        palaestra.record(result, tmp_path / "a.gif", seconds=0.3, force=True, **more).file.read_bytes()
        for more in ({}, {"environment_parameters": {"wind": 0.5}}, {"environment_parameters": {"wind": 0.25}})
    ]
    assert films[0] == films[1] != films[2]


def test_samplers_are_drawn_with_the_seed_however_the_environment_is_named(tmp_path, terminal):
    palaestra.train(env="3DBall", max_steps=100, run_id="ball", results_dir=str(tmp_path), quiet=True)
    evaluate = ["evaluate", "ball", f"--results-dir={tmp_path}", "--episodes=12", "--json", "--seed=7"]
    fall = {**FALL, "sampler_parameters": {"min_value": 5, "max_value": 100}}
    drawn = [*evaluate, "--set", f"environment_parameters.gravity={json.dumps(fall)}"]
    assert json.loads(terminal(*drawn)) == json.loads(terminal(*drawn, "--env=3DBall"))


@pytest.mark.parametrize("value", ["3", "[gravity]", "{gravity: abc}", "{gravity: 15}"])
def test_parameters_among_the_options_are_refused(value, capsys):
    given = f"env_settings.env_options={{environment_parameters: {value}}}"
    assert main(["run", "3DBall", "--brain=random", "--set", given]) == 1
    assert "environment_parameters is a separate section, next to env_settings" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="is a separate section"):
        palaestra.run("3DBall", "random", env_options={"environment_parameters": value})
