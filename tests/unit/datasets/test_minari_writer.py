from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from demo_files import HYBRID, episodes, record, write
from gymnasium import spaces
from minari_files import BOX, assert_same, dataset, episode, records, simple

from palaestra.core.errors import DemoError
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.datasets import minari_writer, read_demo
from palaestra.datasets.dataset_form import DatasetForm
from palaestra.datasets.minari_writer import DatasetFacts, write_demo, write_minari
from palaestra.rewards.demonstrations import load_demonstrations

PEER = os.environ.get("PALAESTRA_ORIGINAL")
VISUAL = BehaviorSpec((ObsSpec("cam/era", (3, 8, 8)), ObsSpec("v", (2,)), ObsSpec("w", (1,))), ActionSpec(0, (3,)))
NUMBERS = BehaviorSpec((ObsSpec("v", (2,)),), ActionSpec(2))
ODD = [
    record(1, first=True, id=4),
    record(2, id=4),
    record(3, id=4, done=True),
    record(4, first=True, id=4),
    record(5, id=4),  # without an end, then another agent
    record(6, first=True, id=9),
    record(300, id=9),  # an action that is no number of -1 to 1
    record(8, id=9, done=True, truncated=True),
]


def converted(source: Path, target: Path, data_format: str = "hdf5", form: DatasetForm | None = None) -> Path:
    """A file that was a dataset in between."""
    write_minari([read_demo(source)], "my/x-v0", DatasetFacts(data_format=data_format), form, force=True)
    return write_demo([read_demo("minari:my/x-v0")], target).path


@pytest.mark.parametrize("data_format", ["hdf5", "arrow", "parquet"])
@pytest.mark.parametrize(
    ("content", "spec"),
    [
        (list(episodes(3, 2, 4, mask=True)), HYBRID),
        (list(episodes(1, 5, spec=VISUAL, open_last=True)), VISUAL),
        (list(episodes(2, spec=NUMBERS)), NUMBERS),
        (ODD, HYBRID),
    ],
)
def test_a_file_that_becomes_a_dataset_and_a_file_again_has_the_same_bytes(tmp_path, content, spec, data_format):
    if data_format != "hdf5":
        pytest.importorskip("pyarrow")
    source = write(tmp_path / "x.demo", content, spec)
    assert converted(source, tmp_path / "y.demo", data_format).read_bytes() == source.read_bytes()
    one = read_demo(source)
    other = read_demo("minari:my/x-v0")
    assert (one.spec, one.key, one.name) == (other.spec, other.key, other.name)
    assert_same(records(one), records(other))


@pytest.mark.parametrize(
    ("observation", "action"),
    [
        (
            spaces.Box(-9, 999, (2,), np.float64),
            spaces.Box(np.array([-2, 0.1], np.float32), np.array([2, 0.7], np.float32)),
        ),
        (
            spaces.Dict([("v", spaces.Box(-9, 999, (1, 2), np.int32))]),
            spaces.Tuple([spaces.Box(-1, 1, (1,)), spaces.Box(0, 1, (1,))]),
        ),
    ],
)
def test_a_file_in_the_spaces_of_an_environment_comes_back_with_the_same_bytes(tmp_path, observation, action):
    source = write(tmp_path / "x.demo", episodes(4, 30, spec=NUMBERS), NUMBERS)
    assert (
        converted(source, tmp_path / "y.demo", form=DatasetForm(observation, action)).read_bytes()
        == source.read_bytes()
    )
    import minari

    first = minari.load_dataset("my/x-v0")[0]
    assert (
        first.observations[0] in observation
        if isinstance(observation, spaces.Box)
        else first.observations["v"].shape == (5, 1, 2)
    )


