"""Copies, in processes of their own, of an environment whose class or function a program or a notebook defines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from palaestra.core.errors import EnvError
from palaestra.envs.base import Env
from palaestra.envs.guarded import Guarded
from palaestra.envs.pool.env_pool import EnvPool
from palaestra.envs.pool.links import ProcessLink
from palaestra.envs.unity.options import UnityOptions
from palaestra.parallel.by_value import packed, unpacked
from palaestra.runtime.environments.custom_envs import FirstMade, as_env
from palaestra.runtime.environments.unity_games import GameSettings


def copies_of(given: object, areas: int | None, options: Mapping[str, Any], games: GameSettings) -> EnvPool:
    """Opens as many copies as the settings of games say, each in a process that calls `given`. Raises EnvError."""
    how: UnityOptions = games.options
    given = given.discard() if isinstance(given, FirstMade) else given
    name = f"env ({getattr(given, '__name__', type(given).__name__)})"
    if not callable(given):
        raise EnvError(
            f"{name} is an environment that exists already, which stays in this process: --num-envs={how.copies} needs "
            "a function or a class that makes one, such as lambda: gymnasium.make('CartPole-v1')"
        )
    if areas is not None and areas < how.copies:
        raise EnvError(f"--num-envs={how.copies} copies cannot share {areas} areas: each needs one at least")
    first, more = divmod(areas or 0, how.copies)
    shares = [None if areas is None else first + (i < more) for i in range(how.copies)]
    data = packed(given, name)
    links = (ProcessLink(i, make_program_copy, (data, dict(options)), share) for i, share in enumerate(shares))
    return EnvPool(links, timeout=how.timeout_wait, restarts=how.restarts, log=games.log)


def make_program_copy(data: bytes, options: Mapping[str, Any], *, areas: int | None) -> Env:
    """Opens one copy, in its process."""
    given = unpacked(data)
    env, _ = as_env(given, areas, "cpu", options)
    return Guarded(env, f"env ({getattr(given, '__name__', type(given).__name__)})")
