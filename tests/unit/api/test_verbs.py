"""The verbs as functions: the examples of their docstrings, what they return, and what their mistakes say."""

import doctest
import inspect
import pickle
import shutil
import subprocess
import sys
import traceback
from dataclasses import replace
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import palaestra
from palaestra.runtime.play.evaluation import SideEpisodes
from palaestra.runtime.play.shown_evaluation import EvaluatedSide

RECURRENT = Path(__file__).parents[2] / "golden" / "data" / "onnx" / "unity_examples" / "Hallway.onnx"
FUNCTIONS = ("compare", "evaluate", "export", "load_policy", "make", "plot", "record", "run")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, palaestra.Result]:
    folder = tmp_path_factory.mktemp("verbs") / "results"
    return {
        name: palaestra.train(
            env="CartPole", max_steps=20_000, summary_freq=4000, run_id=name, results_dir=folder, seed=seed, quiet=True
        )
        for seed, name in enumerate(("pole", "pole-2"))
    }


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_example_of_a_function_runs(name: str, results, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(results["pole"].folder.parents[1])
    examples = doctest.DocTestParser().get_examples(inspect.getdoc(getattr(palaestra, name)) or "")
    assert examples
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    runner = doctest.DocTestRunner(verbose=False, optionflags=flags)
    test = doctest.DocTest(examples, {}, name, None, None, None)
    assert runner.run(test).failed == 0


def test_a_result_goes_into_every_verb_and_shows_itself(results, tmp_path: Path):
    result = results["pole"]
    evaluation = palaestra.evaluate([result, results["pole-2"]], episodes=10, quiet=True)
    assert str(evaluation).count("CartPole") == 2
    assert list(palaestra.evaluate([result, result], episodes=1, quiet=True)) == ["pole", "pole (2)"]
    assert evaluation["pole"].mean == pytest.approx(evaluation["pole"].returns.mean())
    with pytest.raises(palaestra.PalaestraError, match=r"choose one first, such as evaluation\['pole'\]"):
        _ = evaluation.mean
    comparison = palaestra.compare([result, results["pole-2"]], groups="runs")
    several = palaestra.SeedResults({1: results["pole-2"]}, {}, None, ())
    named = palaestra.compare({"lr=1, a": result, "other": several})
    assert {group.name: group.runs for group in named.groups} == {"lr=1, a": ("pole",), "other": ("pole-2",)}
    assert palaestra.compare([result, several], groups="runs").frame()["run"].to_list() == ["pole", "pole-2"]
    exported = palaestra.export(result, out=tmp_path / "pole.onnx")
    recording = palaestra.record(result, tmp_path / "pole.gif", seconds=0.5)
    assert 'src="data:image/gif;base64,' in recording._repr_html_()
    for shown in (result, evaluation, comparison, exported, recording):
        assert "\n" not in repr(shown)
        assert repr(shown).startswith(f"<{type(shown).__name__} ")
        assert shown._repr_html_()
    assert "<svg" in result._repr_html_()
    assert "<svg" in comparison._repr_html_()
    pyplot = sys.modules.get("matplotlib.pyplot")
    for figure in (result.plot(), comparison.plot(), evaluation.plot(), palaestra.plot(result)):
        assert figure.axes
    data, _ = palaestra.plot(result)._repr_mimebundle_()  # pyright: ignore[reportAttributeAccessIssue]
    assert data["image/png"] in data["text/html"]
    assert pyplot is None or not pyplot.get_fignums()


def test_frames_have_what_was_measured(results):
    pytest.importorskip("pandas")
    frame = results["pole"].frame()
    assert {"behavior", "step", "seconds", "Environment/Cumulative Reward"} <= set(frame.columns)
    assert len(palaestra.evaluate("pole", results_dir=results["pole"].folder.parent, episodes=7).frame()) == 7


def test_what_was_returned_is_copied_for_other_processes_and_outlives_its_run(results, tmp_path: Path):
    result = replace(results["pole"], folder=shutil.copytree(results["pole"].folder, tmp_path / "pole"))
    comparison = palaestra.compare([result])
    seeds = palaestra.SeedResults({1: result}, {}, comparison, ())
    for one in (result, seeds):
        assert pickle.loads(pickle.dumps(one)) == one
    for one in (comparison, palaestra.evaluate(result, episodes=1, quiet=True), palaestra.load_policy(result)):
        assert repr(pickle.loads(pickle.dumps(one))) == repr(one)
    shutil.rmtree(result.folder)
    assert all(one._repr_html_() for one in (result, seeds, comparison))
    with pytest.raises(palaestra.PalaestraError, match="the run was moved or deleted"):
        result.plot()
    with pytest.raises(palaestra.PalaestraError, match="or their folders are gone"):
        seeds.frame()


def test_rewards_of_groups_are_those_of_whole_groups():
    nobody = np.full(4, np.nan)
    played = SideEpisodes(np.arange(4.0), np.full(4, 9), np.zeros(4), np.array([5.0, 7.0]), nobody)
    evaluation = palaestra.Evaluation((EvaluatedSide("pole", "Pusher", played),))
    assert (evaluation.mean, evaluation.returns.tolist(), evaluation.error) == (6.0, [5.0, 7.0], 1.0)
    assert repr(evaluation) == "<Evaluation Pusher mean group reward 6.000 ± 1.000 over 2 groups>"
    assert "mean reward of an agent 1.500 over 4 episodes" in str(evaluation)
    # groups that drew earned 0, whatever their agents did: measures of one behavior stay comparable
    for groups, mean in ((np.zeros(2), 0.0), (np.zeros(0), 1.5)):
        one = replace(played, group_returns=groups)
        assert palaestra.Evaluation((EvaluatedSide("pole", "Pusher", one),)).mean == mean


def test_a_policy_predicts_what_step_takes(results):
    policy = palaestra.load_policy(results["pole"], seed=0)
    action, state = policy.predict(np.zeros(4), deterministic=True)
    assert (np.shape(action), state) == ((), None)
    assert policy.predict(np.zeros((3, 4)))[0].shape == (3,)
    assert np.shape(policy.predict([0.0, 0.0, 0.0, 0.0])[0]) == ()
    with pytest.raises(palaestra.PalaestraError, match=r"has shape \(5,\); expected \(4,\) or \(n, 4\)"):
        policy.predict(np.zeros(5))
    assert palaestra.evaluate(policy, env="CartPole", episodes=4).mean > 0


def test_of_several_models_one_is_chosen(results):
    both = replace(results["pole"], models={"A": results["pole"].models["CartPole"], "B": Path("b.onnx")})
    with pytest.raises(palaestra.PalaestraError, match=r"has 2 models: choose one with behavior=... \(it has: A, B\)"):
        palaestra.load_policy(both)
    assert palaestra.load_policy(both, behavior="A").obs_shapes == ((4,),)
    with pytest.raises(palaestra.PalaestraError, match="there is no run 'pol' in"):
        palaestra.load_policy("pol", results_dir=results["pole"].folder.parent)


def test_errors_of_what_was_returned_are_short_too(results):
    policy = palaestra.load_policy(results["pole"])
    evaluation = palaestra.evaluate(results["pole"], episodes=1, quiet=True)
    for call in (
        lambda: policy.act(np.zeros(3)),
        lambda: policy.predict(np.zeros(3)),
        lambda: results["pole"].plot("Nothing/*"),
        lambda: evaluation["x"],
        lambda: replace(evaluation, rows=()).mean,
        lambda: palaestra.read_demo("x.demo"),
    ):
        with pytest.raises(palaestra.PalaestraError) as caught:
            call()
        assert len(traceback.extract_tb(caught.value.__traceback__)) == 3  # this function, the lambda, and one of ours


def test_a_run_in_an_environment_of_a_program_does_not_wait_for_the_editor(tmp_path: Path):
    class Line(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            return np.zeros(1, np.float32), {}

        def step(self, action):
            return np.zeros(1, np.float32), float(action), True, False, {}

    palaestra.train(env=Line, max_steps=40, results_dir=tmp_path, run_id="line", quiet=True)
    for call in (
        lambda: palaestra.train(run_id="line", resume=True, results_dir=tmp_path, quiet=True),
        lambda: palaestra.evaluate("line", results_dir=tmp_path),
    ):
        with pytest.raises(palaestra.PalaestraError, match="was trained in an environment that a program made"):
            call()


def test_a_search_has_a_frame_and_a_picture(tmp_path: Path):
    (tmp_path / "trials.csv").write_text(
        "trial,state,decisions,seconds\n0,complete,900,1\n1,fail,,1\n2,complete,1200,1\n3,complete,400,1\n"
    )
    found = palaestra.TuneResult(tmp_path, tmp_path / "best.yaml", 3, {"decisions": 400.0}, {}, 3)
    trials, best = found.plot().axes[0].lines
    assert (list(trials.get_ydata()), list(best.get_ydata())) == ([900, 1200, 400], [900, 900, 400])
    pytest.importorskip("pandas")
    assert list(found.frame()["state"]) == ["complete", "fail", "complete", "complete"]


def test_a_recurrent_policy_predicts_with_its_state():
    policy = palaestra.load_policy(RECURRENT, seed=0)
    obs = [np.zeros((2, *shape)) for shape in policy.obs_shapes]
    _, first = policy.predict(obs, deterministic=True)
    assert first is not None
    _, second = policy.predict(obs, first, deterministic=True)
    _, begun = policy.predict(obs, first, [True, False], deterministic=True)
    np.testing.assert_allclose(begun, np.stack([first[0], second[1]]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: palaestra.evaluate("pole", episode=3), "no argument 'episode'; did you mean 'episodes'"),
        (lambda: palaestra.evaluate(3), r"expected a run \(.*\), got an instance of int"),
        (lambda: palaestra.evaluate(gymnasium.Env), r"expected a run \(.*\), got the class Env"),
        (lambda: palaestra.evaluate("pole", episodes=0), "^episodes is 0"),
        (lambda: palaestra.run("CartPole", "player"), "page in the browser"),
        (lambda: palaestra.run("CartPole", []), "no brain is given"),
        (lambda: palaestra.run("CartPole", {"Cart": "random"}), "did you mean 'CartPole'"),
        (lambda: palaestra.record("pole", "pole.png"), "recordings are GIFs"),
    ],
)
def test_mistakes_are_said_in_the_words_of_python(call, message: str, results, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(results["pole"].folder.parents[1])
    with pytest.raises(palaestra.PalaestraError, match=message) as raised:
        call()
    assert "--" not in str(raised.value)


def test_the_public_api_has_at_most_31_names():
    assert len(palaestra.__all__) <= 31
    assert all(getattr(palaestra, name) is not None for name in palaestra.__all__)


PROGRAM = """
import numpy as np
import palaestra


def look(summary: palaestra.Summary) -> bool:
    return summary.mean > 90


result: palaestra.Result = palaestra.train(env="CartPole", max_steps=100_000, callbacks=[look])
evaluation: palaestra.Evaluation = palaestra.evaluate(result, episodes=10)
mean: float = evaluation.mean
frame = result.frame()
result.plot().savefig("pole.png")
policy: palaestra.Policy = palaestra.load_policy(result)
action, state = policy.predict(np.zeros(4))
comparison: palaestra.Comparison = palaestra.compare(["first", "second"])
try:
    recording: palaestra.Recording = palaestra.record(result)
except palaestra.PalaestraError as error:
    print(error)
"""


@pytest.mark.slow
def test_a_typed_program_passes_mypy(tmp_path: Path):
    pytest.importorskip("mypy")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--strict", f"--cache-dir={tmp_path / 'cache'}", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout
