"""Restarts of episodes: single environments that reset themselves, and the autoreset modes of vector environments."""

import copy
import warnings

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers import Autoreset, TransformObservation

from palaestra.core.errors import EnvError
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.gymnasium import GymnasiumEnv
from palaestra.testing import check_env

LENGTH = 3


class Counts(gymnasium.Env):
    """Observes the tick and number of its episode; an episode has three ticks."""

    observation_space = spaces.Box(-1000, 1000, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self) -> None:
        self.tick = 0
        self.episode = -1

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.tick = 0
        self.episode = self.episode + 1 if seed is None else 0
        return self.observe(), {}

    def observe(self):
        return np.array([self.tick, self.episode], np.float32)

    def step(self, action):
        self.tick += 1
        return self.observe(), 1.0, self.tick >= LENGTH, False, {"is_success": self.episode % 2 == 0}


class ResetsItself(Counts):
    """Resets itself inside `step`, as many environments did before Gymnasium."""

    def step(self, action):
        obs, *rest = super().step(action)
        if rest[1]:
            obs, _ = self.reset()
        return obs, *rest


class ResetsItselfAndSaysWhatWasLast(Counts):
    def __init__(self, key: str) -> None:
        super().__init__()
        self.key = key

    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        if terminated:
            info = {**info, self.key: obs}
            obs, _ = self.reset()
        return obs, reward, terminated, truncated, info


class ResetsItselfButReturnsTheLast(Counts):
    def step(self, action):
        obs, *rest = super().step(action)
        if rest[1]:
            self.reset()
        return obs, *rest


class BeginsAnewByOtherMeans(Counts):
    """Restarts without calling `reset`."""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode = 0
        return self.observe(), {}

    def step(self, action):
        obs, *rest = super().step(action)
        if rest[1]:
            self.tick = 0
            obs = self.observe()
        return obs, *rest


class ResetsWhatItWraps(gymnasium.Wrapper):
    def step(self, action):
        obs, *rest = self.env.step(action)
        if rest[1] or rest[2]:
            obs, _ = self.env.reset()
        return obs, *rest


class Vectors(SyncVectorEnv):
    """A subclass, which is used as a vector environment, while Gymnasium's own class is split into its environments."""

    def __init__(self, count: int, mode: AutoresetMode = AutoresetMode.SAME_STEP) -> None:
        super().__init__([Counts] * count, autoreset_mode=mode)


def act(env: GymnasiumEnv) -> TimeStep:
    n = env.num_areas
    return env.step({env.behavior: Action(torch.zeros(n, 0), torch.zeros(n, 1, dtype=torch.int64))})[env.behavior]


def play(env: GymnasiumEnv, ticks: int) -> list[TimeStep]:
    return [env.reset(0)[env.behavior], *(act(env) for _ in range(ticks))]


def ticks_shown(steps: list[TimeStep]) -> list[float]:
    return [step.obs[0][0, 0].item() for step in steps]


@pytest.mark.parametrize("make", [ResetsItself, lambda: ResetsWhatItWraps(Counts())])
def test_an_environment_that_resets_itself_in_step_is_refused_at_its_first_end(make):
    env = GymnasiumEnv.wrap([make(), make()])
    play(env, LENGTH - 1)
    with pytest.raises(
        EnvError, match=r"resets itself inside `step`.*the last one.*is lost.*Leave out the call of `reset`.*final_obs"
    ):
        act(env)


def test_one_that_resets_itself_is_refused_behind_a_wrapper_that_changes_observations():
    made = TransformObservation(ResetsItself(), lambda obs: -obs, Counts.observation_space)
    env = GymnasiumEnv.wrap(made)
    with pytest.raises(EnvError, match="resets itself inside `step`"):
        play(env, LENGTH)


def test_environments_of_a_vector_environment_that_reset_themselves_are_refused():
    env = GymnasiumEnv.wrap(SyncVectorEnv([ResetsItself] * 2))
    with pytest.raises(EnvError, match="resets itself inside `step`"):
        play(env, LENGTH)


