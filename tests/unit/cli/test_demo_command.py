import json
import re

import demo_files
import numpy as np
import pytest
from demo_files import columns
from PIL import Image

from palaestra.cli.main import main
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.demos import read_demo


def demo(*arguments: object) -> int:
    return main(["demo", *map(str, arguments)])


def test_a_file_is_shown_with_what_it_holds(tmp_path, capsys):
    path = demo_files.write(tmp_path / "x.demo", demo_files.episodes(3, 5, 1, open_last=True))
    assert demo(path) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == str(path)
    for expected in (
        "name          a demo (format 1), behavior Thing, team 2",
        "spaces        observations: view 3, things 2x2, goal 2 (goal); actions: 2 continuous, discrete 3 x 2",
        "size          12 records, 9 decisions",
        "episodes      1 terminated, 1 truncated (time limit), 1 unfinished; metadata: 3 episodes, mean reward 1.5",
        "reward        mean 2, minimum 1.5, maximum 2.5 of finished episodes; sum of all records 4.5",
        "group reward  mean 1, minimum 0.75, maximum 1.25 of finished episodes; sum of all records 2.25",
        "length        mean 4.0, minimum 3, maximum 5 decisions of finished episodes",
        "action        discrete branch 0: choice 0 33%, choice 1 67%, choice 2 0%",
    ):
        assert f"  {expected}" in lines


def test_a_recording_that_was_never_closed_is_shown_with_one_warning_that_counts_its_records(tmp_path, capsys):
    path = demo_files.write(tmp_path / "x.demo", demo_files.episodes(5))
    path.write_bytes(path.read_bytes()[:-150])
    assert demo(path) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert out.count("complete records are used") == 1
    assert "0 terminated, 0 truncated (time limit), 1 unfinished; metadata" in out
    assert "of the unfinished episode; sum of all records" in out


def test_json_has_the_same_and_can_be_read_where_numbers_are_not_finite(tmp_path, capsys):
    records = list(demo_files.episodes(3, 5))
    records[1].obs[0][0] = np.nan
    path = demo_files.write(tmp_path / "x.demo", records)
    assert demo(path, "--json") == 0
    (shown,) = json.loads(capsys.readouterr().out)
    assert tuple(shown[key] for key in ("behavior", "team", "steps", "decisions", "episodes")) == ("Thing", 2, 10, 8, 2)
    assert shown["reward"] == {"sum": 4.0, "mean": 2.0, "min": 1.5, "max": 2.5}
    assert shown["discrete_actions"] == [[3, 5, 0], [3, 5]]
    assert [obs["shape"] for obs in shown["observations"]] == [[3], [2, 2], [2]]
    assert "observation 'view': 1 values are NaN or infinite" in shown["warnings"]


def test_folders_are_looked_through_and_what_cannot_be_read_stops_nothing(tmp_path, capsys):
    demo_files.write(tmp_path / "deep" / "b.demo", demo_files.episodes(2))
    (tmp_path / "a.demo").write_bytes(b"\x89PNG" + bytes(90))
    empty = demo_files.DemoWriter(tmp_path / "c.demo", "c", "Thing", demo_files.HYBRID)
    empty.close()
    assert demo(tmp_path) == 1
    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if line.endswith(".demo")] == [
        str(tmp_path / name) for name in ("a.demo", "c.demo", "deep/b.demo")
    ]
    assert "error         " in out
    assert "a PNG image" in out
    assert "is an empty recording" in out
    assert "3 records" in out


@pytest.mark.parametrize(
    ("name", "message"), [("none.demo", "cannot be read: No such file"), (".", "has no demonstration files")]
)
def test_what_is_not_there_is_an_error(tmp_path, capsys, name, message):
    assert demo(tmp_path / name) == 1
    assert re.search(rf"palaestra: error: .*{message}", capsys.readouterr().err)


