"""Write a run's policies as ONNX models, from its checkpoint.

Training already writes them. This command writes them again, or from an earlier checkpoint. Each is compared with the
network.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from palaestra.cli.flags import option, results_dir, switch, trust
from palaestra.core.errors import ConfigError, ExportError, RunInUse
from palaestra.core.files import file_name, must_be_new
from palaestra.core.plugins import nearest

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
    results_dir(parser)
    trust(parser, "networks")


def main(options: argparse.Namespace) -> None:
    """Writes and checks the files, and prints how well they agree with the networks. Raises PalaestraError."""
    from contextlib import nullcontext

    from palaestra.onnx_export.check import compare
    from palaestra.onnx_export.onnx import export
    from palaestra.runtime.logging.waiting import on_stderr
    from palaestra.runtime.play.run_models import run_folder
    from palaestra.runtime.storage.networks import load_networks
    from palaestra.runtime.storage.trust import must_stay_inside
    from palaestra.runtime.storage.writer_lock import sole_writer

    if options.out is not None and (options.out.suffix.lower() != ".onnx" or options.out.is_dir()):
        raise ConfigError(f"--out {options.out}: expected the name of a file that ends in .onnx")
    if options.out is not None:
        must_be_new(options.out, force=options.force)
    folder = run_folder(options.run, options.results_dir).path
    if options.out is None:
        must_stay_inside(folder, options.trust)
    networks = load_networks(folder, options.step, options.trust)
    there = ", ".join(networks)
    if options.behavior and options.behavior not in networks:
        raise ExportError(
            f"run '{folder.name}' has no behavior '{options.behavior}'{nearest(options.behavior, networks)} (it has: "
            f"{there})"
        )
    chosen = [options.behavior] if options.behavior else list(networks)
    if options.out and len(chosen) > 1:
        raise ExportError(
            f"--out names one file, and run '{folder.name}' has several behaviors ({there}): choose one with --behavior"
        )
    try:
        with nullcontext() if options.out else sole_writer(folder, lambda warning: on_stderr(f"warning: {warning}")):
            for name in chosen:
                network, spec = networks[name]
                path = options.out or folder / f"{file_name(name)}.onnx"
                export(network, spec, path)
                error = compare(network, spec, path)
                print(f"Wrote {path} (differs from the network by at most {error:.1e} on 1,000 random observations)")
    except RunInUse as error:
        raise RunInUse(f"{error}; --out=FILE.onnx writes the model to another place meanwhile") from None
