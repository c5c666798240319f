import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium import spaces

pytest.importorskip("pettingzoo", reason="needs pettingzoo: pip install 'palaestra[pettingzoo]'")
from pettingzoo import ParallelEnv
from pettingzoo.classic.connect_four import connect_four
from pettingzoo.classic.tictactoe import tictactoe
from zoo_games import Crowd, Duel, Stored, aec_by_hand, parallel_by_hand, through_palaestra, zeros

import palaestra
from palaestra.core.errors import EnvError, NotFinite
from palaestra.core.timestep import Action
from palaestra.envs.pettingzoo.env import PettingZooEnv
from palaestra.envs.pettingzoo.opening import open_pettingzoo
from palaestra.envs.unity.options import UnityOptions
from palaestra.runtime.environments.custom_envs import as_env
from palaestra.runtime.environments.make import make_env
from palaestra.runtime.environments.unity_games import GameSettings
from palaestra.runtime.settings.fitting import fitted, preset_for
from palaestra.runtime.storage.trust import runs_code
from palaestra.testing import check_env

CONFIGS = Path(__file__).resolve().parents[3] / "configs"


def same(found: dict[str, list[Stored]], expected: dict[str, list[Stored]]) -> int:
    """Compares what both have, which must be nearly all. Returns the number of decisions."""
    assert set(found) == set(expected)
    for agent, stored in expected.items():
        both = min(len(stored), len(found[agent]))
        assert both >= 8
        assert found[agent][:both] == stored[:both]
    return sum(map(len, expected.values()))


def test_stored_transitions_equal_those_of_a_parallel_game_stepped_by_hand():
    env = PettingZooEnv([Crowd(), Crowd()], "crowd")
    agents = Crowd().possible_agents
    assert same(through_palaestra(env, agents, 40, seed=3), parallel_by_hand(Crowd(), 3, 40, seed=3)) > 70


