import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import palaestra
from palaestra.core.errors import EnvError, NotFinite
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.gymnasium import GymnasiumEnv


class Counting(gymnasium.Env):
    """Observes the number of steps of its episode, and records its actions."""

    observation_space = spaces.Box(0, 1000, (2,), np.float32)

    def __init__(
        self, last: int = 3, action_space: spaces.Space | None = None, poison: float | None = None, where: str = "obs"
    ) -> None:
        self.last = last
        self.poison = poison
        self.where = where
        self.action_space = spaces.Discrete(2) if action_space is None else action_space
        self.got: list = []
        self.count = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count, self.episode = 0, self.np_random.integers(100)
        return self._observe(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.got.append(action)
        self.count += 1
        bad = self.poison is not None and self.count == 2
        obs = self._observe()
        reward = 0.5
        if bad and self.where == "obs":
            obs[1] = self.poison
        if bad and self.where == "reward":
            reward = self.poison
        return obs, reward, self.count >= self.last, False, {"noise": self.count}

    def _observe(self) -> np.ndarray:
        return np.array([self.count, self.episode], np.float32)


class Drawn(Counting):
    metadata = {"render_modes": ["rgb_array"], "render_fps": 1}  # noqa: RUF012 (Gymnasium's form)

    def __init__(self, render_mode: str | None = None, missing: bool = False) -> None:
        super().__init__()
        self.render_mode = render_mode
        self.missing = missing

    def render(self):
        if self.missing:
            raise gymnasium.error.DependencyNotInstalled("a painter is not installed")
        return np.full((2, 3, 3), self.episode, np.uint8)


class Shown(Counting):
    """Has a given observation space, and always returns the same observation."""

    def __init__(self, space: spaces.Space, obs) -> None:
        super().__init__(last=2)
        self.observation_space = space
        self.obs = obs

    def _observe(self):
        return self.obs


def native(num_envs: int, **options) -> SyncVectorEnv:
    """A vector environment that restarts on the tick of an end and returns final observations in its infos."""
    return SyncVectorEnv([lambda: Counting(**options)] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP)


def too_late(num_envs: int, **options) -> SyncVectorEnv:
    raise AssertionError("a vector environment that restarts on the next tick must not be made")


@pytest.fixture(autouse=True)
def registered():
    gymnasium.register("Counting-v0", Counting)
    gymnasium.register("Cut-v0", Counting, max_episode_steps=2)
    gymnasium.register("Shown-v0", Shown)
    gymnasium.register("Drawn-v0", Drawn)
    native.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
    too_late.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
    gymnasium.register("Native-v0", Counting, vector_entry_point=native)
    gymnasium.register("TooLate-v0", Counting, vector_entry_point=too_late)
    yield
    for name in ("Counting-v0", "Cut-v0", "Shown-v0", "Drawn-v0", "Native-v0", "TooLate-v0"):
        del gymnasium.registry[name]


def act(env: GymnasiumEnv, continuous=(), discrete=()) -> TimeStep:
    """Steps with these actions."""
    n = env.num_areas
    action = Action(torch.tensor(continuous).reshape(n, -1), torch.tensor(discrete, dtype=torch.int64).reshape(n, -1))
    return env.step({env.behavior: action})[env.behavior]


def first(env: GymnasiumEnv, seed: int = 0) -> TimeStep:
    return env.reset(seed)[env.behavior]


@pytest.mark.parametrize("name", ["Counting-v0", "Native-v0", "TooLate-v0"])
def test_at_an_end_obs_is_the_next_episodes_first_and_ends_has_the_final_one(name: str):
    env = GymnasiumEnv(name, 2)
    start = first(env)
    steps = [act(env, discrete=[0, 1]) for _ in range(4)]
    assert start.obs[0][:, 0].tolist() == [0, 0]
    assert [step.obs[0][0, 0].item() for step in steps] == [1, 2, 0, 1]
    assert [step.terminated.tolist() for step in steps] == [[False] * 2, [False] * 2, [True] * 2, [False] * 2]
    assert steps[2].final_obs.slots.tolist() == [0, 1]
    assert steps[2].final_obs.obs[0].tolist() == [[3, start.obs[0][0, 1]], [3, start.obs[0][1, 1]]]
    assert [len(step.final_obs.slots) for step in steps] == [0, 0, 2, 0]
    assert all(step.reward.tolist() == [0.5, 0.5] for step in steps)


@pytest.mark.parametrize(("last", "truncated"), [(3, True), (2, False)])
def test_a_time_limit_truncates_an_episode_that_does_not_end_there(last: int, truncated: bool):
    env = GymnasiumEnv("Cut-v0", 1, last=last)
    first(env)
    act(env, discrete=[0])
    step = act(env, discrete=[0])
    assert (step.terminated.item(), step.truncated.item()) == (not truncated, truncated)
    assert step.final_obs.obs[0][0, 0] == 2


def pole(seed: int, ticks: int) -> list[TimeStep]:
    env = GymnasiumEnv("CartPole-v1", 6)
    random = np.random.default_rng(1)
    return [first(env, seed), *(act(env, discrete=random.integers(0, 2, 6)) for _ in range(ticks))]


def test_cart_poles_own_vector_version_restarts_a_fallen_pole_on_the_tick_it_falls():
    steps = pole(0, 100)
    falls = [step for step in steps if len(step.final_obs.slots)]
    assert len(falls) > 10
    for step in falls:
        last = step.final_obs.obs[0]
        start = step.obs[0][step.final_obs.slots]
        assert (last[:, 2].abs() > 12 * torch.pi / 180).logical_or(last[:, 0].abs() > 2.4).all()
        assert (start.abs() <= 0.05).all()
        assert step.terminated[step.final_obs.slots].all()
    assert all(bool((step.reward == 1).all()) for step in steps[1:])


def test_cart_poles_own_vector_version_moves_as_the_single_one():
    env = GymnasiumEnv("CartPole-v1", 1)
    single = gymnasium.make("CartPole-v1").unwrapped
    single.reset(seed=0)
    single.state = tuple(first(env).obs[0][0].tolist())
    for tick in range(100):
        step = act(env, discrete=[tick % 2])
        obs, _, terminated, *_ = single.step(tick % 2)
        if terminated:
            np.testing.assert_allclose(step.final_obs.obs[0][0].numpy(), obs, atol=1e-5)
            assert step.terminated.item()
            return
        np.testing.assert_allclose(step.obs[0][0].numpy(), obs, atol=1e-5)
    raise AssertionError("the pole never fell")


def test_a_standing_cart_pole_is_truncated_after_500_ticks():
    env = GymnasiumEnv("CartPole-v1", 1)
    obs = first(env).obs[0][0]
    for tick in range(1, 501):
        step = act(env, discrete=[int(obs[2] + 0.5 * obs[3] + 0.02 * obs[0] + 0.05 * obs[1] > 0)])
        assert bool(step.truncated.any()) == (tick == 500), tick
        obs = step.obs[0][0]
    assert not step.terminated.item()


def test_the_same_seed_gives_the_same_stream():
    once = pole(3, 60)
    again = pole(3, 60)
    other = pole(4, 60)
    assert all(torch.equal(a.obs[0], b.obs[0]) for a, b in zip(once, again, strict=True))
    assert not torch.equal(once[0].obs[0], other[0].obs[0])


def test_copies_start_differently_and_neighboring_seeds_share_none():
    starts = torch.cat([first(GymnasiumEnv("Pendulum-v1", 4), seed).obs[0] for seed in (0, 1)])
    assert len(starts.unique(dim=0)) == 8


def test_the_middle_and_the_ends_of_a_box_are_0_and_plus_minus_1_and_more_is_clipped():
    box = spaces.Box(np.array([-2, 0], np.float32), np.array([2, 10], np.float32))
    env = GymnasiumEnv("Counting-v0", 5, action_space=box)
    assert env.behaviors["Counting-v0"].action.continuous == 2
    first(env)
    act(env, continuous=[[0.0, 0], [1, 1], [-1, -1], [9, -9], [0.5, 0.5]])
    got = [copy.unwrapped.got[0].tolist() for copy in env._envs._envs]
    assert got == [[0, 5], [2, 10], [-2, 0], [2, 0], [1, 7.5]]


@pytest.mark.parametrize(
    ("space", "branches", "discrete", "expected"),
    [
        (spaces.Discrete(3, start=5), (3,), [[0], [2]], [5, 7]),
        (spaces.MultiDiscrete([2, 3], start=[1, -1]), (2, 3), [[0, 0], [1, 2]], [[1, -1], [2, 1]]),
        (spaces.MultiDiscrete([[2], [3]]), (2, 3), [[0, 1], [1, 2]], [[[0], [1]], [[1], [2]]]),
        (spaces.MultiBinary(2), (2, 2), [[0, 1], [1, 1]], [[0, 1], [1, 1]]),
    ],
)
def test_branches_reach_the_environment_in_its_own_numbers(space, branches, discrete, expected):
    env = GymnasiumEnv("Counting-v0", 2, action_space=space)
    assert env.behaviors["Counting-v0"].action.branches == branches
    first(env)
    act(env, discrete=discrete)
    assert [copy.unwrapped.got[0].tolist() for copy in env._envs._envs] == expected


PICTURE = np.arange(2 * 5 * 3, dtype=np.uint8).reshape(2, 5, 3)


@pytest.mark.parametrize(
    ("space", "obs", "shapes", "expected"),
    [
        (spaces.Discrete(3, start=4), 5, [(3,)], [[0, 1, 0]]),
        (spaces.MultiDiscrete([2, 3], start=[0, 1]), np.array([1, 3]), [(5,)], [[0, 1, 0, 0, 1]]),
        (spaces.MultiBinary(3), np.array([1, 0, 1], np.int8), [(3,)], [[1, 0, 1]]),
        (spaces.Box(-5, 5, ()), np.float32(2), [(1,)], [[2]]),
        (spaces.Box(-5, 5, (2, 2)), np.array([[1, 2], [3, 4]], np.float32), [(4,)], [[1, 2, 3, 4]]),
        (spaces.Box(0, 255, (2, 5, 3), np.uint8), PICTURE, [(3, 2, 5)], [PICTURE.transpose(2, 0, 1) / 255]),
        (spaces.Box(0, 255, (3, 5, 6), np.uint8), np.full((3, 5, 6), 255, np.uint8), [(3, 5, 6)], [np.ones((3, 5, 6))]),
        (spaces.Box(0, 255, (2, 5), np.uint8), np.full((2, 5), 51, np.uint8), [(1, 2, 5)], [np.full((1, 2, 5), 0.2)]),
        (spaces.Box(0, 1, (2, 5, 1)), np.full((2, 5, 1), 0.5, np.float32), [(1, 2, 5)], [np.full((1, 2, 5), 0.5)]),
        (
            spaces.Dict(far=spaces.Tuple((spaces.Discrete(2), spaces.Box(-1, 1, (1,)))), near=spaces.Discrete(2)),
            {"far": (1, np.array([0.5], np.float32)), "near": 0},
            [(2,), (1,), (2,)],
            [[0, 1], [0.5], [1, 0]],
        ),
    ],
)
def test_every_supported_observation_becomes_columns(space, obs, shapes, expected):
    env = GymnasiumEnv("Shown-v0", 2, space=space, obs=obs)
    assert [obs.shape for obs in env.behaviors["Shown-v0"].obs] == shapes
    start = first(env)
    for column, values in zip(start.obs, expected, strict=True):
        assert column.is_contiguous()
        torch.testing.assert_close(column, torch.tensor(np.array([values, values]), dtype=torch.float32))
    act(env, discrete=[0, 0])
    final_obs = act(env, discrete=[0, 0]).final_obs
    assert [tuple(column.shape) for column in final_obs.obs] == [(2, *shape) for shape in shapes]


def test_a_dictionarys_entries_are_named_by_their_keys():
    space = spaces.Dict(far=spaces.Tuple((spaces.Discrete(2), spaces.Discrete(3))), near=spaces.Discrete(2))
    env = GymnasiumEnv("Shown-v0", 1, space=space, obs={"far": (0, 0), "near": 0})
    assert [obs.name for obs in env.behaviors["Shown-v0"].obs] == ["far.0", "far.1", "near"]


@pytest.mark.parametrize("space", [spaces.Text(4), spaces.Dict(a=spaces.Text(4))])
def test_an_observation_space_without_a_column_is_named(space):
    with pytest.raises(EnvError, match=r"observation '(a|observation)' is a Text.*supported are Box"):
        GymnasiumEnv("Shown-v0", 1, space=space, obs=None)


def test_an_action_space_that_no_policy_answers_is_named():
    with pytest.raises(EnvError, match=r"action 'word' is a Text.*supported are Box.*TransformAction"):
        GymnasiumEnv("Counting-v0", 1, action_space=spaces.Dict(go=spaces.Discrete(2), word=spaces.Text(3)))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_an_observation_that_is_not_finite_is_named(value: float):
    env = GymnasiumEnv("Counting-v0", 2, poison=value)
    first(env)
    act(env, discrete=[0, 0])
    with pytest.raises(NotFinite, match=rf"behavior 'Counting-v0', agent 0: observation 'observation'\[1\] is {value}"):
        act(env, discrete=[0, 0])


def test_a_reward_that_is_not_finite_is_named():
    env = GymnasiumEnv("Counting-v0", 1, poison=float("-inf"), where="reward")
    first(env)
    act(env, discrete=[0])
    with pytest.raises(NotFinite, match="agent 0: reward is -inf"):
        act(env, discrete=[0])


def test_finite_numbers_with_an_infinite_sum_are_accepted():
    env = GymnasiumEnv("Shown-v0", 2, space=spaces.Box(-np.inf, np.inf, (2,)), obs=np.full(2, 3e38, np.float32))
    assert first(env).obs[0].isfinite().all()


def test_fewer_than_one_area_are_refused():
    with pytest.raises(EnvError, match="at least 1"):
        GymnasiumEnv("CartPole-v1", 0)


def test_the_behaviors_name_has_no_module_and_can_be_a_folder():
    gymnasium.register("some/Place-v0", Counting)
    assert list(GymnasiumEnv("gymnasium:some/Place-v0", 1).behaviors) == ["some-Place-v0"]
    del gymnasium.registry["some/Place-v0"]


def test_an_area_is_drawn_though_it_was_not_made_for_that():
    env = GymnasiumEnv("Drawn-v0", 1)
    first(env)
    assert env.render(0).shape == (2, 3, 3)


@pytest.mark.parametrize(
    ("shown", "message"),
    [
        (lambda self: np.zeros(4), r"its `render` returned an array \(4,\) of float64; expected an array \(height"),
        (lambda self: None, "its `render` returned None"),
        (gymnasium.Env.render, "its class Odd has no `render`"),
    ],
)
def test_what_is_no_picture_is_named(shown, message):
    env = GymnasiumEnv.wrap(type("Odd", (Drawn,), {"render": shown})("rgb_array"))
    first(env)
    with pytest.raises(EnvError, match=f"environment Odd cannot be drawn: {message}"):
        env.render(0)


def test_an_area_is_drawn_where_asked_for():
    env = GymnasiumEnv("Drawn-v0", 2, render=True)
    episodes = first(env).obs[0][:, 1].tolist()
    assert [env.render(area).tolist() for area in (0, 1)] == [
        np.full((2, 3, 3), episode).tolist() for episode in episodes
    ]


def test_a_package_that_draws_and_is_missing_is_named():
    env = GymnasiumEnv("Drawn-v0", 1, render=True, missing=True)
    first(env)
    with pytest.raises(EnvError, match="gymnasium:Drawn-v0 cannot be rendered: a painter is not installed"):
        env.render(0)


def test_there_are_no_parameters_and_no_state():
    env = GymnasiumEnv("CartPole-v1", 2)
    assert (env.parameters, env.state_dict()) == ({}, {})
    env.load_state_dict({})
    with pytest.raises(EnvError, match="gravity"):
        env.set_parameters({"gravity": torch.ones(2)})
    with pytest.raises(EnvError, match="saved state"):
        env.load_state_dict({"x": torch.ones(2)})


def test_gymnasium_knows_how_long_a_tick_is_where_it_says_so():
    assert palaestra.make("gymnasium:CartPole-v1", areas=1).tick_seconds == pytest.approx(0.02)
    assert palaestra.make("gymnasium:Pendulum-v1", areas=1).tick_seconds == pytest.approx(1 / 30)
