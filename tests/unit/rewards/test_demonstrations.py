from pathlib import Path

import demo_files
import numpy as np
import pytest
import torch
from demo_files import HYBRID, episodes, record, write

from palaestra.core.errors import DemoError
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.rewards import demonstrations
from palaestra.rewards.demonstrations import Demonstrations, load_demonstrations
from palaestra.rewards.expert_decisions import Decisions, StoredDecisions

CPU = torch.device("cpu")


def load(demo_path: str | list[str], spec: BehaviorSpec = HYBRID) -> Demonstrations:
    return load_demonstrations(demo_path, spec, CPU)


def shown(demo: Demonstrations) -> Decisions:
    """All of them."""
    return demo.decisions.take(torch.arange(len(demo)))


@pytest.fixture(params=["in memory", "on disk"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Where decisions are kept."""
    if request.param == "on disk":
        monkeypatch.setattr(demonstrations, "HELD_AT_MOST", 0)
    return request.param


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "a.demo", episodes(3, 2))
    write(tmp_path / "b.demo", episodes(4, open_last=True), key="Other?team=0")
    return tmp_path


def test_a_view_comes_with_the_action_that_answered_it(folder: Path, place: str):
    demo = load(str(folder / "a.demo"))
    rows = shown(demo)
    assert isinstance(demo.decisions, StoredDecisions) == (place == "on disk")
    # what is seen at tick t is t everywhere, and its answer t / 100; ticks 4 and 7 are the episodes' last views, which
    # nobody answers
    assert rows.obs[0][:, 0].tolist() == [1, 2, 3, 5, 6]
    torch.testing.assert_close(rows.action.continuous[:, 0], torch.tensor([0.01, 0.02, 0.03, 0.05, 0.06]))
    assert rows.action.discrete[:, 1].tolist() == [1, 0, 1, 1, 0]
    assert demo.last.tolist() == [False, False, True, False, True]
    assert demo.ended.tolist() == [False, False, True, False, True]


def test_a_folder_is_all_of_its_files_one_after_another(folder: Path, place: str):
    demo = load(str(folder))
    assert demo.last.tolist() == [False, False, True, False, True, False, False, False, True]
    assert not demo.ended[-1]
    assert [tuple(view.shape) for view in shown(demo).obs] == [(9, 3), (9, 2, 2), (9, 2)]


@pytest.mark.parametrize(
    "typed", ["{0}/a.demo,{0}/b.demo", "{0}/a.demo, {0}", ["{0}/a.demo", "{0}/b.demo"], ["{0}/a.demo", "{0}"]]
)
def test_several_files_and_folders_are_read_once_each(folder: Path, typed: str | list[str]):
    paths = typed.format(folder) if isinstance(typed, str) else [one.format(folder) for one in typed]
    assert len(load(paths)) == 9


def test_a_comma_in_a_name_is_no_border(tmp_path: Path):
    assert len(load(str(write(tmp_path / "one,two.demo", episodes(3))))) == 3


def test_what_was_done_counts_as_allowed(tmp_path: Path, place: str):
    records = list(episodes(2, mask=True))
    object.__setattr__(records[1], "discrete", np.array([0, 1]))  # its view's mask forbids the last choice
    mask = shown(load(str(write(tmp_path / "m.demo", records)))).mask
    assert mask is not None
    assert mask.tolist() == [[True] * 5, [True] * 4 + [False]]


def test_without_masks_there_is_none(folder: Path, place: str):
    assert shown(load(str(folder))).mask is None


def test_numbers_beyond_the_bounds_are_what_the_environment_makes_of_them(tmp_path: Path, place: str):
    records = [record(1, first=True), record(300), record(301, done=True)]
    assert shown(load(str(write(tmp_path / "x.demo", records)))).action.continuous.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_other_agents_are_shown_beside_those_that_learn(folder: Path):
    spec = BehaviorSpec((ObsSpec("eyes", (3,)), ObsSpec("map", (2, 3))), ActionSpec(2, (3, 3)))
    with pytest.raises(DemoError) as error:
        load(str(folder), spec)
    first, *lines = str(error.value).splitlines()
    assert first.startswith(f"{folder / 'a.demo'} was recorded from other agents ('Thing')")
    assert [[cell.strip() for cell in line.split("   ") if cell.strip()] for line in lines] == [
        ["the file", "the behavior"],
        ["observation 0", "view (3)", "eyes (3)"],
        ["observation 1", "things (2, 2)", "map (2, 3)", "<- differs"],
        ["observation 2", "goal (2)", "none", "<- differs"],
        ["actions", "2 continuous, discrete 3 x 2", "2 continuous, discrete 3 x 3", "<- differs"],
    ]


def test_of_more_observations_those_of_the_policys_names_are_read(folder: Path, place: str):
    spec = BehaviorSpec((HYBRID.obs[2], HYBRID.obs[0]), HYBRID.action)
    demo = load(str(folder / "a.demo"), spec)
    assert [view.tolist() for view in shown(demo).obs] == [
        [[tick] * size for tick in (1, 2, 3, 5, 6)] for size in (2, 3)
    ]
    assert demo.warnings[0] == f"{folder / 'a.demo'}: things in it is ignored, because the policy does not see it"
    with pytest.raises(DemoError, match="was recorded from other agents"):
        load(str(folder / "a.demo"), BehaviorSpec((ObsSpec("view", (4,)),), HYBRID.action))


def test_observations_may_have_other_names(folder: Path):
    renamed = BehaviorSpec(tuple(ObsSpec(f"obs_{i}", obs.shape) for i, obs in enumerate(HYBRID.obs)), HYBRID.action)
    assert len(load(str(folder), renamed)) == 9


def test_an_empty_recording_is_passed_over_beside_others(folder: Path):
    write(folder / "0.demo", [])
    demo = load(str(folder))
    assert len(demo) == 9
    [line] = demo.warnings
    assert line.startswith(f"{folder / '0.demo'} is an empty recording")
    assert line.endswith("it is ignored")
    with pytest.raises(DemoError, match=r"0\.demo is an empty recording"):
        load(str(folder / "0.demo"))


def cut(path: Path, size: int) -> Path:
    path.write_bytes(path.read_bytes()[:size])
    return path


def test_a_file_that_is_cut_off_is_reported_and_teaches_what_is_complete(folder: Path):
    whole = folder / "a.demo"
    assert load(str(folder)).warnings == ()
    cut(whole, whole.stat().st_size - 100)
    demo = load(str(whole))
    assert demo.last.tolist() == [False, False, True, True]
    assert demo.ended.tolist() == [False, False, True, False]
    [line] = demo.warnings
    assert line.startswith(f"{whole} is cut off at byte ")


def test_a_recording_whose_game_was_killed_in_its_first_episode_teaches_what_is_there(tmp_path: Path):
    path = write(tmp_path / "x.demo", episodes(20))
    cut(path, path.stat().st_size // 2)
    demo = load(str(path))
    [line] = demo.warnings
    assert f"its {len(demo) + 1} complete records are used" in line
    assert len(demo) >= 8
    assert not demo.ended.any()


def test_what_is_missing_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(folder)
    (folder / "none").mkdir()
    with pytest.raises(DemoError, match=r"demo_path c.demo: there is no such file or folder in .*a path is relative"):
        load("a.demo,c.demo")
    with pytest.raises(DemoError, match=r"did you mean 'a.demo'\?"):
        load("a")
    with pytest.raises(DemoError, match=r"no such file or folder; did you mean 'a.demo'\?"):
        load("aa.demo")
    with pytest.raises(DemoError, match="demo_path none: the folder has no demonstration files"):
        load("none")
    with pytest.raises(DemoError, match="demo_path is empty"):
        load("")
    with pytest.raises(DemoError, match="not one decision"):
        load(str(write(folder / "one.demo", [record(1, first=True)])))


def test_a_choice_that_no_branch_has_is_named(tmp_path: Path):
    records = list(demo_files.episodes(2))
    object.__setattr__(records[1], "discrete", np.array([3, 1]))
    with pytest.raises(DemoError, match="episode 0: branch 0 of an action is 3; expected 0 to 2"):
        load(str(write(tmp_path / "x.demo", records)))
