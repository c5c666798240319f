"""Unity's recordings, replayed action by action in our worlds from a state that was read from their observations."""

from pathlib import Path

import numpy as np
import pytest
import torch
import warp as wp

from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.builtin.match3 import rules
from palaestra.envs.builtin.match3.env import Match3
from palaestra.envs.builtin.match3.rules import World as Board
from palaestra.envs.builtin.pyramids.env import Pyramids
from palaestra.envs.builtin.tennis.env import Tennis

RECORDINGS = Path(__file__).parent / "data" / "recordings"
WALL, STONE, FREE, SHARE = 1, 5, 6, 7


def acted(env: Pyramids, action: int) -> TimeStep:
    return env.step({"Pyramids": Action(torch.zeros(1, 0), torch.tensor([[action]]))})["Pyramids"]


def bare() -> dict[str, torch.Tensor]:
    """The state of rooms with nothing in them but the agent."""
    env = Pyramids(1)
    env.reset(0)
    state = env.state_dict()
    state["pile"].zero_()
    state["switch_place"].fill_(900.0)
    return state


def continued(vector: np.ndarray, place: tuple[float, float], degrees: float) -> Pyramids:
    """The agent at this place, with a recorded velocity; where it was has been found from the walls that its rays
    saw.
    """
    state = bare()
    angle = np.radians(degrees)
    right, up, ahead = vector[1:].tolist()
    x = ahead * np.cos(angle) + right * np.sin(angle)
    y = ahead * np.sin(angle) - right * np.cos(angle)
    state["place"][0] = torch.tensor(place)
    state["angle"][0] = angle
    state["height"][0] = 0.5
    state["velocity"][0] = torch.tensor([x, y, up])
    env = Pyramids(1)
    env.load_state_dict(state)
    return env


@pytest.mark.parametrize(
    ("run", "decisions", "place", "degrees"),
    [("first", 29, (-20.870709, -0.674525), 202.0), ("second", 33, (1.259009, -30.358412), 182.0)],
)
def test_pyramids_meets_a_recording_through_doors_to_the_millimeter(
    run: str, decisions: int, place: tuple[float, float], degrees: float
):
    recorded = np.load(RECORDINGS / "pyramids.npz")
    rays, vector, action = (recorded[f"{run}_{part}"] for part in ("rays", "vector", "action"))
    env = continued(vector[0], place, degrees)
    walls = 0
    others = grazes = 0
    for decision in range(1, decisions + 1):
        step = acted(env, int(action[decision]))
        np.testing.assert_allclose(step.obs[3][0], [0, *vector[decision, 1:]], atol=2e-3)
        seen = torch.cat(step.obs[:3], 1).view(21, 8).numpy()
        wall = rays[decision][:, WALL] > 0.5
        assert (seen[wall, WALL] == 1).all()
        off = 35 * np.abs(seen[wall, SHARE] - rays[decision][wall, SHARE])
        assert off.max() < 0.25
        grazes += (off > 0.011).sum()
        walls += wall.sum()
        others += (seen[rays[decision][:, FREE] > 0.5, WALL]).sum()
    assert walls > 9 * decisions
    assert grazes <= 2  # the end of a wall
    assert others <= 1


def test_pyramids_agent_falls_lands_and_drives_as_recorded():
    recorded = np.load(RECORDINGS / "pyramids.npz")
    state = bare()
    state["place"][0] = torch.tensor([-20.0, -1.0])
    state["angle"][0] = 0.0
    env = Pyramids(1)
    env.load_state_dict(state)
    for action, vector in zip(recorded["landing_action"][:13], recorded["landing_vector"][:13], strict=True):
        np.testing.assert_allclose(acted(env, int(action)).obs[3][0], vector, atol=5e-3)


