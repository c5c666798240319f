import json
import math
import os
import random
import struct
import subprocess
import sys
from typing import Any

import pytest
import safetensors.torch
import torch

from palaestra.core.errors import CheckpointError, RunError
from palaestra.runtime.storage.checkpoints import Checkpoints

DTYPES = (
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
)


def assert_same(left: Any, right: Any) -> None:
    assert type(left) is type(right)
    if isinstance(left, torch.Tensor):
        assert left.dtype == right.dtype
        assert left.shape == right.shape
        whole = [one.contiguous().reshape(-1).view(torch.uint8) for one in (left, right)]
        assert torch.equal(*whole)
    elif isinstance(left, dict):
        assert [*left] == [*right]
        assert [*map(type, left)] == [*map(type, right)]
        for key in left:
            assert_same(left[key], right[key])
    elif isinstance(left, (list, tuple)):
        assert len(left) == len(right)
        for a, b in zip(left, right, strict=True):
            assert_same(a, b)
    elif isinstance(left, float):
        assert struct.pack("d", left) == struct.pack("d", right)
    else:
        assert left == right


def random_state(rng: random.Random, depth: int = 0) -> Any:
    kind = rng.randrange(6 if depth == 3 else 10)
    if kind == 0:
        shape = [rng.randrange(4) for _ in range(rng.randrange(4))]
        tensor = torch.randint(0, 2 if rng.random() < 0.5 else 100, shape).to(rng.choice(DTYPES))
        return tensor.t() if tensor.dim() == 2 else tensor
    if kind == 1:
        return rng.choice([None, True, False, "", "é\n$tensor", "\ud800", "plain"])
    if kind == 2:
        return rng.choice([0, -1, 2**63, -(2**63), 2**63 - 1, 10**5000, rng.getrandbits(40)])
    if kind == 3:
        return rng.choice([0.0, -0.0, 0.1, 5e-324, math.inf, -math.inf, math.nan, -math.nan, rng.random()])
    if kind == 4:
        return struct.unpack("d", b"\x01\x02\x03\x04\x05\x06\xf8\x7f")[0]
    items = [random_state(rng, depth + 1) for _ in range(rng.randrange(5))]
    if kind in (5, 6):
        return items
    if kind == 7:
        return tuple(items)
    names = ["a", "$tensor", "a.b", "__metadata__", "", 0, 1, -7, "1", "ü", *(["a"] if kind == 8 else [])]
    return {rng.choice(names): item for item in items}


def a_state(number: float = 1.0) -> dict[str, Any]:
    run = {"rng": torch.arange(16, dtype=torch.uint8), "number": number}
    return {"run": run, "3DBall": {"w": torch.full((300,), number)}}


@pytest.mark.parametrize("seed", range(40))
def test_any_structure_comes_back_equal(tmp_path, seed):
    rng = random.Random(seed)
    state = {"run": random_state(rng), "3DBall": [random_state(rng) for _ in range(8)]}
    Checkpoints(tmp_path, keep=5).save(3, state)
    assert_same(Checkpoints(tmp_path, keep=5).load().state, state)


def test_an_optimizer_goes_on_as_before(tmp_path):
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(3)).sum().backward()
    optimizer.step()
    Checkpoints(tmp_path, keep=5).save(1, {"run": optimizer.state_dict()})
    assert_same(Checkpoints(tmp_path, keep=5).load().state["run"], optimizer.state_dict())


def test_tensors_that_share_memory_come_back_each_on_its_own(tmp_path):
    base = torch.arange(6.0)
    Checkpoints(tmp_path, keep=5).save(1, {"run": {"all": base, "part": base[2:4], "again": base}})
    loaded = Checkpoints(tmp_path, keep=5).load().state["run"]
    loaded["all"].zero_()
    assert loaded["part"].tolist() == [2.0, 3.0]
    assert loaded["again"].tolist() == base.tolist()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_cuda_tensors_come_back_on_the_cpu(tmp_path):
    Checkpoints(tmp_path, keep=5).save(1, {"run": torch.arange(3.0, device="cuda")})
    assert_same(Checkpoints(tmp_path, keep=5).load().state["run"], torch.arange(3.0))


def test_the_files_are_plain_safetensors(tmp_path):
    path = Checkpoints(tmp_path, keep=5).save(1, {"run": {"net": {"w": torch.ones(2, 3), "flag": torch.tensor(True)}}})
    tensors = safetensors.torch.load_file(path / "run.safetensors")
    assert_same(dict(sorted(tensors.items())), {"net.flag": torch.tensor(True), "net.w": torch.ones(2, 3)})


