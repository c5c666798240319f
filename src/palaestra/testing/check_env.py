"""The contract of an environment as a test: `check_env(MyEnv(areas=4))`.

It plays the same random valid actions twice and checks the results against the rules of
`palaestra.envs.base.Env` and the tables of `palaestra.core.timestep`. It raises an error for the first
broken rule, with the place and the value found there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import fields
from hashlib import blake2b
from typing import Any

import numpy as np
import torch
from torch import Tensor

from palaestra.core.errors import EnvError
from palaestra.core.specs import ActionSpec, BehaviorSpec
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.base import Env
from palaestra.envs.traits import ABILITIES, traits_of
from palaestra.testing.table_checks import check_table

KEPT = 3  # number of returned tables that are checked for later writes
NO_NAME = "no such parameter"

Steps = Mapping[str, TimeStep]
Actions = dict[str, Action]


def check_env(env: Env, ticks: int = 200, seed: int = 0) -> None:
    """Raises EnvError for the first rule that `env` breaks; closes it at the end.

    Plays three runs of at most `ticks` ticks: one, a repetition of it, and one that continues from a saved state.
    """
    _check_members(env)
    actions, marks = _play(env, ticks, seed)
    _check_same_stream(env, actions, marks, seed)
    _check_saving(env, actions, marks, seed)
    _check_parameters(env)
    _check_render(env)
    env.close()
    try:
        env.close()
    except Exception as error:
        raise EnvError(f"close may be called again, but the second call raised {_shown(error)}") from error


def _check_members(env: Any) -> None:
    names = [name for name in {**Env.__annotations__, **vars(Env)} if not name.startswith("_")]
    if missing := [name for name in names if not hasattr(env, name)]:
        raise EnvError(f"{type(env).__name__} lacks {', '.join(missing)}; palaestra.envs.base.Env explains them")
    if not isinstance(env.device, torch.device):
        raise EnvError(f"device is {env.device!r}; expected a torch.device")
    if isinstance(env.num_areas, bool) or not isinstance(env.num_areas, int) or env.num_areas < 1:
        raise EnvError(f"num_areas is {env.num_areas!r}; expected a whole number of at least 1")
    traits = traits_of(env)
    for trait, members in ABILITIES.items():
        if getattr(traits, trait) and (missing := [name for name in members if not hasattr(env, name)]):
            raise EnvError(f"traits.{trait} is {getattr(traits, trait)}, but {type(env).__name__} lacks {missing[0]}")
    for name, default in env.parameters.items():
        if not isinstance(default, (int, float)):
            raise EnvError(f"parameter '{name}' has the default {default!r}; expected a number")


def _play(env: Env, ticks: int, seed: int) -> tuple[list[Actions], list[dict[str, bytes]]]:
    """Plays one run and checks every table. Returns the actions, and a fingerprint of each table including reset's."""
    generator = torch.Generator().manual_seed(seed)
    watched = _Watched()
    steps = env.reset(seed)
    _check_tables(env, steps, {}, 0)
    _check_fresh(steps)
    actions = []
    marks = [hashes_of(steps)]
    acted = False
    for tick in range(1, ticks + 1):
        watched.add(steps)
        acted = acted or any(bool(step.acting.any()) for step in steps.values())
        # a behavior without acting slots needs no actions
        awaited = {name: step for name, step in steps.items() if bool(step.acting.any())}
        actions.append(
            {name: _random_action(env.behaviors[name].action, step, generator) for name, step in awaited.items()}
        )
        before = steps
        steps = env.step(actions[-1])
        _check_tables(env, steps, before, tick)
        watched.check(tick)
        marks.append(hashes_of(steps))
    if not acted:
        raise EnvError(f"no agent awaited an action in {ticks} ticks; expected 'acting' to be True somewhere")
    return actions, marks


def _check_tables(env: Env, steps: Steps, before: Steps, tick: int) -> None:
    if not env.behaviors:
        raise EnvError(f"tick {tick}: behaviors is empty; expected at least one from reset on")
    for name in steps:
        if name not in env.behaviors:
            raise EnvError(
                f"tick {tick}: behavior '{name}' appeared, but behaviors names only {', '.join(env.behaviors)}"
            )
    for name in before:
        if name not in env.behaviors:
            raise EnvError(f"tick {tick}: behavior '{name}' is gone from behaviors; it may gain names, never lose one")
    for name, spec in env.behaviors.items():
        if not isinstance(spec, BehaviorSpec):
            raise EnvError(f"behavior '{name}' is a {type(spec).__name__}; expected a BehaviorSpec")
        if name not in steps:
            if spec.steady:
                raise EnvError(
                    f"tick {tick}: behavior '{name}' is steady and has no table; a steady one acts on every tick"
                )
            continue
        where = f"tick {tick}, behavior '{name}'"
        check_table(steps[name], spec, env.device, env.num_areas, where)
        slots = len(steps[name].acting)
        had = len(before[name].acting) if name in before else 0
        if slots < had:
            raise EnvError(f"{where}: {slots} slots after {had}; slots stay, even where agents go")


def _check_fresh(steps: Steps) -> None:
    for name, step in steps.items():
        if bool((step.terminated | step.truncated).any()):
            raise EnvError(
                f"behavior '{name}': reset reports ended episodes; it must start a new episode in every area"
            )
        if bool(step.reward.any() or step.group_reward.any()):
            raise EnvError(f"behavior '{name}': reset gives rewards, before anyone acted; expected 0")