def test_pyramids_of_stone_stand_as_recorded():
    """At five recorded places; a pyramid at one place explains all that the rays say of stones, but for a gap between
    two cubes.
    """
    recorded = np.load(RECORDINGS / "pyramids.npz")
    env = continued(recorded["second_vector"][0], (1.259009, -30.358412), 182.0)
    state = env.state_dict()
    place = torch.tensor([-34.2735, -35.5878])
    state["pile"][0, 0] = 1
    state["pile_place"][0, 0] = place
    state["pile_middle"][0, 0] = place + torch.tensor([0.43, 0.78])
    state["age"][:] = 100
    env.load_state_dict(state)
    seen = torch.stack(
        [torch.cat(acted(env, int(action)).obs[:3], 1).view(21, 8) for action in recorded["second_action"][1:10]]
    )
    rays = torch.from_numpy(recorded["second_rays"][1:10])
    stone = rays[..., STONE] > 0.5
    stone[:4] = False  # another pyramid
    assert stone.sum() == 14
    assert torch.equal(stone[4:], seen[4:, :, STONE] > 0.5)
    off = 35 * (seen[stone] - rays[stone])[:, SHARE].abs()
    assert off.sort().values[-2] < 0.02
    assert off.max() < 0.1


def test_tennis_meets_recorded_flights_of_ball_and_racket():
    recorded = np.load(RECORDINGS / "tennis.npz")
    frames = recorded["frames"]
    action = recorded["action"]
    for start, end in ((14, 30), (31, 50), (51, 68), (88, 106)):
        env = Tennis(1)
        env.reset(0)
        state = env.state_dict()
        seen = torch.from_numpy(frames[start])
        state["ball"][0] = seen[4:6]
        state["ball_velocity"][0] = seen[6:8]
        state["position"][0] = seen[:2]
        state["velocity"][0] = seen[2:4]
        state["position"][1] = torch.tensor([11.0, -1.5])
        env.load_state_dict(state)
        follows = True  # until the racket meets a wall or the floor, because the recorded one had another shape
        for k in range(start, end):
            order = torch.tensor([[*action[k].tolist(), 0.0], [0.0, 0.0, 0.0]])
            step = env.step({"Tennis": Action(order, torch.zeros(2, 0, dtype=torch.int64))})["Tennis"]
            ours = step.obs[0][0, 18:26].numpy()
            np.testing.assert_allclose(ours[4:], frames[k + 1, 4:], atol=3e-3)
            follows &= abs(frames[k + 1, 0]) < 10.8 and frames[k + 1, 1] > -5.7
            if follows:
                np.testing.assert_allclose(ours[:4], frames[k + 1, :4], atol=5e-3)


@wp.kernel
def find_moves(board: Board):  # pyright: ignore[reportGeneralTypeIssues]
    """Writes which moves are allowed in every area."""
    rules.update_mask(board, wp.tid())  # pyright: ignore[reportArgumentType]


def test_match3_allows_the_moves_that_unitys_board_allows():
    """On recorded boards of up to 6 x 6, laid into the corner of ours."""
    recorded = np.load(RECORDINGS / "match3.npz")
    kind = recorded["kind"]
    mask = np.unpackbits(recorded["mask"], axis=1)[:, :60].astype(bool)
    # the last record of an episode repeats the mask of the one before, and a board without a move masks none
    chosen = ~recorded["done"] & (mask.sum(1) < 40)
    kind = kind[chosen]
    mask = mask[chosen]
    env = Match3(len(kind))
    columns = env._columns
    columns["kind"].fill_(-1)
    columns["kind"].view(-1, 9, 8)[:, :6, :6] = torch.from_numpy(kind.astype(np.int32))
    columns["rows"].copy_(torch.from_numpy((kind >= 0).any(2).sum(1)))
    columns["columns"].copy_(torch.from_numpy((kind >= 0).any(1).sum(1)))
    wp.launch(find_moves, dim=len(kind), inputs=[env._world], device="cpu")
    ours = columns["mask"].numpy()
    across = ours[:, :63].reshape(-1, 9, 7)[:, :6, :5]
    up = ours[:, 63:].reshape(-1, 8, 8)[:, :5, :6]
    assert len(kind) > 700
    np.testing.assert_array_equal(np.concatenate([across.reshape(-1, 30), up.reshape(-1, 30)], 1), mask)
