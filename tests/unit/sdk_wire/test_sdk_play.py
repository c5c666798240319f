import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent import futures
from pathlib import Path

import grpc
import pytest
import sdk_games
from unity_play import free_port, opened

from palaestra import sdk
from palaestra.core.errors import EnvError
from palaestra.sdk.__main__ import load, main
from palaestra.sdk.launch import run
from palaestra.sdk.protocol.client import TrainerConnection
from palaestra.wire import encode
from palaestra.wire.messages import EXCHANGE

GAMES = Path(sdk_games.__file__)


def test_alone_agents_play_by_their_heuristic_and_an_episode_is_a_line(capfd: pytest.CaptureFixture[str]):
    assert run(sdk_games.continuous, ["--episodes", "2", "--time-scale", "0"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert len(lines) == 2
    assert re.fullmatch(
        r"episode 1: Continuous\?team=0, agent 0, was truncated after 30 decisions: reward -?\d+\.\d{3}", lines[0]
    )


def test_a_seed_gives_the_same_episodes(capfd: pytest.CaptureFixture[str]):
    told = []
    for seed in ("1", "1", "2"):
        run(sdk_games.continuous, ["--episodes", "1", "--time-scale", "0", "--seed", seed])
        told.append(capfd.readouterr().out)
    assert told[0] == told[1] != told[2]


def test_without_a_heuristic_the_error_says_what_could_decide(capfd: pytest.CaptureFixture[str]):
    assert run(sdk_games.discrete, ["--episodes", "1"]) == 1
    assert "discrete: error: there is no policy for 'Discrete': write 'def heuristic" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model", "Discrete"], "expected BEHAVIOR=FILE.onnx"),
        (["--model", "Discrete=missing.onnx"], "there is no file missing.onnx"),
        (["--model", f"Ball={__file__}"], "--model names behavior 'Ball'; this game has Discrete"),
        (["--time-scale", "-1"], "expected 0 (no waiting) or more"),
    ],
)
def test_options_that_make_no_sense_are_named(words: list[str], message: str, capfd: pytest.CaptureFixture[str]):
    assert run(sdk_games.discrete, words) == 1
    assert message in capfd.readouterr().err


def test_options_of_unity_mean_nothing(capfd: pytest.CaptureFixture[str]):
    words = ["-nographics", "-BatchMode", "-force-glcore", "--episodes", "1", "--time-scale", "0"]
    assert run(sdk_games.continuous, words) == 0
    assert "episode 1" in capfd.readouterr().out


def test_alone_an_option_that_is_mistyped_is_named(capfd: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as caught:
        run(sdk_games.continuous, ["--episods=1"])
    assert caught.value.code == 2
    assert "unknown option --episods=1; did you mean '--episodes'?" in capfd.readouterr().err


def test_what_an_author_does_wrong_is_a_line_and_what_an_authors_code_raises_is_traced(
    capfd: pytest.CaptureFixture[str],
):
    def played(method: str, does: Callable[..., object]) -> str:
        fill = lambda academy: academy.add(type("Bad", (sdk_games.Mover,), {method: does})())  # noqa: E731
        assert run(sdk.game(fill), ["--episodes=1", "--time-scale=0"]) == 1
        return capfd.readouterr().err

    told, link = played("on_episode_begin", lambda self: self.add_reward("1")).splitlines()
    assert link.endswith("palaestra help errors python-game")
    assert re.search(
        r"agent 0 \(Bad\) calls add_reward\('1'\); expected a finite number .* \(.*test_sdk_play\.py, line \d+\)$", told
    )
    assert "Traceback" in played("on_episode_begin", lambda self: 1 / 0)


def test_a_game_is_given_its_own_options():
    given: list[tuple[object, ...]] = []

    @sdk.game
    def own(academy: sdk.Academy, level: int, name: str = "x", hard: bool = False, episodes: float = 0.5) -> None:
        given.append((level, name, hard, episodes))
        academy.add(sdk_games.Mover())

    own.play(["--level", "3", "--hard", "yes", "--game-episodes", "2", "--episodes", "1", "--time-scale", "0"])
    assert given == [(3, "x", True, 2.0)]
    with pytest.raises(SystemExit, match="2"):
        own.play(["--episodes", "1"])


def test_help_teaches_how_a_trainer_starts_it(capfd: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit, match="0"):
        sdk_games.continuous.play(["--help"])
    told = capfd.readouterr().out
    assert "palaestra learn SETTINGS.yaml --env" in told
    assert "--agents VALUE" in told
    assert "Agents on a line." in told


def test_output_goes_into_the_log_that_is_named(tmp_path: Path):
    log = tmp_path / "logs" / "Player-0.log"
    command = [
        sys.executable,
        str(GAMES),
        "--kind",
        "continuous",
        "--episodes",
        "1",
        "--time-scale",
        "0",
        "-logfile",
        str(log),
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=180)
    assert result.stdout == result.stderr == ""
    assert log.read_text().startswith("episode 1: Continuous")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_quietly(number: signal.Signals):
    command = [sys.executable, str(GAMES), "--kind", "continuous", "--time-scale", "100"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as game:
        assert game.stdout is not None
        assert game.stdout.readline().startswith("episode 1")
        os.kill(game.pid, number)
        _, errors = game.communicate(timeout=180)
    assert (game.returncode, errors) == (128 + number, "")


def test_a_game_of_a_file_or_module_is_played(capfd: pytest.CaptureFixture[str]):
    words = ["--episodes", "1", "--time-scale", "0"]
    assert main([f"{GAMES}:continuous", *words]) == 0
    assert main(["sdk_games:continuous", *words]) == 0
    assert capfd.readouterr().out.count("episode 1: Continuous") == 2


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (str(GAMES), "name one of them, such as .*sdk_games.py:continuous"),
        ("missing.py", "there is no file missing.py"),
        ("no_such_module:ball", "module 'no_such_module' cannot be imported"),
        ("json:ball", "json holds no game"),
        ("sdk_games:ball", "sdk_games holds continuous, discrete"),
    ],
)
def test_a_game_that_is_not_there_is_named(place: str, message: str):
    with pytest.raises(EnvError, match=message):
        load(place)


