"""GridWorld, as in Unity's example: reach the goal of the wanted color and avoid the other, seen by a camera from
above.

A board of 5 x 5 cells (parameter `gridSize`) has one green plus, one red ex (`numPlusGoals`, `numExGoals`) and the
agent, a blue frame, each in a cell of its own. A move off the board is masked. Reaching a goal pays +1 or -1, every
other decision -0.01.

The camera's picture is 84 x 64 pixels and as high as the board; walls fill the rest of the picture beside the board.
The picture is not smoothed: a pixel has the color of the point at its middle, in steps of 1/255. Light is computed as
in Unity's shader, for surfaces that face up; the reflection of the sky on the floor is an average. A figure's shadow
falls on the floor up and left of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch
import warp as wp
from numpy.typing import NDArray
from torch.nn.functional import pad

from palaestra.core.errors import EnvError
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.envs.builtin.base.env import WarpEnv
from palaestra.envs.builtin.base.program import EndColumns, EpisodeColumns, ParameterColumns, Program, world_struct
from palaestra.envs.builtin.base.world_columns import Rows, checked_choice, next_parameter, save_final_obs
from palaestra.envs.builtin.drawing import figures
from palaestra.envs.builtin.gridworld.board_picture import AGENT, GREEN, RED, SHADOW, paint
from palaestra.envs.solids import BLUE, FLOOR, INK, Color, Drawing, Solids, on_plane, solids, upright
from palaestra.envs.solids import GREEN as LEAF
from palaestra.envs.solids import RED as ROSE

wp.set_module_options({"enable_backward": False})

MOST_DECISIONS = wp.constant(100)
DRAW_ROWS = wp.constant(8)  # rows of pixels that a thread paints
LONGEST = wp.constant(10)  # cells along an edge of the largest board
LONGEST_WAY = 2 * LONGEST + 8  # cells to a goal, around up to four goals of the other color in the way


@world_struct
class World(EndColumns, EpisodeColumns, ParameterColumns):
    """Columns of GridWorld, one row per area."""

    edge: wp.array(dtype=wp.int32)  # cells along an edge of this episode's board
    agent: wp.array(dtype=wp.int32)  # the agent's cell: row * edge + column, row 0 at the top
    painted_episode: wp.array2d(dtype=wp.int32)  # the episode of what each row of the image shows
    painted_agent: wp.array2d(dtype=wp.int32)  # the agent's cell in it
    wanted: wp.array(dtype=wp.int32)  # GREEN or RED
    board: wp.array2d(dtype=wp.int32)  # what lies in each cell: 0, GREEN, RED or AGENT
    final_edge: wp.array(dtype=wp.int32)
    final_board: wp.array2d(dtype=wp.int32)
    action: wp.array2d(dtype=wp.int64)  # 0: nothing, 1: up, 2: down, 3: left, 4: right
    obs_image: wp.array4d(dtype=wp.float32)
    obs_goal: wp.array2d(dtype=wp.float32)
    mask: wp.array2d(dtype=wp.bool)


@wp.func
def next_cell(cell: int, action: int, edge: int):
    """Returns the cell to which an action leads; the same cell if a wall is in the way."""
    row = cell // edge
    column = cell % edge
    if action == 1 and row > 0:
        return cell - edge
    if action == 2 and row < edge - 1:
        return cell + edge
    if action == 3 and column > 0:
        return cell - 1
    if action == 4 and column < edge - 1:
        return cell + 1
    return cell


@wp.func
def observe(world: World, i: int):
    """Writes the goal signal and the mask; `draw` paints the image."""
    world.obs_goal[i, 0] = wp.where(world.wanted[i] == GREEN, 1.0, 0.0)
    world.obs_goal[i, 1] = wp.where(world.wanted[i] == RED, 1.0, 0.0)
    cell = world.agent[i]
    world.mask[i, 0] = True
    for action in range(1, 5):
        world.mask[i, action] = next_cell(cell, action, world.edge[i]) != cell


@wp.func
def start(world: World, i: int):
    """Starts an episode: the agent and the goals in different cells, and one of the two colors wanted."""
    edge = int(next_parameter(world, i, 0))
    greens = int(next_parameter(world, i, 1))
    reds = int(next_parameter(world, i, 2))
    world.edge[i] = edge
    world.age[i] = 0
    world.episodes[i] += 1
    for cell in range(LONGEST * LONGEST):
        world.board[i, cell] = 0
    state = world.rng[i]
    left = 1 + greens + reds
    while left > 0:
        cell = wp.randi(state, 0, edge * edge)
        if world.board[i, cell] == 0:
            thing = AGENT
            if left > 1:
                thing = wp.where(left > 1 + reds, GREEN, RED)
            else:
                world.agent[i] = cell
            world.board[i, cell] = thing
            left -= 1
    world.wanted[i] = wp.where(wp.randf(state) < 0.5, GREEN, RED)
    world.rng[i] = state
    observe(world, i)


@wp.kernel
def begin(world: World):
    """Starts a new episode in every area."""
    start(world, wp.tid())


@wp.kernel
def tick(world: World, report: wp.array(dtype=wp.int32)):
    """Advances every area by one decision."""
    i = wp.tid()
    action = checked_choice(world, i, 0, 5, report)
    cell = world.agent[i]
    to = next_cell(cell, action, world.edge[i])
    met = world.board[i, to]
    reached = met != 0 and met != AGENT
    world.board[i, cell] = 0
    world.board[i, to] = AGENT
    world.agent[i] = to
    age = world.age[i] + 1
    world.age[i] = age
    # a goal's reward replaces the cost of a decision
    world.reward[i] = wp.where(reached, wp.where(met == world.wanted[i], 1.0, -1.0), -0.01)
    world.terminated[i] = reached
    world.truncated[i] = age >= MOST_DECISIONS and not reached
    observe(world, i)
    if reached or age >= MOST_DECISIONS:
        report[0] = 1
        world.final_edge[i] = world.edge[i]
        for k in range(LONGEST * LONGEST):
            world.final_board[i, k] = world.board[i, k]
        save_final_obs(world.obs_goal, world.final_obs_goal, i)
        start(world, i)


@wp.func
def may_differ(world: World, i: int, y: int, cell: int):
    """Returns whether a figure in this cell, or its shadow, shows in a row of pixels."""
    v = (float(y) + 0.5) * float(world.edge[i]) / float(world.obs_image.shape[2]) - float(cell // world.edge[i])
    return v > -SHADOW and v < 1.0


@wp.func
def repaint(world: World, i: int, y: int):
    """Repaints the pixels of a row that have changed."""
    edge = world.edge[i]
    before = world.painted_agent[i, y]
    agent = world.agent[i]
    if world.painted_episode[i, y] != world.episodes[i]:
        paint(world.obs_image, i, y, world.board, edge, -1.0e3, 1.0e3)
    elif before != agent and (may_differ(world, i, y, before) or may_differ(world, i, y, agent)):
        west = float(wp.min(before % edge, agent % edge))
        east = float(wp.max(before % edge, agent % edge))
        paint(world.obs_image, i, y, world.board, edge, wp.max(west - SHADOW, 0.0), east + 1.0)
    world.painted_episode[i, y] = world.episodes[i]
    world.painted_agent[i, y] = agent


@wp.kernel
def draw(world: World):
    """Paints DRAW_ROWS rows of an area's image per thread, and of the final image if an episode has ended."""
    i, band = wp.tid()
    has_ended = world.terminated[i] or world.truncated[i]
    for y in range(band * DRAW_ROWS, wp.min((band + 1) * DRAW_ROWS, world.obs_image.shape[2])):
        repaint(world, i, y)
        if has_ended:
            paint(world.final_obs_image, i, y, world.final_board, world.final_edge[i], -1.0e3, 1.0e3)


