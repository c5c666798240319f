import inspect
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import yaml
from gymnasium.wrappers import TimeLimit, TransformObservation
from small_runs import settings

import palaestra
from palaestra.api import run_names
from palaestra.api.training_options import TrainingOptions, overrides_of, settings_of
from palaestra.runtime.run.result import Result

FEW: dict[str, Any] = {
    "max_steps": 128,
    "summary_freq": 64,
    "num_areas": 2,
    "batch_size": 32,
    "buffer_size": 64,
    "seed": 3,
}
SHIPPED = "training with ppo/CartPole-v1.yaml, which is shipped for this environment"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def cartpole(**options: Any) -> gymnasium.Env:
    return gymnasium.make("CartPole-v1", **options)


def light() -> gymnasium.Env:
    env: Any = cartpole()
    env.unwrapped.gravity = 1.0
    return env


def written(result: Result) -> dict[str, Any]:
    return yaml.safe_load((result.folder / "configuration.yaml").read_text())


def test_a_function_that_makes_what_an_id_names_learns_the_same_as_the_id(capsys):
    by_name = palaestra.train(env="gymnasium:CartPole-v1", run_id="name", **FEW)
    by_function = palaestra.train(env=cartpole, run_id="function", **FEW)
    assert capsys.readouterr().out.count(SHIPPED) == 2
    assert by_name.rewards == by_function.rewards
    one, other = (palaestra.load_policy(result.models["CartPole-v1"], seed=0) for result in (by_name, by_function))
    obs = np.linspace(-1, 1, 40, dtype=np.float32).reshape(10, 4)
    assert (one.act(obs).discrete == other.act(obs).discrete).all()
    assert written(by_function)["env_settings"]["env_path"] == "gymnasium:CartPole-v1"


@pytest.mark.parametrize(
    ("env", "areas", "name"),
    [
        (light, 2, None),
        (lambda: TimeLimit(cartpole(), 20), 2, None),
        (cartpole(), 1, "gymnasium:CartPole-v1"),
        ([cartpole(), cartpole(), cartpole()], 3, "gymnasium:CartPole-v1"),
        (gymnasium.make_vec("CartPole-v1", num_envs=3), 3, None),
    ],
)
def test_what_is_made_otherwise_keeps_its_own_ways_and_takes_the_shipped_settings(
    env: Any, areas: int, name: str | None, capsys
):
    more = {**FEW, "num_areas": 2 if callable(env) else None}
    result = palaestra.train(env=env, **more)
    said = capsys.readouterr().out
    assert SHIPPED in said
    assert ("agents learn in one copy" in said) == (areas == 1)
    assert written(result)["env_settings"]["env_path"] == name
    assert written(result)["behaviors"]["CartPole-v1"]["reward_signals"]["extrinsic"]["normalize"]
    assert result.folder.name.startswith("CartPole-v1-2")


def test_ids_without_a_shipped_file_and_other_spaces_get_settings_that_fit(capsys):
    wide = gymnasium.spaces.Box(-9, 9, (4,))
    palaestra.train(
        env=lambda: TransformObservation(cartpole(), lambda obs: np.clip(obs, -9, 9, dtype=np.float32), wide), **FEW
    )
    assert "no settings are given and none are shipped for it" in capsys.readouterr().out


def test_trainings_of_one_second_have_names_of_their_own_and_the_newest_goes_on(monkeypatch):
    monkeypatch.setattr(run_names, "STAMP", "20260101-000000")
    first, second = (palaestra.train(env="Basic", quiet=True, **FEW) for _ in range(2))
    assert [first.folder.name, second.folder.name] == ["Basic-20260101-000000", "Basic-20260101-000000-2"]
    again = palaestra.train(env="Basic", resume=True, quiet=True, max_steps=192)
    assert again.folder == second.folder
    assert again.steps["Basic"] >= 192


def test_a_name_in_the_file_or_the_settings_is_kept():
    config = {**settings("Basic", 64), "checkpoint_settings": {"run_id": "own"}}
    assert palaestra.train(config, env="Basic", quiet=True).folder.name == "own"
    other = {"checkpoint_settings": {"run_id": "other"}}
    assert palaestra.train(config, env="Basic", quiet=True, settings=other).folder.name == "other"


def test_settings_are_nested_or_dotted_and_hold_for_every_behavior():
    every: Any = np.int64(64)
    result = palaestra.train(
        env="Basic",
        quiet=True,
        keep_best=every,
        env_options={},
        settings={
            "time_horizon": 7,
            "hyperparameters": {"beta": np.float32(0.5)},
            "behaviors.*.network_settings.normalize": False,
            "engine_settings": {"time_scale": 3},
        },
        **FEW,
    )
    block = written(result)["behaviors"]["Basic"]
    assert (block["time_horizon"], block["hyperparameters"]["beta"]) == (7, 0.5)
    assert block["network_settings"]["normalize"] is False
    assert block["keep_best"]["every"] == 64
    assert written(result)["engine_settings"]["time_scale"] == 3.0


def test_what_a_run_says_to_a_program_is_python(capsys):
    palaestra.train(env="Basic", run_id="spoken", callbacks=lambda summary: summary.step >= 64, **FEW)
    said = capsys.readouterr().out
    assert 'palaestra.evaluate("spoken")' in said
    assert "--" not in said.replace("tensorboard --logdir", "")
    assert "palaestra learn" not in said


def test_a_crash_in_the_first_step_offers_nothing_to_go_on_from_and_leaves_the_name_free(capsys):
    class Broken(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
            return np.zeros(1, np.float32), {}

        def step(self, action: Any) -> Any:
            return np.zeros(1, np.float32), 0.0, False, {}

    for _ in range(2):
        with pytest.raises(
            palaestra.PalaestraError, match=r"`step` returned 4 values.* in a function that you give as"
        ):
            palaestra.train(env=Broken, run_id="first", **FEW)
    assert "resume" not in capsys.readouterr().out


def test_seeds_are_trained_in_the_environment_of_a_function():
    found = palaestra.train_seeds(
        env=cartpole, seeds=[4], quiet=True, **{key: FEW[key] for key in FEW if key != "seed"}
    )
    assert found.results[4].folder.name.startswith("CartPole-v1-2")
    assert found.results[4].folder.name.endswith("-seed-4")
    assert written(found.results[4])["env_settings"]["env_path"] == "gymnasium:CartPole-v1"


def test_a_function_is_called_once_for_each_copy():
    made = list[gymnasium.Env]()

    def make() -> gymnasium.Env:
        made.append(light())
        return made[-1]

    palaestra.train(env=make, quiet=True, **{**FEW, "num_areas": 3})
    assert len(made) == 3


def test_the_keywords_of_train_are_those_of_several_seeds():
    own = inspect.signature(palaestra.train).parameters.keys() - {"config", "env", "seed", "quiet", "others"}
    assert TrainingOptions.__annotations__.keys() == own


def test_names_within_a_mirror_may_hold_dots():
    mirror = {"observations": {"outer.inner": "same"}}
    for above in ("", "behaviors.Ball."):
        (found,) = settings_of({above + "mirror": mirror})
        assert found.value == mirror


def test_the_result_of_a_training_means_its_folder():
    result = Result(Path("results/a"), {}, {}, {}, {}, True)
    (found,) = settings_of({"hyperparameters.prior_data": {"run": result}})
    assert found.value == str(result.folder)
    origin = overrides_of(palaestra.train, {"initialize_from": result})
    assert origin == {"checkpoint_settings": {"initialize_from": str(result.folder)}}
