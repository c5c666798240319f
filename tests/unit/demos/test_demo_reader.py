import struct
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import demo_files
import numpy as np
import pytest
from demo_files import HYBRID, columns, write
from PIL import Image

from palaestra.core.errors import DemoError, EmptyDemo
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.demos import DemoColumns, DemoMeta, read_demo, record_columns, record_file
from palaestra.demos.format import read_brain
from palaestra.wire.messages import message_class, varint

Pair = message_class("communicator_objects.AgentInfoActionPairProto")
Brain = message_class("communicator_objects.BrainParametersProto")
THEIRS = Path(__file__).parents[2] / "golden" / "data" / "demos" / "unity_package_4.0"
COLUMNS = ("reward", "group_reward", "done", "truncated", "id", "group", "mask", "continuous", "discrete", "acted")


@pytest.fixture
def small_blocks(monkeypatch):
    """Reads files in blocks of some hundred bytes, so that records cross their borders."""
    monkeypatch.setattr(record_file, "BLOCK", 700)


def same(one: DemoColumns, other: DemoColumns) -> bool:
    obs = all(np.array_equal(a, b) for a, b in zip(one.obs, other.obs, strict=True))
    return obs and all(np.array_equal(getattr(one, name), getattr(other, name)) for name in COLUMNS)


def rebuilt(path: Path, brain: Callable[[Any], object], pair: Callable[[Any], object] = lambda _: None) -> Path:
    """Writes a demonstration whose messages these functions have changed."""
    demo = read_demo(write(path, demo_files.episodes(3)))
    head = Brain.FromString(read_brain(path, path.read_bytes())[0])
    records = [Pair.FromString(raw) for raw in demo.file.raw(len(demo))]
    brain(head)
    for record in records:
        pair(record)
    messages = [message.SerializeToString() for message in (head, *records)]
    path.write_bytes(
        demo.meta.header() + b"".join(varint(len(message)) + message for message in messages) + demo.meta.to_bytes()
    )
    return path


def test_what_was_written_comes_back(tmp_path):
    records = list(demo_files.episodes(3, 5, mask=True))
    demo = read_demo(write(tmp_path / "x.demo", records))
    assert demo.meta == DemoMeta(1, "a demo", 10, 3, pytest.approx(8 * 0.5 / 3))
    assert (demo.key, demo.spec, demo.warnings) == ("Thing?team=2", HYBRID, ())
    for came, sent in zip(demo, records, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(came.obs, sent.obs, strict=True))
        np.testing.assert_array_equal(came.continuous, sent.continuous)
        np.testing.assert_array_equal(came.discrete, sent.discrete)
        assert (came.reward, came.group_reward, came.done, came.truncated, came.id) == (
            sent.reward,
            sent.group_reward,
            sent.done,
            sent.truncated,
            sent.id,
        )
        assert came.mask is not None
        np.testing.assert_array_equal(came.mask, np.ones(5, bool) if sent.mask is None else sent.mask)


def test_frames_read_what_reading_one_by_one_does(tmp_path, monkeypatch, small_blocks):
    demo = read_demo(write(tmp_path / "x.demo", demo_files.episodes(*[40] * 5, mask=True)))
    fast = list(demo.chunks())
    monkeypatch.setattr(record_columns, "_MAX_FRAMES", 0)
    slow = list(demo.chunks())
    assert len(fast) > 3
    assert all(same(one, other) for one, other in zip(fast, slow, strict=True))


def test_pairs_join_an_observation_with_the_next_records_action_within_an_episode(tmp_path, small_blocks):
    demo = read_demo(write(tmp_path / "x.demo", demo_files.episodes(30, 1, 40)))
    pairs = list(demo.pairs())
    assert len(pairs) > 2
    seen = np.concatenate([part.obs[0][:, 0] for part in pairs])
    np.testing.assert_array_equal(seen, [*range(1, 31), 32, *range(34, 74)])
    np.testing.assert_allclose(np.concatenate([part.continuous[:, 0] for part in pairs]), seen / 100, rtol=1e-6)
    np.testing.assert_array_equal(np.concatenate([part.discrete[:, 1] for part in pairs]), seen % 2)
    episode = np.concatenate([part.episode for part in pairs])
    np.testing.assert_array_equal(episode, [0] * 30 + [1] + [2] * 40)
    assert np.flatnonzero(np.concatenate([part.terminated for part in pairs])).tolist() == [29, 70]
    assert np.flatnonzero(np.concatenate([part.truncated for part in pairs])).tolist() == [30]
    assert sum(float(part.reward.sum()) for part in pairs) == 71 * 0.5


