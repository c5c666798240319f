"""Files of a run that are pipes, devices or huge: readers refuse them or pass them over; none waits, none reads them
whole.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from palaestra.brains.barracuda.nn_file import read_network
from palaestra.brains.names import read_names
from palaestra.brains.player_keys import read_keys
from palaestra.convert.conversion import read_source
from palaestra.convert.vec_normalize import read_statistics
from palaestra.core.errors import PalaestraError
from palaestra.core.specs import ActionSpec
from palaestra.demos import read_demo
from palaestra.hub.fetching import order_by_age
from palaestra.runtime.control.progress_file import ConsoleLog
from palaestra.runtime.logging.history import read_history
from palaestra.runtime.logging.trackers import _LineFile
from palaestra.runtime.monitor.bounded_reading import ResultsFiles
from palaestra.runtime.monitor.event_reader import EventsReader
from palaestra.runtime.playback.tally import PersonRating
from palaestra.runtime.settings import load
from palaestra.runtime.sharing.gathering import Gathered
from palaestra.runtime.sharing.results import last_summaries
from palaestra.runtime.storage.checkpoints import Checkpoints
from palaestra.runtime.storage.run_folder import _elapsed
from palaestra.runtime.storage.snapshots import SnapshotFiles
from palaestra.runtime.storage.status import TrainingStatus
from palaestra.runtime.storage.writer_lock import LockHolder
from palaestra.runtime.tune.trial_curves import final_step, read_curves
from palaestra.runtime.tune.trial_process import Outcome

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names are POSIX'")

READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "history": ("metrics.jsonl", lambda file: read_history(file.parent)),
    "event files": ("Ball/events.out.tfevents.1.host", lambda file: read_history(file.parents[1])),
    "event files of the page": (
        "run/Ball/events.out.tfevents.1.host",
        lambda file: EventsReader(ResultsFiles(file.parents[2]), file.parents[1]).refresh(),
    ),
    "summaries": ("metrics.jsonl", lambda file: last_summaries(file.parent)),
    "courses": ("metrics.jsonl", lambda file: read_curves(file.parent, "reward")),
    "resumed metrics": ("metrics.jsonl", lambda file: _LineFile(file, {"Ball": 5}).append(b"{}\n")),
    "elapsed": ("metrics.jsonl", _elapsed),
    "status": ("run_logs/training_status.json", lambda file: TrainingStatus(file).load()),
    "final step": ("run_logs/training_status.json", lambda file: final_step(file.parents[1], "Ball")),
    "ages": ("run_logs/training_status.json", lambda file: order_by_age(file.parents[1])),
    "console": ("run_logs/console.log", lambda file: ConsoleLog(file.parents[1]).add("INFO", "a line")),
    "lock": ("run_logs/lock", LockHolder.read),
    "outcome": ("outcome.json", Outcome.read),
    "settings": ("configuration.yaml", load),
    "page": ("metrics.jsonl", lambda file: ResultsFiles(file.parent).text(file)),
    "rating": ("person.json", lambda file: PersonRating(file.parent)),
    "manifest": ("checkpoints/5/manifest.json", lambda file: Checkpoints(file.parents[1], 0).load()),
    "snapshot": ("Ball/snapshots/5.safetensors", lambda file: SnapshotFiles(file.parents[2]).load("Ball", 5)),
    "pushed": ("Ball.onnx", lambda file: Gathered(file.parent, "none").__enter__().__exit__()),
    "keys": ("keys.yaml", lambda file: read_keys(file, "Ball", ActionSpec(2))),
    "names": ("names.yaml", read_names),
    "demonstration": ("a.demo", read_demo),
    "weights": ("model.pt", read_source),
    "statistics": ("statistics.npz", read_statistics),
    "barracuda": ("Ball.nn", read_network),
}


@pytest.fixture(autouse=True)
def no_wait() -> Iterator[None]:
    """Ends a test that waits, which would wait for ever."""

    def give_up(*_: Any) -> None:
        raise AssertionError("it waits")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def make_irregular(file: Path, kind: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "endless":
        file.symlink_to("/dev/zero")
    else:
        with file.open("wb") as out:
            out.truncate(1 << 40)


@pytest.mark.parametrize("kind", ["pipe", "endless", "huge"])
@pytest.mark.parametrize("name", READERS)
def test_a_reader_does_not_wait_for_an_irregular_file(name, kind, tmp_path):
    place, read = READERS[name]
    make_irregular(tmp_path / place, kind)
    found: object = None
    with suppress(PalaestraError, OSError):
        found = read(tmp_path / place)
    assert not found or name == "rating"
    if kind != "huge" and name != "resumed metrics":
        assert not (tmp_path / place).is_file()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pipe", "huge"])
def test_a_checkpoint_whose_weights_are_irregular_is_damaged(kind, tmp_path):
    checkpoints = Checkpoints(tmp_path, 0)
    checkpoints.save(5, {"run": {"step": 5}})
    weights = tmp_path / "5" / "run.safetensors"
    weights.unlink()
    make_irregular(weights, kind)
    with pytest.raises(PalaestraError, match=r"run\.safetensors"):
        checkpoints.load()


def test_settings_are_read_from_a_pipe_of_the_shell():
    ends = os.pipe()
    os.write(ends[1], b"behaviors: {Ball: {trainer_type: sac}}\n")
    os.close(ends[1])
    try:
        assert load(Path(f"/dev/fd/{ends[0]}")).settings.behaviors["Ball"].trainer_type == "sac"
    finally:
        os.close(ends[0])
