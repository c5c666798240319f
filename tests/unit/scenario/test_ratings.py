"""Ratings by hand."""

import pytest

from palaestra.scenario.ratings import DRAW, LOSS, START, WIN, Skill, elo_change, rate, result_of, sums_to_zero


def test_the_sign_of_the_last_reward_is_the_result():
    assert [result_of(reward) for reward in (0.01, 0.0, -3.0)] == [WIN, DRAW, LOSS]


def test_elo_moves_by_what_was_not_expected():
    assert elo_change(1200, 1200, WIN, 1.0) == 0.5
    assert elo_change(1200, 1200, DRAW, 1.0) == 0.0
    assert elo_change(1600, 1200, WIN, 1.0) == pytest.approx(1 - 10 / 11)
    assert elo_change(1600, 1200, LOSS, 32.0) == pytest.approx(-32 * 10 / 11)
    assert elo_change(1200, 1600, DRAW, 1.0) == pytest.approx(0.5 - 1 / 11)


def test_elo_of_very_unequal_players_does_not_overflow():
    assert elo_change(1e6, 0, WIN, 1.0) == 0.0
    assert elo_change(0, 1e6, LOSS, 1.0) == pytest.approx(0.0)


def test_skills_follow_results_of_any_number_of_sides():
    first, second, third = rate([Skill(), Skill(), Skill()], [1.0, -0.5, -0.5])
    assert first.mean > START > second.mean
    assert second.mean == pytest.approx(third.mean)
    assert first.deviation < Skill().deviation


def test_a_draw_between_equals_changes_no_mean():
    one, other = rate([Skill(), Skill()], [0.0, 0.0])
    assert one.mean == pytest.approx(other.mean) == pytest.approx(START)


def test_skills_on_elos_scale_begin_where_they_are_told_and_rise_with_the_mean():
    assert Skill().elo(1200.0) == 1200.0
    assert Skill(START + 7.87).elo(1200.0) == pytest.approx(1600.0)


@pytest.mark.parametrize(
    ("results", "balanced"),
    [
        ([WIN, LOSS], True),
        ([DRAW, DRAW], True),
        ([WIN, WIN], False),
        ([WIN, DRAW], False),
        ([LOSS, LOSS], False),
        ([WIN, LOSS, LOSS], True),
        ([WIN, WIN, WIN], False),
        ([DRAW, DRAW, DRAW], True),
        ([WIN, DRAW, DRAW], False),
    ],
)
def test_results_of_a_game_balance_where_some_win_what_others_lose(results: list[float], balanced: bool):
    assert sums_to_zero(results) == balanced
