import gymnasium
import numpy as np
import pytest
import torch

from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.guarded import Guarded
from palaestra.envs.gymnasium import GymnasiumEnv
from palaestra.envs.pool.env_server import EnvServer
from palaestra.envs.pool.merged_table import MergedTable
from palaestra.envs.wrapper import EnvWrapper
from palaestra.parallel.shared_memory import LocalBlock


class Counting(gymnasium.Env):
    """Observes the number of steps and the sum of actions; episodes end after nine steps."""

    observation_space = gymnasium.spaces.Box(-100, 100, (2,), np.float64)
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        self.steps = self.total = 0
        return np.array([0.0, 0.0]), {}

    def step(self, action):
        self.steps = self.steps + 1
        self.total = self.total + int(action)
        return np.array([self.steps, self.total], np.float64), self.total / 2, False, self.steps == 9, {}


def made(areas: int) -> GymnasiumEnv:
    return GymnasiumEnv.wrap([Counting() for _ in range(areas)])


def same(one: TimeStep, other: TimeStep) -> None:
    for name in ("acting", "reward", "group_reward", "terminated", "truncated", "area", "team", "group"):
        assert torch.equal(getattr(one, name), getattr(other, name)), name
    assert torch.equal(one.obs[0], other.obs[0])
    assert torch.equal(one.final_obs.slots, other.final_obs.slots)
    assert torch.equal(one.final_obs.obs[0], other.final_obs.obs[0])


def test_tables_that_a_copy_writes_without_pytorch_equal_those_of_step():
    plain = made(2)
    merged = MergedTable(made(2).behaviors["Counting"])
    server = EnvServer(Guarded(made(2), "counting"), LocalBlock)
    expected = plain.reset(3)["Counting"]
    server.answer("reset", 3)
    kept = list[tuple[TimeStep, TimeStep]]()
    for tick in range(22):
        assert server.tables is not None
        merged.take(0, server.tables.arrays["Counting"], 0)
        kept.append((merged.table(), expected))
        action = Action(torch.zeros(2, 0), torch.tensor([[tick % 3], [1]]))
        server.tables.write_actions({"Counting": action}, {"Counting": merged.slots_of[0]})
        server.answer("step")
        expected = plain.step({"Counting": action})["Counting"]
    assert sum(bool(step.truncated.all()) for _, step in kept) == 2
    for given, wanted in kept:  # at the end: no table may change afterwards
        same(given, wanted)


def test_an_error_in_a_tick_without_pytorch_says_where_it_came_from():
    env = Guarded(made(1), "counting")
    with pytest.raises(Exception, match="counting raised an error in step: KeyError"):
        env.step_arrays({})


def test_copies_that_are_not_ready_keep_their_places_and_do_not_act():
    merged = MergedTable(made(1).behaviors["Counting"])
    servers = [EnvServer(EnvWrapper.of(made(1)), LocalBlock) for _ in range(2)]
    for i, server in enumerate(servers):
        server.answer("reset", i)
        assert server.tables is not None
        merged.take(i, server.tables.arrays["Counting"], i)
    first = merged.table()
    servers[1].answer("step")
    assert servers[1].tables is not None
    merged.take(1, servers[1].tables.arrays["Counting"], 1)
    merged.lose(0)
    second = merged.table()
    assert first.acting.tolist() == [True, True]
    assert second.acting.tolist() == [False, True]
    assert second.area.tolist() == [0, 1]
    assert second.obs[0][:, 0].tolist() == [0.0, 1.0]
    assert second.lost is not None
    assert second.lost.tolist() == [True, False]
    assert first.obs[0][:, 0].tolist() == [0.0, 0.0]
    assert merged.table().lost is None
