"""Starts the process of a training on this machine."""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from palaestra.core.plugins import own_python
from palaestra.runtime.tune.trial_process import Outcome, TrialTask

GRACE = 60.0
"""Seconds that a training has to save and end before it is killed."""


class TrialTraining:
    """A process on this machine, in a separate session: the terminal's Ctrl-C reaches it only through its parent."""

    def __init__(self, task: TrialTask) -> None:
        self._task = task
        self._deadline = float("inf")
        Path(task.outcome).unlink(missing_ok=True)
        Path(task.log).parent.mkdir(parents=True, exist_ok=True)
        environment = {"OMP_NUM_THREADS": "1", **os.environ, "PYTHONUNBUFFERED": "1"}
        command = own_python("palaestra.runtime.tune.trial_process", task.as_json())
        own_group = 0 if os.name == "posix" else 0x200  # CREATE_NEW_PROCESS_GROUP
        with open(task.log, "ab") as log:
            self.process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                creationflags=own_group,
            )

    def ended(self) -> Outcome | None:
        """Returns how the training ended; None while it is running."""
        if self.process.poll() is None:
            if time.monotonic() > self._deadline:
                self.process.kill()
            return None
        self._hang_up()
        found = Outcome.read(Path(self._task.outcome))
        code = self.process.returncode
        return found or Outcome(
            "lost", f"its process was killed (signal {-code})" if code < 0 else f"its process ended with status {code}"
        )

    def stop(self) -> None:
        """Asks the training to save and end; kills it if it has not ended in time."""
        self._deadline = min(self._deadline, time.monotonic() + GRACE)
        self._hang_up()

    def close(self) -> None:
        """Ends the process at once, if it is still running."""
        self._hang_up()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def _hang_up(self) -> None:
        if self.process.stdin is not None:
            with suppress(OSError):
                self.process.stdin.close()
