"""What the critic says of rollouts of a policy with memory, against one decision of one slot at a time."""

import copy
import dataclasses

import numpy as np
import pytest
import torch
from rollouts import minibatches, rollouts_of
from tiny_envs import CPU, Stream, behavior_settings, spec_of
from torch import Tensor
from torch.testing import assert_close

from palaestra.core.timestep import Action
from palaestra.data.rollout import Rollout
from palaestra.data.sequences import SequenceTable
from palaestra.models.distributions import log_prob_and_entropy
from palaestra.trainers.advantages import ValueEstimates
from palaestra.trainers.ppo import PPO

MEMORY = {"sequence_length": 6, "memory_size": 8}
SPEC = spec_of((2,), (1,), continuous=2, branches=(3, 2))


def trainer(steady: bool, **hyper: object) -> PPO:
    ppo = PPO(
        dataclasses.replace(SPEC, steady=steady),
        behavior_settings(hyper=hyper, network={"memory": MEMORY, "normalize": True}),
        CPU,
        0,
    )
    torch.manual_seed(1)
    with torch.no_grad():
        ppo.network.value_head.weight.normal_()
    return ppo


@torch.no_grad()
def played(ppo: PPO, stream: Stream, ticks: int = 30) -> list[Rollout]:
    """Two rollouts in a row of the trainer's own decisions: the second begins in the middle of episodes."""
    ppo.policy.forget()
    taken = rollouts_of(stream.next, [ticks] * 2, ppo.policy.act, steady=stream.steady)
    return list(map(copy.deepcopy, taken))  # the buffer writes over what it gave


def one_by_one(rollout: Rollout, ppo: PPO) -> dict[tuple[int, int], tuple[Tensor, Tensor, Tensor]]:
    """Memory before, value, and value of what followed, of each decision by time and slot, worked out one by one."""
    network = ppo.network
    final = {int(row): [x[i : i + 1] for x in rollout.final_obs] for i, row in enumerate(rollout.final_rows)}
    time, slots = rollout.shape
    rows = {}
    for slot in range(slots):
        memory = rollout.recurrent_state[:1, slot]
        length = time if rollout.lengths is None else int(rollout.lengths[slot])
        for t in range(length):
            inputs = network.prepare(tuple(x[t, slot][None] for x in rollout.obs))
            value = network.value_with(inputs, memory)
            before = memory
            _, memory = network.decide(inputs, memory)
            here = t * slots + slot
            following = final.get(here) or [
                x[slot][None] if t == length - 1 else x[t + 1, slot][None]
                for x in (rollout.last_obs if t == length - 1 else rollout.obs)
            ]
            after = network.value_with(network.prepare(tuple(following)), memory)
            rows[t, slot] = (before[0], value[0], after[0])
            if rollout.terminated[t, slot] or rollout.truncated[t, slot]:
                memory = torch.zeros_like(memory)
    return rows


@torch.no_grad()
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("stream", ["steady", "loose", "growing and lossy"])
def test_a_rollout_is_valued_as_one_decision_at_a_time(stream: str, shared: bool):
    ppo = trainer(stream == "steady", shared_critic=shared)
    made = Stream(
        5, steady=stream == "steady", masked=True, **({"grows_at": 20, "losses": 0.05} if "lossy" in stream else {})
    )
    for rollout in played(ppo, made):
        critique = ValueEstimates(ppo.network, rollout, SequenceTable(rollout, 6))
        value = critique.values()
        following = critique.next_values(value)
        assert len(rollout.final_rows)
        for (t, slot), (memory, expected, after) in one_by_one(rollout, ppo).items():
            assert_close(rollout.recurrent_state[t, slot], memory, rtol=0, atol=1e-5)
            assert_close(value[t, slot], expected, rtol=0, atol=1e-5)
            if not rollout.terminated[t, slot]:
                assert_close(following[t, slot], after, rtol=0, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("steady", [True, False])
def test_the_ratio_is_1_before_the_first_step(steady: bool):
    ppo = trainer(steady)
    for rollout in played(ppo, Stream(7, steady=steady, masked=True)):
        for batch in minibatches(ppo, rollout):
            output, value = ppo.network(batch.inputs, batch.sequences)
            sample = Action(batch.continuous, batch.discrete)
            log_prob, _ = log_prob_and_entropy(output, ppo.network.log_std, batch.mask, sample, SPEC.action)
            assert_close(log_prob, batch.log_prob, rtol=0, atol=1e-5)
            assert_close(value, batch.value, rtol=0, atol=1e-5)


@torch.no_grad()
def test_an_episode_begins_without_memory():
    ppo = trainer(steady=True)
    first, second = played(ppo, Stream(9, steady=True))
    ended = (first.terminated | first.truncated).numpy()
    begins = np.argwhere(ended[:-1])
    assert len(begins) > 5
    for t, slot in begins:
        assert not first.recurrent_state[t + 1, slot].any()
    goes_on = ~ended[-1]
    assert goes_on.any()
    assert second.recurrent_state[0, goes_on].any(1).all()
