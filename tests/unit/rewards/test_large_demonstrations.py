"""Demonstrations that are too large for memory lie in a file without a name, from which minibatches read their rows."""

import gc
import os
import subprocess
import sys
import textwrap
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from demo_files import HYBRID, episodes, record, write
from small_runs import contents, settings

import palaestra
from palaestra.core.errors import DemoError
from palaestra.core.files import scratch_file, scratch_in
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.demos import DemoMeta, read_demo, reader, record_file
from palaestra.envs.builtin.ball.env import Ball
from palaestra.rewards import demonstrations, expert_decisions
from palaestra.rewards.demonstrations import Demonstrations, load_demonstrations
from palaestra.rewards.expert_decisions import Decisions, StoredDecisions

CPU = torch.device("cpu")
PICTURES = BehaviorSpec((ObsSpec("camera", (3, 8, 9)), ObsSpec("number", (1,))), ActionSpec(1))


@pytest.fixture
def on_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """The folder of what does not fit into memory; nothing does."""
    monkeypatch.setattr(demonstrations, "HELD_AT_MOST", 0)
    with scratch_in(tmp_path / "scratch"):
        yield tmp_path / "scratch"
    assert os.listdir(tmp_path / "scratch") == []


def load(*paths: Path, spec: BehaviorSpec = HYBRID) -> Demonstrations:
    return load_demonstrations([str(path) for path in paths], spec, CPU)


def same(one: Decisions, other: Decisions) -> bool:
    columns = [(*each.obs, each.action.continuous, each.action.discrete) for each in (one, other)]
    assert (one.mask is None) == (other.mask is None)
    masks = one.mask is None or other.mask is None or torch.equal(one.mask, other.mask)
    return masks and all(map(torch.equal, *columns))


@pytest.mark.parametrize("system", ["this one", "one without pread"])
def test_rows_on_disk_are_those_in_memory_in_any_order(
    tmp_path: Path, on_disk: Path, monkeypatch: pytest.MonkeyPatch, system: str
):
    if system != "this one":  # Windows
        monkeypatch.delattr(os, "pread", raising=False)
    files = [
        write(tmp_path / "a.demo", episodes(30, 20, mask=True)),
        write(tmp_path / "b.demo", episodes(10, open_last=True)),
    ]
    stored = load(*files)
    assert isinstance(stored.decisions, StoredDecisions)
    monkeypatch.setattr(demonstrations, "HELD_AT_MOST", 1 << 30)
    held = demonstrations._load([read_demo(file) for file in files], HYBRID, CPU, "both", [])
    assert isinstance(held.decisions, Decisions)
    rows = torch.randperm(60, generator=torch.Generator().manual_seed(0))
    assert same(stored.decisions.take(rows), held.decisions.take(rows))
    assert torch.equal(stored.last, held.last)
    assert torch.equal(stored.ended, held.ended)
    monkeypatch.setattr(expert_decisions, "PART", 1000)
    parts = list(stored.decisions.parts())
    assert len(parts) > 3
    assert torch.equal(torch.cat([part.obs[1] for part in parts]), held.decisions.obs[1])


@pytest.mark.parametrize("exact", [True, False])
def test_images_take_a_byte_a_number_until_one_is_no_byte(tmp_path: Path, on_disk: Path, exact: bool):
    path = write(tmp_path / "x.demo", episodes(20, 20, spec=PICTURES), PICTURES)
    other = write(
        tmp_path / "y.demo",
        [record(1, first=True, spec=PICTURES), changed(record(2, done=True, spec=PICTURES), exact)],
        PICTURES,
    )
    last = write(
        tmp_path / "z.demo",
        [changed(record(9, first=True, spec=PICTURES), exact), record(10, done=True, spec=PICTURES)],
        PICTURES,
    )
    demo = load(path, other, last, spec=PICTURES)
    assert isinstance(demo.decisions, StoredDecisions)
    assert demo.decisions.row["obs0"].base == (np.uint8 if exact else np.float32)
    camera = demo.decisions.take(torch.arange(len(demo))).obs[0]
    expected = np.concatenate([pairs.obs[0] for file in (path, other, last) for pairs in read_demo(file).pairs()])
    assert np.array_equal(camera.numpy(), expected)


def changed(one: Any, exact: bool) -> Any:
    if not exact:
        object.__setattr__(one, "obs", (one.obs[0] + np.float32(0.001), one.obs[1]))
    return one


