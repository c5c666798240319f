import math

import pytest
import torch
from envs.builtin.worlds import act, begun, still

from palaestra.envs.builtin.ringout.env import RingOut

FAR = [[-3.0, 0.0], [1.5, -2.6], [1.5, 2.6]]


def placed(**columns: list | float) -> RingOut:
    """One area, all at rest near where they start; or as the columns say."""
    return begun(RingOut(1), **{"position": FAR, "velocity": [0.0, 0.0], **columns})


def turned(vectors: torch.Tensor, degrees: float) -> torch.Tensor:
    c = math.cos(math.radians(degrees))
    s = math.sin(math.radians(degrees))
    return vectors @ torch.tensor([[c, s], [-s, c]])


def test_each_sees_itself_the_ring_and_the_next_ones_in_ring_radii():
    env = placed(
        position=[[-3.0, 0.0], [0.0, -2.0], [1.0, 0.0]],
        velocity=[[0.0, 1.0], [2.0, 0.0], [0.0, 0.0]],
        parameters=[[0.8, 0.0]],
    )
    first, second, third = still(env).obs[0]
    torch.testing.assert_close(first[:6], torch.tensor([-0.6, 0.02, 0.0, 0.2, 1.0, 1.0]))
    torch.testing.assert_close(first[6:11], torch.tensor([0.64, -0.42, 0.4, -0.2, 1.0]))
    torch.testing.assert_close(first[11:], torch.tensor([0.8, -0.02, 0.0, -0.2, 1.0]))
    torch.testing.assert_close(second[:2], turned(torch.tensor([0.04, -0.4]), -120))
    torch.testing.assert_close(third[6:8], turned(torch.tensor([-0.8, 0.02]), -240))


def test_all_see_the_same_game_where_it_is_turned_by_a_third():
    env = placed(position=[[-2.0, 0.5], *turned(torch.tensor([[-2.0, 0.5]] * 2), 120).tolist()])
    state = env.state_dict()
    state["position"][2] = turned(state["position"][0], 240)
    env.load_state_dict(state)
    for choice in (1, 1, 2, 1, 8, 1, 5, 0):  # they meet in the middle
        first, second, third = act(env, torch.full((3,), choice)).obs[0]
        torch.testing.assert_close(first, second, atol=1e-4, rtol=0)
        torch.testing.assert_close(first, third, atol=1e-4, rtol=0)


@pytest.mark.parametrize(("choice", "degrees"), [(1, 0), (2, 45), (3, 90), (5, 180), (8, 315)])
def test_a_push_goes_the_way_that_was_chosen_in_the_agents_own_frame(choice: int, degrees: float):
    env = placed(parameters=[[0.8, 0.0]])
    act(env, torch.full((3,), choice))
    # 5 ticks of 0.2 m/s
    expected = torch.stack([turned(torch.tensor([1.0, 0.0]), degrees + 120 * j) for j in range(3)])
    torch.testing.assert_close(env.state_dict()["velocity"], expected, atol=1e-5, rtol=0)


def test_drag_slows_and_bounds_the_speed():
    env = placed(position=[[-4.9, 0.0], *FAR[1:]], parameters=[[0.8, 5.0]])
    for _ in range(30):
        act(env, torch.tensor([1, 0, 0]))
        if env.state_dict()["position"][0, 0] > 0:
            break
    assert env.state_dict()["velocity"][0, 0].item() == pytest.approx(0.2 * 0.9 / 0.1, abs=0.01)


@pytest.mark.parametrize(("bounce", "first", "second"), [(1.0, 0.0, 2.0), (0.0, 1.0, 1.0), (0.5, 0.5, 1.5)])
def test_who_rams_another_hands_it_its_speed(bounce: float, first: float, second: float):
    env = placed(
        position=[[-1.05, 0.0], [0.0, 0.0], [0.0, 4.0]],
        velocity=[[2.0, 0.0], [0.0, 0.0], [0.0, 0.0]],
        parameters=[[bounce, 0.0]],
    )
    still(env)
    assert env.state_dict()["velocity"][:2, 0].tolist() == pytest.approx([first, second], abs=1e-5)


def test_who_is_past_the_rim_lies_there_in_nobodys_way_and_unseen():
    env = placed(position=[[-4.9, 0.0], [0.0, 0.0], [0.0, 3.0]], velocity=[[-6.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    step = still(env)
    assert not step.reward.any()
    assert not step.terminated.any()
    place = env.state_dict()["position"][0].clone()
    seen = act(env, torch.tensor([1, 0, 0])).obs[0]
    assert torch.equal(env.state_dict()["position"][0], place)
    assert seen[0, 2:5].tolist() == [0, 0, 0]
    assert not seen[1, 11:].any()  # the first is two on from the second
    assert not seen[2, 6:11].any()
    state = env.state_dict()
    state["position"][1] = place + torch.tensor([1.2, 0.0])
    state["velocity"][1] = torch.tensor([-1.0, 0.0])
    env.load_state_dict(state)
    for _ in range(3):
        still(env)
    assert env.state_dict()["velocity"][1, 0] < 0  # went through it
    assert env.state_dict()["velocity"][0].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("falls", "rewards"),
    [
        pytest.param([[0], [1]], [-1, 0, 1], id="one after the other"),
        pytest.param([[2], [0]], [0, 1, -1], id="in another order"),
        pytest.param([[0, 1]], [-0.5, -0.5, 1], id="two at once"),
        pytest.param([[0], [1, 2]], [-1, 0.5, 0.5], id="the last two at once"),
        pytest.param([[0, 1, 2]], [0, 0, 0], id="all at once"),
    ],
)
def test_places_are_paid_at_the_end(falls: list[list[int]], rewards: list[float]):
    env = placed()
    step = still(env)
    for number, fallers in enumerate(falls):
        state = env.state_dict()
        for agent in fallers:
            state["position"][agent] = torch.tensor([9.0, 3.0 * agent])
        env.load_state_dict(state)
        step = still(env)
        assert step.terminated.all() == step.terminated.any() == (number == len(falls) - 1)
        if number < len(falls) - 1:
            assert not step.reward.any()
    assert step.reward.tolist() == rewards
    assert step.final_obs.slots.tolist() == [0, 1, 2]
    assert step.final_obs.obs[0][:, 4].sum() == rewards.count(1)
    assert (step.obs[0][:, 4] == 1).all()  # all are in again


def test_the_ring_keeps_its_size_and_then_is_gone_by_and_by():
    seen = {}
    for age in (10, 49, 50, 149):
        seen[age + 1] = still(placed(position=[[-0.6, 0.0], [0.6, 0.0], [0.0, 1.2]], age=age)).obs[0][0, 5].item()
    assert seen == pytest.approx({11: 1, 50: 1, 51: 0.995, 150: 0.5})


def test_somebody_wins_even_where_nobody_moves():
    env = RingOut(50)
    env.reset(0)
    over = torch.zeros(50, dtype=torch.bool)
    for _ in range(250):
        step = still(env)
        over |= step.terminated.view(-1, 3)[:, 0]
        assert not step.truncated.any()
    assert over.all()