@pytest.mark.parametrize("game", [Duel, connect_four.env, tictactoe.env], ids=["duel", "connect four", "tic-tac-toe"])
def test_stored_transitions_equal_those_of_an_aec_game_stepped_by_hand(game):
    env = PettingZooEnv([game(), game()], "game")
    assert same(through_palaestra(env, game().possible_agents, 60, seed=3), aec_by_hand(game(), 60 // 5, seed=3)) > 40


def test_an_agent_that_dies_on_anothers_turn_ends_with_what_it_earned_until_its_own():
    env = PettingZooEnv([Duel()], "duel")
    steps = through_palaestra(env, Duel().possible_agents, 30, seed=0)["player_1"]
    assert [one.end for one in steps[:2]] == ["", "terminated"]
    assert steps[1].reward == 5.25 + 6.25 + 7.25  # of turns 5 to 7; it acted on turn 2 and 5


@pytest.mark.parametrize("env", [PettingZooEnv([Crowd(), Crowd()], "crowd"), PettingZooEnv([Duel(), Duel()], "duel")])
def test_games_keep_the_contract_of_an_environment(env: PettingZooEnv):
    check_env(env, 60)


def test_only_the_area_whose_episode_is_over_starts_again():
    env = PettingZooEnv([Crowd(2), Crowd(5)], "crowds")
    step = env.reset(0)["cell"]
    clocks = []
    for _ in range(9):
        step = env.step({"cell": zeros(step, env.behaviors["cell"].action)})["cell"]
        clocks.append([int(step.obs[0][step.acting & (step.area == area)][0, 0]) for area in (0, 1)])
    assert clocks[-2] == [8, 8]
    assert clocks[-1] == [0, 0]


def test_agents_share_a_behavior_by_name_and_spaces():
    env = open_pettingzoo(
        "mpe2.simple_tag_v3", 2, {"teams": {"adversary": 0, "agent_*": 1}, "groups": {"adversary_*": "pack"}}
    )
    assert list(env.behaviors) == ["adversary", "agent"]
    steps = env.reset(1)
    assert steps["adversary"].acting.all()
    assert steps["adversary"].team.tolist() == [0] * 6
    assert steps["agent"].team.tolist() == [1, 1]
    assert steps["adversary"].group.tolist() == [0, 0, 0, 1, 1, 1]
    assert steps["agent"].group.tolist() == [-1, -1]


def test_agents_whose_names_have_brackets_are_named_by_them():
    game = Crowd(2)
    game._number = {"cell[0]": 0, "cell[1]": 1}.__getitem__
    game.possible_agents = ["cell[0]", "cell[1]"]
    env = PettingZooEnv([game], "crowd", {"teams": {"cell[0]": 3}, "behaviors": {"*": "cell"}})
    assert env.reset(0)["cell"].team.tolist() == [3, 0]


def test_players_in_turn_are_teams_and_masks_arrive():
    env = open_pettingzoo("classic.tictactoe_v3", 1, {})
    step = env.reset(0)["player"]
    assert step.team.tolist() == [0, 1]
    assert step.acting.tolist() == [True, False]
    step = env.step({"player": Action(torch.zeros(2, 0), torch.tensor([[4], [0]]))})["player"]
    assert step.acting.tolist() == [False, True]
    assert step.action_mask is not None
    assert step.action_mask[1].tolist() == [True] * 4 + [False] + [True] * 4


@pytest.mark.parametrize("api", ["parallel", "aec"])
def test_a_reward_that_all_members_get_alike_is_the_groups_once(api: str):
    options = {"api": api, "max_cycles": 3, "local_ratio": 0.0}
    apart, shared = (
        open_pettingzoo("mpe2.simple_spread_v3", 1, {**options, **more}) for more in ({}, {"shared_reward": True})
    )
    before = apart.reset(0)["agent"]
    now = shared.reset(0)["agent"]
    spec = apart.behaviors["agent"].action
    for _ in range(9):
        before = apart.step({"agent": zeros(before, spec)})["agent"]
        now = shared.step({"agent": zeros(now, spec)})["agent"]
        torch.testing.assert_close(now.group_reward, before.reward)
        assert not now.reward.any()
    assert now.group.tolist() == [0, 0, 0]
    assert before.group.tolist() == [-1, -1, -1]


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(np.array([-2, 0], np.float32), np.array([4, 1], np.float32)),
        spaces.Discrete(3, start=5),
        spaces.MultiDiscrete(np.array([2, 3]), start=np.array([-1, 5])),
        spaces.Dict(
            {
                "arm": spaces.Box(-2, 3, (2,), np.float32),
                "hand": spaces.Tuple((spaces.Discrete(3), spaces.MultiBinary(2))),
            }
        ),
    ],
    ids=str,
)
def test_actions_arrive_in_the_games_own_bounds_and_type(space: spaces.Space):
    class Asks(Crowd):
        def action_space(self, agent):
            return space

        def step(self, actions):
            assert all(space.contains(action) for action in actions.values())
            return super().step(actions)

    check_env(PettingZooEnv([Asks(2)], "asks"), 20)


def test_masks_in_infos_arrive_and_wrong_ones_are_refused_by_name():
    class Masked(Crowd):
        mask = np.array([0, 1, 1], np.int8)

        def reset(self, seed=None, options=None):
            obs, infos = super().reset(seed)
            return obs, {agent: {"action_mask": self.mask} for agent in infos}

        def step(self, actions):
            *rest, infos = super().step(actions)
            return *rest, {agent: {"action_mask": self.mask} for agent in infos}

    game = Masked(2)
    env = PettingZooEnv([game], "masked")
    actions = {"cell": zeros(env.reset(0)["cell"], env.behaviors["cell"].action)}
    mask = env.step(actions)["cell"].action_mask
    assert mask is not None
    assert mask.tolist() == [[False, True, True]] * 2
    game.mask = np.ones(4)
    with pytest.raises(
        EnvError,
        match=r"masked, behavior 'cell', agent 'cell_1' of area 0: the mask in info\['action_mask'\] has 4 entries",
    ):
        env.step(actions)


