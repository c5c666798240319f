from pathlib import Path
from typing import Any

import demo_files
import numpy as np
import pytest
import torch
from small_runs import differences
from test_ppo_trainer import played
from tiny_envs import CPU, behavior_settings, spec_of
from torch.testing import assert_close

from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Action
from palaestra.demos import DemoRecord
from palaestra.models.actor_critic import ActorCritic
from palaestra.models.residual.residual_body import ResidualBody
from palaestra.rewards.demonstrations import load_demonstrations
from palaestra.rewards.expert_decisions import Decisions
from palaestra.trainers.imitation import (
    LOSS,
    Cloning,
    Imitation,
    ImitationBatch,
    cross_entropy,
    imitation_batches,
)
from palaestra.trainers.ppo import PPO
from palaestra.trainers.sac import SAC

NUMBERS = spec_of((2,), continuous=2)
CHOICES = spec_of((2,), branches=(3, 2))
HYBRID = spec_of((2,), (1,), continuous=2, branches=(2, 2))


def record(view: float, spec: BehaviorSpec, answer: float = 0.0, choice: int = 0, *, done: bool = False) -> DemoRecord:
    """A view, and what was done about the one before."""
    action = spec.action
    return DemoRecord(
        obs=tuple(np.full(obs.shape, view, np.float32) for obs in spec.obs),
        reward=0.0,
        group_reward=0.0,
        done=done,
        truncated=False,
        id=0,
        group=0,
        mask=None,
        continuous=np.full(action.continuous, answer, np.float32),
        discrete=np.full(len(action.branches), choice, np.int64),
    )


def demonstrated(path: Path, spec: BehaviorSpec, pairs: list[tuple[float, float, int]], length: int = 4) -> str:
    """A file of episodes of `length` decisions each: view, number and choice of each decision."""
    records = []
    for begin in range(0, len(pairs), length):
        episode = pairs[begin : begin + length]
        before = (0.0, 0)
        for view, number, choice in episode:
            records.append(record(view, spec, *before))
            before = number, choice
        records.append(record(0.0, spec, *before, done=True))
    return str(demo_files.write(path / "d.demo", records, spec))


def cloning(path: str, spec: BehaviorSpec, **settings: Any) -> tuple[Cloning, ActorCritic]:
    memory = settings.pop("memory", None)
    whole = behavior_settings(
        {"learning_rate": 3e-3},
        network={"memory": memory} if memory else None,
        behavioral_cloning={"demo_path": path, **settings},
    )
    torch.manual_seed(0)
    network = PPO.make_network(spec, whole)
    return Cloning(network, list(network.parameters()), whole, CPU, 1), network


def test_cross_entropy_worked_by_hand():
    branches = [torch.tensor([[0.5, 0.5], [0.25, 0.75]]).log(), torch.tensor([[0.1, 0.9], [1.0, 1e-9]]).log()]
    # -(ln 0.5 + ln 0.25 + ln 0.9 + ln 1) / 4
    assert cross_entropy(branches, torch.tensor([[1, 1], [0, 0]])).item() == pytest.approx(
        (0.693147 + 1.386294 + 0.105361) / 4, rel=1e-4
    )


def test_a_loss_is_the_error_of_what_is_played_and_the_entropy_of_what_is_allowed(tmp_path: Path):
    made, network = cloning(demonstrated(tmp_path, HYBRID, [(0.3, 0.9, 1)] * 4), HYBRID)
    imitation = Imitation(network, list(network.parameters()), torch.Generator())
    obs = (torch.randn(6, 2), torch.randn(6, 1))
    action = Action(torch.rand(6, 2), torch.randint(0, 2, (6, 2)))
    mask = torch.ones(6, 4, dtype=torch.bool)
    mask[0, 1 - action.discrete[0, 0]] = (
        False  # the first row's first branch leaves one choice: nothing is left to be learned of it
    )
    loss, errors = imitation.loss(ImitationBatch(Decisions(obs, action, mask)))
    output = network.outputs(network.prepare(obs))
    logits = [output[:, 2:4], output[:, 4:]]
    terms = [
        torch.nn.functional.cross_entropy(part, action.discrete[:, i], reduction="none")
        for i, part in enumerate(logits)
    ]
    terms[0][0] = 0.0
    squares = (output[:, :2] / 3 - action.continuous).square()  # a sample of ±3 is ±1 to the environment
    assert_close(errors, squares.mean(0))
    assert_close(loss, squares.mean() + torch.stack(terms).mean())
    assert made.rate(0) == pytest.approx(3e-3)


