"""The bodies of Crawler, Worm and Walker, with the numbers of Unity's examples."""

from __future__ import annotations

from palaestra.envs.builtin.creatures.anatomy import (
    BoxShape,
    Capsule,
    Creature,
    Drive,
    JointPlan,
    Part,
    RoundShape,
    Vector,
)

X, Y, Z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
BACK = (0.0, 0.0, -1.0)
CENTER = (0.0, 0.0, 0.0)


def _leg(number: int, right: int, front: int, yaw: float) -> tuple[Part, Part]:
    """Returns an upper leg, which points away from the body, and its foreleg."""
    hip = JointPlan((0.0, -0.5, 0.0), X, BACK, x=(-60.0, 0.0), y=20.0)
    knee = JointPlan((0.0, -0.75, 0.0), X, BACK, x=(0.0, 150.0))
    place = (0.6364 * right, -0.15, 0.6364 * front)
    return (
        Part(f"leg{number}", "body", 2.0, Capsule(0.15, 0.95, 1), place, (-90.0, yaw, 0.0), hip, falls=True),
        Part(f"foreleg{number}", f"leg{number}", 1.0, Capsule(0.15, 1.5, 1), (0.0, 1.08, 0.0), joint=knee),
    )


CRAWLER = Creature(
    parts=(
        Part("body", None, 20.0, RoundShape(0.5), CENTER, falls=True),
        *_leg(0, 1, -1, -45.0),
        *_leg(1, -1, -1, 45.0),
        *_leg(2, -1, 1, 135.0),
        *_leg(3, 1, 1, -135.0),
    ),
    start=(0.0, 2.656, 0.0),
    drive=Drive(40000.0, 5000.0, 20000.0),
    drag=0.05,
    angular_drag=0.05,
    half=49.5,
    floor=0.5,
    block=1.0,
    block_start=(0.0, 2.506, 0.0),
    block_range=40.0,
    speeds=(0.1, 15.0),
    targets=(*(f"leg{k}.{axis}" for k in range(4) for axis in "xy"), *(f"foreleg{k}.x" for k in range(4))),
    strengths=(*(f"leg{k}" for k in range(4)), *(f"foreleg{k}" for k in range(4))),
)


def _segment(
    number: int, radius: float, height: float, place: Vector, anchor: Vector, secondary: Vector, turn: Vector = CENTER
) -> Part:
    """Returns a segment behind the first, with a joint that the segment before it carries."""
    joint = JointPlan(anchor, X, secondary, x=(-60.0, 60.0), y=60.0, on_parent=True)
    shape = Capsule(radius, height, 1)
    return Part(f"seg{number}", f"seg{number - 1}", 10.0, shape, place, turn, joint, hunts=False)


MOUTH = RoundShape(0.311, (-0.0202, -0.0344, 0.9859))
FACE = (  # the eyes, which hang loosely at their middles, and the mouth
    (1.0, RoundShape(0.1257, (0.289, 0.04, 0.648))),
    (1.0, RoundShape(0.1257, (-0.27, 0.101, 0.598))),
    (1.0, MOUTH),
)
WORM = Creature(
    parts=(
        Part("seg0", None, 10.0, Capsule(0.37, 2.0, 2), CENTER, extras=FACE, snout=MOUTH, hunts=False),
        _segment(1, 0.33, 1.5, (0.0, 0.0001, -1.3163), (0.0, 0.0, -0.8), Y, (89.98, 0.0, 0.0)),
        _segment(2, 0.28, 1.48, (0.0, -1.1247, -0.0003), (0.0, -0.55, 0.0), BACK),
        _segment(3, 0.26, 1.46, (0.0, -1.116, -0.0004), (0.0, -0.55, 0.0), BACK),
    ),
    start=(0.0, 1.65, 0.0),
    drive=Drive(3000.0, 30.0, 10000.0),
    drag=0.0,
    angular_drag=0.05,
    half=49.5,
    floor=0.5,
    block=1.0,
    block_start=(0.0, 1.65, 0.0),
    block_range=40.0,
    speeds=(10.0, 10.0),
    targets=tuple(f"seg{k}.{axis}" for k in (1, 2, 3) for axis in "xy"),
    strengths=("seg1", "seg2", "seg3"),
)


