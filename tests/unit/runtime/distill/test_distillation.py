"""A run's models are imitated by small networks, which are runs of their own."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import small_runs
import walk_env
import yaml

import palaestra
from palaestra.brains.model import load_policy
from palaestra.cli.main import main
from palaestra.core.errors import PalaestraError
from palaestra.runtime.distill import distillation
from palaestra.runtime.distill.student_settings import StudentRequest, student_tree
from palaestra.runtime.play.evaluation import SideEpisodes
from palaestra.runtime.play.run_models import Models, find_models
from palaestra.runtime.play.shown_evaluation import EvaluatedSide, Evaluation
from palaestra.runtime.run.result import Result
from palaestra.runtime.settings import RunSettings

GOLDEN = Path(__file__).parents[3] / "golden" / "data"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def tree_of(run: str, **wanted) -> dict:
    models = find_models(run, Path("results"))
    return student_tree(StudentRequest(run, **wanted), models, models.policies(0))


def test_a_student_is_a_run_that_resumes_exports_and_is_compared(here, capsys):
    palaestra.train(small_runs.settings("Basic"), env="Basic", run_id="first", num_areas=4, seed=1, quiet=True)
    short = ["--hidden-units=8", "--max-steps=600", "--episodes=3"]
    assert main(["distill", "first", *short, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    teacher, student = shown["behaviors"]["Basic"].values()
    assert shown["run_id"] == "first-8x1"
    assert student["bytes"] < teacher["bytes"]
    assert student["microseconds"] > 0
    assert (teacher["episodes"], student["episodes"]) == (3, 3)
    settings = yaml.safe_load(Path("results/first-8x1/configuration.yaml").read_text("utf-8"))
    assert settings["behaviors"]["Basic"]["trainer_type"] == "bc"
    assert settings["behaviors"]["Basic"]["network_settings"]["hidden_units"] == 8
    assert settings["env_settings"]["env_path"] == "Basic"
    assert settings["env_settings"]["num_areas"] == 4
    assert palaestra.train(run_id="first-8x1", resume=True, max_steps=800, quiet=True).steps == {"Basic": 800}
    assert palaestra.export("first-8x1", out="small.onnx").files
    with pytest.raises(PalaestraError, match="first-8x1"):
        palaestra.distill("first", hidden_units=8, max_steps=600, quiet=True)
    found = palaestra.distill(
        "small.onnx", env="Basic", max_steps=300, episodes=2, run_id="tiny", hidden_units=4, quiet=True
    )
    assert "small.onnx (teacher)" in str(found)
    assert "tiny" in str(found)


def test_students_have_their_teachers_kind_of_network_in_small(here):
    models = GOLDEN / "onnx" / "unity_examples"
    (memory,) = {
        tree_of(str(models / "Hallway.onnx"), env="Hallway")["default_settings"]["network_settings"]["memory"][
            "memory_size"
        ]
    }
    assert memory == 64
    assert (
        "memory"
        not in tree_of(str(models / "Hallway.onnx"), env="Hallway", memory_size=0)["default_settings"][
            "network_settings"
        ]
    )
    seen = tree_of(str(models / "PushBlockCollab.onnx"), env="PushBlockCollab")["default_settings"]
    assert seen["network_settings"]["vis_encode_type"] == "simple"
    assert seen["hyperparameters"]["teacher_plays"] is False


@pytest.mark.parametrize(("body", "normalizes"), [("residual", True), (None, False)])
def test_a_student_normalizes_what_its_teachers_residual_body_did(here, body, normalizes):
    teacher = {"trainer_type": "sac", "network_settings": {"body": body, "normalize": False}}
    settings = RunSettings.model_validate({"behaviors": {"3DBall": teacher}})
    policies = {"3DBall": load_policy(GOLDEN / "onnx" / "unity_examples" / "3DBall.onnx")}
    made = student_tree(StudentRequest("run", env="3DBall"), Models({}, settings, "run"), policies)
    assert made["behaviors"]["3DBall"]["network_settings"]["normalize"] is normalizes


def test_a_student_has_the_teachers_environment_in_the_lesson_that_was_reached(here):
    lessons = [
        {
            "name": "a",
            "completion_criteria": {"measure": "progress", "behavior": "Sorter", "threshold": 0.5},
            "value": 2.0,
        },
        {"name": "b", "value": 7.0},
    ]
    tree = small_runs.settings("Basic") | {
        "environment_parameters": {"num_tiles": {"curriculum": lessons}, "fixed": 3.0}
    }
    env = {"env_path": "Basic", "seed": 5, "first_lesson": 1, "num_envs": 2, "stagger_episodes": True, "num_areas": 3}
    (here / "configuration.yaml").write_text(yaml.safe_dump(tree | {"env_settings": env}))
    models = Models({}, None, "run", {"num_tiles": 1}, here)
    made = student_tree(StudentRequest("run"), models, {})
    assert made["environment_parameters"] == {"num_tiles": 7.0, "fixed": 3.0}
    copies = {"num_envs": 2, "num_areas": 3}
    assert made["env_settings"] == {"env_path": "Basic", **copies, "stagger_episodes": True}
    elsewhere = [
        student_tree(StudentRequest("run", env=name), models, {})["env_settings"] for name in ("Sorter", "a.exe")
    ]
    named = [{"env_path": name, "env_options": {}} for name in ("Sorter", "a.exe")]
    assert elsewhere == [{**named[0], "num_areas": 3}, {**named[1], **copies}]  # what the other kind would refuse


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["none"], "none"),
        ([str(GOLDEN / "onnx/unity_examples/3DBall.onnx")], "name it with --env"),
        (["none", "--memory-size=3"], "expected an even number"),
        (["none", "--hidden-units=0"], "--hidden-units is 0; expected at least 1"),
    ],
)
def test_mistakes_are_said_before_training(here, capsys, words, message):
    assert main(["distill", *words]) == 1
    assert message in capsys.readouterr().err


def test_a_student_does_not_replace_its_teacher(here, capsys):
    palaestra.train(small_runs.settings("Basic"), env="Basic", run_id="taught", num_areas=2, quiet=True)
    before = small_runs.contents(Path("results/taught"))
    elsewhere = ["results/taught", "--results-dir=others"]
    for teacher in (["taught"], ["results/taught/Basic.onnx"], elsewhere):
        assert main(["distill", *teacher, "--run-id=taught", "--force", "--max-steps=100"]) == 1
        assert "'taught' is the teacher's own run: choose another --run-id" in capsys.readouterr().err
    assert small_runs.contents(Path("results/taught")) == before
    Path("results/taught").rename("results/other")
    assert main(["distill", str(GOLDEN / "onnx/unity_examples/3DBall.onnx"), "--run-id=other", "--env=3DBall"]) == 1
    assert "exists already (results/other): continue it with `palaestra learn --run-id=other --resume`" in (
        capsys.readouterr().err
    )


def test_a_student_sees_what_its_teacher_sees(here, capsys):
    block = {
        "trainer_type": "ppo",
        "hyperparameters": {"batch_size": 32, "buffer_size": 64},
        "network_settings": {"hidden_units": 8, "num_layers": 1, "critic_only": ["truth*", "tru*"]},
        "max_steps": 64,
    }
    world = {"env_path": "Hallway", "env_options": {"state": True}, "num_areas": 4}
    palaestra.train({"behaviors": {"Hallway": block}, "env_settings": world}, run_id="v1.5", quiet=True)
    network = tree_of("v1.5")["behaviors"]["Hallway"]["network_settings"]
    assert network["critic_only"] == ["truth*", "tru*"]
    assert StudentRequest("v1.5").name(find_models("v1.5", Path("results"))) == "v1.5-32x1"
    elsewhere = tree_of("v1.5", env="Hallway")["behaviors"]["Hallway"]["network_settings"]
    assert "critic_only" not in elsewhere  # it has none of it
    student = {"teacher": "results/v1.5/Hallway.onnx", "teacher_plays": False, "buffer_size": 64, "batch_size": 32}
    block |= {"trainer_type": "bc", "hyperparameters": student, "network_settings": {"hidden_units": 8}}
    palaestra.train({"behaviors": {"Hallway": block}, "env_settings": world}, run_id="sees")
    assert "it also sees truth, which its teacher does not" in " ".join(capsys.readouterr().out.split())


def test_one_file_is_the_teacher_of_all_behaviors_that_have_learned_from_it(here, monkeypatch):
    file = GOLDEN / "onnx" / "unity_examples" / "3DBall.onnx"
    request = StudentRequest(str(file), env="3DBall", episodes=2)
    models = find_models(str(file), Path("results"))
    result: Any = SimpleNamespace(run_id="small", models={"Left": file, "Right": file})
    rows = list[str]()

    def evaluated(contestants, options):
        rows.extend(f"{one.name} {behavior}" for one in contestants for behavior in one.policies)
        return SimpleNamespace(rows=())

    monkeypatch.setattr(distillation, "evaluate_all", evaluated)
    distillation.judged(request, models, models.policies(0), result)
    assert rows == [f"{file} Left", f"{file} Right", "small Left", "small Right"]


def test_a_student_needs_its_teachers_environment_and_is_judged_unless_it_is_stopped(here, monkeypatch, capsys):
    block = {"trainer_type": "ppo", "hyperparameters": {"batch_size": 8, "buffer_size": 16}, "max_steps": 16}
    first = palaestra.train({"default_settings": block}, env=walk_env.make, num_areas=2, run_id="own", quiet=True)
    with pytest.raises(PalaestraError, match="was trained in an environment that a program made: name one with env"):
        palaestra.distill("own", max_steps=16, quiet=True)
    little = {"max_steps": 16, "episodes": 2, "settings": {"hyperparameters": {"num_epoch": 1}}, "quiet": True}
    for number, given in enumerate([{"run": first}, {"run": "own", "env": walk_env.make}]):
        found = palaestra.distill(**given, **little, run_id=str(number))
        assert [len(one.played.rewards) for one in (*found.teachers, *found.students)] == [2, 2]
        assert (
            yaml.safe_load((found.result.folder / "configuration.yaml").read_text("utf-8"))["behaviors"]["Walk"][
                "hyperparameters"
            ]["num_epoch"]
            == 1
        )
    with pytest.raises(PalaestraError, match="expected a dictionary"):
        palaestra.distill("own", env=walk_env.make, settings=cast(Any, ["hyperparameters.num_epoch=1"]), quiet=True)
    monkeypatch.setattr(distillation, "learn", lambda request: replace(first, signal=15))
    assert main(["distill", "own", "--env=python:walk_env:make", "--json"]) == 128 + 15
    assert not capsys.readouterr().out


def test_a_behavior_that_comes_late_to_one_of_both_is_not_compared(here, monkeypatch):
    model = GOLDEN / "onnx" / "unity_examples" / "3DBall.onnx"
    policies = {"3DBall": load_policy(model), "Late": load_policy(model)}
    played = SideEpisodes(np.ones(3), np.ones(3, np.int64), np.ones(3), np.ones(3), np.ones(3))
    sides = [EvaluatedSide("first", name, played) for name in ("3DBall?team=1", "3DBall?team=2", "Late")]
    sides.append(EvaluatedSide("small", "3DBall", played))
    monkeypatch.setattr(distillation, "evaluate_all", lambda *_: Evaluation(tuple(sides), 0, 0.0))
    monkeypatch.setattr(distillation, "_matches", lambda *_: {})
    result = Result(Path("results/small"), {}, {}, {}, dict.fromkeys(policies, model), True)
    settings = RunSettings.model_validate({"behaviors": {"3DBall": {}, "Late": {}}})
    models = Models({}, settings, "first")
    found = distillation.judged(StudentRequest("first"), models, policies, result)
    assert [one.behavior for one in (*found.teachers, *found.students)] == ["3DBall", "3DBall"]
    assert "Not in these episodes, so not compared: Late." in str(found)