def _random_action(spec: ActionSpec, step: TimeStep, generator: torch.Generator) -> Action:
    """Draws actions that the mask allows, on the CPU, so that a seed gives the same ones on every device."""
    slots = len(step.acting)
    device = step.acting.device
    continuous = 2 * torch.rand(slots, spec.continuous, generator=generator) - 1
    mask = torch.ones(slots, spec.choices, dtype=torch.bool) if step.action_mask is None else step.action_mask.cpu()
    mask = mask | ~step.acting.cpu()[:, None]  # inactive slots may have no allowed choice
    branches = [torch.multinomial(allowed.float(), 1, generator=generator) for allowed in mask.split(spec.branches, 1)]
    discrete = torch.cat(branches, 1) if branches else torch.zeros(slots, 0, dtype=torch.int64)
    return Action(continuous.to(device), discrete.to(device))


class _Watched:
    """The last few tables that were returned, with copies of their contents."""

    def __init__(self) -> None:
        self._kept: deque[tuple[dict[str, Tensor], dict[str, Tensor]]] = deque(maxlen=KEPT)

    def add(self, steps: Steps) -> None:
        columns = _columns(steps)
        self._kept.append((columns, {name: column.clone() for name, column in columns.items()}))

    def check(self, tick: int) -> None:
        for age, (columns, copies) in enumerate(reversed(self._kept), 1):
            for name, column in columns.items():
                if not torch.equal(column, copies[name]):
                    raise EnvError(
                        f"tick {tick} wrote to {name} of the table returned {age} tick(s) before; a returned table "
                        "stays as it was"
                    )


def _columns(steps: Steps) -> dict[str, Tensor]:
    """Returns every tensor under a name such as "'3DBall' obs[0]"."""
    columns: dict[str, Tensor] = {}
    for behavior, step in steps.items():
        values = {field.name: getattr(step, field.name) for field in fields(step) if field.name != "final_obs"}
        values |= {"final_obs.slots": step.final_obs.slots, "final_obs.obs": step.final_obs.obs}
        for name, value in values.items():
            if isinstance(value, Tensor):
                columns[f"'{behavior}' {name}"] = value
            elif isinstance(value, tuple):
                columns |= {f"'{behavior}' {name}[{i}]": part for i, part in enumerate(value)}
    return columns


def hashes_of(steps: Steps) -> dict[str, bytes]:
    """Returns a hash of each column. Rows of `final_obs` of episodes that go on are left out: on an accelerator their
    values are undefined."""
    over = {f"'{name}'": (step.terminated | step.truncated)[step.final_obs.slots] for name, step in steps.items()}
    columns = {
        name: column[over[name.partition(" final_obs")[0]]] if " final_obs" in name else column
        for name, column in _columns(steps).items()
    }
    return {
        name: blake2b(column.cpu().contiguous().numpy().tobytes(), digest_size=16).digest()
        for name, column in columns.items()
    }


def _compare(found: dict[str, bytes], expected: dict[str, bytes], tick: int, rule: str) -> None:
    for name in {**expected, **found}:
        if found.get(name) != expected.get(name):
            raise EnvError(f"{rule}, but {name} differs at tick {tick}")


def _check_same_stream(env: Env, actions: list[Actions], marks: list[dict[str, bytes]], seed: int) -> None:
    rule = f"the same seed ({seed}) and actions give the same stream"
    _compare(hashes_of(env.reset(seed)), marks[0], 0, rule)
    for tick, action in enumerate(actions, 1):
        _compare(hashes_of(env.step(action)), marks[tick], tick, rule)


def _check_saving(env: Env, actions: list[Actions], marks: list[dict[str, bytes]], seed: int) -> None:
    """Saves in the middle, plays to the end, restores the state and plays the second half again."""
    middle = len(actions) // 2
    env.reset(seed)
    for action in actions[:middle]:
        env.step(action)
    state = env.state_dict()
    if not state:
        return
    for name, value in state.items():
        if not isinstance(value, Tensor):
            raise EnvError(f"state_dict: '{name}' is a {type(value).__name__}; expected a tensor")
    state = {name: value.clone() for name, value in state.items()}
    for action in actions[middle:]:
        env.step(action)
    env.load_state_dict(state)
    for tick, action in enumerate(actions[middle:], middle + 1):
        _compare(
            hashes_of(env.step(action)), marks[tick], tick, f"a state saved at tick {middle} continues as it did before"
        )


def _check_parameters(env: Env) -> None:
    env.set_parameters({name: torch.full((env.num_areas,), float(default)) for name, default in env.parameters.items()})
    try:
        env.set_parameters({NO_NAME: torch.zeros(env.num_areas)})
    except EnvError:
        return
    except Exception as error:
        raise EnvError(f"set_parameters must raise EnvError for an unknown name; it raised {_shown(error)}") from error
    raise EnvError(f"set_parameters took '{NO_NAME}'; it must raise EnvError for a name that is not in parameters")


def _check_render(env: Env) -> None:
    try:
        picture = env.render(0)
    except EnvError:
        return  # the environment cannot draw, and says so
    except Exception as error:
        raise EnvError(f"render must raise EnvError where there is no picture; it raised {_shown(error)}") from error
    found = f"{picture.dtype} {picture.shape}" if isinstance(picture, np.ndarray) else type(picture).__name__
    if not isinstance(picture, np.ndarray) or picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3:
        raise EnvError(f"render(0) gave {found}; expected a numpy array of uint8 (height, width, 3)")


def _shown(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
