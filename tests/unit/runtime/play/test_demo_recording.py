from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_envs import Scripted, spec_of, table

from palaestra.core.errors import DemoError
from palaestra.core.timestep import Action, FinalObs, TimeStep
from palaestra.demos import read_demo
from palaestra.runtime.play.demo_recording import DemoRecorder, record_demo


class Scene:
    """Tables that a test sets out, as an environment of one behavior with one number to see and one to give."""

    def __init__(self) -> None:
        self.behaviors = {"Ball": spec_of((1,), continuous=1)}


def seen(*values: float) -> torch.Tensor:
    return torch.tensor(values)[:, None]


def did(*values: float) -> dict[str, Action]:
    return {"Ball": Action(seen(*values), torch.zeros(len(values), 0, dtype=torch.int64))}


def with_columns(step: TimeStep, **columns: object) -> TimeStep:
    fields = {name: getattr(step, name) for name in step.__dataclass_fields__} | columns
    return TimeStep(**fields)  # type: ignore[arg-type]


def rows(path):
    return [
        (float(r.obs[0][0]), r.reward, round(float(r.continuous[0]), 4), r.done, r.truncated, r.id)
        for r in read_demo(path)
    ]


def test_records_are_timed_as_unity_times_them_and_episodes_stay_whole(tmp_path):
    recorder = DemoRecorder(Scene(), tmp_path / "x.demo")  # type: ignore[arg-type]
    recorder.note({"Ball": table(seen(1, 11))})
    recorder.decided(did(0.1, 0.5))
    recorder.note({"Ball": table(seen(2, 12), reward=[1, 5])})
    recorder.decided(did(0.2, 0.6))
    recorder.note({"Ball": table(seen(20, 13), reward=[2, 6], terminated=[0], final_obs=(seen(3),))})
    recorder.decided(did(0.3, 0.7))
    recorder.note({"Ball": table(seen(21, 30), reward=[3, 7], truncated=[1], final_obs=(seen(14),))})
    (path,) = recorder.close()
    assert rows(path) == [
        (1, 0, 0, False, False, 0),
        (2, 1, 0.1, False, False, 0),
        (3, 2, 0.2, True, False, 0),
        (11, 0, 0, False, False, 1),
        (12, 5, 0.5, False, False, 1),
        (13, 6, 0.6, False, False, 1),
        (14, 7, 0.7, True, True, 1),
        (20, 0, 0, False, False, 0),  # the longest that is open, as the last
        (21, 3, 0.3, False, False, 0),
    ]


def test_slots_that_do_not_act_are_not_recorded_and_keep_their_action(tmp_path):
    recorder = DemoRecorder(Scene(), tmp_path / "x.demo")  # type: ignore[arg-type]
    recorder.note({"Ball": table(seen(1))})
    recorder.decided(did(0.1))
    recorder.note({"Ball": table(seen(2), acting=[False])})
    recorder.decided(did(0.9))  # means nothing
    recorder.note({"Ball": table(seen(3), reward=[4])})
    (path,) = recorder.close()
    assert rows(path) == [(1, 0, 0, False, False, 0), (3, 4, 0.1, False, False, 0)]


def test_an_episode_that_is_lost_is_forgotten_and_another_takes_its_place(tmp_path):
    recorder = DemoRecorder(Scene(), tmp_path / "x.demo", 1)  # type: ignore[arg-type]
    recorder.note({"Ball": table(seen(1))})
    recorder.decided(did(0.1))
    recorder.note({"Ball": with_columns(table(seen(5)), lost=torch.tensor([True]))})
    recorder.decided(did(0.5))
    assert not recorder.done
    recorder.note({"Ball": table(seen(7), reward=[1], terminated=[0], final_obs=(seen(6),))})
    assert recorder.done
    (path,) = recorder.close()
    assert rows(path) == [(5, 0, 0, False, False, 0), (6, 1, 0.5, True, False, 0)]


def test_those_that_began_first_are_recorded_however_long_they_take(tmp_path):
    recorder = DemoRecorder(Scene(), tmp_path / "x.demo", 2)  # type: ignore[arg-type]
    recorder.note({"Ball": table(seen(1, 11))})
    for tick in range(3):  # slot 0 ends at once, again and again
        recorder.decided(did(0, 0))
        recorder.note({"Ball": table(seen(1, 12 + tick), terminated=[0], final_obs=(seen(2),))})
        assert not recorder.done
    recorder.decided(did(0, 0))
    recorder.note({"Ball": table(seen(1, 1), terminated=[1], final_obs=(seen(20),))})
    assert recorder.done
    (path,) = recorder.close()
    assert [row[0] for row in rows(path)] == [1, 2, 11, 12, 13, 14, 20]


def of_two_teams(out, **more):
    recorder = DemoRecorder(Scene(), out, **more)  # type: ignore[arg-type]
    recorder.note({"Ball": with_columns(table(seen(1, 11)), team=torch.tensor([0, 1]))})
    recorder.decided(did(0, 0))
    recorder.note({"Ball": with_columns(table(seen(2, 12)), team=torch.tensor([0, 1]))})
    return recorder.close()


