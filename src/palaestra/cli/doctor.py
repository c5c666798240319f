"""Find out what is wrong with a Unity build, the Editor's scene or another environment.

Starts it, plays random actions and reports each stage on the way, what agents see and earn, and where the time goes.
The exit status is 1 where training would fail.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from palaestra.cli.game_flags import add_game_flags, given_flags
from palaestra.cli.trust import add_trust

EPILOG = """\
examples:
  palaestra doctor Game.x86_64
  palaestra doctor Game.x86_64 --no-graphics --config configs/ppo/3DBall.yaml
  palaestra doctor
  palaestra doctor gymnasium:CartPole-v1 --ticks 1000
"""

SECTIONS = {"env_settings": "env_path num_areas"}
"""Where in the settings the flags belong that are not about games; a flag's `dest` is its key in the YAML."""
WITHOUT = ("num_envs", "no_graphics_monitor", "max_lifetime_restarts", "restarts_rate_limit_n", "restarts_rate_limit_period_s")
"""Flags about games that mean nothing here: one copy is started, once."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to examine, for how long, and how its games are started."""
    parser.add_argument(
        "env_path",
        nargs="?",
        metavar="BUILD",
        help="a Unity build, or any other environment as for learn's --env (default: the one of --config, else the Unity Editor)",
    )
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--ticks", type=int, metavar="N", help="ticks of random actions (default: 200)")
    length.add_argument("--seconds", type=float, metavar="S", help="play for that long instead")
    parser.add_argument("--config", type=Path, metavar="CONFIG", help="settings file (YAML) that the behaviors are compared with")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything found out as JSON too")
    group = parser.add_argument_group("starting it", "As in 'palaestra learn'.")
    add_trust(group)
    group.add_argument("--num-areas", type=int, metavar="N", help="areas of the environment (default: its own number)")
    add_game_flags(parser, without=WITHOUT)


def overrides(options: argparse.Namespace) -> dict[str, Any]:
    """The flags that were typed, as a part of the settings tree."""
    tree = {
        section: {key: getattr(options, key) for key in keys.split() if getattr(options, key) is not None}
        for section, keys in SECTIONS.items()
    }
    games = given_flags(options, without=WITHOUT)
    tree["env_settings"] |= games.get("env_settings", {}) | {"num_envs": 1}  # whatever the file says: one tells enough
    return tree | {"engine_settings": games.get("engine_settings", {})}


def main(options: argparse.Namespace) -> int:
    """1 where training would fail."""
    import json

    from palaestra.cli.doctor_report import Report, as_json
    from palaestra.core.errors import ConfigError
    from palaestra.runtime.doctor import Limit, examine
    from palaestra.runtime.settings import load
    from palaestra.runtime.trust import env_code, in_run_folder, must_be_trusted_file

    for flag in ("ticks", "seconds"):
        value = getattr(options, flag)
        if value is not None and not 0 < value < float("inf"):
            raise ConfigError(f"--{flag} is {value}; expected more than 0")
    given = overrides(options)
    if options.config is not None and in_run_folder(options.config):
        must_be_trusted_file(options.config, given, code_in=env_code, trust=options.trust)
    settings = load(options.config, given, own_code=False).settings
    ticks = options.ticks or (None if options.seconds else 200)
    report = Report()
    try:
        found = examine(settings, Limit(ticks, options.seconds), report, listed=options.config is not None)
    finally:
        report.close()
    report.show(found)
    if options.json is not None:
        try:
            options.json.write_text(json.dumps(as_json(found), indent=2) + "\n", "utf-8")
        except OSError as error:
            raise ConfigError(f"cannot write --json {options.json}: {error.strerror}") from error
    return 0 if found.healthy else 1
