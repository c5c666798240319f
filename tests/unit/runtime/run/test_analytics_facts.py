import json
import sys
from typing import Any

import pytest
import torch

from palaestra.envs.base import hashed
from palaestra.runtime.run.analytics_facts import behavior_facts, training_facts
from palaestra.runtime.settings import RunSettings

PRIVATE = {
    "BallOfDoom": "a behavior",
    "MyGame": "the environment",
    "--secret": "an argument",
    "swordsmen": "a run",
    "old-hands": "a run it starts from",
    "/games/out": "a folder",
    "/games/best.pt": "a checkpoint",
    "/games/a.demo": "a demonstration",
    "/games/b.demo": "a demonstration",
    "wind_strength": "a parameter",
    "Breeze": "a lesson",
    "token": "an option",
    "secret_sauce": "code",
    "TreasureMap": "an observation",
    "/games/rival.onnx": "an opponent",
    "/games/gait.csv": "clips",
    "grandmaster": "a teacher",
    "my-account": "an option of a tracker",
}


def settings() -> RunSettings:
    ball = {
        "trainer_type": "ppo",
        "network_settings": {
            "memory": {},
            "vis_encode_type": "resnet",
            "body": "secret_sauce:Body",
            "critic_only": ["TreasureMap"],
            "num_layers": 3,
            "hidden_units": 64,
        },
        "reward_signals": {
            "extrinsic": {},
            "gail": {"demo_path": "/games/a.demo"},
            "amp": {"clips": "/games/gait.csv", "observations": ["TreasureMap[0:3]"]},
        },
        "self_play": {"opponents": ["prioritized", "/games/rival.onnx"]},
        "mirror": {"observations": {"TreasureMap": {"negate": [0]}}},
        "behavioral_cloning": {"demo_path": "/games/b.demo"},
        "init_path": "/games/best.pt",
    }
    lessons = [
        {"name": "Breeze", "value": 1.0, "completion_criteria": {"behavior": "BallOfDoom", "threshold": 0.5}},
        {"name": "Breeze2", "value": {"sampler_type": "uniform", "sampler_parameters": {}}},
    ]
    tree: dict[str, Any] = {
        "behaviors": {
            "BallOfDoom": ball,
            "Pupil": {"trainer_type": "bc", "hyperparameters": {"teacher": "grandmaster:Me"}},
        },
        "trackers": {"wandb": {"entity": "my-account"}},
        "env_settings": {
            "env_path": "MyGame",
            "env_args": ["--secret"],
            "num_envs": 3,
            "env_options": {"key": "token"},
        },
        "checkpoint_settings": {"run_id": "swordsmen", "initialize_from": "old-hands", "results_dir": "/games/out"},
        "environment_parameters": {"wind_strength": {"curriculum": lessons}, "gravity_g": 2.0},
    }
    return RunSettings.model_validate(tree)


def test_a_run_is_told_with_its_versions_and_numbers():
    facts = training_facts(settings(), torch.device("cuda:1"))
    assert facts.mlagents_version.startswith("Palaestra ")
    assert (facts.torch_version, facts.torch_device_type) == (torch.__version__, "cuda")
    assert facts.python_version == ".".join(map(str, sys.version_info[:3]))
    assert (facts.num_envs, facts.num_environment_parameters) == (3, 2)


@pytest.mark.parametrize("text", PRIVATE, ids=PRIVATE.values())
def test_what_a_user_named_is_not_told(text):
    run = settings()
    behavior = behavior_facts("BallOfDoom", run.behaviors["BallOfDoom"], run)
    assert text in run.model_dump_json()
    assert text not in training_facts(run, torch.device("cpu")).run_options
    assert text not in behavior.config + behavior.behavior_name


def test_lessons_that_name_no_behavior_are_told_without_one():
    breeze = {"name": "Breeze", "value": 1.0, "completion_criteria": {"threshold": 0.5}}
    wind = {"curriculum": [breeze, {"name": "Storm", "value": 2.0}]}
    run = RunSettings.model_validate({"behaviors": {"Ball": {}}, "environment_parameters": {"wind": wind}})
    told = json.loads(training_facts(run, torch.device("cpu")).run_options)
    first, _ = told["environment_parameters"][hashed("wind")]["curriculum"]
    assert (first["name"], first["completion_criteria"]["behavior"]) == (hashed("Breeze"), None)
    assert behavior_facts("Ball", run.behaviors["Ball"], run).curriculum_enabled


def test_settings_are_told_as_they_are_and_names_by_their_hashes():
    run = json.loads(training_facts(settings(), torch.device("cpu")).run_options)
    ball = run["behaviors"][hashed("BallOfDoom")]
    assert (ball["hyperparameters"]["batch_size"], ball["max_steps"]) == (1024, 500000)
    assert ball["init_path"] == hashed("/games/best.pt")
    assert ball["self_play"]["opponents"] == ["prioritized", hashed("/games/rival.onnx")]
    assert ball["mirror"]["observations"][hashed("TreasureMap")]["negate"] == [0]
    assert run["trackers"] == {"wandb": None}
    assert ball["reward_signals"]["gail"]["demo_path"] == hashed("/games/a.demo")
    assert run["env_settings"]["env_args"] == [hashed("--secret")]
    assert run["checkpoint_settings"]["results_dir"] == hashed("/games/out")
    assert run["checkpoint_settings"]["resume"] is False
    first, last = run["environment_parameters"][hashed("wind_strength")]["curriculum"]
    assert (first["name"], first["completion_criteria"]["behavior"]) == (hashed("Breeze"), hashed("BallOfDoom"))
    assert (first["value"], first["completion_criteria"]["threshold"]) == (1.0, 0.5)
    assert (last["name"], last["completion_criteria"]) == (hashed("Breeze2"), None)
    assert run["environment_parameters"][hashed("gravity_g")] == 2.0


def test_a_behavior_is_told_with_the_features_it_uses():
    run = settings()
    facts = behavior_facts("BallOfDoom", run.behaviors["BallOfDoom"], run)
    assert (facts.behavior_name, facts.trainer_type) == (hashed("BallOfDoom"), "ppo")
    assert facts.extrinsic_reward_enabled
    assert facts.gail_reward_enabled
    assert facts.behavioral_cloning_enabled
    assert (facts.curiosity_reward_enabled, facts.rnd_reward_enabled, facts.self_play_enabled) == (False, False, True)
    assert (facts.recurrent_enabled, facts.trainer_threaded, facts.curriculum_enabled) == (True, False, True)
    assert (facts.visual_encoder, facts.num_network_layers, facts.num_network_hidden_units) == ("resnet", 3, 64)
    assert json.loads(facts.config)["hyperparameters"]["buffer_size"] == 10240
    assert not behavior_facts("Other", run.behaviors["BallOfDoom"], run).curriculum_enabled


def test_a_users_own_encoder_is_told_by_its_hash():
    network = {"vis_encode_type": "secret_sauce:Mine"}
    run = RunSettings.model_validate({"behaviors": {"Ball": {"network_settings": network}}})
    assert behavior_facts("Ball", run.behaviors["Ball"], run).visual_encoder == hashed("secret_sauce:Mine")


def test_names_that_are_also_those_of_settings_are_kept_apart():
    run = RunSettings.model_validate(
        {"behaviors": {"env_options": {}}, "environment_parameters": {"side_channels": 1.0, "run_id": 2.0}}
    )
    told = json.loads(training_facts(run, torch.device("cpu")).run_options)
    assert list(told["behaviors"]) == [hashed("env_options")]
    assert told["environment_parameters"] == {hashed("side_channels"): 1.0, hashed("run_id"): 2.0}