def test_what_was_shown_as_nine_tenths_is_played_as_nine_tenths(tmp_path: Path):
    made, network = cloning(
        demonstrated(tmp_path, NUMBERS, [(0.5, 0.9, 0), (-0.5, -0.4, 0)] * 16), NUMBERS, num_epoch=100
    )
    before = network.log_std.clone()
    losses = [made.update(0)[LOSS] for _ in range(3)]
    assert losses[-1] < 1e-3
    with torch.no_grad():
        output = network.outputs(network.prepare((torch.tensor([[0.5, 0.5], [-0.5, -0.5]]),)))
        action = network.for_environment(network.draw(output, None, torch.Generator(), deterministic=True)[0])
    assert_close(action.continuous, torch.tensor([[0.9, 0.9], [-0.4, -0.4]]), atol=0.03, rtol=0)
    assert torch.equal(network.log_std, before)  # the noise is the trainer's


def test_an_action_is_learned_with_the_view_that_it_answered(tmp_path: Path):
    views = [(float(i), (i % 3 - 1) / 2, i % 2) for i in range(-4, 4)]
    made, network = cloning(demonstrated(tmp_path, HYBRID, views), HYBRID, num_epoch=400)
    for _ in range(2):
        made.update(0)
    with torch.no_grad():
        seen = torch.tensor([view for view, _, _ in views])
        output = network.outputs(network.prepare((seen.unsqueeze(1).expand(-1, 2), seen.unsqueeze(1))))
    assert_close(network.played(output)[:, 0], torch.tensor([number for _, number, _ in views]), atol=0.1, rtol=0)


def test_the_step_size_falls_on_a_line_to_nothing(tmp_path: Path):
    made, network = cloning(demonstrated(tmp_path, CHOICES, [(0.5, 0, 1)] * 8), CHOICES, strength=0.5, steps=100)
    assert [made.rate(step) for step in (0, 50, 100, 200)] == pytest.approx([1.5e-3, 7.5e-4, 0, 0])
    before = [p.clone() for p in network.parameters()]
    assert made.update(100) == {}
    assert all(torch.equal(p, b) for p, b in zip(network.parameters(), before, strict=True))
    assert cloning(demonstrated(tmp_path, CHOICES, [(0.5, 0, 1)] * 8), CHOICES)[0].rate(10**9) == pytest.approx(3e-3)


@pytest.mark.parametrize(
    ("given", "usual", "steps"),
    [
        ({}, None, 3 * 2),
        ({"num_epoch": 2}, None, 2 * 2),
        ({"samples_per_update": 16}, None, 3),
        ({"samples_per_update": 8}, None, 3),
        ({"batch_size": 8}, None, 3 * 4),
        ({}, 4, 4),
        ({"batch_size": 32}, 4, 3),
        ({"num_epoch": 1}, 1, 2),
        ({"num_epoch": 5}, 4, 5 * 2),
        ({"samples_per_update": 0}, 4, 3 * 2),
        ({"samples_per_update": 16}, 1, 3),
        ({"samples_per_update": 16, "num_epoch": 7}, 4, 7),
        ({"samples_per_update": 10**6}, 4, 3 * 2),
    ],
)
def test_an_update_takes_so_many_gradient_steps(tmp_path: Path, given: dict[str, int], usual: int | None, steps: int):
    made, _ = cloning(demonstrated(tmp_path, CHOICES, [(0.5, 0, 1)] * 32), CHOICES, **given)
    assert made.count(usual) == steps
    made.update(0, usual)
    assert max(int(count) for count in made.state_dict()["optimizer"]["steps"]) == steps  # of those that play a part