def test_a_dataset_that_becomes_a_file_and_a_dataset_again_is_the_same(tmp_path):
    import minari

    mask = np.array([[1, 1, 0], [1, 1, 1], [1, 0, 1], [1, 1, 1]], np.int8)
    theirs = simple("my/b-v0", episode(3, infos={"action_mask": mask}), episode(2, end=False, cut=True, start=4))
    write_demo([read_demo("minari:my/b-v0")], tmp_path / "x.demo")
    write_minari([read_demo(tmp_path / "x.demo")], "my/c-v0", DatasetFacts(), read_demo("minari:my/b-v0").form)
    ours = minari.load_dataset("my/c-v0")
    assert (ours.observation_space, ours.action_space) == (theirs.observation_space, theirs.action_space)
    for one, other in zip(theirs, ours, strict=True):
        for name in ("observations", "actions", "rewards", "terminations", "truncations"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    np.testing.assert_array_equal(ours[0].infos["action_mask"], mask)
    assert_same(records("minari:my/b-v0"), records("minari:my/c-v0"))


def test_files_are_joined_and_stay_apart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paths = [write(tmp_path / f"{i}.demo", episodes(2, open_last=True)) for i in range(2)]
    demos = [read_demo(path) for path in paths]
    assert write_minari(demos, "./both", DatasetFacts()).episodes == 2
    write_demo(demos, tmp_path / "both.demo")
    for source in (f"minari:{tmp_path / 'both'}", tmp_path / "both.demo"):
        assert [len(one.pairs) for one in read_demo(source).episodes()] == [2, 2]
    other = write(tmp_path / "other.demo", episodes(2), key="Other?team=0")
    with pytest.raises(DemoError, match=r"is of the behavior 'Other\?team=0', and .* of 'Thing\?team=2'"):
        write_demo([*demos, read_demo(other)], tmp_path / "all.demo")


def test_datasets_with_other_units_are_not_joined(tmp_path):
    wide, narrow = ({**episode(2), "actions": np.ones((2, 1), np.float32)} for _ in range(2))
    demos = []
    for id, high, one in (("my/b-v0", 2, wide), ("my/c-v0", 1, narrow)):
        dataset(id, BOX, spaces.Box(-high, high, (1,)), [one])
        demos.append(replace(read_demo(f"minari:{id}"), behavior="same"))
    with pytest.raises(DemoError, match=r"minari:my/c-v0 has other spaces.*\n  continuous actions   -1\.\.1   -2\.\.2"):
        write_minari(demos, "my/both-v0", DatasetFacts(), demos[0].form)


def test_a_conversion_that_fails_leaves_the_old_file(tmp_path):
    path = write(tmp_path / "x.demo", episodes(2))
    before = path.read_bytes()
    simple("my/b-v0", episode(2), episode(3))
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "datasets" / "my" / "b-v0" / "data" / "main_data.hdf5", "a") as file:
        del file["episode_1/actions"]
    with pytest.raises(DemoError, match="episode 1 cannot be read: no entry"):
        write_demo([read_demo("minari:my/b-v0")], path, force=True)
    assert path.read_bytes() == before
    assert sorted(each.name for each in tmp_path.iterdir()) == ["datasets", "x.demo"]


def test_metadata_say_who_played_what(root, tmp_path):
    import minari

    facts = DatasetFacts("Ada", "PPO", "Ten episodes", gymnasium.spec("CartPole-v1"))
    write_minari([read_demo(write(tmp_path / "x.demo", episodes(2)))], "my/deep/x-v3", facts)
    dataset = minari.load_dataset("my/deep/x-v3")
    assert dataset.recover_environment().spec.id == "CartPole-v1"
    metadata = dataset.storage.metadata
    assert (metadata["author"], metadata["algorithm_name"], metadata["description"]) == ({"Ada"}, "PPO", "Ten episodes")
    assert set(minari.list_local_datasets()) == {"my/deep/x-v3"}
    assert sorted(path.name for path in root.iterdir()) == ["my"]


