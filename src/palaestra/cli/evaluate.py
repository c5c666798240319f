"""Play trained models for a number of episodes and report their rewards.

Plays the ONNX files themselves, so the results are those that a game would see.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from palaestra.cli.flags import (
    at_least,
    env_of_run,
    env_options,
    given_env_options,
    option,
    results_dir,
    seed,
    switch,
    trust,
)
from palaestra.cli.game_flags import add_game_flags, given_flags
from palaestra.core.display import escaped
from palaestra.core.errors import ConfigError

if TYPE_CHECKING:
    from palaestra.runtime.play.evaluation import SideEpisodes
    from palaestra.runtime.play.run_models import Models

EXAMPLES = """\
palaestra evaluate first
palaestra evaluate first --deterministic --episodes=500
palaestra evaluate first second results/third/3DBall.onnx
palaestra evaluate first --env=Game.x86_64 --no-graphics
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `palaestra evaluate`."""
    runs = "a run id, a run's folder, a model file (.onnx, .nn), or hub:user/repo; several give a table"
    parser.add_argument("runs", nargs="+", metavar="RUN", help=runs)
    option(parser, "--step", "N", "play the models of this step (default: the newest)", type=int)
    env_of_run(parser)
    option(parser, "--episodes", "N", "episodes to play", 100)
    switch(parser, "--deterministic", "take the most likely action instead of sampling")
    areas = "areas played at once (default: as many as episodes, 100 at most)"
    option(parser, "--num-areas", "N", areas, type=int)
    seed(parser, "the environment")
    results_dir(parser)
    trust(parser)
    switch(parser, "--json", "print the result as JSON")
    env_options(parser)
    add_game_flags(parser)


def main(options: argparse.Namespace) -> None:
    """Plays; prints mean, spread and length for each behavior, as a table if there are several runs."""
    from palaestra.runtime.play.evaluation import as_json
    from palaestra.runtime.play.run_models import find_models

    at_least(options, episodes=1)
    if options.step is not None and options.step < 0:
        raise ConfigError(
            f"--step is {options.step}; expected a count of decisions, such as those in the names of a run's models"
        )
    chosen = given_env_options(options)
    # before hours of play
    all_models = [find_models(run, options.results_dir, options.trust, options.step) for run in options.runs]
    played = {run: _play(models, options, chosen) for run, models in zip(options.runs, all_models, strict=True)}
    if options.json:
        reports = {run: {name: as_json(result) for name, result in results.items()} for run, results in played.items()}
        print(json.dumps(reports if len(options.runs) > 1 else reports[options.runs[0]]))
    elif len(options.runs) > 1:
        print("\n".join(map(escaped, _table(played))))
    else:
        for name, result in played[options.runs[0]].items():
            print("\n".join(map(escaped, _lines(name, result))))


def _play(models: Models, options: argparse.Namespace, chosen: Mapping[str, Any]) -> dict[str, SideEpisodes]:
    from palaestra.parallel.closing import closing_safely
    from palaestra.runtime.logging.waiting import on_stderr
    from palaestra.runtime.play.evaluation import evaluate
    from palaestra.runtime.play.run_models import open_for

    flags = given_flags(options)
    usual = min(options.episodes, 100)
    env = open_for(models, options.env, options.num_areas, usual, options.seed, flags=flags, options=chosen)
    with closing_safely(env, "the environment", on_stderr):
        return evaluate(
            env, models.policies(options.seed), options.episodes, deterministic=options.deterministic, seed=options.seed
        )


def _lines(name: str, result: SideEpisodes) -> Iterator[str]:
    yield (
        f"{name}: mean reward {result.mean:.3f} ± {result.error:.3f} over {len(result.returns)} episodes "
        f"(least {result.returns.min():.3f}, greatest {result.returns.max():.3f}; {result.lengths.mean():.1f} "
        "decisions each)"
    )
    if len(result.group_returns):
        yield f"{name}: mean group reward {result.group_returns.mean():.3f} over {len(result.group_returns)} groups"
    if result.success_rate is not None:
        yield f"{name}: success in {result.success_rate:.1%} of the episodes"


def _table(played: Mapping[str, Mapping[str, SideEpisodes]]) -> list[str]:
    from palaestra.runtime.play.evaluation import cells
    from palaestra.runtime.presentation.result_tables import columns

    found = [(run, name, result) for run, behaviors in played.items() for name, result in behaviors.items()]
    groups = any(len(result.group_returns) for _, _, result in found)
    successes = any(result.success_rate is not None for _, _, result in found)
    head = ["run", "behavior", "reward", "least", "greatest", "decisions"]
    rows = [head + ["group reward"] * groups + ["success"] * successes]
    for run, name, result in found:
        rows.append([run, name, *cells(result)])
        if groups:
            rows[-1].append(f"{result.group_returns.mean():.3f}" if len(result.group_returns) else "")
        if successes:
            rows[-1].append("" if result.success_rate is None else f"{result.success_rate:.1%}")
    return columns(rows, left=2)
