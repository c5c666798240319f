"""Decisions in built-in worlds, and states of a test's own."""

from __future__ import annotations

import torch

from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.builtin.base.env import WarpEnv


def act(env: WarpEnv, *given: object) -> TimeStep:
    """One decision: choices or numbers, one row for each agent, or fewer that repeat; a tensor has all rows."""
    ((behavior, spec),) = env.behaviors.items()
    rows = given[0] if isinstance(given[0], torch.Tensor) else torch.tensor(given)
    rows = rows.reshape(len(rows), -1).repeat(env.num_areas * env.agents // len(rows), 1)
    if spec.action.continuous:
        return env.step({behavior: Action(rows, torch.zeros(len(rows), 0, dtype=torch.int64))})[behavior]
    return env.step({behavior: Action(torch.zeros(len(rows), 0), rows)})[behavior]


def still(env: WarpEnv) -> TimeStep:
    """One decision in which nobody does anything, in a world of one behavior and one kind of actions."""
    ((_, spec),) = env.behaviors.items()
    return act(env, [0.0] * spec.action.continuous or [0] * len(spec.action.branches))


def change(env: WarpEnv, **columns: object) -> None:
    """Sets columns of the state."""
    state = env.state_dict()
    for name, value in columns.items():
        state[name][:] = torch.as_tensor(value)
    env.load_state_dict(state)


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