def test_episodes_are_complete_with_their_final_observation(tmp_path, small_blocks):
    demo = read_demo(write(tmp_path / "x.demo", demo_files.episodes(30, 0, 40, 2, open_last=True)))
    episodes = list(demo.episodes())
    assert [len(episode.pairs) for episode in episodes] == [30, 40, 2]
    assert [episode.ended for episode in episodes] == [True, True, False]
    assert [float(episode.final_obs[0][0]) for episode in episodes if episode.final_obs] == [31, 73, 76]
    assert episodes[1].pairs.episode.tolist() == [2] * 40


def test_images_come_back_from_pngs(tmp_path):
    spec = BehaviorSpec(
        (ObsSpec("grey", (1, 4, 5)), ObsSpec("five", (5, 4, 5)), ObsSpec("rgb", (3, 4, 5))), ActionSpec(0, (4,))
    )
    generator = np.random.default_rng(0)
    record = demo_files.record(1, first=True, spec=spec)
    images = tuple(generator.integers(0, 256, obs.shape).astype(np.float32) / 255 for obs in spec.obs)
    sent = type(record)(images, *[getattr(record, name) for name in list(record.__dataclass_fields__)[1:]])
    path = write(tmp_path / "x.demo", [sent], spec, images=("grey", "five", "rgb"))
    for came, image in zip(next(iter(read_demo(path))).obs, images, strict=True):
        np.testing.assert_allclose(came, image, atol=1e-6)
    assert path.read_bytes().count(b"\x89PNG") == 1 + 2 + 1