def follow_shortest_path(columns: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Takes the first move of a shortest path to a wanted goal that avoids other goals, or stays if there is none."""
    edge = columns["edge"].long()[:, None, None]
    row, column = torch.meshgrid(*[torch.arange(LONGEST, device=edge.device)] * 2, indexing="ij")
    # (S, cells): cell of the board; -1: outside it
    cell = torch.where((row < edge) & (column < edge), row * edge + column, -1).flatten(1)
    thing = columns["board"].gather(1, cell.clamp(min=0))
    wanted = columns["wanted"][:, None]
    closed = (cell < 0) | ((thing != wanted) & (thing != 0) & (thing != AGENT))
    far = torch.where((thing == wanted) & (cell >= 0), 0.0, torch.inf).view(-1, LONGEST, LONGEST)
    for _ in range(LONGEST_WAY):
        nearer = torch.minimum(far, 1 + neighbors(far).amin(1))
        far = torch.where(closed.view_as(far), torch.inf, nearer)
    here = (cell == columns["agent"].long()[:, None]).float().argmax(1)
    step, move = neighbors(far).flatten(2).gather(2, here[:, None, None].expand(-1, 4, 1))[:, :, 0].min(1)
    return torch.where(step.isfinite(), move + 1, 0)[:, None]


def neighbors(grid: torch.Tensor) -> torch.Tensor:
    """Returns the values of the cells above, below, left and right of each cell, (S, 4, rows, columns); infinity beyond
    the edge."""
    up = pad(grid, (0, 0, 1, 0), value=torch.inf)[:, :-1]
    down = pad(grid, (0, 0, 0, 1), value=torch.inf)[:, 1:]
    left = pad(grid, (1, 0), value=torch.inf)[:, :, :-1]
    right = pad(grid, (0, 1), value=torch.inf)[:, :, 1:]
    return torch.stack([up, down, left, right], 1)


BOARD, NORTH = 5.0, -0.5  # meters along the board's edge, and from the middle of the area to the board's
MOST_GOALS = 4  # of a color


def draw_board(rows: Rows, behavior: str) -> Drawing:
    """Draws the board with its goals (green plusses, red crosses) and the agent; the wanted goal stands above it."""
    edge = rows["edge"][:, None]
    areas = rows.areas
    side = BOARD / edge

    def centers(cell: NDArray[np.int32], height: NDArray[np.float64]) -> NDArray[np.float32]:
        return on_plane(
            np.stack([(cell % edge + 0.5) * side - BOARD / 2, BOARD / 2 - (cell // edge + 0.5) * side + NORTH], -1),
            height,
        )

    shapes = [
        figures.plate("frame", areas, (0.0, NORTH), (BOARD / 2 + 0.15,) * 2, INK, -0.02, 0.2),
        figures.plate("board", areas, (0.0, NORTH), (BOARD / 2,) * 2, FLOOR, 0.0, 0.1),
        *_lines(edge),
    ]
    for kind, name, color, turn in ((GREEN, "plus", LEAF, 0.0), (RED, "cross", ROSE, np.pi / 4)):
        found = rows["board"] == int(kind)
        cell = np.argsort(~found, axis=1, kind="stable")[:, :MOST_GOALS]
        shown = np.take_along_axis(found, cell, 1)
        shapes += _beams(name, centers(cell, 0.12 * side), shown * side, color, turn)
        sign = on_plane(np.full((areas, 1, 2), (0.0, BOARD / 2 + 0.75 + NORTH)), 0.1)
        shapes += _beams(f"wanted {name}", sign, (rows["wanted"] == int(kind))[:, None] * np.ones(1), color, turn)
    place = centers(rows["agent"][:, None], 0.34 * side)
    size = np.broadcast_to(0.62 * side[..., None], (areas, 1, 3))
    shapes.append(solids("agent", "box", place, size, BLUE, agents=(behavior, rows.slots)))
    return Drawing(tuple(shapes), (2.75, 0.7, 3.2), elevation=62.0)


def _beams(name: str, place: NDArray[np.float32], size: NDArray[np.float64], color: Color, turn: float) -> list[Solids]:
    """Returns figures of two beams each, in cells of these sizes (A, n)."""
    beam = size[..., None] * [0.8, 0.24, 0.24]
    return [solids(f"{name} {k}", "box", place, beam, color, rotation=upright(turn + k * np.pi / 2)) for k in range(2)]


def _lines(edge: NDArray[np.int32]) -> tuple[Solids, Solids]:
    """Returns the lines between the cells of boards with this many along an edge, (A, 1)."""
    number = np.arange(1, LONGEST)
    at = number * (BOARD / edge) - BOARD / 2
    zero = np.zeros((len(edge), len(number)))
    size = figures.hidden_unless(number < edge, (0.05, 0.02, BOARD))
    upward = solids("columns", "box", on_plane(np.stack([at, zero + NORTH], -1)), size, INK)
    return upward, solids("rows", "box", on_plane(np.stack([zero, at + NORTH], -1)), size[..., ::-1], INK)


class GridWorld(WarpEnv):
    """GridWorld: an image (3, height, width), the goal signal (green, red), discrete [5]; moves into walls masked."""

    behavior = "GridWorld"
    summary = "An agent on a board, seen from above, goes to the goal of the color that a signal names."
    rewards = (
        "-0.01 a decision",
        "+1 at a goal of the right color, -1 at a goal of the wrong color, instead of that decision's -0.01",
    )
    episode = "ends at a goal, and is truncated after 100 decisions"
    benchmark = 0.8
    default_areas = 9
    most_decisions = MOST_DECISIONS
    tick_seconds = 0.15  # not documented: slow enough to watch
    # most goals that fit on the smallest board beside the agent
    parameter_ranges: ClassVar = {
        "gridSize": (5.0, 3.0, 10.0),
        "numPlusGoals": (1.0, 1.0, 4.0),
        "numExGoals": (1.0, 1.0, 4.0),
    }
    program = Program(World, begin, tick, draw, DRAW_ROWS, image_columns=("painted_episode", "painted_agent"))
    rule = staticmethod(follow_shortest_path)
    picture = staticmethod(draw_board)

    def __init__(
        self, areas: int | None = None, device: str | torch.device = "cpu", *, height: int = 64, width: int = 84
    ) -> None:
        """`height` and `width` are those of the image, in pixels.

        Raises EnvError if the board would not fit, or its cells were too small to tell apart.
        """
        if height < 20 or max(height, width) > 512:
            raise EnvError(f"GridWorld with an image of {height} x {width}: expected 20 to 512 pixels each way")
        if width < height:
            raise EnvError(f"GridWorld with an image of {height} x {width}: expected it at least as wide as it is high")
        seen = ObsSpec("CameraSensor", (3, height, width)), ObsSpec("VectorSensor", (2,), goal=True)
        self.spec = BehaviorSpec(seen, ActionSpec(branches=(5,)), steady=True)
        cells = dict.fromkeys(("board", "final_board"), LONGEST**2)
        self.sizes = cells | dict.fromkeys(("painted_episode", "painted_agent"), height)
        super().__init__(areas, device)
