from __future__ import annotations

import torch

import palaestra
from palaestra.core.timestep import Action
from palaestra.envs.base import Env
from palaestra.envs.transfer import Transfer

CPU = torch.device("cpu")


def test_a_transferred_table_has_a_last_view_for_every_slot_that_ended():
    plain, moved = (palaestra.make("gymnasium:CartPole-v1", areas=4) for _ in range(2))
    transfer = Transfer(moved, CPU)
    assert isinstance(transfer, Env)
    first, second = plain.reset(5), transfer.reset(5)
    push = {"CartPole-v1": Action(torch.zeros(4, 0), torch.ones(4, 1, dtype=torch.int64))}
    ended = 0
    for _ in range(40):
        one, two = first["CartPole-v1"], second["CartPole-v1"]
        assert torch.equal(one.obs[0], two.obs[0])
        assert torch.equal(one.reward, two.reward)
        assert two.ends.slots.tolist() == [0, 1, 2, 3]
        assert torch.equal(two.ends.obs[0][one.ends.slots], one.ends.obs[0])
        ended += len(one.ends.slots)
        first, second = plain.step(push), transfer.step(push)
    assert ended > 0


def test_what_is_asked_of_a_transfer_is_asked_of_its_environment():
    env = palaestra.make("builtin:Basic", areas=2)
    transfer = Transfer(env, CPU)
    assert (transfer.num_areas, dict(transfer.parameters), transfer.behaviors) == (env.num_areas, dict(env.parameters), env.behaviors)
    transfer.reset(0)
    state = transfer.state_dict()
    right = {"Basic": Action(torch.zeros(2, 0), torch.full((2, 1), 2))}
    seen = transfer.step(right)["Basic"].obs[0]
    transfer.load_state_dict(state)
    assert torch.equal(transfer.step(right)["Basic"].obs[0], seen)
    assert transfer.render(1).shape[2] == 3
    transfer.close()