@pytest.mark.parametrize(
    "name", ["../up", "a/b", "a\\b", "CON", "con", "..", " ", "", "x" * 300, "日本", "B?team=1", "run "]
)
def test_odd_behavior_names_stay_inside_the_folder_and_come_back(tmp_path, name):
    path = Checkpoints(tmp_path / "checkpoints", keep=5).save(1, {"run": 1, name: {"w": torch.ones(1)}})
    assert set(Checkpoints(tmp_path / "checkpoints", keep=5).load().state) == {"run", name}
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoints"]
    assert len([*path.iterdir()]) == 3


def test_names_that_differ_only_in_case_have_files_of_their_own(tmp_path):
    Checkpoints(tmp_path, keep=5).save(1, {"Ball": 1, "ball": 2, "BALL": 3})
    assert Checkpoints(tmp_path, keep=5).load().state == {"Ball": 1, "ball": 2, "BALL": 3}
    assert len({path.name.casefold() for path in (tmp_path / "1").iterdir()}) == 4


@pytest.mark.parametrize(
    ("value", "message"),
    [({"a": {1, 2}}, "a is a set"), ({"a": {1.5: 0}}, "key 1.5"), (torch.ones(1).to_sparse(), "sparse")],
)
def test_what_cannot_be_saved_is_named_and_nothing_is_left(tmp_path, value, message):
    checkpoints = Checkpoints(tmp_path, keep=5)
    with pytest.raises(TypeError, match=message):
        checkpoints.save(1, {"run": value})
    assert [*tmp_path.iterdir()] == []


def test_the_newest_are_kept(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=2)
    for step in (5, 10, 100, 1000):
        checkpoints.save(step, a_state(step))
    assert checkpoints.steps() == [100, 1000]
    assert checkpoints.load(100).state["run"]["number"] == 100


@pytest.mark.parametrize("keep", [0, -1])
def test_all_are_kept_where_none_is_to_go(tmp_path, keep):
    checkpoints = Checkpoints(tmp_path, keep)
    for step in range(8):
        checkpoints.save(step, {"run": step})
    assert checkpoints.steps() == [*range(8)]


def test_saving_a_step_again_replaces_it(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=3)
    checkpoints.save(7, a_state(1))
    checkpoints.save(7, a_state(2))
    assert checkpoints.load().state["run"]["number"] == 2
    assert [path.name for path in tmp_path.iterdir()] == ["7"]


def test_going_back_to_an_earlier_step_drops_the_abandoned_later_ones(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=2)
    for step in (10, 20, 30):
        checkpoints.save(step, {"run": step})
    checkpoints.save(25, {"run": 25})
    assert checkpoints.steps() == [20, 25]
    assert checkpoints.load().step == 25


def test_a_killed_writers_leftovers_go_at_the_next_save(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=3)
    checkpoints.save(1, a_state(1))
    (tmp_path / "1").rename(tmp_path / ".1.old-4194305")  # by a process that is gone: numbers end at 4194304
    for name in (".2.tmp-4194305", ".0.gone-4194305"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.safetensors").write_bytes(b"half")
    assert checkpoints.load().state["run"]["number"] == 1
    checkpoints.save(2, a_state(2))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "2"]
    assert checkpoints.load(1).state["run"]["number"] == 1


def test_the_folder_of_a_writer_that_is_alive_is_left_alone_unless_nobody_else_can_be_writing(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=3)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        hidden = tmp_path / f".5.tmp-{other.pid}"
        hidden.mkdir()
        (hidden / "run.safetensors").write_bytes(b"half")
        checkpoints.save(1, a_state())
        assert (hidden / "run.safetensors").exists()
        os.utime(hidden, (0, 0))  # the process is younger: it only has the same id
        checkpoints.save(2, a_state())
        assert not hidden.exists()
        hidden.mkdir()
        checkpoints.sweep(alone=True)
        assert not hidden.exists()
        other.communicate()


def test_a_manifest_that_is_nested_beyond_all_bounds_is_passed_over(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=5)
    checkpoints.save(1, a_state())
    (checkpoints.save(2, a_state()) / "manifest.json").write_text("[" * 200_000)
    loaded = checkpoints.load()
    assert loaded.step == 1
    assert "nested too deeply" in loaded.warnings[0]


