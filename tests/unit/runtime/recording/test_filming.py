import imageio_ffmpeg
import numpy as np
import pytest
import torch
from PIL import Image
from small_runs import settings
from tiny_envs import Scripted

import palaestra
from palaestra.core.errors import ConfigError, EnvError, RunError
from palaestra.core.timestep import Action
from palaestra.runtime.playback.tally import Tally
from palaestra.runtime.recording.filming import find_sources, reward_text


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A folder with the run 'first', which has models of three steps."""
    folder = tmp_path_factory.mktemp("results")
    tree = settings("Basic", checkpoint_interval=100, keep_checkpoints=5)
    palaestra.train(tree, env="Basic", run_id="first", results_dir=str(folder), num_areas=4, seed=1, quiet=True)
    return folder


def steps_of(results):
    return sorted(int(file.stem.rpartition("-")[2]) for file in (results / "first" / "Basic").glob("Basic-*.onnx"))


def test_models_of_several_steps_are_recorded_side_by_side_in_a_video(results, tmp_path):
    steps = steps_of(results)[:3]
    assert len(steps) == 3
    film = {"seconds": 0.5, "fps": 10, "width": 301}
    made = palaestra.record("first", tmp_path / "x.mp4", steps=steps, results_dir=results, **film)
    assert (made.pictures, made.seconds, made.notes) == (5, 0.5, ())
    assert imageio_ffmpeg.count_frames_and_secs(str(made.file)) == (5, 0.5)


def test_the_nearest_models_are_taken_and_named_in_titles_and_notes(results):
    first, second, *_ = steps_of(results)
    sources, notes = find_sources(["first"], [first + 3, second], results)
    assert [source.title for source in sources] == [f"step {first:,}", f"step {second:,}"]
    assert notes == [f"first has no model of step {first + 3:,}: the nearest is of step {first:,}"]
    both, _ = find_sources(["first", str(results / "first")], [first], results)
    assert both[1].title == f"first step {first:,}"


def test_several_runs_and_earlier_steps_lie_side_by_side_in_a_gif(results, tmp_path):
    step = steps_of(results)[0]
    made = palaestra.record(
        [f"first@{step}", "first"], tmp_path / "x.gif", seconds=0.3, results_dir=results, titles=False
    )
    with Image.open(made.file) as gif:
        assert gif.width == 640
        assert gif.n_frames <= 3


def test_titles_can_be_left_out_or_chosen(results, tmp_path):
    sizes = {}
    for name, film in {"none": {"titles": False}, "usual": {}, "own": {"title": "My robot"}}.items():
        with Image.open(
            palaestra.record("first", tmp_path / f"{name}.gif", seconds=0.1, results_dir=results, **film).file
        ) as gif:
            sizes[name] = gif.height, np.asarray(gif.convert("RGB"))[:30]
    assert sizes["none"][0] < sizes["usual"][0] == sizes["own"][0]
    assert (sizes["usual"][1] != sizes["own"][1]).any()


def test_only_the_episodes_of_areas_that_are_shown_count():
    env = palaestra.make("Basic", areas=16)
    everything, seen = Tally(), Tally(2)
    steps = env.reset(0)
    move = Action(torch.zeros(16, 0), torch.full((16, 1), 2))
    for tick in range(20):
        for tally in (everything, seen):
            tally.note(steps, first=tick == 0)
        steps = env.step({"Basic": move})
    count = everything.scores["Basic", 0].episodes
    assert count >= 16
    assert seen.scores["Basic", 0].episodes == count / 8
    assert reward_text(seen, steps).endswith(f"({count // 8} episode{'s' if count > 8 else ''})")


def test_mistakes_are_named(results, tmp_path):
    with pytest.raises(ConfigError, match="no argument 'second'; did you mean 'seconds'"):
        palaestra.record("first", tmp_path / "x.gif", results_dir=results, second=3)
    with pytest.raises(ConfigError, match="at most 16"):
        palaestra.record(["first"] * 17, tmp_path / "x.gif", results_dir=results)
    with pytest.raises(RunError, match="there is no run 'frist'"):
        palaestra.record("frist", tmp_path / "x.gif", results_dir=results)
    with pytest.raises(EnvError, match="draws in its own window"):
        palaestra.record("first", tmp_path / "x.gif", results_dir=results, env="Game.x86_64")
    with pytest.raises(EnvError, match=r"^\./catch\.py plays in a process of its own.* env=\"python:catch:FACTORY\"$"):
        palaestra.record("first", tmp_path / "x.gif", results_dir=results, env="./catch.py")


def test_the_reward_is_of_open_episodes_until_some_have_ended():
    env = Scripted({"A": {"slots": 2}})
    tally = Tally()
    steps = env.reset(0)
    tally.note(steps, first=True)
    assert reward_text(tally, steps) == "reward so far 0.00"
    for _ in range(200):
        steps = env.step({})
        tally.note(steps)
        if tally.scores:
            break
    score = tally.scores["A", 0]
    assert (
        reward_text(tally, steps)
        == f"reward {score.mean:.2f} ({score.episodes} episode{'' if score.episodes == 1 else 's'})"
    )
