"""Atari games: their own vector environment, and pictures of it."""

import gymnasium
import numpy as np
import pytest
import torch

from palaestra.core.errors import EnvError
from palaestra.core.timestep import Action
from palaestra.envs.gymnasium import GymnasiumEnv
from palaestra.envs.gymnasium.ids import build
from palaestra.envs.gymnasium.packages import import_registering_package

pytest.importorskip("ale_py", reason="the extra palaestra[atari] is not installed")


def step(env: GymnasiumEnv, choices: list[int]):
    n = len(choices)
    return env.step({env.behavior: Action(torch.zeros(n, 0), torch.tensor(choices).reshape(n, 1))})[env.behavior]


def test_an_ale_id_needs_no_import_and_gives_four_gray_frames():
    env = GymnasiumEnv("ALE/Breakout-v5", 2)
    assert [spec.shape for spec in env.behaviors["ALE-Breakout-v5"].obs] == [(4, 84, 84)]
    assert env.behaviors["ALE-Breakout-v5"].steady
    first = env.reset(0)[env.behavior].obs[0]
    assert 0 < float(first.max()) <= 1
    env.close()


def test_pictures_of_atari_show_the_games_that_are_played():
    plain = GymnasiumEnv("ALE/Breakout-v5", 2)
    drawn = GymnasiumEnv("ALE/Breakout-v5", 2, render=True)
    obs = [env.reset(3)[env.behavior].obs[0] for env in (plain, drawn)]
    choices = np.random.default_rng(0)
    before = drawn.render(0)
    for _ in range(40):
        chosen = choices.integers(0, 4, 2).tolist()
        obs = [step(env, chosen).obs[0] for env in (plain, drawn)]
        torch.testing.assert_close(*obs, rtol=0, atol=0)
    assert drawn.render(0).shape == (210, 160, 3)
    assert (drawn.render(0) != before).any()
    # as large as the frame that the agent sees, after averaging
    gray = drawn.render(1).astype(float) @ [0.299, 0.587, 0.114] / 255
    assert abs(gray.mean() - float(obs[1][1, -1].mean())) < 0.02
    plain.close()
    drawn.close()


def test_ids_of_single_frames_give_the_usual_pictures_and_repeat_no_actions():
    env = GymnasiumEnv("PongNoFrameskip-v4", 2)
    raw = GymnasiumEnv("PongNoFrameskip-v4", 1, obs_type="rgb")
    assert [raw.behaviors[raw.behavior].obs[0].shape, env.behaviors[env.behavior].obs[0].shape] == [
        (3, 210, 160),
        (4, 84, 84),
    ]
    usual, sticky = (gymnasium.make_vec("ALE/Pong-v5", 2, repeat_action_probability=chance) for chance in (0.0, 0.25))
    found = env.reset(3)[env.behavior].obs[0]
    obs = [games.reset(seed=3)[0] for games in (usual, sticky)]
    same = [True, True]
    choices = np.random.default_rng(0)
    for _ in range(60):
        for i in (0, 1):
            same[i] &= bool(np.allclose(found, obs[i] / 255, atol=1e-6))
        chosen = choices.integers(0, 6, 2)
        found = step(env, chosen.tolist()).obs[0]
        obs = [games.step(chosen)[0] for games in (usual, sticky)]
    assert same == [True, False]
    for each in (env, raw, usual, sticky):
        each.close()


def test_options_that_only_single_games_take_give_single_games():
    env = GymnasiumEnv("ALE/Breakout-v5", 1, obs_type="ram")
    assert env.behaviors["ALE-Breakout-v5"].obs[0].shape == (128,)
    env.close()


@pytest.mark.parametrize("id", ["PongNoFrameskip-v4", "ALE/Pong-v5"])
def test_a_wrong_option_is_compared_with_those_of_the_vector_environment(id: str):
    import_registering_package(id)
    with pytest.raises(EnvError, match="takes no option 'reward_cliping'; did you mean 'reward_clipping'"):
        build(gymnasium.spec(id), 1, {"reward_cliping": False})
    with pytest.raises(EnvError, match="takes no option 'stack_nun'; did you mean 'stack_num'"):
        build(gymnasium.spec(id), 1, {"reward_clipping": False, "stack_nun": 2})
    with pytest.raises(
        EnvError,
        match="'reward_clipping', of the vector environment, and 'obs_type', of single games, exclude one another",
    ):
        build(gymnasium.spec(id), 1, {"reward_clipping": False, "obs_type": "ram"})


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("noop_max", -1, "option 'noop_max' is -1; expected a whole number of at least 0"),
        ("repeat_action_probability", 2.0, "option 'repeat_action_probability' is 2.0; expected a number of 0 to 1"),
        ("stack_num", 0, "option 'stack_num' is 0; expected a whole number of at least 1"),
        ("img_height", True, "option 'img_height' is True; expected a whole number of at least 1"),
        ("num_threads", "two", "option 'num_threads' is 'two'; expected a whole number of at least 0"),
        ("grayscale", "no", "option 'grayscale' is 'no'; expected true or false"),
        ("batch_size", 5, "takes no option 'batch_size': every game acts on every tick"),
    ],
)
def test_an_option_of_atari_out_of_its_range_is_refused(option: str, value: object, message: str):
    import_registering_package("ALE/Pong-v5")
    with pytest.raises(EnvError, match=message):
        build(gymnasium.spec("ALE/Pong-v5"), 2, {option: value})
