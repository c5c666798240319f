"""`palaestra learn` with Unity games, as its users meet it: a process that hears signals, and builds that are processes
too.
"""

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from small_runs import settings, write
from unity_games import make_build
from unity_play import free_port
from unity_trainer import Trainer, listens

from palaestra.runtime.storage.checkpoints import Checkpoints

pytestmark = pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="looks into Linux's /proc")

LONG = settings("Ball", 10_000_000, summary_freq=200)
Learn = Callable[..., Trainer]


@pytest.fixture
def learn(tmp_path: Path) -> Iterator[Learn]:
    """Starts one; none outlives the test."""
    started: list[Trainer] = []

    def start(*words: object, tree: dict[str, Any] = LONG) -> Trainer:
        write(str(tmp_path / "config.yaml"), tree)
        started.append(Trainer(tmp_path, ["config.yaml", *map(str, words)], f"trainer{len(started)}"))
        return started[-1]

    yield start
    for trainer in started:
        trainer.process.kill()
        trainer.process.join()


def build(folder: Path, **options: Any) -> str:
    return f"--env={make_build(folder, 'Ball', notes=folder / 'notes', **options)}"


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("number", "die_at", "moment"),
    [(signal.SIGINT, 1, ""), (signal.SIGTERM, 2, "Connected to"), (signal.SIGINT, 3, "Connected to")],
    ids=["before it connects", "after the hello", "before the first decision"],
)
def test_a_signal_before_a_run_begins_ends_it_at_once(learn, tmp_path, number, die_at, moment):
    trainer = learn(build(tmp_path, die_at=die_at))
    trainer.until(lambda: bool(trainer.games()))
    trainer.until(moment)
    time.sleep(0.1)
    trainer.hears(number)
    assert trainer.ends() == 128 + number
    assert trainer.text.endswith("palaestra: interrupted\n")
    assert "Traceback" not in trainer.text
    assert trainer.left() == []
    assert {path.parent.name for path in (tmp_path / "results").rglob("*") if path.is_file()} == {"run_logs"}


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("number", "fate", "moment"),
    [
        (signal.SIGINT, {}, "Step: 200"),
        (signal.SIGTERM, {"die_at": 10}, "Starting"),
        (signal.SIGINT, {"die_at": 20, "die_how": "exit"}, "started again in 2 s"),
    ],
    ids=["in training", "while the games hang", "while copies wait to be started again"],
)
def test_a_signal_to_a_run_saves_it(learn: Learn, tmp_path: Path, number: int, fate: dict[str, Any], moment: str):
    trainer = learn(build(tmp_path, **fate), "--num-envs=2")
    trainer.until(moment)
    time.sleep(0.3)
    trainer.hears(number)
    assert trainer.ends() == 0
    assert "stopping and saving what was learned" in trainer.text
    assert "Traceback" not in trainer.text
    steps = Checkpoints(tmp_path / "results" / "ppo" / "checkpoints", 0).steps()
    assert f"{steps[-1]:,} decisions in" in trainer.text
    assert (tmp_path / "results" / "ppo" / "Ball.onnx").is_file()
    assert trainer.left() == []


@pytest.mark.slow
def test_a_signal_while_the_editor_is_waited_for_ends_it_at_once(learn: Learn, tmp_path: Path):
    port = free_port()
    trainer = learn(f"--editor-port={port}")
    trainer.until(f"Listening on port {port}. Start training by pressing the Play button")
    assert "No --env is given: waiting for the Unity Editor. To train in another environment: --env=" in trainer.text
    assert not (tmp_path / "results").exists()  # nothing has connected: there is no run
    trainer.hears(signal.SIGTERM)
    assert trainer.ends() == 128 + signal.SIGTERM
    assert not listens(port)
    assert trainer.left() == []


@pytest.mark.slow
def test_a_second_signal_ends_the_games_as_well_at_once(learn: Learn, tmp_path: Path):
    trainer = learn(build(tmp_path, stubborn=True, die_at=10), "--num-envs=2")
    trainer.until("Starting")
    time.sleep(0.3)
    trainer.hears(signal.SIGINT)
    trainer.until("palaestra: stopping")
    trainer.hears(signal.SIGINT)
    assert trainer.ends() == 128 + signal.SIGINT
    assert len(trainer.games()) == 2
    assert trainer.left() == []


@pytest.mark.slow
def test_a_killed_trainer_takes_its_games_along(learn: Learn, tmp_path: Path):
    trainer = learn(build(tmp_path, stubborn=True), "--num-envs=2")
    trainer.until("Step: 200")
    trainer.hears(signal.SIGKILL)
    assert trainer.ends() == -signal.SIGKILL
    assert len(trainer.games()) == 2
    assert trainer.left() == []