def test_the_error_without_a_trainer_says_what_to_start():
    connection = TrainerConnection(free_port(), connect_seconds=0.3)
    with pytest.raises(EnvError, match=r"no trainer listens on port .* start one first"):
        connection.exchange(b"")
    connection.close()


class Trainer:
    """A server that answers as it is told; `limit`: of a message's bytes."""

    def __init__(self, *answers: bytes, limit: int = 1 << 22) -> None:
        self._answers = list(answers)
        self._server = grpc.server(futures.ThreadPoolExecutor(2), options=[("grpc.max_receive_message_length", limit)])
        handlers = {EXCHANGE.rpartition("/")[2]: grpc.unary_unary_rpc_method_handler(self._answer)}
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("communicator_objects.UnityToExternalProto", handlers),)
        )
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()

    def _answer(self, raw: bytes, context: grpc.ServicerContext) -> bytes:
        if not self._answers:
            self._server.stop(None)
        return self._answers.pop(0) if self._answers else b""

    def close(self) -> None:
        self._server.stop(None).wait()


def test_a_trainer_that_says_goodbye_ends_the_game_well():
    trainer = Trainer(encode.initialization(3, 1), encode.goodbye())
    # a player's option passes
    assert run(sdk_games.continuous, ["--mlagents-port", str(trainer.port), "--quality", "7"]) == 0
    trainer.close()


def test_a_game_ends_with_its_trainer_and_says_so(capfd: pytest.CaptureFixture[str]):
    trainer = Trainer(encode.initialization(3, 1))
    assert run(sdk_games.continuous, ["--mlagents-port", str(trainer.port)]) == 0
    assert f"the trainer on port {trainer.port} is gone: its connection broke" in capfd.readouterr().out
    trainer.close()


def test_a_message_too_large_for_the_trainer_is_explained(capfd: pytest.CaptureFixture[str]):
    trainer = Trainer(encode.initialization(3, 1), encode.reset(b""), encode.goodbye(), limit=2000)
    assert run(sdk_games.visual, ["--mlagents-port", str(trainer.port)]) == 1
    assert "have fewer areas or agents, smaller images, or images sent compressed" in capfd.readouterr().err
    trainer.close()


def test_the_error_for_a_file_that_does_not_play_says_how_to(tmp_path: Path):
    (tmp_path / "mute.py").write_text("from palaestra import sdk\n", "utf-8")
    with (
        opened(executable=str(tmp_path / "mute.py")) as env,
        pytest.raises(
            EnvError, match=r"code 0 before it connected .*mute\.py\)\. It wrote no log; a game in Python must"
        ),
    ):
        env.reset(0)
