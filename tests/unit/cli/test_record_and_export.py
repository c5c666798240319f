import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tiny_envs import Scripted, network_settings

import palaestra
from palaestra.cli.main import main
from palaestra.core.errors import PolicyError
from palaestra.envs.wrapper import EnvWrapper
from palaestra.models.actor_critic import ActorCritic
from palaestra.onnx_export.onnx import export
from palaestra.runtime.recording.filming import Film, in_real_time, scenes
from palaestra.runtime.recording.video_files import GIF_BYTES

GIF = Path("x.gif")
SETTINGS = {
    "behaviors": {
        "Basic": {
            "trainer_type": "ppo",
            "hyperparameters": {"batch_size": 16, "buffer_size": 64},
            "network_settings": {"hidden_units": 8, "num_layers": 1},
            "max_steps": 128,
        }
    }
}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A folder with the run 'first', trained for a moment."""
    folder = tmp_path_factory.mktemp("results")
    palaestra.train(SETTINGS, env="Basic", run_id="first", results_dir=str(folder), num_areas=4, seed=1, quiet=True)
    return folder


def run(results, *arguments):
    return main([arguments[0], *map(str, arguments[1:]), f"--results-dir={results}"])


def test_a_run_is_recorded_as_an_animated_gif_that_loops(results, capsys):
    assert run(results, "record", "first", "--seconds=1", "--areas=3", "--width=200", "--fps=8") == 0
    path = results / "first" / "recording.gif"
    assert f"Wrote {path} (8 pictures, 1.0 s" in capsys.readouterr().out
    with Image.open(path) as gif:
        assert gif.width == 200
        assert gif.is_animated
        assert gif.info["loop"] == 0
        assert path.stat().st_size < GIF_BYTES


def test_a_recording_plays_in_real_time_with_as_many_pictures_as_its_format_has_time_for():
    crawler, cartpole, basic = (
        EnvWrapper.of(palaestra.make(name, areas=1)) for name in ("Crawler", "CartPole", "Basic")
    )
    known = [(film.fps, film.every) for film in (in_real_time(Film(), env, GIF) for env in (cartpole, crawler, basic))]
    assert known == [(25, 2), (pytest.approx(15, rel=0.01), 1), (1 / basic.tick_seconds, 1)]
    assert in_real_time(Film(), cartpole, GIF.with_suffix(".mp4")).fps == 50
    assert in_real_time(Film(fps=8), cartpole, GIF) == Film(fps=8)


def test_a_recording_of_a_model_file_lies_in_its_runs_folder_and_is_named_as_that_is(results, monkeypatch):
    monkeypatch.chdir(results.parent)
    made = palaestra.record(f"{results.name}/first/Basic.onnx", seconds=0.2, width=100)
    assert made.file.parent == Path(results.name, "first")


def test_a_recording_is_overwritten_only_by_force(results, tmp_path, capsys):
    out = tmp_path / "x.gif"
    short = ("record", "first", "--seconds=0.2", "--width=100")
    assert run(results, *short, f"--out={out}") == 0
    assert run(results, *short, f"--out={out}") == 1
    assert_error(capsys, r"x\.gif exists already; choose another name, or overwrite it with --force")
    assert run(results, *short, f"--out={out}", "--force") == 0
    assert len({palaestra.record("first", results_dir=results, seconds=0.2, width=100).file for _ in range(2)}) == 2


def test_recording_ends_with_the_episodes_asked_for(results, tmp_path, capsys):
    out = tmp_path / "deep" / "one.gif"
    assert (
        run(results, "record", "first", "--episodes=1", "--areas=1", "--sampled", "--seconds=600", f"--out={out}") == 0
    )
    pictures = int(capsys.readouterr().out.split("(")[1].split()[0])
    assert out.is_file()
    assert 2 < pictures < 2000  # the longest possible is 6,000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["frist"], "there is no run 'frist' .* did you mean 'first'"),
        (["first", "--env=3DBall"], "behavior '3DBall', for which there is no model"),
        (["first", "--areas=0"], "--areas is 0; expected 1 to 100"),
        (["first", "--out=/proc/none/x.gif"], "cannot be written"),
        (["first", "--out=x.avi"], r"--out is x\.avi; recordings are GIFs, MP4 or WebM videos: name it x\.gif or"),
        (["first", "--out=movie"], r"name it movie\.gif or movie\.mp4"),
        (["first", "--fps=60"], r"--fps is 60; expected 1 to 50 for \.gif"),
        (["first", "--fps=61", "--out=x.mp4"], "--fps is 61; expected 1 to 60"),
        (["first", "--width=8"], "--width is 8; expected 32 to 4096"),
        (["first", "--steps=5", "--demo"], "--steps is for a GIF or a video"),
        (["first", "first", "--demo"], "--demo records one run; got first, first"),
        (["first", "--steps=5,6"], "too few models for --steps 5,6: it has those of the steps"),
        (["first@128", "--steps=5"], "names one step"),
        ([], "name a run"),
        (["first", "--demo", "--out=x.gif"], "--demo-out names the demonstration file"),
    ],
)
def test_a_recording_that_cannot_be_made_says_why(results, capsys, arguments, message):
    assert run(results, "record", *arguments, "--seconds=0.2") == 1
    assert_error(capsys, message)


@pytest.mark.parametrize("of", ["first@128", "MODEL"])
def test_demonstrations_of_an_earlier_model_lie_in_its_runs_folder(results, capsys, of):
    model = next((results / "first").glob("*/*-128.onnx"))
    demo = results / "first" / "demonstrations" / "Basic.demo"
    demo.unlink(missing_ok=True)
    assert run(results, "record", of.replace("MODEL", str(model)), "--demo", "--episodes=1", "--sampled") == 0
    assert demo.is_file()
    assert "demonstrations/Basic.demo (Basic: 1 episodes" in capsys.readouterr().out


def test_a_run_without_a_model_says_so(results, tmp_path, capsys):
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "configuration.yaml").write_text((results / "first" / "configuration.yaml").read_text())
    assert run(tmp_path, "record", "bare") == 1
    assert_error(capsys, "no model yet")


def test_an_environment_without_pictures_says_so(results, tmp_path, capsys, monkeypatch):
    (tmp_path / "blind_env.py").write_text(
        "from palaestra.core.errors import EnvError\nfrom palaestra.envs.builtin.basic.env import Basic\nclass "
        "Blind(Basic):\n    def render(self, area):\n        raise EnvError('this environment has no pictures')\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert run(results, "record", "first", "--env=python:blind_env:Blind") == 1
    assert_error(capsys, "no pictures")


class Drawn(Scripted):
    """Shows the tick that it is at."""

    def render(self, area):
        return np.full((4, 4, 3), self.tick, np.uint8)


def test_behaviors_may_come_while_a_recording_is_made(tmp_path):
    env = Drawn({"Late": {"slots": 2, "losses": 0.1}, "Later": {"slots": 3}}, appears={"Late": 3, "Later": 5})
    env.reset(0)
    for _ in range(5):
        env.step({})
    models = {}
    for name, spec in env.behaviors.items():
        export(ActorCritic(spec, network_settings()), spec, tmp_path / f"{name}.onnx")
        models[name] = palaestra.load_policy(tmp_path / f"{name}.onnx")

    def played(policies, shown=1, **film):
        return [panel.picture for panel in scenes(env, policies, Film(fps=6, **film), shown=shown)]

    assert [int(picture[0, 0, 0]) for picture in played(models, seconds=2)] == list(range(12))
    assert 5 < len(played(models, episodes=2, seconds=600)) < len(played(models, 9, episodes=2, seconds=600)) < 120
    with pytest.raises(PolicyError, match="'Later'"):
        played({"Late": models["Late"]}, episodes=2, seconds=600)


def test_the_export_of_a_run_is_what_training_wrote(results, capsys):
    trained = (results / "first" / "Basic.onnx").read_bytes()
    (results / "first" / "Basic.onnx").unlink()
    assert run(results, "export", "first") == 0
    assert "differs from the network by at most" in capsys.readouterr().out
    assert (results / "first" / "Basic.onnx").read_bytes() == trained


def test_an_earlier_checkpoint_goes_where_it_is_asked_to(results, tmp_path):
    out = tmp_path / "start.onnx"
    assert run(results, "export", results / "first", "--behavior=Basic", "--step=0", f"--out={out}") == 0
    assert palaestra.load_policy(out).branches == (3,)
    assert out.read_bytes() != (results / "first" / "Basic.onnx").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["frist"], "there is no run 'frist' .* did you mean 'first'"),
        (["first", "--step=7"], "no checkpoint of step 7"),
        (["first", "--behavior=Basics"], "no behavior 'Basics'; did you mean 'Basic'"),
        (["first", "--out=/proc/none/x.onnx"], "cannot be written"),
        (["first", "--out=settings.yaml"], r"--out settings\.yaml: expected the name of a file that ends in \.onnx"),
    ],
)
def test_an_export_that_cannot_be_made_says_why(results, capsys, arguments, message):
    assert run(results, "export", *arguments) == 1
    assert_error(capsys, message)


def test_an_export_overwrites_another_file_only_with_force(results, tmp_path, capsys):
    out = tmp_path / "mine.onnx"
    out.write_text("mine")
    assert run(results, "export", "first", f"--out={out}") == 1
    assert_error(capsys, r"mine\.onnx exists already; choose another name, or overwrite it with --force")
    assert out.read_text() == "mine"
    assert run(results, "export", "first", f"--out={out}", "--force") == 0
    assert palaestra.load_policy(out).branches == (3,)


def assert_error(capsys, message):
    shown = capsys.readouterr().err
    assert shown.startswith("palaestra: error: ")
    assert re.search(message, shown), shown
    assert "Traceback" not in shown
