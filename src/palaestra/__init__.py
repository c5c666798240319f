"""Trains the agents of games and simulations, and plays what they learned.

>>> import palaestra
>>> result = palaestra.train(env="CartPole", max_steps=100_000)
>>> palaestra.evaluate(result).mean
>>> palaestra.record(result)
>>> policy = palaestra.load_policy(result)

Each name imports what it needs when it is first used; `load_policy` needs neither torch nor Warp.
docs/reference/python lists all of them.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # typing would be most of the time that this import takes
if TYPE_CHECKING:
    from typing import Any

    from palaestra.api.compare import compare as compare
    from palaestra.api.distill import distill as distill
    from palaestra.api.evaluate import evaluate as evaluate
    from palaestra.api.export import export as export
    from palaestra.api.export import publish as publish
    from palaestra.api.opening import load_policy as load_policy
    from palaestra.api.opening import make as make
    from palaestra.api.plot import plot as plot
    from palaestra.api.record import record as record
    from palaestra.api.run import run as run
    from palaestra.api.train import train as train
    from palaestra.api.train_seeds import train_seeds as train_seeds
    from palaestra.api.tune import tune as tune
    from palaestra.brains.model import Policy as Policy
    from palaestra.brains.model import PolicyAction as PolicyAction
    from palaestra.core.errors import PalaestraError as PalaestraError
    from palaestra.datasets import read_demo as read_demo
    from palaestra.envs.base import Env as Env
    from palaestra.runtime.comparison.shown_comparison import Comparison as Comparison
    from palaestra.runtime.control.stopping import stop_at_reward as stop_at_reward
    from palaestra.runtime.distill.distillation import Distillation as Distillation
    from palaestra.runtime.logging.tracker import Summary as Summary
    from palaestra.runtime.play.model_export import Export as Export
    from palaestra.runtime.play.shown_evaluation import Evaluation as Evaluation
    from palaestra.runtime.recording.finished_recording import Recording as Recording
    from palaestra.runtime.run.result import Result as Result
    from palaestra.runtime.seeds.seed_results import SeedResults as SeedResults
    from palaestra.runtime.sharing.pulling import pull as pull
    from palaestra.runtime.sharing.pushing import push as push
    from palaestra.runtime.tune.tune_result import TuneResult as TuneResult

    __version__: str

_PLACES = {
    "api.compare": "compare",
    "api.distill": "distill",
    "api.evaluate": "evaluate",
    "api.export": "export publish",
    "api.opening": "load_policy make",
    "api.plot": "plot",
    "api.record": "record",
    "api.run": "run",
    "api.train": "train",
    "api.train_seeds": "train_seeds",
    "api.tune": "tune",
    "brains.model": "Policy PolicyAction",
    "core.errors": "PalaestraError",
    "datasets": "read_demo",
    "envs.base": "Env",
    "runtime.comparison.shown_comparison": "Comparison",
    "runtime.control.stopping": "stop_at_reward",
    "runtime.distill.distillation": "Distillation",
    "runtime.logging.tracker": "Summary",
    "runtime.play.model_export": "Export",
    "runtime.play.shown_evaluation": "Evaluation",
    "runtime.recording.finished_recording": "Recording",
    "runtime.run.result": "Result",
    "runtime.seeds.seed_results": "SeedResults",
    "runtime.sharing.pulling": "pull",
    "runtime.sharing.pushing": "push",
    "runtime.tune.tune_result": "TuneResult",
}
"""Names of each module."""

__all__ = sorted(["__version__", *" ".join(_PLACES.values()).split()])  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    place = next((module for module, names in _PLACES.items() if name in names.split()), None)
    if place is not None:
        from palaestra.core.thread_waits import shorten_thread_waits

        shorten_thread_waits()
        found = getattr(import_module(f"palaestra.{place}"), name)
        if place.startswith(("runtime.sharing", "runtime.control", "datasets")):
            from palaestra.api.python_calls import python_call

            return python_call(found)
        return found
    if name == "pettingzoo":
        return import_module("palaestra.pettingzoo")
    if name == "__version__":
        from importlib.metadata import version

        return version("palaestra")
    raise AttributeError(f"module 'palaestra' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
