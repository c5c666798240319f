"""Download a run from the Hugging Face Hub.

Brings a run of Palaestra or of ML-Agents into the results folder, whole or not at all. Nothing that is downloaded is
run or unpickled, and programs, logs and hidden files are left out. An interrupted download goes on where it was.
"""

from __future__ import annotations

import argparse
from pathlib import Path

EPILOG = """\
examples:
  palaestra pull ann/ppo-3DBall
  palaestra pull ann/ppo-3DBall --run-id=hers --revision=v2
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `palaestra pull`."""
    parser.add_argument("repo", metavar="REPO", help="repository, such as ann/ppo-3DBall")
    parser.add_argument("--run-id", metavar="ID", help="name of the run here (default: that of the repository)")
    parser.add_argument("--revision", metavar="NAME", help="branch, tag or commit (default: main)")
    parser.add_argument("--models-only", action="store_true", help="leave out checkpoints and event files")
    parser.add_argument("--force", action="store_true", help="replace a run of that name")
    parser.add_argument(
        "--results-dir", type=Path, default=Path("results"), metavar="DIR", help="folder of all runs (default: results)"
    )


def main(options: argparse.Namespace) -> None:
    """Downloads, and prints where the run is. Raises HubError, RunError or ConfigError."""
    from palaestra.core.display import escaped, print_now
    from palaestra.runtime.sharing.pulling import pull

    done = pull(
        options.repo,
        run_id=options.run_id,
        results_dir=options.results_dir,
        revision=options.revision,
        models_only=options.models_only,
        force=options.force,
        tell=lambda line: print_now(escaped(line)),
    )
    if done.left_out:
        shown = ", ".join(done.left_out[:5]) + (f" and {len(done.left_out) - 5} more" if len(done.left_out) > 5 else "")
        print(escaped(f"left out: {shown}"))
    print(escaped(f"{done.folder} is complete"))
    if done.is_run:
        print(
            escaped(
                f"  test it      palaestra evaluate {done.folder}\n  watch it     palaestra record {done.folder}"
            ).replace("\\n", "\n")
        )
    else:
        print("  it has no configuration.yaml: its models play in an environment that you name with --env")
