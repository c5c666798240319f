"""Check a Unity build, the Editor's scene or another environment for problems.

Starts the environment, plays random actions and reports each stage, the agents' observations and rewards, and where the
time goes. The exit status is 1 if training would fail.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaestra.cli.flags import env_options, given, given_env_options, option, trust
from palaestra.cli.game_flags import add_game_flags, given_flags
from palaestra.core.errors import ConfigError
from palaestra.runtime.logging.waiting import on_stderr

if TYPE_CHECKING:
    from palaestra.runtime.doctor import Examination
    from palaestra.runtime.settings import RunSettings

EXAMPLES = """\
palaestra doctor Game.x86_64
palaestra doctor Game.x86_64 --no-graphics --config configs/ppo/3DBall.yaml
palaestra doctor
palaestra doctor gymnasium:CartPole-v1 --ticks 1000
palaestra doctor Game.x86_64 --time-scales 1 20
"""

WITHOUT = (
    "num_envs",
    "no_graphics_monitor",
    "max_lifetime_restarts",
    "restarts_rate_limit_n",
    "restarts_rate_limit_period_s",
)
"""Flags of games that this command does not have, as it starts one copy, once."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `palaestra doctor`."""
    build = (
        "a Unity build, or any other environment as for learn's --env (default: the one of --config, else the Unity "
        "Editor)"
    )
    place = parser.add_mutually_exclusive_group()
    place.add_argument("env_path", nargs="?", metavar="ENV", help=build)
    option(place, "--env", "ENV", "the same, as learn has it", dest="env")
    length = parser.add_mutually_exclusive_group()
    option(length, "--ticks", "N", "ticks of random actions (default: 200)", type=int)
    option(length, "--seconds", "S", "play for this many seconds instead", type=float)
    scales = "play a game at each of these time scales instead, and report differences"
    option(parser, "--time-scales", "N", scales, type=float, nargs="+")
    option(parser, "--config", "CONFIG", "settings file (YAML) that the behaviors are compared with", type=Path)
    option(parser, "--json", "FILE", "also write the full report as JSON", type=Path)
    group = parser.add_argument_group("How it is started")
    trust(group)
    option(group, "--num-areas", "N", "areas of the environment (default: its own number)", type=int)
    env_options(group)
    add_game_flags(parser, without=WITHOUT)


def overrides(options: argparse.Namespace) -> dict[str, Any]:
    """Returns the given flags as a part of the settings tree."""
    games = given_flags(options, without=WITHOUT)
    named = {} if options.env is None else {"env_path": options.env}
    env = {**given(options, "env_path num_areas"), **named, **games.get("env_settings", {})}
    return games | {"env_settings": env | {"num_envs": 1}}  # whatever the file says: one is enough


def main(options: argparse.Namespace) -> int:
    """Examines the environment; returns 1 if training would fail."""
    from palaestra.cli.doctor_report import DoctorReport, as_json
    from palaestra.runtime.doctor import Limit, ScaleComparison, compare, examine
    from palaestra.runtime.run.run_settings import with_channels
    from palaestra.runtime.settings import load
    from palaestra.runtime.storage.trust import env_code, must_be_trusted_file

    for flag in ("ticks", "seconds"):
        value = getattr(options, flag)
        if value is not None and not 0 < value < float("inf"):
            raise ConfigError(f"--{flag} is {value}; expected more than 0")
    changes = overrides(options)
    if options.config is not None:
        must_be_trusted_file(options.config, changes, code_in=env_code, trust=options.trust)
    given_env_options(options)  # refuses what is no option of the environment
    loaded = load(options.config, changes, options.sets, own_code=False)
    for note in loaded.notes:
        on_stderr(note)
    settings = with_channels(loaded).settings
    limit = Limit(options.ticks or (None if options.seconds else 200), options.seconds)
    listed = options.config is not None
    report = DoctorReport()
    try:
        if options.time_scales is None:
            found = examine(settings, limit, report, listed=listed)
        else:
            check_scales(options, settings.env_settings.env_path)

            def at_scale(changed: RunSettings, scale: float) -> Examination:
                report.console.print(f"\n[bold]time scale {scale:g}[/]")
                return examine(changed, limit, report, listed=listed)

            found = compare(settings, options.time_scales, at_scale)
    finally:
        report.close()
    report.show_comparison(found) if isinstance(found, ScaleComparison) else report.show(found)
    if options.json is not None:
        try:
            options.json.write_text(json.dumps(as_json(found), indent=2) + "\n", "utf-8")
        except OSError as error:
            raise ConfigError(f"cannot write --json {options.json}: {error.strerror}") from error
    return 0 if found.healthy else 1


def check_scales(options: argparse.Namespace, env: str | None) -> None:
    """Raises ConfigError for time scales that cannot be compared."""
    from palaestra.runtime.environments.make import is_game

    scales = options.time_scales
    if len(set(scales)) < 2 or any(not 0 < scale <= 100 for scale in scales):
        typed = " ".join(f"{scale:g}" for scale in scales)
        raise ConfigError(
            f"--time-scales {typed}: expected two different ones or more, each more than 0 and at most 100, such as 1 "
            "20"
        )
    if options.time_scale is not None:
        raise ConfigError("--time-scale and --time-scales exclude each other")
    if env is not None and not is_game(env):
        raise ConfigError(
            f"{env} has no time scale: --time-scales is for Unity games and games in Python that are processes"
        )
