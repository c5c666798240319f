"""The state of a collector in a checkpoint: the environment, its current tables, and each behavior's open rollout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from palaestra.core.errors import StateOfAnotherVersion
from palaestra.core.timestep import FinalObs, TimeStep
from palaestra.envs.wrapper import EnvWrapper
from palaestra.runtime.collect.acting_policy import brains_of
from palaestra.runtime.collect.collector import BehaviorCollector, Collector


def state_of(collector: Collector) -> dict[str, Any]:
    """Returns the state of the environment, its current tables, and each behavior's open rollout. Call `take` of all
    episode meters first."""
    return {
        "env": dict(collector.env.state_dict()),
        "on_host": collector.on_host,
        "areas": collector.env.num_areas,
        "steps": {name: pack(step) for name, step in collector.steps.items()},
        "behaviors": {
            name: {
                "decisions": one.decisions,
                "agents": one.agents,
                "meter": one.meter.state_dict(),
                "recurrent_state": one.policy.recurrent_state,
                "brains": [brain.random_state for brain in brains_of(one.policy)],
                "buffer": None if one.buffer is None else one.buffer.state_dict(),
            }
            for name, one in collector.collectors.items()
        },
    }


def restore(collector: Collector, state: Mapping[str, Any], seed: int, *, episodes: bool = True) -> bool:
    """Restores a state. Returns whether the environment's episodes continue as well; never if `episodes` is False.

    They do not continue if the environment cannot be saved, has other areas, behaviors or columns, or moved to or from
    an accelerator: then new episodes start from `seed`, and the rollouts are collected again. Decisions and brains'
    random streams are restored when a behavior joins (`SavedRun`).
    """
    device = collector.env.device
    restored = episodes and _fits(collector, state) and _restores(collector.env, state["env"])
    if restored:
        collector.go_on({name: unpack(on(saved, device)) for name, saved in state["steps"].items()})
    else:
        collector.restart(seed)
    for name, step in collector.steps.items() if restored else ():
        if name in state["behaviors"]:
            _restore_episodes(collector.collectors[name], state["behaviors"][name], step, device)
    return restored


def restore_brains(one: BehaviorCollector, saved: Mapping[str, Any]) -> None:
    """Restores the random streams of the brains that act for a behavior, from its part of `state_of`."""
    brains = brains_of(one.policy)
    if len(brains) == len(saved["brains"]):  # else they are others now
        for brain, position in zip(brains, saved["brains"], strict=True):
            brain.random_state = position


def _restore_episodes(one: BehaviorCollector, saved: Mapping[str, Any], step: TimeStep, device: torch.device) -> None:
    """`step`: the table with which its episodes go on."""
    one.agents = saved["agents"]
    one.meter.load_state_dict(saved["meter"])
    if saved["recurrent_state"].shape[1] == one.policy.recurrent_state.shape[1]:  # else noise was held otherwise then
        one.policy.recurrent_state = on(saved["recurrent_state"], device)
    restore_buffer(one, saved["buffer"], step)


def restore_buffer(one: BehaviorCollector, saved: Mapping[str, Any] | None, step: TimeStep) -> None:
    """Restores a behavior's open rollout, if there was one. `step`: the table with which its episodes continue."""
    if saved is not None and one.rollout_size is not None:
        one.buffer = one.make_buffer(step, one.policy.blank(step))
        if saved["kind"] == type(one.buffer).__name__:  # else opponents came or went
            one.buffer.load_state_dict(on(saved, step.reward.device))


def _fits(collector: Collector, state: Mapping[str, Any]) -> bool:
    """Whether the environment can continue from these tables. Only behaviors that are not steady may have grown."""
    now = {name: len(step.reward) for name, step in collector.steps.items()}
    then = {name: len(saved["reward"]) for name, saved in state["steps"].items()}
    same_place = state["on_host"] == collector.on_host
    if not state["env"] or not same_place or now.keys() != then.keys():
        return False
    same_areas = state["areas"] == collector.env.num_areas
    may_grow = {name: same_areas and not collector.collectors[name].spec.steady for name in now}
    return all(then[name] == slots or (may_grow[name] and then[name] > slots) for name, slots in now.items())


def _restores(env: EnvWrapper, saved: Mapping[str, Any]) -> bool:
    try:
        env.load_state_dict(saved)
    except StateOfAnotherVersion:
        return False
    return True


def on(state: Any, device: torch.device) -> Any:
    """Returns the same containers with their tensors on a device. A checkpoint's tensors are on the CPU."""
    if isinstance(state, torch.Tensor):
        return state.to(device)
    if isinstance(state, Mapping):
        return {key: on(value, device) for key, value in state.items()}
    return type(state)(on(value, device) for value in state) if isinstance(state, list | tuple) else state


def pack(step: TimeStep) -> dict[str, Any]:
    """Returns a TimeStep as plain containers of tensors."""
    columns = {name: getattr(step, name) for name in step.__slots__ if name != "final_obs"}
    return {**columns, "final_obs": {"slots": step.final_obs.slots, "obs": step.final_obs.obs}}


def unpack(state: Mapping[str, Any]) -> TimeStep:
    """Returns the TimeStep that was given to `pack`."""
    final_obs = FinalObs(state["final_obs"]["slots"], tuple(state["final_obs"]["obs"]))
    columns = {name: column for name, column in state.items() if name != "final_obs"}
    return TimeStep(**{**columns, "obs": tuple(state["obs"]), "final_obs": final_obs})