@pytest.mark.parametrize("lost", [1, 60, 500])
def test_a_file_that_is_cut_off_gives_its_complete_records_and_one_warning(tmp_path, lost):
    path = write(tmp_path / "x.demo", demo_files.episodes(5, 5, 5))
    whole = path.read_bytes()
    tail = len(read_demo(path).meta.to_bytes())
    size = (len(whole) - tail - len(head_of(path))) // 18
    path.write_bytes(whole[: len(whole) - tail - lost])
    demo = read_demo(path)
    (warning,) = demo.warnings
    left = 18 - -(-lost // size)
    assert len(demo) == len(columns(demo)) == left
    assert f"is cut off at byte {len(whole) - tail - lost}: its metadata counts 18 records; " in warning
    assert f"its {left} complete records are used ({18 - left} are lost)" in warning


def head_of(path: Path) -> bytes:
    """Returns the bytes before the records."""
    demo = read_demo(path)
    return path.read_bytes()[: demo.file.start]


@pytest.mark.parametrize("rest", ["", "half a record", "zeros"])
def test_a_recording_that_was_never_closed_has_all_of_its_complete_records(tmp_path, rest):
    whole = write(tmp_path / "x.demo", demo_files.episodes(20, open_last=True))
    head = head_of(whole)
    tail = len(read_demo(whole).meta.to_bytes())
    meta = DemoMeta(1, "a demo", 0, 0, 0.0)  # as Unity's recorder begins a file
    records = whole.read_bytes()[len(head) : -tail]
    more = {"": b"", "half a record": records[:50], "zeros": bytes(1000)}[rest]
    path = tmp_path / "killed.demo"
    path.write_bytes(meta.header() + head[33:] + records + more)
    demo = read_demo(path)
    assert len(demo) == 21
    (warning,) = demo.warnings
    assert "its metadata counts no records yet, as while it is recorded; its 21 complete records are used" in warning
    np.testing.assert_array_equal(columns(demo).reward, columns(read_demo(whole)).reward)
    assert [len(episode.pairs) for episode in demo.episodes()] == [20]


@pytest.mark.parametrize("name", ["Ball", "Coop", "Duel_0"])
def test_a_recording_of_unitys_package_without_its_closing_is_read_like_the_whole(tmp_path, name):
    whole = THEIRS / f"{name}.demo"
    head = head_of(whole)
    closed = read_demo(whole)
    path = tmp_path / "killed.demo"
    path.write_bytes(
        DemoMeta(1, "", 0, 0, 0.0).header() + head[33:] + whole.read_bytes()[len(head) : -len(closed.meta.to_bytes())]
    )
    assert same(columns(read_demo(path)), columns(closed))


def test_a_file_that_lost_only_its_tail_is_whole(tmp_path):
    path = write(tmp_path / "x.demo", demo_files.episodes(5, 5))
    path.write_bytes(path.read_bytes()[:-3])
    demo = read_demo(path)
    assert (len(demo), demo.warnings) == (12, ())


def test_a_recording_of_ours_that_was_killed_has_more_records_than_it_counted(tmp_path):
    writer = demo_files.DemoWriter(tmp_path / "x.demo", "x", "Thing", HYBRID)
    for record in demo_files.episodes(3, 2, 1, open_last=True):
        writer.write(record)
    writer._file.flush()  # as much as the system has of a killed process
    demo = read_demo(tmp_path / "x.demo.part")
    assert demo.meta.steps == 7
    assert len(demo) == len(columns(demo)) == 9
    (warning,) = demo.warnings
    assert "was never closed: its metadata counts 7 records; its 9 complete records are used" in warning
    writer.discard()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty: 0 bytes"),
        (b"\x89PNG\r\n\x1a\n" + bytes(100), r"not a demonstration file: it is a PNG image"),
        (b"PK\x03\x04" + bytes(100), "a zip archive"),
        (b"Hello, this is a text that somebody wrote, longer than a header is", "a text file"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n",
            "a Git LFS pointer; fetch the file itself",
        ),
        (bytes(100), "not a demonstration file"),
        (struct.pack("<B", 2) + b"\x08\x07" + bytes(100), "version 7 of the format"),
        (b"\x0e\x08\x01\x12\x01d", "cut off within its header: it has 6 bytes"),
    ],
)
def test_a_foreign_file_is_named_as_what_it_is(tmp_path, content, message):
    (tmp_path / "x.demo").write_bytes(content)
    with pytest.raises(DemoError, match=message):
        read_demo(tmp_path / "x.demo")


def test_a_file_that_ends_within_its_behavior_says_where(tmp_path):
    path = write(tmp_path / "x.demo", demo_files.episodes(2))
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(DemoError, match="cut off within its header: 40 bytes came; its behavior alone ends at byte"):
        read_demo(path)


def test_a_file_cut_off_before_its_first_record_is_empty(tmp_path):
    path = write(tmp_path / "x.demo", demo_files.episodes(2))
    path.write_bytes(path.read_bytes()[:90])
    with pytest.raises(EmptyDemo, match="cut off at byte 90 and had 3"):
        read_demo(path)


def test_a_missing_file_and_a_folder_are_errors(tmp_path):
    with pytest.raises(DemoError, match=r"none\.demo cannot be read: No such file"):
        read_demo(tmp_path / "none.demo")
    with pytest.raises(DemoError, match="is a folder"):
        read_demo(tmp_path)


def test_a_damaged_record_is_named(tmp_path):
    path = write(tmp_path / "x.demo", demo_files.episodes(5))
    content = bytearray(path.read_bytes())
    raw = list(read_demo(path).file.raw(6))
    at = content.find(raw[3], sum(map(len, raw[:3])))
    content[at : at + len(raw[3])] = b"\xff" * len(raw[3])
    path.write_bytes(content)
    with pytest.raises(DemoError, match=r"x.demo, record 3: its \d+ bytes \(ff ff .*\) are not a record"):
        list(read_demo(path).chunks())


