"""Convert a policy of another library to the ONNX model that Unity reads.

Reads models of Stable-Baselines3 (.zip), CleanRL and rsl_rl (files of weights), and Barracuda files of old ML-Agents
(.nn). Code in a file is never run. The new model's actions are compared with the actions of its source.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from palaestra.cli.flags import option, switch

EXAMPLES = """\
palaestra convert ppo_cartpole.zip CartPole.onnx
palaestra convert ppo_pendulum.zip Pendulum.onnx --normalizer vec_normalize.pkl
palaestra convert ppo_continuous_action.cleanrl_model Walker.onnx --bounds -1 1
palaestra convert model_1500.pt Robot.onnx --obs-shape 40,8 --activation elu
palaestra convert PushBlock.nn PushBlock.onnx --obs-shape 105,105
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `palaestra convert`."""
    parser.add_argument("source", type=Path, metavar="SOURCE", help="model file of another library")
    parser.add_argument("target", type=Path, metavar="TARGET", help="file to write, such as Walker.onnx")
    shapes = (
        "shape of each observation, with commas, in the order of Unity's sensors: 8 or CxHxW (default: from the file)"
    )
    option(parser, "--obs-shape", "SHAPES", shapes)
    option(parser, "--actions", "KIND:SIZES", "continuous:6 or discrete:3,2 (default: from the file)")
    bounds = (
        "range of the environment's continuous actions: LOW HIGH, or every lower and then every upper bound (default: "
        "the file's)"
    )
    option(parser, "--bounds", "NUMBER", bounds, nargs="+", type=float)
    option(parser, "--activation", "NAME", "activation between layers (default: the file's, else the library's)")
    statistics = "statistics of observations: VecNormalize's .pkl, or an .npz with mean and var"
    option(parser, "--normalizer", "FILE", statistics, type=Path)
    check = "compare with observations and actions that the source gave (obs, actions)"
    option(parser, "--check", "FILE.npz", check, type=Path)
    switch(parser, "--force", "overwrite an existing file")


def main(options: argparse.Namespace) -> None:
    """Writes and checks the model, and prints a description of it. Raises ConfigError, ExportError or PolicyError."""
    from palaestra.convert.convert_options import ConvertOptions, parse_actions, parse_bounds, parse_shapes

    continuous, branches = (None, None) if options.actions is None else parse_actions(options.actions)
    facts = ConvertOptions(
        obs=None if options.obs_shape is None else parse_shapes(options.obs_shape),
        continuous=continuous,
        branches=branches,
        bounds=None if options.bounds is None else parse_bounds(options.bounds),
        activation=options.activation,
        normalizer=options.normalizer,
    )
    from palaestra.convert.conversion import convert
    from palaestra.core.specs import describe

    done = convert(options.source, options.target, facts, check=options.check, force=options.force)
    print(f"Wrote {done.path} ({done.title})")
    print(f"  {describe(done.spec)}")
    print(f"  differs from the source's network by at most {done.difference:.1e} on random observations")
    if done.recorded is not None:
        rows, gap = done.recorded
        print(f"  differs from the {rows:,} recorded actions by at most {gap:.1e}")
    for remark in done.remarks:
        print(f"  note: {remark}")
