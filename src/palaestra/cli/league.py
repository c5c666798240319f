"""Play every snapshot of a self-play run against every other.

Prints the scores of rows against columns in percent, with ratings fitted to the same games, and
writes them as league.json and, as a heat map, league.png to the run's folder. The side
with the higher last reward of an episode wins it.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from typing import TYPE_CHECKING

from palaestra.cli.flags import (
    at_least,
    env_of_run,
    env_options,
    given_env_options,
    option,
    results_dir,
    seed,
    switch,
    trust,
)
from palaestra.cli.game_flags import add_game_flags, given_flags
from palaestra.core.display import escaped, is_terminal, print_now
from palaestra.core.errors import ConfigError
from palaestra.scenario.standing import standing, standing_in_words

if TYPE_CHECKING:
    from palaestra.runtime.self_play.league import League

EXAMPLES = """\
palaestra league soccer
palaestra league soccer --snapshots=8 --games=50
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `palaestra league`."""
    parser.add_argument("run", metavar="RUN", help="a run id or a run's folder")
    env_of_run(parser)
    parser.add_argument("--episodes", help=argparse.SUPPRESS)
    option(parser, "--games", "N", "games of each pair on each side", 100)
    option(parser, "--snapshots", "N", "snapshots of a behavior, evenly chosen", 12)
    option(parser, "--num-areas", "N", "areas played at once (default: 512)", type=int)
    seed(parser, "the environment and of the actions")
    results_dir(parser)
    trust(parser, "environment and networks")
    switch(parser, "--json", "print the result as JSON")
    env_options(parser)
    add_game_flags(parser)


def main(options: argparse.Namespace) -> int:
    """Plays the matches; prints the table, and writes it unless a signal ended the matches early."""
    from palaestra.parallel.closing import closing_safely
    from palaestra.runtime.logging.waiting import on_stderr
    from palaestra.runtime.play.run_models import Models, open_for, run_folder
    from palaestra.runtime.self_play.league_run import as_json, run_league, write_league
    from palaestra.runtime.settings import load
    from palaestra.runtime.storage.run_folder import CONFIGURATION
    from palaestra.runtime.storage.trust import must_stay_inside

    if options.episodes is not None:
        raise ConfigError(f"a league counts games, not episodes: --games={options.episodes}")
    at_least(options, games=1, snapshots=2, num_areas=1)
    folder = run_folder(options.run, options.results_dir)
    settings = load(folder.path / CONFIGURATION, own_code=False).settings
    must_stay_inside(folder.path, options.trust)
    models = Models({}, settings, folder.run_id, folder=folder.path, trust=options.trust)
    env = open_for(
        models,
        options.env,
        options.num_areas,
        512,
        options.seed,
        flags=given_flags(options),
        options=given_env_options(options),
    )
    with closing_safely(env, "the environment", on_stderr):
        league = run_league(
            folder.path,
            env,
            options.snapshots,
            options.games,
            seed=options.seed,
            progress=Progress(options.games),
            trust=options.trust,
        )
    written = () if league.stopped else write_league(league, folder.path)
    if options.json:
        print(json.dumps(as_json(league)))
    else:
        show(league)
    if league.stopped:
        games = f"{league.games.sum() // 2:,} games: the table counts these, and no file is written"
        print(f"palaestra: interrupted after {games}; --games=N plays fewer of each pair", file=sys.stderr)
        return 128 + league.stopped
    if not options.json:
        print(f"\nWrote {' and '.join(map(str, written))}")
    return 0


class Progress:
    """Prints on stderr how many games have been played: on one line in a terminal, else one per tenth of the games."""

    def __init__(self, each: int) -> None:
        self._each = each
        self._last_shown = -1

    def __call__(self, done: int, total: int) -> None:
        """Prints progress, given the number of games so far, and of all."""
        if not done:
            print_now(f"{total:,} games are played, {self._each:,} of each pairing (--games)", sys.stderr)
        terminal = is_terminal(sys.stderr)
        percent = 100 * done // total
        step = percent if terminal else percent // 10
        if step == self._last_shown:
            return
        self._last_shown = step
        line = f"{done:,} of {total:,} games, {percent} %"
        print_now(f"\r{line}" if terminal else line, sys.stderr, end="\n" if not terminal or done == total else "")


def show(league: League) -> None:
    """Prints the matrix, a row for each entry."""
    from palaestra.runtime.plots.chart_style import short_number

    names = list(dict.fromkeys(entry.behavior for entry in league.entries))
    columns = [i for i, entry in enumerate(league.entries) if entry.behavior == names[-1]]
    labels = [short_number(league.entries[i].step) for i in columns]
    for name in names[:1] if len(names) == 1 else names[:-1]:
        print(escaped(f"{name}, score in percent against {names[-1]} at step"))
        print(" " * 10 + " ".join(f"{label:>6}" for label in labels) + "   skill")
        for i, entry in enumerate(league.entries):
            if entry.behavior == name:
                scores = " ".join(
                    "     -" if league.games[i, j] == 0 else f"{100 * league.scores[i, j]:6.1f}" for j in columns
                )
                print(
                    f"{short_number(entry.step):>9} {scores}  {league.skills[i].mean:6.2f} ± "
                    f"{league.skills[i].deviation:.2f}"
                )
    for name in names:
        mine = [i for i, entry in enumerate(league.entries) if entry.behavior == name]
        theirs = [
            i
            for i, entry in enumerate(league.entries)
            if entry.behavior == (names[-1] if name == names[0] else names[0])
        ]
        other = "" if len(names) == 1 else f" {names[-1] if name == names[0] else names[0]}"
        won = league.decided[mine[-1], theirs[0]]
        agreement = league.agreement(name)
        ratings = [
            f"no game of the last against the first{other} was decided"
            if math.isnan(won)
            else f"the last wins {100 * won:.1f} % of decided games against the first{other}",
            *([f"it {words}"] if (words := standing_in_words(standing(league.standings(name)))) else []),
            *([] if math.isnan(agreement) else [f"ratings and mean scores have a rank correlation of {agreement:.2f}"]),
        ]
        print(f"{name}: {'; '.join(ratings)}")
