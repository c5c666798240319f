"""What the training collector stores, against single environments that are stepped by hand with the same seeds and
actions.
"""

from collections.abc import Callable
from copy import deepcopy
from functools import partial

import gymnasium
import numpy as np
import pytest
import torch
import walk_env
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from tiny_envs import CPU, behavior_settings
from torch import Tensor

from palaestra.core.specs import BehaviorSpec
from palaestra.data.replay import Replay
from palaestra.data.rollout import Rollout, RolloutNeeds
from palaestra.envs.base import Env
from palaestra.envs.gymnasium import GymnasiumEnv
from palaestra.envs.unity.options import UnityOptions
from palaestra.runtime.collect.collector import BehaviorCollector, Collector
from palaestra.runtime.environments.make import make_env
from palaestra.runtime.environments.unity_games import GameSettings
from palaestra.trainers.ppo import PPO

AREAS, SEED = 4, 3


class Sync(SyncVectorEnv):
    """Gymnasium's, but another class, as those of other packages are: a SyncVectorEnv itself is stepped one by one."""


def spread(seed: int, areas: int = AREAS) -> list[int]:
    """Seeds of single environments."""
    return np.random.SeedSequence(seed).generate_state(areas).tolist()


def counted(seed: int) -> list[int]:
    """Seeds of Gymnasium's vector environments."""
    return [seed + i for i in range(AREAS)]


def in_copies(seed: int) -> list[int]:
    """Seeds of two copies with half of the areas each."""
    return spread(seed, 2) + spread(seed + 2, 2)


def vector(kind: Callable[..., VectorEnv], mode: AutoresetMode) -> GymnasiumEnv:
    return GymnasiumEnv.wrap(kind([walk_env.make] * AREAS, autoreset_mode=mode))


def copies() -> Env:
    return make_env("python:walk_env:make", areas=AREAS, games=GameSettings(UnityOptions(copies=2)))


def native() -> GymnasiumEnv:
    gymnasium.register("Walk-v0", walk_env.Walk, max_episode_steps=walk_env.LONGEST, vector_entry_point=own_version)
    env = GymnasiumEnv("Walk-v0", AREAS)
    del gymnasium.registry["Walk-v0"]
    return env


def own_version(num_envs: int, max_episode_steps: int, autoreset_mode: AutoresetMode) -> VectorEnv:
    assert max_episode_steps == walk_env.LONGEST
    return Sync([walk_env.make] * num_envs, autoreset_mode=autoreset_mode)


KINDS: dict[str, tuple[Callable[[], Env], Callable[[int], list[int]]]] = {
    "single": (lambda: GymnasiumEnv.wrap([walk_env.make() for _ in range(AREAS)]), spread),
    "SyncVectorEnv": (partial(vector, SyncVectorEnv, AutoresetMode.NEXT_STEP), spread),
    **{f"vector, {mode.name}": (partial(vector, Sync, mode), counted) for mode in AutoresetMode},
    **{f"AsyncVectorEnv, {mode.name}": (partial(vector, AsyncVectorEnv, mode), counted) for mode in AutoresetMode},
    "vector_entry_point": (native, counted),
    "two copies": (copies, in_copies),
}


def collected(env: Env, terminal_obs: bool) -> tuple[BehaviorSpec, list[Rollout]]:
    """Two rollouts of some 60 decisions, one after the other."""

    def join(name: str, spec: BehaviorSpec) -> BehaviorCollector:
        return BehaviorCollector(
            name, spec, PPO(spec, behavior_settings(), CPU, 0).policy, 60, RolloutNeeds(terminal_obs=terminal_obs)
        )

    collector = Collector(env, join, SEED)
    rollouts = list[Rollout]()
    while len(rollouts) < 2:
        # the next one may be written into the same memory
        rollouts += deepcopy([*collector.collect(1000, lambda: False).values()])
    return next(iter(env.behaviors.values())), rollouts


