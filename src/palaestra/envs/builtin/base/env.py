"""What every built-in environment is made of: columns on a device, two kernels, and the table that a tick gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
import warp as wp

from palaestra.core.errors import EnvError
from palaestra.core.plugins import nearest
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.builtin.base.tables import Tables, rows_of_roles
from palaestra.envs.builtin.base.world_columns import allocate, quiet_warp, resolve, seed_streams

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from palaestra.core.specs import BehaviorSpec

QUEUE = 32
"""Episodes of an area whose parameters can be set at once."""


@dataclass(frozen=True)
class Program:
    """The kernels of an environment and the Warp struct of columns that they work on.

    Columns have a row a slot, and these names have a meaning here: `action` (of hybrid actions
    `action_continuous` and `action_discrete`), `obs...` and for each its `final_obs...`, both in
    the order of the spec (one of no width is not shown), `reward`, `group_reward`, `terminated`, `truncated` and `mask`.
    `acting` says who awaits an action, where not all do: such a behavior is not steady.

    Where agents change their behavior, `plays` holds the number of the one that the agent belongs
    to from here on, `played` of that which its last decision, `reward` and end are of. Where each has a role instead,
    each behavior has `obs...` and `final_obs...` of its own, with a row for each of its own agents: `striker_obs` for a Striker.

    `pending` has a row an area: the parameters of its next episodes, (areas, QUEUE, P) in the order of `parameter_ranges`.
    `episodes` counts how many the area has begun: episode n takes column n modulo QUEUE.
    """

    world: Any
    begin: Any
    """(world), a thread an area: starts every area anew. `rng`, where there is such a column, has been seeded."""
    tick: Any
    """(world, report), a thread an area: one decision of its agents, started anew where it ended the episode. Sets report[0]
    where an episode ended, and report[1] to 1 + the slot of an action that is no number or no choice."""
    draw: Any = None
    """(world), a thread for each row of a slot's `obs_image`: paints it after `begin` and `tick`. None: nothing to paint."""
    area_columns: tuple[str, ...] = ()
    """Further columns with a row an area."""


