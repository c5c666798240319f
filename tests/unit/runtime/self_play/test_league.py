"""Leagues: who meets whom, what is counted, and what a run's league says."""

import json
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from small_runs import settings
from tiny_envs import CPU, spec_of, table

import palaestra
from palaestra.cli.league import show
from palaestra.cli.main import main
from palaestra.core.errors import RunError
from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.base import Env
from palaestra.runtime.self_play.league import Entry, League, Round, pairings, play, rank_correlation
from palaestra.runtime.self_play.league_run import heat_map
from palaestra.runtime.storage.snapshots import MOST, SnapshotFiles, too_many


def of(*names: str) -> list[Entry]:
    return [Entry(name, step) for step, name in enumerate(names)]


def test_everyone_meets_everyone_on_changing_sides():
    pairs = pairings(of("A", "A", "A"), [("A", 0), ("A", 1)])
    assert sorted(tuple(sorted(pair)) for pair in pairs) == [(0, 1), (0, 1), (0, 2), (0, 2), (1, 2), (1, 2)]
    assert len({tuple(pair) for pair in pairs}) > 3


def test_of_three_teams_one_plays_one_and_the_other_plays_two():
    pairs = pairings(of("A", "A"), [("A", 3), ("A", 5), ("A", 7)])
    assert pairs == [[0, 1, 1], [0, 1, 0]]


def test_behaviors_meet_one_another_and_never_themselves():
    pairs = pairings(of("A", "A", "B", "B"), [("A", 0), ("B", 1)])
    assert pairs == [[0, 2], [0, 3], [1, 2], [1, 3]]


def test_whoever_gets_more_has_won():
    league = League(of("A", "A", "A"))
    for _ in range(3):
        league.add([0, 1], [1.0, -1.0])
    league.add([1, 0], [0.0, 0.0])
    league.add([2, 1], [-0.001, 0.001])
    assert league.scores[0, 1] == pytest.approx(3.5 / 4)
    assert league.scores[1, 0] == pytest.approx(0.5 / 4)
    assert league.decided[0, 1] == 1.0
    assert np.isnan(league.scores[0, 2])
    assert league.scores[1, 2] == 1.0
    assert league.skills[0].mean > league.skills[1].mean > league.skills[2].mean


def test_the_mean_counts_of_who_played_two_sides():
    league = League(of("A", "A"))
    league.add([0, 1, 1], [-0.5, 1.0, -0.5])
    assert league.scores[1, 0] == 1.0
    league.add([1, 0, 1], [-0.5, 1.0, -0.5])
    assert league.scores[1, 0] == 0.5


@pytest.mark.parametrize(("areas", "distinct", "each"), [(512, 6, 10), (7, 2, 10), (3, 3, 10), (40, 6, 1)])
def test_every_pairing_plays_exactly_the_games_asked_for(areas, distinct, each):
    quota = Round([], [[0, 1]] * areas, distinct, each).quota
    assert np.bincount(np.arange(areas) % distinct, weights=quota).tolist() == [each] * distinct
    assert np.ptp(quota) <= np.ceil(each * distinct / areas)


