"""The field of the soccer games: walls, nets and goals, and how circles and thick rays meet them.

Positions are from the middle of the field, x toward the right goal and y across. All walls stand upright and are higher
than ball and players, so computing in the plane is enough. Both ends are equal except for a few centimeters of the
nets, so most functions compute one end, or one corner, turned so that x and y are positive.

The field is 15 m wide. At its ends walls slant inward by 60 degrees to the mouths of the goals, 8.4 m wide and two
meters deep. In StrikersVsGoalie, a block closes the left mouth.
"""

from __future__ import annotations

import warp as wp

from palaestra.envs.builtin.sensors.rays import MISS, ray_circle
from palaestra.envs.builtin.sensors.sphere_casts import FLUSH, cast_past

SIDE = wp.constant(7.508)  # distance of the side walls from the middle
SIDE_HALF = wp.constant(15.5)  # half their length
WALL_HALF = wp.constant(0.5 * 0.4607)  # half the thickness of side walls and slanting walls
# out of the field, at the end and side of positive coordinates
SLANT_NORMAL = wp.constant(wp.vec2(0.8660254037844387, 0.5))
SLANT_WAY = wp.constant(wp.vec2(0.5, -0.8660254037844387))  # along a slanting wall, toward the goal
# distance of the slanting walls from the middle
SLANT = wp.constant(14.46 * 0.8660254037844387 + 6.41 * 0.5 - 0.5 * 0.4607)
SLANT_END = wp.constant(14.46 * 0.5 - 6.41 * 0.8660254037844387 + 2.4)  # where they end, along SLANT_WAY
# the corner of a slanting wall beside the goal
POST = wp.constant(
    wp.vec2(14.46 + 2.4 * 0.5 - 0.5 * 0.4607 * 0.8660254037844387, 6.41 - 2.4 * 0.8660254037844387 - 0.5 * 0.4607 * 0.5)
)
SLANT_MIDDLE = wp.constant(wp.vec2(14.46, 6.41))
SLANT_HALF = wp.constant(2.4)  # half their length
SLANT_BEGIN = wp.constant(13.06)  # nothing of an end is nearer to the middle
NET_SIDE = wp.constant(4.15)  # inner faces of the nets' sides
NET_THICK = wp.constant(0.1)
NET_FRONT = wp.constant(wp.vec2(15.5, 15.47))  # where the nets begin: left, right
NET_BACK = wp.constant(wp.vec2(17.3723, 17.356))  # inner faces of their backs
NET_END = wp.constant(wp.vec2(17.5, 17.47))  # where their sides end
GOAL_LINE = wp.constant(15.5)  # where the goals' floors begin
GOAL_FLOOR_HALF = wp.constant(4.25)  # half their width
BLOCK = wp.constant(15.01)  # face of the block that closes a goal
BLOCK_HALF = wp.constant(3.95735)  # half its width
BLOCK_DEEP = wp.constant(1.0)
# nearer to the middle no circle of these games reaches what is at the ends but the slanting walls
CLEAR = wp.constant(14.3)
# what a ray meets; a player is its number
BALL, WALL, LEFT_GOAL, RIGHT_GOAL = (wp.constant(-case) for case in range(1, 5))
WALLS = wp.constant(4)  # walls that a circle may touch, see `wall`


@wp.func
def sign_of(value: float):
    """Returns 1 for numbers from 0 on, else -1."""
    return wp.where(value < 0.0, -1.0, 1.0)


@wp.func
def is_clear(place: wp.vec2, radius: float):
    """Returns whether a circle is away from all walls."""
    x = wp.abs(place[0])
    y = wp.abs(place[1])
    return x < CLEAR and y < SIDE - radius and SLANT_NORMAL[0] * x + SLANT_NORMAL[1] * y < SLANT - radius


@wp.func
def beyond_corner(place: wp.vec2, corner: wp.vec2, radius: float):
    """Returns the unit vector from a place to a corner, and how far a circle there is from it."""
    to = corner - place
    far = wp.max(wp.length(to), 1.0e-6)
    return to / far, far - radius


@wp.func
def end_wall(place: wp.vec2, radius: float, end: int, closed: bool, which: int):
    """Returns the result of `wall` for a net's side or the block (2) and a net's back (3), at positive coordinates."""
    if closed:
        if which == 3:
            return wp.vec2(1.0, 0.0), float(MISS)
        if place[1] < BLOCK_HALF:
            return wp.vec2(1.0, 0.0), BLOCK - radius - place[0]
        return beyond_corner(place, wp.vec2(BLOCK, BLOCK_HALF), radius)
    if which == 3:
        return wp.vec2(1.0, 0.0), NET_BACK[end] - radius - place[0]
    if place[0] > NET_FRONT[end]:
        return wp.vec2(0.0, 1.0), NET_SIDE - radius - place[1]
    return beyond_corner(place, wp.vec2(NET_FRONT[end], wp.clamp(place[1], NET_SIDE, NET_SIDE + NET_THICK)), radius)