def test_a_scratch_file_has_no_name_and_needs_none_to_be_removed(tmp_path: Path):
    with scratch_in(tmp_path), scratch_file() as file:
        file.write(b"x")
        assert os.name == "nt" or os.listdir(tmp_path) == []
    assert os.listdir(tmp_path) == []


BC = {"trainer_type": "bc", "network_settings": {"hidden_units": 16, "num_layers": 1, "normalize": True}}
MEMORY = {"hidden_units": 16, "num_layers": 1, "memory": {"sequence_length": 8, "memory_size": 8}}
SAC = {
    "trainer_type": "sac",
    "hyperparameters": {"batch_size": 32, "buffer_size": 500, "buffer_init_steps": 64, "steps_per_update": 8},
}


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "kind", ["bc", pytest.param("cloning with memory and gail", marks=pytest.mark.slow), "sac and gail"]
)
def test_learning_from_disk_draws_the_same_digits_and_leaves_nothing_in_the_run(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    spec = Ball(1).behaviors["3DBall"]
    path = str(write(tmp_path / "x.demo", episodes(*[25] * 8, spec=spec), spec))
    gail = {"reward_signals": {"gail": {"demo_path": path, "network_settings": {"hidden_units": 16}}}}
    more: dict[str, Any] = {
        "bc": {**BC, "hyperparameters": {"batch_size": 16, "buffer_size": 64, "demo_path": path}},
        "cloning with memory and gail": {**gail, "behavioral_cloning": {"demo_path": path}, "network_settings": MEMORY},
        "sac and gail": {**SAC, **gail},
    }[kind]
    runs = []
    for name, held in (("memory", 1 << 30), ("disk", 0)):
        monkeypatch.setattr(demonstrations, "HELD_AT_MOST", held)
        palaestra.train(
            settings("3DBall", 256, **more),
            env="3DBall",
            run_id=name,
            results_dir=str(tmp_path),
            num_areas=8,
            seed=3,
            quiet=True,
        )
        gc.collect()
        runs.append(contents(tmp_path / name))
        assert not [file for file in runs[-1] if ".palaestra" in file]
    assert runs[0]["3DBall.onnx"] == runs[1]["3DBall.onnx"]


def test_a_run_goes_on_from_demonstrations_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(demonstrations, "HELD_AT_MOST", 0)
    spec = Ball(1).behaviors["3DBall"]
    path = str(write(tmp_path / "x.demo", episodes(*[25] * 4, spec=spec), spec))
    bc = {
        **BC,
        "hyperparameters": {
            "batch_size": 16,
            "buffer_size": 64,
            "demo_path": path,
            "learning_rate_schedule": "constant",
        },
    }
    given: dict[str, Any] = {"env": "3DBall", "results_dir": str(tmp_path), "num_areas": 8, "seed": 3, "quiet": True}
    palaestra.train(settings("3DBall", 256, **bc), run_id="whole", **given)
    palaestra.train(settings("3DBall", 128, **bc), run_id="parts", **given)
    palaestra.train(settings("3DBall", 256, **bc), run_id="parts", resume=True, **given)
    assert contents(tmp_path / "whole")["3DBall.onnx"] == contents(tmp_path / "parts")["3DBall.onnx"]


def test_files_that_two_parts_of_a_trainer_learn_from_are_read_once(tmp_path: Path, on_disk: Path):
    path = write(tmp_path / "x.demo", episodes(5))
    first = load(path)
    assert load(path) is first
    write(path, episodes(5, 5))
    assert len(load(path)) == 10


@pytest.mark.slow
def test_little_memory_is_taken_whatever_the_size(tmp_path: Path, on_disk: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(record_file, "BLOCK", 1 << 16)
    monkeypatch.setattr(expert_decisions, "PART", 1 << 16)
    monkeypatch.setattr(reader, "DECODED", 1 << 16)
    path = repeated(write(tmp_path / "x.demo", episodes(*[100] * 20)), tmp_path / "big.demo", 8_000_000)
    load(path)  # once, so that imports do not count
    tracemalloc.start()
    try:
        demo = load(path)
        for rows in torch.arange(len(demo)).split(1000):
            demo.decisions.take(rows)
        for _ in demo.decisions.parts():
            pass
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_500_000  # of 2 bytes a decision, and blocks
    assert isinstance(demo.decisions, StoredDecisions)


def test_small_pngs_of_large_pictures_are_decoded_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    spec = BehaviorSpec((ObsSpec("camera", (3, 200, 200)),), ActionSpec(1))
    path = write(tmp_path / "x.demo", episodes(40, spec=spec), spec, images=("camera",))
    assert path.stat().st_size < 200_000
    monkeypatch.setattr(reader, "DECODED", 1 << 20)
    assert max(len(chunk) for chunk in read_demo(path).chunks()) == 2


@pytest.mark.parametrize("memory", [10**12, 0])
def test_demonstrations_for_which_there_is_no_room_are_refused_by_name(
    tmp_path: Path, on_disk: Path, monkeypatch: pytest.MonkeyPatch, memory: int
):
    monkeypatch.setattr(demonstrations, "_free_on_disk", lambda folder: 1000)
    monkeypatch.setattr(demonstrations, "free_memory", lambda: memory)
    path = write(tmp_path / "x.demo", episodes(40))
    on_disk.mkdir()
    if memory:
        assert isinstance(load(path).decisions, Decisions)  # there is room in memory
        return
    with pytest.raises(DemoError) as error:
        load(path)
    assert f"demo_path {path}: its 41 decisions take " in str(error.value)
    assert "but 1.0 KiB are free" in str(error.value)
    assert "area" not in str(error.value)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is full")
def test_a_disk_that_fills_up_meanwhile_is_named(tmp_path: Path, on_disk: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(expert_decisions, "scratch_file", lambda: open("/dev/full", "wb", buffering=0))  # noqa: SIM115
    on_disk.mkdir()
    with pytest.raises(DemoError, match="cannot be put on disk: No space left"):
        load(write(tmp_path / "x.demo", episodes(40)))


def repeated(path: Path, big: Path, size: int) -> Path:
    """A demonstration with the records of `path` over and over, of that many bytes at least."""
    demo = read_demo(path)
    start = demo.file.start
    body = path.read_bytes()[start : -len(demo.meta.to_bytes())]
    times = size // len(body) + 1
    meta = DemoMeta(1, "big", len(demo) * times, demo.meta.episodes * times, 0.0)
    with big.open("wb") as file:
        file.write(meta.header() + path.read_bytes()[33:start])
        for _ in range(times):
            file.write(body)
        file.write(meta.to_bytes())
    return big


LEARNS = """
import resource, sys
import palaestra

path, kind, folder = sys.argv[1:]
trainer, hyper, rest = {
    "none": ("ppo", {}, {}),
    "bc": ("bc", {"demo_path": path}, {"network_settings": {"normalize": True}}),
    "bc with memory": (
        "bc", {"demo_path": path}, {"network_settings": {"memory": {"sequence_length": 16, "memory_size": 32}}}
    ),
    "cloning and gail": (
        "ppo", {}, {
            "behavioral_cloning": {"demo_path": path, "samples_per_update": 1000},
            "reward_signals": {"gail": {"demo_path": path}},
        }
    ),
    "sac and gail": (
        "sac", {"buffer_size": 5000, "buffer_init_steps": 100}, {"reward_signals": {"gail": {"demo_path": path}}}
    ),
}[kind]
size = {} if trainer == "sac" else {"buffer_size": 640}
block = {"trainer_type": trainer, "max_steps": 640, "hyperparameters": {"batch_size": 64, **size, **hyper}, **rest}
palaestra.train({"behaviors": {"3DBall": block}}, env="3DBall", num_areas=8, seed=1, results_dir=folder, quiet=True)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss differs")
@pytest.mark.parametrize("kind", ["bc", "bc with memory", "cloning and gail", "sac and gail"])
def test_half_a_gigabyte_is_learned_from_in_little_memory(tmp_path: Path, kind: str):
    spec = Ball(1).behaviors["3DBall"]
    small = write(tmp_path / "x.demo", episodes(*[100] * 20, spec=spec), spec)
    big = repeated(small, tmp_path / "big.demo", 500_000_000)
    peaks = []
    for name in ("none", kind):
        command = [sys.executable, "-c", textwrap.dedent(LEARNS), str(big), name, str(tmp_path / name)]
        peaks.append(
            int(subprocess.run(command, capture_output=True, text=True, check=True, timeout=600).stdout.split()[-1])
        )
    # MB: in what order millions of decisions are drawn; the numbers alone would be 250
    assert peaks[1] - peaks[0] < 200