def test_what_minari_cannot_store_is_said(tmp_path):
    demo = read_demo(write(tmp_path / "x.demo", episodes(2)))
    written = write_minari(
        [demo], "my/b-v0", DatasetFacts(env_spec=gymnasium.envs.registration.EnvSpec("A-v0", lambda: None))
    )
    assert "does not name its environment: Callable found" in written.notes[0]
    assert len(records("minari:my/b-v0")) == 3
    form = DatasetForm(spaces.Sequence(BOX), spaces.Discrete(3))
    entities = BehaviorSpec((ObsSpec("observation", (32, 3)),), ActionSpec(0, (3,)))
    demo = read_demo(write(tmp_path / "y.demo", episodes(2, spec=entities), entities))
    with pytest.raises(DemoError, match="Minari cannot store a Sequence"):
        write_minari([demo], "my/c-v0", DatasetFacts(), form)


def test_an_existing_dataset_is_only_overwritten_with_force(root, tmp_path):
    demo = read_demo(write(tmp_path / "x.demo", episodes(2)))
    simple("my/b-v0")
    with pytest.raises(DemoError, match=r"my/b-v0 exists already .*--force"):
        write_minari([demo], "my/b-v0", DatasetFacts())
    write_minari([demo], "my/b-v0", DatasetFacts(), force=True)
    assert read_demo("minari:my/b-v0").key == "Thing?team=2"
    (tmp_path / "important").mkdir()
    (tmp_path / "important" / "file").touch()
    with pytest.raises(DemoError, match="is no Minari dataset, so it is not overwritten"):
        write_minari([demo], str(tmp_path / "important"), DatasetFacts(), force=True)


@pytest.mark.parametrize("id", ["x", "x-v", "-v1/", "a b-v0", "n/x-v0", "my/x-v0/", "../x-v0", ""])
def test_an_id_that_minari_does_not_take_is_refused(tmp_path, id):
    from minari.dataset.minari_dataset import parse_dataset_id

    with pytest.raises((ValueError, TypeError)):
        parse_dataset_id(id)
    if id == "../x-v0":
        return  # a folder
    with pytest.raises(DemoError, match=r"is no id of a Minari dataset.* a namespace of two or more characters"):
        write_minari([read_demo(write(tmp_path / "x.demo", episodes(2)))], id, DatasetFacts())


def test_a_write_that_fails_leaves_nothing_and_the_old_dataset(root, tmp_path, monkeypatch):
    demo = read_demo(write(tmp_path / "x.demo", episodes(2, 3)))
    simple("my/b-v0")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(minari_writer, "_info", full)
    with pytest.raises(DemoError, match=r"the dataset my/b-v0 cannot be written to .*: the disk is full"):
        write_minari([demo], "my/b-v0", DatasetFacts(), force=True)
    assert len(records("minari:my/b-v0")) == 4
    assert sorted(path.name for path in (root / "my").iterdir()) == ["b-v0", "namespace_metadata.json"]


def test_a_limit_that_hdf5_would_crash_at_is_an_error_before(root, tmp_path):
    resource = pytest.importorskip("resource")
    demo = read_demo(write(tmp_path / "x.demo", episodes(*[90] * 20)))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
    try:
        with pytest.raises(DemoError, match="the file would be larger than is allowed here"):
            write_minari([demo], "my/b-v0", DatasetFacts())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list((root / "my").iterdir()) == []


def test_datasets_and_files_train_with_the_same_numbers(tmp_path):
    demo = read_demo(write(tmp_path / "x.demo", episodes(9, 5, mask=True, open_last=True)))
    write_minari([demo], "my/b-v0", DatasetFacts())
    one, other = (
        load_demonstrations(source, HYBRID, torch.device("cpu"))
        for source in (str(tmp_path / "x.demo"), "minari:my/b-v0")
    )
    torch.testing.assert_close([one.last, one.ended], [other.last, other.ended], rtol=0, atol=0)
    rows = torch.arange(len(one))
    a = one.decisions.take(rows)
    b = other.decisions.take(rows)
    for left, right in zip(
        [*a.obs, a.action.continuous, a.action.discrete, a.mask],
        [*b.obs, b.action.continuous, b.action.discrete, b.mask],
        strict=True,
    ):
        assert torch.equal(left, right)