def test_each_team_has_its_file(tmp_path):
    for out, names in (("x.demo", ["x.demo", "x-Ball-team1.demo"]), ("all", ["Ball.demo", "Ball-team1.demo"])):
        paths = of_two_teams(tmp_path / out)
        assert [path.name for path in paths] == names
        assert [read_demo(path).key for path in paths] == ["Ball?team=0", "Ball?team=1"]


def test_the_file_of_another_team_is_overwritten_only_with_force(tmp_path):
    (tmp_path / "x-Ball-team1.demo").write_text("mine")
    for force, name in ((False, "x-Ball-team1_0.demo"), (True, "x-Ball-team1.demo")):
        assert [path.name for path in of_two_teams(tmp_path / "x.demo", force=force)] == ["x.demo", name]


@pytest.mark.parametrize("group", [4, (3 << 32) | 4], ids=("", "of a game's copy"))
def test_masks_and_groups_are_recorded(tmp_path, group: int):
    scene = Scene()
    scene.behaviors = {"Ball": spec_of((1,), branches=(2, 2))}
    recorder = DemoRecorder(scene, tmp_path / "x.demo")  # type: ignore[arg-type]
    mask = torch.tensor([[True, False, True, True]])
    recorder.note(
        {"Ball": with_columns(table(seen(1), mask=mask), group=torch.tensor([group]), group_reward=torch.tensor([9.0]))}
    )
    recorder.decided({"Ball": Action(torch.zeros(1, 0), torch.tensor([[0, 1]]))})
    ended = table(seen(1), terminated=[0], final_obs=(seen(2),), mask=mask)
    recorder.note({"Ball": with_columns(ended, group=torch.tensor([group]), group_reward=torch.tensor([3.0]))})
    first, last, *_ = read_demo(recorder.close()[0])
    assert first.mask.tolist() == mask[0].tolist()
    assert (first.group, last.group, first.group_reward, last.group_reward) == (5, 5, 0.0, 3.0)
    assert last.discrete.tolist() == [0, 1]


def test_an_accelerators_ends_have_a_row_for_every_slot(tmp_path):
    recorder = DemoRecorder(Scene(), tmp_path / "x.demo", 1)  # type: ignore[arg-type]
    recorder.note({"Ball": table(seen(1, 11))})
    recorder.decided(did(0, 0))
    ended = table(seen(1, 11), terminated=[0], final_obs=(seen(2),))
    recorder.note({"Ball": with_columns(ended, final_obs=FinalObs(torch.arange(2), (seen(2, 12),)))})
    assert rows(recorder.close()[0])[1][0] == 2


def test_pairs_of_a_recording_are_what_the_agents_saw_and_did(tmp_path):
    env = Scripted({"A": {"slots": 5}, "B": {"slots": 2, "losses": 0.05}})
    seen_and_done: set[bytes] = set()

    def act(steps):
        actions = {}
        for name, step in steps.items():
            place, time = step.obs
            continuous = torch.stack([place[:, 0] / 1000, place[:, 1] / 10], 1)
            discrete = torch.stack([place[:, 0].long() % 2, place[:, 1].long() % 2], 1)
            actions[name] = Action(continuous, discrete)
            seen_and_done.update(row.numpy().tobytes() for row in torch.cat([place, time, continuous, discrete], 1))
        return actions

    recorder = DemoRecorder(env, tmp_path, 8)
    record_demo(env, recorder, act, lambda steps: None, seed=1)
    files = recorder.close()
    assert [path.name for path in files] == ["A.demo", "B.demo"]
    for path in files:
        demo = read_demo(path)
        assert (demo.meta.episodes, demo.warnings) == (9, ())
        for pairs in demo.pairs():
            both = np.concatenate([*pairs.obs, pairs.continuous, pairs.discrete], 1).astype(np.float32)
            assert {row.tobytes() for row in both} <= seen_and_done


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
def test_a_full_disk_is_said_once_while_an_episode_is_still_open(tmp_path):
    (tmp_path / "x.demo.part").symlink_to("/dev/full")
    recorder = DemoRecorder(Scene(), tmp_path / "x.demo")  # type: ignore[arg-type]
    recorder.note({"Ball": table(seen(1, 11))})
    recorder.decided(did(0.1, 0.5))
    with pytest.raises(DemoError, match="No space left on device"):
        recorder.note({"Ball": table(seen(20, 12), terminated=[0], final_obs=(seen(3),))})
    assert recorder.close() == []


def test_without_a_decision_no_file_takes_the_place_of_another(tmp_path):
    (tmp_path / "x.demo").write_bytes(b"recorded before")
    recorder = DemoRecorder(Scene(), tmp_path / "x.demo")  # type: ignore[arg-type]
    recorder.note({"Ball": table(seen(1, 11))})
    assert recorder.close() == []
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"recorded before"]
