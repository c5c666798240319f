"""Write a run's policies as ONNX models, from its checkpoint.

Training already writes them. This command writes them again, or from an earlier checkpoint. Each model is compared with
the network.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from palaestra.cli.flags import option, results_dir, switch, trust

EXAMPLES = """\
palaestra export first
palaestra export first --step=100000
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `palaestra export`."""
    parser.add_argument("run", metavar="RUN", help="a run id, or a run's folder")
    option(parser, "--behavior", "NAME", "write this behavior only (default: all)")
    out = "file to write, for a single behavior (default: NAME.onnx in the run's folder)"
    option(parser, "--out", "FILE", out, type=Path)
    switch(parser, "--force", "overwrite an existing file that --out names")
    option(parser, "--step", "N", "step of the checkpoint (default: the last)", type=int)
    inputs = (
        "leave out inputs of a Unity game's model that the critic alone saw (critic_only), for builds without those "
        "sensors"
    )
    switch(parser, "--policy-inputs", inputs)
    results_dir(parser)
    trust(parser, "networks")


def main(options: argparse.Namespace) -> None:
    """Writes and checks the files, and prints how well they agree with the networks. Raises PalaestraError."""
    from palaestra.runtime.play.model_export import export_models

    chosen = {name: getattr(options, name) for name in ("behavior", "out", "force", "step", "trust", "policy_inputs")}
    print(export_models(options.run, options.results_dir, **chosen))