@pytest.mark.parametrize(("given", "steps"), [({}, 4), ({"num_epoch": 2}, 8), ({"samples_per_update": 32}, 6)])
def test_each_gradient_step_of_sac_has_so_many_of_cloning_beside_it(tmp_path: Path, given: dict[str, int], steps: int):
    spec = spec_of((2,), (1,), branches=(3, 2))
    path = demonstrated(tmp_path, spec, [(0.5, 0, 1)] * 64)
    whole = behavior_settings(
        {"batch_size": 16, "buffer_size": 200, "steps_per_update": 24},
        trainer_type="sac",
        behavioral_cloning={"demo_path": path, **given},
    )
    sac = SAC(spec, whole, CPU, 0)
    sac.update(played(sac, 0), 0)  # type: ignore[arg-type]  # of 64 decisions, 16 are collected first
    assert sac.cloning is not None
    assert max(int(count) for count in sac.cloning.state_dict()["optimizer"]["steps"]) == 2 * steps


def test_rows_of_a_residual_policy_keep_length_1_after_cloning(tmp_path: Path):
    path = demonstrated(tmp_path, HYBRID, [(0.5, 0.9, 0)] * 64)
    whole = behavior_settings(
        {"batch_size": 16, "buffer_size": 200, "steps_per_update": 24, "critic_bins": 11},
        trainer_type="sac",
        network={"body": "residual", "hidden_units": 8},
        behavioral_cloning={"demo_path": path},
    )
    sac = SAC(HYBRID, whole, CPU, 0)
    sac.update(played(sac, 0), 0)  # type: ignore[arg-type]
    body = sac.network.body
    assert isinstance(body, ResidualBody)
    for weight in body.weights:
        assert_close(weight.norm(dim=2), torch.ones(weight.shape[:2]))


def test_with_memory_episodes_are_learned_in_order_from_an_empty_one(tmp_path: Path):
    # only what was seen first tells which choice is right in the end
    spec = CHOICES
    episodes = []
    for choice in (0, 1) * 8:
        episodes += [(2.0 * choice - 1, 0, 0), (0.0, 0, 0), (0.0, 0, choice)]
    path = demonstrated(tmp_path, spec, episodes, length=3)
    made, network = cloning(path, spec, memory={"sequence_length": 8, "memory_size": 16}, num_epoch=200)
    losses = [made.update(0)[LOSS] for _ in range(2)]
    assert losses[-1] < 0.05
    lessons = imitation_batches(load_demonstrations(path, spec, CPU), network, 2)
    assert lessons.table is not None
    parts = [rows.tolist() for rows, _ in lessons.table.take(np.arange(4)[:, None])]
    assert parts == [[0, 1], [2], [3, 4], [5]]
    assert lessons.table.recurrent_state.shape == (48, 2 * 16)
    memory = torch.zeros(2, network.memory_size)
    with torch.no_grad():
        for view in ([-1.0, 1.0], [0.0, 0.0], [0.0, 0.0]):
            output, memory = network.decide(network.prepare((torch.tensor(view).unsqueeze(1).expand(-1, 2),)), memory)
    assert network.branch_log_probs(output, None)[0].argmax(1).tolist() == [0, 1]


@pytest.mark.parametrize("joint", [False, True])  # PPO's own parameters are one tensor, or many
@pytest.mark.parametrize("memory", [None, {"sequence_length": 4, "memory_size": 8}])
def test_ppo_clones_and_goes_on_as_without_a_stop(tmp_path: Path, joint: bool, memory: dict[str, int] | None):
    path = demonstrated(tmp_path, HYBRID, [(0.5, 0.9, 1), (-0.5, -0.4, 0)] * 8)
    clones = {
        "behavioral_cloning": {"demo_path": path, "steps": 1000},
        "network": {"memory": memory, "normalize": True},
    }

    def trainer(seed: int) -> PPO:
        return PPO(HYBRID, behavior_settings({"joint_ratio": joint}, **clones), CPU, seed)

    whole = trainer(0)
    resumed = trainer(9)
    first = whole.update(played(whole, 1), 64).read()
    assert first[LOSS] > 0
    resumed.load_state_dict(whole.state_dict())
    for step in (128, 192):
        for ppo in (whole, resumed):
            ppo.policy.forget()
            ppo.update(played(ppo, step), step)
    assert differences(whole.state_dict(), resumed.state_dict()) == []
    alone = PPO(HYBRID, behavior_settings({"joint_ratio": joint}, network=clones["network"]), CPU, 0)
    alone.update(played(alone, 1), 64)
    assert not torch.equal(alone.network.action_head.weight, whole.network.action_head.weight)
