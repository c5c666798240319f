"""Whole runs of self-play: who plays whom, when that changes, and that stopping changes nothing."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import rumble_env
import torch
from duel_env import Duel
from small_runs import differences, settings, state

import palaestra
from palaestra.core.errors import ConfigError, NotFinite
from palaestra.core.timestep import FinalObs
from palaestra.envs.wrapper import EnvWrapper
from palaestra.parallel.rank_group import ALONE, RankGroup
from palaestra.runtime.collect.learner import Learner
from palaestra.runtime.logging.tracker import Summary
from palaestra.runtime.parts.run_context import RunContext
from palaestra.runtime.run.result import Result
from palaestra.runtime.self_play.exploiter import Exploiter
from palaestra.runtime.self_play.self_play_behavior import SelfPlayBehavior, join_self_play
from palaestra.runtime.self_play.self_play_part import SelfPlay
from palaestra.runtime.self_play.sides import Side, Sides
from palaestra.runtime.self_play.slot_players import SlotPlayers
from palaestra.runtime.settings import EnvSettings, RunSettings, load
from palaestra.runtime.storage.run_folder import RunFolder
from palaestra.runtime.storage.status import TrainingStatus
from palaestra.scenario.self_play_schedule import EXPLOITER as EXPLOITER_NUMBER
from palaestra.scenario.self_play_schedule import LEARNING, NEWEST, Pool
from palaestra.scenario.settings import ExploiterSettings
from palaestra.trainers import sac

SELF_PLAY = {"save_steps": 90, "team_change": 250, "swap_steps": 40, "window": 3}
SAC = {"batch_size": 16, "buffer_size": 500, "buffer_init_steps": 50, "steps_per_update": 6}


def config(*names: str, steps: int = 900, self_play: dict[str, Any] | None = None, **rest: Any) -> dict[str, Any]:
    play = {**SELF_PLAY, **(self_play or {})}
    blocks = [settings(name, steps, self_play=play, **rest)["behaviors"] for name in names]
    return {"behaviors": {name: block for one in blocks for name, block in one.items()}}


def train(tree: dict[str, Any], make: str, results: Path, until: int | None = None, **more: Any) -> Result:
    callbacks: list[Callable[[Summary], object]] = [] if until is None else [lambda summary: summary.step >= until]
    place = {"env": f"python:rumble_env:{make}", "results_dir": str(results), "run_id": "run"}
    given = {"config": tree, "seed": 5, **place, "quiet": True}
    rumble_env.MADE.clear()
    return palaestra.train(callbacks=callbacks, **{**given, **more})


def behavior_state(result: Result, name: str) -> dict[str, Any]:
    return state(result.folder)["run"]["parts"]["self_play"]["behaviors"][name]


def elo_of(result: Result, name: str) -> float:
    return behavior_state(result, name)["ratings"]["elos"]["-1"]


EXPLOITER = {"share": 0.4, "max_steps": 150}
MEMORY = {"network_settings": {"hidden_units": 16, "num_layers": 1, "memory": {"sequence_length": 4, "memory_size": 8}}}


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("make", "names", "rest"),
    [
        ("symmetric", ["Fighter"], {}),
        pytest.param("symmetric", ["Fighter"], MEMORY, marks=pytest.mark.slow),
        pytest.param("symmetric", ["Fighter"], {"trainer_type": "sac", "hyperparameters": SAC}, marks=pytest.mark.slow),
        pytest.param("two_against_one", ["Pair", "Giant"], {}, marks=pytest.mark.slow),
        ("two_against_one", ["Pair", "Giant"], {"trainer_type": "poca"}),
        (
            "three_teams",
            ["Fighter"],
            {"self_play": {"opponents": "prioritized", "drop": "easiest", "exploiter": EXPLOITER}},
        ),
        pytest.param(
            "symmetric", ["Fighter"], {"self_play": {"exploiter": EXPLOITER}, **MEMORY}, marks=pytest.mark.slow
        ),
        pytest.param(
            "symmetric", ["Fighter"], {"self_play": {"exploiter": EXPLOITER}, "threaded": True}, marks=pytest.mark.slow
        ),
        pytest.param(
            "two_against_one",
            ["Pair", "Giant"],
            {"trainer_type": "poca", "self_play": {"exploiter": EXPLOITER}},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "symmetric",
            ["Fighter"],
            {"trainer_type": "sac", "hyperparameters": SAC, "self_play": {"exploiter": EXPLOITER}},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "symmetric",
            ["Fighter"],
            {"self_play": {"opponents": ["rumble_env:quarter"], "play_against_opponents_ratio": 0.5}},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "symmetric",
            ["Fighter"],
            {"self_play": {"opponents": ["random"], "play_against_opponents_ratio": 0.5}},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_an_interrupted_run_ends_as_one_that_never_stopped(make, names, rest, tmp_path):
    tree = config(*names, **rest)
    whole = train(tree, make, tmp_path / "whole")
    stopped = train(tree, make, tmp_path / "parts", until=400)
    assert min(stopped.steps.values()) > 0
    assert max(stopped.steps.values()) < 900
    resumed = train(tree, make, tmp_path / "parts", resume=True)
    assert resumed.finished
    assert differences(state(whole.folder), state(resumed.folder)) == []


FIXED = {"normalize": True, "deterministic": True}
SILENT = {"network_settings": {"hidden_units": 16, "num_layers": 1, **FIXED}}
"""Networks that name the same number whenever they see the same, unless they have taken in what was seen or are
exchanged.
"""


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("make", "names"),
    [("symmetric", ["Fighter"]), ("two_against_one", ["Pair", "Giant"]), ("three_teams", ["Fighter"])],
)
def test_each_episode_has_one_opponent_a_side(make, names, tmp_path):
    train(config(*names, **SILENT), make, tmp_path)
    (env,) = rumble_env.MADE
    kept = dict[tuple[int, int], int]()
    numbers = set[float]()
    for area, count, _, _, named in env.episodes:
        # a batch's size moves the last bits
        distinct = {tuple(round(number, 5) for number in agents) for agents in named}
        kept[area, count] = kept.get((area, count), 0) + (len(distinct) == 1)
        numbers |= {number for agents in named for number in agents}
    assert min(kept.values()) == len(env.sides) - 1  # somewhere the side that learns changed its mind
    assert len(numbers) > 20


def test_the_lowest_team_learns_first_whichever_is_seen_first(tmp_path):
    result = train(config("Fighter", steps=100, self_play={"team_change": 10_000}), "three_teams", tmp_path)
    assert state(result.folder)["run"]["parts"]["self_play"]["learning"] == 3


def test_teams_learn_in_turn(tmp_path):
    seen = list[int]()
    for steps in (200, 450, 700, 950):
        tree = config("Fighter", steps=steps, self_play={"team_change": 250})
        folder = train(tree, "three_teams", tmp_path, resume=steps > 200).folder
        seen.append(state(folder)["run"]["parts"]["self_play"]["learning"])
    assert seen == [3, 5, 7, 3]


def test_counts_are_those_of_the_documented_formulas(tmp_path):
    """Two agents against one: while the pair decides 2,400 times the giant does 1,200 times, four a tick; 104 exceed
    100.
    """
    tree = config("Pair", "Giant", steps=2400, self_play={"save_steps": 400, "team_change": 100_000, "swap_steps": 100})
    result = train(tree, "two_against_one", tmp_path, until=2400)
    pair = behavior_state(result, "Pair")
    giant = behavior_state(result, "Giant")
    assert pair["fixed_steps"] == 0
    assert giant["schedule"]["last_save"] == 0
    per_tick = {"Pair": 8, "Giant": 4}
    saves = result.steps["Pair"] // (400 // per_tick["Pair"] + 1) // per_tick["Pair"]
    swaps = giant["fixed_steps"] // ((100 // per_tick["Giant"] + 1) * per_tick["Giant"])
    assert pair["schedule"]["saves"] == saves
    assert giant["schedule"]["swaps"] == swaps
    assert giant["fixed_steps"] == pytest.approx(result.steps["Pair"] / 2, abs=8)


def test_with_a_ratio_of_none_the_side_that_does_not_learn_plays_snapshots_alone(tmp_path):
    never = {"play_against_latest_model_ratio": 0.0, "save_steps": 10_000, "team_change": 10_000}
    train(config("Fighter", self_play=never, **SILENT), "symmetric", tmp_path)
    (env,) = rumble_env.MADE
    message: list[dict[int, set[float]]] = [{}, {}]
    for _, count, _, team, named in env.episodes:
        message[team].setdefault(count, set()).update(round(number, 5) for (number,) in named)
    assert max(map(len, message[0].values())) > 1
    assert max(map(len, message[1].values())) == 1


def test_summaries_say_how_many_snapshots_are_beaten(tmp_path, capsys):
    play = {"play_against_latest_model_ratio": 0.0, "team_change": 10_000}
    result = train(config("Pair", "Giant", self_play=play), "two_against_one", tmp_path, until=800, quiet=False)
    saved = behavior_state(result, "Giant")
    won, weight, games = saved["pool"]["rates"]["Pair"][str(saved["pool"]["numbers"][0])]
    assert games >= 10
    last = [json.loads(line) for line in (result.folder / "metrics.jsonl").read_text().splitlines()]
    (pair,) = [line for line in last if line["behavior"] == "Pair" and line["step"] == 800]
    rate = won / weight
    worst = {"Self-play/Worst Win Rate": pytest.approx(rate), "Self-play/Worst Snapshot": 0.0}
    counts = {"Self-play/Snapshots Beaten": float(rate > 0.5), "Self-play/Snapshots Judged": 1.0}
    assert {tag: pair[tag] for tag in (*worst, *counts)} == {**worst, **counts}
    said = f"Beats {rate > 0.5:d} of 1 snapshots; worst: {100 * rate:.0f} % against step 0."
    assert said in capsys.readouterr().out
    assert not saved["pool"]["rates"].keys() - {"Pair"}


def test_an_exploiter_plays_a_share_of_the_episodes_and_its_copies_join_the_pool(tmp_path):
    play = {"save_steps": 10_000, "team_change": 10_000, "window": 20, "exploiter": {**EXPLOITER, "win_rate": 1.0}}
    result = train(config("Fighter", self_play=play), "symmetric", tmp_path)
    whole = state(result.folder)["run"]["parts"]["self_play"]
    saved = whole["behaviors"]["Fighter"]
    begun_anew = saved["exploiter"]["times"]
    assert begun_anew >= 2
    first, *copies = saved["pool"]["numbers"]
    assert (first, len(copies)) == (0, begun_anew)
    made = 150 * begun_anew + saved["exploiter"]["step"]
    # 0.4 of the areas' episodes are its own, in the others the policy decides
    assert made == pytest.approx(0.4 / 0.6 * result.steps["Fighter"], rel=0.4)
    newest, exploits = NEWEST, EXPLOITER_NUMBER
    rows = {tuple(row) for row in whole["players"][""].tolist()}
    assert rows <= {(-1, number) for number in range(50)} | {(newest, exploits), (exploits, newest)}
    # games of the policy against it are none of the policy's own
    assert sum(games for _, _, games in saved["pool"]["rates"]["Fighter"].values()) <= result.steps["Fighter"] / 3
    # in two processes the first goes on with all of its decisions, and each draws other random numbers
    drawn = []
    for number, expected in enumerate([saved["exploiter"]["step"], 0]):
        group = RankGroup()
        group.number, group.size = number, 2
        exploiter = exploiter_of(fighter(config("Fighter", self_play=play)), tmp_path, group)
        exploiter.load_state_dict(saved["exploiter"])
        assert exploiter.changes()[1] == expected > -number
        drawn.append(torch.rand(3, generator=cast(Any, exploiter._learner.trainer).action_rng).tolist())
    assert drawn[0] != drawn[1]


def fighter(tree: dict[str, Any]) -> Learner:
    env = rumble_env.symmetric()
    return Learner("Fighter", env.behaviors["Fighter"], load(tree).settings.behaviors["Fighter"], env.device, 3, False)


def exploiter_of(learner: Learner, results: Path, group: RankGroup = ALONE) -> Exploiter:
    run, console = RunSettings(behaviors={"Fighter": learner.settings}), SimpleNamespace(warning=print)
    given = {"settings": run, "env": rumble_env.symmetric(), "folder": RunFolder(results, "run"), "console": console}
    return Exploiter(learner, ExploiterSettings(), 100, cast(RunContext, SimpleNamespace(group=group, **given)))


def test_a_team_that_comes_late_on_one_rank_plays_a_snapshot_that_is_still_there(tmp_path):
    learner = fighter(config("Fighter", self_play={"window": 2}))
    assert learner.settings.self_play is not None
    group = RankGroup()
    group.size = 2
    run = RunSettings(behaviors={"Fighter": learner.settings}, env_settings=EnvSettings(seed=1))
    given = {"settings": run, "env": rumble_env.symmetric(), "folder": RunFolder(tmp_path, "run"), "group": group}
    behavior = join_self_play(learner, learner.settings.self_play, cast(RunContext, SimpleNamespace(**given)))
    sides = Sides({"Fighter": behavior}, group, print)
    sides.add(Side("Fighter", 0))
    for _ in range(3):
        behavior.admit()
    behavior.keep(set())
    sides.add(Side("Fighter", 1))
    assert sides.chosen.tolist() == [LEARNING, 2]
    assert behavior.policy.snapshots.network(2) is not None


def test_an_exploiter_learns_with_the_policys_prior_data_patience_and_present_settings(tmp_path):
    train(config("Fighter", steps=200, trainer_type="sac", hyperparameters=SAC), "symmetric", tmp_path, run_id="old")
    hyper = {**SAC, "prior_data": {"run": "old"}}
    learner = fighter(config("Fighter", trainer_type="sac", hyperparameters=hyper))
    learner.collector.patience = 7
    learner.change({"learning_rate": 1e-5})
    exploiter = exploiter_of(learner, tmp_path)
    own = exploiter._learner
    trainer = cast(Any, own.trainer)
    assert own.collector.patience == 7
    assert [len(replay) for replay in trainer.prior._replays] == [200]
    explore(exploiter, learner)
    exploiter.advance(print, full=True)
    assert trainer.hyper.learning_rate == 1e-5


def test_an_exploiter_joins_the_pool_once_it_wins_enough_games_or_its_time_is_over(tmp_path):
    exploiter = exploiter_of(fighter(config("Fighter")), tmp_path)  # 0.7; after 100 decisions, or 200,000
    admitted: list[Any] = []

    def joins(*, results: list[float], decisions: int) -> bool:
        before = len(admitted)
        exploiter.begin_anew()
        exploiter._learner.collector.decisions = decisions
        for result in results:
            exploiter.add(result)
        exploiter.advance(admitted.append, full=False)
        assert exploiter._record.games == (0 if len(admitted) > before else len(results))
        return len(admitted) > before

    assert not joins(results=[1.0] * 49, decisions=100)
    assert not joins(results=[1.0] * 50, decisions=99)
    assert joins(results=[1.0] * 50, decisions=100)
    # the newest n of 100 games weigh (1 - 0.99^n) / (1 - 0.99^100): of 56 lost and 44 won ones, half draws, 0.563
    assert not joins(results=[0.0] * 56 + [1.0] * 44, decisions=100)
    # 0.5 for a draw and 1 for a win: of 58 draws and 42 wins 0.5 + 0.5 * 0.544; of 68 and 32 0.5 + 0.5 * 0.434
    assert joins(results=[0.5] * 58 + [1.0] * 42, decisions=100)
    assert joins(results=[0.5] * 68 + [1.0] * 32, decisions=100)
    assert not joins(results=[0.5] * 80 + [1.0] * 20, decisions=100)  # 0.643
    assert not joins(results=[], decisions=200_000)
    assert joins(results=[], decisions=200_001)
    assert exploiter.metrics()["Exploiters Admitted"] == 4


def test_what_is_not_finite_at_the_end_of_an_exploiters_episode_is_named(tmp_path):
    learner = fighter(config("Fighter"))
    exploiter = exploiter_of(learner, tmp_path)
    explore(exploiter, learner, torch.nan)
    with pytest.raises(NotFinite, match="at a truncated episode's end, observation 'nothing'"):
        exploiter.advance(print, full=True)


def explore(exploiter: Exploiter, learner: Learner, last: float = 0.0) -> None:
    """Lets it play all slots for ten ticks; episodes are cut off and show `last`."""
    env = rumble_env.symmetric()
    step = env.reset(1)["Fighter"]
    exploiter.slots = torch.ones_like(step.acting)
    for _ in range(10):
        decision = learner.trainer.policy.act(step)
        exploiter.open(step, decision)
        step = env.step({"Fighter": decision.action})["Fighter"]
        cut = step.terminated
        final = FinalObs(step.final_obs.slots, tuple(x * 0 + last for x in step.final_obs.obs))
        step = replace(step, terminated=torch.zeros_like(cut), truncated=cut, final_obs=final)
        exploiter.complete(step)


def test_an_exploiter_whose_replay_does_not_fit_is_refused_before_training(tmp_path, monkeypatch):
    monkeypatch.setattr(sac, "free_memory", lambda: 0)
    rest = {"trainer_type": "sac", "hyperparameters": SAC, "self_play": {"exploiter": EXPLOITER}}
    with pytest.raises(ConfigError, match=r"behavior 'Fighter \(exploiter\)': hyperparameters.buffer_size: a replay"):
        train(config("Fighter", **rest), "symmetric", tmp_path)


def test_ratings_reach_the_status_file(tmp_path):
    result = train(config("Fighter"), "symmetric", tmp_path)
    status = TrainingStatus(result.folder / "run_logs" / "training_status.json")
    status.load()
    assert status.elo("Fighter") == elo_of(result, "Fighter") != 1200.0


def test_results_that_do_not_balance_are_warned_of(tmp_path, capsys):
    train(config("Fighter", steps=100), "all_win", tmp_path, quiet=False)
    assert (
        "the results of a game do not balance: with the last rewards of an episode team 0 got 1, team 1 got 1"
        in " ".join(capsys.readouterr().out.split())
    )


def test_a_fixed_opponent_plays_every_episode_of_the_side_that_does_not_learn(tmp_path):
    play = {"opponents": ["rumble_env:quarter"], "team_change": 10_000}
    train(config("Fighter", self_play=play), "symmetric", tmp_path)
    (env,) = rumble_env.MADE
    rivals = [{number for (number,) in named} for _, _, _, team, named in env.episodes if team == 1]
    # the first episodes are against the first snapshot
    assert all(named == {0.25} for named in rivals[len(rivals) // 4 :])


def test_a_run_that_goes_on_with_self_play_begins_against_what_it_had_learned(tmp_path):
    before = train(settings("Fighter", 300), "symmetric", tmp_path)
    learned = state(before.folder)["Fighter"]["trainer"]["network"]
    after = train(config("Fighter", steps=310, self_play={"save_steps": 10_000}), "symmetric", tmp_path, resume=True)
    assert differences(behavior_state(after, "Fighter")["snapshots"]["0"], learned) == []


def test_a_run_goes_on_from_a_checkpoint_that_knows_nothing_of_win_rates_and_exploiters(tmp_path):
    dropped = {Pool: ["rates"], SlotPlayers: ["exploited"], SelfPlayBehavior: ["games", "exploiter"]}
    with pytest.MonkeyPatch.context() as early:
        for kind, keys in dropped.items():
            early.setattr(kind, "state_dict", without(kind.state_dict, keys))
        train(config("Fighter"), "symmetric", tmp_path, 400)
    play = {"opponents": "prioritized", "exploiter": EXPLOITER}
    after = train(config("Fighter", self_play=play), "symmetric", tmp_path, resume=True)
    assert after.finished
    assert behavior_state(after, "Fighter")["pool"]["rates"]["Fighter"]


def without(state_dict: Callable[[Any], dict[str, Any]], keys: list[str]) -> Callable[[Any], dict[str, Any]]:
    return lambda self: {key: value for key, value in state_dict(self).items() if key not in keys}


def test_sac_is_warned_of(tmp_path, capsys):
    train(config("Fighter", steps=100, trainer_type="sac", hyperparameters=SAC), "symmetric", tmp_path, quiet=False)
    sentence = "Fighter: self-play with sac learns from a replay of games against opponents that are long gone"
    assert sentence in capsys.readouterr().out


def test_a_rank_takes_part_in_self_play_before_it_has_seen_a_behavior_that_has_it():
    def idle(**block: Any) -> bool:
        quiet = SimpleNamespace(info=print, warning=print)
        tree = {**settings("Duel", **block), "env_settings": {"seed": 1}}
        given = {"settings": load(tree).settings, "env": EnvWrapper(Duel()), "group": ALONE}
        context = SimpleNamespace(**given, inference=False, console=quiet, journal=None)
        return SelfPlay(cast(RunContext, context)).idle

    assert idle()
    assert not idle(self_play={})


def test_a_team_whose_opponents_learn_without_self_play_is_told_to_give_it_to_them(tmp_path, capsys):
    tree = config("Pair", "Giant", steps=200)
    del tree["behaviors"]["Giant"]["self_play"]
    train(tree, "two_against_one", tmp_path, quiet=False)
    said = [line for line in capsys.readouterr().out.splitlines() if "has no opponents" in line]
    assert len(said) == 1
    assert said[0].endswith("; if 'Giant' plays against them, give it `self_play` too")