@wp.func
def wall(place: wp.vec2, radius: float, closed_left: bool, which: int):
    """Returns the direction to a wall and a circle's distance from the wall; `which`: side (0), slanting wall (1),
    others: `end_wall`."""
    turn = wp.vec2(sign_of(place[0]), sign_of(place[1]))
    p = wp.cw_mul(turn, place)
    n = wp.vec2(0.0, 1.0)
    gap = SIDE - radius - p[1]
    if which == 1:
        n = SLANT_NORMAL
        gap = SLANT - radius - wp.dot(n, p)
        if wp.dot(SLANT_WAY, p) > SLANT_END:
            n, gap = beyond_corner(p, POST, radius)
    elif which > 1:
        n, gap = end_wall(p, radius, wp.where(turn[0] > 0.0, 1, 0), closed_left and turn[0] < 0.0, which)
    return wp.cw_mul(turn, n), gap


@wp.func
def goal_touched(ball: wp.vec2, radius: float, height: float, margin: float, closed_left: bool):
    """Returns the end whose goal a ball touches: 1 right, -1 left, 0 neither.

    The floor of a goal counts, which is level with the field's floor, and the goal's net. `height`: the ball's center
    above the floor, less than its radius since the ball reaches into the floor.
    """
    x = wp.abs(ball[0])
    if x < CLEAR or (closed_left and ball[0] < 0.0):
        return 0
    y = wp.abs(ball[1])
    reach = radius + margin
    to_floor = wp.vec2(wp.max(GOAL_LINE - x, 0.0), wp.max(y - GOAL_FLOOR_HALF, 0.0))
    front = wp.where(ball[0] > 0.0, NET_FRONT[1], NET_FRONT[0])
    to_net = wp.vec2(wp.max(front - x, 0.0), wp.max(wp.max(NET_SIDE - y, y - NET_SIDE - NET_THICK), 0.0))
    if wp.length_sq(to_floor) + height * height < reach * reach or wp.length_sq(to_net) < reach * reach:
        return int(sign_of(ball[0]))
    return 0


@wp.func
def cast_slanting_wall(eye: wp.vec2, way: wp.vec2, radius: float):
    """Returns the distance at which a circle touches the slanting wall at positive coordinates, or MISS."""
    toward = wp.dot(SLANT_NORMAL, way)
    if toward > 1.0e-9:
        far = (SLANT - radius - wp.dot(SLANT_NORMAL, eye)) / toward
        if wp.dot(SLANT_WAY, eye + far * way) <= SLANT_END:
            return far
    return ray_circle(eye, way, POST, radius)


@wp.func
def cast_net(eye: wp.vec2, way: wp.vec2, radius: float, end: int):
    """Returns the distance at which a circle touches the net of the goal at positive x, or MISS."""
    far = float(MISS)
    room = NET_BACK[end] - radius - eye[0]
    if way[0] > 1.0e-9 and wp.abs(eye[1] + room / way[0] * way[1]) < NET_SIDE + NET_THICK:
        far = room / way[0]
    for k in range(2):
        turn = float(1 - 2 * k)
        room = NET_SIDE - radius - turn * eye[1]
        if turn * way[1] > 1.0e-9 and room > 0.0:
            t = room / (turn * way[1])
            x = eye[0] + t * way[0]
            if x >= NET_FRONT[end] and x < NET_END[end]:
                far = wp.min(far, t)
        far = wp.min(far, ray_circle(eye, way, wp.vec2(NET_FRONT[end], turn * NET_SIDE), radius))
    return far


@wp.func
def cast_block(eye: wp.vec2, way: wp.vec2, radius: float):
    """Returns the distance at which a circle touches a block in the goal at positive x, or MISS."""
    far = (BLOCK - radius - eye[0]) / wp.max(way[0], 1.0e-9)
    y = eye[1] + far * way[1]
    if wp.abs(y) <= BLOCK_HALF:
        return far
    return ray_circle(eye, way, wp.vec2(BLOCK, sign_of(y) * BLOCK_HALF), radius)