def _walker_leg(side: str, right: int) -> tuple[Part, Part, Part]:
    back = (-1.0, 0.0, 0.0)
    hip = JointPlan((0.0, 0.16, 0.0), back, BACK, x=(-90.0, 60.0), y=40.0)
    knee = JointPlan((0.0, 0.17, 0.0), back, BACK, x=(0.0, 120.0))
    ankle = JointPlan((0.0, 0.03, 0.0), X, Y, x=(-20.0, 20.0), y=20.0, z=20.0)
    sole = BoxShape((0.1278, 0.0431, 0.23), (0.0, -0.0002, 0.0328))
    return (
        Part(f"thigh{side}", "hips", 14.0, Capsule(0.09, 0.3, 1), (0.132 * right, -0.264, 0.0), joint=hip, falls=True),
        Part(f"shin{side}", f"thigh{side}", 7.0, Capsule(0.06, 0.32, 1), (0.0, -0.33, 0.0), joint=knee),
        Part(f"foot{side}", f"shin{side}", 5.0, sole, (0.0, -0.198, 0.0), joint=ankle),
    )


def _walker_arm(side: str, right: int) -> tuple[Part, Part, Part]:
    axis = (0.0, 1.0 * right, 0.0)
    shoulder = JointPlan((-0.18 * right, 0.0, 0.0), axis, Z, x=(-60.0, 120.0), y=100.0)
    wrist = JointPlan(CENTER, X, Z)
    elbow = JointPlan((-0.16 * right, 0.0, 0.0), axis, Z, x=(0.0, 160.0))
    arm, forearm = f"arm{side}", f"forearm{side}"
    return (
        Part(arm, "chest", 4.0, Capsule(0.08, 0.33, 0), (0.4125 * right, 0.0, 0.0), joint=shoulder, falls=True),
        Part(forearm, arm, 3.0, Capsule(0.08, 0.3, 0), (0.33 * right, 0.0, 0.0), joint=elbow, falls=True),
        Part(f"hand{side}", forearm, 2.0, RoundShape(0.08), (0.231 * right, 0.0, 0.0), joint=wrist, falls=True),
    )


_HIPS = Part("hips", None, 15.0, Capsule(0.1, 0.42, 0), CENTER, falls=True)
_WAIST = JointPlan((0.0, -0.1, 0.0), X, BACK, x=(-20.0, 20.0), y=20.0, z=15.0)
_SPINE = Part("spine", "hips", 10.0, Capsule(0.08, 0.36, 0), (0.0, 0.2254, 0.0), joint=_WAIST, falls=True)
_RIBS = JointPlan((0.0, -0.16, 0.0), X, BACK, x=(-20.0, 20.0), y=20.0, z=15.0)
_CHEST = Part("chest", "spine", 8.0, Capsule(0.13, 0.45, 0), (0.0, 0.2657, 0.0), joint=_RIBS, falls=True)
_NECK = JointPlan((0.0, -0.28, 0.0), X, BACK, x=(-30.0, 10.0), y=20.0)
_HEAD = Part("head", "chest", 6.0, RoundShape(0.22), (0.0, 0.4495, 0.0), joint=_NECK, falls=True)

WALKER = Creature(  # the small body of release 21
    parts=(
        _HIPS,
        _SPINE,
        _CHEST,
        _HEAD,
        *_walker_arm("L", -1),
        *_walker_arm("R", 1),
        *_walker_leg("L", -1),
        *_walker_leg("R", 1),
    ),
    start=(0.0, 0.953, 0.0),
    drive=Drive(40000.0, 5000.0, 20000.0),
    drag=0.05,
    angular_drag=0.05,
    half=12.375,
    floor=0.125,
    block=0.25,
    block_start=(0.0, 1.0, 1.0),
    block_range=9.0,
    speeds=(0.1, 10.0),
    targets=(
        *("chest.x", "chest.y", "chest.z", "spine.x", "spine.y", "spine.z"),
        *("thighL.x", "thighL.y", "thighR.x", "thighR.y"),
        *("shinL.x", "shinR.x", "footR.x", "footR.y", "footR.z", "footL.x", "footL.y", "footL.z"),
        *("armL.x", "armL.y", "armR.x", "armR.y", "forearmL.x", "forearmR.x", "head.x", "head.y"),
    ),
    strengths=(
        *("chest", "spine", "head", "thighL", "shinL", "footL", "thighR", "shinR", "footR"),
        *("armL", "forearmL", "armR", "forearmR"),
    ),
    joint_order=(  # legs from the hips down, then arms, and the chest last
        *("thighR", "thighL", "shinR", "shinL", "footR", "footL", "spine", "head"),
        *("armL", "forearmL", "forearmR", "handR", "handL", "armR", "chest"),
    ),
)
