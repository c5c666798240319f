"""Flags that several commands share, and functions that add other flags."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, TypeAlias

from palaestra.core.errors import ConfigError

Group: TypeAlias = argparse._ActionsContainer

ENVIRONMENTS = "gymnasium:ID, envpool:TASK, pettingzoo:module, python:module:Class, or a built-in environment (3DBall)"
"""Environments that a flag may name, besides Unity's."""
MOST_SEED = 2**63 - 1
"""Largest seed that fits all generators."""
OPTIONS, OF_RUN = "env_settings.env_options", "environment_parameters"


def option(group: Group, flag: str, metavar: str, what: str, default: Any = None, **more: Any) -> None:
    """Adds a flag with a value. The default decides the value's type, unless `type` is given, and stands at the end of
    the flag's help."""
    if default is not None:
        more = {"type": type(default), **more}
        what = f"{what} (default: {default})"
    group.add_argument(flag, metavar=metavar, default=default, help=what, **more)


def switch(group: Group, flag: str, what: str, **more: Any) -> None:
    """Adds a flag without a value."""
    group.add_argument(flag, action="store_true", help=what, **more)


def repeated(group: Group, flag: str, metavar: str, what: str, **more: Any) -> None:
    """Adds a flag whose values become a list."""
    group.add_argument(flag, action="append", default=[], metavar=metavar, help=f"{what}; may be repeated", **more)


def results_dir(group: Group) -> None:
    """Adds `--results-dir`."""
    option(group, "--results-dir", "DIR", "folder of all runs", Path("results"))


def env_of_run(group: Group) -> None:
    """Adds `--env` of commands that open a run's environment."""
    option(group, "--env", "ENV", "environment (default: the one that the run was trained in)")


def x_axis(group: Group) -> None:
    """Adds `--x`, the horizontal axis of curves."""
    what = "decisions or training time (default: %(default)s)"
    group.add_argument("--x", choices=("step", "time"), default="step", help=what)


def picture(group: Group, usual: str) -> None:
    """Adds `--out` and `--force` of commands that draw a picture; `usual` is the name of a picture without `--out`."""
    out = f"picture to write (default: {usual}, or {Path(usual).stem}-2 and so on where there is one)"
    option(group, "--out", "FILE", out, type=Path)
    switch(group, "--force", "overwrite an existing picture")


def trust(group: Group, what: str = "environment") -> None:
    """Adds `--trust`; `what` names the parts of a run that may be code."""
    switch(
        group,
        "--trust",
        f"run the code or program that is the run's {what}, even if its folder was not written by you on this machine",
    )


def seed(group: Group, of: str) -> None:
    """Adds `--seed` of commands that play."""
    option(group, "--seed", "N", f"seed of {of}", 0, type=_seed)


def _seed(text: str) -> int:
    if not text.strip().isdecimal() or int(text) > MOST_SEED:
        raise argparse.ArgumentTypeError(f"'{text}' is not a seed; expected a whole number from 0 to {MOST_SEED}")
    return int(text)


def env_options(group: Group, *, parameters: bool = True) -> None:
    """Adds `--set` of commands that only open an environment: it sets options and, if allowed, parameters of it."""
    more = f", or a parameter, as {OF_RUN}.gravity=15" if parameters else ""
    what = f"set an option of the environment, as {OPTIONS}.largest_boards=true{more}"
    repeated(group, "--set", "PATH=VALUE", what, dest="sets")


def given_env_options(options: argparse.Namespace, *, parameters: bool = True) -> dict[str, Any]:
    """Returns the options of the environment that were typed, and its parameters under `OF_RUN`. Raises ConfigError for
    any other setting, and for parameters unless they are allowed."""
    if not options.sets:
        return {}
    from palaestra.runtime.environments.make import options_with
    from palaestra.runtime.settings import load

    for text in options.sets:
        path = text.partition("=")[0].strip()
        may = (f"{OPTIONS}.", f"{OF_RUN}.") if parameters else f"{OPTIONS}."
        if not f"{path}.".startswith(may):
            more = f" or {OF_RUN}.gravity=15" if parameters else ""
            raise ConfigError(
                f"--set {text}: only options{' and parameters' if parameters else ''} of the environment are set here, "
                f"such as {OPTIONS}.largest_boards=true{more}"
            )
    settings = load(None, sets=options.sets, own_code=False).settings
    return options_with(settings.env_settings.env_options, settings.environment_parameters)


def given(options: argparse.Namespace, keys: str) -> dict[str, Any]:
    """Returns the values of the flags in `keys` (each flag's `dest`, separated by spaces) that were typed."""
    return {key: found for key in keys.split() if (found := getattr(options, key)) is not None}


def at_least(options: argparse.Namespace, **least: int) -> None:
    """Raises ConfigError for a flag whose value is below its minimum."""
    for name, number in least.items():
        found = getattr(options, name)
        if found is not None and found < number:
            raise ConfigError(f"--{name.replace('_', '-')} is {found}; expected at least {number}")