class WarpEnv:
    """Every agent that is there decides on every tick; a tick is one launch, whatever the number of areas.

    Agent j of area i sits in slot i * agents + j. With several `behavior_names`, of one spec, it may go over
    from one to another as an episode starts. With `roles` it plays one for good, which has a spec and a table of its own.

    Columns are written in place by the kernels and cloned into each TimeStep. On CUDA all runs on
    torch's current stream and nothing waits for the device, so that a graph can hold a tick; there an
    action that is no number counts as doing nothing, where the CPU raises EnvError.
    """

    behavior: ClassVar[str]
    """What messages call the environment; its one behavior, unless `behavior_names` has others."""
    behavior_names: ClassVar[tuple[str, ...]] = ()
    """In the order of their numbers in `plays`. Several are not steady: an agent acts in one of them."""
    roles: ClassVar[tuple[str, ...]] = ()
    """The behavior of each of an area's agents, where each has one for good; all take actions of one shape."""
    agents: ClassVar[int] = 1
    """An area's."""
    teams: ClassVar[tuple[int, ...]] = ()
    """Of each of an area's agents; empty: all are of team 0."""
    summary: ClassVar[str]
    rewards: ClassVar[tuple[str, ...]]
    episode: ClassVar[str]
    benchmark: ClassVar[float | None]
    """Mean reward of an episode that a good policy earns; None where agents play one another and no mean tells."""
    default_areas: ClassVar[int]
    most_decisions: ClassVar[int | None] = None
    """After how many an episode is cut, as counted in the column `age`; None: it is not."""
    parameter_ranges: ClassVar[dict[str, tuple[float, float, float]]]
    """Default, least and most of each."""

    def __init__(
        self,
        program: Program,
        spec: BehaviorSpec | Mapping[str, BehaviorSpec],
        areas: int | None,
        device: str | torch.device,
        **sizes: int | tuple[int, ...],
    ) -> None:
        """`spec` is that of every behavior, or each one's where agents have `roles`.

        `sizes` are the scalars of the struct and the inner shapes of its columns of more than one dimension.
        """
        self.num_areas = self.default_areas if areas is None else areas
        if isinstance(self.num_areas, bool) or not isinstance(self.num_areas, int) or self.num_areas < 1:
            raise EnvError(f"{self.behavior} with {areas!r} areas: expected a whole number of at least 1")
        self.device = resolve(device)
        names = self.behavior_names or (self.behavior,)
        self.behaviors: Mapping[str, BehaviorSpec] = spec if isinstance(spec, Mapping) else dict.fromkeys(names, spec)
        self.parameters: Mapping[str, float] = {name: default for name, (default, _, _) in self.parameter_ranges.items()}
        self._bounds = {name: torch.tensor(ends, dtype=torch.float32).tolist() for name, (_, *ends) in self.parameter_ranges.items()}
        self._places = {name: k for k, name in enumerate(self.parameters)}
        self._started = False
        rows = dict.fromkeys(("pending", "episodes", *program.area_columns), self.num_areas)
        rows |= rows_of_roles(program.world.vars, self.roles, self.num_areas)
        slots = self.num_areas * self.agents
        self._world, self._columns = allocate(program.world, slots, self.device, rows, pending=(QUEUE, len(self.parameters)), **sizes)
        if self.parameters:
            self._columns["pending"].copy_(torch.tensor(list(self.parameters.values()), device=self.device))
        self._tables = Tables(self._columns, self.behaviors, self.teams or (0,) * self.agents, self.roles)
        self._report = torch.zeros(2, dtype=torch.int32, device=self.device)
        self._seen = self._report.numpy() if self.device.type == "cpu" else None  # None: reading it would wait
        self._streams: dict[int, wp.Stream] = {}
        with quiet_warp():  # the first launch compiles the kernels, unless Warp finds them in its cache
            self._seed = self._record(seed_streams, len(self._columns["rng"]), self._world.rng, 0) if "rng" in self._columns else None
            self._begin = self._record(program.begin, self.num_areas, self._world)
            self._tick = [self._record(program.tick, self.num_areas, self._world, wp.from_torch(self._report))]
            if program.draw is not None:
                self._tick.append(self._record(program.draw, (slots, self._columns["obs_image"].shape[2]), self._world))

    def _record(self, kernel: Any, threads: int | tuple[int, int], *inputs: Any) -> Any:
        """A launch that can be repeated at a fifth of the cost of a new one."""
        return wp.launch(kernel, dim=threads, inputs=inputs, device=str(self.device), record_cmd=True)

    def reset(self, seed: int) -> dict[str, TimeStep]:
        """Starts every area anew; an area's stream depends on the seed and its own number alone."""
        for name in ("reward", "group_reward", "terminated", "truncated"):
            if name in self._columns:
                self._columns[name].zero_()
        if self._seed is not None:
            self._seed.set_param_at_index(1, seed & 0x7FFFFFFF)
            self._run(self._seed)
        for launch in (self._begin, *self._tick[1:]):
            self._run(launch)
        self._started = True
        return self._tables.make(ended=False)

    def stagger(self, seed: int) -> None:
        """Right after `reset`: has each area's episode go on as if a part of its time, drawn for each, had passed already."""
        if self.most_decisions is None:
            raise EnvError(f"{self.behavior}: its episodes are not cut after a number of decisions, so that they cannot be staggered")
        generator, age = torch.Generator().manual_seed(seed), self._columns["age"]
        age.copy_(torch.randint(self.most_decisions, age.shape, generator=generator))

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        """One decision of every agent. Raises EnvError for actions that are missing or do not fit."""
        if not self._started:
            raise EnvError(f"{self.behavior}: step before reset; call reset(seed) first")
        for number, name in enumerate(self.behaviors):
            self._take(name, number, actions)
        if self._seen is not None:
            self._seen[:] = 0
        for launch in self._tick:
            self._run(launch)
        return self._tables.make(ended=self._has_ended())

    def _has_ended(self) -> bool:
        """Whether the tick ended an episode; False where that cannot be known without waiting."""
        if self._seen is None:
            return False
        ended, wrong = self._seen
        if wrong:
            raise EnvError(self._misfit(int(wrong) - 1))
        return bool(ended)

    def _take(self, name: str, number: int, actions: Mapping[str, Action]) -> None:
        """Writes the actions of one behavior to the slots that it plays."""
        rows = self._tables.rows(name)
        mine = self._columns["plays"] == number if len(self.behaviors) > 1 and not self.roles else None
        if name not in actions:
            if mine is not None and not mine.any():
                return
            raise EnvError(f"no actions for behavior '{name}' (there are some for: {', '.join(actions) or 'none'})")
        for column, taken in self._parts(name, actions[name]):
            shape = column.shape if rows is None else (len(rows), *column.shape[1:])
            if taken.shape != shape:
                raise EnvError(f"behavior '{name}': actions have shape {tuple(taken.shape)}, expected {tuple(shape)}")
            if rows is not None:
                column.index_copy_(0, rows, taken.to(column.dtype))
            else:
                column.copy_(taken if mine is None else torch.where(mine[:, None], taken, column))

    def _parts(self, name: str, action: Action) -> list[tuple[Tensor, Tensor]]:
        """Columns, each with what goes into it."""
        columns = self._columns
        if "action" in columns:
            return [(columns["action"], action.continuous if self.behaviors[name].action.continuous else action.discrete)]
        return [(columns["action_continuous"], action.continuous), (columns["action_discrete"], action.discrete)]

    def _misfit(self, row: int) -> str:
        names, agent = list(self.behaviors), row % self.agents
        name = self.roles[agent] if self.roles else names[int(self._columns["played"][row])] if len(names) > 1 else names[0]
        slot = row
        if self.roles:
            slot = row // self.agents * self.roles.count(name) + self.roles[:agent].count(name)
        spec, came = (
            self.behaviors[name].action,
            [column[row].tolist() for key, column in self._columns.items() if key.startswith("action")],
        )
        numbers = "finite numbers" if spec.continuous else ""
        choices = f"choices of branches {spec.branches}, counted from 0" if spec.branches else ""
        expected = " and ".join(part for part in (numbers, choices) if part)
        return f"behavior '{name}', agent {slot}: action {' and '.join(map(str, came))} must be {expected}"

    def set_parameters(self, values: Mapping[str, Tensor]) -> None:
        """One value an area, (num_areas,); each takes hold at that area's next episode. Raises EnvError where it cannot.

        Values that are on an accelerator, where nobody looks at them, are moved into their range.
        """
        checked = {name: self._checked(name, value, ()) for name, value in values.items()}
        for name, value in checked.items():
            self._columns["pending"][:, :, self._places[name]] = value[:, None]

    @property
    def queue_length(self) -> int:
        """Episodes that `queue_parameters` takes values for."""
        return QUEUE

    @property
    def episodes(self) -> Tensor:
        """(areas,) int64: how many each area has begun; without parameters nobody counts, and all are 0."""
        counted = self._columns.get("episodes")
        return torch.zeros(self.num_areas, dtype=torch.int64, device=self.device) if counted is None else counted.long()

    def queue_parameters(self, values: Mapping[str, Tensor]) -> None:
        """Each area's next episode gets the first of its row, (num_areas, queue_length), the one after it the second; then from the start.

        Raises EnvError as `set_parameters` does.
        """
        checked = {name: self._checked(name, value, (QUEUE,)) for name, value in values.items()}
        turns = (self.episodes[:, None] + torch.arange(QUEUE, device=self.device)) % QUEUE
        for name, value in checked.items():
            self._columns["pending"][:, :, self._places[name]] = torch.zeros_like(value).scatter_(1, turns, value)

    def _checked(self, name: str, value: Tensor, more: tuple[int, ...]) -> Tensor:
        if name not in self.parameter_ranges:
            known = ", ".join(self.parameter_ranges) or "none"
            raise EnvError(f"{self.behavior} has no parameter '{name}'{nearest(name, self.parameter_ranges)} (there are: {known})")
        if value.shape != (self.num_areas, *more):
            expected = f"{more[0] if more else 'one'} value{'s' * len(more)} an area, {(self.num_areas, *more)}"
            raise EnvError(f"{self.behavior}, parameter '{name}': shape {tuple(value.shape)}, expected {expected}")
        least, most = self._bounds[name]
        if value.device.type != "cpu":  # looking at it would wait
            return value.to(torch.float32).clamp(least, most)
        value = value.to(torch.float32)
        low, high = (float(end) for end in value.aminmax())
        if not (least <= low and high <= most):
            wrong = low if low < least else high
            raise EnvError(f"{self.behavior}, parameter '{name}' is {wrong:g}, expected a number within {least:g}..{most:g}")
        return value.to(self.device)

    def state_dict(self) -> dict[str, Tensor]:
        """A copy of every column."""
        return {name: column.clone() for name, column in self._columns.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Goes back to a saved state. Raises EnvError for one of another environment or number of areas."""
        if state.keys() != self._columns.keys():
            raise EnvError(f"{self.behavior}: the state has columns {sorted(state)}, expected {sorted(self._columns)}")
        for name, column in self._columns.items():
            if state[name].shape != column.shape:
                shapes = f"{tuple(state[name].shape)}, expected {tuple(column.shape)}"
                raise EnvError(f"{self.behavior}: the state's '{name}' has shape {shapes}; was it saved with another number of areas?")
        for name, column in self._columns.items():
            column.copy_(state[name])
        self._started = True

    def render(self, area: int) -> np.ndarray:
        """A picture of one area as it is now, (H, W, 3) uint8; waits for the device."""
        if not 0 <= area < self.num_areas:
            raise EnvError(f"{self.behavior} has no area {area}, only 0 to {self.num_areas - 1}")
        return self._picture({name: self._rows_of(area, column).cpu().numpy() for name, column in self._columns.items()})

    def _rows_of(self, area: int, column: Tensor) -> Tensor:
        rows = len(column) // self.num_areas
        return column[area] if rows == 1 else column[area * rows : (area + 1) * rows]

    def _picture(self, row: dict[str, np.ndarray]) -> np.ndarray:
        """Draws one area from its row of every column; of several agents, from theirs (agents, ...)."""
        raise EnvError(f"{self.behavior} has no picture")

    def close(self) -> None:
        """Nothing to free: the columns go with the last reference to them."""

    def _run(self, launch: Any) -> None:
        """Launches on torch's current stream, so that what torch does before and after stays in order."""
        if self.device.type == "cpu":
            launch.launch()
            return
        current = torch.cuda.current_stream(self.device)
        if current.cuda_stream not in self._streams:
            self._streams[current.cuda_stream] = wp.stream_from_torch(current)
        launch.launch(self._streams[current.cuda_stream])
