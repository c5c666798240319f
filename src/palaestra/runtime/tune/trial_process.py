"""The process of one training of a trial: `python -m palaestra.runtime.tune.trial_process TASK`, with the task as JSON.

The process saves and ends when its standard input closes, which happens whenever its parent process ends.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from palaestra.core.errors import Diverged, PalaestraError, RunInUse
from palaestra.core.files import read_whole_text, write_whole

PATIENCE = 90.0
"""Seconds to wait for an earlier process of the same training, which may still be saving."""


@dataclass(frozen=True)
class TrialTask:
    """One training of a trial."""

    settings: str
    """File with the settings of the training."""
    results_dir: str
    run_id: str
    seed: int
    outcome: str
    """File that says how the training ended."""
    log: str
    """File with the output of the training."""
    sets: Sequence[str] = ()

    @property
    def run(self) -> Path:
        """Folder of its run."""
        return Path(self.results_dir, self.run_id)

    def as_json(self) -> str:
        """Returns the task as text, for the command line."""
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class Outcome:
    """How a training ended: finished, stopped, failed, diverged, or lost (its process or machine is gone)."""

    kind: str
    message: str = ""

    @classmethod
    def read(cls, file: Path) -> Outcome | None:
        """Returns the outcome in a file; None without a file."""
        with suppress(OSError, ValueError, TypeError):
            found = json.loads(read_whole_text(file))
            if isinstance(found, dict) and isinstance(found.get("kind"), str):
                return cls(found["kind"], str(found.get("message", "")))
        return None

    def write(self, file: Path) -> None:
        """Writes the outcome to a file as JSON, completely or not at all."""
        write_whole(file, json.dumps(asdict(self)).encode())


class TrialWatch:
    """Callback that records the CPU seconds at each summary."""

    def __init__(self, task: TrialTask) -> None:
        self._task = task
        self._before: float | None = None

    def __call__(self, summary: Any) -> None:
        """Takes a summary."""
        from palaestra.runtime.tune.trial_curves import CPU, read_lines

        file = self._task.run / CPU
        if self._before is None:  # of earlier processes; what they did after their last checkpoint is done again
            numbered = [line for line in read_lines(file) if isinstance(line.get("step"), int)]
            kept = [line for line in numbered if line["step"] < summary.step]
            self._before = max((float(line["cpu"]) for line in kept), default=0.0)
            write_whole(file, b"".join(json.dumps(line).encode() + b"\n" for line in kept))
        line = {"behavior": summary.behavior, "step": summary.step, "cpu": round(self._before + cpu_seconds(), 3)}
        with file.open("a", encoding="utf-8") as out:
            out.write(json.dumps(line) + "\n")


def cpu_seconds() -> float:
    """Returns the CPU seconds of this process and of all that it has started."""
    import psutil

    own = os.times()
    total = own.user + own.system + own.children_user + own.children_system
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            times = child.cpu_times()
            total += times.user + times.system
    return total


def train_trial(task: TrialTask) -> Outcome:
    """Trains, or continues a training that was interrupted."""
    from palaestra.runtime.run.learning import learn
    from palaestra.runtime.run.run_settings import TrainingRequest
    from palaestra.runtime.storage.run_folder import RunFolder

    until = time.monotonic() + PATIENCE
    while True:
        place = {
            "run_id": task.run_id,
            "results_dir": task.results_dir,
            "resume": RunFolder(Path(task.results_dir), task.run_id).exists,
        }
        try:
            overrides = {"checkpoint_settings": place, "env_settings": {"seed": task.seed}}
            # the study's was asked for
            watch = TrialWatch(task)
            result = learn(TrainingRequest(Path(task.settings), overrides, task.sets, callbacks=[watch], trust=True))
        except RunInUse as error:
            if time.monotonic() > until:
                return Outcome("failed", str(error))
            time.sleep(1.0)
        except Diverged as error:
            return Outcome("diverged", str(error))
        except PalaestraError as error:
            return Outcome("failed", str(error))
        else:
            return Outcome("finished" if result.finished or result.endings else "stopped")


def save_and_end() -> None:
    """Sends this process SIGTERM, so that it saves the run and ends."""
    if os.name == "posix":
        os.kill(os.getpid(), signal.SIGTERM)
    else:
        signal.raise_signal(signal.SIGTERM)


def main(argv: Sequence[str]) -> int:
    """Runs the task in `argv[1]` and writes its outcome."""
    from palaestra.core.errors import exception_summary
    from palaestra.runtime.control.os_signals import act_on_closed_input, break_on_signals

    task = TrialTask(**json.loads(argv[1]))
    act_on_closed_input(save_and_end)
    try:
        with break_on_signals(process=True):
            outcome = train_trial(task)
    except KeyboardInterrupt:
        outcome = Outcome("stopped")
    except Exception as error:
        outcome = Outcome("failed", exception_summary(error))
        outcome.write(Path(task.outcome))
        raise
    outcome.write(Path(task.outcome))
    if outcome.message:
        print(f"palaestra: error: {outcome.message}", file=sys.stderr)
    return 0 if outcome.kind in ("finished", "stopped") else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv))
