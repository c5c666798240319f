"""Each shipped mirror against its world: a mirrored state shows the mirrored observation, and after the mirrored action
the next one does, too.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor

from palaestra.core.timestep import Action
from palaestra.envs.builtin.ball.env import Ball
from palaestra.envs.builtin.creatures.crawler import Crawler
from palaestra.envs.builtin.creatures.walker import Walker
from palaestra.envs.builtin.soccer.env import SoccerTwos
from palaestra.trainers.symmetry.mirror import Mirror
from palaestra.trainers.symmetry.mirror_settings import MirrorSettings, mirror_tree

FILES = Path(__file__).parents[4] / "configs" / "mirrors"
CPU = torch.device("cpu")


def mirror_of(env) -> Mirror:
    (name,) = env.behaviors
    return Mirror(MirrorSettings.model_validate(mirror_tree(FILES / f"{name}.yaml")), env.behaviors[name], CPU)


def signs(*at: int, size: int = 3) -> Tensor:
    return torch.tensor([-1.0 if i in at else 1.0 for i in range(size)])


PLACE, SPIN, TURN = signs(0), signs(1, 2), signs(1, 2, size=4)


def ball(state):
    for name, sign in (("tilt", TURN), ("position", PLACE), ("velocity", PLACE), ("spin", SPIN)):
        state[name] = state[name] * sign


def soccer(state):
    for name in ("ball", "ball_velocity", "position", "velocity"):
        state[name] = state[name] * signs(1, size=2)
    state["angle"] = -state["angle"]
    state["ball_spin"] = -state["ball_spin"]
    for name in ("obs_ahead", "obs_behind"):
        state.pop(name, None)


def creature(parts: list[int], joints: list[int], turned: list[int]) -> Callable:
    def change(state):
        state["frame_yaw"] = -state["frame_yaw"]
        for name in ("frame_place", "block"):
            state[name] = state[name] * PLACE
        for name, sign in (("position", PLACE), ("velocity", PLACE), ("rotation", TURN), ("spin", SPIN)):
            state[name] = state[name][:, parts] * sign
        for name, sign in (("held_point", PLACE), ("held_place", PLACE), ("held_up", PLACE)):
            doubled = [2 * part + k for part in parts for k in (0, 1)]
            state[name] = state[name][:, doubled if state[name].shape[1] == 2 * len(parts) else parts] * sign
        for name in ("touches", "held"):
            state[name] = state[name][:, parts]
        state["strength"] = state["strength"][:, joints]
        state["target"] = state["target"][:, joints] * torch.tensor([[1.0, -1.0, -1.0]])

    return change


CRAWLER = creature([0, 3, 4, 1, 2, 7, 8, 5, 6], [2, 3, 0, 1, 6, 7, 4, 5], [])
WALKER = creature(
    [0, 1, 2, 3, 7, 8, 9, 4, 5, 6, 13, 14, 15, 10, 11, 12], [0, 1, 2, 6, 7, 8, 3, 4, 5, 12, 13, 14, 9, 10, 11], []
)


def drawn(env, rng, count: int) -> Action:
    (spec,) = env.behaviors.values()
    continuous = torch.rand((count, spec.action.continuous), generator=rng) * 2 - 1
    branches = [torch.randint(size, (count,), generator=rng) for size in spec.action.branches]
    return Action(continuous, torch.stack(branches, 1) if branches else torch.zeros((count, 0), dtype=torch.int64))


@pytest.mark.parametrize(
    ("kind", "change", "warm", "tolerance"),
    [
        (Ball, ball, 20, 1e-4),
        (partial(SoccerTwos, state=True), soccer, 12, 1e-3),
        (Crawler, CRAWLER, 3, 0.03),
        (Walker, WALKER, 3, 0.2),
    ],
)
def test_a_mirrored_world_shows_and_becomes_the_mirror_image(kind, change, warm, tolerance):
    areas = 32
    env = kind(areas)
    (name,) = env.behaviors
    step = env.reset(3)[name]
    mirror, rng = mirror_of(env), torch.Generator().manual_seed(1)
    for _ in range(warm):
        step = env.step({name: drawn(env, rng, len(step.acting))})[name]
    state = env.state_dict()
    twin = kind(areas)
    twin.reset(3)
    mirrored = {key: value.clone() for key, value in state.items()}
    change(mirrored)
    twin.load_state_dict({**twin.state_dict(), **mirrored})
    action = drawn(env, rng, len(step.acting))
    here = env.step({name: action})[name]
    there = twin.step({name: mirror.action(action)})[name]
    fit = ~(here.terminated | here.truncated | there.terminated | there.truncated)
    if "frame_yaw" in state:
        fit &= env.state_dict()["frame_yaw"].abs() < 2
    assert fit.sum() >= 3
    for mine, other, sensor in zip(mirror.obs(here.obs), there.obs, env.behaviors[name].obs, strict=True):
        newest = mine.shape[1] // 3 if "StackingSensor_size3" in sensor.name else 0
        off = (mine - other)[fit][:, -newest:].abs().mean(0) / (other[fit][:, -newest:].std(0) + 0.02)
        assert off.mean() < tolerance  # a sign or a place that is wrong is off by more than 1 of these
        assert off.quantile(0.95) < 3 * tolerance
    assert (here.reward - there.reward)[fit].abs().mean() < tolerance
