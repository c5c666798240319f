"""Trainings on a Ray cluster: an actor for each, which runs the same process as on this machine.

Where a machine does not see the study's folder, the actor works in a folder of its own: it is given the settings and
what the run has so far, sends its metrics whenever they grow, and the whole run at the end.
"""

from __future__ import annotations

import io
import os
import secrets
import sys
import tarfile
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from palaestra.core.errors import EnvError
from palaestra.core.files import write_whole
from palaestra.core.versions import palaestra_version
from palaestra.envs.runners.ray_cluster import check_address, connect, import_ray
from palaestra.envs.runners.runner_options import RunnerOptions
from palaestra.runtime.logging.trackers import METRICS
from palaestra.runtime.settings.search_settings import SearchSettings
from palaestra.runtime.tune.courses import CPU
from palaestra.runtime.tune.trial_launch import LocalTraining
from palaestra.runtime.tune.trial_process import Outcome, TrialTask

TOKEN = ".token"
NEWS = (METRICS, str(CPU))
"""Files of a run that the study reads while it trains."""
POLL_SECONDS = 0.01
"""Seconds to wait for an answer of an actor at each look."""


class TrialHost:
    """The actor: runs one training on its machine."""

    def begin(self, task: TrialTask, token: str, version: str, folder: str, path: list[str]) -> bool:
        """Takes a task. Returns whether this machine sees the study's folder. Raises EnvError for another version of
        Palaestra.
        """
        if version != palaestra_version():
            raise EnvError(
                f"a machine of the cluster has palaestra {palaestra_version()}, and the search {version}: they must "
                "be the same"
            )
        if os.path.isdir(folder):
            os.chdir(folder)
        sys.path += [place for place in path if place not in sys.path and os.path.isdir(place)]
        self._task = task
        self._sizes = dict.fromkeys(NEWS, -1)
        self._training: LocalTraining | None = None
        with suppress(OSError):
            self._shared = (Path(task.settings).parent / TOKEN).read_text() == token
            return self._shared
        self._shared = False
        return False

    def start(self, settings: bytes, run: bytes) -> None:
        """Starts the training. `settings` and `run`: the settings file, and the run's folder so far as a tar, where
        they are not seen.
        """
        if not self._shared:
            self._own = tempfile.TemporaryDirectory(prefix="palaestra-trial-", ignore_cleanup_errors=True)
            place = Path(self._own.name)
            (place / "settings.yaml").write_bytes(settings)
            self._task = replace(
                self._task,
                settings=str(place / "settings.yaml"),
                results_dir=str(place / "trials"),
                outcome=str(place / "outcome.json"),
                log=str(place / "log"),
            )
            unpack(run, self._task.run)
        self._training = LocalTraining(self._task)

    def look(self) -> tuple[Outcome | None, dict[str, bytes]]:
        """Returns how the training ended, None while it runs, and the files that have grown since the last look."""
        assert self._training is not None
        ended = self._training.ended()
        news: dict[str, bytes] = {}
        for name in () if self._shared else NEWS:
            with suppress(OSError):
                data = (self._task.run / name).read_bytes()
                if len(data) != self._sizes[name]:
                    news[name] = data
                    self._sizes[name] = len(data)
        return ended, news

    def fetch(self) -> tuple[bytes, bytes]:
        """Returns the whole run as a tar, and its log, and removes both here; nothing where both are seen anyway."""
        if self._shared:
            return b"", b""
        log = Path(self._task.log)
        found = pack(self._task.run), log.read_bytes() if log.is_file() else b""
        self._own.cleanup()
        return found

    def stop(self) -> None:
        """Has the training save and end."""
        if self._training is not None:
            self._training.stop()


