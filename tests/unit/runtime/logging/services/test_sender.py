"""The thread that works for a tracking service, and the file with the service's run id."""

import threading
from pathlib import Path

import pytest
from small_runs import settings, tracked_run

import palaestra
from palaestra.core.errors import CallbackError
from palaestra.runtime.logging.services.sender import Sender
from palaestra.runtime.logging.services.wandb_tracker import RunId
from palaestra.runtime.logging.tracker import Outcome, Summary, TrackedRun
from palaestra.runtime.run.result import Result


def test_a_call_that_takes_long_does_not_keep_the_caller_waiting_and_all_are_done_in_order():
    sender = Sender("slow")
    gate = threading.Event()
    done = []
    sender.send(lambda: gate.wait(60))
    for number in range(3):
        sender.send(lambda number=number: done.append(number))
    assert done == []
    gate.set()
    assert sender.finish(60)
    assert done == [0, 1, 2]


def test_an_error_of_the_service_is_raised_once_and_later_calls_are_made_all_the_same():
    sender = Sender("torn")
    gate = threading.Event()
    done = []
    sender.send(lambda: gate.wait(60) / 0)
    sender.send(lambda: done.append("later"))
    gate.set()
    with pytest.raises(ZeroDivisionError):
        sender.finish(60)
    assert done == ["later"]
    assert sender.finish(60)


def test_the_end_of_a_run_does_not_wait_for_a_service_that_never_answers():
    sender = Sender("silent")
    gate = threading.Event()
    sender.send(lambda: gate.wait(60))
    assert not sender.finish(0.01)
    gate.set()


def test_a_resumed_run_finds_the_id_of_its_project_and_a_new_one_does_not(tmp_path):
    RunId(tracked_run(tmp_path), {"project": "p", "entity": None}).keep("abc", url=None)
    resumed = tracked_run(tmp_path, {"B": 5})
    assert RunId(resumed, {"project": "p"}).find() == "abc"
    assert RunId(resumed, {"project": "other"}).find() is None
    assert RunId(tracked_run(tmp_path), {"project": "p"}).find() is None
    (tmp_path / "run_logs" / "wandb.json").write_text("[1")
    assert RunId(resumed, {"project": "p"}).find() is None


class Noted:
    """A tracker that notes models and the end."""

    models: list[tuple[str, str, int, bool]] = []  # noqa: RUF012
    end: list[tuple[Outcome, str]] = []  # noqa: RUF012

    def __init__(self, run: TrackedRun, broken: bool = False) -> None:
        self.models.clear()
        self.end.clear()

    def write(self, summary: Summary) -> None:
        pass

    def text(self, behavior: str, tag: str, body: str) -> None:
        pass

    def record_model(self, behavior: str, path: Path, step: int, final: bool) -> None:
        assert path.is_file()
        self.models.append((behavior, path.name, step, final))

    def record_end(self, outcome: Outcome, reason: str) -> None:
        self.end.append((outcome, reason))

    def close(self) -> None:
        assert self.end


def run(tmp_path: Path, **more: object) -> Result:
    tree = {**settings("Basic", checkpoint_interval=150), "trackers": [f"{__name__}:Noted"]}
    place = {"run_id": "noted", "results_dir": str(tmp_path), "quiet": True, "force": True}
    return palaestra.train(tree, env="Basic", num_areas=1, **place, **more)


def test_a_tracker_gets_every_model_and_how_the_run_ended(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    run(tmp_path)
    at = [step for _, _, step, _ in Noted.models]
    assert at == sorted(at)
    assert [final for *_, final in Noted.models] == [False] * (len(at) - 1) + [True]
    assert len(at) >= 3
    assert Noted.models[0][1] == f"Basic-{at[0]}.onnx"
    assert Noted.models[-1][1] == "Basic.onnx"
    assert Noted.end == [("finished", "")]


def test_a_tracker_is_told_of_a_run_that_is_stopped_and_of_one_that_fails(tmp_path):
    run(tmp_path, callbacks=[lambda summary: True])
    assert Noted.end == [("stopped", "")]

    def broken(summary: Summary) -> None:
        raise ValueError("no such luck")

    with pytest.raises(CallbackError, match="the callback broken raised ValueError: no such luck"):
        run(tmp_path, callbacks=[broken])
    ((outcome, reason),) = Noted.end
    assert (outcome, reason.split(" (")[0]) == ("failed", "the callback broken raised ValueError: no such luck")
