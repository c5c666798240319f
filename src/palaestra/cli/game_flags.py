"""Flags for Unity games, the same in every command that starts one."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Mapping
from typing import Any

from palaestra.core.errors import ConfigError

ENV_ARGS = "--env-args"
FLAGS: tuple[tuple[str, Any, str], ...] = (
    ("num_envs", int, "copies of a build, each a process (default: 1)"),
    ("base_port", int, "first network port to try for builds (default: the system picks free ones)"),
    ("editor_port", int, "network port of the Editor (default: 5004)"),
    ("timeout_wait", float, "seconds to wait for an answer (default: 60 for a build, no limit for the Editor)"),
    (
        "max_lifetime_restarts",
        int,
        "restarts of a crashed copy in all; -1: no limit (default: while the run makes progress)",
    ),
    ("restarts_rate_limit_n", int, "restarts within a period; -1: no limit (default: while the run makes progress)"),
    ("restarts_rate_limit_period_s", int, "that period in seconds (default: 60)"),
    ("width", int, "window width in pixels (default: 84)"),
    ("height", int, "window height in pixels (default: 84)"),
    ("quality_level", int, "graphics quality (default: 5)"),
    ("time_scale", float, "simulated seconds per second (default: 20)"),
    ("target_frame_rate", int, "target frames per second; -1: as many as possible (default: -1)"),
    ("capture_frame_rate", int, "frames per simulated second (default: 60)"),
    ("bind", str, "address to listen on, such as 0.0.0.0 for other machines (default: this machine only)"),
    ("no_graphics", bool, "run without a window"),
    ("no_graphics_monitor", bool, "run without a window, except for the first copy"),
    ("env_args", list, "all arguments after this are passed to the build"),
)
"""Key in the settings, type and help of each flag."""
TITLE = "Unity games"
WHERE = "`palaestra help unity` explains them; most are for games only."
ENGINE = "width height quality_level time_scale target_frame_rate capture_frame_rate no_graphics no_graphics_monitor"
"""Keys of the section `engine_settings`; the other keys are in `env_settings`."""


def section_of(key: str) -> str:
    """Returns the section of the settings that a flag's key is in."""
    return "engine_settings" if key in ENGINE.split() else "env_settings"


def add_game_flags(parser: argparse.ArgumentParser, *, without: Collection[str] = (), remainder: str = "") -> None:
    """Adds a group of the flags for Unity games except `without`; --help names only the group; `remainder` ends the
    help of --env-args."""
    group = parser.add_argument_group(TITLE)
    if isinstance(by_name := getattr(parser, "by_name", None), dict):
        by_name[TITLE] = WHERE
    for key, kind, what in FLAGS:
        if key in without:
            continue
        flag = f"--{key.replace('_', '-')}"
        if kind is bool:
            group.add_argument(flag, action="store_true", default=None, help=what)
        elif kind is list:
            group.add_argument(flag, nargs=argparse.REMAINDER, metavar="ARG", help=what + remainder)
        else:
            group.add_argument(flag, type=kind, metavar="ADDRESS" if kind is str else "N", help=what)


def parse_known(parser: argparse.ArgumentParser, arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Parses known flags; everything after --env-args goes to the build, even if it looks like a flag of Palaestra."""
    at = arguments.index(ENV_ARGS) + 1 if ENV_ARGS in arguments else len(arguments)
    options, unknown = parser.parse_known_args(arguments[:at])
    if arguments[at:] and hasattr(options, "env_args"):
        options.env_args = arguments[at:]
    return options, unknown


def given_flags(options: argparse.Namespace, *, without: Collection[str] = ()) -> dict[str, dict[str, Any]]:
    """Returns the given flags as part of the settings tree; empty if no flag was given."""
    tree: dict[str, dict[str, Any]] = {}
    for key, _, _ in FLAGS:
        value = getattr(options, key, None)
        if value is not None and key not in without:
            tree.setdefault(section_of(key), {})[key] = value
    return tree


def refuse_flags(name: str, flags: Mapping[str, Mapping[str, Any]]) -> None:
    """Raises ConfigError if a flag for Unity games was given for another environment."""
    first = next((key for section in flags.values() for key in section), None)
    if first is not None:
        raise ConfigError(f"--{first.replace('_', '-')} is only for Unity games, and {name} is not one")
