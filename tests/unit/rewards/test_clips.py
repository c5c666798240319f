from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from any_transitions import CPU
from demo_files import episodes, record, write

from palaestra.core.errors import DemoError
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.datasets import read_demo
from palaestra.demos import ReadTiming
from palaestra.demos.pairs import neighbours_of
from palaestra.rewards.chosen_numbers import choose_numbers, parse_numbers, without
from palaestra.rewards.clips import Clips, load_clips

SPEC = BehaviorSpec((ObsSpec("body", (2,)), ObsSpec("height", (1,)), ObsSpec("goal", (2,), goal=True)), ActionSpec(1))
HEADER = "time,episode,body[0],body[1],height[0]\n"


def load(
    path: Path | list[Path], spec: BehaviorSpec = SPEC, entries: Any = None, seconds: float | None = None
) -> Clips:
    paths = str(path) if isinstance(path, Path) else [str(each) for each in path]
    return load_clips(paths, choose_numbers(entries, spec, "observations"), spec, CPU, seconds)


def pairs(clips: Clips) -> list[list[float]]:
    """The first number before and after, of each pair."""
    rows = clips.take(torch.arange(len(clips)))
    return rows[:, [0, clips.states.shape[1]]].tolist()


def csv(path: Path, *rows: str, header: str = HEADER) -> Path:
    path.write_text(header + "".join(f"{row}\n" for row in rows))
    return path


def test_pairs_of_recordings_follow_one_another_and_reach_an_episodes_final_observation(tmp_path: Path):
    # what is seen at tick t is t everywhere: episodes of the ticks 1 to 4, 5 to 7, and 1 to 3 of another file
    one = write(tmp_path / "a.demo", episodes(3, 2, spec=SPEC), SPEC)
    write(tmp_path / "b.demo", episodes(2, open_last=True, spec=SPEC), SPEC)
    clips = load(tmp_path)
    assert pairs(clips) == [[1, 2], [2, 3], [3, 4], [5, 6], [6, 7], [1, 2], [2, 3]]
    assert clips.remark == (
        f"amp: 7 pairs of 3 episodes from {one} (5 pairs of 2 episodes), {tmp_path}/b.demo (2 pairs of 1 episode); "
        "3 numbers of body, height"
    )
    # all states that are in a pair count once: 1 to 7 and 1 to 3
    seen = np.array([1, 2, 3, 4, 5, 6, 7, 1, 2, 3])
    assert clips.mean.tolist() == pytest.approx([seen.mean()] * 3)
    assert clips.deviation.tolist() == pytest.approx([seen.std()] * 3)
    assert load(tmp_path) is clips


@pytest.mark.parametrize("timing", [ReadTiming.NEXT_RESTARTED, ReadTiming.OWN_RESTARTED])
def test_in_old_recordings_no_pair_reaches_the_next_episodes_first_observation(timing: ReadTiming, tmp_path: Path):
    # an end shows the next episode's first observation: ticks 1, 2, 3 | 4 (with the end of the first), 5
    path = write(tmp_path / "a.demo", [record(at, first=at == 1, done=at == 4, spec=SPEC) for at in range(1, 6)], SPEC)
    found = list(neighbours_of(read_demo(path).chunks(), timing, "a"))
    first = [int(one.obs[0][row, 0]) for one in found for row in one.first]
    assert first == [1, 2, 4]


def test_a_recording_of_other_agents_serves_where_it_has_the_chosen_sensors(tmp_path: Path):
    other = BehaviorSpec((ObsSpec("camera", (4,)), ObsSpec("height", (1,)), ObsSpec("body", (2,))), ActionSpec(0, (3,)))
    path = write(tmp_path / "a.demo", episodes(3, spec=other), other)
    assert len(load(path)) == 3
    with pytest.raises(DemoError, match=r"(?s)no observation 'goal' of the size that is compared:.*camera \(4\).*body"):
        load(path, entries=["body", "goal"])


def test_tables_hold_a_column_for_each_number_and_episodes(tmp_path: Path):
    rows = ["0,7,1,5,9", "0.1,7,2,6,8", "0.2,7,3,5,9", "5,8,4,6,9", "5.1,8,6,5,8"]
    table = csv(tmp_path / "a.csv", *rows)
    clips = load(table)
    assert pairs(clips) == [[1, 2], [2, 3], [4, 6]]
    assert clips.states.tolist()[-1] == [6, 5, 8]
    columns = np.array([[float(x) for x in row.split(",")] for row in rows])
    np.savez(
        tmp_path / "a.npz", body=columns[:, 2:4], height=columns[:, 4], episode=columns[:, 1], author=np.array("me")
    )
    again = load(tmp_path / "a.npz")
    assert torch.equal(again.states, clips.states)
    assert torch.equal(again.first, clips.first)
    assert load(tmp_path, entries=["body[1]", "height"]).states.shape == (10, 2)
    assert len(load([table, tmp_path / "a.npz"])) == 6


def test_what_is_not_compared_may_be_anything(tmp_path: Path):
    rows = ["walk,nan,1,5,9", "walk,,2,6,8"]
    clips = load(csv(tmp_path / "a.csv", *rows, header="kind,knee,body[0],body[1],height[0]\n"))
    states = np.array([[1, 5, 9], [2, 6, 8]])
    more = {"fps": np.array([50]), "knee": np.full(2, np.nan)}
    np.savez(tmp_path / "a.npz", body=states[:, :2], height=states[:, 2], **more)
    assert clips.states.tolist() == load(tmp_path / "a.npz").states.tolist() == states.tolist()


