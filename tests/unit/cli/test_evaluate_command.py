import json
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import palaestra
from palaestra.cli.main import main


class Reaches(gymnasium.Env):
    """Pays for what it is given, up to 10, and succeeds beyond 4."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Box(0, 10, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), float(action[0]), True, False, {"is_success": bool(action[0] > 4)}


@pytest.fixture(scope="module", autouse=True)
def registered():
    gymnasium.register("Reaches-v0", Reaches)
    yield
    del gymnasium.registry["Reaches-v0"]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, registered: None) -> Path:
    """Two runs, each with models of three steps."""
    folder = tmp_path_factory.mktemp("results")
    block = {"trainer_type": "ppo", "max_steps": 192, "summary_freq": 64, "checkpoint_interval": 64}
    block |= {
        "hyperparameters": {"batch_size": 32, "buffer_size": 64, "learning_rate": 0.03},
        "network_settings": {"hidden_units": 8, "num_layers": 1},
    }
    for i, run in enumerate(("first", "second")):
        palaestra.train(
            {"default_settings": block},
            env="gymnasium:Reaches-v0",
            num_areas=4,
            run_id=run,
            results_dir=str(folder),
            seed=i,
            quiet=True,
        )
    return folder


def test_a_success_rate_is_shown_while_training_and_after(results: Path, capsys: pytest.CaptureFixture[str]):
    result = palaestra.train(env="gymnasium:Reaches-v0", run_id="seen", results_dir=results, max_steps=400, force=True)
    out = capsys.readouterr().out
    (share,) = (f"{100 * share:.0f} %" for share in result.success_rates.values())
    assert f". Training. Success: {share}." in out
    assert f", success {share} (last" in out
    assert f"  {share}  " in str(result)
    titles = [(axes.get_title(loc="left"), axes.get_title(loc="right")) for axes in result.plot().axes]
    assert ("Success Rate", "share of episodes") in titles
    assert ("Episode Length", "decisions after the first") in titles


def evaluate(results: Path, *arguments: str | Path, code: int = 0) -> None:
    assert main(["evaluate", *map(str, arguments), "--episodes=8", f"--results-dir={results}"]) == code


def test_a_model_file_inside_a_run_is_played_in_the_runs_environment(results: Path, capsys: pytest.CaptureFixture[str]):
    evaluate(results, results / "first" / "Reaches-v0.onnx", "--deterministic")
    of_file = capsys.readouterr().out
    evaluate(results, "first", "--deterministic")
    assert of_file == capsys.readouterr().out
    (step,) = [path for path in (results / "first" / "Reaches-v0").glob("*.onnx") if path.stem.endswith("-64")]
    evaluate(results, step)
    assert "Reaches-v0: mean reward" in capsys.readouterr().out


def test_a_step_chooses_among_the_models_of_a_run(results: Path, capsys: pytest.CaptureFixture[str]):
    evaluate(results, "first", "--step=64", "--deterministic")
    of_step = capsys.readouterr().out
    evaluate(results, results / "first" / "Reaches-v0" / "Reaches-v0-64.onnx", "--deterministic")
    assert of_step == capsys.readouterr().out
    evaluate(results, "first", "--deterministic")
    assert of_step != capsys.readouterr().out


def test_several_runs_make_a_table(results: Path, capsys: pytest.CaptureFixture[str]):
    evaluate(results, "first", results / "second")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:2] == ["run", "behavior"]
    assert lines[0].split()[-7:] == ["reward", "±", "error", "minimum", "maximum", "decisions", "success"]
    assert [line.split()[0] for line in lines[1:]] == ["first", str(results / "second")]
    evaluate(results, "first", "second", "--json")
    report = json.loads(capsys.readouterr().out)
    assert {run: list(found) for run, found in report.items()} == {"first": ["Reaches-v0"], "second": ["Reaches-v0"]}


def test_the_share_of_successful_episodes_is_told(results: Path, capsys: pytest.CaptureFixture[str]):
    evaluate(results, "first")
    assert "Reaches-v0: success in " in capsys.readouterr().out
    evaluate(results, "first", "--json", "--deterministic")
    numbers = json.loads(capsys.readouterr().out)["Reaches-v0"]
    assert numbers["success_rate"] == (1.0 if numbers["mean"] > 4 else 0.0)


def test_what_evaluate_says_a_model_earns_by_hand(results: Path, capsys: pytest.CaptureFixture[str]):
    evaluate(results, "first", "--json", "--deterministic")
    mean = json.loads(capsys.readouterr().out)["Reaches-v0"]["mean"]
    policy = palaestra.load_policy(results / "first" / "Reaches-v0.onnx")
    env = Reaches()
    obs, _ = env.reset()
    assert env.step(policy.act(obs, deterministic=True).continuous)[1] == pytest.approx(mean)


def test_a_model_written_from_a_checkpoint_keeps_the_bounds(results, tmp_path, capsys):
    assert main(["export", "first", f"--results-dir={results}", f"--out={tmp_path / 'again.onnx'}"]) == 0
    policy = palaestra.load_policy(tmp_path / "again.onnx")
    assert policy.action_bounds is not None
    assert [bound.tolist() for bound in policy.action_bounds] == [[0], [10]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["first", "--step=65"], "has no model of step 65 (models of 'Reaches-v0': 64, 128, 192)"),
        (["first", "--step=-1"], "--step is -1"),
        (["first", "thrid"], "no run 'thrid'"),
        (["first/Reaches-v0.onnx", "--step=64"], "is one model"),
        (["nowhere.onnx"], "there is no model file nowhere.onnx"),
    ],
)
def test_what_cannot_be_evaluated_says_why_before_anything_is_played(results, arguments, message, capsys, monkeypatch):
    monkeypatch.chdir(results)
    evaluate(results, *arguments, code=1)
    told = capsys.readouterr()
    assert message in " ".join(told.err.split())
    assert not told.out
