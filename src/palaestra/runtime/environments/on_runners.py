"""Opens copies of an environment in runners, which are Ray actors on any number of machines (`--env-runners`)."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from palaestra.core.versions import palaestra_version
from palaestra.envs.base import Env
from palaestra.envs.pool.env_pool import DEFAULT_TIMEOUT, EnvPool
from palaestra.envs.runners.env_runner import MakeHere, RunnerTask
from palaestra.envs.runners.ray_cluster import TOKEN, RayCluster
from palaestra.envs.runners.runner_link import RunnerLink
from palaestra.envs.runners.runner_options import RunnerOptions
from palaestra.parallel.rank_group import RankGroup
from palaestra.runtime.environments.unity_games import GameSettings

RAYS_FOLDERS = "runtime_resources"
"""Folder under which Ray keeps the files that it copies to a machine while a job needs them."""
START_SECONDS = 120.0
"""Seconds without a message of any runner at the start, after which the run gives up."""


def open_on_runners(
    name: str,
    areas: int | None,
    shares: list[int | None] | None,
    options: Mapping[str, Any],
    games: GameSettings,
    make: MakeHere,
) -> Env:
    """Opens the copies of an environment in runners, each of which calls `make` in its process. Raises EnvError.

    `shares`: the areas of each copy of a Gymnasium or Python environment (None: the copy's default number); None for a
    game.
    """
    runners = games.runners
    assert runners is not None
    cluster = _join(runners, games.group)
    try:
        tasks = list(_tasks(_name_there(name, cluster), areas, shares, options, games))
        folder = None if cluster.brings_folder else os.getcwd()
    except BaseException:
        cluster.close()
        raise
    if games.log is not None and games.options.logs is not None and RAYS_FOLDERS in games.options.logs.resolve().parts:
        games.log(
            "warning",
            f"the run is written to {games.options.logs.resolve().parent}, which Ray deletes after the job "
            "(--results-dir)",
        )
    given = games.options
    limit = games.options.timeout_wait or DEFAULT_TIMEOUT
    # a runner with a game or with several copies watches over them itself, and reports one that hangs
    timeout = limit if shares is not None and games.copies == runners.runners else 3 * limit + 30.0
    version = palaestra_version()
    links = [
        RunnerLink(i, cluster, RunnerTask(make, task, folder, version, tuple(sys.path)), given.logs, games.log)
        for i, task in enumerate(tasks)
    ]
    limit = max(START_SECONDS, limit)
    if games.log is not None and (missing := cluster.missing_room()):
        games.log("warning", f"{missing}: the run waits at most {limit:g} s for room")
    pool = EnvPool(
        links, timeout=timeout, start_timeout=limit, restarts=given.restarts, log=games.log, afterwards=cluster.close
    )
    if games.log is not None:
        games.log("info", _summary(links, games.copies))
    return pool


def _join(runners: RunnerOptions, group: RankGroup) -> RayCluster:
    """Connects with the cluster. If there is none, rank 0 starts one for all ranks."""
    if runners.address is not None or os.environ.get("RAY_ADDRESS"):
        return RayCluster(runners)
    everyones = int(group.total(runners.runners))
    cluster = group.first(lambda: RayCluster(replace(runners, runners=everyones)))
    own = ("", None) if cluster is None else (cluster.address, os.environ.get(TOKEN))
    address, token = group.from_first(own)
    if cluster is not None:
        return cluster
    if token is not None:
        os.environ[TOKEN] = token
    return RayCluster(replace(runners, address=address, of_first_rank=True))


def _tasks(
    name: str, areas: int | None, shares: list[int | None] | None, options: Mapping[str, Any], games: GameSettings
) -> Iterator[tuple[Any, ...]]:
    assert games.runners is not None
    count = games.runners.runners
    first = 0
    given = games.options
    for i in range(count):
        copies = games.copies // count + (i < games.copies % count)
        own = None if shares is None else shares[first : first + copies]
        of_runner = areas if own is None else None if None in own else sum(cast("list[int]", own))
        own_games = replace(
            given,
            copies=copies,
            first_copy=given.first_copy + first,
            all_copies=given.all_copies or given.copies,
            logs=None,
        )
        yield name, of_runner, dict(options), GameSettings(own_games, games.channels)
        first += copies


def _name_there(name: str, cluster: RayCluster) -> str:
    """Returns the environment's name on the runners: a build in a folder that Ray brings has a path within it."""
    path = Path(name)
    if cluster.brings_folder and path.is_absolute() and path.is_relative_to(Path.cwd()):
        return str(path.relative_to(Path.cwd()))
    return name


def _summary(links: Sequence[RunnerLink], copies: int) -> str:
    machines = Counter(link.machine for link in links)
    where = ", ".join(f"{count} on {machine}" for machine, count in sorted(machines.items()))
    return f"{copies} copies of the environment in {sum(machines.values())} runners: {where}"
