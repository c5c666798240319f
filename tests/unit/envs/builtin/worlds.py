"""Decisions in built-in worlds, and states of a test's own."""

from typing import TypeVar

import torch

from palaestra.core.plugins import registry
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.builtin.base.env import WarpEnv
from palaestra.runtime.environments.make import make_env

NAMES = [name for name in registry("envs").names() if name != "PushBlockCollab"]
World = TypeVar("World", bound=WarpEnv)


def made(name: str, areas: int, **options: object) -> WarpEnv:
    env = make_env(f"builtin:{name}", areas=areas, options=options)
    assert isinstance(env, WarpEnv)
    return env


def act(env: WarpEnv, *given: object) -> TimeStep:
    """One decision: choices or numbers, one row for each agent, or fewer that repeat; a tensor has all rows."""
    ((behavior, spec),) = env.behaviors.items()
    rows = given[0] if isinstance(given[0], torch.Tensor) else torch.tensor(given)
    rows = rows.reshape(len(rows), -1).repeat(env.num_areas * env.agents // len(rows), 1)
    if spec.action.continuous:
        return env.step({behavior: Action(rows, torch.zeros(len(rows), 0, dtype=torch.int64))})[behavior]
    return env.step({behavior: Action(torch.zeros(len(rows), 0), rows)})[behavior]


def nothing(env: WarpEnv) -> dict[str, Action]:
    """Actions of all agents that do nothing."""
    rows = {behavior: slots_of(env, behavior) for behavior in env.behaviors}
    return {
        behavior: Action(
            torch.zeros(rows[behavior], spec.action.continuous),
            torch.zeros(rows[behavior], len(spec.action.branches), dtype=torch.int64),
        )
        for behavior, spec in env.behaviors.items()
    }


def still(env: WarpEnv) -> TimeStep:
    """One decision in which nobody does anything, in a world of one behavior."""
    (step,) = env.step(nothing(env)).values()
    return step


def change(env: WarpEnv, **columns: object) -> None:
    """Sets columns of the state; rows of one area hold for all."""
    state = env.state_dict()
    for name, value in columns.items():
        rows = torch.as_tensor(value, dtype=state[name].dtype)
        if rows.ndim == state[name].ndim:
            rows = rows.repeat(len(state[name]) // len(rows), *[1] * (rows.ndim - 1))
        state[name][:] = rows
    env.load_state_dict(state)


def begun(env: World, **columns: object) -> World:
    """A world that has been reset, with these columns."""
    env.reset(0)
    change(env, **columns)
    return env


def slots_of(env: WarpEnv, behavior: str) -> int:
    """The number of a behavior's slots."""
    return env.num_areas * (env.roles.count(behavior) if env.roles else env.agents)


def chance(env: WarpEnv, generator: torch.Generator) -> dict[str, Action]:
    """Random actions of all agents; masks are not looked at."""
    actions = {}
    for behavior, spec in env.behaviors.items():
        rows = slots_of(env, behavior)
        numbers = 2 * torch.rand(rows, spec.action.continuous, generator=generator) - 1
        branches = [torch.randint(0, size, (rows, 1), generator=generator) for size in spec.action.branches]
        actions[behavior] = Action(numbers, torch.cat([torch.zeros(rows, 0, dtype=torch.int64), *branches], 1))
    return actions


def by_chance(env: WarpEnv, generator: torch.Generator) -> TimeStep:
    """One random decision of all agents, in a world of one behavior."""
    (step,) = env.step(chance(env, generator)).values()
    return step
