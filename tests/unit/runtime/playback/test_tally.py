"""Scores of those who play, with numbers worked by hand."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from palaestra.core.timestep import Action, FinalObs, TimeStep
from palaestra.runtime.playback.demo_takes import DemoTakes
from palaestra.runtime.playback.tally import PERSON, PersonRating, Tally


def table(
    reward: list[float],
    acting: list[int],
    over: list[int],
    team: list[int],
    group: list[float] | None = None,
    **more: Any,
) -> TimeStep:
    """A table of len(reward) slots without observations."""
    nobody = torch.zeros(len(reward), dtype=torch.bool)
    return TimeStep(
        obs=(),
        acting=torch.tensor(acting, dtype=torch.bool),
        reward=torch.tensor(reward),
        group_reward=torch.tensor(group or [0.0] * len(reward)),
        terminated=torch.tensor(over, dtype=torch.bool),
        truncated=nobody,
        final_obs=FinalObs(torch.zeros(0, dtype=torch.int64), ()),
        action_mask=None,
        area=torch.zeros(len(reward), dtype=torch.int64),
        team=torch.tensor(team),
        group=torch.full((len(reward),), -1),
        **more,
    )


def test_a_return_is_the_sum_over_the_ticks_on_which_the_slot_acts_or_ends():
    tally = Tally()
    tally.note({"A": table([9.0, 9.0], [1, 1], [0, 0], [0, 0])}, first=True)
    assert tally.note({"A": table([0.5, 1.0], [1, 0], [0, 0], [0, 0], [0.25, 0.0])}) == []
    assert tally.returns["A"].tolist() == [0.75, 0.0]  # the second slot does not act: its sum is read when it does
    assert tally.note({"A": table([0.5, 3.0], [1, 1], [1, 0], [0, 0])}) == [("A", 0, 1.25)]
    assert tally.returns["A"].tolist() == [0.0, 3.0]
    assert tally.lengths["A"].tolist() == [0, 2]


def test_the_last_reward_decides_between_teams():
    tally = Tally()
    tally.note({"A": table([0.0, 0.0], [1, 1], [0, 0], [0, 1])}, first=True)
    for left, right in ((1.0, -1.0), (0.0, 0.0), (1.0, -1.0)):
        tally.note({"A": table([0.5, 0.5], [1, 1], [0, 0], [0, 1])})
        tally.note({"A": table([left, right], [1, 1], [1, 1], [0, 1])})
    first = tally.scores["A", 0]
    second = tally.scores["A", 1]
    assert (first.episodes, first.won, first.drawn, first.lost) == (3, 2, 1, 0)
    assert (second.episodes, second.won, second.drawn, second.lost) == (3, 0, 1, 2)
    assert first.mean == pytest.approx((1.5 + 0.5 + 1.5) / 3)


def test_an_episode_that_was_lost_counts_for_nothing():
    tally = Tally()
    tally.note({"A": table([0.0], [1], [0], [0])}, first=True)
    tally.note({"A": table([5.0], [1], [0], [0])})
    assert tally.note({"A": table([7.0], [1], [0], [0], lost=torch.tensor([True]))}) == []
    assert tally.returns["A"].tolist() == [0.0]
    assert tally.scores == {}


def test_slots_may_come_later():
    tally = Tally()
    tally.note({"A": table([0.0], [1], [0], [0])}, first=True)
    tally.note({"A": table([1.0, 2.0], [1, 1], [0, 0], [0, 1])})
    assert tally.returns["A"].tolist() == [1.0, 2.0]


def test_the_rating_of_a_person_moves_by_elo_and_is_kept(tmp_path: Path):
    rating = PersonRating(tmp_path)
    assert rating.elo("A") == 1200.0
    # equal strength: expected 0.5, 32 * (1 - 0.5) = 16; then 1216 against 1616: expected 1 / (1 + 10), 32 * (0 - 1/11)
    assert rating.played("A", 1200.0, 1.0) == 1216.0
    assert rating.played("A", 1616.0, 0.0) == pytest.approx(1216.0 - 32.0 / 11.0)
    again = PersonRating(tmp_path)
    assert again.elo("A") == pytest.approx(1216.0 - 32.0 / 11.0)
    assert again.elo("B") == 1200.0
    assert json.loads((tmp_path / PERSON).read_text())["A"]["games"] == 2


@pytest.mark.parametrize("content", ["", "[]", '{"A": 3}', '{"A": {"elo": "much"}}', "{"])
def test_a_broken_rating_file_starts_anew(tmp_path: Path, content: str):
    (tmp_path / PERSON).write_text(content)
    assert PersonRating(tmp_path).elo("A") == 1200.0


def test_scores_that_begin_anew_leave_out_the_episodes_that_are_open():
    tally = Tally()
    tally.note({"A": table([0.0, 0.0], [1, 1], [0, 0], [0, 0])}, first=True)
    tally.note({"A": table([6.0, 8.0], [1, 1], [0, 1], [0, 0])})
    tally.begin_scores()
    assert tally.scores == {}
    # played by the brains of both
    assert tally.note({"A": table([6.0, 1.0], [1, 1], [1, 0], [0, 0])}) == [("A", 0, 12.0)]
    tally.note({"A": table([3.0, 1.0], [1, 1], [1, 1], [0, 0])})
    assert (tally.scores["A", 0].episodes, tally.scores["A", 0].mean) == (2, 2.5)


@pytest.mark.parametrize("lost", [False, True])
def test_a_take_earns_what_the_tally_counts(lost: bool):
    tally = Tally()
    takes = DemoTakes(0, tally=tally)
    moved = Action(torch.zeros(1, 0), torch.zeros(1, 1, dtype=torch.int64))
    before = {"A": table([0.0], [1], [0], [0])}
    tally.note(before, first=True)
    takes.start()
    for number, (reward, over) in enumerate([(5.0, 0), (2.0, 1), (4.0, 0), (1.0, 1)]):
        gone = torch.tensor([lost and number == 2])
        after = {"A": table([reward], [1], [over], [0], lost=gone)}
        tally.note(after)
        if number > 0:  # the person sits down in the midst of an episode
            takes(before, {"A": moved}, after)
        if over:
            assert [("A", 0, takes.ended_reward)] == tally.ended
        before = after
    assert [take.reward for take in takes.kept] == [1.0 if lost else 5.0]