@pytest.mark.parametrize("key", ["final_obs", "final_observation", "terminal_observation"])
def test_the_last_observation_is_taken_from_the_info_where_it_is_there(key: str):
    steps = play(GymnasiumEnv.wrap(ResetsItselfAndSaysWhatWasLast(key)), 2 * LENGTH)
    assert [step.final_obs.obs[0][0, 0].item() for step in steps if len(step.final_obs.slots)] == [LENGTH, LENGTH]
    assert ticks_shown(steps) == [0, 1, 2, 0, 1, 2, 0]


def test_an_environment_that_resets_itself_but_returns_the_last_observation_is_welcome():
    steps = play(GymnasiumEnv.wrap(ResetsItselfButReturnsTheLast()), LENGTH)
    assert steps[-1].final_obs.obs[0][0, 0] == LENGTH


def test_gymnasiums_autoreset_wrapper_changes_nothing():
    wrapped, plain = (play(GymnasiumEnv.wrap(made), 2 * LENGTH) for made in (Autoreset(Counts()), Counts()))
    for one, other in zip(wrapped, plain, strict=True):
        assert torch.equal(one.obs[0], other.obs[0])
        assert torch.equal(one.final_obs.obs[0], other.final_obs.obs[0])


def test_an_environment_that_restarts_without_reset_causes_one_warning():
    env = GymnasiumEnv.wrap([BeginsAnewByOtherMeans() for _ in range(4)])
    with pytest.warns(
        UserWarning, match=r"environment BeginsAnewByOtherMeans seems to reset itself inside `step`"
    ) as told:
        play(env, 20 * LENGTH)
    assert len(told) == 1


@pytest.mark.parametrize(
    "name", ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1", "MountainCar-v0", "Taxi-v4", "Acrobot-v1"]
)
def test_gymnasiums_own_environments_are_not_suspected(name: str):
    options = {"max_episode_steps": 20} if name != "CartPole-v1" else {}
    env = GymnasiumEnv(name, 8, **options)
    rng = torch.Generator().manual_seed(0)
    spec = env.behaviors[env.behavior].action
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env.reset(0)
        ended = 0
        for _ in range(100):
            continuous = torch.rand(8, spec.continuous, generator=rng) * 2 - 1
            discrete = torch.randint(max(spec.branches, default=1), (8, len(spec.branches)), generator=rng)
            step = env.step({env.behavior: Action(continuous, discrete)})[env.behavior]
            ended += int((step.terminated | step.truncated).sum())
    assert ended > 8  # each has been reset by us, without a warning


class SaysTerminated(gymnasium.Wrapper):
    def step(self, action):
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, reward, terminated or truncated, False, info


@pytest.mark.parametrize("wrap", [lambda env: env, SaysTerminated])
def test_a_pole_that_is_balanced_until_time_is_up_is_not_suspected(wrap):
    """Pushes to the left and to the right take turns, so every second observation is near the first ones."""
    env = GymnasiumEnv.wrap([wrap(gymnasium.make("CartPole-v1", max_episode_steps=30)) for _ in range(20)])
    step = env.reset(0)[env.behavior]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(30):
            push = (step.obs[0] @ torch.tensor([0.1, 0.3, 2.0, 0.4]) > 0).long().unsqueeze(1)
            step = env.step({env.behavior: Action(torch.zeros(20, 0), push)})[env.behavior]
    assert len(step.final_obs.slots) == 20


def test_a_copy_of_a_watched_environment_resets_itself_and_not_the_original():
    made = Counts()
    GymnasiumEnv.wrap(made).reset(0)
    made.step(0)
    copy.deepcopy(made).reset()
    assert made.tick == 1


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_every_autoreset_mode_shows_the_same_episodes(mode: AutoresetMode):
    env = GymnasiumEnv.wrap(Vectors(2, mode))
    steps = play(env, 9)
    asked = [step for step in steps if bool(step.acting[0])]
    assert [tuple(step.obs[0][0].tolist()) for step in asked][:7] == [
        (0, 0),
        (1, 0),
        (2, 0),
        (0, 1),
        (1, 1),
        (2, 1),
        (0, 2),
    ]
    ends = [step for step in steps if len(step.final_obs.slots)]
    assert [step.final_obs.obs[0][0].tolist() for step in ends[:2]] == [[3, 0], [3, 1]]
    assert all(step.terminated.all() for step in ends)
    assert env.behaviors[env.behavior].steady == (mode is not AutoresetMode.NEXT_STEP)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_every_autoreset_mode_keeps_the_contract_of_environments(mode: AutoresetMode):
    check_env(GymnasiumEnv.wrap(Vectors(3, mode)), ticks=30)


