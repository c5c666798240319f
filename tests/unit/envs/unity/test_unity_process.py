import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from palaestra.core.errors import EnvError, GameGone
from palaestra.envs.unity.options import UnityOptions
from palaestra.envs.unity.process import GameProcess, arguments, describe, needs_display, player_log

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="its games are shell scripts")

Play = Callable[..., GameProcess]


@pytest.fixture
def play(tmp_path: Path) -> Iterator[Play]:
    """Starts a shell script as a game: play(script, show_output=False)."""
    games: list[GameProcess] = []

    def start(script: str, show_output: bool = False) -> GameProcess:
        file = program(tmp_path / f"game{len(games)}.sh", f"#!/bin/sh\n{script}\n")
        games.append(GameProcess([str(file)], tmp_path / "Player-0.log", tmp_path / "Player-0.out", show_output))
        return games[-1]

    yield start
    for game in games:
        game.stop(0)


def program(file: Path, content: str | bytes, mode: int = 0o755) -> Path:
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    file.chmod(mode)
    return file


def start(file: Path) -> GameProcess:
    return GameProcess([str(file)], file.parent / "log" / "Player-0.log", file.parent / "log" / "Player-0.out", False)


def soon(condition: Callable[[], object]) -> bool:
    for _ in range(3000):
        if condition():
            return True
        time.sleep(0.02)
    return False


