from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from tiny_envs import Bandit, table

import palaestra
from palaestra.core.metrics import Measurement
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.base import BehaviorFacts, Env, TrainingFacts
from palaestra.envs.transfer import Transfer, to_device

CPU = torch.device("cpu")


def test_a_transferred_table_has_final_observations_for_every_slot_that_ended():
    plain, to_device = (palaestra.make("gymnasium:CartPole-v1", areas=4) for _ in range(2))
    transfer = Transfer(to_device, CPU)
    assert isinstance(transfer, Env)
    first = plain.reset(5)
    second = transfer.reset(5)
    push = {"CartPole-v1": Action(torch.zeros(4, 0), torch.ones(4, 1, dtype=torch.int64))}
    ended = 0
    for _ in range(40):
        one = first["CartPole-v1"]
        two = second["CartPole-v1"]
        assert torch.equal(one.obs[0], two.obs[0])
        assert torch.equal(one.reward, two.reward)
        assert two.final_obs.slots.tolist() == [0, 1, 2, 3]
        assert torch.equal(two.final_obs.obs[0][one.final_obs.slots], one.final_obs.obs[0])
        ended += len(one.final_obs.slots)
        first = plain.step(push)
        second = transfer.step(push)
    assert ended > 0


def test_a_transfer_forwards_calls_to_its_environment():
    env = palaestra.make("builtin:Basic", areas=2)
    transfer = Transfer(env, CPU)
    assert (transfer.num_areas, dict(transfer.parameters), transfer.behaviors) == (
        env.num_areas,
        dict(env.parameters),
        env.behaviors,
    )
    transfer.reset(0)
    state = transfer.state_dict()
    right = {"Basic": Action(torch.zeros(2, 0), torch.full((2, 1), 2))}
    seen = transfer.step(right)["Basic"].obs[0]
    transfer.load_state_dict(state)
    assert torch.equal(transfer.step(right)["Basic"].obs[0], seen)
    assert transfer.render(1).shape[2] == 3
    transfer.close()


class Talking(Bandit):
    """Reports measurements, and receives facts about the run."""

    def __init__(self) -> None:
        super().__init__(2, branches=(2,))
        self.heard: list[TrainingFacts | BehaviorFacts] = []

    def take_measurements(self) -> list[Measurement]:
        return [Measurement("Game/Score", 2.0, "mean")]

    def training_starts(self, facts: TrainingFacts) -> None:
        self.heard.append(facts)

    def behavior_joins(self, facts: BehaviorFacts) -> None:
        self.heard.append(facts)


def test_a_transfer_forwards_measurements_and_facts():
    env = Talking()
    transfer = Transfer(env, CPU)
    run = TrainingFacts("1", "1", "3", "2", "cpu", 1, 0, "{}")
    ball = BehaviorFacts(
        "b", "ppo", True, False, False, False, False, False, "simple", 2, 64, False, False, False, "{}"
    )
    transfer.training_starts(run)
    transfer.behavior_joins(ball)
    assert env.heard == [run, ball]
    assert transfer.take_measurements() == [Measurement("Game/Score", 2.0, "mean")]


def test_a_transfer_of_an_environment_that_neither_measures_nor_listens_does_neither():
    transfer = Transfer(Bandit(2, branches=(2,)), CPU)
    transfer.training_starts(TrainingFacts("1", "1", "3", "2", "cpu", 1, 0, "{}"))
    assert transfer.take_measurements() == []


def test_a_transfer_keeps_interrupted_episodes():
    step = table(torch.zeros(3, 2))
    assert to_device(step, CPU).lost is None
    lost = to_device(replace(step, lost=torch.tensor([False, True, False])), CPU).lost
    assert lost is not None
    assert lost.tolist() == [False, True, False]


def test_a_transfer_forwards_heuristics():
    env = palaestra.make("builtin:Basic", areas=2)
    transfer = Transfer(env, CPU)
    transfer.reset(0)
    action = transfer.heuristic("Basic")
    assert action is not None
    assert action.discrete.shape == (2, 1)
    assert Transfer(Bandit(2, continuous=1), CPU).heuristic("Bandit") is None


class Ahead(Bandit):
    """Makes its ticks in the background, and notes when they begin and end."""

    def __init__(self) -> None:
        super().__init__(2, branches=(2,))
        self.noted: list[str] = []

    def send(self, actions: Mapping[str, Action]) -> None:
        self.noted.append("begin")
        self._sent = actions

    def receive(self) -> dict[str, TimeStep]:
        self.noted.append("end")
        return self.step(self._sent)


def test_a_transfer_lets_an_environment_work_in_the_background():
    env = Ahead()
    transfer = Transfer(env, CPU)
    transfer.reset(0)
    transfer.send({"Bandit": Action(torch.zeros(2, 0), torch.ones(2, 1, dtype=torch.int64))})
    assert env.noted == ["begin"]
    steps = transfer.receive()
    assert env.noted == ["begin", "end"]
    assert len(steps["Bandit"].reward) == 2


class Counted(torch.Tensor):
    """A tensor that counts how often it is moved."""

    moves = 0

    def to(self, *arguments: Any, **options: Any) -> Any:
        Counted.moves += 1
        return super().to(*arguments, **options)


def test_a_transfer_moves_each_observation_once():
    step = table(torch.zeros(3, 2), terminated=[1])
    before = Counted.moves
    moved = to_device(replace(step, obs=(step.obs[0].as_subclass(Counted),)), CPU)
    assert Counted.moves == before + 1
    assert moved.final_obs.slots.tolist() == [0, 1, 2]
    quiet = to_device(table(torch.zeros(3, 2)), CPU)
    assert quiet.final_obs.obs[0] is quiet.obs[0]  # no row of them counts
