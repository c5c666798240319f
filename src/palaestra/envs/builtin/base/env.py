"""Base class of the built-in environments: columns on a device, two kernels, and a table for every tick."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
import warp as wp
from torch import Tensor

from palaestra.core.errors import EnvError, StateOfAnotherVersion
from palaestra.core.plugins import nearest
from palaestra.core.timestep import Action, FinalObs, TimeStep
from palaestra.envs.builtin.base.cores import SplitTick
from palaestra.envs.builtin.base.host_ticks import Given, HostTicks
from palaestra.envs.builtin.base.world_columns import (
    ImageBuffers,
    Rows,
    allocate,
    column_prefix,
    invalid_action,
    quiet_warp,
    resolve,
    rows_of_roles,
    seed_streams,
)
from palaestra.envs.builtin.drawing.raycast import picture_of
from palaestra.envs.given_actions import lacking, unknown
from palaestra.envs.traits import EnvTraits, SwapBoard

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palaestra.core.specs import BehaviorSpec
    from palaestra.envs.ray_fans import RayFan
    from palaestra.envs.solids import Drawing

QUEUE = 32
"""Number of episodes per area whose parameters can be set ahead."""
WORTH_KEEPING = 1 << 18  # bytes; smaller copies come from the allocator's own pool
MOST_KEPT = 4  # copies of a column that a reader may hold before more of them cost fresh memory


@dataclass(frozen=True)
class Program:
    """The kernels of an environment and the Warp struct of the columns they work on.

    Columns have a row per slot. These names have a meaning here: `action` (for hybrid actions
    `action_continuous` and `action_discrete`), `obs...` and for each its `final_obs...`, both in
    the order of the spec (columns of width 0 are left out), `reward`, `group_reward`, `terminated`, `truncated` and
    `mask`. `acting` marks the agents that await an action, if not all do; such a behavior is not steady.

    If agents can change their behavior, `plays` holds the number of the agent's behavior from now on, and `played` that
    of the behavior which its last decision, `reward` and end belong to. If each agent has a fixed role instead, each
    behavior has its own `obs...` and `final_obs...`, with a row for each of its agents: `striker_obs` for a Striker.

    `pending` has a row per area: the parameters of its next episodes, (areas, QUEUE, P) in the order of
    `parameter_ranges`. `episodes` counts how many the area has begun: episode n takes column n modulo QUEUE.
    """

    world: Any
    begin: Any
    """Kernel (world), a thread per area: starts every area. The column `rng`, if there is one, has been seeded."""
    tick: Any
    """Kernel (world, report), a thread per area: one decision of its agents, and a new episode if it ended. Sets
    report[0] if an episode ended, and report[1] to 1 + the slot of an invalid action.
    """
    draw: Any = None
    """Kernel (world), a thread for each `draw_rows` rows of a slot's `obs_image`: paints them after `begin` and `tick`.
    None: no image.
    """
    draw_rows: int = 1
    """Rows of pixels that a thread paints. More than one costs less on a CPU, where every thread gets a copy of the
    struct.
    """
    image_columns: tuple[str, ...] = ()
    """Columns that tell what is painted in `obs_image`, if `draw` leaves what already is as it should be. Images are
    then not copied.
    """
    area_columns: tuple[str, ...] = ()
    """Further columns with a row per area."""
    together: int = 1
    """Areas that a thread of `tick` advances on a CPU, where the compiler can then make vectors of them. On a GPU it is
    one.
    """


class WarpEnv:
    """Environment in which every agent decides on every tick; one kernel launch steps all areas.

    Agent j of area i sits in slot i * agents + j. With several `behavior_names`, which share a spec, an agent may
    change its behavior as an episode starts. With `roles` each agent keeps one behavior, which has its own spec and
    table.

    Kernels write the columns in place, and each TimeStep gets copies. On CUDA everything runs on torch's current stream
    and nothing waits for the device, so a graph can capture a tick; there an invalid action counts as doing nothing,
    while the CPU raises EnvError.
    """

    behavior: ClassVar[str]
    """Its one behavior; with `behavior_names` the name of the environment."""
    title: str = ""
    """Name of the environment in messages; left empty, it is `behavior`."""
    behavior_names: ClassVar[tuple[str, ...]] = ()
    """Behaviors in the order of their numbers in `plays`. Several are not steady: an agent acts in one of them."""
    roles: ClassVar[tuple[str, ...]] = ()
    """Fixed behavior of each of an area's agents, if they have one; all take actions of one shape."""
    agents: ClassVar[int] = 1
    """Number of agents in an area."""
    areas_per_core: ClassVar[int] = 1024
    """Fewest areas that are worth a core of their own: their tick takes several times as long as waking a thread."""
    teams: ClassVar[tuple[int, ...]] = ()
    """Team of each of an area's agents; empty: all are on team 0."""
    summary: ClassVar[str]
    rewards: ClassVar[tuple[str, ...]]
    episode: ClassVar[str]
    benchmark: ClassVar[float | None]
    """Mean episode reward of a good policy; None if agents play one another and a mean says nothing."""
    default_areas: ClassVar[int]
    most_decisions: ClassVar[int | None] = None
    """Time limit of an episode; None: there is none."""
    age_per_decision: ClassVar[int] = 1
    """Number that a decision adds to the column `age`: that of its physics ticks, where `age` counts those."""
    parameter_ranges: ClassVar[dict[str, tuple[float, float, float]]]
    """Default, minimum and maximum of each parameter."""
    tick_seconds: float | None = None
    """Simulated seconds of a tick."""
    ray_fans: ClassVar[Mapping[str, Sequence[RayFan]]] = {}
    """Where rays are in its observations, by behavior."""
    board: ClassVar[SwapBoard | None] = None
    """The board, if its moves exchange two pieces."""

    def __init__(
        self,
        program: Program,
        spec: BehaviorSpec | Mapping[str, BehaviorSpec],
        areas: int | None,
        device: str | torch.device,
        **sizes: Any,
    ) -> None:
        """Allocates the columns and records the kernel launches.

        `spec` is the spec of every behavior, or a spec for each if agents have `roles`. `sizes` are the inner shapes of
        the struct's columns of more than one dimension, and its scalars, or functions that return them for a number of
        areas. Raises EnvError for a bad number of areas or an unknown device.
        """
        self.title = self.title or self.behavior
        self.num_areas = self.default_areas if areas is None else areas
        if isinstance(self.num_areas, bool) or not isinstance(self.num_areas, int) or self.num_areas < 1:
            raise EnvError(f"{self.title} with {areas!r} areas: expected a whole number of at least 1")
        self.device = resolve(device)
        names = self.behavior_names or (self.behavior,)
        self.behaviors: Mapping[str, BehaviorSpec] = spec if isinstance(spec, Mapping) else dict.fromkeys(names, spec)
        self.parameters: Mapping[str, float] = {
            name: default for name, (default, _, _) in self.parameter_ranges.items()
        }
        self._bounds = {
            name: torch.tensor(ends, dtype=torch.float32).tolist() for name, (_, *ends) in self.parameter_ranges.items()
        }
        self._parameter_index = {name: k for k, name in enumerate(self.parameters)}
        self._started = False
        rows = dict.fromkeys(("pending", "episodes", *program.area_columns), self.num_areas)
        rows |= rows_of_roles(program.world.vars, self.roles, self.num_areas)
        slots = self.num_areas * self.agents
        self._world, self._columns = allocate(
            program.world, slots, self.num_areas, self.device, rows, pending=(QUEUE, len(self.parameters)), **sizes
        )
        if self.parameters:
            self._columns["pending"].copy_(torch.tensor(list(self.parameters.values()), device=self.device))
        self._images: ImageBuffers | None = None
        if program.image_columns and self.device.type == "cpu":
            self._images = ImageBuffers(self._columns, self._world, ("obs_image", *program.image_columns))
        self._tables = Tables(self._columns, self.behaviors, self.teams or (0,) * self.agents, self.roles, self._images)
        self._report = torch.zeros(2, dtype=torch.int32, device=self.device)
        self._host_report = (
            self._report.numpy() if self.device.type == "cpu" else None
        )  # None: reading it would wait for the device
        self._streams: dict[int, wp.Stream] = {}
        with quiet_warp():  # the first launch compiles the kernels, unless Warp finds them in its cache
            self._seed = (
                self._record(seed_streams, len(self._columns["rng"]), self._world.rng, 0)
                if "rng" in self._columns
                else None
            )
            self._begin = self._record(program.begin, self.num_areas, self._world)
            together = program.together if self.device.type == "cpu" else 1
            self._tick = self._record(
                program.tick, -(-self.num_areas // together), self._world, wp.from_torch(self._report)
            )
            self._split = SplitTick(program, self._world, self._columns, self.num_areas, self.agents, sizes)
            self._draw = None
            if program.draw is not None:
                bands = -(-self._columns["obs_image"].shape[2] // program.draw_rows)
                self._draw = self._record(program.draw, (slots, bands), self._world)

    @cached_property
    def traits(self) -> EnvTraits:
        """Facts about it, and its abilities."""
        return EnvTraits(
            name=self.title,
            summary=self.summary,
            rewards=self.rewards,
            episode=self.episode,
            benchmark=self.benchmark,
            max_episode_steps=self.most_decisions,
            parameter_ranges=self.parameter_ranges,
            ray_fans=self.ray_fans,
            board=self.board,
            shared_slots=self.behavior_names,
            timed=True,
            host_ticks=True,
            staggers_episodes=True,
            queue_length=QUEUE,
            has_heuristic=hasattr(self, "heuristic"),
            draws=True,
        )

    def _record(self, kernel: Any, threads: int | tuple[int, int], *inputs: Any) -> Any:
        """Returns a recorded launch, which costs a fifth of a new one."""
        return wp.launch(kernel, dim=threads, inputs=inputs, device=str(self.device), record_cmd=True)

    def reset(self, seed: int) -> dict[str, TimeStep]:
        """Starts a new episode in every area; an area's random stream depends only on the seed and its own number."""
        for name in ("reward", "group_reward", "terminated", "truncated"):
            if name in self._columns:
                self._columns[name].zero_()
        if self._seed is not None:
            self._seed.set_param_at_index(1, seed & 0x7FFFFFFF)
            self._run(self._seed)
        self._run(self._begin)
        self._paint()
        self._started = True
        return self._tables.make(ended=False)

    def stagger(self, seed: int) -> None:
        """Moves each area a random part of the way through its episode, so that episodes do not end together. Call it
        after `reset`.

        Raises EnvError if episodes have no time limit.
        """
        if self.most_decisions is None:
            raise EnvError(f"{self.title}: episodes have no time limit, so they cannot be staggered")
        generator = torch.Generator().manual_seed(seed)
        age = self._columns["age"]
        age.copy_(self.age_per_decision * torch.randint(self.most_decisions, age.shape, generator=generator))

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        """Advances every agent by one decision. Raises EnvError for actions that are missing or do not fit."""
        if not self._started:
            raise EnvError(f"{self.title}: step before reset; call reset(seed) first")
        if not actions.keys() <= self.behaviors.keys():
            raise unknown(actions, self.behaviors)
        for number, name in enumerate(self.behaviors):
            self._write_actions(name, number, actions)
        return self._tables.make(ended=self._simulate(lambda name: self._action_columns(name, actions[name])))

    @cached_property
    def host_ticks(self) -> HostTicks | None:
        """Makes ticks as NumPy arrays; None: on an accelerator, for several behaviors or hybrid actions, or if not
        every agent acts.
        """
        columns = self._columns
        if self.device.type != "cpu" or len(self.behaviors) > 1 or "action" not in columns or "acting" in columns:
            return None
        return HostTicks(columns, self._tables.obs_copies(), self._simulate)

    def _simulate(self, given: Given) -> bool:
        """Makes a tick; returns whether it ended an episode, False where reading that would wait for the device.
        `given`: for errors.
        """
        if self._host_report is not None:
            self._host_report[:] = 0
        cores = (
            min(torch.get_num_threads(), self.num_areas // self.areas_per_core) if self._host_report is not None else 1
        )
        if cores > 1:
            self._split.on(cores).run(self._host_report)
        else:
            self._run(self._tick)
        self._paint()
        if self._host_report is None:
            return False
        ended, wrong = self._host_report
        if wrong:
            raise EnvError(
                invalid_action(given, self.behaviors, self.roles, self.agents, self._columns, int(wrong) - 1)
            )
        return bool(ended)

    def _paint(self) -> None:
        """Paints the agents' images, if they have any."""
        if self._draw is None:
            return
        if self._images is not None:
            self._images.turn()
            self._draw.set_param_at_index(0, self._world)
        self._run(self._draw)

    def _write_actions(self, name: str, number: int, actions: Mapping[str, Action]) -> None:
        """Writes the actions of one behavior into the columns of its slots."""
        rows = self._tables.rows(name)
        mine = self._columns["plays"] == number if len(self.behaviors) > 1 and not self.roles else None
        if name not in actions:
            if mine is None or mine.any():
                raise lacking(name, actions)
            return
        for column, values in self._action_columns(name, actions[name]):
            shape = column.shape if rows is None else (len(rows), *column.shape[1:])
            if values.shape != shape:
                raise EnvError(f"behavior '{name}': actions have shape {tuple(values.shape)}, expected {tuple(shape)}")
            if rows is not None:
                column.index_copy_(0, rows, values.to(column.dtype))
            else:
                column.copy_(values if mine is None else torch.where(mine[:, None], values, column))

    def _action_columns(self, name: str, action: Action) -> list[tuple[Tensor, Tensor]]:
        """Returns the action columns, each with the values to write."""
        if "action" in self._columns:
            return [
                (
                    self._columns["action"],
                    action.continuous if self.behaviors[name].action.continuous else action.discrete,
                )
            ]
        return [
            (self._columns["action_continuous"], action.continuous),
            (self._columns["action_discrete"], action.discrete),
        ]

    def set_parameters(self, values: Mapping[str, Tensor]) -> None:
        """Sets one value per area, (num_areas,), from that area's next episode on. Raises EnvError for unknown names
        and bad values.

        Values on an accelerator are not read; they are clipped to their range.
        """
        checked = {name: self._checked(name, value, ()) for name, value in values.items()}
        for name, value in checked.items():
            self._columns["pending"][:, :, self._parameter_index[name]] = value[:, None]

    @property
    def queue_length(self) -> int:
        """Number of episodes that `queue_parameters` takes values for."""
        return QUEUE

    @property
    def episodes(self) -> Tensor:
        """(areas,) int64: how many episodes each area has begun; always 0 in environments without parameters."""
        counted = self._columns.get("episodes")
        return torch.zeros(self.num_areas, dtype=torch.int64, device=self.device) if counted is None else counted.long()

    def queue_parameters(self, values: Mapping[str, Tensor]) -> None:
        """Sets the values of each area's next episodes, (num_areas, queue_length), in order; after the last they
        repeat.

        Raises EnvError as `set_parameters` does.
        """
        checked = {name: self._checked(name, value, (QUEUE,)) for name, value in values.items()}
        turns = (self.episodes[:, None] + torch.arange(QUEUE, device=self.device)) % QUEUE
        for name, value in checked.items():
            self._columns["pending"][:, :, self._parameter_index[name]] = torch.zeros_like(value).scatter_(
                1, turns, value
            )

    def _checked(self, name: str, value: Tensor, more: tuple[int, ...]) -> Tensor:
        if name not in self.parameter_ranges:
            known = ", ".join(self.parameter_ranges) or "none"
            raise EnvError(
                f"{self.title} has no parameter '{name}'{nearest(name, self.parameter_ranges)} (there are: {known})"
            )
        if value.shape != (self.num_areas, *more):
            expected = f"{more[0] if more else 'one'} value{'s' * len(more)} an area, {(self.num_areas, *more)}"
            raise EnvError(f"{self.title}, parameter '{name}': shape {tuple(value.shape)}, expected {expected}")
        least, most = self._bounds[name]
        if value.device.type != "cpu":  # reading it would wait for the device
            return value.to(torch.float32).clamp(least, most)
        value = value.to(torch.float32)
        wrong = next((end for end in map(float, value.aminmax()) if not least <= end <= most), None)
        if wrong is not None:
            raise EnvError(
                f"{self.title}, parameter '{name}' is {wrong:g}, expected a number within {least:g}..{most:g}"
            )
        return value.to(self.device)

    def state_dict(self) -> dict[str, Tensor]:
        """Returns a copy of every column."""
        return {name: column.clone() for name, column in self._columns.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restores a saved state. Raises StateOfAnotherVersion if it has other columns, EnvError if it is of another
        number of areas.
        """
        if state.keys() != self._columns.keys():
            raise StateOfAnotherVersion(
                f"{self.title}: the state has columns {sorted(state)}, expected {sorted(self._columns)}"
            )
        for name, column in self._columns.items():
            if state[name].shape != column.shape:
                wrong = (
                    f"{self.title}: the state's '{name}' has shape {tuple(state[name].shape)}, expected "
                    f"{tuple(column.shape)}"
                )
                if len(state[name]) == len(column):
                    raise StateOfAnotherVersion(wrong)
                raise EnvError(f"{wrong}; was it saved with another number of areas?")
        if self._images is not None:
            self._images.turn()  # what is current may be held
        for name, column in self._columns.items():
            column.copy_(state[name])
        self._started = True

    def drawing(self, areas: NDArray[np.int64]) -> Drawing:
        """Returns the current solids of these areas (A,), in this order; waits for the device. Raises EnvError for an
        unknown area.
        """
        chosen = np.asarray(areas, np.int64)
        if unknown := [area for area in chosen.tolist() if not 0 <= area < self.num_areas]:
            raise EnvError(f"{self.title} has no area {unknown[0]}, only 0 to {self.num_areas - 1}")
        return self._drawing(Rows(self._columns, chosen, self.num_areas, self.roles or (self.behavior,) * self.agents))

    def _drawing(self, rows: Rows) -> Drawing:
        """Returns the solids of some areas, from their rows of the columns."""
        raise EnvError(f"{self.title} has no picture")

    def render(self, area: int) -> np.ndarray:
        """Returns a picture of one area as it is now, (H, W, 3) uint8; waits for the device."""
        return picture_of(self.drawing(np.array([area])))

    def close(self) -> None:
        """Does nothing: the columns are freed with the last reference to them."""

    def _run(self, launch: Any) -> None:
        """Launches on torch's current stream, so that the order with torch's own work is kept."""
        if self.device.type == "cpu":
            launch.launch()
            return
        current = torch.cuda.current_stream(self.device)
        if current.cuda_stream not in self._streams:
            self._streams[current.cuda_stream] = wp.stream_from_torch(current)
        launch.launch(self._streams[current.cuda_stream])


class PooledCopies:
    """Copies one column repeatedly into memory of earlier copies that nobody holds; fresh memory on the host costs six
    times the copy.
    """

    def __init__(self, column: Tensor) -> None:
        self._column = column
        self._kept: list[np.ndarray] = []
        self._array = column.numpy() if column.device.type == "cpu" else np.empty(0)
        self._keeps = column.device.type == "cpu" and column.numel() * column.element_size() >= WORTH_KEEPING

    def take(self) -> Tensor:
        """Returns the column as it is now. The copy is not written to while anything references it or a view of it."""
        return torch.from_numpy(self.take_array()) if self._keeps else self._column.clone()

    def take_array(self) -> np.ndarray:
        """Returns what `take` does as an array; only on the host."""
        if self._keeps:
            for k in range(len(self._kept)):
                if sys.getrefcount(self._kept[k]) == 2:  # our list's and the call's: nothing else refers to this memory
                    return self._filled(self._kept[k])
            if len(self._kept) < MOST_KEPT:
                self._kept.append(np.empty_like(self._array))
                return self._filled(self._kept[-1])
        return self._array.copy()

    def _filled(self, memory: np.ndarray) -> np.ndarray:
        np.copyto(memory, self._array)
        return memory


class Table:
    """Table of all agents of each area, or of some of them.

    The k-th of an area's `agents` sits in slot i * len(agents) + k, on team `teams[agents[k]]`. If there is a column
    `group_reward`, the agents of a team in an area form a group. If there is a column `acting`, it marks who awaits an
    action; otherwise all do.
    """

    def __init__(
        self,
        columns: Mapping[str, Tensor],
        teams: Sequence[int],
        agents: Sequence[int],
        prefix: str = "",
        images: ImageBuffers | None = None,
    ) -> None:
        """`teams`: of all of an area's agents; `prefix` begins the columns' names; `images` hold `obs_image`, if they
        take turns.
        """
        device = columns["reward"].device
        areas = len(columns["reward"]) // len(teams)
        self._columns = columns
        self._on_host = device.type == "cpu"
        obs = {name: column for name, column in columns.items() if name.startswith(f"{prefix}obs") and column.shape[1]}
        self.obs = tuple(
            images if images and name == "obs_image" else PooledCopies(column) for name, column in obs.items()
        )
        self._final_obs = tuple(
            column for name, column in columns.items() if name.startswith(f"{prefix}final_obs") and column.shape[1]
        )
        self._area = torch.arange(areas, device=device).repeat_interleave(len(agents))
        self._team = torch.tensor([teams[agent] for agent in agents], device=device).repeat(areas)
        self._slots = torch.arange(len(self._area), device=device)
        self._group = (
            self._area * (max(teams) + 1) + self._team
            if "group_reward" in columns
            else torch.full_like(self._slots, -1)
        )
        self.rows = (
            None
            if len(agents) == len(teams)
            else self._area * len(teams) + torch.tensor(agents, device=device).repeat(areas)
        )
        """(S,) int64: rows of its agents in columns with a row per agent; None: all rows."""
        self._acting = torch.ones_like(self._slots, dtype=torch.bool)
        self._no_group_reward = torch.zeros(len(self._slots), device=device)
        self._no_final_obs = FinalObs(self._slots[:0], tuple(column[:0].clone() for column in obs.values()))

    def make(self, ended: bool) -> TimeStep:
        """Returns the current TimeStep. `ended` tells whether an episode ended; it is ignored on an accelerator."""
        terminated = self._copied("terminated")
        truncated = self._copied("truncated")
        return TimeStep(
            obs=tuple([copies.take() for copies in self.obs]),
            acting=self._copied("acting") if "acting" in self._columns else self._acting,
            reward=self._copied("reward"),
            group_reward=self._copied("group_reward") if "group_reward" in self._columns else self._no_group_reward,
            terminated=terminated,
            truncated=truncated,
            final_obs=self._take_final_obs(terminated, truncated) if ended or not self._on_host else self._no_final_obs,
            action_mask=self._copied("mask") if "mask" in self._columns else None,
            area=self._area,
            team=self._team,
            group=self._group,
        )

    def _copied(self, name: str) -> Tensor:
        return self._columns[name].clone() if self.rows is None else self._columns[name][self.rows]

    def _take_final_obs(self, terminated: Tensor, truncated: Tensor) -> FinalObs:
        if not self._on_host:
            return FinalObs(self._slots, tuple([column.clone() for column in self._final_obs]))
        slots = (terminated | truncated).nonzero()[:, 0]
        rows = slots.numpy()  # torch's threads, which would gather them, keep their cores busy for a while afterwards
        return FinalObs(slots, tuple([torch.from_numpy(column.numpy()[rows]) for column in self._final_obs]))


class Tables:
    """One table for each behavior: a table of its own for each role, or each behavior's share of all slots."""

    def __init__(
        self,
        columns: Mapping[str, Tensor],
        names: Iterable[str],
        teams: Sequence[int],
        roles: Sequence[str] = (),
        images: ImageBuffers | None = None,
    ) -> None:
        """`roles` are the fixed behaviors of an area's agents, if they have any; `images` hold those that take
        turns.
        """
        self._columns = columns
        self._names = tuple(names)
        self._tables: dict[str, Table] = {}
        for name in self._names if roles else self._names[:1]:
            agents = [agent for agent in range(len(teams)) if not roles or roles[agent] == name]
            self._tables[name] = Table(columns, teams, agents, column_prefix(name) if roles else "", images)
        self._on_host = columns["reward"].device.type == "cpu"

    def make(self, ended: bool) -> dict[str, TimeStep]:
        """Returns the current TimeStep of each behavior. `ended` tells whether an episode ended; it is ignored on an
        accelerator.
        """
        steps = {name: table.make(ended) for name, table in self._tables.items()}
        if len(steps) == len(self._names):
            return steps
        (whole,) = steps.values()
        plays = self._columns["plays"]
        played = self._columns["played"]
        return {name: self._share(whole, plays == k, played == k) for k, name in enumerate(self._names)}

    def obs_copies(self) -> list[Callable[[], np.ndarray]]:
        """Returns for each observation of the first behavior what copies it, on the host."""
        return [copies.take_array for copies in next(iter(self._tables.values())).obs]

    def rows(self, name: str) -> Tensor | None:
        """(S,) int64: the rows of a behavior's slots in columns with a row per agent; None for all rows."""
        return self._tables[name].rows if name in self._tables else None

    def _share(self, whole: TimeStep, plays: Tensor, played: Tensor) -> TimeStep:
        """Returns one behavior's share: agents act by `plays` (S,), while rewards and ends belong to `played` (S,)."""
        final_obs = whole.final_obs
        if self._on_host:  # on an accelerator there is a row for every slot
            mine = played[final_obs.slots]
            final_obs = FinalObs(final_obs.slots[mine], tuple(obs[mine] for obs in final_obs.obs))
        return replace(
            whole,
            acting=whole.acting & plays,
            reward=whole.reward * played,
            group_reward=whole.group_reward * played,
            terminated=whole.terminated & played,
            truncated=whole.truncated & played,
            final_obs=final_obs,
        )