def test_an_agent_that_leaves_without_an_end_is_truncated_with_a_warning():
    env = PettingZooEnv([Crowd(2, wrong="vanish")], "crowd")
    step = env.reset(0)["cell"]
    actions = {"cell": zeros(step, env.behaviors["cell"].action)}
    env.step(actions)
    with pytest.warns(
        UserWarning, match="'cell_0' was no longer in `agents` although it neither terminated nor was truncated"
    ):
        step = env.step(actions)["cell"]
    assert step.truncated.tolist() == [True, False]


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (
            "raise",
            EnvError,
            r"crowd, area 1: step raised ZeroDivisionError: the clock stood still \(.*zoo_games.py, line \d+\)",
        ),
        ("exit", EnvError, r"crowd, area 1: step raised SystemExit: no more coins \(.*zoo_games.py, line \d+\)"),
        ("nan", NotFinite, r"behavior 'cell', agent 'cell_1' of area 1: reward is nan"),
    ],
)
def test_errors_within_a_game_name_its_area(wrong: str, error: type[Exception], message: str):
    env = PettingZooEnv([Crowd(2), Crowd(2, wrong=wrong)], "crowd")
    step = env.reset(0)["cell"]
    actions = {"cell": zeros(step, env.behaviors["cell"].action)}
    env.step(actions)
    with pytest.raises(error, match=message):
        env.step(actions)


@pytest.mark.parametrize(
    ("place", "options", "message"),
    [
        ("mpe2.simple_spred_v3", {}, "no module 'mpe2.simple_spred_v3'; did you mean 'mpe2.simple_spread_v3'?"),
        ("tictactoe_v3", {}, "did you mean 'classic.tictactoe_v3'?"),
        ("mpe2.simple_spread_v3:parallel_en", {}, "has no 'parallel_en'; did you mean 'parallel_env'?"),
        ("mpe2.simple_spread_v3", {"teems": {}}, "takes no option 'teems'; did you mean 'teams'?"),
        ("mpe2.simple_spread_v3", {"max_cycle": 3}, "takes no option 'max_cycle'; did you mean 'max_cycles'?"),
        (
            "mpe2.simple_spread_v3",
            {"teams": {"agnt_0": 1}},
            "names 'agnt_0', which fits no agent; did you mean 'agent_0'?",
        ),
        ("mpe2.simple_spread_v3", {"groups": 3}, "env_options.groups is 3; expected a map from agents to their groups"),
        ("mpe2.simple_tag_v3", {"behaviors": {"*": "one"}}, "'adversary_0' and 'agent_0' cannot share behavior 'one'"),
        ("os:getcwd", {}, "made an instance of str; expected a ParallelEnv or AECEnv of PettingZoo"),
        ("no_such_game", {}, "no module 'no_such_game', neither in"),
    ],
)
def test_what_newcomers_get_wrong_is_answered_with_what_to_do(place: str, options: dict, message: str):
    with pytest.raises(EnvError) as error:
        open_pettingzoo(place, 2, options)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("missing", "place", "line"),
    [
        ("pettingzoo", "mpe2.simple_spread_v3", "needs the package pettingzoo: pip install 'palaestra[pettingzoo]'"),
        ("mpe2", "mpe2.simple_spread_v3", "needs the package mpe2: pip install 'palaestra[pettingzoo]'"),
    ],
)
def test_a_missing_package_is_named_with_the_line_that_installs_it(
    missing, place, line, monkeypatch: pytest.MonkeyPatch
):
    from importlib.util import find_spec

    monkeypatch.setattr(
        "palaestra.envs.pettingzoo.opening.find_spec",
        lambda name: None if name.partition(".")[0] == missing else find_spec(name),
    )
    with pytest.raises(EnvError) as error:
        open_pettingzoo(place, 2, {})
    assert line in str(error.value)


@pytest.mark.parametrize("place", ["sisl.walkers_of_old_v4", "pettingzoo.sisl.walkers_of_old_v4"])
def test_an_environment_that_the_installed_release_lacks_is_answered_with_those_that_it_has(place: str):
    with pytest.raises(EnvError) as error:
        open_pettingzoo(place, 2, {})
    assert "in sisl. An earlier release may have it: pip install 'pettingzoo[sisl]<" in str(error.value)
    assert "multiwalker_v9" in str(error.value)


