"""Search settings: many trainings with different values, of which the best become a settings file.

The ranges are in the block 'search' of FILE or in a separate file (--search); without either, Palaestra's ranges for
the trainer apply. Each trial is a training in results/STUDY/trials. With --resume a study continues after a
stop or a crash, and a second process joins it. At its end the search writes best.yaml, trials.csv and pictures.
"""

from __future__ import annotations

import argparse
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from palaestra.cli.flags import ENVIRONMENTS, given, option, repeated, results_dir, switch, trust
from palaestra.cli.game_flags import add_game_flags, given_flags

EXAMPLES = """\
palaestra tune configs/ppo/3DBall.yaml --env=3DBall --bar=90 --jobs=2
palaestra tune configs/ppo/CartPole.yaml --env=CartPole --search=ppo --trials=50 --method=random
palaestra tune --env=gymnasium:CartPole-v1 --max-steps=5e4
palaestra tune --resume --trials=100
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `palaestra tune`."""
    config = "settings file (YAML) that trials start from (default: the one shipped for ENV, or settings that fit it)"
    parser.add_argument("config", nargs="?", type=Path, metavar="FILE", help=config)
    study = parser.add_argument_group("Study")
    option(study, "--study", "NAME", "name of the study and of its folder", "tune")
    switch(study, "--resume", "continue the study of that name, or join processes that run it")
    switch(study, "--force", "start again: remove the study of that name")
    results_dir(study)
    storage = "file of the study; journal for network file systems"
    study.add_argument("--storage", choices=("sqlite", "journal"), help=storage)
    trust(study, "environment, networks or teachers")
    search = parser.add_argument_group("Search", "Each flag changes a key of the block 'search'.")
    option(search, "--search", "FILE", "file with the block 'search', in place of FILE's; or ppo, sac or poca")
    search.add_argument("--method", help="tpe (default) or random")
    option(search, "--trials", "N", "trials of the study, of all processes together (default: 30)")
    option(search, "--jobs", "N", "trials side by side (default: 1)")
    option(search, "--seeds", "N", "trainings of each trial, with different seeds (default: 1)")
    option(search, "--seed", "N", "seed of the search (default: 1)", dest="search_seed")
    objective = "what counts: the reward at the end, or decisions or CPU seconds until --bar; may be repeated"
    search.add_argument("--objective", action="append", choices=("reward", "decisions", "cpu_seconds"), help=objective)
    option(search, "--bar", "REWARD", "mean reward at which a training is good enough")
    pruner = "rule that ends bad trials early: median (default with one objective), hyperband or none"
    search.add_argument("--pruner", help=pruner)
    env = parser.add_argument_group("Trials")
    option(env, "--env", "ENV", f"a Unity build, {ENVIRONMENTS}", dest="env_path")
    option(env, "--num-areas", "N", "areas of the environment (default: the environment's own number)", type=int)
    option(env, "--max-steps", "N", "decisions of each trial, such as 1e5 (default: as in FILE)")
    sets = "change any setting of all trials, such as behaviors.3DBall.time_horizon=500"
    repeated(env, "--set", "PATH=VALUE", sets, dest="sets")
    add_game_flags(parser, remainder=", a later --set too")


def overrides(options: argparse.Namespace) -> dict[str, Any]:
    """Returns the given flags as a part of the settings tree."""
    tree: dict[str, Any] = {**given_flags(options)}
    if env := given(options, "env_path num_areas"):
        tree["env_settings"] = {**tree.get("env_settings", {}), **env}
    search = given(options, "method trials jobs seeds search_seed bar pruner storage")
    if "search_seed" in search:
        search["seed"] = search.pop("search_seed")
    if options.objective:
        search["objectives"] = options.objective
    if search:
        tree["search"] = search
    if options.max_steps is not None:
        steps = options.max_steps
        with suppress(ValueError):  # any other text is refused with the settings
            steps = int(number) if (number := float(steps)).is_integer() else number
        tree["behaviors"] = {"*": {"max_steps": steps}}
    return tree


def main(options: argparse.Namespace) -> None:
    """Searches, and prints the best trials. Raises PalaestraError."""
    os.environ.setdefault("MPLBACKEND", "Agg")  # pictures are written, not shown
    from palaestra.runtime.tune.study import StudyFolder
    from palaestra.runtime.tune.tuning import SearchRequest, run_search

    request = SearchRequest(
        StudyFolder(options.results_dir, options.study),
        options.config,
        overrides(options),
        options.sets,
        options.search,
        resume=options.resume,
        force=options.force,
        trust=options.trust,
    )
    run_search(request)
