from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import palaestra
from palaestra.core.errors import EnvError
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.builtin.pushblock_collab.env import CooperativePushBlock

AGENTS, BLOCKS = 3, 7
SMALL, MEDIUM, LARGE = 0, 3, 6
GOAL_EDGE = 5.0
NOTHING, FORWARD, BACK, TURN_RIGHT, TURN_LEFT, LEFT, RIGHT = range(7)
AWAY = [(-6.0, -7.4), (0.0, -7.4), (6.0, -7.4)]
HALVES = {SMALL: 0.75, MEDIUM: 1.0, LARGE: 1.25}


def laid(block: int, place: tuple[float, float], agents: list[tuple[float, float]]) -> CooperativePushBlock:
    """One area with this block alone, agents facing the goal; those not named stand at the far wall."""
    env = CooperativePushBlock(1)
    env.reset(0)
    position = torch.tensor(agents + AWAY[len(agents) :])
    gone = torch.ones(1, BLOCKS, dtype=torch.bool)
    gone[0, block] = False
    blocks = torch.zeros(1, BLOCKS, 2)
    blocks[0, block] = torch.tensor(place)
    put(env, block_position=blocks, block_gone=gone, position=position, angle=torch.full((AGENTS,), math.pi / 2))
    return env


def put(env: CooperativePushBlock, **columns: torch.Tensor) -> None:
    env.load_state_dict({**env.state_dict(), **columns})


def acted(env: CooperativePushBlock, *actions: int) -> TimeStep:
    """Each agent's action; who is not named does nothing."""
    chosen = torch.zeros(len(env.state_dict()["angle"]), 1, dtype=torch.int64)
    chosen[: len(actions), 0] = torch.tensor(actions, dtype=torch.int64)
    return env.step({env.behavior: Action(torch.zeros(len(chosen), 0), chosen)})[env.behavior]


def behind(block: int, count: int) -> list[tuple[float, float]]:
    """Places side by side that touch the far side of a block in the room's middle."""
    return [(0.9 * (k - (count - 1) / 2), -HALVES[block] - 0.51) for k in range(count)]


@pytest.mark.parametrize("block", [SMALL, MEDIUM, LARGE])
def test_a_block_moves_for_as_many_as_its_size_and_for_no_fewer(block: int):
    needed = {SMALL: 1, MEDIUM: 2, LARGE: 3}[block]
    for pushers in range(1, AGENTS + 1):
        env = laid(block, (0.0, 0.0), behind(block, pushers))
        ways = [0.0]
        while ways[-1] < 1.0 and len(ways) <= 10:
            acted(env, *[FORWARD] * pushers)
            ways.append(env.state_dict()["block_position"][0, block, 1].item())
        assert ways[-1] >= 1.0 if pushers >= needed else max(ways) < 0.25  # the first shock moves it a little


def way_pushed(block: int, pushers: int, most_pushers: float) -> float:
    """How far a block comes in ten decisions."""
    env = laid(block, (0.0, -2.0), [(x, y - 2.0) for x, y in behind(block, pushers)])
    put(env, most_pushers=torch.tensor([most_pushers]))
    for _ in range(10):
        acted(env, *[FORWARD] * pushers)
    return env.state_dict()["block_position"][0, block, 1].item() + 2.0


def test_in_lessons_fewer_suffice():
    assert way_pushed(LARGE, 1, 1.0) > 1.0
    assert way_pushed(LARGE, 2, 2.0) > 1.0
    assert way_pushed(LARGE, 1, 2.0) < 0.25
    assert way_pushed(LARGE, 2, 1.7) > 2 * way_pushed(LARGE, 1, 1.7) > 0.5
    assert way_pushed(MEDIUM, 1, 2.0) < 0.25 < 1.0 < way_pushed(MEDIUM, 1, 1.0)


def test_how_many_suffice_changes_with_the_episode():
    env = CooperativePushBlock(2)
    env.reset(0)
    env.set_parameters({"most_pushers": torch.tensor([1.0, 2.0])})
    put(env, age=torch.tensor([999, 998], dtype=torch.int32))
    acted(env)
    assert env.state_dict()["most_pushers"].tolist() == [1.0, 3.0]
    with pytest.raises(EnvError, match=r"'most_pushers' is 4, expected a number within 1..3"):
        env.set_parameters({"most_pushers": torch.tensor([1.0, 4.0])})


@pytest.mark.parametrize(("block", "worth"), [(SMALL, 1.0), (MEDIUM, 2.0), (LARGE, 3.0)])
def test_a_block_in_the_goal_pays_its_size_to_the_group_and_is_gone(block: int, worth: float):
    env = laid(block, (0.0, GOAL_EDGE - HALVES[block] + 0.01), [])
    gone = env.state_dict()["block_gone"]
    gone[0, SMALL + 1] = False  # another is left
    velocity = torch.zeros(1, BLOCKS, 2)
    velocity[0, block, 1] = 5.0
    put(env, block_gone=gone, block_velocity=velocity)
    step = acted(env)
    assert step.group_reward.tolist() == pytest.approx([worth - 0.0001] * AGENTS)
    assert step.reward.tolist() == [0.0] * AGENTS
    assert env.state_dict()["block_gone"][0, block]
    assert not (step.terminated | step.truncated).any()