def test_a_number_that_hardly_moves_is_scaled_by_a_hundredth_of_the_median(tmp_path: Path):
    rows = [f"{t},0,{t % 2 * 2},{t % 2 * 4},{t % 2 * 0.002}" for t in range(4)]
    clips = load(csv(tmp_path / "still.csv", *rows))
    assert clips.mean.tolist() == pytest.approx([1, 2, 0.001])
    assert clips.deviation.tolist() == pytest.approx([1, 2, 0.01])  # not 0.001


def test_a_table_of_a_higher_rate_is_read_as_fast_as_the_behavior_decides(tmp_path: Path):
    fast = csv(tmp_path / "a.csv", *(f"{at / 20},0,{at},{at},{at % 3}" for at in range(5)))
    assert pairs(load(fast, seconds=0.1)) == [[0, 2], [1, 3], [2, 4]]
    assert load(fast, seconds=0.1).warnings == ()
    slow = csv(tmp_path / "b.csv", *(f"{at / 5},0,{at},{at},{at % 3}" for at in range(5)))
    clips = load(slow, seconds=0.1)
    assert pairs(clips) == [[0, 1], [1, 2], [2, 3], [3, 4]]
    assert "0.2 s apart, and decisions 0.1 s" in clips.warnings[0]
    assert "2.00 times as fast" in clips.warnings[0]
    (warning,) = load([fast, slow]).warnings
    assert "different rates" in warning
    untimed = csv(tmp_path / "c.csv", "0,1,2", "1,3,4", header="body[0],body[1],height[0]\n")
    (warning,) = load(untimed, seconds=0.1).warnings
    assert "c.csv has no column `time`" in warning


@pytest.mark.parametrize(
    ("rows", "header", "message"),
    [
        (["0,0,1,5"], HEADER, r"a.csv:2: 4 columns; expected 5, as in the first line"),
        (["0,0,1,5,9", "1,0,x,5,8"], HEADER, r"a.csv:3: column 'body\[0\]' is 'x'; expected a number"),
        (["0,0,1,5,9", "1,0,2,nan,8"], HEADER, r"a.csv:3: column 'body\[1\]' is nan; expected finite"),
        (["0,0,1,5,9", "1,1,2,5,8"], HEADER, r"a.csv:2: the episode that begins here has 1 states; a pair needs 2"),
        (["1,2", "2,3"], "body[0],height[0]\n", r"a.csv:1: there is no column 'body\[1\]'; did you mean 'body\[0\]'"),
        (["1,2"], "3,4\n", r"a.csv:1: expected the columns' names, such as Body\[0\]; got numbers"),
        ([], HEADER, r"a.csv: it has a header and no rows"),
        ([], "", r"a.csv is empty; expected a line with the columns' names"),
        (["1,2"], "body[0],body[0]\n", r"a.csv:1: two columns are named 'body\[0\]'"),
        (
            ["0,0,1,5,9", "0.1,0,2,6,8", "0.2,0,1,5,9", "0.9,0,2,6,8"],
            HEADER,
            r"a.csv:5: time goes from 0.2 to 0.9; expected even steps, of 0.1 s",
        ),
        (
            ["0,0,1,5,9", "1,0,2,5,9", "2,0,3,5,9"],
            HEADER,
            r"never change.*body\[1\] \(5\), height\[0\] \(9\); compare the others: observations: \['body\[0\]'\]",
        ),
    ],
)
def test_a_broken_table_is_refused_with_its_line(rows: list[str], header: str, message: str, tmp_path: Path):
    with pytest.raises(DemoError, match=message):
        load(csv(tmp_path / "a.csv", *rows, header=header))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            {"body": np.zeros((3, 4)), "height": np.zeros(3)},
            r"a.npz: 'body' has 4 numbers in a row; the behavior's has 2",
        ),
        ({"body": np.zeros((3, 2)), "height": np.zeros(4)}, r"a.npz: 'body' has 3 rows and 'height' 4"),
        ({"body": np.zeros((3, 2))}, r"there is no array 'height\[0\]'.*or one array 'height'.*It has: body"),
        ({"body": np.array([[1, 2], [3, np.inf]])}, r"a.npz, row 1: body\[1\] is inf; expected finite"),
        ({"body": np.array(["a"])}, r"a.npz holds no array of numbers"),
        ({"body": np.zeros((0, 2))}, r"a.npz: its arrays have no rows"),
    ],
)
def test_broken_arrays_are_refused_with_their_row(arrays: dict[str, Any], message: str, tmp_path: Path):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DemoError, match=message):
        load(tmp_path / "a.npz")


def test_what_is_no_table_is_refused(tmp_path: Path):
    (tmp_path / "a.npz").write_bytes(b"PK but no archive")
    with pytest.raises(DemoError, match=r"a.npz cannot be read as an .npz file"):
        load(tmp_path / "a.npz")
    with pytest.raises(DemoError, match=r"clips .*none.csv: there is no such file"):
        load(tmp_path / "none.csv")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DemoError, match=r"no demonstration files \(.demo, .csv, .npz\)"):
        load(tmp_path / "empty")


def test_choices_are_read_as_ranges_and_patterns_and_written_so():
    spec = BehaviorSpec((ObsSpec("leg_left", (6,)), ObsSpec("leg_right", (6,)), ObsSpec("odd[1]", (2,))), ActionSpec(1))
    assert parse_numbers("Body[0, 4:7, 9:]") == ("Body", [(0, 1), (4, 7), (9, None)])
    assert parse_numbers(" Body ") == ("Body", [])
    chosen = choose_numbers(["leg_*[:2]", "leg_right[5]", "odd[1]"], spec, "here")
    assert [str(one) for one in chosen] == ["leg_left[0:2]", "leg_right[0:2, 5]", "odd[1]"]
    assert without(chosen, ["leg_left[0]", "leg_left[1]", "leg_right[1]"]) == "['leg_right[0, 5]', 'odd[1]']"
