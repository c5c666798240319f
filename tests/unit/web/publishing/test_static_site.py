"""Recordings for a page: what is packed comes back, and what a page's folder has."""

import base64
import json
import zlib
from pathlib import Path

import numpy as np
import pytest
from small_runs import settings

import palaestra
from palaestra.core.errors import ConfigError, EnvError
from palaestra.runtime.play.run_models import find_models
from palaestra.runtime.playback.sources import PlaybackSource
from palaestra.web.publishing.recorded_episodes import Recorded, packed, recorded
from palaestra.web.publishing.static_site import SiteChoices, _can_play, publish


def test_packed_frames_come_back_within_the_steps_of_16_bits():
    rng = np.random.default_rng(0)
    frames = rng.normal(size=(5, 3, 11)).astype(np.float32)
    frames[..., 3:7] /= np.linalg.norm(frames[..., 3:7], axis=-1, keepdims=True)
    frames[..., 10] = rng.choice([0x010203, 0xFFFFFF], (5, 3))
    made = packed(Recorded(7, {}, frames, [float("nan"), 1.0, 1.0, 1.0, 2.0], 0.1))
    steps = np.frombuffer(zlib.decompress(base64.b64decode(made["data"]), 31), np.int16).reshape(5, 3, 11)
    numbers = np.cumsum(steps, axis=0, dtype=np.int16)  # wraps around as it was made
    scales = [made["place"]] * 3 + [1 / 32767] * 4 + [made["size"]] * 3
    np.testing.assert_allclose(numbers[..., :10] * scales, frames[..., :10], atol=2e-4)
    assert np.array(made["palette"])[numbers[..., 10]].tolist() == frames[..., 10].tolist()
    assert made["rewards"] == [None, 1.0, 1.0, 1.0, 2.0]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    results = tmp_path_factory.mktemp("results")
    tree = settings("Basic", 400, checkpoint_interval=200)
    palaestra.train(tree, env="Basic", run_id="first", results_dir=str(results), quiet=True)
    return results


def test_a_page_has_the_models_and_no_word_of_another_place(run: Path, tmp_path: Path):
    made = publish("first", tmp_path / "site", SiteChoices(areas=2, play=False), results=run)
    assert made.steps[-1] is None
    assert not made.plays
    assert (made.folder / "Basic.onnx").read_bytes() == (run / "first" / "Basic.onnx").read_bytes()
    text = (made.folder / "index.html").read_text()
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert str(run) not in text
    assert made.bytes == sum(file.stat().st_size for file in made.folder.rglob("*") if file.is_file())
    with pytest.raises(ConfigError, match="is there already"):
        publish("first", tmp_path / "site", SiteChoices(play=False), results=run)


def test_a_run_is_recorded_tick_by_tick(run: Path):
    found = recorded(PlaybackSource(run, run="first"), 2)
    assert found.frames.shape[1:] == (2 * 3, 11)  # an agent with two eyes in each of two areas
    assert len(found.rewards) == len(found.frames)
    assert found.seconds == pytest.approx(0.15)


def test_an_environment_without_solids_is_refused(tmp_path: Path):
    tree = settings("CartPole-v1", 64)
    palaestra.train(tree, env="gymnasium:CartPole-v1", run_id="pole", results_dir=str(tmp_path), quiet=True)
    with pytest.raises(EnvError, match="describe their solids"):
        publish("pole", tmp_path / "site", SiteChoices(play=False), results=tmp_path)


def test_only_a_published_page_is_replaced(run: Path, tmp_path: Path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "precious").write_text("text")
    for force in (False, True):
        with pytest.raises(ConfigError, match="is no published page"):
            publish("first", tmp_path / "mine", SiteChoices(play=False), results=run, force=force)
    assert (tmp_path / "mine" / "precious").read_text() == "text"
    for force in (False, True):
        publish("first", tmp_path / "site", SiteChoices(areas=1, play=False), results=run, force=force)
    assert (tmp_path / "site").stat().st_mode & 0o077 == (
        tmp_path / "mine"
    ).stat().st_mode & 0o077  # others may read it


def test_what_a_person_has_put_into_a_pages_folder_stays(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    site = Path(".")
    publish("first", site, SiteChoices(areas=1, play=False), results=run)
    assert (site / "index.html").is_file()
    (site / ".git").mkdir()
    (site / ".git" / "HEAD").write_text("main")
    (site / "CNAME").write_text("example.org")
    (site / "assets" / "old.js").write_text("earlier")
    names = json.loads((site / "assets" / "files.json").read_text())
    (site / "assets" / "files.json").write_text(json.dumps([*names, "assets/old.js", "../../here/CNAME", "/etc/none"]))
    publish("first", site, SiteChoices(areas=1, play=False), results=run, force=True)
    assert (site / ".git" / "HEAD").read_text() == "main"
    assert (site / "CNAME").read_text() == "example.org"
    assert not (site / "assets" / "old.js").exists()
    assert sorted(path.name for path in site.iterdir()) == [".git", "Basic.onnx", "CNAME", "assets", "index.html"]


def test_a_run_goes_before_a_folder_of_its_name_and_needs_its_own_environment(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "first").mkdir()
    assert publish("first", Path("site"), SiteChoices(areas=1, play=False), results=run).steps[-1] is None
    with pytest.raises(EnvError, match=r"CartPole has the behaviors CartPole, .* no model \(models: Basic\)"):
        publish("first", Path("other"), SiteChoices(env="CartPole", play=False), results=run)
    for wrong in (SiteChoices(areas=0), SiteChoices(steps=[-5])):
        with pytest.raises(ConfigError, match="expected"):
            publish("first", Path("other"), wrong, results=run)
    assert not Path("other").exists()


def test_a_policy_plays_only_where_the_browser_has_its_world_and_can_feed_it(run: Path, tmp_path: Path):
    assert _can_play("Basic", find_models("first", run))
    assert not _can_play("GridWorld", find_models("first", run))
    memory = {"memory_size": 8, "sequence_length": 4}
    tree = settings("Basic", 128, network_settings={"hidden_units": 8, "memory": memory})
    palaestra.train(tree, env="Basic", run_id="memory", results_dir=str(tmp_path), quiet=True)
    assert not _can_play("Basic", find_models("memory", tmp_path))
    drawn = {"sampler_type": "uniform", "sampler_parameters": {"min_value": 4, "max_value": 20}}
    tree = {**settings("3DBall", 128), "environment_parameters": {"gravity": drawn}}
    palaestra.train(tree, env="3DBall", run_id="drawn", results_dir=str(tmp_path), quiet=True)
    assert not _can_play("3DBall", find_models("drawn", tmp_path))
