"""A crowd that does everything agents can do: what the trainer counts is what the game counts.

`python test_unity_fuzz.py 100000` (with tests/unit on PYTHONPATH) plays that many messages and reports memory.
"""

from __future__ import annotations

import sys
import time

import psutil
import pytest
from unity_client import Client
from unity_crowd import KINDS, Crowd
from unity_ledger import Totals
from unity_play import Count, Direct, EchoPolicy, Player, RandomPolicy, Run, Told, opened

NAMES = {kind.key.partition("?")[0] for kind in KINDS}


def play(game: Crowd, policy: type[EchoPolicy], wire: bool = False, memory: list[int] | None = None) -> dict[str, Count]:
    """Plays a crowd to its end through the collector; resident bytes into `memory` every 2,000 messages."""
    told = Told()
    with opened(told) as env:
        player = Player(game, Client(env.options.editor_port, patience=60) if wire else Direct(env))
        run = Run(env, policy)
        looked = 0

        def over() -> bool:
            nonlocal looked
            if memory is not None and game.sent // 2000 > looked:
                looked = game.sent // 2000
                memory.append(psutil.Process().memory_info().rss)
            return bool(told.warnings) or player.over

        counts = dict(run.until(over))
        player.wait()
    assert told.warnings == ["play mode was stopped. Its open episodes are left out; press Play to go on"]
    return counts


def check(counts: dict[str, Count], totals: dict[str, Totals]) -> None:
    for name, count in counts.items():
        ledger = totals[name]
        assert (count.episodes, count.length, count.settled) == (ledger.episodes, ledger.length, ledger.settled), name
        assert (count.returns, count.group_returns) == (ledger.returns, ledger.group_returns), name
    assert not any(totals[name].settled for name in totals.keys() - counts.keys())


@pytest.mark.parametrize("seed", range(6))
def test_episodes_returns_and_decisions_are_those_of_the_games_own_ledger(seed: int) -> None:
    game = Crowd(seed, messages=500, agents=(4, 16, 40)[seed % 3], echo=True)
    counts = play(game, EchoPolicy)
    assert counts.keys() == NAMES
    check(counts, game.ledger.totals)


def test_choices_obey_masks_over_a_real_connection() -> None:
    game = Crowd(7, messages=300, masks_bind=True)
    counts = play(game, RandomPolicy, wire=True)
    assert counts.keys() == NAMES
    check(counts, game.ledger.totals)


def main(messages: int) -> None:
    memory: list[int] = []
    start = time.monotonic()
    game = Crowd(11, messages=messages, echo=True)
    counts = play(game, EchoPolicy, memory=memory)
    check(counts, game.ledger.totals)
    seconds = time.monotonic() - start
    print(f"{messages} messages in {seconds:.0f} s: equal to the ledger {dict(counts)}")
    print("resident MiB:", *(round(bytes_ / 2**20, 1) for bytes_ in memory))


if __name__ == "__main__":
    main(int(sys.argv[1]))
