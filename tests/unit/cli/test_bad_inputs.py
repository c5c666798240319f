"""Each mistake ends with one message on stderr and status 1, or 2 for a wrong command line, and changes no file."""

import re
import shutil
import sys
from pathlib import Path

import pytest
import yaml
from small_runs import contents, settings, write

import palaestra
from palaestra.cli.main import main
from palaestra.core.wording.error_topics import POINTER, topics

UNITS = "behaviors.Basic.network_settings.hidden_units"
SHARED = "behaviors.Basic.hyperparameters.shared_critic"
CURIOSITY = "behaviors.Basic.reward_signals.curiosity.strength"
GAMES = """
import torch
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.envs.builtin.basic.env import Basic
from dataclasses import replace

def raises(): raise ValueError("no license")
def nothing(): return None
def no_action(): return ActionSpec()
def empty_branch(): return ActionSpec(0, (3, 0))
def no_numbers(): return ObsSpec("eyes", (0,))
def no_observation(): return BehaviorSpec((), ActionSpec(1))
def interrupted(): raise KeyboardInterrupt

class Breaks(Basic):
    ticks = 0
    def step(self, actions):
        self.ticks += 1
        steps = super().step(actions)
        return {name: self.spoil(step) for name, step in steps.items()} if self.ticks > 30 else steps

class Raises(Breaks):
    def spoil(self, step): return {}["score"]

class NotANumber(Breaks):
    def spoil(self, step):
        obs = step.obs[0].clone()
        obs[1, 3] = float("nan")
        return replace(step, obs=(obs,))

class AllMasked(Breaks):
    def spoil(self, step): return replace(step, action_mask=torch.zeros(len(step.reward), 3, dtype=torch.bool))

class RaisesAtReset(Basic):
    def reset(self, seed): raise RuntimeError("no level")

class OtherShape(Basic):
    def reset(self, seed):
        return {name: replace(step, obs=(step.obs[0][:, :5],)) for name, step in super().reset(seed).items()}
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder with the run 'first'."""
    results = tmp_path_factory.mktemp("trained")
    palaestra.train(settings("Basic"), env="Basic", results_dir=str(results), run_id="first", num_areas=2, quiet=True)
    return results


@pytest.fixture
def place(tmp_path: Path, trained: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: settings, games, and a trained run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "games", raising=False)
    Path("games.py").write_text(GAMES)
    write("good.yaml", settings("Basic"))
    write("ball.yaml", settings("3DBall"))
    shutil.copytree(trained, "results")
    return tmp_path


def refused(capsys: pytest.CaptureFixture[str], command: str, *more: str) -> str:
    """The message; a run that was begun may leave its own folder, nothing else may change."""
    before = contents(Path("results"))
    status = main([*command.split(), *more])
    output = capsys.readouterr().err
    assert status == 1
    assert output.startswith("palaestra: error: ")
    assert output.count("error:") == 1
    assert "Traceback" not in output
    pointer = output.splitlines()[-1]
    assert pointer.startswith(POINTER)
    assert pointer.removeprefix(POINTER) in topics()
    after = contents(Path("results"))
    assert {name: after.get(name) for name in before} == before
    assert [name for name in after if name not in before and name.split("/")[0] != "begun"] == []
    return output


@pytest.mark.parametrize(
    ("change", "output"),
    [
        ({"bacth_size": 32}, r"bad.yaml:\d+: .*bacth_size: unknown key; did you mean 'batch_size'"),
        ({"batch_size": "many"}, r"bad.yaml:\d+: .*batch_size: expected a whole number, got 'many'"),
        ({"batch_size": -1}, r"bad.yaml:\d+: .*batch_size: expected a number greater than 0, got -1"),
    ],
)
@pytest.mark.usefixtures("place")
def test_a_setting_is_named_with_its_line(change: dict[str, object], output: str, capsys: pytest.CaptureFixture[str]):
    tree = settings("Basic")
    tree["behaviors"]["Basic"]["hyperparameters"].update(change)
    write("bad.yaml", tree)
    message = refused(capsys, "learn bad.yaml --env=Basic --run-id=new")
    assert re.search(output, message)


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("behaviors:\n  Basic: [1\n", "bad.yaml:"),
        ("", "is empty"),
        ("- 1\n", "holds a list"),
        ("behaviors: {}\n", "no behavior has settings"),
    ],
)
@pytest.mark.usefixtures("place")
def test_a_file_that_holds_no_settings_is_refused(text: str, output: str, capsys: pytest.CaptureFixture[str]):
    Path("bad.yaml").write_text(text)
    assert output in refused(capsys, "learn bad.yaml --env=Basic --run-id=new")


