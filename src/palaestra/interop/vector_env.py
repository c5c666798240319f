"""Many agents at once in Gymnasium's vector interface: `gymnasium.make_vec("palaestra/PushBlock-v0", num_envs=1024)`.

A whole table of the environment is one step: nothing here loops over agents, and arrays are views of the tables'
memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from torch import Tensor

from palaestra.core.errors import EnvError
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.spaces.behavior_spaces import CONTINUOUS, DISCRETE, BehaviorSpaces
from palaestra.interop.named_agents import SUCCESS
from palaestra.interop.opened_env import MOST_SEED, OpenedEnv, Tables, checked_seed, why_no_batch
from palaestra.interop.single_env import fps, reset_parameters
from palaestra.interop.windows import Window, render_modes


def make_vector(
    env: str,
    num_envs: int = 1,
    *,
    render_mode: str | None = None,
    device: str = "cpu",
    seed: int | None = None,
    tensors: bool = False,
    **options: Any,
) -> TableVectorEnv:
    """Opens a built-in environment with the number of areas that gives `num_envs` agents.

    `tensors`: actions, observations, rewards and ends are torch tensors on `device`. `seed` is used by the first reset
    that has no seed of its own; without `seed` that seed is drawn at random. `options` are the environment's options;
    `parameters` among them sets environment parameters by name: one number, or one for each area. Raises EnvError, also
    for agents that cannot be stepped as one batch.
    """
    if isinstance(num_envs, bool) or not isinstance(num_envs, int | np.integer) or num_envs < 1:
        raise EnvError(f"{env}: num_envs is {num_envs!r}; expected a whole number of at least 1")
    num_envs = int(num_envs)
    # which may have a value for each area
    plain = {key: value for key, value in options.items() if key != "parameters"}
    opened = OpenedEnv(env, plain, num_areas=1, device=device, seed=seed)
    agents = _agents_per_area(opened)
    if num_envs % agents:
        opened.close()
        raise EnvError(
            f"{env} has {agents} agents in each area, and each is one of num_envs: {num_envs} is no multiple of "
            f"{agents}"
        )
    if num_envs != agents or plain.keys() != options.keys():
        opened.close()
        opened = OpenedEnv(env, options, num_areas=num_envs // agents, device=device, seed=seed)
    return TableVectorEnv(opened, render_mode, seed=seed, tensors=tensors)


def _agents_per_area(env: OpenedEnv) -> int:
    """Returns the number of agents in an area. Raises EnvError, after closing it, if they cannot be one batch."""
    why = why_no_batch(env)
    if why is None:
        return len(next(iter(env.tables.values())).acting)
    env.close()
    raise EnvError(
        f"{env.name} cannot be a vector environment, because {why}: use palaestra.pettingzoo.parallel_env('{env.name}')"
    )


class TableVectorEnv(VectorEnv[Any, Any, Any]):
    """Vector environment of all agents of an environment; each agent is one of its `num_envs`.

    Episodes restart on the step on which they end (SAME_STEP); infos then have `final_obs` and `final_info`. Rewards
    contain the rewards of groups. Infos have `action_mask` (num_envs, choices) int8 if the environment masks actions,
    and `behavior` (num_envs,), the number of each agent's behavior, if there are several behaviors.
    """

    def __init__(
        self, env: OpenedEnv, render_mode: str | None = None, *, seed: int | None = None, tensors: bool = False
    ) -> None:
        self._env = env
        self.tensors = tensors
        self.device = env.env.device
        self._first_seed = seed
        self._on_cpu = self.device.type == "cpu"
        self._first = next(iter(env.tables))
        step = env.tables[self._first]
        self.num_envs = len(step.acting)
        self._spaces = BehaviorSpaces(env.env.behaviors[self._first])
        self._names = self._spaces.names
        self._several = len(env.tables) > 1
        self._in_groups = bool((step.group >= 0).any())
        self._masked = step.action_mask is not None
        self.single_observation_space = self._spaces.observation
        self.single_action_space = self._spaces.action
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._window = Window.for_mode(render_mode, env)
        self.render_mode = render_mode
        self.metadata = {
            "render_modes": render_modes(env),
            "render_fps": fps(env),
            "autoreset_mode": AutoresetMode.SAME_STEP,
        }
        spec = self._spaces.spec.action
        self._no_numbers = torch.zeros(self.num_envs, spec.continuous, device=self.device)
        self._no_choices = torch.zeros(self.num_envs, len(spec.branches), dtype=torch.int64, device=self.device)
        self._masks: Tensor | None = None
        self._begun = False

    @property
    def max_episode_steps(self) -> int | None:
        """Time limit of an episode in steps; None if it is unknown."""
        return self._env.env.traits.max_episode_steps

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins new episodes. `options={"parameters": {...}}` sets parameters: one number for all areas, or one for
        each area."""
        self._env.check_open()
        seed = checked_seed(self._env.name, self._first_seed if seed is None else seed)
        self._first_seed = None
        super().reset(seed=seed)
        if values := reset_parameters(options):
            self._env.set_parameters(values)
        self._begun = True
        tables = self._env.reset(int(self.np_random.integers(MOST_SEED)) if seed is None else seed)
        self._window.show(self.render_mode)
        return self._observe(tables[self._first].obs), self._infos(tables)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Acts for one step with all agents; continuous actions are clipped to -1..1. Raises EnvError."""
        if not self._begun:
            self._env.check_open()
            raise ResetNeeded("no episode has begun; call reset() before step()")
        if not self.tensors and isinstance(actions, np.ndarray) and (ticks := self._env.env.host_ticks) is not None:
            wanted = ticks.action
            if (
                actions.dtype == wanted.dtype
                and actions.size == wanted.size
                and actions.shape in (wanted.shape, self.action_space.shape)
            ):
                return self._step_arrays(ticks, actions.reshape(wanted.shape))
        action = self._action(actions)
        tables = self._env.step({self._first: action} if not self._several else dict.fromkeys(self._env.tables, action))
        step = tables[self._first] if not self._several else merged(tables)
        infos = self._infos(tables)
        if len(step.final_obs.slots):
            self._add_ends(infos, step)
        self._window.show(self.render_mode)
        reward = step.reward + step.group_reward if self._in_groups else step.reward
        return self._observe(step.obs), self._out(reward), self._out(step.terminated), self._out(step.truncated), infos

    def _step_arrays(self, ticks: Any, actions: np.ndarray) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Steps without a table: half of a small environment's tick is spent on tensor calls."""
        step = ticks.step(actions)
        infos: dict[str, Any] = {}
        if step.mask is not None:
            self._masks = torch.from_numpy(step.mask)
            infos["action_mask"] = step.mask.view(np.int8)
        if step.rows is not None:
            final = np.empty(self.num_envs, object)
            final[step.rows] = self._each(step.final_obs)
            infos |= {"final_obs": final, "_final_obs": step.ended, "final_info": {}, "_final_info": step.ended}
        self._window.show(self.render_mode)
        obs = step.obs[0] if len(step.obs) == 1 else dict(zip(self._names, step.obs, strict=True))
        return obs, step.reward, step.terminated, step.truncated, infos

    def _each(self, columns: list[np.ndarray]) -> np.ndarray:
        """Returns each row as Gymnasium has it, an array of objects."""
        rows = (
            columns[0]
            if len(columns) == 1
            else [dict(zip(self._names, row, strict=True)) for row in zip(*columns, strict=True)]
        )
        return np.fromiter(rows, object, len(rows))

    def action_masks(self) -> Any:
        """Returns a mask of the choices allowed now, (num_envs, choices) bool, all branches one after another."""
        choices = self._spaces.spec.action.choices
        masks = (
            torch.ones(self.num_envs, choices, dtype=torch.bool, device=self.device)
            if self._masks is None
            else self._masks
        )
        return self._out(masks)

    def set_parameters(self, **values: Any) -> None:
        """Sets parameters from the next episode on: a number, or one number for each area. Raises EnvError."""
        self._env.set_parameters(values)

    def render(self) -> Any:
        """Returns the first area's picture in a tuple (`rgb_array`); None in mode `human`, which shows a window."""
        self._env.check_open()
        picture = self._window.picture(self.render_mode)
        return None if picture is None else (picture,)

    def close_extras(self, **kwargs: Any) -> None:
        """Closes the environment."""
        self._begun = False
        self._window.close()
        self._env.close()

    def _action(self, actions: Any) -> Action:
        """Returns the table of actions. Raises EnvError for a wrong shape or type."""
        spec = self._spaces.spec.action
        try:
            hybrid = spec.continuous and spec.branches
            numbers = (
                self._column(actions[CONTINUOUS] if hybrid else actions, torch.float32)
                if spec.continuous
                else self._no_numbers
            )
            choices = (
                self._column(actions[DISCRETE] if hybrid else actions, torch.int64)
                if spec.branches
                else self._no_choices
            )
        except (TypeError, ValueError, KeyError, IndexError, RuntimeError) as error:
            raise EnvError(
                f"{self._env.name}: the actions are {_described(actions)}; expected {self.action_space} ({error})"
            ) from error
        if choices.ndim == 1 and len(spec.branches) == 1:
            choices = choices[:, None]
        if numbers.shape != self._no_numbers.shape or choices.shape != self._no_choices.shape:
            raise EnvError(f"{self._env.name}: the actions are {_described(actions)}; expected {self.action_space}")
        return Action(numbers.clamp(-1.0, 1.0) if spec.continuous else numbers, choices)

    def _column(self, values: Any, dtype: torch.dtype) -> Tensor:
        if isinstance(values, np.ndarray) and values.flags.c_contiguous:
            column = torch.from_numpy(values)
        else:
            column = values if isinstance(values, Tensor) else torch.from_numpy(np.ascontiguousarray(values))
        if dtype == torch.int64 and (column.is_floating_point() or column.dtype == torch.bool):
            raise ValueError("choices are whole numbers")
        if column.dtype is dtype and column.device == self.device and not column.requires_grad:
            return column
        return column.detach().to(self.device, dtype)

    def _observe(self, columns: tuple[Tensor, ...]) -> Any:
        if len(columns) == 1:
            return self._out(columns[0])
        return {name: self._out(column) for name, column in zip(self._names, columns, strict=True)}

    def _out(self, column: Tensor) -> Any:
        if self.tensors:
            return column
        return column.numpy() if self._on_cpu else column.cpu().numpy()

    def _infos(self, tables: Tables) -> dict[str, Any]:
        infos: dict[str, Any] = {}
        if self._masked:
            self._masks = tables[self._first].action_mask
            assert self._masks is not None
            infos["action_mask"] = self._out(self._masks.to(torch.int8))
        if self._several:
            others = [step.acting for step in tables.values()][1:]
            infos["behavior"] = self._out(
                torch.stack([number * acting for number, acting in enumerate(others, 1)]).sum(0)
            )
        return infos

    def _add_ends(self, infos: dict[str, Any], step: TimeStep) -> None:
        """Adds the last observations of ended episodes: arrays of objects as Gymnasium, or whole tensors."""
        ended = step.terminated | step.truncated
        slots = step.final_obs.slots
        final_info: dict[str, Any] = {}
        if step.success is not None:
            reported = ended & ~step.success.isnan()
            final_info = {SUCCESS: self._out(step.success.nan_to_num()), f"_{SUCCESS}": self._out(reported)}
        if self.tensors:
            columns = [_spread(column, slots, self.num_envs) for column in step.final_obs.obs]
            final: Any = columns[0] if len(columns) == 1 else dict(zip(self._names, columns, strict=True))
        else:
            rows = self._out(ended).nonzero()[0]
            columns = [self._out(column) for column in step.final_obs.obs]
            columns = columns if len(slots) == len(rows) else [column[rows] for column in columns]
            final = np.empty(self.num_envs, object)
            final[rows] = self._each(columns)
        mask = self._out(ended)
        infos |= {"final_obs": final, "_final_obs": mask, "final_info": final_info, "_final_info": mask}


