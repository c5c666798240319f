import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import rank_tasks
import torch

from palaestra.core.errors import PalaestraError
from palaestra.parallel import ranks
from palaestra.parallel.rank_group import ALONE, SEED_STRIDE
from palaestra.parallel.rank_setup import before, begun_before, own_of, place_for, split

TASKS = Path(rank_tasks.__file__)


def in_ranks(task: str, file: Path, count: int = 2) -> list[int]:
    """Runs a task in so many ranks, each in a folder of its own. Returns their exit codes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    path = os.pathsep.join([str(TASKS.parent), *filter(None, sys.path)])
    shared = {
        **os.environ,
        "PYTHONPATH": path,
        "WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    command = [sys.executable, str(TASKS), task, str(file)]
    folders = [file.parent / f"{task}-{rank}" for rank in range(count)]
    for folder in folders:
        folder.mkdir()
    started = [
        subprocess.Popen(command, env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}, cwd=folder)
        for rank, folder in enumerate(folders)
    ]
    try:
        return [process.wait(100) for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def updates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    file = tmp_path_factory.mktemp("ranks") / "updates.pt"
    assert in_ranks("update", file) == [0, 0]
    return {**torch.load(file), "uneven": torch.load(f"{file}.uneven")}


@pytest.mark.parametrize("case", rank_tasks.CASES)
def test_two_ranks_learn_from_halves_of_a_rollout_what_one_process_learns_from_the_whole(
    case: str, updates: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    whole = rank_tasks.updated(case, ALONE)
    halves = updates[case]
    assert whole.keys() == halves.keys()
    for name, value in whole.items():
        # the order of a sum changes its last digit, and Adam divides by it where a gradient is next to nothing
        torch.testing.assert_close(
            halves[name], value, rtol=1e-5, atol=5e-6, msg=lambda text, name=name: f"{name}: {text}"
        )
        same = torch.isclose(halves[name].double(), value.double(), rtol=1e-5, atol=1e-6)
        assert (~same).sum() <= 1e-4 * same.numel(), name


def test_ranks_with_unequal_numbers_of_rows_learn_a_signal_as_one_process_does_from_all_rows(updates: dict[str, Any]):
    torch.testing.assert_close(updates["uneven"], rank_tasks.stepped(ALONE), rtol=1e-5, atol=1e-6)


@pytest.fixture(scope="module")
def exchanged(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    file = tmp_path_factory.mktemp("exchange") / "x"
    assert in_ranks("exchange", file) == [0, 0]
    return [torch.load(f"{file}.{rank}") for rank in range(2)]


def test_ranks_exchange_numbers_and_objects(exchanged: list[dict[str, Any]]):
    first, second = exchanged
    # (1 * [1, 2] + 2 * [2, 4]) / 3
    assert first["average"].tolist() == pytest.approx([5 / 3, 10 / 3])
    assert torch.equal(first["average"], second["average"])
    assert torch.equal(first["apart"], first["average"])
    assert torch.equal(second["apart"], first["average"])
    for found in (first, second):
        assert found["gather"] == ["rank 0", "rank 1"]
        assert found["numbers"] == [[0.0, 0.1], [1.0, 0.1]]
        assert (found["first"], found["least"], found["total"]) == (7, 4, 3.0)
        assert found["gradients"] == [1.0, 0.5, None]  # one that only rank 0 has counts as 0 on the other
    assert (first["of_others"], second["of_others"]) == ([1], [])
    assert first["split"] == [4, 4, 3]
    assert second["split"] == [3, 4, 3 + SEED_STRIDE]


@pytest.mark.slow
def test_three_ranks_exchange_as_two_do(tmp_path: Path):
    assert in_ranks("exchange", tmp_path / "x", 3) == [0, 0, 0]
    found = [torch.load(tmp_path / f"x.{rank}") for rank in range(3)]
    assert [one["split"][0] for one in found] == [3, 2, 2]
    # (1 * 1 + 2 * 2 + 3 * 3) / 6
    assert all(one["average"][0].item() == pytest.approx(14 / 6) for one in found)
    assert all(one["numbers"] == [[0.0, 0.1], [1.0, 0.1], [2.0, 0.1]] for one in found)


def test_ranks_with_other_versions_are_named(exchanged: list[dict[str, Any]]):
    for found in exchanged:
        assert "found rank 0: torch 1.0; rank 1: torch 1.1; install the same" in found["differ"]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    file = tmp_path_factory.mktemp("runs") / "x"
    assert in_ranks("runs", file) == [0, 0]
    return [torch.load(f"{file}.{rank}") for rank in range(2)]


@pytest.mark.slow
def test_a_behavior_that_appears_late_goes_on_from_the_decisions_of_all_ranks(played: list[dict[str, Any]]):
    first, second = played
    assert first["steps"] == second["steps"]
    begun, away, back = first["steps"]
    assert away is None
    assert first["saved"] == begun
    assert begun < back < 2 * begun + 1000
    steps = [step for name, step in first["seen"] if name == "B"]
    assert steps == sorted(set(steps))


@pytest.mark.slow
def test_rank_0_shows_the_warnings_of_all_ranks_once(played: list[dict[str, Any]]):
    first = played[0]["printed"]
    second = played[1]["printed"]
    assert first.count("[WARNING] rank 1: A: Group rewards arrive") == 4  # once in each of four runs
    assert (
        first.count("Episodes start again, because this environment cannot be saved") == 3
    )  # in the three that resume, by all ranks
    assert first.count("'B' does not learn: rank 1 of 2 has not seen it so far") == 1
    assert "WARNING" not in second


@pytest.mark.slow
def test_rank_0_alone_calls_callbacks_and_stops_all_ranks(played: list[dict[str, Any]]):
    assert played[0]["seen"]
    assert played[1]["seen"] == []


@pytest.mark.slow
def test_ranks_agree_on_the_teams_of_self_play_though_one_sees_a_team_late(played: list[dict[str, Any]]):
    first, second = played[0]["late"]
    assert first == second
    assert first[1] == [("Duel", 0), ("Duel", 1)]
    pool, exploits, elos = first[-3:]
    assert exploits[0] > 0
    assert sum(games for _, _, games in pool["rates"]["Duel"].values()) > 20
    elo = elos["-1"]
    newest = elos[max(elos, key=int)]
    assert elo < 1195
    assert abs(newest - elo) < 5  # a new snapshot is rated as the policy that it is of, not as a beginner


@pytest.mark.slow
def test_ranks_whose_folder_is_deleted_save_it_elsewhere_and_go_on(played: list[dict[str, Any]]):
    for text, finished, steps in (one["lost"] for one in played):
        assert "was deleted or renamed while the run was training. The training up to step" in text
        assert finished
        assert steps["Basic"] >= 1500


@pytest.mark.slow
def test_ranks_that_share_no_behavior_at_first_go_on_and_learn_once_they_do(tmp_path: Path):
    assert in_ranks("strangers", tmp_path / "x") == [0, 0]
    first, second = (torch.load(tmp_path / f"x.{rank}") for rank in range(2))
    assert first["shared"] == []
    assert first["finished"]
    assert second["finished"]
    assert first["steps"] == second["steps"]
    assert min(first["steps"].values()) >= 4000


@pytest.mark.slow
def test_a_killed_rank_is_named(tmp_path: Path):
    assert in_ranks("lose", tmp_path / "text") == [0, -9]
    assert torch.load(tmp_path / "text") == {"text": "rank 1 of 2 has ended or hangs", "reports": True}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("RANK", "x", "the environment variable RANK is 'x': expected a whole number"),
        ("WORLD_SIZE", "two", "the environment variable WORLD_SIZE is 'two': expected a whole number"),
        ("MASTER_PORT", "taken", r"port \d+ is taken by another program on this machine: choose another"),
    ],
)
def test_what_torchrun_would_set_is_checked(name: str, value: str, message: str, monkeypatch: pytest.MonkeyPatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        given = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(taken.getsockname()[1])}
        for key, usual in given.items():
            monkeypatch.setenv(key, value if key == name != "MASTER_PORT" else usual)
        with pytest.raises(PalaestraError, match=message), ranks.joined(5.0, "cpu"):
            pass


def test_a_single_process_exchanges_with_nobody():
    assert (ALONE.size, ALONE.number, ALONE.leads) == (1, 0, True)
    assert (split(7, ALONE), before(3, ALONE), own_of(["d"], ALONE)) == (7, 0, "d")
    assert (ALONE.share(7), ALONE.own_seed(3), ALONE.least(4), ALONE.total(2.0)) == (7, 3, 4, 2.0)
    assert (ALONE.gather("a"), ALONE.from_first("b"), ALONE.of_others(lambda: 1)) == (["a"], "b", [])
    value = torch.tensor([3.0])
    ALONE.average([value], 1.0)
    assert value.item() == 3.0
    assert (ALONE.first(lambda: 1), ALONE.when_first_is_done(lambda: 2), ALONE.known(1, 2)) == (1, 2, 1)
    assert (place_for("task", ALONE), begun_before("run", ALONE)) == (None, False)