@pytest.mark.parametrize(
    ("flags", "output"),
    [
        ("missing.yaml --env=Basic", "missing.yaml"),
        (". --env=Basic", "."),
        ("good.yaml --env=Basik", "did you mean 'Basic'?"),
        ("good.yaml --env=gymnasium:CartPol-v1", "did you mean 'CartPole-v1'?"),
        ("ball.yaml --env=Basic", "the behavior 'Basic', which has no settings (the settings list '3DBall'); list"),
        ("good.yaml --env=Basic --torch-device=tpu", "torch device 'tpu' is not there: this machine has cpu"),
        ("good.yaml --env=Basic --torch-device=cuda:99", "torch device 'cuda:99' is not there"),
        ("good.yaml --env=Basic --torch-threads=0", "--torch-threads: torch_settings.threads: expected a number"),
        ("good.yaml --env=Basic --num-areas=0", "--num-areas: "),
        ("good.yaml --env=Basic --num-areas=-3", "--num-areas: "),
        ("good.yaml --env=Basic --num-envs=2", "Basic is built in: one process simulates all of its areas"),
        ("good.yaml --num-envs=2", "--num-envs: env_settings.num_envs: expected 1 without env_path (--env)"),
        ("good.yaml --env=Basic --seed=99999999999999999999", "--seed: "),
        ("good.yaml --env=Basic --set behaviors.Basic.max_stepz=1", "did you mean 'max_steps'?"),
        ("good.yaml --env=Basic --set behaviors.Basik.max_steps=1", "did you mean 'Basic'?"),
        ("good.yaml --env=Basic --set max_steps", "expected PATH=VALUE"),
        ("good.yaml --env=Basic --initialize-from=firts", "did you mean 'first'?"),
        ("good.yaml --env=Basic --initialize-from=nope", "cannot initialize from it: there is no run 'nope' in"),
        ("good.yaml --env=Basic --no-graphics", "--no-graphics is only for Unity games, and Basic is not one"),
        ("games/roll.py", "games/roll.py is a Python file; did you mean --env=games/roll.py?"),
        ("good.yaml --env=Basic --base-port=80", "--base-port is only for Unity games"),
        (
            "good.yaml --env=python:x:X --env-args --level 3",
            "--env-args is only for Unity games, and python:x:X is not",
        ),
        (
            "initializing.yaml --env=Basic",
            "initializing.yaml:13 asks for it: give --set checkpoint_settings.initialize",
        ),
        ("good.yaml --env=builtin:", "builtin: names no environment; expected builtin:NAME"),
        (
            "resuming.yaml --env=Basic",
            "(resuming.yaml:13 asks for it: give --set checkpoint_settings.resume=false to start a new one)",
        ),
        ("ball.yaml --env=3DBall --initialize-from=first", "behavior '3DBall' cannot start from"),
        (
            f"good.yaml --env=Basic --initialize-from=first --set {UNITS}=8",
            "another shape",
        ),
        ("good.yaml --env=Basic --results-dir=good.yaml", "a file stands where a folder is needed"),
    ],
)
@pytest.mark.usefixtures("place")
def test_flags_that_cannot_be_followed_are_explained(flags: str, output: str, capsys: pytest.CaptureFixture[str]):
    write("resuming.yaml", {**settings("Basic"), "checkpoint_settings": {"resume": True}})
    write("initializing.yaml", {**settings("Basic"), "checkpoint_settings": {"initialize_from": "nope"}})
    assert output in refused(capsys, f"learn {flags} --run-id=new")


@pytest.mark.parametrize(("change", "offered"), [(f"{UNITS}=8", False), (f"{CURIOSITY}=0.1", True)])
@pytest.mark.usefixtures("place")
def test_a_new_run_is_offered_only_where_it_can_start_from_the_old_one(change, offered, capsys):
    output = refused(capsys, f"learn --resume --run-id=first --set {change}")
    assert "resume with the settings it was trained with" in output
    assert ("--initialize-from=first" in output) == offered


@pytest.mark.parametrize(
    ("flags", "output"),
    [
        ("good.yaml --env=Basic", "the run 'first' exists already"),
        ("good.yaml --env=Basik --force", "did you mean 'Basic'?"),
        ("good.yaml --env=python:games:RaisesAtReset --force", "no level"),
        (f"--resume --set {UNITS}=8", "does not fit this environment and these settings"),
        (f"--resume --set {UNITS}=8", f"and these settings: {UNITS} is 8, was 16; resume"),
        (f"--resume --set {SHARED}=true", f"and these settings: {SHARED} is true, was false; resume"),
        (f"--resume --set {CURIOSITY}=0.1", f"{CURIOSITY} is 0.1, was not there;"),
        ("ball.yaml --env=3DBall --resume", "a run with other behaviors: it has Basic, this environment has 3DBall"),
    ],
)
@pytest.mark.usefixtures("place")
def test_a_run_that_is_there_is_left_alone(flags: str, output: str, capsys: pytest.CaptureFixture[str]):
    assert output in refused(capsys, f"learn {flags} --run-id=first")