class RayTraining:
    """A training in an actor. Calls of Ray are never waited for longer than a moment."""

    def __init__(self, ray: Any, actors: Any, task: TrialTask) -> None:
        self._ray = ray
        self._task = task
        Path(task.outcome).unlink(missing_ok=True)
        token = secrets.token_hex(16)
        (Path(task.settings).parent / TOKEN).write_text(token)
        self._actor = actors.remote()
        self._state = "begin"
        here = replace(task, settings=absolute(task.settings), results_dir=absolute(task.results_dir))
        here = replace(here, outcome=absolute(task.outcome), log=absolute(task.log))
        self._pending = self._actor.begin.remote(here, token, palaestra_version(), os.getcwd(), sys.path)
        self._outcome: Outcome | None = None
        self._ended: Outcome | None = None

    def ended(self) -> Outcome | None:
        """Returns how it ended; None while it runs."""
        if self._outcome is not None:
            return self._outcome
        ready, _ = self._ray.wait([self._pending], timeout=POLL_SECONDS)
        if not ready:
            return None
        try:
            answer = self._ray.get(self._pending)
        except EnvError as error:
            return self._finish(Outcome("failed", str(error)))
        except Exception as error:  # Ray's own: the actor or its machine is gone, or what the actor raised
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            lost = (
                "ActorDied" in type(error).__name__
                or "Unavailable" in type(error).__name__
                or "NodeDied" in type(error).__name__
            )
            return self._finish(
                Outcome("lost" if lost else "failed", lines[-1][:300] if lines else type(error).__name__)
            )
        return self._take(answer)

    def _take(self, answer: Any) -> Outcome | None:
        """Takes an answer of the actor and asks the next question."""
        if self._state == "begin":
            settings, run = (b"", b"") if answer else (Path(self._task.settings).read_bytes(), pack(self._task.run))
            self._state, self._pending = "start", self._actor.start.remote(settings, run)
        elif self._state == "start":
            self._state, self._pending = "look", self._actor.look.remote()
        elif self._state == "look":
            self._ended, news = answer
            for name, data in news.items():
                (self._task.run / name).parent.mkdir(parents=True, exist_ok=True)
                write_whole(self._task.run / name, data)
            if self._ended is None:
                self._pending = self._actor.look.remote()
            else:
                self._state, self._pending = "fetch", self._actor.fetch.remote()
        else:
            run, log = answer
            unpack(run, self._task.run)
            if log:
                write_whole(Path(self._task.log), log)
            assert self._ended is not None
            self._ended.write(Path(self._task.outcome))
            return self._finish(self._ended)
        return None

    def stop(self) -> None:
        """Has it save and end."""
        with suppress(Exception):  # Ray's own: the actor is gone
            self._actor.stop.remote()

    def close(self) -> None:
        """Ends it at once: its process ends, saved, when the actor's end closes its standard input."""
        if self._outcome is None:
            self._finish(Outcome("lost", "it was closed"))

    def _finish(self, outcome: Outcome) -> Outcome:
        self._outcome = outcome
        (Path(self._task.settings).parent / TOKEN).unlink(missing_ok=True)
        with suppress(Exception):
            self._ray.kill(self._actor)
        return outcome


class RayLauncher:
    """Starts trainings on a Ray cluster."""

    def __init__(self, search: SearchSettings, working_dir: str | None = None) -> None:
        """Connects with the cluster. Raises EnvError if Ray is not installed or does not answer."""
        address = search.ray_address or os.environ.get("RAY_ADDRESS")
        if address is not None:
            check_address(address)
        self._ray = import_ray("palaestra tune --ray needs", address)
        self._ours = not self._ray.is_initialized()
        if self._ours:
            connect(self._ray, RunnerOptions(1, address, working_dir=working_dir), address)
        self._actors = self._ray.remote(TrialHost).options(
            num_cpus=search.trial_cpus,
            scheduling_strategy="SPREAD",
            max_restarts=0,
            max_task_retries=0,
            max_concurrency=1,
        )

    def start(self, task: TrialTask) -> RayTraining:
        """Starts one; it waits until the cluster has CPUs for it."""
        return RayTraining(self._ray, self._actors, task)

    def close(self) -> None:
        """Ends a cluster that was started for this search, else only leaves it."""
        if self._ours:
            self._ray.shutdown()


def absolute(path: str) -> str:
    """Returns the absolute path: an actor's working folder may be another."""
    return str(Path(path).absolute())


def pack(folder: Path) -> bytes:
    """Returns a folder as a tar; empty if there is none."""
    if not folder.is_dir():
        return b""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.is_symlink() and path.name not in (".lock", ".writer.json"):
                tar.add(path, path.relative_to(folder).as_posix(), recursive=False)
    return out.getvalue()


def unpack(data: bytes, folder: Path) -> None:
    """Writes the files of a tar into a folder. Raises EnvError for a name that leads out of it."""
    if not data:
        return
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for member in tar.getmembers():
            target = folder / member.name
            if not member.isfile() or ".." in Path(member.name).parts or Path(member.name).is_absolute():
                raise EnvError(
                    f"a machine of the cluster sent a file {member.name!r}, which is not in the run's folder"
                )
            content = tar.extractfile(member)
            assert content is not None
            target.parent.mkdir(parents=True, exist_ok=True)
            write_whole(target, content.read())
