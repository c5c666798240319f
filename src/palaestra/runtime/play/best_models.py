"""The environment in which the policies of a run are evaluated, and the evaluations."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from time import perf_counter

import numpy as np
import torch

from palaestra.brains.model import load_policy
from palaestra.core.display import duration
from palaestra.core.errors import EnvError
from palaestra.core.files import file_name
from palaestra.core.specs import BehaviorSpec
from palaestra.envs.base import Env
from palaestra.envs.copies import Log
from palaestra.envs.wrapper import EnvWrapper
from palaestra.models.trunk import Trunk
from palaestra.onnx_export import onnx
from palaestra.runtime.curriculum.parameters import with_parameters
from palaestra.runtime.environments.custom_envs import as_env
from palaestra.runtime.environments.make import EDITOR, is_game, opening_options
from palaestra.runtime.play.evaluation import SideEpisodes, evaluate
from palaestra.runtime.play.run_models import open_named
from palaestra.runtime.settings import RunSettings
from palaestra.scenario.ending_settings import KeepBestSettings
from palaestra.scenario.settings import CurriculumSettings

Reopen = Callable[[int], Env]
"""Opens one more environment, with about the given number of areas."""


def reopening(settings: RunSettings, given: object | None, log: Log) -> Reopen | None:
    """Returns a function that opens a run's environment a second time, if that is possible. `given`: that of
    `train(env=...)`."""
    name = settings.env_settings.env_path or EDITOR
    options = opening_options(settings)

    def reopen(areas: int) -> Env:
        if given is None:
            made = open_named(name, None, areas, options, settings, log=log)
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
    """Returns the last lesson of each curriculum; policies are evaluated in the last lesson, so that values can be
    compared."""
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


class LeftOut(Exception):
    """Raised within an evaluation when its time is over; the text says why."""


class Trials:
    """Evaluates networks as exported files, in an environment that the first evaluation opens."""

    def __init__(self, reopen: Reopen | None, stopping: Callable[[], bool], env: str) -> None:
        """`reopen`: opens the environment; None if it cannot be. `stopping`: whether someone waits for the run's end.
        `env`: its name.
        """
        self._reopen = reopen
        self._stopping = stopping
        self._is_game = is_game(env)
        self._env: Env | None = None
        self._until: float | None = None
        """Time until which an evaluation may continue although the run stops; None: it ends at once."""
        self._took = 0.0
        """Duration of the last evaluation in seconds."""

    @property
    def possible(self) -> bool:
        """Whether a separate environment can be opened for evaluations."""
        return self._reopen is not None

    def allow(self, seconds: float) -> None:
        """Limits the time of evaluations, now that the run stops."""
        self._until = perf_counter() + seconds

    def _go_on(self, _: int = 0) -> None:
        if self._until is None:
            if self._stopping():
                raise LeftOut("the run stops")
        elif perf_counter() > self._until:
            raise LeftOut("the run was stopped, and its episodes take too long")

    def _must_have_time(self) -> None:
        self._go_on()
        if self._until is not None and perf_counter() + self._took > self._until:
            raise LeftOut(f"the run was stopped, and the last evaluation took {duration(self._took)}")
        if self._until is not None and self._env is None and self._is_game:
            raise LeftOut("the run was stopped, and the game of evaluations has not been started")

    def mean_reward(
        self, behavior: str, networks: Mapping[str, tuple[Trunk, BehaviorSpec]], wanted: KeepBestSettings
    ) -> float:
        """Returns a behavior's mean return; with groups, of whole groups. `networks`: of all behaviors. Raises LeftOut,
        and EnvError if the behavior has not played."""
        self._must_have_time()
        begun = perf_counter()
        with untouched_random_numbers(), tempfile.TemporaryDirectory() as place:
            policies = {}
            for name, (network, spec) in networks.items():
                onnx.export(network, spec, file := Path(place) / f"{file_name(name)}.onnx")
                policies[name] = load_policy(file, seed=wanted.seed)
            if self._env is None:
                assert self._reopen is not None
                self._env = self._reopen(min(wanted.episodes, 100))
            results = evaluate(
                self._env,
                policies,
                wanted.episodes,
                deterministic=wanted.deterministic,
                seed=wanted.seed,
                progress=self._go_on,
            )
        self._took = perf_counter() - begun
        return _mean(behavior, results)

    def close(self) -> None:
        """Closes the environment, if it was opened."""
        if self._env is not None:
            self._env.close()
            self._env = None


def _mean(behavior: str, results: Mapping[str, SideEpisodes]) -> float:
    own = [result for name, result in results.items() if name == behavior or name.startswith(f"{behavior}?team=")]
    if not own:
        there = ", ".join(results) or "no behavior"
        raise EnvError(f"it did not appear in the environment of evaluations (there: {there})")
    return float(np.concatenate([result.rewards for result in own]).mean())
