"""What every built-in environment is made of: columns on a device, two kernels, and the table that a tick gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
import warp as wp

from palaestra.core.errors import EnvError
from palaestra.core.registry import nearest
from palaestra.core.timestep import Action, Ends, TimeStep
from palaestra.envs.builtin.columns import allocate, quiet, resolve

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from palaestra.core.specs import BehaviorSpec


@dataclass(frozen=True)
class Program:
    """The kernels of an environment and the Warp struct of columns that they work on.

    Columns with these names have a meaning here: `action`, `obs...` and for each its
    `final_obs...`, `reward`, `terminated`, `truncated`, `mask`, `pending` (parameters that
    take hold at the next episode, (S, P) in the order of `parameter_ranges`).
    """

    world: Any
    begin: Any
    """(world, seed): starts every area anew."""
    tick: Any
    """(world, report): one decision, started anew where it ended the episode. Sets report[0] where an
    episode ended, and report[1] to 1 + the row of an action that is no number or no choice."""
    draw: Any = None
    """(world), a thread for each row of `obs_image`: paints it after `begin` and `tick`. None: nothing to paint."""


class WarpEnv:
    """One agent an area, every row decides on every tick; a tick is one launch, whatever the number of areas.

    Columns are written in place by the kernels and cloned into each TimeStep. On CUDA all runs on
    torch's current stream and nothing waits for the device, so that a graph can hold a tick; there an
    action that is no number counts as doing nothing, where the CPU raises EnvError.
    """

    behavior: ClassVar[str]
    summary: ClassVar[str]
    rewards: ClassVar[tuple[str, ...]]
    episode: ClassVar[str]
    benchmark: ClassVar[float]
    default_areas: ClassVar[int]
    parameter_ranges: ClassVar[dict[str, tuple[float, float, float]]]
    """Default, least and most of each."""

    def __init__(
        self, program: Program, spec: BehaviorSpec, areas: int | None, device: str | torch.device, **sizes: int | tuple[int, ...]
    ) -> None:
        """`sizes` are the scalars of the struct and the inner shapes of its columns of more than one dimension."""
        self.num_areas = self.default_areas if areas is None else areas
        if isinstance(self.num_areas, bool) or not isinstance(self.num_areas, int) or self.num_areas < 1:
            raise EnvError(f"{self.behavior} with {areas!r} areas: expected a whole number of at least 1")
        self.device = resolve(device)
        self.behaviors: dict[str, BehaviorSpec] = {self.behavior: spec}
        self.parameters: dict[str, float] = {name: default for name, (default, _, _) in self.parameter_ranges.items()}
        self._spec, self._program, self._started = spec, program, False
        self._world, self._columns = allocate(program.world, self.num_areas, self.device, pending=len(self.parameters), **sizes)
        if self.parameters:
            self._columns["pending"].copy_(torch.tensor(list(self.parameters.values()), device=self.device))
        self._obs = tuple(column for name, column in self._columns.items() if name.startswith("obs"))
        self._final_obs = tuple(column for name, column in self._columns.items() if name.startswith("final_obs"))
        self._report = torch.zeros(2, dtype=torch.int32, device=self.device)
        self._seen = self._report.numpy() if self.device.type == "cpu" else None  # None: reading it would wait
        self._streams: dict[int, wp.Stream] = {}
        with quiet():  # the first launch compiles the kernels, unless Warp finds them in its cache
            self._begin = self._record(program.begin, 0)
            self._tick = [self._record(program.tick, wp.from_torch(self._report))]
            if program.draw is not None:
                self._tick.append(self._record(program.draw, rows=self._columns["obs_image"].shape[2]))
        self._constant_columns()

    def _constant_columns(self) -> None:
        rows = torch.arange(self.num_areas, device=self.device)
        self._rows, self._team, self._alone = rows, torch.zeros_like(rows), torch.full_like(rows, -1)
        self._acting = torch.ones(self.num_areas, dtype=torch.bool, device=self.device)
        self._no_group_reward = torch.zeros(self.num_areas, device=self.device)
        self._no_ends = Ends(rows[:0], tuple(column[:0].clone() for column in self._obs))

    def _record(self, kernel: Any, *inputs: Any, rows: int = 1) -> Any:
        """A launch that can be repeated at a fifth of the cost of a new one."""
        dim = self.num_areas if rows == 1 else (self.num_areas, rows)
        return wp.launch(kernel, dim=dim, inputs=[self._world, *inputs], device=str(self.device), record_cmd=True)

    def reset(self, seed: int) -> dict[str, TimeStep]:
        """Starts every area anew; an area's stream depends on the seed and its own number alone."""
        self._begin.set_param_at_index(1, seed & 0x7FFFFFFF)
        for launch in (self._begin, *self._tick[1:]):
            self._run(launch)
        self._started = True
        return {self.behavior: self._table(self._no_ends)}

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        """One decision of every agent. Raises EnvError for actions that are missing or do not fit."""
        self._take(actions)
        if self._seen is not None:
            self._seen[:] = 0
        for launch in self._tick:
            self._run(launch)
        return {self.behavior: self._table(self._ends())}

    def _ends(self) -> Ends:
        if self._seen is None:
            return Ends(self._rows, tuple([column.clone() for column in self._final_obs]))
        ended, wrong = self._seen
        if wrong:
            row = int(wrong) - 1
            raise EnvError(f"behavior '{self.behavior}', agent {row}: action {self._columns['action'][row].tolist()} {self._what_fits()}")
        if not ended:
            return self._no_ends
        slots = (self._columns["terminated"] | self._columns["truncated"]).nonzero()[:, 0]
        return Ends(slots, tuple([column[slots] for column in self._final_obs]))

    def _take(self, actions: Mapping[str, Action]) -> None:
        column = self._columns["action"]
        if not self._started:
            raise EnvError(f"{self.behavior}: step before reset; call reset(seed) first")
        if self.behavior not in actions:
            raise EnvError(f"no actions for behavior '{self.behavior}' (there are some for: {', '.join(actions) or 'none'})")
        action = actions[self.behavior]
        taken = action.continuous if self._spec.action.continuous else action.discrete
        if taken.shape != column.shape:
            raise EnvError(f"behavior '{self.behavior}': actions have shape {tuple(taken.shape)}, expected {tuple(column.shape)}")
        column.copy_(taken)

    def _what_fits(self) -> str:
        if self._spec.action.continuous:
            return "must be finite numbers"
        return f"must be choices of branches {self._spec.action.branches}, counted from 0"

    def _table(self, ends: Ends) -> TimeStep:
        columns = self._columns
        return TimeStep(
            obs=tuple([column.clone() for column in self._obs]),
            acting=self._acting,
            reward=columns["reward"].clone(),
            group_reward=self._no_group_reward,
            terminated=columns["terminated"].clone(),
            truncated=columns["truncated"].clone(),
            ends=ends,
            action_mask=columns["mask"].clone() if "mask" in columns else None,
            area=self._rows,
            team=self._team,
            group=self._alone,
        )

    def set_parameters(self, values: Mapping[str, Tensor]) -> None:
        """One value an area, (num_areas,); each takes hold at that area's next episode. Raises EnvError where it cannot."""
        checked = {name: self._checked(name, value) for name, value in values.items()}
        for name, value in checked.items():
            self._columns["pending"][:, list(self.parameters).index(name)] = value

    def _checked(self, name: str, value: Tensor) -> Tensor:
        if name not in self.parameter_ranges:
            known = ", ".join(self.parameter_ranges) or "none"
            raise EnvError(f"{self.behavior} has no parameter '{name}'{nearest(name, self.parameter_ranges)} (there are: {known})")
        if value.shape != (self.num_areas,):
            raise EnvError(
                f"{self.behavior}, parameter '{name}': shape {tuple(value.shape)}, expected one value an area, ({self.num_areas},)"
            )
        _, least, most = self.parameter_ranges[name]
        for number in value.tolist():
            if not least <= number <= most:
                raise EnvError(f"{self.behavior}, parameter '{name}' is {number:g}, expected a number within {least:g}..{most:g}")
        return value.to(self.device, torch.float32)

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
        return self._picture({name: column[area].cpu().numpy() for name, column in self._columns.items()})

    def _picture(self, row: dict[str, np.ndarray]) -> np.ndarray:
        """Draws one area from its row of every column."""
        raise NotImplementedError

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
