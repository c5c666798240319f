import os
import subprocess
from pathlib import Path

import demo_files
import numpy as np
import pytest
from demo_files import HYBRID, record, write

from palaestra.core.errors import DemoError
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.demos import DemoWriter, free_path, read_demo
from palaestra.demos.format import read_brain
from palaestra.wire.messages import message_class

PEER = os.environ.get("PALAESTRA_ORIGINAL")
VECTOR = ObsSpec("v", (2,))


def test_the_header_counts_records_ends_and_rewards_as_unity_does(tmp_path):
    content = write(tmp_path / "x.demo", demo_files.episodes(2, 2)).read_bytes()
    meta = b"\x08\x01\x12\x06a demo\x18\x06\x20\x03\x2d" + np.float32(2 / 3).tobytes()
    assert content[:33] == (bytes([len(meta)]) + meta).ljust(33, b"\0")
    assert content.endswith(meta)


def test_the_sum_of_many_rewards_is_not_rounded(tmp_path):
    with DemoWriter(tmp_path / "x.demo", "x", "x", HYBRID) as writer:
        raw = writer.encode(record(1))
        for _ in range(20_000):
            writer.write_raw(raw, 0.1, done=False)
    assert writer.reward == pytest.approx(2_000, abs=1e-6)


@pytest.mark.parametrize(
    ("action", "sizes", "kind"),
    [(ActionSpec(2), [2], 1), (ActionSpec(0, (3, 2)), [3, 2], 0), (ActionSpec(1, (2,)), [], 0)],
)
def test_the_behavior_has_its_actions_in_the_new_field_and_where_they_fit_in_the_old(tmp_path, action, sizes, kind):
    spec = BehaviorSpec((VECTOR,), action)
    demo = read_demo(write(tmp_path / "x.demo", [record(1, first=True, spec=spec)], spec, "Ball"))
    brain = message_class("communicator_objects.BrainParametersProto").FromString(
        read_brain(demo.path, demo.path.read_bytes())[0]
    )
    assert brain.brain_name == "Ball?team=0"
    assert list(brain.vector_action_size_deprecated) == sizes
    assert brain.vector_action_space_type_deprecated == kind
    assert brain.action_spec.num_continuous_actions == action.continuous
    assert tuple(brain.action_spec.discrete_branch_sizes) == action.branches


def test_names_are_cleaned_and_cut_to_what_fits_the_header(tmp_path):
    with DemoWriter(tmp_path / "x.demo", "An Ångström's long-winded name_1", "Ball", HYBRID) as writer:
        writer.write(record(1, first=True))
    assert read_demo(tmp_path / "x.demo").meta.name == "An ngstrms long-"


def test_a_file_has_its_name_only_when_it_is_closed(tmp_path):
    writer = DemoWriter(tmp_path / "deep" / "x.demo", "x", "Ball", HYBRID)
    writer.write(record(1, first=True))
    assert not writer.path.exists()
    writer.close()
    writer.close()
    assert [path.name for path in writer.path.parent.iterdir()] == ["x.demo"]
    with pytest.raises(DemoError, match="is closed"):
        writer.write(record(2))


def interrupted(path, records):
    with DemoWriter(path, "x", "Ball", HYBRID) as writer:
        for each in records:
            writer.write(each)
        raise KeyboardInterrupt


def test_records_before_an_error_are_kept_and_no_file_remains_without_any(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        interrupted(tmp_path / "x.demo", [record(1, first=True)])
    assert len(read_demo(tmp_path / "x.demo")) == 1
    with pytest.raises(KeyboardInterrupt):
        interrupted(tmp_path / "y.demo", [])
    assert [path.name for path in tmp_path.iterdir()] == ["x.demo"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"obs": ()}, "agent 0, record 0: 0 observations received; expected 3"),
        (
            {"obs": (np.zeros(3), np.zeros((3, 2)), np.zeros(2))},
            r"observation 'things' has shape \(3, 2\); expected \(2, 2\)",
        ),
        ({"mask": np.ones(4, bool)}, "received a mask of 4 choices; expected 5"),
        (
            {"discrete": np.zeros(1, np.int64)},
            r"actions of shapes \(\(2,\), \(1,\)\); expected \(\(2,\), \(2,\)\)",
        ),
    ],
)
def test_a_record_that_does_not_fit_is_named(tmp_path, change, message):
    good = record(1)
    fields = {name: getattr(good, name) for name in good.__dataclass_fields__} | change
    with pytest.raises(DemoError, match=message), DemoWriter(tmp_path / "x.demo", "x", "Ball?team=1", HYBRID) as writer:
        writer.write(type(good)(**fields))


def test_only_images_can_be_pngs(tmp_path):
    with pytest.raises(DemoError, match="view cannot be PNGs"):
        DemoWriter(tmp_path / "x.demo", "x", "Ball", HYBRID, ["view"])


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is full")
def test_a_full_disk_is_an_error_that_names_the_remaining_file(tmp_path):
    (tmp_path / "x.demo.part").symlink_to("/dev/full")
    with pytest.raises(
        DemoError, match=r"x.demo cannot be written: No space left on device; the \d+ records before may be in"
    ):
        write(tmp_path / "x.demo", demo_files.episodes(*[100] * 100))


def test_free_paths_are_numbered_as_unity_does(tmp_path):
    for expected in ("Ball.demo", "Ball_0.demo", "Ball_1.demo"):
        path = free_path(tmp_path, "Ball")
        assert path.name == expected
        path.touch()


@pytest.mark.skipif(os.name == "nt", reason="links need a right there")
def test_a_link_to_nothing_is_no_free_path(tmp_path):
    (tmp_path / "Ball.demo.part").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "Ball_0.demo").symlink_to(tmp_path / "elsewhere")
    assert free_path(tmp_path, "Ball").name == "Ball_1.demo"


READ = """
import sys
from mlagents.trainers.demo_loader import demo_to_buffer, load_demonstration
for path in sys.argv[1:]:
    spec, pairs, total = load_demonstration(path)
    _, buffer = demo_to_buffer(path, 1)
    print(len(pairs), total, buffer.num_experiences,
          [o.shape for o in spec.observation_specs], spec.action_spec.continuous_size,
          spec.action_spec.discrete_branches)
"""


@pytest.mark.skipif(not PEER, reason="PALAESTRA_ORIGINAL names no environment with the original")
def test_the_original_reads_what_we_write(tmp_path):
    images = BehaviorSpec((ObsSpec("eye", (3, 8, 8)), ObsSpec("grid", (5, 4, 4))), ActionSpec(0, (4,)))
    files = [
        write(tmp_path / "a.demo", demo_files.episodes(3, 4, mask=True)),
        write(tmp_path / "b.demo", demo_files.episodes(3, spec=images), images, images=("eye", "grid")),
        write(tmp_path / "c.demo", demo_files.episodes(3, spec=images), images),
    ]
    command = [str(Path(PEER or "") / "bin/python"), "-c", READ, *map(str, files)]
    lines = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout.splitlines()
    assert lines[-3:] == [
        "9 9 8 [(3,), (2, 2), (2,)] 2 (3, 2)",
        "4 4 3 [(3, 8, 8), (5, 4, 4)] 0 (4,)",
        "4 4 3 [(3, 8, 8), (5, 4, 4)] 0 (4,)",
    ]