def merged(tables: Mapping[str, TimeStep]) -> TimeStep:
    """Returns one table of agents that act in one of several behaviors at a time, with all rewards and ends."""
    steps = [*tables.values()]
    first = steps[0]
    total = torch.stack([step.reward for step in steps]).sum(0)
    terminated = torch.stack([step.terminated for step in steps]).any(0)
    truncated = torch.stack([step.truncated for step in steps]).any(0)
    final_obs = first.final_obs
    if any(len(step.final_obs.slots) != len(final_obs.slots) for step in steps) or len(final_obs.slots) < len(
        terminated
    ):
        slots, order = torch.cat([step.final_obs.slots for step in steps]).sort()
        columns = zip(*(step.final_obs.obs for step in steps), strict=True)
        final_obs = type(final_obs)(slots, tuple(torch.cat(column)[order] for column in columns))
    group_reward = torch.stack([step.group_reward for step in steps]).sum(0)
    return replace(
        first, reward=total, group_reward=group_reward, terminated=terminated, truncated=truncated, final_obs=final_obs
    )


def _spread(rows: Tensor, slots: Tensor, size: int) -> Tensor:
    """Returns a column (size, ...) with the rows at their slots and zeros elsewhere."""
    return rows if len(rows) == size else rows.new_zeros(size, *rows.shape[1:]).index_copy_(0, slots, rows)


def _described(actions: Any) -> str:
    shape = getattr(actions, "shape", None)
    dtype = getattr(actions, "dtype", None)
    return f"a {type(actions).__name__}" if shape is None else f"{dtype} {tuple(shape)}"
