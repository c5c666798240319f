"""Requests to a run that learns, and its progress file."""

import json
import math
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import read_progress

from palaestra import train
from palaestra.core.errors import RunError
from palaestra.runtime.control.run_requests import LARGEST, RequestBox, RunAnswer, RunRequest, answers, ask
from palaestra.runtime.storage.checkpoints import Checkpoints

SETTINGS: dict[str, Any] = {
    "env_settings": {"seed": 3},
    "behaviors": {
        "Basic": {
            "trainer_type": "ppo",
            "hyperparameters": {"batch_size": 64, "buffer_size": 320, "learning_rate": 1e-3},
            "network_settings": {"hidden_units": 16, "num_layers": 1},
            "max_steps": 3200,
            "summary_freq": 320,
        }
    },
}


def learn(folder: Path, run_id: str, callbacks: Any = (), **more: Any) -> None:
    checkpoint = {"run_id": run_id, "results_dir": str(folder), **more}
    train({**SETTINGS, "checkpoint_settings": checkpoint}, env="Basic", callbacks=list(callbacks), quiet=True)


def asking(folder: Path, *requests: RunRequest, at: int = 960) -> Callable[[Any], bool]:
    """A callback that leaves requests once, and waits until the run may look again."""
    left = list(requests)

    def callback(summary: Any) -> bool:
        if summary.step >= at and left:
            for request in left:
                ask(folder, request)
            left.clear()
            time.sleep(0.6)
        return False

    return callback


def answered(folder: Path, *requests: RunRequest) -> list[RunAnswer]:
    learn(folder.parent, folder.name, [asking(folder, *requests)])
    return answers(folder)


def network_of(folder: Path) -> dict[str, torch.Tensor]:
    return Checkpoints(folder / "checkpoints", 0).load().state["Basic"]["trainer"]["network"]


def test_a_stop_saves_and_ends_the_run_and_is_told(tmp_path):
    (answer,) = answered(tmp_path / "first", RunRequest("stop"))
    assert answer.done
    assert 960 <= answer.step < 3200
    progress = read_progress(tmp_path / "first")
    assert progress["state"] == "stopped"
    assert progress["behaviors"]["Basic"]["step"] < 3200
    learn(tmp_path, "first", resume=True)
    progress = read_progress(tmp_path / "first")
    assert (progress["state"], progress["behaviors"]["Basic"]["step"]) == ("finished", 3200)


def test_a_checkpoint_is_saved_on_request(tmp_path):
    (answer,) = answered(tmp_path / "first", RunRequest("save"))
    assert answer.done
    steps = [int(path.name) for path in (tmp_path / "first" / "checkpoints").iterdir() if path.name.isdecimal()]
    assert any(960 <= step < 3200 for step in steps)


def test_a_learning_rate_is_changed_from_the_next_update_on_and_stays_after_a_resume(tmp_path):
    change = RunRequest("hyperparameter", name="learning_rate", value=2e-5)
    (answer,) = answered(tmp_path / "whole", change)
    before = (
        f"{1e-3 * (1 - answer.step / 3200):.3g}"  # a slow machine looks for requests in the middle of a rollout, too
    )
    assert answer.outcome.startswith(f"Basic: learning_rate {before} -> 2e-05")
    lines = [json.loads(line) for line in (tmp_path / "whole" / "metrics.jsonl").read_text().splitlines()]
    rates = [line["Policy/Learning Rate"] for line in lines]
    assert rates[1] > 6e-4
    assert rates[-1] == pytest.approx(2e-5)
    learn(tmp_path, "parted", [asking(tmp_path / "parted", change), lambda summary: summary.step >= 1920])
    learn(tmp_path, "parted", resume=True)
    progress = read_progress(tmp_path / "parted")
    assert progress["behaviors"]["Basic"]["changes"] == {"learning_rate": 2e-5}
    whole = network_of(tmp_path / "whole")
    parted = network_of(tmp_path / "parted")
    assert all(torch.equal(whole[name], parted[name]) for name in whole)


REFUSED = [
    (RunRequest("hyperparameter", name="gamma", value=1), "'gamma' cannot be changed"),
    (RunRequest("hyperparameter", behavior="Basik", name="beta", value=1), "no behavior 'Basik'; did you mean 'Basic'"),
    (RunRequest("hyperparameter", name="learning_rate", value=-1), "expected a positive number"),
    (RunRequest("hyperparameter", name="epsilon", value=0), "epsilon 0: expected a positive number"),
    (RunRequest("hyperparameter", name="beta", value=-1), "beta -1: expected a positive number or 0"),
    (RunRequest("hyperparameter", name="learning_rate", value=3e4), "at most 0.1"),
    (RunRequest("parameter", name="gravity", value=1), "no parameter 'gravity'"),
    (RunRequest("lesson", name="gravity", value=1), "no curriculum for 'gravity'"),
]


def test_requests_that_make_no_sense_are_refused_with_the_reason(tmp_path):
    given = answered(tmp_path / "first", *(request for request, _ in REFUSED))
    assert not any(answer.done for answer in given)
    for answer, (_, why) in zip(given, REFUSED, strict=True):
        assert why in answer.outcome


