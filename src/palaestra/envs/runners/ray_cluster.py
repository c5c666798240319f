"""The Ray cluster on which runners live: an existing cluster, or one started on this machine for the run."""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

from palaestra.core.errors import EnvError
from palaestra.core.processes import usable_cores
from palaestra.envs.runners.arrivals import Address, Arrivals
from palaestra.envs.runners.env_runner import EnvRunner, RunnerTask
from palaestra.envs.runners.runner_options import RunnerOptions

OBJECT_STORE = 80 * 1024 * 1024
"""Bytes of Ray's object store on a cluster that the run starts: the least that Ray allows, as tables do not pass
through it."""
TOKEN = "RAY_AUTH_MODE"
"""Environment variable that makes Ray send the token that clusters ask for; Ray reads it when it is imported."""
CLUSTER = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Environment variable that says whether Ray listens for other machines."""
OURS = (None, "local")
"""Addresses for which a cluster is started for the time of the run."""
THREADS = 8
"""Most calls of Ray at the same time."""
CLOSE_SECONDS = 10.0
"""Seconds at the end for actors to end."""
DEATH_SECONDS = 0.3
"""Seconds that Ray has to say why an actor ended."""
REACH_SECONDS = 5.0
"""Seconds that a cluster has to answer."""


class Placed:
    """An actor that was requested from Ray. Ray's calls may wait for a machine that has vanished, so other threads make
    them."""

    def __init__(self, cluster: RayCluster, address: Address, task: RunnerTask, ended: Callable[[], None]) -> None:
        """`ended` is called, in another thread, when it has ended."""
        self._cluster = cluster
        self._ended = ended
        self._actor: Any = None
        self._error: BaseException | None = None
        self._done = threading.Event()
        self._asked = cluster.background.submit(self._ask, address, task)

    def _ask(self, address: Address, task: RunnerTask) -> None:
        try:
            self._actor = self._cluster.actors.remote()
            self._actor.serve.remote(address, task).future().add_done_callback(self._finish)
        except Exception as error:  # Ray's own, such as that its cluster is gone
            self._error = error
            self._done.set()
            self._ended()

    def _finish(self, result: Future[None]) -> None:
        self._error = result.exception()
        self._done.set()
        self._ended()

    def describe_end(self) -> str:
        """Returns how the actor ended, as a predicate."""
        if not self._done.wait(DEATH_SECONDS):
            return "closed its connection"
        return "ended" if self._error is None else _reason(self._error)

    def end(self) -> None:
        """Ends the actor, even if it hangs."""
        with suppress(RuntimeError):  # the cluster is closed
            self._cluster.background.submit(self._kill)

    def _kill(self) -> None:
        self._asked.result()
        if self._actor is not None:
            with suppress(Exception):
                self._cluster.ray.kill(self._actor)


class RayCluster:
    """Connects with Ray and starts runners there."""

    def __init__(self, options: RunnerOptions) -> None:
        """Raises EnvError if Ray is not installed, or does not answer at the address."""
        address = options.address or os.environ.get("RAY_ADDRESS")
        if address is not None:
            check_address(address)
        self.ray = import_ray(address)
        self._runners, self._ours = options.runners, not self.ray.is_initialized()
        if self._ours:
            connect(self.ray, options, address)
        try:
            self.arrivals = Arrivals(self.ray.util.get_node_ip_address())
            self._cpus = self._share(options)
        except BaseException:
            self._shut_down()
            raise
        self.background = ThreadPoolExecutor(THREADS, "palaestra runners")
        self.actors = self.ray.remote(EnvRunner).options(
            num_cpus=self._cpus, scheduling_strategy="SPREAD", max_restarts=0, max_task_retries=0, max_concurrency=1
        )

    def _share(self, options: RunnerOptions) -> float:
        if options.cpus is not None:
            return options.cpus
        there = self.ray.cluster_resources().get("CPU", 0.0)
        # Ray places a share of a CPU as small as this
        return 1.0 if there >= options.runners else max(0.0001, int(10_000 * there / options.runners / 2) / 10_000)

    @property
    def address(self) -> str:
        """Address at which other programs connect with this cluster."""
        return self.ray.get_runtime_context().gcs_address

    @property
    def brings_folder(self) -> bool:
        """Whether Ray copies the working folder to every machine."""
        return bool(self.ray.get_runtime_context().runtime_env.get("working_dir"))

    def explain_waiting(self) -> str:
        """Returns why a runner may have no machine yet, as the end of a sentence."""
        free = self.ray.available_resources().get("CPU", 0.0)
        there = self.ray.cluster_resources().get("CPU", 0.0)
        if free >= self._cpus:
            return ""
        return f": it needs {self._cpus:g} CPUs, and {free:g} of the cluster's {there:g} are free (--runner-cpus)"

    def missing_room(self) -> str:
        """Returns a sentence about the resources that runners need but the cluster lacks now; '' if it has room."""
        needed = self._cpus * self._runners
        free = self.ray.available_resources().get("CPU", 0.0)
        if free >= needed:
            return ""
        return f"{self._runners} runners need {needed:g} CPUs, and the Ray cluster has {free:g} free (--runner-cpus)"

    def close(self) -> None:
        """Ends all actors, then the cluster if it was started for this run; disconnects from any other cluster."""
        self.arrivals.close()
        threads = threading.Thread(target=self.background.shutdown, daemon=True)
        threads.start()
        threads.join(CLOSE_SECONDS)
        self._shut_down()

    def _shut_down(self) -> None:
        if self._ours:
            self.ray.shutdown()


def import_ray(address: str | None) -> Any:
    """Returns the module. Raises EnvError if Ray is not installed.

    Without an address, a cluster will be started; it requires a token that Ray makes, if this version of Ray has
    tokens.
    """
    if address in OURS and "ray" not in sys.modules:
        os.environ.setdefault(TOKEN, "token")
    try:
        import ray
    except ImportError as error:
        raise EnvError("--env-runners needs Ray, which is not installed: pip install 'palaestra[ray]'") from error
    return ray


def connect(ray: Any, options: RunnerOptions, address: str | None) -> None:
    """Connects with the cluster at the address, of a submitted job, or a new one. Raises EnvError."""
    common: dict[str, Any] = {
        "configure_logging": False,
        "log_to_driver": options.show_output,
        "logging_level": logging.ERROR,
    }
    if options.working_dir is not None:
        if not os.path.isdir(options.working_dir):
            raise EnvError(f"there is no folder '{options.working_dir}' to bring to the runners (--ray-working-dir)")
        common["runtime_env"] = {"working_dir": os.path.abspath(options.working_dir)}
    ours = address in OURS
    if ours:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a cluster of ours reports nothing to anybody
        cpus = max(usable_cores(), options.runners)
        common |= {
            "address": "local",
            "num_cpus": cpus,
            "include_dashboard": False,
            "object_store_memory": OBJECT_STORE,
        }
    else:
        common["address"] = address
    logging.getLogger("ray").setLevel(logging.ERROR)
    with _signals_kept(), _without_current_folder(), _on_loopback() if ours or options.of_first_rank else nullcontext():
        try:
            ray.init(**common)
        except Exception as error:  # Ray raises bare ones, too, such as where its processes start too slowly
            where = "start on this machine" if ours else f"be reached at {address}"
            hint = "" if TOKEN in os.environ else f" (a cluster that asks for a token needs {TOKEN}=token)"
            if ours:
                hint = (
                    "; the machine may be too busy: start Ray beforehand with 'ray start --head', and add "
                    "--ray-address=auto"
                )
            raise EnvError(f"Ray could not {where}: {' '.join(str(error).split())[:400]}{hint}") from error


def check_address(address: str) -> None:
    """Raises EnvError if no process listens at the address; Ray itself would try for several minutes."""
    advice = "start one with 'ray start --head', or leave --ray-address out for one on this machine"
    if address in ("auto", "local"):
        return
    if "://" in address:
        raise EnvError(
            f"--ray-address={address}: the run has to be on a machine of the cluster, since its runners connect to "
            "it; submit it with 'ray job submit -- palaestra learn ...', or give the cluster's HOST:PORT there"
        )
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        raise EnvError(f"--ray-address={address}: expected HOST:PORT, such as 10.0.0.1:6379, or auto")
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACH_SECONDS).close()
    except OSError as error:
        raise EnvError(f"no Ray cluster answers at {address} ({error.strerror or error}): {advice}") from error


@contextmanager
def _on_loopback() -> Iterator[None]:
    """Has Ray listen on this machine's loopback address only, within the block, with all processes of a cluster that
    starts there.

    Ray does so by itself on Windows and macOS; the variable that changes it there works everywhere. Ray reads it when
    it is imported.
    """
    from ray._private import ray_constants

    before = os.environ.get(CLUSTER)
    constant = getattr(ray_constants, "ENABLE_RAY_CLUSTER", None)
    os.environ[CLUSTER] = "0"
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = constant
        if before is None:
            del os.environ[CLUSTER]
        else:
            os.environ[CLUSTER] = before


@contextmanager
def _without_current_folder() -> Iterator[None]:
    """Leaves the current folder within the block. Ray would put it near the front of its processes' import path, and it
    may hold a stranger's files; runners go back there themselves."""
    here = os.getcwd()
    os.chdir(sys.prefix)
    try:
        yield
    finally:
        os.chdir(here)


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Puts the handlers of signals back that Ray sets."""
    numbers = [signal.SIGINT, signal.SIGTERM] if threading.current_thread() is threading.main_thread() else []
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _reason(error: BaseException) -> str:
    text = " ".join(str(error).split())
    if re.search(r"node (failure|died|has died|is dead)", text):
        return "is gone with its machine"
    if "unavailable" in text or "Socket closed" in text:
        return "is not reached any more"
    if "killed" in text.lower() or "SIGKILL" in text:
        return "was killed"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"ended: {lines[-1][:300] if lines else type(error).__name__}"
