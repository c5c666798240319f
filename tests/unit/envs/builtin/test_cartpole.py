import gymnasium
import numpy as np
import torch
from envs.builtin.worlds import act

from palaestra.envs.builtin.cartpole.env import CartPole


def test_it_moves_as_gymnasiums_does():
    rng = np.random.default_rng(1)
    games = [gymnasium.make("CartPole-v1").unwrapped for _ in range(64)]
    env = CartPole(len(games))
    env.reset(3)
    ends = 0
    for _ in range(300):
        state = env.state_dict()["state"].numpy()
        for game, now in zip(games, state, strict=True):
            game.reset()
            game.state = now.copy()  # pyright: ignore[reportAttributeAccessIssue]
        choices = rng.integers(0, 2, len(games)).tolist()
        theirs = [game.step(choice) for game, choice in zip(games, choices, strict=True)]
        step = act(env, *choices)
        ended = torch.tensor([one[2] for one in theirs])
        assert torch.equal(step.terminated, ended)
        assert step.reward.tolist() == [one[1] for one in theirs]
        ours = step.obs[0].clone()
        ours[step.final_obs.slots] = step.final_obs.obs[0]
        np.testing.assert_allclose(ours.numpy(), np.array([one[0] for one in theirs]), atol=1e-6, rtol=0)
        going = ~ended.numpy()
        now = env.state_dict()["state"].numpy()
        np.testing.assert_allclose(now[going], np.array([game.state for game in games])[going], atol=1e-12, rtol=0)
        ends += int(ended.sum())
    assert ends > 500


def test_a_pole_that_falls_on_the_last_decision_has_not_run_out_of_time():
    env = CartPole(1)
    env.reset(0)
    state = env.state_dict()
    env.load_state_dict(
        {**state, "age": torch.tensor([499], dtype=torch.int32), "state": torch.tensor([[0, 0, 0.3, 0]]).double()}
    )
    step = act(env, 0)
    assert (step.terminated.item(), step.truncated.item()) == (True, False)
