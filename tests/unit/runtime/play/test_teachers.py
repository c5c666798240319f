from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import demo_files
import numpy as np
import pytest
from recall_env import Recall
from school_env import School
from small_runs import contents, differences, settings, state

import palaestra
from palaestra.brains.base import Choice, Seen
from palaestra.core.errors import ConfigError, EnvError, PolicyError
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.envs.builtin.ball.env import Ball
from palaestra.runtime.logging.history import read_history
from palaestra.runtime.logging.tracker import Summary
from palaestra.runtime.play.brain_assignment import BrainSpec
from palaestra.runtime.play.evaluation import evaluate
from palaestra.runtime.play.teachers import teacher_spec
from palaestra.runtime.settings import load, whose_reward


class Tilts:
    """A teacher of a user's own: always the same."""

    def decide(self, seen: Seen) -> Choice:
        return Choice(np.full((len(seen.slots), 2), 0.25, np.float32), np.zeros((len(seen.slots), 0), np.int64))


def tree(behavior: str, max_steps: int = 2000, **hyper: Any) -> dict[str, Any]:
    hyper = {"batch_size": 64, "buffer_size": 500, "learning_rate": 3e-3, **hyper}
    network = {"hidden_units": 32, "num_layers": 1, "normalize": True}
    return settings(
        behavior, max_steps, trainer_type="bc", hyperparameters=hyper, network_settings=network, summary_freq=500
    )


def train(
    config: dict[str, Any], env: Any, results: Path, name: str = "run", until: int | None = None, **more: Any
) -> palaestra.Result:
    callbacks: list[Callable[[Summary], object]] = [] if until is None else [lambda summary: summary.step >= until]
    given = {"results_dir": str(results), "run_id": name, "seed": 3, "num_areas": 4, **more}
    return palaestra.train(config, env=env, callbacks=callbacks, **given)


@pytest.mark.few(1)
@pytest.mark.parametrize("plays", [True, False])
def test_a_student_becomes_its_teacher_in_its_own_behavior(plays, tmp_path, capsys):
    done = train(tree("3DBall", 24000, teacher="heuristic", teacher_plays=plays), "3DBall", tmp_path, num_areas=16)
    message = "heuristic plays '3DBall'" if plays else "'3DBall' plays, and learns what heuristic would have done"
    assert message in capsys.readouterr().out
    # the reward that is seen is that of whoever plays; the model is the student's
    returns = evaluate(Ball(20), {"3DBall": palaestra.load_policy(done.models["3DBall"])}, 20)["3DBall"].returns
    assert returns.mean() > 90


