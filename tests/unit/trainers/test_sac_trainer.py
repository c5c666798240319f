"""Soft actor-critic on problems whose answer is known."""

import math
from typing import Any

import pytest
import torch
from soft_problems import LENGTH, bandit, chain
from tiny_envs import CPU, spec_of
from torch import Tensor

from palaestra.core.errors import ConfigError
from palaestra.core.row_index import Sequences
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.core.system_memory import free_memory
from palaestra.data.replay import Replay
from palaestra.trainers.behavior_settings import BehaviorSettings
from palaestra.trainers.sac import SAC, check_room

GAMMA = 0.9


def settings(hyper: dict[str, Any] | None = None, gamma: float = GAMMA, **network: Any) -> BehaviorSettings:
    return BehaviorSettings.model_validate(
        {
            "trainer_type": "sac",
            "hyperparameters": {
                "batch_size": 64,
                "buffer_size": 2000,
                "learning_rate": 3e-3,
                "tau": 0.05,
                **(hyper or {}),
            },
            "network_settings": {"hidden_units": 32, **network},
            "reward_signals": {"extrinsic": {"gamma": gamma}},
        }
    )


def values_along(sac: SAC, obs: Tensor) -> Tensor:
    """What the first critic says of views (N, 1) that follow one another."""
    count = len(obs)
    sequences = (
        Sequences(count, torch.arange(count), torch.zeros(1, sac.network.critics.memory_size))
        if sac.network.memory
        else None
    )
    encoding = sac.network.critics.encoding(sac.network.prepare((obs,)), sequences)
    return sac.network.critics(encoding, torch.zeros(count, 0))[0, :, 0, 0].detach()


@pytest.mark.parametrize(("memory", "gamma"), [(None, 0.9), ({"sequence_length": 5, "memory_size": 16}, 0.5)])
def test_a_truncated_chain_has_its_infinite_horizon_value(memory: Any, gamma: float):
    hyper = {"steps_per_update": 4, "batch_size": 40, "tau": 0.3}
    sac = SAC(spec_of((1,), branches=(1,)), settings(hyper, gamma, memory=memory), CPU, 0)
    for _ in range(3):
        sac.update(chain(sac, 200, "truncated"), 0)
    value = 1 / (1 - gamma)
    assert abs(values_along(sac, torch.rand(LENGTH, 1)).mean() - value) < 0.05 * value


@pytest.mark.parametrize("hyper", [{}, {"n_step": 4}, {"backup_entropy": False}])
def test_a_terminated_chain_is_worth_what_is_left_of_it(hyper: dict[str, Any]):
    choices = 1 if hyper.get("backup_entropy", True) else 2  # of one alone there is no entropy
    sac = SAC(spec_of((1,), branches=(choices,)), settings({"steps_per_update": 4, "tau": 0.3, **hyper}), CPU, 0)
    for _ in range(3):
        sac.update(chain(sac, 200, "terminated"), 0)
    left = torch.tensor([(1 - GAMMA ** (LENGTH - t)) / (1 - GAMMA) for t in range(LENGTH)])
    assert (values_along(sac, torch.arange(LENGTH).unsqueeze(1) / LENGTH) - left).abs().max() < 0.5


@pytest.mark.parametrize(
    ("spec", "target"),
    [(spec_of((1,), continuous=1), -1.0), (spec_of((1,), branches=(3,)), 0.2 * math.log(3))],
)
def test_temperature_brings_entropy_to_its_target(spec: BehaviorSpec, target: float):
    sac = SAC(spec, settings({"steps_per_update": 6, "learning_rate": 1e-2}), CPU, 0)
    metrics = [sac.update(bandit(sac, 40), 0).read() for _ in range(10)][-1]
    assert abs(metrics["Policy/Entropy"] - target) < 0.2
    assert (
        0.01
        < metrics["Policy/Continuous Entropy Coeff" if spec.action.continuous else "Policy/Discrete Entropy Coeff"]
        < 0.6
    )


def test_a_temperature_falls_by_the_learning_rate_as_long_as_there_is_entropy_to_spare():
    sac = SAC(spec_of((1,), continuous=1), settings({"learning_rate": 1e-3}), CPU, 0)
    log = sac.network.log_temperature
    steps = 3000
    before = log.item()
    for _ in range(steps):
        log.grad = log.detach().exp()  # of 1 above the target
        sac.gradient.temperature_adam.step()
    assert before - log.item() == pytest.approx(1e-3 * steps, rel=0.15)


