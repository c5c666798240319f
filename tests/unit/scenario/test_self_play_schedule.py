"""Schedules, pools and turns of self-play, by hand."""

import json
from collections import Counter

import pytest
from pydantic import ValidationError

from palaestra.scenario.self_play_schedule import LEARNING, Pool, Schedule, fixed, next_team
from palaestra.scenario.settings import SelfPlaySettings


def settings(**values: object) -> SelfPlaySettings:
    return SelfPlaySettings.model_validate(values)


def test_what_is_due_must_be_exceeded():
    schedule = Schedule()
    every = settings(save_steps=100, swap_steps=30, team_change=250)
    assert [schedule.save_due(step, every) for step in (0, 100, 101, 150, 201, 202)] == [
        False,
        False,
        True,
        False,
        False,
        True,
    ]
    assert [schedule.swap_due(step, every) for step in (30, 31, 61, 62)] == [False, True, False, True]
    assert [schedule.change_due(step, every) for step in (250, 251)] == [False, True]
    schedule.change(251)
    assert [schedule.change_due(step, every) for step in (501, 502)] == [False, True]
    assert (schedule.saves, schedule.swaps, schedule.changes) == (2, 2, 1)
    assert Schedule.of(schedule.state_dict()) == schedule


def test_turns_go_round_from_the_lowest_team():
    assert [next_team(team, {7, 3, 5}) for team in (3, 5, 7)] == [5, 7, 3]
    assert next_team(3, {3}) == 3
    assert next_team(5, {3, 7}) == 7  # 5 has learned all it will


def test_a_pool_keeps_the_newest():
    pool = Pool(settings(window=3), seed=0)
    for number in range(5):
        pool.admit(number)
    assert pool.numbers == [2, 3, 4]


@pytest.mark.parametrize("ratio", [0.0, 0.3, 1.0])
def test_opponents_are_drawn_by_the_ratio_and_evenly_from_the_pool(ratio: float):
    pool = Pool(settings(window=4, play_against_latest_model_ratio=ratio), seed=1)
    for number in range(4):
        pool.admit(number)
    drawn = Counter(pool.draw() for _ in range(4000))
    assert drawn[LEARNING] / 4000 == pytest.approx(ratio, abs=0.03)
    assert all(drawn[number] / 4000 == pytest.approx((1 - ratio) / 4, abs=0.03) for number in range(4))


def test_prioritized_snapshots_are_drawn_by_win_rates_and_beside_fixed_opponents():
    play = {"opponents": ["random", "prioritized"], "play_against_opponents_ratio": 0.25}
    pool = Pool(settings(**play, play_against_latest_model_ratio=0, priority={"floor": 0.0, "decay": 1.0}), seed=1)
    for number in (0, 1):
        pool.admit(number)
    for result in (0.0, 0.0):  # against 0; its rate is (0 + 1) / 4, the other's 1/2: weights 9 and 4
        pool.rates.add("Fighter", 0, result)
    drawn = Counter(pool.draw(["Fighter"]) for _ in range(4000))
    assert drawn[-2] / 4000 == pytest.approx(0.25, abs=0.03)
    assert drawn[0] / 4000 == pytest.approx(0.75 * 9 / 13, abs=0.03)
    assert drawn[1] / 4000 == pytest.approx(0.75 * 4 / 13, abs=0.03)


def test_the_easiest_snapshot_leaves_a_full_pool_but_never_the_new_one():
    pool = Pool(settings(window=3, drop="easiest"), seed=0)
    for number in range(3):
        pool.admit(number)
    pool.rates.add("Fighter", 1, 1.0)
    pool.rates.add("Fighter", 0, 0.0)
    pool.admit(3)
    assert pool.numbers == [0, 2, 3]
    pool.admit(4)  # 2 and 3 are as easy: the older one
    assert pool.numbers == [0, 3, 4]
    for number in pool.numbers:
        pool.rates.add("Fighter", number, 0.0)
    pool.admit(5)  # the easiest itself
    assert pool.numbers == [0, 4, 5]
    smaller = Pool(settings(window=2, drop="easiest"), seed=0)
    smaller.load_state_dict(pool.state_dict())
    assert smaller.numbers == [0, 5]


@pytest.mark.parametrize(
    ("given", "brains", "prioritized"),
    [
        ([], (), False),
        ("prioritized", (), True),
        ("uniform", (), False),
        ("random", ("random",), False),
        (["heuristic", "prioritized", "model:soccer"], ("heuristic", "model:soccer"), True),
    ],
)
def test_opponents_are_a_word_or_brains_or_both(given: object, brains: tuple[str, ...], prioritized: bool):
    play = settings(opponents=given)
    assert (play.brains, play.prioritized) == (brains, prioritized)
    assert settings(**play.model_dump(mode="json")) == play


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            ["uniform", "prioritized"],
            "expected one of uniform and prioritized in addition to names of brains, got both",
        ),
        ("prioritised", "or the name of a brain, got 'prioritised'; did you mean 'prioritized'"),
    ],
)
def test_words_for_opponents_are_checked(given: object, message: str):
    with pytest.raises(ValidationError, match=message):
        settings(opponents=given)


def test_fixed_opponents_are_drawn_by_their_own_ratio():
    half = {"play_against_opponents_ratio": 0.5, "play_against_latest_model_ratio": 0}
    pool = Pool(settings(opponents=["heuristic", "other.onnx"], **half), seed=1)
    pool.admit(0)
    drawn = Counter(fixed(pool.draw()) for _ in range(4000))
    assert drawn[None] / 4000 == pytest.approx(0.5, abs=0.03)
    assert drawn[0] / 4000 == pytest.approx(0.25, abs=0.03)
    assert drawn[1] / 4000 == pytest.approx(0.25, abs=0.03)


def test_a_pool_goes_on_drawing_where_it_stopped():
    one = Pool(settings(), seed=3)
    for number in range(9):
        one.admit(number)
    one.draw()
    other = Pool(settings(), seed=4)
    other.load_state_dict(json.loads(json.dumps(one.state_dict())))
    assert [one.draw() for _ in range(50)] == [other.draw() for _ in range(50)]


def test_behaviors_draw_from_streams_of_their_own():
    pools = [Pool(settings(), 3, name) for name in ("Striker", "Goalie")]
    for pool in pools:
        for number in range(9):
            pool.admit(number)
    assert [pools[0].draw() for _ in range(50)] != [pools[1].draw() for _ in range(50)]


def test_a_team_learns_for_five_snapshots_unless_said_otherwise():
    assert settings(save_steps=300).team_change == 1500
