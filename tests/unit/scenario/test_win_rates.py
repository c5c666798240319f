"""Win rates against snapshots, and how often each is drawn by them, by hand."""

import json
from typing import Any

import pytest

from palaestra.scenario.settings import PrioritySettings
from palaestra.scenario.win_rates import ENOUGH, WinRates


def rates(games: dict[int, list[float]], learner: str = "A", **settings: Any) -> WinRates:
    """Rates after these games of a learning policy, by snapshot."""
    made = WinRates(PrioritySettings.model_validate(settings))
    for number, results in games.items():
        for result in results:
            made.add(learner, number, result)
    return made


def test_each_game_counts_less_with_every_later_one():
    known = rates({7: [1.0, 0.5, 0.0]}, decay=0.5)
    # won: 1, then 0.5 + 0.5, then 0.5; played: 1, 1.5, 1.75; two games of 0.5 come beside
    assert known.expected("A", 7) == pytest.approx((0.5 + 1.0) / (1.75 + 2.0))
    assert known.expected("A", 8) == known.expected("B", 7) == 0.5


def test_a_rate_is_reported_once_there_are_enough_games():
    assert rates({7: [1.0] * (ENOUGH - 1)}).seen("A", 7) is None
    # with a decay of 0.5 nine losses weigh 2 - 2 ** -8, and half of that beside a win
    known = rates({7: [0.0] * (ENOUGH - 1) + [1.0]}, decay=0.5)
    assert known.seen("A", 7) == pytest.approx(1.0 / (1.0 + 0.5 * (2 - 2**-8)))


GAMES = {0: [1.0, 1.0], 1: [0.0, 0.0], 3: [1.0, 0.0]}
"""Rates with the prior: 3/4, 1/4, 1/2; of a fourth without a game: 1/2."""


@pytest.mark.parametrize(
    ("settings", "chances"),
    [
        # (1 - x) ** 2: 1/16, 9/16, 4/16, 4/16; in sum 18/16
        ({"floor": 0.0}, [1 / 18, 9 / 18, 4 / 18, 4 / 18]),
        ({"floor": 0.0, "power": 1.0}, [1 / 8, 3 / 8, 2 / 8, 2 / 8]),
        # x (1 - x): 3/16, 3/16, 4/16, 4/16
        ({"floor": 0.0, "weights": "even"}, [3 / 14, 3 / 14, 4 / 14, 4 / 14]),
        ({"floor": 0.2}, [0.05 + 0.8 / 18, 0.05 + 0.8 * 9 / 18, 0.05 + 0.8 * 4 / 18, 0.05 + 0.8 * 4 / 18]),
        ({"floor": 1.0}, [0.25] * 4),
        # of the one without a game: x = 0, weight 1; of the others (2 / 4), 0, (1 / 4): weights 1/4, 1, 9/16
        ({"floor": 0.0, "prior": 0.0}, [4 / 45, 16 / 45, 9 / 45, 16 / 45]),
    ],
)
def test_snapshots_are_drawn_by_their_weights(settings: dict[str, Any], chances: list[float]):
    assert rates(GAMES, decay=1.0, **settings).chances(["A"], [0, 1, 3, 9]) == pytest.approx(chances)


def test_snapshots_that_are_all_beaten_for_certain_are_drawn_evenly():
    assert rates({}, prior=1.0).chances(["A"], [4, 5]) == [0.5, 0.5]


def test_a_team_of_two_behaviors_draws_by_the_mean_of_their_rates():
    known = rates(GAMES, decay=1.0, floor=0.0, power=1.0)
    known.add("B", 0, 0.0)
    known.add("B", 0, 0.0)
    # against 0: 3/4 and 1/4, against 1: 1/4 and 1/2
    assert known.chances(["A", "B"], [0, 1]) == pytest.approx([(1 / 2) / (9 / 8), (5 / 8) / (9 / 8)])


def test_a_snapshot_is_easy_if_it_is_so_for_all():
    known = rates(GAMES)
    assert known.easiest([1, 3, 0]) == 0
    for _ in range(9):
        known.add("B", 0, 0.0)
    assert known.easiest([1, 3, 0]) == 3
    known.keep([1])
    assert known.expected("A", 0) == 0.5


def test_rates_go_on_where_they_stopped():
    known = rates(GAMES)
    other = rates({})
    other.load_state_dict(json.loads(json.dumps(known.state_dict())))
    for each in (known, other):
        each.add("A", 1, 1.0)
    assert other.state_dict() == known.state_dict()