def test_what_is_odd_is_told(tmp_path, capsys):
    spec = BehaviorSpec((ObsSpec("v", (3,)),), ActionSpec(1, (2,)))
    records = [
        type(r)(
            r.obs, r.reward, 0, r.done, r.truncated, 7 if i > 6 else 0, 0, None, np.float32([3]), np.zeros(1, np.int64)
        )
        for i, r in enumerate(demo_files.episodes(9, spec=spec))
    ]
    for record in records:
        record.obs[0][1] = 4
    path = demo_files.write(tmp_path / "x.demo", records, spec)
    content = path.read_bytes()
    path.write_bytes(
        content.replace(read_demo(path).meta.to_bytes(), read_demo(path).meta.to_bytes()[:-4] + np.float32(9).tobytes())
    )
    assert demo(path) == 0
    out = capsys.readouterr().out
    for warning in (
        "its metadata gives a mean reward of 9; its records give 2.25",
        "1 times another agent's records follow without an episode's end",
        "observation 'v': 1 of 3 values never change (1)",
        "continuous action 0 is always 3",
        "continuous action 0 goes from 3 to 3; expected -1 to 1",
        "discrete action 0 is always 0",
    ):
        assert f"  warning       {warning}" in out


def test_rewards_actions_and_ranges_are_drawn(tmp_path, capsys):
    discrete = BehaviorSpec((ObsSpec("eye", (3, 4, 4)),), ActionSpec(0, (3, 2)))
    demo_files.write(tmp_path / "a.demo", demo_files.episodes(3, 4))
    demo_files.write(tmp_path / "b.demo", demo_files.episodes(3, 4, spec=discrete), discrete)
    out = tmp_path / "plots" / "demos.png"
    assert demo(tmp_path, "--plot", out) == 0
    assert f"Wrote {out}" in capsys.readouterr().out
    with Image.open(out) as picture:
        colors = {tuple(color) for color in np.asarray(picture.convert("RGB")).reshape(-1, 3)[::7].tolist()}
    assert len(colors) > 20


@pytest.mark.parametrize("env", ["Basic", "GridWorld"])
def test_a_rule_is_recorded_from_any_environment_without_a_run(tmp_path, terminal, env):
    out = tmp_path / "rule.demo"
    printed = terminal(f"record --demo --env={env} --brain heuristic --demo-out={out} --episodes=6")
    assert f"Wrote {out} ({env}: 6 episodes, " in printed
    read = read_demo(out)
    episodes = list(read.episodes())
    assert (read.behavior, len(episodes)) == (env, 6)
    assert all(episode.ended and episode.pairs.reward.sum() > 0.8 for episode in episodes)


@pytest.mark.slow
def test_images_are_recorded_as_pngs_where_asked_for(tmp_path, terminal):
    command = ["record", "--demo", "--env=GridWorld", "--brain=random", "--seed=2", "--episodes=2"]
    for flags in ([], ["--demo-png"]):
        terminal(*command, f"--demo-out={tmp_path / f'{len(flags)}.demo'}", *flags)
    plain, pictures = (columns(read_demo(tmp_path / f"{i}.demo")) for i in (0, 1))
    np.testing.assert_allclose(plain.obs[0], pictures.obs[0], atol=1 / 255)
    assert (tmp_path / "1.demo").stat().st_size < (tmp_path / "0.demo").stat().st_size / 10


def test_a_recording_overwrites_a_file_only_with_force(tmp_path, terminal):
    out = tmp_path / "mine.demo"
    out.write_text("mine")
    command = ["record", "--demo", "--env=Basic", "--brain=heuristic", f"--demo-out={out}", "--episodes=1"]
    assert "mine.demo exists already; choose another name, or overwrite it with --force" in terminal.fails(*command)
    assert out.read_text() == "mine"
    assert main([*command, "--force"]) == 0
    assert read_demo(out).behavior == "Basic"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--demo", "--env=Basic"], "no brain is named: name a run, or brains with --brain"),
        (["--demo", "--brain=random"], "no environment is named: add --env"),
        (["--brain=random"], "--brain is for demonstrations: add --demo"),
        ([], "name a run"),
        (["--demo", "--env=Basic", "--brain=random", "--demo-out=/proc/none/x.demo"], "/proc/none/x.demo cannot be"),
    ],
)
def test_a_demonstration_that_cannot_be_recorded_says_why(terminal, arguments, message):
    assert message in terminal.fails("record", *arguments)