def by_hand(seed: int, choices: list[int]) -> list[tuple]:
    """Steps one environment; returns a transition for each choice: obs, choice, reward, next or final obs, terminated,
    truncated.
    """
    env = walk_env.make()
    obs, _ = env.reset(seed=seed)
    rows = []
    for choice in choices:
        after, reward, terminated, truncated, _ = env.step(np.int64(choice + 5))
        rows.append((flat(obs), choice, np.float32(reward), flat(after), terminated, truncated and not terminated))
        obs = env.reset()[0] if terminated or truncated else after
    return rows


def flat(obs: dict) -> tuple[float, ...]:
    return (*obs["place"].tolist(), *np.eye(4, dtype=np.float32)[obs["last"]].tolist())


def stored(rollouts: list[Rollout], slot: int) -> list[tuple]:
    """Transitions of one slot in rollouts that follow one another, in the form of `by_hand`."""
    rows = []
    for rollout in rollouts:
        time, slots = rollout.shape
        length = time if rollout.lengths is None else int(rollout.lengths[slot])
        final = {row: i for i, row in enumerate(rollout.final_rows.tolist())}
        for t in range(length):
            terminated = bool(rollout.terminated[t, slot])
            truncated = bool(rollout.truncated[t, slot])
            if terminated or truncated:
                after = tuple(column[final[t * slots + slot]] for column in rollout.final_obs)
            else:
                after = (
                    tuple(column[t + 1, slot] for column in rollout.obs)
                    if t + 1 < length
                    else tuple(x[slot] for x in rollout.last_obs)
                )
            before = tuple(column[t, slot] for column in rollout.obs)
            choice = int(rollout.sample.discrete[t, slot, 0])
            rows.append(
                (numbers(before), choice, rollout.reward[t, slot].item(), numbers(after), terminated, truncated)
            )
    return rows


def numbers(columns: tuple[Tensor, ...]) -> tuple[float, ...]:
    return tuple(torch.cat(columns).tolist())


@pytest.mark.few(4)
@pytest.mark.parametrize("kind", KINDS)
def test_stored_transitions_are_those_of_single_environments_with_the_same_seeds_and_actions(kind: str):
    make, seeds_of = KINDS[kind]
    env = make()
    try:
        spec, rollouts = collected(env, terminal_obs=True)
    finally:
        env.close()
    everything = []
    for slot, seed in enumerate(seeds_of(SEED)):
        rows = stored(rollouts, slot)
        assert rows == by_hand(seed, [row[1] for row in rows])
        everything += rows
    assert len(everything) >= 120
    assert {row[4:] for row in everything} == {(False, False), (True, False), (False, True)}

    replay = Replay(spec, 1000, CPU)
    for rollout in rollouts:
        replay.add(rollout, rollout.sample, rollout.reward)
    drawn = replay.draw(300, torch.Generator().manual_seed(0)).transitions()
    assert len(replay) == len(everything)
    for i in range(300):
        row = (numbers(tuple(x[i] for x in drawn.obs)), int(drawn.action.discrete[i, 0]), drawn.reward[i].item())
        after = numbers(tuple(x[i] for x in drawn.next_obs))
        ended = bool(drawn.ended[i])
        terminated = bool(drawn.terminated[i])
        assert (*row, after, terminated, ended and not terminated) in everything


def test_without_final_observations_of_terminations_those_of_truncations_are_stored():
    env = KINDS["vector, SAME_STEP"][0]()
    _, (rollout, _) = collected(env, terminal_obs=False)
    time, slots = rollout.shape
    rows = rollout.truncated.flatten().nonzero().squeeze(1)
    assert rollout.final_rows.sort().values.tolist() == rows.tolist()
    wanted = [
        row
        for slot, seed in enumerate(counted(SEED))
        for row in by_hand(seed, rollout.sample.discrete[:, slot, 0].tolist())
    ]
    for i, place in enumerate(rollout.final_rows.tolist()):
        t, slot = divmod(place, slots)
        assert numbers(tuple(x[i] for x in rollout.final_obs)) == wanted[slot * time + t][3]
    env.close()
