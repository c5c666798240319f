"""Problems for soft actor-critic whose answer is known."""

import torch
from torch import Tensor

from palaestra.core.timestep import FinalObs, TimeStep
from palaestra.data.rollout import Rollout
from palaestra.data.steady_buffer import SteadyBuffer
from palaestra.trainers.sac import SAC

LENGTH = 10


def tick(
    obs: Tensor, reward: Tensor, terminated: Tensor, truncated: Tensor, final: Tensor, mask: Tensor | None = None
) -> TimeStep:
    slots = len(reward)
    none = torch.zeros(slots, dtype=torch.int64)
    ends = (terminated | truncated).nonzero().squeeze(1)
    return TimeStep(
        obs=(obs,),
        acting=torch.ones(slots, dtype=torch.bool),
        reward=reward,
        group_reward=torch.zeros(slots),
        terminated=terminated,
        truncated=truncated,
        final_obs=FinalObs(ends, (final[ends],)),
        action_mask=mask,
        area=none,
        team=none,
        group=none - 1,
    )


@torch.no_grad()
def chain(sac: SAC, ticks: int, ends: str) -> Rollout:
    """A reward of 1 a tick; after `LENGTH` of them it ends. An agent sees how many have passed, or only noise where
    they never end.
    """
    slots = 4
    noise = torch.Generator().manual_seed(ticks)

    def seen(age: Tensor) -> Tensor:
        return (age / LENGTH if ends == "terminated" else torch.rand(slots, generator=noise)).unsqueeze(1)

    age = torch.zeros(slots)
    no = torch.zeros(slots, dtype=torch.bool)
    step = tick(seen(age), torch.zeros(slots), no, no, seen(age))
    buffer = SteadyBuffer(step, sac.policy.act(step), ticks)
    for _ in range(ticks):
        buffer.open(step, sac.policy.act(step))
        age = age + 1
        over = age == LENGTH
        final = seen(age)
        age = torch.where(over, 0.0, age)
        terminated, truncated = (over, no) if ends == "terminated" else (no, over)
        step = tick(seen(age), torch.ones(slots), terminated, truncated, final)
        buffer.complete(step)
    return buffer.take(step)


@torch.no_grad()
def bandit(sac: SAC, ticks: int) -> Rollout:
    """One decision an episode: numbers are paid the less the further from 0 they are, choices by their number."""
    slots = 16
    yes = torch.ones(slots, dtype=torch.bool)
    no = torch.zeros(slots, dtype=torch.bool)
    view = torch.zeros(slots, 1)
    step = tick(view, torch.zeros(slots), no, no, view)
    buffer = SteadyBuffer(step, sac.policy.act(step), ticks)
    for _ in range(ticks):
        decision = sac.policy.act(step)
        buffer.open(step, decision)
        reward = decision.action.discrete.float().sum(1) - 4 * decision.action.continuous.square().sum(1)
        step = tick(view, reward, yes, no, view)
        buffer.complete(step)
    return buffer.take(step)
