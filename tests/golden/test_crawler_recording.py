"""Unity's recording of Crawler, replayed action by action in our world from a state that was read from an observation.

It comes from 0.15, whose Crawler had another body (`RECORDED`). An observation gives the places of the legs in the
body's axes, and all velocities in a frame that looks at the target, up or down. Each leg is where its joints allow, so
its place gives its angles. Where the target was, and so how far the frame is tilted, was found from the feet that were
on the ground.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from palaestra.core.timestep import Action
from palaestra.envs.builtin.creatures.anatomy import (
    Capsule,
    Drive,
    JointPlan,
    Part,
    RoundShape,
    conjugate,
    from_axes,
    joint_axes,
    rotate,
    times,
)
from palaestra.envs.builtin.creatures.assembly import spec_and_sizes, start_poses
from palaestra.envs.builtin.creatures.crawler import Crawler
from palaestra.envs.builtin.creatures.rules import DECISION_SECONDS
from palaestra.envs.builtin.creatures.species import BACK, CRAWLER, X

RECORDING = Path(__file__).parent / "data" / "recordings" / "crawler.npz"
FALLS = 3  # the first windows begin with an episode, the others as it walks
SCALE = 1.05  # of Unity's body, whose axes the places of legs are in
# m: from a leg's middle to its joints, from a foreleg's origin to its middle
HIP, KNEE, FORELEG_CENTER = (0.48, 0.3, 0.0936)
Columns = dict[str, np.ndarray]


def leg(number: int, right: int, front: int, yaw: float) -> tuple[Part, Part]:
    """Returns a leg as it was in 0.15."""
    hip = JointPlan((0.0, -HIP, 0.0), X, BACK, x=(-60.0, 0.0), y=20.0)
    knee = JointPlan((0.0, -0.78, 0.0), X, BACK, x=(0.0, 150.0))
    shin = Capsule(0.15, 1.326, 1, (0.0, FORELEG_CENTER, 0.0))
    return (
        Part(
            f"leg{number}",
            "body",
            3.0,
            Capsule(0.15, 0.816, 1),
            (0.6364 * right, -0.15, 0.6364 * front),
            (-90.0, yaw, 0.0),
            hip,
            falls=True,
        ),
        Part(f"foreleg{number}", f"leg{number}", 1.0, shin, (0.0, 1.08, 0.0), joint=knee),
    )


RECORDED = replace(
    CRAWLER,
    parts=(
        Part("body", None, 20.0, RoundShape(0.315), (0.0, 0.0, 0.0), falls=True),
        *leg(0, 1, -1, -45.0),
        *leg(1, -1, -1, 45.0),
        *leg(2, -1, 1, 135.0),
        *leg(3, 1, 1, -135.0),
    ),
    start=(0.0, 2.25, 0.0),
    drive=Drive(40000.0, 3000.0, 10000.0),
    drag=0.0,
    foresight=0.0,
    friction_rounds=3,
)
REST = start_poses(RECORDED)
JOINT = from_axes(joint_axes(X, BACK))  # a joint's axes in those of the part that carries it
MASS = np.array([part.mass for part in RECORDED.parts]) / sum(part.mass for part in RECORDED.parts)


class RecordedCrawler(Crawler):
    """Crawler with the body of 0.15."""

    creature = RECORDED
    spec, sizes = spec_and_sizes(RECORDED, {"PhysicsBodySensor:Body": 126, "VectorSensor_size32": 32})


def seen(rows: np.ndarray) -> Columns:
    """Returns what recorded rows (n, 86) tell, of those numbers that are no actions."""
    legs = rows[:, 14:].reshape(-1, 8, 9)
    return {
        "height": rows[:, 0],
        "forward": rows[:, 1:4],
        "up": rows[:, 4:7],
        "velocity": np.concatenate([rows[:, None, 8:11], legs[..., 0:3]], 1),
        "spin": np.concatenate([rows[:, None, 11:14], legs[..., 3:6]], 1),
        "place": SCALE * legs[..., 6:9],
    }


def joined(parent: np.ndarray, rest: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """Returns a leg's rotation from its parent's, and from the direction of its y axis."""
    frame = times(times(parent, rest), JOINT)
    x, y, z = rotate(conjugate(frame), direction / np.linalg.norm(direction))
    a = np.arctan2(y, z) / 2
    b = -np.arcsin(x) / 2
    bend = times([-np.sin(a), 0, 0, np.cos(a)], [0, -np.sin(b), 0, np.cos(b)])
    return times(times(frame, bend), conjugate(JOINT))


def pose(view: Columns, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns place and rotation of all parts in the body's axes, from the n-th view."""
    places = [np.zeros(3)]
    rotations = [np.array([0.0, 0.0, 0.0, 1.0])]
    for part in range(1, 9):
        upper = part % 2 == 1
        rest = REST[part]
        origin = view["place"][n, part - 1]
        parent = rotations[0 if upper else part - 1]
        if upper:
            anchor = rest[:3] - REST[0, :3] + rotate(rest[3:], (0, -HIP, 0))
            turn = joined(parent, rest[3:], origin - anchor)
        else:
            turn = joined(
                parent,
                times(conjugate(REST[part - 1, 3:]), rest[3:]),
                origin - places[-1] - rotate(parent, (0, KNEE, 0)),
            )
            origin = origin + rotate(turn, (0, FORELEG_CENTER, 0))
        places.append(origin)
        rotations.append(turn)
    return np.array(places), np.array(rotations)