@pytest.mark.skipif(not PEER, reason="PALAESTRA_ORIGINAL names no environment with the original")
def test_the_original_reads_a_file_that_was_a_dataset(tmp_path):
    simple("my/b-v0", episode(3), episode(2, end=False, cut=True))
    path = write_demo([read_demo("minari:my/b-v0")], tmp_path / "x.demo").path
    code = (
        "import sys; from mlagents.trainers.demo_loader import demo_to_buffer; spec, buffer = "
        "demo_to_buffer(sys.argv[1], 1);"
        "print(buffer.num_experiences, [o.shape for o in spec.observation_specs], spec.action_spec.discrete_branches)"
    )
    command = [str(Path(PEER or "") / "bin/python"), "-c", code, str(path)]
    assert (
        subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout.splitlines()[-1]
        == "6 [(2,)] (3,)"
    )


def test_numbers_that_are_no_values_of_the_spaces_are_refused(tmp_path):
    demo = read_demo(write(tmp_path / "x.demo", episodes(2, spec=NUMBERS), NUMBERS))
    with pytest.raises(
        DemoError, match=r"record 0: observation 'observation' is no value of .*Discrete\(2\).*\[1, 1\].*\[1, 0\]"
    ):
        write_minari([demo], "my/b-v0", DatasetFacts(), DatasetForm(spaces.Discrete(2), spaces.Box(-1, 1, (2,))))
    with pytest.raises(DemoError, match=r"the demonstration +the environment"):
        write_minari([demo], "my/b-v0", DatasetFacts(), DatasetForm(spaces.Box(-1, 1, (3,)), spaces.Box(-1, 1, (2,))))
    broken = list(episodes(3))
    broken[1].obs[0][0] = np.nan
    with pytest.raises(DemoError, match="record 1: observation 0"):
        write_minari([read_demo(write(tmp_path / "y.demo", broken))], "my/b-v0", DatasetFacts())


def test_records_without_a_decision_are_left_out_with_a_note(tmp_path):
    demo = read_demo(write(tmp_path / "x.demo", [*episodes(2), record(1, first=True, done=True, id=5)]))
    written = write_minari([demo], "my/b-v0", DatasetFacts())
    assert (written.episodes, written.steps) == (1, 2)
    assert "1 records without a decision were left out" in written.notes[0]


def test_demonstrations_load_from_our_environments_collected_by_minari(tmp_path, root):
    simple("my/b-v0", episode(3))
    path = root / "my" / "b-v0" / "data" / "metadata.json"
    metadata = json.loads(path.read_text())
    goal = {"type": "Box", "dtype": "float32", "shape": [2], "low": [-9, -9], "high": [9, 9]}
    env = gymnasium.envs.registration.EnvSpec("palaestra/Some-v0", "palaestra:nothing").to_json()
    path.write_text(json.dumps(metadata | {"env_spec": env, "observation_space": json.dumps(goal)}))
    demo = read_demo("minari:my/b-v0")
    assert demo.form.own
    assert demo.behavior == "Some"
    assert demo.spec == BehaviorSpec((ObsSpec("observation", (2,)),), ActionSpec(0, (3,)))


def test_a_missing_package_is_named_before_anything_is_written(tmp_path, monkeypatch):
    demo = read_demo(write(tmp_path / "x.demo", episodes(2)))
    monkeypatch.setitem(sys.modules, "minari.dataset.minari_storage", None)
    with pytest.raises(DemoError, match=r"pip install 'palaestra\[minari\]'"):
        write_minari([demo], "my/b-v0", DatasetFacts())
