import pickle

import pytest

import palaestra
from palaestra.core.errors import (
    CallError,
    ConfigError,
    Diverged,
    EnvError,
    NotFinite,
    PalaestraError,
    RunError,
    SeveralProcesses,
)
from palaestra.core.wording.error_topics import POINTER, topic_at, topics
from palaestra.core.wording.voice import python_voice
from palaestra.demos.reader import read_demo
from palaestra.parallel.worker import WorkerFailed, WorkerLost, failure_message, raise_failure
from palaestra.runtime.settings.loading import load
from palaestra.unity.exception import UnityTimeOutException, UnityWorkerInUseException


def caught(call, *arguments, **keywords) -> PalaestraError:
    with pytest.raises(PalaestraError) as found:
        call(*arguments, **keywords)
    return found.value


def test_an_error_knows_the_functions_of_ours_in_which_it_was_made():
    error = caught(read_demo, "nothing.demo")
    assert error.places.split()[0] == "demos.reader:read_demo"
    assert error.topic == "demo-file"


def test_the_classes_of_some_errors_decide():
    topic = {
        NotFinite("Ball", 0, "reward", float("nan")): "not-finite",
        Diverged("x"): "not-finite",
        CallError("x"): "python-call",
        WorkerLost("x"): "processes",
        UnityWorkerInUseException(0): "unity-connection",
        UnityTimeOutException("x"): "unity-connection",
        SeveralProcesses(2): "ranks",
    }
    assert {error: error.topic for error in topic} == topic


def test_a_message_about_a_missing_package_decides_wherever_it_comes_from():
    assert EnvError("x needs the package y, which is not installed: pip install y").topic == "extra-missing"
    assert EnvError("pip install 'palaestra[ray]'").topic == "extra-missing"


def test_an_error_made_outside_of_palaestra_has_no_topic():
    assert RunError("mine").topic == ""
    error = RunError.__new__(RunError)  # as one that is copied
    assert error.topic == ""


def test_unknown_keys_and_wrong_values_have_topics_of_their_own():
    known = {"trainer_type": "ppo"}
    assert caught(load, {"behaviors": {"A": {**known, "max_stepz": 3}}}).topic == "settings-key"
    assert caught(load, {"behaviors": {"A": {**known, "max_steps": -3}}}).topic == "settings-value"
    assert caught(load, {"behaviors": {"A": {"trainer_type": "no_such:Trainer"}}}).topic == "plugin"
    lesson = {"curriculum": [{"value": 1}, {"value": 2}]}
    assert caught(load, {"behaviors": {"A": known}, "environment_parameters": {"x": lesson}}).topic == "parameters"


def test_another_process_sends_the_topic_along():
    error = caught(read_demo, "nothing.demo")
    there = caught(raise_failure, failure_message(error), "copy 1")
    assert (str(there), there.topic) == (str(error), "demo-file")
    assert pickle.loads(pickle.dumps(error)).topic == "demo-file"
    assert caught(raise_failure, failure_message(KeyError("x")), "copy 1").topic == "processes"
    assert isinstance(caught(raise_failure, failure_message(KeyError("x")), "copy 1"), WorkerFailed)


def test_an_error_that_tells_of_another_one_has_its_topic():
    assert topic_at("runtime.run.learning:carry_out", "").startswith("cause ")
    inner = caught(read_demo, "nothing.demo")
    outer = ConfigError("more")
    outer.places = "runtime.run.learning:carry_out runtime.run.learning:learn"
    outer.__cause__ = inner
    assert outer.topic == "demo-file"
    outer.__cause__ = KeyError("x")
    assert outer.topic == "ranks"  # the next place


def test_a_program_is_given_the_topic_as_well(tmp_path):
    error = caught(palaestra.load_policy, str(tmp_path / "nothing.onnx"))
    assert error.topic == "model-file"
    assert caught(palaestra.evaluate, "nothing", results_dir=str(tmp_path)).topic == "run-not-found"
    assert caught(palaestra.train, env="Basic", max_step=3).topic == "python-call"
    with python_voice():
        assert caught(load, None, sets=["behaviors"]).topic == "settings-key"


def test_a_topic_is_told_as_cause_and_cure():
    text = topics()["run-exists"].text(78)
    assert text.startswith("run-exists: a run of that name exists already\n\n")
    assert '\n  "exists already"\n    The same command was typed twice' in text
    assert "\n    -> Continue the run with --resume" in text
    assert "\n  palaestra learn --run-id=first --resume\n" in text
    assert "\n  - Reference > Error messages > Errors: runs and checkpoints > run-exists\n" in text
    assert "\n  - Guides > Training > Keep the best model, stop when done" in text
    assert POINTER.strip().endswith("palaestra help errors")