@pytest.mark.parametrize(
    "command", ["learn --resume --run-id=firts", "evaluate firts", "plot firts", "record firts", "export firts"]
)
@pytest.mark.usefixtures("place")
def test_a_run_that_is_not_there_is_told_from_its_neighbors(command: str, capsys: pytest.CaptureFixture[str]):
    assert "there is no run 'firts' in results; did you mean 'first'?" in refused(capsys, command)


@pytest.mark.parametrize("command", ["evaluate", "plot", "record", "export"])
@pytest.mark.usefixtures("place")
def test_a_folder_that_is_no_run_is_refused(command: str, capsys: pytest.CaptureFixture[str]):
    Path("results/empty").mkdir()
    output = refused(capsys, f"{command} empty")
    assert "results/empty is empty (no run has begun)" in output


@pytest.mark.parametrize("command", ["evaluate", "record"])
@pytest.mark.usefixtures("place")
def test_a_run_without_a_model_is_told_how_to_get_one(command: str, capsys: pytest.CaptureFixture[str]):
    Path("results/first/Basic.onnx").unlink()
    shutil.rmtree("results/first/Basic")
    assert "'palaestra export results/first' writes one" in refused(capsys, f"{command} first")
    assert "there is no model file no.onnx" in refused(capsys, f"{command} no.onnx")


@pytest.mark.parametrize("command", ["evaluate", "record", "view", "export", "plot", "publish", "league", "distill"])
@pytest.mark.usefixtures("place")
def test_a_missing_model_file_is_named_as_a_file_with_files_like_it(command: str, capsys: pytest.CaptureFixture[str]):
    output = refused(capsys, f"{command} Basik.onnx")
    assert "Basik.onnx" in output
    assert "did you mean 'results/first/Basic.onnx'?" in output
    assert "no run" not in output


@pytest.mark.usefixtures("place")
def test_a_model_file_is_no_run(capsys: pytest.CaptureFixture[str]):
    shutil.copy("results/first/Basic.onnx", ".")
    assert "the file Basic.onnx is a model file; expected a run" in refused(capsys, "plot Basic.onnx")
    assert "Basic.onnx is a file; expected a run, a folder or an environment" in refused(capsys, "view Basic.onnx")


@pytest.mark.parametrize(
    "run_id", ["", "..", ".", "../up", "/tmp/x", "a//b", "-x", ".hidden", "a\\b", "x" * 300, "a\x1b[31mb", " "]
)
@pytest.mark.usefixtures("place")
def test_a_run_id_that_is_no_folder_of_ours_is_refused(run_id: str, capsys: pytest.CaptureFixture[str]):
    assert "--run-id: " in refused(capsys, "learn good.yaml --env=Basic", f"--run-id={run_id}")


@pytest.mark.parametrize(
    ("factory", "output"),
    [
        ("nowhere:make", "there is no module 'nowhere'"),
        ("games:raisez", "did you mean 'raises'?"),
        ("games", "expected python:module:Class"),
        ("games:raises", "ValueError: no license ("),
        ("games:nothing", "games:nothing returned None: does it end without `return`?"),
        ("games:no_action", "at least one continuous number or one discrete branch"),
        ("games:empty_branch", "a branch needs at least one choice"),
        ("games:no_numbers", "observation 'eyes' has shape (0,)"),
        ("games:no_observation", "a behavior needs at least one observation"),
        ("games:RaisesAtReset", "raised an error in reset: RuntimeError: no level ("),
        ("games:OtherShape", "observation 'Basic' has shape (20, 5); expected (20, 20)"),
    ],
)
@pytest.mark.usefixtures("place")
def test_an_environment_that_cannot_be_had_leaves_no_run(factory: str, output: str, capsys: pytest.CaptureFixture[str]):
    assert output in refused(capsys, f"learn good.yaml --env=python:{factory} --num-areas=20 --run-id=new")
    assert not Path("results/new").exists()


@pytest.mark.parametrize(
    ("game", "output"),
    [
        ("Raises", "python:games:Raises raised an error in step: KeyError: 'score' ("),
        ("NotANumber", "behavior 'Basic', agent 1: observation 'Basic'[3] is nan"),
        ("AllMasked", "behavior 'Basic', agent 0: all 3 actions of branch 0 are masked"),
    ],
)
@pytest.mark.usefixtures("place")
def test_an_environment_that_breaks_off_leaves_a_run_that_resumes(game, output, terminal, capsys):
    assert output in refused(capsys, f"learn good.yaml --env=python:games:{game} --num-areas=4 --run-id=begun")
    assert "[INFO] Resuming 'begun' from step 0" in terminal("learn --run-id=begun --resume --env=Basic")