def alive(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE  # a zombie waits for someone else to reap it
    return False


def exited(game: GameProcess) -> str:
    assert soon(lambda: game.code() is not None)
    return game.describe_exit()


def number_in(file: Path) -> int:
    assert soon(lambda: file.exists() and file.read_text().endswith("\n"))
    return int(file.read_text())


# Arguments


def test_arguments_stand_in_the_order_of_the_original():
    options = UnityOptions(executable="Game", no_graphics=True, args=("--mode", "hard"))
    expected = ["-nographics", "-batchmode", "--mlagents-port", "5005", "-logFile", "a/Player-2.log", "--mode", "hard"]
    assert arguments(options, 2, 5005, Path("a/Player-2.log")) == expected
    first_alone = UnityOptions(executable="Game", no_graphics_monitor=True)
    assert "-nographics" not in arguments(first_alone, 0, 5005, Path("log"))
    assert arguments(first_alone, 1, 5006, Path("log"))[:2] == ["-nographics", "-batchmode"]


def test_a_log_file_that_the_user_names_is_the_only_one():
    options = UnityOptions(executable="Game", args=("-LOGFILE", "mine.log"))
    assert arguments(options, 0, 5005, Path("ours.log")) == ["--mlagents-port", "5005", "-LOGFILE", "mine.log"]
    assert player_log(options, Path("ours.log")) == Path("mine.log")
    assert player_log(UnityOptions(args=("-logfile", "-")), Path("ours.log")) == Path("ours.log")
    assert player_log(UnityOptions(), Path("ours.log")) == Path("ours.log")


@pytest.mark.parametrize(
    ("options", "environ", "system", "needed"),
    [
        ({}, {}, "linux", True),
        ({"no_graphics_monitor": True}, {}, "linux", True),
        ({}, {"DISPLAY": ":0"}, "linux", False),
        ({}, {"WAYLAND_DISPLAY": "wayland-0"}, "linux", False),
        ({}, {}, "darwin", False),
        ({"no_graphics": True}, {}, "linux", False),
        ({"args": ("-noGraphics",)}, {}, "linux", False),
        ({"executable": None}, {}, "linux", False),
    ],
)
def test_a_display_is_needed_on_linux_by_what_draws(options, environ, system: str, needed: bool):
    assert needs_display(UnityOptions(**{"executable": "Game"} | options), environ, system) is needed


# Exits


@pytest.mark.parametrize(
    ("script", "code", "words"),
    [
        ("exit 3", 3, "exited with code 3"),
        ("true", 0, "exited with code 0"),
        ("kill -9 $$", -9, "was killed by signal SIGKILL. The system kills programs so when memory runs out"),
        ("kill -SEGV $$", -signal.SIGSEGV, "was killed by signal SIGSEGV"),
        (
            "sh -c 'kill -SEGV $$'; exit $?",
            139,
            "exited with code 139 (a program it ran was killed by signal SIGSEGV)",
        ),
    ],
)
def test_an_exit_is_reported(play: Play, script: str, code: int, words: str):
    game = play(script)
    assert exited(game) == words
    assert game.code() == code


@pytest.mark.parametrize(
    ("code", "system", "words"),
    [
        (-9, "linux", "was killed by signal SIGKILL"),
        (-63, "linux", "was killed by signal 63"),
        (255, "linux", "exited with code 255"),
        (1, "win32", "exited with code 1"),
        (0xC0000005, "win32", "exited with code 0xC0000005 (access violation)"),
        (0xDEADBEEF, "win32", "exited with code 0xDEADBEEF"),
    ],
)
def test_exit_codes_in_words(code: int, system: str, words: str):
    assert describe(code, system) == words


# Ends


def test_stop_lets_a_game_finish_in_its_time(play: Play, tmp_path: Path):
    game = play(f"sleep 0.3; echo done > {tmp_path}/done")
    game.stop(10)
    assert (tmp_path / "done").exists()
    assert game.code() == 0


def test_stop_asks_before_it_ends(play: Play, tmp_path: Path):
    game = play(f"trap 'echo bye > {tmp_path}/bye; exit 5' TERM; echo 1 > {tmp_path}/up; while :; do sleep 0.05; done")
    number_in(tmp_path / "up")
    game.stop(0)
    assert (tmp_path / "bye").exists()
    assert game.code() == 5


def test_a_game_that_will_not_end_is_ended(play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("palaestra.envs.unity.process.TERMINATE_GRACE", 0.2)
    game = play(f"trap '' TERM; echo 1 > {tmp_path}/up; while :; do sleep 0.05; done")
    number_in(tmp_path / "up")
    game.stop(0.1)
    assert game.code() == -signal.SIGKILL


def test_a_game_runs_in_a_session_of_its_own_until_it_is_ended_any_number_of_times(play: Play):
    game = play("exec sleep 60")
    assert game.code() is None
    assert game.describe_exit() == "is still running"
    assert os.getsid(game.pid) == game.pid != os.getsid(0)  # Ctrl-C in our terminal does not reach it
    game.kill()
    game.stop(1)
    game.stop(1)
    game.kill()
    assert game.code() == -signal.SIGKILL


@pytest.mark.parametrize("end", ["stop", "kill", "exit"])
def test_the_children_of_a_wrapper_die_with_it(play: Play, tmp_path: Path, end: str):
    game = play(
        f"(trap '' TERM; sh -c 'echo $$ > {tmp_path}/pid; exec sleep 60') & {'exit 4' if end == 'exit' else 'wait'}"
    )
    child = number_in(tmp_path / "pid")
    if end == "stop":
        game.stop(0)
    elif end == "kill":
        game.kill()
        game.kill()
    assert soon(lambda: game.code() is not None)
    assert soon(lambda: not alive(child))
    assert not alive(game.pid)


def test_a_signal_handler_may_end_a_game_that_is_being_waited_for(play: Play):
    game = play("sleep 60; true")
    former = signal.signal(signal.SIGALRM, lambda *_: game.kill())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        game.stop(30)
    finally:
        signal.signal(signal.SIGALRM, former)
    assert game.code() == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_game_does_not_outlive_a_trainer_that_is_killed(tmp_path: Path, how: signal.Signals):
    trainer = program(
        tmp_path / "trainer.py",
        "import time\nfrom pathlib import Path\nfrom palaestra.envs.unity.process import GameProcess\nhere = "
        f"Path({str(tmp_path)!r})\ngame = GameProcess([str(here / 'game.sh')], here / 'log', here / 'out', "
        "False)\n(here / 'guarded').touch()\ntime.sleep(60)\n",
    )
    program(
        tmp_path / "game.sh",
        f"#!/bin/sh\nsh -c 'echo $$ > {tmp_path}/child; exec sleep 60' & echo $$ > {tmp_path}/parent; wait\n",
    )
    with subprocess.Popen([sys.executable, str(trainer)]) as process:
        games = [number_in(tmp_path / "parent"), number_in(tmp_path / "child")]
        assert soon((tmp_path / "guarded").exists)
        os.kill(process.pid, how)
    assert soon(lambda: not any(map(alive, games)))


# Failures to start


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"MZ\x90\0", "Windows build"),
        (b"\xcf\xfa\xed\xfe\0\0", "macOS build"),
        (b"\x7fELF" + bytes(14) + b"\xf3\0" + bytes(40), "processors of kind 243"),
        (b"echo hello\n", "a script must begin with a line such as #!/bin/sh"),
        (b"", "the file is empty"),
        (b"\1\2\0\3", "for this system in Unity"),
        (b"#!/no/such/python3 -u\n", "the interpreter /no/such/python3 -u is missing"),
        (b"#!/bin/sh\r\necho\r\n", "Unix line ends"),
    ],
)
def test_a_file_that_is_no_program_here_is_explained(tmp_path: Path, content: bytes, words: str):
    with pytest.raises(EnvError, match=words) as caught:
        start(program(tmp_path / "Game", content))
    assert not isinstance(caught.value, GameGone)  # starting it again would not help