def test_the_tick_of_a_restart_has_no_reward():
    env = GymnasiumEnv.wrap(Vectors(1, AutoresetMode.NEXT_STEP))
    assert [step.reward.item() for step in play(env, 4)] == [0, 1, 1, 1, 0]


def test_an_id_that_has_only_a_vector_version_can_be_used():
    gymnasium.register("OnlyVector-v0", vector_entry_point=lambda num_envs: Vectors(num_envs, AutoresetMode.NEXT_STEP))
    env = GymnasiumEnv("OnlyVector-v0", 2)
    assert ticks_shown([step for step in play(env, 5) if bool(step.acting[0])]) == [0, 1, 2, 0, 1]
    del gymnasium.registry["OnlyVector-v0"]


class Mislabeled(Vectors):
    """Names an autoreset mode in its metadata, but behaves differently."""

    def __init__(self, says, does: AutoresetMode = AutoresetMode.SAME_STEP) -> None:
        super().__init__(2, does)
        self.metadata = {} if says is None else {"autoreset_mode": says}


class HidesTheLast(Mislabeled):
    def step(self, actions):
        *rest, infos = super().step(actions)
        return *rest, {key: value for key, value in infos.items() if key != "final_obs"}


class EndsTwice(Mislabeled):
    def step(self, actions):
        obs, rewards, _, truncated, _ = super().step(actions)
        return obs, rewards, np.ones(2, bool), truncated, {}


class ResetsAll(Mislabeled):
    def step(self, actions):
        obs, rewards, terminated, truncated, infos = super().step(actions)
        return obs, rewards, terminated | np.array([True, False]), truncated, infos

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)


@pytest.mark.parametrize("says", [None, "Sometimes"])
def test_a_vector_environment_that_does_not_name_its_mode_is_refused_with_the_modes(says):
    with pytest.raises(EnvError, match=r"metadata\['autoreset_mode'\].*SAME_STEP"):
        GymnasiumEnv.wrap(Mislabeled(says))


def test_a_mode_may_be_named_by_its_value():
    assert GymnasiumEnv.wrap(Mislabeled("SameStep")).num_areas == 2


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (HidesTheLast(AutoresetMode.SAME_STEP), "names SAME_STEP .* infos lack 'final_obs'"),
        (Mislabeled(AutoresetMode.NEXT_STEP), "names NEXT_STEP .* infos have 'final_obs'"),
        (EndsTwice(AutoresetMode.NEXT_STEP, AutoresetMode.NEXT_STEP), "area 0 ended on two ticks in a row"),
        (
            ResetsAll(AutoresetMode.DISABLED, AutoresetMode.DISABLED),
            "names DISABLED .* changed environments that the mask leaves out",
        ),
    ],
)
def test_a_vector_environment_that_does_otherwise_than_it_says_is_refused_with_the_reason(made: VectorEnv, reason: str):
    with pytest.raises(EnvError, match=reason):
        play(GymnasiumEnv.wrap(made), 2 * LENGTH)


@pytest.mark.parametrize("made", [*(Vectors(2, mode) for mode in AutoresetMode), [Counts(), Counts()]])
def test_whether_an_episode_was_successful_is_told_at_its_end(made):
    steps = play(GymnasiumEnv.wrap(made), 8)
    assert all(step.success is None for step in steps if not len(step.final_obs.slots))
    assert [step.success.tolist() for step in steps if step.success is not None] == [[1, 1], [0, 0]]
