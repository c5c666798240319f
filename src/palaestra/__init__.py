"""Trains the agents of games and simulations, and plays what they learned.

>>> env = palaestra.make("3DBall", areas=64)
>>> palaestra.train("configs/ppo/3DBall.yaml", env="3DBall")
>>> policy = palaestra.load_policy("results/first/3DBall.onnx")
>>> demo = palaestra.read_demo("Expert.demo")

Each name imports what it needs when it is first used; `load_policy` needs neither torch nor Warp.
"""

from __future__ import annotations

import os

from palaestra.interop.import_hooks import when_imported

TYPE_CHECKING = False  # typing would be most of the time that this import takes
if TYPE_CHECKING:
    from typing import Any

    from palaestra.brains.model import load_policy as load_policy
    from palaestra.datasets import read_demo as read_demo
    from palaestra.envs.base import Env
    from palaestra.runtime.comparison.comparing import compare as compare
    from palaestra.runtime.control.stopping import stop_at_reward as stop_at_reward
    from palaestra.runtime.recording.filming import record as record
    from palaestra.runtime.run.api import train as train
    from palaestra.runtime.seeds.training import train_seeds as train_seeds
    from palaestra.runtime.sharing.pulling import pull as pull
    from palaestra.runtime.sharing.pushing import push as push
    from palaestra.runtime.tune.tuning import tune as tune

    __version__: str

# PyTorch's threads (GNU OpenMP, read when torch is first imported) wait for one another in a busy loop, milliseconds
# long. On
# a machine that has other work, such as a game, they wait for cores that nobody gives: 12,000 agent-steps/s where this
# makes 80,000
os.environ.setdefault("GOMP_SPINCOUNT", "100000")


def _register_envs() -> None:
    """Gives Gymnasium the ids palaestra/3DBall-v0 and the others."""
    from palaestra.interop.registration import register_envs

    register_envs()


when_imported("gymnasium", _register_envs)

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


def make(name: str, *, areas: int | None = None, device: str = "cpu", **options: Any) -> Env:
    """Opens the environment that `--env=NAME` means, with `areas` areas or its own number of them. `options` go to the
    environment itself (`palaestra envs NAME` lists them). Raises EnvError.
    """
    from palaestra.runtime.environments.make import make_env

    return make_env(name, areas=areas, device=device, options=options)


def __getattr__(name: str) -> Any:
    if name == "load_policy":
        from palaestra.brains.model import load_policy

        return load_policy
    if name == "read_demo":
        from palaestra.datasets import read_demo

        return read_demo
    if name == "train":
        from palaestra.runtime.run.api import train

        return train
    if name == "tune":
        from palaestra.runtime.tune.tuning import tune

        return tune
    if name == "push":
        from palaestra.runtime.sharing.pushing import push

        return push
    if name == "pull":
        from palaestra.runtime.sharing.pulling import pull

        return pull
    if name == "stop_at_reward":
        from palaestra.runtime.control.stopping import stop_at_reward

        return stop_at_reward
    if name == "train_seeds":
        from palaestra.runtime.seeds.training import train_seeds

        return train_seeds
    if name == "compare":
        from palaestra.runtime.comparison.comparing import compare

        return compare
    if name == "record":
        from palaestra.runtime.recording.filming import record

        return record
    if name == "pettingzoo":
        from importlib import import_module

        return import_module("palaestra.pettingzoo")
    if name == "__version__":
        from importlib.metadata import version

        return version("palaestra")
    raise AttributeError(f"module 'palaestra' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
