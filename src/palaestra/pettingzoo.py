"""Built-in environments, Unity games and games in Python for PettingZoo's trainers.

>>> env = palaestra.pettingzoo.parallel_env("SoccerTwos")
>>> env = palaestra.pettingzoo.aec_env("examples/sdk_tag.py")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from palaestra.core.errors import EnvError
from palaestra.interop.opened_env import OpenedEnv

if TYPE_CHECKING:
    from pettingzoo import AECEnv

    from palaestra.interop.parallel_env import AgentsEnv


def parallel_env(
    env: str, *, render_mode: str | None = None, device: str = "cpu", seed: int | None = None, **options: Any
) -> AgentsEnv:
    """Opens a built-in environment, a Unity build, a game in Python or the Editor, by its name for `palaestra learn
    --env`; all agents act at once.

    A game starts with `seed` (0 by default). In other environments `seed` is the seed of the first episode (by default
    drawn at random). `options` are the environment's options; `parameters` among them sets environment parameters by
    name. Raises EnvError.
    """
    try:
        from palaestra.interop.parallel_env import AgentsEnv
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "pettingzoo":
            raise
        raise EnvError(
            "palaestra.pettingzoo needs the package pettingzoo: pip install 'palaestra[pettingzoo]'"
        ) from error
    if not env:
        raise EnvError(
            "no environment is given: name one, such as parallel_env('SoccerTwos') or parallel_env('Game.x86_64')"
        )
    return AgentsEnv(
        OpenedEnv(env, options, num_areas=1, device=device, seed=seed, drawn=render_mode is not None), render_mode
    )


def aec_env(env: str, **options: Any) -> AECEnv[str, Any, Any]:
    """Opens the same environment as `parallel_env`, in which agents act one after another within each step."""
    parallel = parallel_env(env, **options)
    from pettingzoo.utils.conversions import parallel_to_aec

    return parallel_to_aec(parallel)