def continued(view: Columns, target: np.ndarray) -> RecordedCrawler:
    """Returns a world with the states that were seen, each looking along z at its target (distance, height, falling
    speed).
    """
    env = RecordedCrawler(len(target))
    env.set_parameters({"gravity": torch.full((len(target),), 9.81)})
    env.reset(0)
    state = env.state_dict()
    for n, (distance, height, falling) in enumerate(target.tolist()):
        floor = RECORDED.floor + view["height"][n]
        ahead = np.array([0.0, height - floor, distance]) / np.hypot(height - floor, distance)
        look = np.stack([[1.0, 0.0, 0.0], np.cross(ahead, [1.0, 0.0, 0.0]), ahead])
        up = view["up"][n] @ look
        forward = view["forward"][n] @ look
        body = from_axes(np.stack([np.cross(up, forward), up, forward]))
        places, rotations = pose(view, n)
        state["position"][n] = torch.tensor(np.array([rotate(body, place) for place in places]))
        state["position"][n, :, 1] += floor
        state["rotation"][n] = torch.tensor(np.array([times(body, turn) for turn in rotations]))
        state["velocity"][n] = torch.tensor(view["velocity"][n] @ look)
        state["spin"][n] = torch.tensor(view["spin"][n] @ look)
        state["block"][n] = torch.tensor([0.0, height, distance])
        state["block_fall"][n] = falling
    state["frame_place"].copy_(state["position"][:, 0])
    env.load_state_dict(state)
    return env


def observed(env: RecordedCrawler) -> Columns:
    """Returns the numbers of `seen`, of our world."""
    state = {name: value.numpy().astype(float) for name, value in env.state_dict().items()}
    position = state["position"]
    rotation = state["rotation"]
    ahead = state["block"] - position[:, 0]
    ahead /= np.linalg.norm(ahead, axis=1, keepdims=True)
    right = np.cross([0.0, 1.0, 0.0], ahead)
    right /= np.linalg.norm(right, axis=1, keepdims=True)
    look = np.stack([right, np.cross(ahead, right), ahead], 1)
    out: dict[str, list[np.ndarray]] = {name: [] for name in ("forward", "up", "velocity", "spin", "place")}
    for n in range(len(look)):
        body = rotation[n, 0]
        origins = [position[n, k] - rotate(rotation[n, k], (0, FORELEG_CENTER * (k % 2 == 0), 0)) for k in range(1, 9)]
        out["forward"].append(look[n] @ rotate(body, (0, 0, 1)))
        out["up"].append(look[n] @ rotate(body, (0, 1, 0)))
        out["velocity"].append(state["velocity"][n] @ look[n].T)
        out["spin"].append(state["spin"][n] @ look[n].T)
        out["place"].append(np.array([rotate(conjugate(body), origin - position[n, 0]) for origin in origins]))
    return {"height": position[:, 0, 1] - RECORDED.floor} | {name: np.array(rows) for name, rows in out.items()}


