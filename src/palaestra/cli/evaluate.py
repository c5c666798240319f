"""Play trained models for a number of episodes and report their rewards.

Plays the ONNX files themselves: what is reported is what a game gets.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from palaestra.cli.game_flags import add_game_flags, given_flags
from palaestra.cli.seeds import seed
from palaestra.cli.trust import add_trust


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `palaestra evaluate`."""
    parser.add_argument("run", metavar="RUN", help="a run id, a run's folder, or a model file (.onnx)")
    parser.add_argument("--env", metavar="ENV", help="environment (default: the one the run was trained in)")
    parser.add_argument("--episodes", type=int, default=100, metavar="N", help="episodes to play (default: 100)")
    parser.add_argument("--deterministic", action="store_true", help="take the most likely action instead of drawing one")
    parser.add_argument("--num-areas", type=int, metavar="N", help="areas played at once (default: as many as episodes, 100 at most)")
    parser.add_argument("--seed", type=seed, default=0, metavar="N", help="of the environment (default: 0)")
    parser.add_argument("--results-dir", type=Path, default=Path("results"), metavar="DIR", help="folder of all runs (default: results)")
    add_trust(parser)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    add_game_flags(parser)


def main(options: argparse.Namespace) -> None:
    """Plays and prints mean, spread and length for each behavior."""
    import json

    from palaestra.core.errors import ConfigError
    from palaestra.runtime.evaluation import evaluate
    from palaestra.runtime.playing import find_models, open_for

    if options.episodes < 1:
        raise ConfigError(f"--episodes is {options.episodes}; expected at least 1")
    models = find_models(options.run, options.results_dir, options.trust)
    env = open_for(models, options.env, options.num_areas, min(options.episodes, 100), options.seed, flags=given_flags(options))
    try:
        results = evaluate(env, models.policies(options.seed), options.episodes, deterministic=options.deterministic, seed=options.seed)
    finally:
        env.close()
    if options.json:
        report = {
            n: {"mean": r.mean, "std": float(r.returns.std()), "error": r.error, "episodes": len(r.returns)}
            | ({"group_mean": float(r.group_returns.mean()), "groups": len(r.group_returns)} if len(r.group_returns) else {})
            for n, r in results.items()
        }
        print(json.dumps(report))
        return
    for name, result in results.items():
        print(
            f"{name}: mean reward {result.mean:.3f} ± {result.error:.3f} over {len(result.returns)} episodes "
            f"(least {result.returns.min():.3f}, greatest {result.returns.max():.3f}; {result.lengths.mean():.1f} decisions each)"
        )
        if len(result.group_returns):
            print(f"{name}: mean group reward {result.group_returns.mean():.3f} over {len(result.group_returns)} groups")