def test_gradient_steps_are_those_that_decisions_make_due_whatever_the_rollouts():
    counts = []
    for ticks in (1, 7):
        sac = SAC(spec_of((1,), continuous=1), settings({"steps_per_update": 5, "buffer_init_steps": 100}), CPU, 0)
        steps = 0
        for _ in range(56 // ticks):
            sac.update(bandit(sac, ticks), 0)
            steps = int(sac.gradient.optimizer.state_dict()["steps"][0])
        counts.append(steps)
    assert counts == [(56 * 16 - 100) // 5] * 2


def test_rare_gradient_steps_do_not_make_rollouts_long():
    sac = SAC(spec_of((1,), continuous=1), settings({"steps_per_update": 1e9}), CPU, 0)
    assert sac.rollout_size <= 1024


def test_targets_follow_by_tau_and_nothing_else():
    sac = SAC(spec_of((1,), continuous=1), settings({"steps_per_update": 64, "tau": 0.25}), CPU, 0)
    sac.update(bandit(sac, 4), 0)
    before = [p.clone() for p in sac.network.targets.parameters()]
    sac.update(bandit(sac, 4), 0)  # one gradient step
    for old, new, critic in zip(
        before, sac.network.targets.parameters(), sac.network.critics.parameters(), strict=True
    ):
        torch.testing.assert_close(new, old + 0.25 * (critic - old))
    assert any(not torch.equal(p, old) for p, old in zip(sac.network.targets.parameters(), before, strict=True))


@pytest.mark.parametrize(("numbers", "count"), [(1, 0), (0, 2)])
def test_settings_of_continuous_actions_alone_are_remarked_where_there_are_none(numbers: int, count: int):
    hyper = {"target_deviation": 0.2, "noise_hold": 4}
    remarks = SAC(spec_of((1,), continuous=numbers, branches=(2,)), settings(hyper), CPU, 0).remarks()
    assert sum("no action is continuous" in remark for remark in remarks) == count


@pytest.mark.parametrize(("asked", "saved"), [(None, True), (True, True), (False, False)])
def test_the_replay_is_saved_where_it_is_small_or_asked_for(asked: bool | None, saved: bool):
    spec = spec_of((1,), continuous=1)
    sac, other = (
        SAC(spec, settings({"save_replay_buffer": asked, "buffer_init_steps": 300}), CPU, 0) for _ in range(2)
    )
    assert ("is saved" if saved else "is not saved") in sac.remarks()[0]
    assert sac.remarks() == other.remarks()[1:]
    sac.update(bandit(sac, 30), 0)
    other.load_state_dict(sac.state_dict())
    assert other.remarks() == []
    assert len(other.warnings()) == (not saved)
    assert other.warnings() == []
    assert len(other.replay) == (480 if saved else 0)


def test_a_large_replay_is_not_saved_unless_asked_for():
    spec = spec_of((1,), continuous=1)
    large = {"buffer_size": 50_000_000}
    assert not SAC(spec, settings(large), CPU, 0).saves_replay
    assert SAC(spec, settings({**large, "save_replay_buffer": True}), CPU, 0).saves_replay


def test_compiling_is_refused():
    with pytest.raises(ConfigError, match="compile is not available with the trainer sac"):
        SAC(spec_of((1,), continuous=1), settings(compile=True), CPU, 0)


IMAGE = BehaviorSpec((ObsSpec("image", (3, 84, 84)),), ActionSpec(branches=(4,)))


def replay_of(share: float) -> Replay:
    """One that takes about this share of the memory that is free."""
    sample = 1_000_000
    return Replay(IMAGE, int(sample * share * free_memory() / Replay(IMAGE, sample, CPU).bytes_needed), CPU)


def test_a_replay_that_does_not_fit_is_refused_with_a_size_that_does():
    with pytest.raises(
        ConfigError, match=r"hyperparameters.buffer_size: .* GiB of memory are free; a buffer_size of .* would fit"
    ):
        check_room(replay_of(1.5))
    with pytest.raises(ConfigError, match="buffer_size: a replay of 10,000,000,000,000 decisions takes"):
        SAC(spec_of((1,), continuous=1), settings({"buffer_size": 10**13}), CPU, 0).remarks()


def test_what_other_replays_will_take_is_not_free():
    first = replay_of(0.6)
    second = replay_of(0.6)
    check_room(first)
    check_room(first)  # it is not counted twice
    with pytest.raises(ConfigError, match=r"are free beside the .* GiB that replays of other behaviors will take"):
        check_room(second)
    del first
    check_room(second)