def test_the_last_block_in_the_goal_ends_the_episode_for_all():
    env = laid(SMALL, (0.0, GOAL_EDGE - 0.76), [(0.0, GOAL_EDGE - 2.1)])
    steps = [acted(env, FORWARD)]
    while not steps[-1].terminated.any():
        assert len(steps) < 20
        steps.append(acted(env, FORWARD))
    assert steps[-1].terminated.all()
    assert not steps[-1].truncated.any()
    assert steps[-1].final_obs.slots.tolist() == [0, 1, 2]
    assert not env.state_dict()["block_gone"].any()
    assert env.state_dict()["age"].tolist() == [0]


def test_an_episode_is_cut_after_5000_ticks_and_its_last_view_kept():
    env = laid(LARGE, (0.0, 0.0), [])
    put(env, age=torch.tensor([998], dtype=torch.int32))
    before = acted(env)
    assert not before.truncated.any()
    after = acted(env)
    assert after.truncated.all()
    assert not after.terminated.any()
    torch.testing.assert_close(after.final_obs.obs[0], before.obs[0])
    assert (after.obs[0] != before.obs[0]).any()


def test_mates_share_a_group_and_areas_do_not():
    step = CooperativePushBlock(2).reset(0)["PushBlockCollab"]
    assert step.group.tolist() == [0, 0, 0, 1, 1, 1]
    assert step.acting.all()


def test_the_grid_shows_blocks_by_size_and_what_else_lies_ahead():
    env = laid(LARGE, (0.0, 0.0), [(0.0, -3.6), (4.6, -2.5)])
    first, second = acted(env).obs[0][:2]
    assert first.shape == (6, 20, 20)
    assert first[:2].sum() == 0
    # the first stands at (0, -3.6): the cell of (x, y) is row 2 (6.4 - y), column 2 (x + 5), rounded down
    assert first[2].nonzero().amin(0).tolist() == [10, 7]
    assert first[2].nonzero().amax(0).tolist() == [15, 12]
    assert first[3].nonzero()[:, 0].unique().tolist() == [0, 1, 2]  # the goal begins 8.6 m ahead
    assert first[4].sum() == 0  # walls are beyond what it sees
    assert first[5, 17, 19] == 1  # a mate, 1.1 m ahead, 4.6 m to the right
    assert first[5, :, :17].sum() == 0  # it does not see itself
    assert second[4].nonzero()[:, 1].unique().tolist() == [16, 17, 18]  # the wall to its right, 3.4 to 4.4 m away
    assert second[5].sum() == 0  # its mate is behind it


def test_blocks_start_apart():
    env = CooperativePushBlock(256)
    env.reset(0)
    blocks = env.state_dict()["block_position"]
    halves = torch.tensor([0.75] * 3 + [1.0] * 3 + [1.25])
    gap = (blocks[:, :, None] - blocks[:, None]).abs().amax(3) - halves[:, None] - halves
    assert gap[torch.ones_like(gap, dtype=torch.bool).triu(1)].min() >= 0.75 - 1e-4


def test_blocks_stay_apart_from_walls_and_one_another_whatever_agents_do():
    env = CooperativePushBlock(8)
    env.reset(0)
    generator = torch.Generator().manual_seed(0)
    halves = torch.tensor([0.75] * 3 + [1.0] * 3 + [1.25])
    for tick in range(150):
        if tick % 10 == 0:
            chosen = torch.randint(0, 7, (8 * AGENTS, 1), generator=generator)
        env.step({env.behavior: Action(torch.zeros(8 * AGENTS, 0), chosen)})
        state = env.state_dict()
        blocks, there = state["block_position"], ~state["block_gone"]
        assert (blocks[..., 0].abs() + halves)[there].max() <= 8 - 1.25 + 1e-4
        assert (blocks[..., 1] - halves)[there].min() >= -8 + 1.25 - 1e-4
        overlap = (halves[:, None] + halves - (blocks[:, :, None] - blocks[:, None]).abs().amax(3)).triu(1)
        assert overlap[(there[:, :, None] & there[:, None]).triu(1)].max() < 0.2
        assert state["position"].abs().max() <= 7.5 + 1e-4


def test_an_action_that_is_no_choice_is_told_with_its_agent():
    with pytest.raises(EnvError, match=r"agent 1.*must be choices"):
        acted(laid(SMALL, (0.0, 0.0), []), NOTHING, 7)


def test_its_rule_brings_every_block_into_the_goal():
    env = palaestra.make("CooperativePushBlock", areas=16)
    env.reset(1)
    earned, ends = torch.zeros(16), 0
    for _ in range(400):
        step = env.step({"PushBlockCollab": env.heuristic("PushBlockCollab")})["PushBlockCollab"]
        earned += step.group_reward[::3]
        ends += int(step.terminated[::3].sum())
    assert earned.mean() > 8
    assert ends > 4
    assert env.heuristic("Other") is None


def test_a_picture_shows_the_area():
    picture = laid(LARGE, (0.0, 0.0), [(0.0, -3.0)]).render(0)
    assert picture.dtype == np.uint8
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 20
