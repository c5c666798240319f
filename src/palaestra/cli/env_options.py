"""The flag --set of commands that only open an environment: options of it, written as for `palaestra learn`."""

from __future__ import annotations

import argparse
from typing import Any

from palaestra.core.errors import ConfigError

PATH = "env_settings.env_options"


def add_env_options(parser: argparse._ActionsContainer) -> None:
    """Adds `--set`, which sets options of the environment."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="PATH=VALUE",
        dest="sets",
        help=f"set an option of the environment, such as {PATH}.largest_boards=true; may be repeated",
    )


def env_options(options: argparse.Namespace) -> dict[str, Any]:
    """Returns the options that were typed. Raises ConfigError for any other setting."""
    if not options.sets:
        return {}
    from palaestra.runtime.settings import load

    for text in options.sets:
        path = text.partition("=")[0].strip()
        if path != PATH and not path.startswith(f"{PATH}."):
            raise ConfigError(
                f"--set {text}: only options of the environment are set here, such as {PATH}.largest_boards=true"
            )
    return load(None, sets=options.sets, own_code=False).settings.env_settings.env_options
