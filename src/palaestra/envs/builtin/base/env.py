"""Base class of the built-in environments: columns on a device, two kernels, and a table for every tick."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
import warp as wp
from torch import Tensor

from palaestra.core.errors import EnvError, StateOfAnotherVersion
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.builtin.base.area_parameters import AreaParameters
from palaestra.envs.builtin.base.cores import CoreLaunches
from palaestra.envs.builtin.base.host_ticks import Given, HostTicks
from palaestra.envs.builtin.base.program import QUEUE, Program, shapes_from
from palaestra.envs.builtin.base.tables import Tables
from palaestra.envs.builtin.base.world_columns import (
    ImageBuffers,
    Rows,
    allocate,
    invalid_action,
    quiet_warp,
    resolve,
    rows_of_roles,
    seed_streams,
)
from palaestra.envs.builtin.drawing.raycast import picture_of
from palaestra.envs.given_actions import unknown
from palaestra.envs.traits import EnvTraits, SwapBoard

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palaestra.core.specs import BehaviorSpec
    from palaestra.envs.ray_fans import RayFan
    from palaestra.envs.solids import Drawing


class Launch:
    """A recorded launch of a kernel, which takes a fifth of the time of a new launch."""

    def __init__(self, kernel: Any, threads: int | tuple[int, int], device: torch.device, *inputs: Any) -> None:
        self.command: Any = wp.launch(kernel, dim=threads, inputs=inputs, device=str(device), record_cmd=True)
        self._device = device
        self._streams: dict[int, wp.Stream] = {}

    def __call__(self) -> None:
        """Launches on torch's current stream, so that the order with torch's own work is kept."""
        if self._device.type == "cpu":
            self.command.launch()
            return
        current = torch.cuda.current_stream(self._device)
        if current.cuda_stream not in self._streams:
            self._streams[current.cuda_stream] = wp.stream_from_torch(current)
        self.command.launch(self._streams[current.cuda_stream])


class WarpEnv:
    """Environment in which every agent decides on every tick; one kernel launch steps all areas.

    Agent j of area i sits in slot i * agents + j. With several `behavior_names`, which share a spec, an agent may
    change its behavior as an episode starts. With `roles` each agent keeps one behavior with its own spec and table.

    Kernels write the columns in place, and each TimeStep gets copies. On CUDA everything runs on torch's current stream
    and nothing waits for the device, so a graph can capture a tick; an invalid action then counts as doing nothing,
    while the CPU raises EnvError.
    """

    behavior: ClassVar[str]
    """The environment's only behavior; with `behavior_names` the name of the environment."""
    title: str = ""
    """Name of the environment in messages; left empty, it is `behavior`."""
    behavior_names: ClassVar[tuple[str, ...]] = ()
    """Behaviors in the order of their numbers in `plays`. If there are several, none is steady: an agent acts in one of
    them at a time."""
    roles: ClassVar[tuple[str, ...]] = ()
    """Behavior of each of an area's agents, if these behaviors never change; the actions of all behaviors have one
    shape."""
    agents: ClassVar[int] = 1
    """Number of agents in an area."""
    areas_per_core: ClassVar[int] = 1024
    """Fewest areas for which another core is used: their tick takes several times as long as waking a thread."""
    teams: ClassVar[tuple[int, ...]] = ()
    """Team of each of an area's agents; empty: all are on team 0."""
    summary: ClassVar[str]
    rewards: ClassVar[tuple[str, ...]]
    episode: ClassVar[str]
    benchmark: ClassVar[float | None]
    """Mean episode reward of a good policy; None if agents play one another, so that a mean says nothing."""
    default_areas: ClassVar[int]
    most_decisions: ClassVar[int | None] = None
    """Time limit of an episode; None: there is none."""
    age_per_decision: ClassVar[int] = 1
    """Number that a decision adds to the column `age`: its physics ticks, if `age` counts physics ticks."""
    parameter_ranges: ClassVar[dict[str, tuple[float, float, float]]]
    """Default, minimum and maximum of each parameter."""
    tick_seconds: float | None = None
    """Simulated seconds of a tick."""
    queue_length: ClassVar[int] = QUEUE
    """Number of episodes for which `queue_parameters` takes values."""
    ray_fans: ClassVar[Mapping[str, Sequence[RayFan]]] = {}
    """Fans of rays in its observations, by behavior."""
    truth: ClassVar[tuple[tuple[str, int], ...]] = ()
    """Parts of the observation `truth`: the words and the size of each part; empty: the world cannot tell its true
    state."""
    board: ClassVar[SwapBoard | None] = None
    """The board, for games whose moves exchange two pieces."""

    program: Program
    spec: BehaviorSpec | Mapping[str, BehaviorSpec]
    """Spec of every behavior, or a spec for each if agents have `roles`."""
    sizes: Mapping[str, Any] = {}
    """Inner shapes of the struct's columns of more than one dimension, and its scalars, or functions of (areas, device)
    that return these. Columns that follow from the spec can be left out."""
    rule: Callable[[Mapping[str, Tensor]], Tensor] | None = None
    """Returns the actions of all agents by a rule, from the columns of the world: continuous actions, or choices."""
    picture: Callable[[Rows, str], Drawing]
    """Draws some areas; the arguments are their rows of the world's columns and the name of the behavior."""

    def __init_subclass__(cls, like: type[WarpEnv] | None = None) -> None:
        """Copies the facts of the environment that this one is `like`, except the facts that this one states itself."""
        for name in WarpEnv.__annotations__ if like is not None else ():
            if name in vars(like) and name not in vars(cls):
                setattr(cls, name, vars(like)[name])

    def __init__(self, areas: int | None = None, device: str | torch.device = "cpu") -> None:
        """Allocates the columns and records the kernel launches. An environment with options sets its `spec` and
        `sizes` before.

        Raises EnvError for a bad number of areas or an unknown device.
        """
        program = self.program
        self.title = self.title or self.behavior
        self.num_areas = self.default_areas if areas is None else areas
        if isinstance(self.num_areas, bool) or not isinstance(self.num_areas, int) or self.num_areas < 1:
            raise EnvError(f"{self.title} with {areas!r} areas: expected a whole number of at least 1")
        self.device = resolve(device)
        names = self.behavior_names or (self.behavior,)
        spec = self.spec
        self.behaviors: Mapping[str, BehaviorSpec] = spec if isinstance(spec, Mapping) else dict.fromkeys(names, spec)
        self._started = False
        rows = dict.fromkeys(("rng", "age", "pending", "episodes", *program.area_columns), self.num_areas)
        rows |= rows_of_roles(program.world.vars, self.roles, self.num_areas)
        slots = self.num_areas * self.agents
        sizes = shapes_from(program, self.behaviors, bool(self.roles), len(self.parameter_ranges), self.sizes)
        self._world, self._columns = allocate(program.world, slots, self.num_areas, self.device, rows, sizes)
        self._parameters = AreaParameters(self.title, self.parameter_ranges, self._columns, self.num_areas)
        self.parameters: Mapping[str, float] = self._parameters.defaults
        self._images: ImageBuffers | None = None
        if program.image_columns and self.device.type == "cpu":
            self._images = ImageBuffers(self._columns, self._world, ("obs_image", *program.image_columns))
        self._tables = Tables(self._columns, self.behaviors, self.teams or (0,) * self.agents, self.roles, self._images)
        self._report = torch.zeros(2, dtype=torch.int32, device=self.device)
        # None: reading it would wait for the device
        self._host_report = self._report.numpy() if self.device.type == "cpu" else None
        with quiet_warp():  # the first launch compiles the kernels, unless Warp finds them in its cache
            rng = self._columns.get("rng")
            self._seed = None if rng is None else Launch(seed_streams, len(rng), self.device, self._world.rng, 0)
            self._begin = Launch(program.begin, self.num_areas, self.device, self._world)
            threads = -(-self.num_areas // (program.together if self.device.type == "cpu" else 1))
            self._tick = Launch(program.tick, threads, self.device, self._world, wp.from_torch(self._report))
            self._on_cores = cache(
                partial(CoreLaunches, program, self._world, self._columns, self.num_areas, self.agents, sizes)
            )
            self._draw = None
            if program.draw is not None:
                bands = -(-self._columns["obs_image"].shape[2] // program.draw_rows)
                self._draw = Launch(program.draw, (slots, bands), self.device, self._world)

    @cached_property
    def traits(self) -> EnvTraits:
        """Facts about the environment, and its abilities."""
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
            has_heuristic=self.rule is not None,
            draws=True,
        )

    def reset(self, seed: int) -> dict[str, TimeStep]:
        """Starts a new episode in every area; an area's random stream depends only on the seed and its own number."""
        for name in ("reward", "group_reward", "terminated", "truncated"):
            if name in self._columns:
                self._columns[name].zero_()
        if self._seed is not None:
            self._seed.command.set_param_at_index(1, seed & 0x7FFFFFFF)
            self._seed()
        self._begin()
        paint(self._draw, self._images, self._world)
        self._started = True
        return self._tables.make(ended=False)

    def stagger(self, seed: int) -> None:
        """Moves each area forward by a random part of its episode, so that episodes do not end together. Call it after
        `reset`.

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
            self._tables.write_actions(name, number, actions)
        return self._tables.make(ended=self._simulate(lambda name: self._tables.action_columns(name, actions[name])))

    @cached_property
    def host_ticks(self) -> HostTicks | None:
        """Returns an object that makes ticks as NumPy arrays; None on an accelerator, for several behaviors or hybrid
        actions, or if not every agent acts."""
        columns = self._columns
        if self.device.type != "cpu" or len(self.behaviors) > 1 or "action" not in columns or "acting" in columns:
            return None
        return HostTicks(columns, self._tables.obs_copies(), self._simulate)

    def _simulate(self, given: Given) -> bool:
        """Makes a tick; returns whether it ended an episode, False where reading that would wait for the device.
        `given`: for errors."""
        if self._host_report is not None:
            self._host_report[:] = 0
        cores = (
            min(torch.get_num_threads(), self.num_areas // self.areas_per_core) if self._host_report is not None else 1
        )
        if cores > 1:
            self._on_cores(cores).run(self._host_report)
        else:
            self._tick()
        paint(self._draw, self._images, self._world)
        if self._host_report is None:
            return False
        ended, wrong = self._host_report
        if wrong:
            raise EnvError(
                invalid_action(given, self.behaviors, self.roles, self.agents, self._columns, int(wrong) - 1)
            )
        return bool(ended)

    def set_parameters(self, values: Mapping[str, Tensor]) -> None:
        """Sets one value per area, (num_areas,), from that area's next episode on. Raises EnvError for unknown names
        and bad values."""
        self._parameters.set(values)

    def queue_parameters(self, values: Mapping[str, Tensor]) -> None:
        """Sets the values of each area's next episodes, (num_areas, queue_length), in order; after the last value they
        repeat. Raises EnvError as `set_parameters` does."""
        self._parameters.queue(values)

    @property
    def episodes(self) -> Tensor:
        """(areas,) int64: how many episodes each area has begun; always 0 in environments without parameters."""
        return self._parameters.episodes

    def state_dict(self) -> dict[str, Tensor]:
        """Returns a copy of every column except empty ones."""
        return {name: column.clone() for name, column in self._columns.items() if column.numel()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restores a saved state. Raises StateOfAnotherVersion if the state has other columns, EnvError if it has
        another number of areas."""
        state, columns = ({n: x for n, x in one.items() if x.numel()} for one in (state, self._columns))
        if state.keys() != columns.keys():
            raise StateOfAnotherVersion(
                f"{self.title}: the state has columns {sorted(state)}, expected {sorted(columns)}"
            )
        for name, column in columns.items():
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
        for name, saved in state.items():
            self._columns[name].copy_(saved)
        self._started = True

    def heuristic(self, behavior: str, slots: NDArray[np.int64] | None = None) -> Action | None:
        """Returns the actions of `rule` for a behavior's agents; None if there is no rule, or no such behavior."""
        if self.rule is None or behavior not in self.behaviors:
            return None
        chosen = self.rule(self._columns)
        if (rows := self._tables.rows(behavior)) is not None:
            chosen = chosen[rows]
        action = self.behaviors[behavior].action
        if action.continuous:
            return Action(chosen, chosen.new_zeros((len(chosen), len(action.branches)), dtype=torch.int64))
        return Action(chosen.new_zeros((len(chosen), 0), dtype=torch.float32), chosen)

    def drawing(self, areas: NDArray[np.int64]) -> Drawing:
        """Returns the current solids of these areas (A,), in this order; waits for the device. Raises EnvError for an
        unknown area."""
        chosen = np.asarray(areas, np.int64)
        if unknown := [area for area in chosen.tolist() if not 0 <= area < self.num_areas]:
            raise EnvError(f"{self.title} has no area {unknown[0]}, only 0 to {self.num_areas - 1}")
        rows = Rows(self._columns, chosen, self.num_areas, self.roles or (self.behavior,) * self.agents)
        return self.picture(rows, self.behavior)

    def render(self, area: int) -> np.ndarray:
        """Returns a picture of one area in its current state, (H, W, 3) uint8; waits for the device."""
        return picture_of(self.drawing(np.array([area])))

    def close(self) -> None:
        """Does nothing: the columns are freed with the last reference to them."""


def paint(draw: Launch | None, images: ImageBuffers | None, world: Any) -> None:
    """Paints the agents' images, if they have any. `images`: two sets of buffers, used alternately."""
    if draw is None:
        return
    if images is not None:
        images.turn()
        draw.command.set_param_at_index(0, world)
    draw()
