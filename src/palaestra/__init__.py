"""Trains the agents of games and simulations, and plays what they learned.

>>> env = palaestra.make("3DBall", areas=64)
>>> palaestra.train("configs/ppo/3DBall.yaml", env="3DBall")
>>> policy = palaestra.load_policy("results/first/3DBall.onnx")
>>> demo = palaestra.read_demo("Expert.demo")

Each name imports what it needs when it is first used; `load_policy` needs neither torch nor Warp.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # typing would be most of the time that this import takes
if TYPE_CHECKING:
    from typing import Any

    from palaestra.api.train import train as train
    from palaestra.api.train_seeds import train_seeds as train_seeds
    from palaestra.api.tune import tune as tune
    from palaestra.brains.model import load_policy as load_policy
    from palaestra.datasets import read_demo as read_demo
    from palaestra.envs.base import Env
    from palaestra.runtime.comparison.comparing import compare as compare
    from palaestra.runtime.control.stopping import stop_at_reward as stop_at_reward
    from palaestra.runtime.recording.filming import record as record
    from palaestra.runtime.sharing.pulling import pull as pull
    from palaestra.runtime.sharing.pushing import push as push

    __version__: str

__all__ = [
    "__version__",
    "compare",
    "load_policy",
    "make",
    "pull",
    "push",
    "read_demo",
    "record",
    "stop_at_reward",
    "train",
    "train_seeds",
    "tune",
]

_PLACES = {
    "compare": "palaestra.runtime.comparison.comparing",
    "load_policy": "palaestra.brains.model",
    "pull": "palaestra.runtime.sharing.pulling",
    "push": "palaestra.runtime.sharing.pushing",
    "read_demo": "palaestra.datasets",
    "record": "palaestra.runtime.recording.filming",
    "stop_at_reward": "palaestra.runtime.control.stopping",
    "train": "palaestra.api.train",
    "train_seeds": "palaestra.api.train_seeds",
    "tune": "palaestra.api.tune",
}


def make(name: str, *, areas: int | None = None, device: str = "cpu", **options: Any) -> Env:
    """Opens the environment that `--env=NAME` means, with `areas` areas or its own number of them. `options` go to the
    environment itself (`palaestra envs NAME` lists them). Raises EnvError.
    """
    from palaestra.runtime.environments.make import make_env

    return make_env(name, areas=areas, device=device, options=options)


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        from palaestra.core.thread_waits import shorten_thread_waits

        shorten_thread_waits()
        return getattr(import_module(_PLACES[name]), name)
    if name == "pettingzoo":
        return import_module("palaestra.pettingzoo")
    if name == "__version__":
        from importlib.metadata import version

        return version("palaestra")
    raise AttributeError(f"module 'palaestra' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
