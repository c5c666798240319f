"""The kernels of a built-in environment, and the Warp struct of the columns that they read and write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from inspect import get_annotations
from typing import TYPE_CHECKING, Any, TypeVar

import warp as wp

from palaestra.envs.builtin.base.world_columns import column_prefix

if TYPE_CHECKING:
    from palaestra.core.specs import BehaviorSpec

Shape = int | tuple[int, ...]
T = TypeVar("T")

QUEUE = 32
"""Number of episodes per area for which parameters can be set ahead."""


class EndColumns:
    """Columns of every world: a row per agent."""

    reward: wp.array(dtype=wp.float32)
    terminated: wp.array(dtype=wp.bool)
    truncated: wp.array(dtype=wp.bool)


class EpisodeColumns:
    """Columns of worlds whose episodes are random and have a time limit: a row per area."""

    rng: wp.array(dtype=wp.uint32)
    age: wp.array(dtype=wp.int32)  # of this episode; a decision adds `age_per_decision`


class ParameterColumns:
    """Columns of worlds with parameters: a row per area."""

    pending: wp.array3d(dtype=wp.float32)  # of the next episodes, in the order of `parameter_ranges`
    episodes: wp.array(dtype=wp.int32)


def world_struct(columns: type[T]) -> type[T]:
    """Makes a Warp struct of a class: its own columns follow the columns of the groups that it inherits from.

    Each observation gets a column for the last observation of an episode: `obs_rays` has `final_obs_rays`.
    """
    groups = [get_annotations(group, eval_str=True) for group in (*columns.__bases__, columns)]
    named = {name: kind for group in groups for name, kind in group.items()}
    final = {name.replace("obs", "final_obs"): kind for name, kind in named.items() if "obs" in name}
    columns.__annotations__ = named | final
    return wp.struct(columns)


@dataclass(frozen=True)
class Program:
    """The kernels of an environment and the Warp struct of the columns that they read and write.

    Columns have a row per slot. These names have a meaning here: `action` (for hybrid actions `action_continuous` and
    `action_discrete`), `obs...` and for each observation `final_obs...`, both in the order of the spec (columns of
    width 0 are left out), `reward`, `group_reward`, `terminated`, `truncated` and `mask`. `acting` marks the agents
    that wait for an action, if not all agents act; such a behavior is not steady.

    If agents can change their behavior, `plays` holds the number of the agent's next behavior, and `played` the number
    of the behavior to which its last decision, `reward` and end belong. If each agent has a fixed role instead, each
    behavior has its own `obs...` and `final_obs...`, with a row for each of its agents: `striker_obs` for a Striker.

    `pending` is (areas, QUEUE, P). `episodes` counts the episodes that the area has begun: episode n takes column n
    modulo QUEUE.
    """

    world: Any
    begin: Any
    """Kernel (world), a thread per area: starts every area. The column `rng`, if there is one, has been seeded."""
    tick: Any
    """Kernel (world, report), a thread per area: one decision of the area's agents, and a new episode if the episode
    ended. Sets report[0] if an episode ended, and report[1] to 1 + the slot of an invalid action."""
    draw: Any = None
    """Kernel (world), a thread for each `draw_rows` rows of a slot's `obs_image`: paints them after `begin` and `tick`.
    None: no image."""
    draw_rows: int = 1
    """Rows of pixels that a thread paints. More than one costs less on a CPU, whose threads each copy the struct."""
    image_columns: tuple[str, ...] = ()
    """Columns that record the contents of `obs_image`, if `draw` repaints only pixels that change. Images are then not
    copied."""
    area_columns: tuple[str, ...] = ()
    """Further columns with a row per area."""
    together: int = 1
    """Areas that a thread of `tick` advances together on a CPU, whose compiler then uses vector instructions; on a GPU
    one."""


def shapes_from(
    program: Program, behaviors: Mapping[str, BehaviorSpec], has_roles: bool, parameters: int, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the inner shapes of the columns: shapes that follow from the specs and the number of parameters, and the
    shapes in `given`.

    The columns of observations that are not given belong to a spec's observations in their order.
    """
    action = next(iter(behaviors.values())).action
    shapes: dict[str, Any] = {
        "pending": (QUEUE, parameters),
        "parameters": parameters,
        "action": action.continuous or len(action.branches),
        "action_continuous": action.continuous,
        "action_discrete": len(action.branches),
        "mask": sum(action.branches),
    }
    for name, spec in behaviors.items():
        prefix = column_prefix(name) if has_roles else ""
        for start in (f"{prefix}obs", f"{prefix}final_obs"):
            seen = [column for column in program.world.vars if column.startswith(start) and column not in given]
            shapes |= {column: obs.shape for column, obs in zip(seen, spec.obs, strict=False)}
    return shapes | given
