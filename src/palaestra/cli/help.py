"""Explain a command, a group of flags that several commands share, or an error.

Without a topic it lists the commands, as `palaestra --help` does.
"""

from __future__ import annotations

import argparse
from difflib import get_close_matches

from palaestra.cli.commands import COMMANDS, make_parser, subparser
from palaestra.cli.flags import switch
from palaestra.cli.game_flags import add_game_flags
from palaestra.cli.help_text import columns, examples
from palaestra.cli.parser import Parser
from palaestra.core.errors import ConfigError
from palaestra.core.plugins import nearest
from palaestra.core.wording.error_topics import catalogue, topics

EXAMPLES = """\
palaestra help
palaestra help learn
palaestra help learn --all
palaestra help unity
palaestra help errors
palaestra help errors run-exists
"""

UNITY = "unity"
ERRORS = "errors"
GAMES = """\
Unity games: the Editor and builds.

Without --env, palaestra learn waits for the Editor: press Play. --env=PATH starts a build, such as
--env=builds/Game.x86_64.

The flags below are also those of tune, run, evaluate, record, league, view, doctor and envs; some have fewer, as their
--help says. In a settings file they are keys of `env_settings` and `engine_settings`. Other environments refuse
them, except for --num-envs, --timeout-wait and restarts of gymnasium: and python: copies. --time-scale has no effect on
their training.
"""
GAME_EXAMPLES = """\
# the Editor: press Play when the command waits
palaestra learn config.yaml --run-id=scene --time-scale=5
# four copies of a build without windows
palaestra learn config.yaml --env=Game.x86_64 --num-envs=4 --no-graphics
# arguments of the game itself come last
palaestra learn config.yaml --env=Game.x86_64 --env-args --level 3
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `palaestra help`."""
    topic = f"a command; {UNITY}: the flags of Unity games; {ERRORS}: topics of errors (default: all commands)"
    parser.add_argument("topic", nargs="?", metavar="TOPIC", help=topic)
    parser.add_argument("error", nargs="?", metavar="ERROR", help=f"with {ERRORS}, the topic that an error names")
    switch(parser, "--all", "also explain the flags that are only named otherwise")


def main(options: argparse.Namespace) -> None:
    """Prints the help of a topic. Raises ConfigError for an unknown topic."""
    topic = options.topic
    if options.error is not None and topic != ERRORS:
        raise ConfigError(f"one topic is explained at a time; got '{topic}' and '{options.error}'")
    if topic == ERRORS:
        explain_errors(options.error)
    elif topic is None:
        make_parser(None).print_help()
    elif topic.lower() in (UNITY, "ml-agents", "mlagents", "editor", "game", "games"):
        parser = Parser("palaestra COMMAND", GAMES)
        add_game_flags(parser)
        parser.sections = [examples(GAME_EXAMPLES)]
        print(parser.format_help(everything=True), end="")
    elif topic in COMMANDS:
        print(subparser(make_parser(topic), topic).format_help(everything=options.all), end="")
    else:
        near = get_close_matches(topic, [*COMMANDS, UNITY, ERRORS], n=1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise ConfigError(f"there is no command '{topic}'{hint} (there are: {', '.join([*COMMANDS, UNITY, ERRORS])})")


def explain_errors(topic: str | None) -> None:
    """Prints causes and cures of errors of a topic, or the list of topics. Raises ConfigError for an unknown topic."""
    known = topics()
    if topic is not None and topic not in known:
        raise ConfigError(f"there is no topic '{topic}'{nearest(topic, known)} ('palaestra help errors' lists them)")
    if topic is not None:
        print(known[topic].text(columns()))
        return
    print("An error names its topic; palaestra help errors TOPIC prints causes and cures.")
    for page, part in catalogue()["pages"].items():
        print(f"\n{part['title']}:")
        print("\n".join(f"  {one.name:16}  {one.title}" for one in known.values() if one.page == page))