def test_a_number_that_is_not_finite_is_an_error_in_pairs_and_kept_in_records(tmp_path):
    records = list(demo_files.episodes(4))
    records[2].obs[0][1] = np.nan
    demo = read_demo(write(tmp_path / "x.demo", records))
    assert np.isnan(columns(demo).obs[0][2, 1])
    with pytest.raises(DemoError, match=r"record 2: observation 0\[1\] is nan"):
        list(demo.pairs())


def test_an_observation_of_another_shape_is_named(tmp_path):
    path = write(tmp_path / "x.demo", demo_files.episodes(4))
    demo = read_demo(path)
    pair = Pair.FromString(list(demo.file.raw(len(demo)))[2])
    del pair.agent_info.observations[0].float_data.data[0]
    raw = pair.SerializeToString()
    content = path.read_bytes()
    old = list(demo.file.raw(len(demo)))[2]
    path.write_bytes(content.replace(bytes([len(old)]) + old, bytes([len(raw)]) + raw))
    with pytest.raises(DemoError, match="record 2: behavior 'Thing', agent 0: observation 'view' came as 2 numbers"):
        list(read_demo(path).chunks())


def test_an_unfinished_choice_is_named_as_damage(tmp_path):
    path = write(tmp_path / "x.demo", demo_files.episodes(3))
    content = bytearray(path.read_bytes())
    last = len(content) - len(read_demo(path).meta.to_bytes()) - 1
    content[last] |= 0x80  # the last byte of the last record's last choice: no frame may wait for more of it
    path.write_bytes(content)
    with pytest.raises(DemoError, match=r"record 3: its .* are not a record; the file is damaged"):
        columns(read_demo(path))


def test_impossible_choices_are_refused(tmp_path):
    def far(brain) -> None:
        brain.ClearField("action_spec")

    path = rebuilt(tmp_path / "x.demo", far, lambda pair: pair.action_info.discrete_actions.append(0x7FFFFFFF))
    with pytest.raises(DemoError, match="too many"):
        read_demo(path)


def test_out_of_range_choices_of_old_files_are_kept(tmp_path):
    def old(pair) -> None:
        pair.action_info.Clear()
        pair.action_info.vector_actions_deprecated.extend([0.5, 0.5, 1e30, float("nan")])

    found = columns(read_demo(rebuilt(tmp_path / "x.demo", lambda brain: None, old)))
    assert found.discrete[0].tolist() == [2**31, 0]


def legacy(size: tuple[int, ...], kind: int) -> Callable[[Any], None]:
    """Changes a behavior to the fields that files had before ML-Agents 1.0."""

    def change(brain: Any) -> None:
        brain.ClearField("action_spec")
        brain.vector_action_size_deprecated[:] = size
        brain.vector_action_space_type_deprecated = kind

    return change


def stores(*numbers: float, first: tuple[float, ...] | None = None) -> Callable[[Any], None]:
    """Changes every record's action to these numbers, and that of an episode's first record."""

    def change(pair: Any) -> None:
        own = first is not None and pair.agent_info.reward == 0
        pair.action_info.Clear()
        pair.action_info.vector_actions_deprecated.extend(first if own and first is not None else numbers)

    return change


def test_records_with_fewer_numbers_than_the_new_header_says_are_read_as_they_are(tmp_path):
    def fewer(brain: Any) -> None:
        brain.action_spec.Clear()
        brain.action_spec.num_continuous_actions = 3

    def alone(pair: Any) -> None:
        pair.action_info.discrete_actions[:] = []
        pair.action_info.continuous_actions[:] = [0.25, 0.5]

    demo = read_demo(rebuilt(tmp_path / "x.demo", fewer, alone))
    assert demo.spec.action == ActionSpec(2)
    assert columns(demo).continuous.tolist() == [[0.25, 0.5]] * 4


def test_records_whose_actions_differ_from_one_another_are_refused_by_their_counts(tmp_path):
    def some(pair: Any) -> None:
        stores(*((0.5,) if pair.agent_info.done else (0.5, 1.0)))(pair)

    demo = read_demo(rebuilt(tmp_path / "x.demo", legacy((1,), 1), some))
    with pytest.raises(
        DemoError, match="record 0 holds an action of 2 numbers; expected 1 continuous, as the file's header says"
    ):
        columns(demo)


