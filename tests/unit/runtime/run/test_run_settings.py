import pytest
import yaml
from small_runs import settings
from tiny_envs import Bandit

import palaestra
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.runtime.run.run_settings import plays_alone
from palaestra.runtime.settings import load
from palaestra.runtime.settings.fitting import describe_fit, fitted, preset_for, with_pace, with_summaries

VECTOR = ObsSpec("vector", (8,))
IMAGE = ObsSpec("camera", (3, 36, 36))
FEW = {"max_steps": 64, "summary_freq": 64}


def spec(*obs: ObsSpec, **action: object) -> BehaviorSpec:
    return BehaviorSpec(obs, ActionSpec(**action))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("behavior", "areas", "said", "values"),
    [
        (spec(VECTOR, continuous=2), 16, "continuous actions", (2048, 64, 10, 3e-4)),
        (spec(VECTOR, branches=(3,)), 16, "discrete actions", (2048, 256, 6, 7e-4)),
        (spec(VECTOR, IMAGE, branches=(3,)), 8, "images", (2048, 256, 4, 2.5e-4)),
        (spec(VECTOR, continuous=2), 4096, "continuous actions", (65536, 2048, 10, 3e-4)),
    ],
)
def test_settings_fit_observations_actions_and_areas(behavior, areas, said, values):
    settings = load(fitted({"A": behavior}, areas)).settings.behaviors["A"]
    assert said in describe_fit("A", behavior, settings)
    hyper = settings.hyperparameters
    assert (hyper.buffer_size, hyper.batch_size, hyper.num_epoch, hyper.learning_rate) == values  # type: ignore[union-attr]
    assert settings.network_settings.normalize == (len(behavior.obs) == 1 or behavior.obs[0].is_vector)
    assert settings.network_settings.vis_encode_type == ("nature_cnn" if IMAGE in behavior.obs else "simple")


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("3DBall", "ppo/3DBall.yaml"),
        ("builtin:DungeonEscape", "poca/DungeonEscape.yaml"),
        ("CooperativePushBlock", "poca/PushBlockCollab.yaml"),
        ("gymnasium:CartPole-v1", "ppo/CartPole-v1.yaml"),
        ("gymnasium:Pendulum-v1", "sac/Pendulum-v1.yaml"),
        ("gymnasium:MountainCar-v0", "ppo/MountainCar-v0.yaml"),
        ("gymnasium:BipedalWalker-v3", "ppo/BipedalWalker-v3.yaml"),
        ("gymnasium:ALE/Pong-v5", "ppo/ALE-Pong-v5.yaml"),
        ("gymnasium:PongNoFrameskip-v4", "ppo/PongNoFrameskip-v4.yaml"),
        ("gymnasium:NoSuchGame-v0", None),
        ("python:own:make", None),
        (None, None),
    ],
)
def test_a_shipped_file_is_found_by_the_name_of_its_environment(name, file):
    found = preset_for(name)
    assert (None if found is None else f"{found.parent.name}/{found.name}") == file


def test_a_run_without_a_file_takes_fitting_settings_says_which_and_writes_them(tmp_path, capsys):
    few = {"hyperparameters.num_epoch": 2, **FEW}
    palaestra.train(env=Bandit(2, branches=(2,)), run_id="fit", results_dir=str(tmp_path), settings=few)
    text = capsys.readouterr().out.replace("\n", " ")
    assert "Bandit: no settings are given and none are shipped for it: ppo with settings for discrete actions" in text
    assert "num_epoch 2, learning_rate 0.0007, 64 decisions" in text
    assert "buffer_size 2,048 is more than max_steps (64)" in text
    assert "default_settings" not in text  # of ML-Agents' values, which are not used
    written = yaml.safe_load((tmp_path / "fit" / "configuration.yaml").read_text())["behaviors"]["Bandit"]
    hyper = written["hyperparameters"]
    assert (hyper["buffer_size"], hyper["batch_size"], hyper["num_epoch"], written["max_steps"]) == (2048, 256, 2, 64)
    given = {"run_id": "fit", "results_dir": str(tmp_path), "resume": True, "max_steps": 96}
    again = palaestra.train(env=Bandit(2, branches=(2,)), **given)
    assert again.steps["Bandit"] >= 96


def test_a_short_run_with_fitting_settings_has_several_summaries_unless_their_pace_is_given():
    tree = fitted({"A": spec(VECTOR, continuous=2), "B": spec(VECTOR, continuous=2)}, 16)
    paced = with_summaries(tree, {"A": 30_000, "B": 400})["behaviors"]
    assert [paced[name]["summary_freq"] for name in "AB"] == [1000, 400]
    paced = with_summaries(tree, {"A": 1_000_000, "B": 5_000_000})["behaviors"]
    assert [paced[name]["summary_freq"] for name in "AB"] == [20_000, 100_000]


def test_a_short_run_with_a_shipped_file_has_several_summaries_unless_their_pace_is_given():
    shipped = preset_for("gymnasium:CartPole-v1")
    assert shipped is not None

    def pace(given, *sets):
        tree = with_pace(shipped, {"behaviors": {"*": given}}, sets)
        return load(shipped, tree, sets).settings.behaviors["CartPole-v1"].summary_freq

    assert [pace({"max_steps": steps}) for steps in (4000, 100_000)] == [800, 5000]
    assert pace({"max_steps": 4000, "summary_freq": 5000}) == 5000
    for name in ("CartPole-v1", "*"):
        assert pace({"max_steps": 4000}, f"behaviors.{name}.summary_freq=3000") == 3000
    assert pace({}, "behaviors.*.max_steps=4000") == 800


def test_a_run_without_a_file_takes_the_one_that_is_shipped_for_its_environment(tmp_path, capsys):
    palaestra.train(env="CartPole", run_id="pole", results_dir=str(tmp_path), settings=FEW)
    out = capsys.readouterr().out.replace("\n", " ")
    assert "training with ppo/CartPole.yaml, which is shipped for this environment" in out
    written = yaml.safe_load((tmp_path / "pole" / "configuration.yaml").read_text())["behaviors"]
    shipped = preset_for("CartPole")
    assert shipped is not None
    own = yaml.safe_load(shipped.read_text())["behaviors"]["CartPole"]["hyperparameters"]
    assert {key: written["CartPole"]["hyperparameters"][key] for key in own} == own
    assert written["CartPole"]["max_steps"] == 64


@pytest.mark.parametrize("trainer", ["sac", "poca", "bc"])
def test_settings_fit_the_trainer_that_is_asked_for(trainer):
    teacher = ["behaviors.*.hyperparameters.teacher=heuristic"] if trainer == "bc" else []
    sets = [f"behaviors.*.trainer_type={trainer}", *teacher]
    loaded = load(None, sets=sets)
    assert loaded.with_tree is not None
    found = loaded.with_tree(fitted({"A": spec(VECTOR, continuous=2)}, 16, trainer)).settings.behaviors["A"]
    assert (found.trainer_type, found.network_settings.hidden_units) == (trainer, 256 if trainer == "sac" else 64)


@pytest.mark.parametrize(
    ("flags", "alone"),
    [({}, True), ({"threads": 1}, True), ({"processes": 2}, False), ({"gpus": -1}, False)],
)
def test_a_run_that_several_processes_trained_is_played_by_one_unless_several_are_asked_for(flags, alone):
    tree = {**settings("Basic"), "torch_settings": {"processes": 2}}
    assert plays_alone(load(tree, {"checkpoint_settings": {"inference": True}, "torch_settings": flags})) is alone
    assert not plays_alone(load(tree))
