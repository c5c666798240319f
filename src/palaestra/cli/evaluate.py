"""Play trained models for a number of episodes and report their rewards.

Plays the ONNX files themselves, so a game would see the same results.
"""

from __future__ import annotations

import argparse
import json

from palaestra.cli.flags import env_of_run, env_options, given_env_options, option, results_dir, seed, switch, trust
from palaestra.cli.game_flags import add_game_flags, given_flags

EXAMPLES = """\
palaestra evaluate first
palaestra evaluate first@best
palaestra evaluate first --deterministic --episodes=500
palaestra evaluate first second results/third/3DBall.onnx
palaestra evaluate first --env=Game.x86_64 --no-graphics
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `palaestra evaluate`."""
    runs = "run ids, RUN@STEP, RUN@best, run folders, model files (.onnx, .nn), or hub:user/repo; several give a table"
    parser.add_argument("runs", nargs="+", metavar="RUN", help=runs)
    step = "play the models of this step, or 'best', the models that keep_best kept (default: the newest)"
    option(parser, "--step", "N", step)
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
    from palaestra.runtime.play.evaluating import Contestant, PlayOptions, evaluate_all
    from palaestra.runtime.play.run_models import find_models
    from palaestra.runtime.play.shown_evaluation import evaluation_json

    known = {name: getattr(options, name) for name in ("episodes", "deterministic", "num_areas", "seed", "env")}
    wanted = PlayOptions(**known, options=given_env_options(options), flags=given_flags(options))
    # before hours of play
    all_models = [find_models(run, options.results_dir, options.trust, options.step) for run in options.runs]
    found = evaluate_all([Contestant(run, one) for run, one in zip(options.runs, all_models, strict=True)], wanted)
    print(json.dumps(evaluation_json(found)) if options.json else found)