@pytest.mark.parametrize(
    ("file", "content", "output"),
    [
        ("configuration.yaml", "behaviors: [", "a settings file takes the place of all"),
        ("run_logs/training_status.json", '{"Basic": ', "training_status.json is damaged"),
        ("checkpoints/*/manifest.json", "{}", "no usable checkpoint in"),
        ("checkpoints/*/Basic.safetensors", "short", "no usable checkpoint in"),
    ],
)
@pytest.mark.usefixtures("place")
def test_damaged_files_of_a_run_are_named(file: str, content: str, output: str, capsys: pytest.CaptureFixture[str]):
    for path in Path("results/first").glob(file):
        path.write_text(content)
    assert output in refused(capsys, "learn --run-id=first --resume")


@pytest.mark.usefixtures("place")
def test_a_run_whose_settings_are_damaged_resumes_with_a_file(capsys: pytest.CaptureFixture[str]):
    Path("results/first/configuration.yaml").write_text("behaviors: [")
    assert main(["learn", "good.yaml", "--env=Basic", "--num-areas=2", "--run-id=first", "--resume"]) == 0
    assert (
        yaml.safe_load(Path("results/first/configuration.yaml").read_text())["behaviors"]["Basic"]["max_steps"] == 300
    )
    assert "is finished" in capsys.readouterr().out


@pytest.mark.usefixtures("place")
def test_playing_needs_a_checkpoint(capsys: pytest.CaptureFixture[str]):
    shutil.rmtree("results/first/checkpoints")
    assert "there is nothing to play" in refused(capsys, "learn --run-id=first --inference")


@pytest.mark.skipif(not Path("/sys").is_dir(), reason="needs a folder that not even root may write to")
@pytest.mark.usefixtures("place")
def test_a_results_folder_that_may_not_be_written_is_named(capsys: pytest.CaptureFixture[str]):
    output = refused(capsys, "learn good.yaml --env=Basic --run-id=new --results-dir=/sys/palaestra")
    assert re.search(
        "cannot write to the run's folder /sys/palaestra/new: (there is no permission|the file system is read-only)",
        output,
    )


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("learn good.yaml --areaz=3", "unknown flag '--areaz'"),
        ("learn good.yaml --num-area", "--num-areas"),
        ("learn good.yaml --num-areas=many", "expected a whole number, got 'many'"),
        ("learn a.yaml b.yaml", "unexpected argument 'b.yaml'"),
        ("evaluate first --determinstic", "did you mean '--deterministic'?"),
        ("lern good.yaml", "did you mean 'learn'?"),
        ("plot", "RUN"),
    ],
)
def test_a_wrong_command_line_ends_with_status_2(command: str, output: str, terminal):
    message, pointer = terminal.fails(command, status=2).splitlines()[-2:]
    assert output in message
    assert pointer == f"{POINTER}command-line"


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (["learn", "a\0b.yaml"], r"palaestra: error: 'a\x00b.yaml' holds a NUL character"),
        (["learn", "--set=--"], "palaestra: error: --set: expected a value, got '--'"),
        (["learn", "good.yaml", "--run-id=--"], "palaestra: error: --run-id: expected a value, got '--'"),
        (["learn", "good.yaml", "--\x1b[31mred"], r"palaestra learn: error: unknown flag '--\x1b[31mred'"),
        (["learn", "good.yaml", "--" + "x" * 5000], "(5,002 characters)'"),
        (["learn", "good.yaml", "--num-areas=" + "9" * 5000], "expected a whole number"),
        (["x" * 5000], "there is no command 'xxx"),
    ],
)
def test_words_that_no_flag_can_take_are_named_in_one_line(words, output, terminal):
    message = terminal.fails(*words, status=2)
    assert output in message
    assert message.count("\n") == 2
    assert message.endswith(f"\n{POINTER}command-line\n")
    assert len(message) < 1500


@pytest.mark.usefixtures("place")
def test_debug_shows_where_an_environment_broke_off(capsys: pytest.CaptureFixture[str]):
    assert main(["learn", "good.yaml", "--env=python:games:Raises", "--num-areas=4", "--run-id=begun", "--debug"]) == 1
    output = capsys.readouterr().err
    places = [output.index(text) for text in ("KeyError: 'score'", "EnvError", "palaestra: error: python:games:Raises")]
    assert places == sorted(places)


@pytest.mark.usefixtures("place")
def test_an_interrupt_before_the_start_says_so_and_leaves_nothing(capsys: pytest.CaptureFixture[str]):
    assert main(["learn", "good.yaml", "--env=python:games:interrupted", "--run-id=new"]) == 130
    assert capsys.readouterr().err == "palaestra: interrupted\n"
    assert not Path("results/new").exists()