class Moving:
    """Two areas, whose episodes last one decision: the higher number wins. Then all agents take other slots."""

    device = CPU
    num_areas = 2
    behaviors: Mapping[str, BehaviorSpec] = {"A": spec_of((2,), continuous=1)}
    order = np.arange(4)

    def reset(self, seed: int) -> dict[str, TimeStep]:
        return self._table()

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        if not self.acting:
            self.order = np.roll(self.order, 1)
            return self._table()
        number = torch.empty(4)
        number[self.order] = actions["A"].continuous[:, 0]
        wins = number > number.view(2, 2).flip(1).flatten()
        return self._table((2.0 * wins - 1)[self.order])

    def _table(self, reward: torch.Tensor | None = None) -> dict[str, TimeStep]:
        self.acting = reward is None
        step = table(torch.zeros(4, 2), terminated=[] if self.acting else [0, 1, 2, 3])
        seat = torch.from_numpy(self.order)
        reward = torch.zeros(4) if reward is None else reward
        acting = torch.full((4,), self.acting)
        return {"A": replace(step, reward=reward, acting=acting, area=seat // 2, team=seat % 2)}


class Numbered:
    """Does what the number of each slot's player says."""

    def forget(self) -> None:
        pass

    def assign(self, players: np.ndarray) -> None:
        self.players = torch.from_numpy(players)

    def choose(self, step: TimeStep) -> Any:
        return SimpleNamespace(
            action=Action(self.players[:, None].float(), torch.zeros((len(self.players), 0), dtype=torch.int64))
        )


def test_players_follow_their_agents_to_other_slots():
    league = League(of("A", "A", "A"))
    play(cast(Env, Moving()), cast(Any, {"A": Numbered()}), league, 6)
    assert league.games.tolist() == [[0, 12, 12], [12, 0, 12], [12, 12, 0]]
    assert league.wins.tolist() == [[0, 0, 0], [12, 0, 0], [12, 12, 0]]


class Late(Moving):
    """Team 1 asks for its first decision a tick after team 0, as in games with a decision period of its own."""

    order = np.array([0, 2, 1, 3])
    late = True

    def reset(self, seed: int) -> dict[str, TimeStep]:
        self.late, self.order = True, np.array([0, 2, 1, 3])
        return self._first()

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        late, self.late = self.late, False
        return self._table() if late else super().step(actions)

    def _first(self) -> dict[str, TimeStep]:
        return {"A": replace(table(torch.zeros(2, 2)), area=torch.tensor([0, 1]), team=torch.tensor([0, 0]))}


def test_a_team_may_come_later():
    league = League(of("A", "A"))
    play(cast(Env, Late()), cast(Any, {"A": Numbered()}), league, 6)
    assert league.wins.tolist() == [[0, 0], [12, 0]]


def test_a_league_that_decided_nothing_says_so(capsys):
    league = League(of("A", "A"))
    league.add([0, 1], [0.0, 0.0])
    show(league)
    output = capsys.readouterr().out
    assert "A: no game of the last against the first was decided; it beats 0 of 1 snapshots; worst: 50 %" in output
    assert "nan" not in output


def test_the_heat_map_calls_percent_percent():
    league = League(of("A", "A"))
    league.add([0, 1], [1.0, 0.0])
    axes = heat_map(league, "boxers").axes[0]
    assert axes.get_title(loc="left") == "boxers"
    below = "score of the row against the column, in percent"
    assert {text.get_text() for text in axes.texts} == {"0", "100", below}
    assert axes.get_xlabel().endswith("The last beats 0 of 1 snapshots; worst: 0 % against step 0 (framed)")


def test_rank_correlation_of_equal_reversed_and_tied_orders():
    rising = np.array([1.0, 2.0, 3.0, 4.0])
    assert rank_correlation(rising, rising**3) == pytest.approx(1.0)
    assert rank_correlation(rising, -rising) == pytest.approx(-1.0)
    # ranks 1, 2, 3, 4 and 1.5, 1.5, 3, 4: covariance 4.5, spreads 5 and 4.5
    assert rank_correlation(rising, np.array([0.0, 0.0, 5.0, 6.0])) == pytest.approx(4.5 / np.sqrt(5 * 4.5))
    assert np.isnan(rank_correlation(rising[:1], rising[:1]))


def test_of_too_many_snapshots_the_first_and_the_last_stay_and_the_others_are_spread():
    steps = list(range(0, 4000, 100))
    left = sorted(set(steps) - set(too_many(steps)))
    assert (len(left), left[0], left[-1]) == (MOST, 0, 3900)
    assert max(np.diff(left)) <= 300


def test_a_run_leaves_snapshots_that_a_league_can_play(tmp_path, capsys):
    play = {"save_steps": 100, "team_change": 200, "swap_steps": 50}
    tree = settings("Pair", 600, self_play=play, checkpoint_interval=300)
    tree["behaviors"]["Giant"] = {**tree["behaviors"]["Pair"], "max_steps": 300}
    env = "python:rumble_env:two_against_one"
    result = palaestra.train(config=tree, env=env, seed=1, results_dir=str(tmp_path), run_id="run", quiet=True)
    files = SnapshotFiles(result.folder)
    assert files.steps("Pair")[0] == 0
    assert files.steps("Pair")[-1] == result.steps["Pair"]
    assert main(["league", str(result.folder), "--games=4", "--snapshots=3"]) == 0
    told, progress = capsys.readouterr()
    assert "Pair: the last wins" in told
    assert "Giant: the last wins" in told
    assert progress.splitlines()[:2] == ["36 games are played, 4 of each pairing (--games)", "0 of 36 games, 0 %"]
    assert progress.splitlines()[-1] == "36 of 36 games, 100 %"
    assert len(progress.splitlines()) <= 12
    table = json.loads((result.folder / "league.json").read_text())
    assert [entry["behavior"] for entry in table["entries"]] == ["Pair"] * 3 + ["Giant"] * 3
    games = np.array(table["games"])
    assert (games[:3, 3:] == 4).all()
    assert not games[:3, :3].any()
    assert (result.folder / "league.png").stat().st_size > 10_000


def test_a_league_of_a_run_without_self_play_is_refused(tmp_path, capsys):
    result = palaestra.train(config=settings("Basic"), env="Basic", results_dir=str(tmp_path), run_id="run", quiet=True)
    assert main(["league", str(result.folder)]) == 1
    sentence = "has no snapshots: a league is for behaviors that were trained with self_play"
    assert sentence in capsys.readouterr().err


def test_a_league_of_behaviors_that_play_on_both_sides_is_refused():
    with pytest.raises(RunError, match=r"needs two, each a team of its own; this environment has A\?team=0, B\?team=0"):
        pairings(of("A", "B"), [("A", 0), ("B", 0), ("A", 1)])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--env=python:rumble_env:one_team"], "a league needs two teams or more; this environment has 1"),
        (["--env=Basic"], "this environment has the behavior 'Basic'; the run has snapshots of 'Fighter'"),
        (["--num-areas=0"], "--num-areas is 0; expected at least 1"),
    ],
)
def test_a_league_that_cannot_be_played_is_refused(words, message, tmp_path, capsys):
    tree = settings("Fighter", 40, self_play={"save_steps": 20})
    palaestra.train(config=tree, env="python:rumble_env:symmetric", results_dir=str(tmp_path), run_id="run", quiet=True)
    assert main(["league", str(tmp_path / "run"), *words]) == 1
    assert message in capsys.readouterr().err