def test_objects_factories_and_names_of_factories_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    one, ours = as_env(Duel(), None, "cpu", {"teams": {"player_2": 0, "*": 1}})
    assert not ours
    assert one.num_areas == 1
    assert one.reset(0)["player"].team.tolist() == [1, 1, 0]
    several, _ = as_env([Crowd(), Crowd()], None, "cpu")
    assert several.num_areas == 2
    made, ours = as_env(Crowd, 3, "cpu")
    assert ours
    assert made.num_areas == 3
    named = make_env("python:zoo_games:Duel", areas=2, options={"players": 2, "groups": {"*": 0}})
    assert named.reset(0)["player"].group.tolist() == [0, 0, 1, 1]
    with pytest.raises(EnvError, match="takes no option 'tims'"):
        make_env("python:zoo_games:Duel", areas=2, options={"tims": {}})
    (tmp_path / "my_zoo.py").write_text(
        "from zoo_games import Crowd\n\ndef parallel_env(count=2):\n    return Crowd(count)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert make_env("pettingzoo:my_zoo", areas=2, options={"count": 3}).num_areas == 2
    sys.modules.pop("my_zoo")


def test_games_with_shipped_settings_need_no_file():
    assert preset_for("pettingzoo:classic.connect_four_v3") == CONFIGS / "ppo" / "connect_four.yaml"
    assert preset_for("pettingzoo:mpe2.simple_spread_v3") == CONFIGS / "poca" / "simple_spread.yaml"
    assert preset_for("pettingzoo:mpe2.simple_tag_v3") is None
    assert preset_for("pettingzoo:mine.connect_four_v3") is None
    small, least = (open_pettingzoo(f"classic.{game}_v3", 1, {}).behaviors for game in ("connect_four", "tictactoe"))
    encoders = [fitted(one, 16)["behaviors"]["player"]["network_settings"]["vis_encode_type"] for one in (small, least)]
    assert encoders == ["match3", "fully_connected"]


@pytest.mark.slow
def test_copies_in_processes_are_told_apart_and_play():
    games = GameSettings(UnityOptions(copies=2))
    env = make_env("pettingzoo:classic.tictactoe_v3", areas=3, games=games)
    try:
        step = env.reset(0)["player"]
        players = set[tuple[int, int]]()
        while len(players) < 6:  # a copy that is late answers on a later tick
            players |= set(zip(step.area[step.acting].tolist(), step.team[step.acting].tolist(), strict=True))
            action = Action(torch.zeros(len(step.acting), 0), step.action_mask.byte().argmax(1, keepdim=True))
            step = env.step({"player": action})["player"]
    finally:
        env.close()
    assert env.traits.notes == ("behavior 'player': player_1, player_2 (teams 0, 1)",)
    assert env.traits.opponents == ("player",)
    assert players == {(area, team) for area in range(3) for team in range(2)}


def test_only_published_games_are_opened_without_trust():
    assert not runs_code("pettingzoo:mpe2.simple_spread_v3")
    assert not runs_code("pettingzoo:classic/chess_v6")
    assert runs_code("pettingzoo:my_zoo")
    assert runs_code("pettingzoo:mpe2.simple_spread_v3:parallel_env")


class Undrawn(Crowd):
    render = ParallelEnv.render


def test_a_game_is_drawn_if_it_can(tmp_path: Path):
    env = PettingZooEnv([Crowd(render_mode="rgb_array")], "crowd")
    env.reset(0)
    assert env.render(0).shape == (4, 6, 3)
    unasked = PettingZooEnv([Crowd()], "crowd")
    unasked.reset(0)
    assert unasked.render(0).shape == (4, 6, 3)
    with pytest.raises(EnvError, match="its class Undrawn has no `render`; add `render"):
        PettingZooEnv([Undrawn()], "crowd").render(0)


def test_a_run_with_self_play_learns_and_writes_a_model_with_masks(tmp_path: Path):
    result = palaestra.train(
        {
            "behaviors": {
                "player": {
                    "trainer_type": "ppo",
                    "hyperparameters": {"batch_size": 16, "buffer_size": 64},
                    "network_settings": {"hidden_units": 16, "num_layers": 1, "vis_encode_type": "fully_connected"},
                    "max_steps": 200,
                    "summary_freq": 100,
                    "self_play": {"save_steps": 50, "team_change": 100, "swap_steps": 50},
                }
            }
        },
        env="pettingzoo:classic.tictactoe_v3",
        num_areas=4,
        seed=1,
        results_dir=str(tmp_path),
        run_id="zoo",
        quiet=True,
    )
    mask = np.zeros((5, 9), bool)
    mask[:, 4] = True
    board = np.zeros((5, 2, 3, 3), np.float32)
    action = palaestra.load_policy(result.models["player"], seed=0).act(board, action_mask=mask)
    assert action.discrete.ravel().tolist() == [4] * 5