def test_requests_of_before_the_session_are_stale(tmp_path):
    ask(tmp_path, RunRequest("stop"))
    file = next((tmp_path / "run_logs" / "requests").iterdir())
    entry = json.loads(file.read_text())
    file.write_text(json.dumps({**entry, "time": entry["time"] - 60}))
    assert RequestBox(tmp_path).take() == []
    (answer,) = answers(tmp_path)
    assert "before this session" in answer.outcome


def test_requests_that_lie_there_when_the_session_begins_are_stale_whatever_their_date(tmp_path):
    ask(tmp_path, RunRequest("stop"))
    file = next((tmp_path / "run_logs" / "requests").iterdir())
    file.write_text(json.dumps({**json.loads(file.read_text()), "time": time.time() + 60}))
    box = RequestBox(tmp_path)
    later = {"kind": "stop", "time": time.time() + 1e6}
    (file.parent / "later.json").write_text(json.dumps(later))
    assert box.take() == []
    found = [answer.outcome for answer in answers(tmp_path)]
    assert len(found) == 2
    assert all("before this session" in outcome or "in the future" in outcome for outcome in found)


LESSON = '{"kind": "lesson", "name": "size", "time": NOW, "value": %s}'


@pytest.mark.parametrize(
    "content",
    [
        *(
            "",
            "[]",
            "{",
            '{"kind": "format"}',
            '{"kind": "stop", "value": "x"}',
            '{"surprise": 1}',
            "x" * (LARGEST + 1),
        ),
        *("[" * LARGEST, '{"kind":' * 500, "9" * 400, "\x00", "null"),
        *(LESSON % value for value in ("NaN", "Infinity", "-Infinity", "1e999", "1e39", "true", "9" * 400)),
        *(
            '{"kind": "stop", "name": "\\ud800"}',
            '{"kind": "stop", "time": NaN}',
            '{"kind": ["stop"]}',
            '{"kind": "stop", "time": "now"}',
        ),
    ],
)
def test_files_that_are_no_requests_are_refused_and_removed(tmp_path, content):
    box = RequestBox(tmp_path)
    folder = tmp_path / "run_logs" / "requests"
    folder.mkdir(parents=True)
    (folder / "1.json").write_text(content.replace("NOW", str(time.time() + 1)))
    assert box.take() == []
    assert list(folder.iterdir()) == []
    assert [answer.done for answer in answers(tmp_path)] == [False]


@pytest.mark.parametrize("kind", ["pipe", "link", "folder", "bytes"])
def test_what_is_no_regular_file_of_text_is_refused_once_and_told(tmp_path, kind):
    folder = tmp_path / "run_logs" / "requests"
    told = []
    folder.mkdir(parents=True)
    box = RequestBox(tmp_path, told.append)
    file = folder / "1.json"
    target = tmp_path / "target.json"
    target.write_text('{"kind": "stop", "time": %s}' % (time.time() + 600))
    match kind:
        case "pipe":
            os.mkfifo(file)
        case "link":
            file.symlink_to(target)
        case "folder":
            (file / "within").mkdir(parents=True)
        case _:
            file.write_bytes(b"\xff\xfe\x00")
    for _ in range(2):
        box._looked = -1.0
        assert box.take() == []
    assert len(told) == len(answers(tmp_path)) == 1
    assert "not a request" in told[0]
    assert target.exists()


def test_a_request_that_does_not_have_the_form_of_one_is_not_written(tmp_path):
    for request in (
        RunRequest("lesson", value=math.nan),
        RunRequest("stop", name="\ud800"),
        RunRequest("save", name="x" * LARGEST),
    ):
        with pytest.raises(RunError, match="cannot be made"):
            ask(tmp_path, request)


def test_a_request_says_who_asked_and_is_read_once(tmp_path):
    box = RequestBox(tmp_path)
    number = ask(tmp_path, RunRequest("parameter", name="gravity", value=3.5))
    time.sleep(0.55)
    (request,) = box.take()
    assert (request.id, request.name, request.value) == (number, "gravity", 3.5)
    assert " on " in request.who
    time.sleep(0.55)
    assert box.take() == []


def test_damaged_lines_of_the_log_are_left_out(tmp_path):
    RequestBox(tmp_path)
    (tmp_path / "run_logs").mkdir()
    RequestBox(tmp_path).answer(RunRequest("save"), "saved", 7)
    with (tmp_path / "run_logs" / "requests.jsonl").open("a") as file:
        file.write("{half\n")
    assert [answer.step for answer in answers(tmp_path)] == [7]


def test_progress_is_read_while_a_run_learns(tmp_path):
    seen: list[dict[str, Any]] = []

    def callback(summary: Any) -> bool:
        time.sleep(0.3)
        if (progress := read_progress(tmp_path / "first")) is not None:
            seen.append(progress)
        return False

    learn(tmp_path, "first", [callback])
    assert {one["state"] for one in seen} == {"learning"}
    steps = [one["behaviors"]["Basic"]["step"] for one in seen]
    assert steps == sorted(steps)
    assert steps[-1] > steps[0]
    assert threading.active_count() >= 1
