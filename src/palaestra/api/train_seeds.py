"""Trains one setting with several seeds, from Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from palaestra.api.python_calls import python_call
from palaestra.api.train import callbacks_of, prepared, trained
from palaestra.api.training_options import Environment, TrainingOptions, check_config, overrides_of, settings_of
from palaestra.core.errors import ConfigError
from palaestra.runtime.environments.custom_envs import FirstMade
from palaestra.runtime.run.run_settings import Config, TrainingRequest
from palaestra.runtime.seeds.seed_plan import parse_seeds, plan_seeds
from palaestra.runtime.seeds.seed_results import SeedResults
from palaestra.runtime.seeds.training import train_all

if TYPE_CHECKING:
    from typing_extensions import Unpack


@python_call
def train_seeds(
    config: Config = None,
    *,
    seeds: int | str | Sequence[int] = 5,
    side_by_side: int = 1,
    env: Environment | None = None,
    quiet: bool = False,
    **options: Unpack[TrainingOptions],
) -> SeedResults:
    """Trains once for each seed, as `palaestra.train` does, in the runs RUN_ID-seed-1, RUN_ID-seed-2 and so on.

    >>> import palaestra
    >>> print(palaestra.train_seeds(env="gymnasium:CartPole-v1", seeds=5, side_by_side=2, max_steps=100_000))

    config, env, further keywords: as for `palaestra.train`. With `resume`, seeds whose runs exist continue.
    seeds: how many, a list of them, or a text such as "3,7,9" or "11-15".
    side_by_side: how many train at once, each in a process of its own; their output goes to their log files only. A
        script needs `if __name__ == "__main__":` where `trainer` is a class of its own.
    quiet: print nothing.

    Returns the results with their mean and its interval, and the errors of seeds that failed. A seed that fails does
    not stop the others; RunError is raised if all fail. Signals act as in `palaestra.train`.
    """
    given = dict(options)
    settings, callbacks, trust = given.pop("settings", None), given.pop("callbacks", ()), given.pop("trust", False)
    overrides = overrides_of(train_seeds, given)
    check_config(train_seeds, config)
    if env is not None and not isinstance(env, str) and not callable(env):
        raise ConfigError(
            "env is an environment, which only one run can use: give its name, or a function that makes it"
        )
    request = TrainingRequest(
        config, overrides, settings_of(settings), env, callbacks_of(callbacks), quiet=quiet, trust=bool(trust)
    )
    request = prepared(request, ending="-seed-")
    plan = plan_seeds(
        parse_seeds(seeds),
        config,
        request.overrides,
        request.sets,
        side_by_side=side_by_side,
        own_env=request.env is not None,
    )
    if plan.at_once > 1 and isinstance(request.env, FirstMade):
        request = replace(request, env=request.env.discard())
    return train_all(plan, request, trained)
