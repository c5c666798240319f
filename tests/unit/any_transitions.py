"""Transitions at random, for what judges them."""

import torch
from torch import Tensor

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.core.timestep import Action
from palaestra.data.transitions import Transitions

CPU = torch.device("cpu")
EVERYTHING = BehaviorSpec(
    (
        ObsSpec("vector", (5,)),
        ObsSpec("image", (1, 20, 20)),
        ObsSpec("goal", (2,), goal=True),
        ObsSpec("entities", (4, 3)),
    ),
    ActionSpec(2, (3, 2)),
)


def vector_spec(size: int, continuous: int = 0, branches: tuple[int, ...] = ()) -> BehaviorSpec:
    return BehaviorSpec((ObsSpec("vector", (size,)),), ActionSpec(continuous, branches))


def transitions(spec: BehaviorSpec, rows: int, seed: int = 0) -> Transitions:
    generator = torch.Generator().manual_seed(seed)

    def observations() -> tuple[Tensor, ...]:
        return tuple(torch.rand(rows, *obs.shape, generator=generator) for obs in spec.obs)

    discrete = torch.zeros(rows, len(spec.action.branches), dtype=torch.int64)
    for i, size in enumerate(spec.action.branches):
        discrete[:, i] = torch.randint(size, (rows,), generator=generator)
    return Transitions(
        obs=observations(),
        action=Action(torch.rand(rows, spec.action.continuous, generator=generator) * 2 - 1, discrete),
        next_obs=observations(),
        reward=torch.zeros(rows),
        terminated=torch.zeros(rows, dtype=torch.bool),
        ended=torch.rand(rows, generator=generator) < 0.2,
    )


def seen_as(obs: Tensor, continuous: Tensor | None = None) -> Transitions:
    """Views (N, n) that lead to themselves, with these numbers (N, continuous) as actions."""
    none = torch.zeros(len(obs), dtype=torch.bool)
    action = Action(
        torch.zeros(len(obs), 1) if continuous is None else continuous, torch.zeros(len(obs), 0, dtype=torch.int64)
    )
    return Transitions((obs,), action, (obs,), torch.zeros(len(obs)), none, none)