@pytest.mark.parametrize("file", ["manifest.json", "run.safetensors", "3DBall.safetensors"])
def test_any_flipped_bit_and_any_cut_is_noticed(tmp_path, file):
    checkpoints = Checkpoints(tmp_path, keep=5)
    checkpoints.save(1, a_state(1))
    checkpoints.save(2, a_state(2))
    target = tmp_path / "2" / file
    rng = random.Random(1)
    whole = target.read_bytes()
    for _ in range(40):
        at = rng.randrange(len(whole))
        flipped = whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1 :]
        target.write_bytes(rng.choice([flipped, whole[:at]]))
        loaded = checkpoints.load()
        assert_same(loaded.state, a_state(loaded.step))
        if file == "manifest.json":  # a blank of JSON may change without a meaning
            assert bool(loaded.warnings) == (loaded.step == 1)
        else:
            assert loaded.step == 1
            assert str(tmp_path / "2") in loaded.warnings[0]
            assert file in loaded.warnings[0]


def test_a_missing_part_is_named(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=5)
    checkpoints.save(1, a_state())
    (tmp_path / "1" / "3DBall.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"no usable checkpoint.*--force\n.*3DBall\.safetensors is missing"):
        checkpoints.load()


def test_a_named_step_is_never_replaced_by_another(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=5)
    checkpoints.save(1, a_state())
    (checkpoints.save(2, a_state()) / "manifest.json").write_bytes(b"{}")
    with pytest.raises(CheckpointError, match="use one of the others: 1"):
        checkpoints.load(2)
    with pytest.raises(CheckpointError, match=r"no checkpoint of step 3 .*there are: 1, 2"):
        checkpoints.load(3)


def test_an_empty_folder_says_what_to_do(tmp_path):
    with pytest.raises(CheckpointError, match="none was saved there yet"):
        Checkpoints(tmp_path / "none", keep=5).load()


def test_a_newer_schema_is_refused_with_the_version_that_wrote_it(tmp_path):
    manifest = Checkpoints(tmp_path, keep=5).save(1, a_state()) / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "schema": 99, "palaestra": "9.9"}))
    with pytest.raises(CheckpointError, match=r"newer Palaestra 9\.9 \(schema 99"):
        Checkpoints(tmp_path, keep=5).load()


def test_a_file_in_the_way_is_a_clear_error(tmp_path):
    (tmp_path / "checkpoints").write_text("in the way")
    with pytest.raises(RunError, match="a file stands where a folder is needed"):
        Checkpoints(tmp_path / "checkpoints", keep=5).save(1, a_state())


LIMITED = """
import resource, sys, torch
from pathlib import Path
from palaestra.core.errors import RunError
from palaestra.runtime.storage.checkpoints import Checkpoints
checkpoints = Checkpoints(Path(sys.argv[1]), keep=1)
checkpoints.save(1, {"run": torch.ones(100)})
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
try:
    checkpoints.save(2, {"run": torch.ones(100), "B": torch.ones(100_000)})
except RunError as error:
    print(error)
"""


def test_a_write_that_fails_midway_leaves_the_old_checkpoints_and_no_rubbish(tmp_path):
    pytest.importorskip("resource")
    command = [sys.executable, "-c", LIMITED, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "cannot write the checkpoint of step 2" in done.stdout
    assert "larger than is allowed" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["1"]
    assert Checkpoints(tmp_path, keep=1).load().step == 1


KILLER = """
import os, random, signal, sys, time, torch
from pathlib import Path
from palaestra.runtime.storage.checkpoints import Checkpoints
torch.set_num_threads(1)
folder, rng, step = Path(sys.argv[1]), random.Random(5), 0
def save(at):
    Checkpoints(folder, keep=2).save(at, {"run": at, "B": [torch.full((2000,), float(at)) for _ in range(5)]})
save(0)
for round in range(40):
    done, told = os.pipe()
    child = os.fork()
    if not child:
        os.write(told, step.to_bytes(8, "big"))
        for at in range(step, step + 1000):  # the first save replaces the last round's
            save(at)
            os.write(told, at.to_bytes(8, "big"))
    os.read(done, 8)
    time.sleep(rng.random() * 0.06)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(told)
    while data := os.read(done, 8):
        step = int.from_bytes(data, "big")
    os.close(done)
    loaded = Checkpoints(folder, keep=2).load()
    assert loaded.warnings == (), loaded.warnings
    assert loaded.step >= step, (loaded.step, step)
    step = loaded.step
    assert loaded.state["run"] == step
    assert all(tensor.eq(step).all() for tensor in loaded.state["B"])
print("survived", step)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
def test_a_writer_killed_at_any_moment_leaves_a_whole_checkpoint(tmp_path):
    done = subprocess.run([sys.executable, "-c", KILLER, str(tmp_path)], capture_output=True, text=True, timeout=300)
    assert "survived" in done.stdout, done.stderr