def errors(ours: Columns, recorded: Columns) -> Columns:
    """Returns for each window how far two views are apart: m, degrees and m/s."""
    axes = [
        np.stack([np.cross(view["up"], view["forward"]), view["up"], view["forward"]], 1) for view in (ours, recorded)
    ]
    apart = np.linalg.norm(ours["place"] - recorded["place"], axis=2)
    speeds = [np.einsum("p,npk->nk", MASS, view["velocity"]) for view in (ours, recorded)]
    return {
        "height": np.abs(ours["height"] - recorded["height"]),
        "turn": np.degrees(2 * np.arcsin(np.sqrt(np.square(axes[0] - axes[1]).sum((1, 2)) / 8))),
        "leg": apart[:, 0::2].mean(1),
        "foot": apart[:, 1::2].mean(1),
        "speed": np.linalg.norm(speeds[0] - speeds[1], axis=1),
    }


@dataclass(frozen=True)
class Replay:
    """Errors of each decision (20 entries of arrays over windows): of our world, and of a creature that stays as it
    was.
    """

    ours: list[Columns]
    stays: list[Columns]
    way: np.ndarray  # m (windows): how far the middles of mass are apart in the end, by their velocities


@pytest.fixture(scope="module")
def replay() -> Replay:
    data = {name: values.astype(float) for name, values in np.load(RECORDING).items()}
    first = data["first"]
    legs = data["first"][:, 14:].reshape(-1, 8, 14)
    before = seen(np.concatenate([first[:, :14], legs[..., 1:10].reshape(-1, 72)], 1))
    env = continued(before, data["target"])
    begun = errors(observed(env), before)
    assert max(begun[name].max() for name in begun) < 1e-3
    ours = []
    stays = []
    apart = []
    for decision in range(20):
        action = torch.from_numpy(data["action"][:, decision]).float()
        env.step({"Crawler": Action(action, torch.zeros(len(action), 0, dtype=torch.int64))})
        recorded = seen(data["later"][:, decision])
        now = observed(env)
        ours.append(errors(now, recorded))
        stays.append(errors(before, recorded))
        apart.append(np.einsum("p,npk->nk", MASS, now["velocity"] - recorded["velocity"]))
    return Replay(ours, stays, DECISION_SECONDS * np.linalg.norm(np.sum(apart, 0), axis=1))


def test_crawler_falls_and_moves_its_legs_as_recorded(replay: Replay):
    """Until the feet touch the ground: gravity, masses and drives are all that acts."""
    for decision in range(4):
        worst = {name: values[:FALLS].max() for name, values in replay.ours[decision].items()}
        assert worst["height"] < 0.003
        assert worst["turn"] < 0.8
        assert worst["leg"] < 0.012
        assert worst["foot"] < 0.04
        assert worst["speed"] < 0.015


@pytest.mark.parametrize(
    ("decisions", "height", "turn", "leg", "foot", "speed"),
    [
        (1, 0.002, 0.8, 0.010, 0.025, 0.04),
        (5, 0.03, 4.0, 0.015, 0.035, 0.3),
        (10, 0.12, 10.0, 0.020, 0.055, 0.6),
        (20, 0.20, 20.0, 0.025, 0.070, 1.4),
    ],
)
def test_crawler_walks_on_as_recorded(
    replay: Replay, decisions: int, height: float, turn: float, leg: float, foot: float, speed: float
):
    """The median of all windows is within these errors, the worst within five times, and well below those of a creature
    that stays.
    """
    for name, most in {"height": height, "turn": turn, "leg": leg, "foot": foot, "speed": speed}.items():
        ours = replay.ours[decisions - 1][name]
        stays = replay.stays[decisions - 1][name]
        assert np.median(ours) < min(most, 0.75 * np.median(stays))
        assert ours.max() < 5 * most


def test_crawler_is_after_20_decisions_where_the_recorded_one_is(replay: Replay):
    assert np.median(replay.way) < 0.6
    assert replay.way.max() < 2.0