def old_fields(**values: Any) -> bytes:
    """Returns a record of ML-Agents 0.6 to 0.11."""
    return message_class("palaestra.columns.OldRecord")(**values).SerializeToString()


def old_file(path: Path, records: list[bytes], brain: bytes, end: bool = True) -> Path:
    meta = DemoMeta(1, "old", len(records), 2, 0.0)
    messages = b"".join(varint(len(message)) + message for message in (brain, *records))
    path.write_bytes(meta.header() + messages + (meta.to_bytes() if end else b""))
    return path


@pytest.mark.parametrize("end", [True, False])
def test_records_without_pairs_of_the_first_releases_are_read(tmp_path, small_blocks, end):
    steps = 12  # those of an episode, whose last record shows the next episode's first observation
    records = [
        old_fields(
            stacked_vector_observation=[step, -step, 0.5] * 4,
            visual_observations=[png(step)],
            stored_vector_actions=[(step - 1) % 3],
            reward=1.0,
            done=step == steps,
            id=7,
            action_mask=b"\0\0\1",
        )
        for step in range(1, 2 * steps)
    ]
    brain = (
        b"\x08\x03\x10\x04"
        + Brain(brain_name="Old", vector_action_size_deprecated=[3]).SerializeToString()
        + b"\x22\x04\x08\x03\x10\x02"
    )
    demo = read_demo(old_file(tmp_path / "old.demo", records, brain, end))
    assert (demo.behavior, demo.spec.action, demo.warnings) == ("Old", ActionSpec(0, (3,)), ())
    assert [obs.shape for obs in demo.spec.obs] == [(3, 2, 3), (12,)]
    episodes = list(demo.episodes())
    assert [len(episode.pairs) for episode in episodes] == [steps - 1, steps - 1]
    for at, episode in zip((1, steps), episodes, strict=True):
        seen = at + np.arange(steps - 1)
        np.testing.assert_array_equal(episode.pairs.obs[1][:, 0], seen)
        np.testing.assert_array_equal(episode.pairs.obs[0][:, 0, 0, 0], (seen / np.float32(255)).astype(np.float32))
        np.testing.assert_array_equal(episode.pairs.discrete[:, 0], seen % 3)
        np.testing.assert_array_equal(episode.pairs.mask, [[True, True, False]] * (steps - 1))


def test_old_records_with_shapes_are_read(tmp_path):
    observation = message_class("communicator_objects.ObservationProto")(
        shape=[2], float_data={"data": [0.5, 2.0]}
    ).SerializeToString()
    records = [old_fields(observations=[observation], stored_vector_actions=[0.25 * step], id=7) for step in range(4)]
    brain = Brain(
        brain_name="Old", vector_action_size_deprecated=[1], vector_action_space_type_deprecated=1
    ).SerializeToString()
    (episode,) = read_demo(old_file(tmp_path / "old.demo", records, brain)).episodes()
    assert (episode.pairs.obs[0][0].tolist(), episode.pairs.continuous[:, 0].tolist()) == (
        [0.5, 2.0],
        [0.25, 0.5, 0.75],
    )


def png(shade: int) -> bytes:
    file = BytesIO()
    Image.fromarray(np.full((2, 3, 3), shade, np.uint8)).save(file, "png")
    return file.getvalue()


@pytest.mark.slow
def test_two_gigabytes_are_read_in_little_memory(tmp_path):
    import resource

    path = write(tmp_path / "x.demo", demo_files.episodes(*[100] * 20))
    demo = read_demo(path)
    body = path.read_bytes()[demo.file.start : -len(demo.meta.to_bytes())]
    times = 2_000_000_000 // len(body) + 1
    meta = DemoMeta(1, "big", len(demo) * times, 20 * times + 1, demo.meta.mean_reward)
    with (tmp_path / "big.demo").open("wb") as file:
        file.write(meta.header() + path.read_bytes()[33 : demo.file.start])
        for _ in range(times):
            file.write(body)
        file.write(meta.to_bytes())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert sum(map(len, read_demo(tmp_path / "big.demo").pairs())) == 2000 * times
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024
