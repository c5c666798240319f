"""The wrappers of `palaestra.unity.envs` with today's interfaces of Gymnasium and PettingZoo."""

import warnings

import numpy as np
import pytest
from gymnasium.error import InvalidAction, ResetNeeded
from gymnasium.utils.env_checker import check_env

from palaestra.unity.environment import UnityEnvironment
from palaestra.unity.envs.unity_gymnasium_env import UnityToGymnasiumWrapper
from palaestra.unity.envs.unity_pettingzoo_env import UnityToPettingZooWrapper, unity_aec_env

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its tests import deprecated games
    from pettingzoo.test import api_test, parallel_api_test

pytestmark = pytest.mark.filterwarnings("ignore")  # recommendations of both libraries' tests


@pytest.mark.parametrize(("name", "several"), [("3DBall", False), ("GridWorld", True), ("Sorter", False)])
def test_an_environment_with_one_agent_passes_the_check_of_gymnasium(name: str, several: bool):
    env = UnityToGymnasiumWrapper(UnityEnvironment(f"builtin:{name}", num_areas=1), allow_multiple_obs=several)
    check_env(env, skip_render_check=True, skip_close_check=True)  # those make a second environment from an id


def test_an_episode_that_a_time_limit_ends_is_truncated_and_masks_name_what_is_allowed():
    env = UnityToGymnasiumWrapper(UnityEnvironment("builtin:GridWorld", num_areas=1, seed=1))
    _, info = env.reset(seed=1)
    assert info["action_mask"].tolist() == env.action_masks().astype(int).tolist()
    truncated = False
    terminated = False
    masks = [env.action_masks()]
    while not (truncated or terminated):
        _, _, terminated, truncated, _ = env.step(3 * env.action_masks()[3])
        masks.append(env.action_masks())
    assert not np.all(masks), "an agent at the edge may not leave the grid"
    assert (terminated, truncated) == (False, True)
    env.close()


@pytest.mark.parametrize("name", ["SoccerTwos", "FoodCollector", "StrikersVsGoalie"])
def test_an_environment_passes_the_tests_of_pettingzoo(name: str):
    parallel_api_test(UnityToPettingZooWrapper(UnityEnvironment(f"builtin:{name}", num_areas=1)), num_cycles=40)
    api_test(unity_aec_env(UnityEnvironment(f"builtin:{name}", num_areas=1)), num_cycles=40)


def test_an_agent_whose_episode_ended_leaves_with_its_last_observation():
    env = UnityToPettingZooWrapper(UnityEnvironment("builtin:3DBall", num_areas=2))
    obs, infos = env.reset()
    assert obs.keys() == infos.keys() == set(env.agents) == set(env.possible_agents)
    while env.agents:
        before = list(env.agents)
        obs, rewards, terminated, truncated, _ = env.step({agent: np.ones(2, np.float32) for agent in env.agents})
        assert list(obs) == before
        assert env.agents == [agent for agent in before if not (terminated[agent] or truncated[agent])]
        assert all(rewards[agent] == -1 for agent in before if terminated[agent])
    with pytest.raises(ResetNeeded):
        env.step({})
    assert env.reset()[0]
    env.close()


def test_hybrid_actions_are_dictionaries_with_a_mask_to_sample_them():
    env = UnityToGymnasiumWrapper(UnityEnvironment("python:sdk_games:hybrid_alone", num_areas=1))
    env.reset()
    *_, info = env.step({"continuous": np.full(2, -1, np.float32), "discrete": np.array([1, 2])})
    assert info["action_mask"].shape == (5,)
    env.close()
    many = UnityToPettingZooWrapper(UnityEnvironment("python:sdk_games:hybrid", num_areas=1), seed=1)
    _, infos = many.reset()
    assert len(many.agents) == 3
    for _ in range(20):  # the game refuses choices that are forbidden
        *_, infos = many.step(
            {agent: many.action_space(agent).sample(infos[agent]["action_mask"]) for agent in many.agents}
        )
    many.close()


def test_masks_of_flattened_branches_have_an_entry_for_each_flattened_choice():
    env = UnityToGymnasiumWrapper(UnityEnvironment("python:sdk_games:picky", num_areas=1), flatten_branched=True)
    assert env.action_masks().tolist() == [False, False, True, True], "known before the first reset, too"
    _, info = env.reset()
    assert info["action_mask"].tolist() == [0, 0, 1, 1]
    assert [env.step(choice)[1] for choice in (2, 3, np.array(3))] == [0.0, 1.0, 1.0]
    for wrong in (4, -1, 2.0, None, "a", [[1], [1, 2]]):
        with pytest.raises(InvalidAction, match=r"Discrete\(4\)"):
            env.step(wrong)
    env.close()


@pytest.mark.parametrize("game", ["picky", "hybrid_alone", "continuous"])
def test_actions_that_do_not_fit_are_refused_before_the_game_sees_them(game: str):
    env = UnityToGymnasiumWrapper(UnityEnvironment(f"python:sdk_games:{game}", num_areas=1))
    env.reset()
    for wrong in (None, "a", 7.5, [1.5, 1.5, 1.5], {"continuous": np.zeros(2)}, np.full(1, np.nan)):
        with pytest.raises(InvalidAction, match="expected one of"):
            env.step(wrong)
    env.close()
    env.close()  # does nothing


def test_an_agent_that_left_goes_on_in_the_game_with_choices_that_are_allowed():
    env = UnityToPettingZooWrapper(UnityEnvironment("python:sdk_games:picky_pair", num_areas=1))
    env.reset()
    steps = 0
    while env.agents:
        env.step({agent: np.array([1, 1]) for agent in env.agents[:1]})  # the others are idle
        steps += 1
    assert (steps, len(env.possible_agents)) == (9, 2)
    env.close()


def test_observations_that_are_left_out_are_named(caplog: pytest.LogCaptureFixture):
    with caplog.at_level("WARNING", "palaestra.unity"):
        env = UnityToGymnasiumWrapper(UnityEnvironment("python:sdk_games:variable", num_areas=1))
    assert "observations of variable length, which are left out: things" in caplog.text
    assert env.reset()[0].shape == (2,)
    env.close()
