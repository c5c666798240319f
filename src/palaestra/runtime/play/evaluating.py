"""Evaluates runs, model files and policies, for `palaestra.evaluate` and the command `evaluate`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from palaestra.brains.checked import unseen
from palaestra.brains.model import Policy
from palaestra.core.errors import ConfigError
from palaestra.envs.base import Env
from palaestra.envs.spaces.option_names import OF_RUN
from palaestra.envs.wrapper import EnvWrapper
from palaestra.parallel.closing import closing_safely
from palaestra.runtime.curriculum.parameters import with_parameters
from palaestra.runtime.environments.custom_envs import as_env
from palaestra.runtime.logging.waiting import on_stderr
from palaestra.runtime.play.assigned_brains import BrainOf
from palaestra.runtime.play.evaluation import model_brains, play, results
from palaestra.runtime.play.players import Players
from palaestra.runtime.play.run_models import Models, open_for, parameters_of
from palaestra.runtime.play.shown_evaluation import EvaluatedSide, Evaluation
from palaestra.runtime.presentation.episode_progress import EpisodeProgress

MOST_AREAS = 100
"""Most areas that are played at once if their number is not given."""


@dataclass(frozen=True, slots=True)
class PlayOptions:
    """How episodes are played."""

    episodes: int = 100
    deterministic: bool = False
    num_areas: int | None = None
    seed: int = 0
    env: object | None = None
    """Name of an environment, or one of the user's own; None: the run's."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Options for the environment."""
    flags: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """Settings of Unity games."""
    quiet: bool = False

    def __post_init__(self) -> None:
        if self.episodes < 1:
            raise ConfigError(f"--episodes is {self.episodes}; expected at least 1")
        if self.num_areas is not None and not 1 <= self.num_areas <= 1_000_000:
            raise ConfigError(f"--num-areas is {self.num_areas}; expected at least 1, and 1,000,000 at most")
        if self.seed < 0:
            raise ConfigError(f"--seed is {self.seed}; expected at least 0")


@dataclass(frozen=True, slots=True)
class Contestant:
    """A run, or some models or policies, evaluated under one name."""

    name: str
    models: Models
    policies: Mapping[str, Policy] | None = None
    """Policies in place of the run's models, by behavior; a single policy plays the only behavior, whatever its
    name."""
    env: object | None = None
    """The user's own environment in which the contestant was trained."""


def evaluate_all(contestants: Sequence[Contestant], wanted: PlayOptions) -> Evaluation:
    """Plays each contestant in a separate environment, one after another. Raises PalaestraError."""
    start = time.perf_counter()
    rows = list[EvaluatedSide]()
    decisions = 0
    for one in contestants:
        with opened(one.models, one.env if wanted.env is None else wanted.env, wanted) as env:
            policies = one.models.policies(wanted.seed) if one.policies is None else _named(one.policies, env)
            brains = model_brains(env, policies, deterministic=wanted.deterministic)
            players = played(env, brains, wanted, one.name if len(contestants) > 1 else "")
            for name, spec in env.behaviors.items():
                if (hidden := unseen(brains(name, 0), spec)) and not wanted.quiet:
                    on_stderr(f"{name}: {policies[name].path.name} does not see {', '.join(sorted(hidden))}")
        absent = policies.keys() - {behavior for behavior, _ in players.teams}
        if absent and not wanted.quiet:
            on_stderr(f"not in these episodes, so not evaluated: {', '.join(sorted(absent))}")
        rows += [EvaluatedSide(one.name, side, episodes) for side, episodes in results(players).items()]
        decisions += players.decisions
    return Evaluation(tuple(rows), decisions, time.perf_counter() - start)


def played(env: Env, brains: BrainOf, wanted: PlayOptions, name: str = "") -> Players:
    """Plays all episodes and shows progress."""
    players = Players(env, brains, lambda agents: wanted.episodes)
    with EpisodeProgress(name, quiet=wanted.quiet) as progress:
        play(env, players, wanted.seed, lambda: progress.show(*counts(players, wanted.episodes)))
    return players


def counts(players: Players, episodes: int) -> tuple[int, int, int]:
    """Returns the numbers of finished episodes, of wanted episodes, and of decisions."""
    teams = players.teams
    return sum(len(one.returns) for one in teams.values()), episodes * len(teams), players.decisions


@contextmanager
def opened(models: Models, given: object | None, wanted: PlayOptions) -> Iterator[EnvWrapper]:
    """Opens the environment to play in; closes it afterwards unless it is the user's own object."""
    is_ours = True
    if given is None or isinstance(given, str):
        usual = min(wanted.episodes, MOST_AREAS)
        env = open_for(models, given, wanted.num_areas, usual, wanted.seed, flags=wanted.flags, options=wanted.options)
    else:
        forms, lessons = parameters_of(models, wanted.options)
        made, is_ours = as_env(given, wanted.num_areas, "cpu", {**wanted.options, OF_RUN: tuple(forms)})
        env = with_parameters(EnvWrapper.of(made), forms, lessons, wanted.seed)
    with closing_safely(env, "the environment", on_stderr) if is_ours else nullcontext():
        yield env


def _named(policies: Mapping[str, Policy], env: Env) -> Mapping[str, Policy]:
    if len(policies) == len(env.behaviors) == 1:
        return dict.fromkeys(env.behaviors, next(iter(policies.values())))
    return policies
