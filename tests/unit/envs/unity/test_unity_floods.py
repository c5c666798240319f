"""Many copies, large games, and games that send or write without end."""

import os
import struct
import sys
from pathlib import Path
from uuid import uuid4

import psutil
import pytest
from unity_games import make_build
from unity_play import MessageLog, Play, RandomPolicy, Run, opened

from palaestra.core.errors import EnvError
from palaestra.core.processes import free_files, free_processes, memory_of, threads_of
from palaestra.core.system_memory import free_memory
from palaestra.envs.unity.capacity import LEAST_MEMORY
from palaestra.envs.unity.env import UnityEnv
from palaestra.envs.unity.options import UnityOptions
from palaestra.envs.unity.timeouts import Phase
from palaestra.wire.limits import BURST, PAUSE, WarningLimiter
from palaestra.wire.side_channels import IncomingMessage, pack
from palaestra.wire.unity_channels import LONGEST_NAME, MAX_STATISTICS, StatsReceiver


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such limit")
def test_more_copies_than_files_may_be_opened_are_refused_before_one_starts(tmp_path: Path) -> None:
    import resource

    notes = tmp_path / "notes"
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (psutil.Process().num_fds() + 400, limits[1]))
        with opened(executable=str(make_build(tmp_path, "Ball", notes=notes)), copies=1000) as env:
            with pytest.raises(
                EnvError, match=r"--num-envs=1000: .* files .*, \d+ fit at most .*: --num-envs=\d+"
            ) as caught:
                env.reset(1)
            assert 10 < int(str(caught.value).rpartition("=")[2]) <= 50
            assert not env.copies
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert not notes.exists()


def test_a_thousand_copies_are_refused_with_the_number_that_fits(tmp_path: Path) -> None:
    copies = free_memory() // LEAST_MEMORY + 1000
    with opened(executable=str(make_build(tmp_path, "Ball")), copies=copies) as env:
        with pytest.raises(EnvError, match=rf"--num-envs={copies}: .*--num-envs=\d+"):
            env.reset(1)
        assert len(env.copies) == 1


@pytest.mark.slow
def test_a_large_game_is_measured_before_further_copies_start(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    copies = free_memory() // (80 * 2**20)
    with opened(executable=str(make_build(tmp_path, "Ball", hoard=250, notes=notes)), copies=copies) as env:
        with pytest.raises(
            EnvError, match=r"with the first, which takes \d+ MiB and \d+ threads.*: --num-envs=\d+"
        ) as caught:
            env.reset(1)
        fit = int(str(caught.value).rpartition("=")[2])
        assert 1 <= fit < copies / 2
    assert len(list(notes.glob("*[0-9].json"))) == 1


@pytest.mark.slow
def test_copies_start_in_waves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palaestra.envs.unity.capacity.PLENTY", 2**60)  # so that the first is measured
    monkeypatch.setattr("palaestra.envs.unity.capacity.usable_cores", lambda: 1)
    at_once = []

    def entered(copy: int, phase: Phase) -> None:
        at_once.append(sum(copy.conversation.silence.phase is Phase.STARTING for copy in env.copies))

    with opened(executable=str(make_build(tmp_path, "Ball", agents=1)), copies=4) as env:
        env.entered = entered
        play = Play(env, Run(env, RandomPolicy, rollout=64))
        assert len(env.copies) == 1 or max(at_once) == 1
        play.until(lambda: len(env.copies) == 4 and all(copy.delivered > 20 for copy in env.copies), 60)
    assert max(at_once) == 2


def test_limits_of_a_container_count(tmp_path: Path) -> None:
    (tmp_path / "membership").write_text("0::/box\n")
    (tmp_path / "box").mkdir()
    (tmp_path / "box" / "pids.max").write_text("500\n")
    (tmp_path / "box" / "pids.current").write_text("480\n")
    assert free_processes(tmp_path, tmp_path / "membership") == 20
    (tmp_path / "box" / "pids.max").write_text("max\n")
    assert free_processes(tmp_path, tmp_path / "membership") != 20


def test_a_process_is_measured_with_what_it_started() -> None:
    assert memory_of(os.getpid()) > 10 * 2**20
    assert threads_of(os.getpid()) >= 1
    assert memory_of(2**22 + 1) == 0
    assert free_files() is None or free_files() < 10**7  # pyright: ignore[reportOptionalOperand]


def statistic(name: str, value: float = 1.0) -> IncomingMessage:
    return IncomingMessage(struct.pack("<i", len(name)) + name.encode() + struct.pack("<fi", value, 0))


def test_statistics_of_too_many_or_too_long_names_are_passed_over_and_counted() -> None:
    warnings: list[str] = []
    stats = StatsReceiver(warnings.append)
    for _ in range(3):
        stats.receive(statistic("x" * 2_000_000), 0)
    stats.receive(statistic("y" * 2_000_000, float("nan")), 0)
    assert {len(each[0]) for each in stats.take()} == {LONGEST_NAME}
    assert len(warnings) == 2
    assert max(map(len, warnings)) < 2 * LONGEST_NAME
    for i in range(3 * MAX_STATISTICS):
        stats.receive(statistic(f"agent {i}"), 0)
    stats.receive(statistic("agent 7"), 0)
    assert len(stats.take()) == MAX_STATISTICS - 1  # agents, after x and y, and agent 7 once more
    assert stats.ignored == 2 * MAX_STATISTICS + 2
    assert f"more than {MAX_STATISTICS:,} different statistics" in warnings[2]


def test_warnings_that_come_without_end_are_counted() -> None:
    shown: list[str] = []
    now = 0.0
    brake = WarningLimiter(shown.append, lambda: now)
    for i in range(100_000):
        brake.warn(f"odd {i}")
    assert len(shown) == BURST
    now += PAUSE
    brake.warn("x" * 10_000_000)
    assert shown[-1].endswith(f"(10,000,000 letters) (and {100_000 - BURST:,} more warnings, which were left out)")
    assert len(shown[-1]) < 3000


@pytest.mark.slow
def test_a_game_that_warns_in_every_message_fills_no_console(tmp_path: Path) -> None:
    log = MessageLog()
    env = UnityEnv(UnityOptions(executable=str(make_build(tmp_path, "Ball"))), (), log)
    for _ in range(1000):
        env.channels.incoming(0, pack([(uuid4(), b"")]))
    assert len(log.warnings) <= BURST


@pytest.mark.slow
def test_a_log_without_end_is_emptied_and_the_game_plays_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palaestra.wire.limits.LONGEST_LOG", 1_000_000)
    loud = tmp_path / "Loud.x86_64"
    loud.write_text(
        f'#!/bin/sh\nyes | head -c 3000000\n(sleep 1; echo and on) &\nexec {make_build(tmp_path, "Ball")} "$@"\n'
    )
    loud.chmod(0o755)
    log = MessageLog()
    logs = tmp_path / "logs"
    with opened(log, executable=str(loud), logs=logs) as env:
        play = Play(env, Run(env, RandomPolicy, rollout=64))
        play.until(lambda: (logs / "Player-0.out").read_bytes() == b"and on\n", 20)
        assert play.count("Ball").episodes > 0
    assert [text for text in log.warnings if "has grown to 2 MiB; only what is written from now on is kept" in text]
    assert len(log.warnings) == 1
