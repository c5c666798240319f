"""Best models of a run so far, and the environment in which policies are evaluated."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import signature

import numpy as np
import torch

from palaestra.envs.base import Env
from palaestra.envs.wrapper import EnvWrapper
from palaestra.runtime.curriculum.parameters import with_parameters
from palaestra.runtime.environments.custom_envs import as_env
from palaestra.runtime.environments.make import EDITOR, opening_options
from palaestra.runtime.play.run_models import open_named
from palaestra.runtime.settings import RunSettings
from palaestra.scenario.settings import CurriculumSettings

Reopen = Callable[[int], Env]
"""Opens one more environment, with about so many areas."""


def reopening(settings: RunSettings, given: object | None) -> Reopen | None:
    """Returns a function that opens a run's environment again, if possible. `given`: that of `train(env=...)`."""
    name = settings.env_settings.env_path or EDITOR
    options = opening_options(settings)

    def reopen(areas: int) -> Env:
        if given is None:
            made = open_named(name, None, areas, options, settings)
        else:  # a function that chooses the number of areas is only sure to make what the run trains in
            chosen = areas if _takes_areas(given) else settings.env_settings.num_areas
            made = EnvWrapper.of(as_env(given, chosen, "cpu", options)[0])
        return with_parameters(
            made, settings.environment_parameters, last_lessons(settings), settings.env_settings.seed
        )

    if given is None:
        return None if name == EDITOR else reopen
    return reopen if callable(given) else None


def _takes_areas(given: object) -> bool:
    return callable(given) and "areas" in signature(given).parameters


def last_lessons(settings: RunSettings) -> dict[str, int]:
    """Returns the last lesson of each curriculum, in which policies are evaluated so that values can be compared."""
    forms = (settings.environment_parameters or {}).items()
    return {name: len(form.curriculum) - 1 for name, form in forms if isinstance(form, CurriculumSettings)}


@contextmanager
def untouched_random_numbers() -> Iterator[None]:
    """Restores the process's own random generators after the block."""
    python = random.getstate()
    numpy = np.random.get_state()
    with torch.random.fork_rng():
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)
