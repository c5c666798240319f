"""Search settings: many trainings with different values, of which the best become a settings file.

The ranges are in the block 'search' of FILE, in a file of their own (--search), or those that come with Palaestra for
the trainer. Each trial is a training in results/STUDY/trials. A study that was stopped or killed goes on with --resume,
and so does a second process that shares it. At the end: best.yaml, trials.csv and pictures.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from palaestra.cli.game_flags import add_game_flags, given_flags
from palaestra.cli.trust import add_trust

EPILOG = """\
examples:
  palaestra tune configs/ppo/3DBall.yaml --env=3DBall --bar=90 --jobs=2
  palaestra tune configs/ppo/CartPole.yaml --env=CartPole --search=ppo --trials=50 --method=random
  palaestra tune --resume --trials=100
"""

SEARCH = "method trials jobs seeds search_seed bar pruner storage"
ENV = "env_path num_areas"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `palaestra tune`."""
    parser.add_argument(
        "config",
        nargs="?",
        type=Path,
        metavar="FILE",
        help="settings file (YAML) that trials start from; with --resume, the study's own",
    )
    study = parser.add_argument_group("the study")
    study.add_argument(
        "--study", default="tune", metavar="NAME", help="name of the study and of its folder (default: %(default)s)"
    )
    study.add_argument(
        "--resume",
        action="store_true",
        help="go on with the study of that name, or share it with processes that run it",
    )
    study.add_argument("--force", action="store_true", help="start anew: remove the study of that name")
    study.add_argument(
        "--results-dir",
        type=Path,
        default=Path("results"),
        metavar="DIR",
        help="folder of all runs (default: %(default)s)",
    )
    study.add_argument(
        "--storage", choices=("sqlite", "journal"), help="file of the study; journal for network file systems"
    )
    add_trust(study, "environment, networks or teachers")
    search = parser.add_argument_group("the search", "Each changes a key of the block 'search'.")
    search.add_argument(
        "--search", metavar="FILE", help="file with the block 'search', in place of FILE's; or ppo, sac or poca"
    )
    search.add_argument("--method", help="tpe (default) or random")
    search.add_argument("--trials", metavar="N", help="trials of the study, of all processes together (default: 30)")
    search.add_argument("--jobs", metavar="N", help="trials side by side (default: 1)")
    search.add_argument("--seeds", metavar="N", help="trainings of each trial, with different seeds (default: 1)")
    search.add_argument("--seed", dest="search_seed", metavar="N", help="seed of the search (default: 1)")
    search.add_argument(
        "--objective",
        action="append",
        choices=("reward", "decisions", "cpu_seconds"),
        help="what counts: the reward at the end, or decisions or CPU seconds until --bar; may be repeated",
    )
    search.add_argument("--bar", metavar="REWARD", help="mean reward at which a training is good enough")
    search.add_argument(
        "--pruner", help="what ends hopeless trials early: median (default with one objective), hyperband or none"
    )
    env = parser.add_argument_group("the environment")
    env.add_argument(
        "--env",
        dest="env_path",
        metavar="ENV",
        help="a Unity build, a built-in environment (3DBall), gymnasium:ID, envpool:TASK, pettingzoo:module or "
        "python:module:factory",
    )
    env.add_argument(
        "--num-areas", type=int, metavar="N", help="areas of the environment (default: the environment's own number)"
    )
    env.add_argument("--max-steps", metavar="N", help="decisions of each trial, such as 1e5 (default: as in FILE)")
    env.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="PATH=VALUE",
        dest="sets",
        help="change any setting of all trials, such as behaviors.3DBall.time_horizon=500; may be repeated",
    )
    add_game_flags(parser, remainder=", a later --set too")


def overrides(options: argparse.Namespace) -> dict[str, Any]:
    """Returns the given flags as a part of the settings tree."""
    tree: dict[str, Any] = {**given_flags(options)}
    env = {key: getattr(options, key) for key in ENV.split() if getattr(options, key) is not None}
    if env:
        tree["env_settings"] = {**tree.get("env_settings", {}), **env}
    search = {key: getattr(options, key) for key in SEARCH.split() if getattr(options, key) is not None}
    if "search_seed" in search:
        search["seed"] = search.pop("search_seed")
    if options.objective:
        search["objectives"] = options.objective
    if search:
        tree["search"] = search
    if options.max_steps is not None:
        tree["behaviors"] = {"*": {"max_steps": options.max_steps}}
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