@wp.func
def cast_from_field(eye: wp.vec2, way: wp.vec2, radius: float, closed_left: bool):
    """Returns the result of `cast_field` if no wall is touched and goals are ahead: only sides that face the field are
    hit."""
    far = float(MISS)
    what = int(WALL)
    if wp.abs(way[1]) > 1.0e-9:
        distance = (SIDE - radius - sign_of(way[1]) * eye[1]) / wp.abs(way[1])
        if wp.abs(eye[0] + distance * way[0]) <= SIDE_HALF:
            far = distance
    turn = sign_of(way[0])
    from_here = wp.vec2(turn * eye[0], eye[1])
    along = wp.vec2(turn * way[0], way[1])
    far = wp.min(far, cast_slanting_wall(from_here, along, radius))
    far = wp.min(far, cast_slanting_wall(wp.vec2(from_here[0], -from_here[1]), wp.vec2(along[0], -along[1]), radius))
    if closed_left and turn < 0.0:
        far = wp.min(far, cast_block(from_here, along, radius))
    elif from_here[0] + far * along[0] > NET_FRONT[1] - radius:  # it gets as far as the goal
        distance = cast_net(from_here, along, radius, wp.where(turn > 0.0, 1, 0))
        if distance < far:
            far = distance
            what = wp.where(turn > 0.0, RIGHT_GOAL, LEFT_GOAL)
    return far, what


@wp.func
def cast_goal(eye: wp.vec2, way: wp.vec2, radius: float, end: int):
    """Returns the distance at which a circle touches the net of the goal at positive x from any side, or MISS."""
    deep = 0.5 * (NET_END[end] - NET_BACK[end])
    back = wp.vec2(NET_BACK[end] + deep, 0.0)
    far = cast_past(eye - back, way, wp.vec2(deep, NET_SIDE), radius)
    half = wp.vec2(0.5 * (NET_END[end] - NET_FRONT[end]), 0.5 * NET_THICK)
    for k in range(2):
        side = wp.vec2(NET_FRONT[end] + half[0], float(1 - 2 * k) * (NET_SIDE + half[1]))
        far = wp.min(far, cast_past(eye - side, way, half, radius))
    return far


@wp.func
def cast_corner(eye: wp.vec2, way: wp.vec2, radius: float):
    """Returns the distance at which a circle touches the slanting wall at positive coordinates from any side."""
    to = eye - SLANT_MIDDLE
    to = wp.vec2(wp.dot(SLANT_WAY, to), wp.dot(SLANT_NORMAL, to))
    along = wp.vec2(wp.dot(SLANT_WAY, way), wp.dot(SLANT_NORMAL, way))
    return cast_past(to, along, wp.vec2(SLANT_HALF, WALL_HALF), radius)


@wp.func
def cast_walls(eye: wp.vec2, way: wp.vec2, radius: float, closed_left: bool):
    """Returns the result of `cast_field`, but the ray passes through a wall that the circle touches at its start."""
    side = wp.vec2(0.0, sign_of(way[1]) * (SIDE + WALL_HALF))
    far = cast_past(eye - side, way, wp.vec2(SIDE_HALF, WALL_HALF), radius)
    what = int(WALL)
    for end in range(2):
        turn = float(2 * end - 1)
        from_here = wp.vec2(turn * eye[0], eye[1])
        along = wp.vec2(turn * way[0], way[1])
        if along[0] > 0.0 or from_here[0] > SLANT_BEGIN - radius:
            far = wp.min(far, cast_corner(from_here, along, radius))
            far = wp.min(far, cast_corner(wp.vec2(from_here[0], -from_here[1]), wp.vec2(along[0], -along[1]), radius))
            if closed_left and end == 0:
                block = wp.vec2(BLOCK + 0.5 * BLOCK_DEEP, 0.0)
                far = wp.min(far, cast_past(from_here - block, along, wp.vec2(0.5 * BLOCK_DEEP, BLOCK_HALF), radius))
            distance = cast_goal(from_here, along, radius, end)
            if distance < far:
                far = distance
                what = wp.where(end == 1, RIGHT_GOAL, LEFT_GOAL)
    return far, what


@wp.func
def cast_field(eye: wp.vec2, way: wp.vec2, radius: float, closed_left: bool):
    """Returns the distance along a unit direction at which a circle touches a wall or a net, or MISS, and which one:
    WALL or a goal.

    A wall that the circle touches at its start is not seen, as in Unity.
    """
    if is_clear(eye, radius + FLUSH):
        return cast_from_field(eye, way, radius, closed_left)
    return cast_walls(eye, way, radius, closed_left)