def test_behaviors_that_play_against_nobody_take_part_with_their_newest_policy(tmp_path):
    tree = settings("Duel", 60, self_play={"save_steps": 20})
    tree["behaviors"] |= settings("Discrete", 60)["behaviors"]
    palaestra.train(tree, env="python:growing_duels:watched", results_dir=str(tmp_path), run_id="run", quiet=True)
    assert main(["league", str(tmp_path / "run"), "--games=10", "--snapshots=2", "--num-areas=1"]) == 0
    table = json.loads((tmp_path / "run" / "league.json").read_text())
    assert [entry["behavior"] for entry in table["entries"]] == ["Duel"] * 2
    assert np.sum(table["games"]) == 40


def test_a_league_goes_on_as_agents_come(tmp_path):
    tree = settings("Duel", 60, self_play={"save_steps": 20})
    palaestra.train(tree, env="python:growing_duels:growing", results_dir=str(tmp_path), run_id="run", quiet=True)
    assert main(["league", str(tmp_path / "run"), "--games=10", "--snapshots=2", "--num-areas=1"]) == 0


@pytest.mark.slow
def test_a_league_where_an_area_holds_several_games_is_refused(tmp_path, capsys):
    tree = settings("Duel", 40, self_play={"save_steps": 20})
    palaestra.train(tree, env="python:growing_duels:staggered", results_dir=str(tmp_path), run_id="run", quiet=True)
    assert main(["league", str(tmp_path / "run"), "--num-areas=1"]) == 1
    assert "a league needs areas that hold one game each" in capsys.readouterr().err