@pytest.mark.parametrize("plays", [True, False])
def test_a_reward_that_the_teacher_earned_says_so(plays: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    config = tree("Basic", 2000, teacher="heuristic", teacher_plays=plays)
    train(config, "Basic", tmp_path)
    out = capsys.readouterr().out
    assert ("Mean Reward: 0.930 (the teacher's). Std of Reward: 0.000" in out) == plays
    assert ("reward 0.930 (the teacher's, last" in out) == plays
    assert ("the teacher's" in out) == plays
    assert whose_reward(load(config).settings, "Basic") == ("the teacher's" if plays else "")
    assert whose_reward(load(config, {"checkpoint_settings": {"inference": True}}).settings, "Basic") == ""


def test_a_pupil_learns_from_another_behavior(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    done = train(tree("Pupil", 6000, teacher_behavior="Expert"), School(), tmp_path)
    out = capsys.readouterr().out
    assert "heuristic plays 'Expert', and 'Pupil' learns from it" in out
    assert "the teacher's" not in out
    assert list(done.models) == ["Pupil"]
    losses = read_history(done.folder)["Pupil"]["Losses/Cloning Loss"].value
    assert losses[-1] < 0.1 * losses[0]


def test_the_teacher_is_whoever_is_named(tmp_path: Path):
    done = train(
        tree("Pupil", 4000, teacher="test_teachers:Tilts", teacher_behavior="Expert", num_epoch=6),
        School(),
        tmp_path,
        quiet=True,
    )
    view = School(3).reset(0)["Pupil"].obs[0].numpy()
    action = palaestra.load_policy(done.models["Pupil"]).act([view], deterministic=True)
    assert action.continuous == pytest.approx(np.full((3, 2), 0.25), abs=0.1)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("hyper", "env"),
    [
        ({"teacher": "heuristic"}, "3DBall"),
        ({"teacher": "heuristic", "teacher_plays": False}, "3DBall"),
        ({"teacher_behavior": "Expert"}, None),
    ],
)
def test_an_interrupted_lesson_goes_on_as_one_that_never_stopped(hyper, env, tmp_path):
    config = tree("3DBall" if env else "Pupil", **hyper)
    whole = train(config, env or School(), tmp_path, "whole", quiet=True)
    assert not train(config, env or School(), tmp_path, "parts", until=1000, quiet=True).finished
    resumed = train(config, env or School(), tmp_path, "parts", resume=True, quiet=True)
    assert differences(state(whole.folder), state(resumed.folder)) == []


@pytest.mark.few(1)
@pytest.mark.parametrize("plays", [True, False])
def test_a_model_that_remembers_teaches_on_after_a_stop(plays: bool, tmp_path: Path):
    memory = {"memory": {"sequence_length": 8, "memory_size": 8}, "hidden_units": 8, "num_layers": 1}
    master = train(
        settings("Recall", network_settings=memory), Recall(6, (3, 5)), tmp_path, "master", quiet=True
    ).models["Recall"]
    hyper = {"batch_size": 32, "buffer_size": 100, "teacher": str(master), "teacher_plays": plays}
    config = settings(
        "Recall", 400, trainer_type="bc", hyperparameters=hyper, network_settings=memory, summary_freq=100
    )
    whole = train(config, Recall(6, (3, 5)), tmp_path, "whole", quiet=True)
    assert not train(config, Recall(6, (3, 5)), tmp_path, "parts", until=200, quiet=True).finished
    resumed = train(config, Recall(6, (3, 5)), tmp_path, "parts", resume=True, quiet=True)
    assert differences(state(whole.folder), state(resumed.folder)) == []


def test_a_teacher_that_sees_something_else_is_shown_beside_its_pupil(tmp_path: Path):
    school = School()
    school.behaviors = {
        **school.behaviors,
        "Pupil": BehaviorSpec((ObsSpec("vector", (8,)),), ActionSpec(branches=(3,)), steady=True),
    }
    with pytest.raises(EnvError) as error:
        train(tree("Pupil", teacher_behavior="Expert"), school, tmp_path, quiet=True)
    assert [line.split("   ")[0].strip() for line in str(error.value).splitlines()] == [
        "'Pupil' cannot learn from agents of 'Expert':",
        "",
        "observation 0",
        "actions",
    ]
    assert str(error.value).endswith("<- differs")


@pytest.mark.parametrize("env", ["3DBall", "builtin:3DBall"])
def test_a_teacher_that_never_comes_is_refused(env: str, tmp_path: Path):
    refused = (
        r"behaviors\.3DBall\.hyperparameters\.teacher_behavior: .* no behavior '3DBal'; did you mean '3DBall'\? "
        r"\(there are: '3DBall'\)"
    )
    with pytest.raises(ConfigError, match=refused):
        train(tree("3DBall", teacher_behavior="3DBal"), env, tmp_path, quiet=True)
    config = {"default_settings": tree("3DBall", teacher_behavior="Elsewhere")["behaviors"]["3DBall"]}
    with pytest.raises(
        ConfigError, match=r"default_settings\.hyperparameters\.teacher_behavior: .* no behavior 'Elsewhere'"
    ):
        train(config, env, tmp_path, quiet=True)


def test_the_end_tells_of_a_teacher_that_might_have_come(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    train(tree("3DBall", 100, teacher_behavior="Expert"), Ball(4), tmp_path, "alone")
    message = "[WARNING] '3DBall' has learned nothing in this session: its teacher's behavior, 'Expert', never appeared"
    assert message in capsys.readouterr().out
    train(tree("Pupil", 100, teacher_behavior="Expert"), School(), tmp_path, "taught")
    assert "has learned nothing" not in capsys.readouterr().out


def test_a_behavior_that_is_played_by_a_teacher_does_not_learn(tmp_path: Path):
    config = tree("Pupil", teacher_behavior="Expert")
    config["behaviors"]["Expert"] = {"trainer_type": "ppo"}
    with pytest.raises(ConfigError, match=r"behaviors.Expert: another behavior names it as its teacher_behavior"):
        train(config, School(), tmp_path, quiet=True)


@pytest.mark.parametrize(
    "teacher", ["{run}/Basic/Basic-{step}.onnx", "{run}/Basic.onnx", "model:run", "model:run@best"]
)
def test_a_model_that_force_would_remove_is_no_teacher(teacher: str, tmp_path: Path):
    done = train(settings("Basic", 300), "Basic", tmp_path)
    before = contents(done.folder)
    step = next(done.folder.glob("Basic/*.onnx")).stem.rpartition("-")[2]
    named = teacher.format(run=done.folder, step=step)
    with pytest.raises(
        ConfigError, match=r"hyperparameters.teacher: .* is a model of the run 'run', which .* starts again"
    ):
        train(tree("Basic", 300, teacher=named), "Basic", tmp_path, force=True)
    opponents = {"self_play": {"opponents": [named], "play_against_opponents_ratio": 0.5}}
    with pytest.raises(ConfigError, match=r"self_play.opponents: .* is a model of the run 'run', which"):
        train(settings("RingOut", 300, **opponents), "RingOut", tmp_path, force=True)
    assert contents(done.folder) == before
    train(tree("Basic", 300, teacher=named.replace("@best", "")), "Basic", tmp_path, "other", force=True)


def test_a_teacher_is_typed_as_a_brain_a_file_or_a_class(tmp_path: Path):
    assert teacher_spec("heuristic") == BrainSpec("heuristic")
    assert teacher_spec("model:first") == BrainSpec("model", "first")
    assert teacher_spec("a/Ball.onnx") == BrainSpec("model", "a/Ball.onnx")
    assert teacher_spec("mine:Brain") == teacher_spec("python:mine:Brain") == BrainSpec("python", "mine:Brain")
    with pytest.raises(ConfigError, match="there is no teacher 'heuristik'; did you mean 'heuristic'"):
        teacher_spec("heuristik")
    with pytest.raises(PolicyError, match=r"none\.onnx"):
        train(tree("3DBall", teacher="none.onnx"), "3DBall", tmp_path, quiet=True)


def test_ppo_goes_on_from_what_was_imitated(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    train(tree("3DBall", 500, teacher="heuristic"), "3DBall", tmp_path, "clone", quiet=True)
    network = {"hidden_units": 32, "num_layers": 1, "normalize": True}
    train(settings("3DBall", network_settings=network), "3DBall", tmp_path, "ppo", initialize_from="clone")
    assert "Initialized '3DBall' from" in capsys.readouterr().out


@pytest.mark.parametrize(
    "also", [{}, {"reward_signals": {"gail": {"demo_path": "x.demo"}}, "behavioral_cloning": {"demo_path": "x.demo"}}]
)
def test_a_demonstration_that_is_cut_off_is_warned_of_once(also, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    spec = Ball(1).behaviors["3DBall"]
    whole = demo_files.write(Path("x.demo"), demo_files.episodes(4, 4, spec=spec), spec).read_bytes()
    Path("x.demo").write_bytes(whole[:-100])
    config = settings("3DBall", **also) if also else tree("3DBall", 500, demo_path="x.demo")
    train(config, "3DBall", tmp_path)
    assert capsys.readouterr().out.count("[WARNING] 3DBall: x.demo is cut off at byte") == 1
