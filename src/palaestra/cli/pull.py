"""Download a run from the Hugging Face Hub.

Copies a run of Palaestra or of ML-Agents into the results folder, whole or not at all. Nothing that is downloaded is
run or unpickled, and programs, logs and hidden files are left out. An interrupted download continues where it stopped.
"""

from __future__ import annotations

import argparse

from palaestra.cli.flags import option, results_dir, switch
from palaestra.core.display import escaped, listed, print_now

EXAMPLES = """\
palaestra pull ann/ppo-3DBall
palaestra pull ann/ppo-3DBall --run-id=hers --revision=v2
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `palaestra pull`."""
    parser.add_argument("repo", metavar="REPO", help="repository, such as ann/ppo-3DBall")
    option(parser, "--run-id", "ID", "name of the run here (default: the repository's)")
    option(parser, "--revision", "NAME", "branch, tag or commit (default: main)")
    switch(parser, "--models-only", "leave out checkpoints and event files")
    switch(parser, "--force", "replace a run of that name")
    results_dir(parser)


def main(options: argparse.Namespace) -> None:
    """Downloads, and prints where the run is. Raises HubError, RunError or ConfigError."""
    from palaestra.runtime.sharing.pulling import pull

    done = pull(
        options.repo,
        run_id=options.run_id,
        results_dir=options.results_dir,
        revision=options.revision,
        models_only=options.models_only,
        force=options.force,
        report=lambda line: print_now(escaped(line)),
    )
    if done.left_out:
        print(escaped(f"left out: {listed(done.left_out)}"))
    print(escaped(f"{done.folder} is complete"))
    if done.is_run:
        print(
            escaped(
                f"  test it      palaestra evaluate {done.folder}\n  watch it     palaestra record {done.folder}"
            ).replace("\\n", "\n")
        )
    else:
        print("  it has no configuration.yaml: its models play in an environment that you name with --env")