def test_a_file_that_is_missing_or_lacks_the_permission_is_reported(tmp_path: Path):
    with pytest.raises(EnvError, match="does not exist"):
        start(tmp_path / "Game.x86_64")
    file = program(tmp_path / "Game.x86_64", "#!/bin/sh\n", mode=0o644)
    with pytest.raises(EnvError, match=f"chmod \\+x '{file}'"):
        start(file)


def test_a_log_folder_that_cannot_be_made_is_an_error_about_logs(tmp_path: Path):
    program(tmp_path / "log", "a file where the folder should be")
    with pytest.raises(EnvError, match=r"cannot write .*log"):
        start(program(tmp_path / "game", "#!/bin/sh\n"))


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux refuses a file that is being written")
def test_a_build_that_is_still_being_copied_is_tried_again(tmp_path: Path):
    file = program(tmp_path / "game", Path("/bin/sh").read_bytes())
    with open(file, "ab"), pytest.raises(GameGone, match="busy"):
        start(file)
    holder = subprocess.Popen(
        [sys.executable, "-c", f"import time; file = open({str(file)!r}, 'ab'); print(flush=True); time.sleep(0.2)"],
        stdout=subprocess.PIPE,
    )
    with holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        game = start(file)  # reads the end of its empty input
        assert exited(game) == "exited with code 0"


# Last words


def test_the_end_of_the_player_log_is_preferred(play: Play, tmp_path: Path):
    game = play(f"echo printed; for i in $(seq 40); do echo line $i; done > {tmp_path}/Player-0.log; exit 1")
    exited(game)
    assert game.tail(3) == "line 38\nline 39\nline 40"


@pytest.mark.parametrize("truncated", [False, True])
def test_logs_and_output_of_a_former_start_are_not_taken_for_this_one(play: Play, tmp_path: Path, truncated: bool):
    (tmp_path / "Player-0.log").write_text("NullReferenceException: of yesterday\n")
    for script, words in [
        ("echo printed; echo complained >&2", "printed\ncomplained"),
        ("echo second", "second"),
        ("exit 1", ""),
    ]:
        game = play(f"{f': > {tmp_path}/Player-0.log;' if truncated else ''} {script}")
        exited(game)
        assert game.tail() == words


@pytest.mark.slow
def test_output_that_goes_to_our_terminal_is_not_kept(play: Play, tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    game = play("echo shown; echo complained >&2", show_output=True)
    exited(game)
    printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("shown\n", "complained\n")
    assert game.tail() == ""
    assert not (tmp_path / "Player-0.out").exists()


def last_words(play: Play, tmp_path: Path, content: str | bytes, lines: int = 15) -> str:
    game = play("sleep 0.01")
    (tmp_path / "Player-0.log").write_bytes(content if isinstance(content, bytes) else content.encode())
    return game.tail(lines)


def test_an_exception_is_shown_with_what_follows_it(play: Play, tmp_path: Path):
    trace = [
        "NullReferenceException: no ball",
        "  at Ball.OnEpisodeBegin ()",
        "  at Unity.Academy.Error ()",
        "UnityEngine.Debug:LogError(Object)",
    ]
    rows = [*(f"loading {i}" for i in range(50)), *trace, *(f"unloading {i}" for i in range(50))]
    assert last_words(play, tmp_path, "\n".join(rows), lines=5).splitlines() == [*trace, "unloading 0"]
    # among the last lines it keeps what led to it
    assert last_words(play, tmp_path, "a\nb\nc\nCrash!!!\n\n\n", lines=3) == "b\nc\nCrash!!!"


def test_bytes_that_are_no_text_and_endless_lines_are_shown_as_far_as_they_go(play: Play, tmp_path: Path):
    words = last_words(play, tmp_path, b"good\n\xff\xfe\0bad\n" + b"long" * 10_000)
    assert words.splitlines()[:2] == ["good", "\ufffd\ufffdbad"]
    assert len(words) < 1000
