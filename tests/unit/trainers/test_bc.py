import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rollouts import experience
from small_runs import differences
from test_imitation import HYBRID, NUMBERS, demonstrated
from tiny_envs import CPU
from torch.testing import assert_close

from palaestra.core.errors import ConfigError, DemoError
from palaestra.core.specs import BehaviorSpec
from palaestra.data.rollout import Rollout
from palaestra.runtime.settings import load
from palaestra.trainers.bc import BC, LEAST_DEVIATION
from palaestra.trainers.behavior_settings import BehaviorSettings


def settings(
    network: dict[str, Any] | None = None, rest: dict[str, Any] | None = None, **hyper: Any
) -> BehaviorSettings:
    return BehaviorSettings.model_validate(
        {
            "trainer_type": "bc",
            "hyperparameters": {"batch_size": 16, "buffer_size": 64, **hyper},
            "network_settings": {"hidden_units": 16, "num_layers": 1, **(network or {})},
            **(rest or {}),
        }
    )


def trainer(spec: BehaviorSpec = HYBRID, seed: int = 0, **given: Any) -> BC:
    return BC(spec, settings(**given), CPU, seed)


def shown(seed: int = 0) -> Rollout:
    """A teacher's rollout: it answers 0.6 with 0.5, and chooses by what it sees."""
    rollout = experience(seed, steady=True)
    rollout.sample.continuous.fill_(0.6)
    rollout.sample.discrete[..., 0] = 1
    rollout.sample.discrete[..., 1] = 0
    return rollout


def masked(rollout: Rollout) -> Rollout:
    """All that was not done may be forbidden."""
    mask = torch.rand(*rollout.shape, 4, generator=torch.Generator().manual_seed(0)) < 0.5
    columns = rollout.sample.discrete + torch.tensor([0, 2])
    return replace(rollout, action_mask=mask.scatter(2, columns, True))


def test_a_rollout_is_learned_as_what_its_teacher_did():
    bc = trainer(teacher="heuristic", learning_rate=1e-2, num_epoch=20)
    losses = [bc.update(shown(seed), 0).read()["Losses/Cloning Loss"] for seed in range(4)]
    assert losses[-1] < 0.02 < losses[0]
    view = shown(5).obs
    with torch.no_grad():
        output = bc.network.outputs(bc.network.prepare(tuple(x.flatten(0, 1) for x in view)))
        sample, branches = bc.network.draw(output, None, bc.action_rng, deterministic=True)
    assert_close(bc.network.for_environment(sample).continuous, torch.full((64, 2), 0.6), atol=0.1, rtol=0)
    assert sample.discrete.unique(dim=0).tolist() == [[1, 0]]
    assert all(branch.exp().max(1).values.min() > 0.9 for branch in branches)


def test_the_deviation_is_that_of_the_teacher(tmp_path: Path):
    # one view, answered with 0.2 and 0.6: their mean is 0.4 and their deviation 0.2
    bc = trainer(
        NUMBERS,
        demo_path=demonstrated(tmp_path, NUMBERS, [(0.5, 0.2, 0), (0.5, 0.6, 0)] * 32),
        learning_rate=1e-2,
        num_epoch=100,
    )
    for _ in range(2):
        bc.update(experience(0, steady=True), 0)
    assert_close(bc.network.log_std.exp() / 3, torch.full((2,), 0.2), atol=0.01, rtol=0)
    with torch.no_grad():
        decided = bc.network.prepare((torch.full((2000, 2), 0.5),))
        sample, _ = bc.network.draw(bc.network.outputs(decided), None, bc.action_rng, deterministic=False)
    drawn = bc.network.for_environment(sample).continuous
    assert_close(drawn.mean(0), torch.full((2,), 0.4), atol=0.03, rtol=0)
    assert_close(drawn.std(0), torch.full((2,), 0.2), atol=0.03, rtol=0)


def test_the_deviation_has_a_floor(tmp_path: Path):
    bc = trainer(
        NUMBERS, demo_path=demonstrated(tmp_path, NUMBERS, [(0.5, 0.0, 0)] * 32), learning_rate=1e-2, num_epoch=200
    )
    for _ in range(2):
        bc.update(experience(0, steady=True), 0)
    assert bc.network.log_std.tolist() == pytest.approx([math.log(3 * LEAST_DEVIATION)] * 2)


def test_with_demonstrations_the_rollout_only_counts(tmp_path: Path):
    path = demonstrated(tmp_path, HYBRID, [(0.1 * i, 0.3, i % 2) for i in range(20)])
    one = trainer(demo_path=path)
    other = trainer(demo_path=path)
    one.update(shown(1), 64)
    other.update(shown(2), 64)
    assert differences(one.state_dict(), other.state_dict()) == []
    steps = max(int(count) for count in one.state_dict()["optimizer"]["steps"])
    assert steps == 5 * 64 // 16


def test_it_says_once_how_often_it_sees_each_demonstration(tmp_path: Path):
    path = demonstrated(tmp_path, HYBRID, [(0.1 * i, 0.3, i % 2) for i in range(20)])
    few, many = (trainer(rest={"max_steps": steps}, demo_path=path, num_epoch=2) for steps in (200, 2000))
    assert few.remarks() == ["It learns from 20 demonstrated decisions, in some 20 passes until max_steps"]
    assert few.remarks() == []
    assert (
        "in some 200 passes until max_steps; a clone that knows single decisions by heart may get stuck"
        in many.remarks()[0]
    )
    assert trainer(teacher="heuristic").remarks() == []


@pytest.mark.parametrize("steady", [True, False])
@pytest.mark.parametrize("network", [{"normalize": True}, {"memory": {"sequence_length": 4, "memory_size": 8}}])
def test_it_goes_on_as_without_a_stop(tmp_path: Path, network: dict[str, Any], steady: bool):
    path = demonstrated(tmp_path, HYBRID, [(0.1 * i, 0.3, i % 2) for i in range(40)])
    sources: list[dict[str, Any]] = [{"demo_path": path}, {"teacher": "heuristic"}]
    for source in sources:
        whole = trainer(network=network, **source)
        resumed = trainer(network=network, seed=7, **source)
        whole.update(masked(experience(1, steady)), 64)
        resumed.load_state_dict(whole.state_dict())
        for bc in (whole, resumed):
            bc.update(masked(experience(2, steady)), 128)
        assert differences(whole.state_dict(), resumed.state_dict()) == []


def test_what_a_mask_forbids_is_not_learned_against():
    """The teacher takes what is left: there is nothing to learn."""
    rollout = shown()
    rollout.sample.discrete.fill_(0)
    rollout = replace(rollout, action_mask=torch.tensor([True, False, True, False]).expand(*rollout.shape, 4))
    rollout.sample.continuous.fill_(0.0)
    bc = trainer(teacher="heuristic", learning_rate=0.0)
    with torch.no_grad():
        bc.network.action_head.weight.zero_()
    assert bc.update(rollout, 0).read()["Losses/Cloning Loss"] == pytest.approx(0, abs=1e-6)


def test_the_normalizer_knows_what_teachers_see(tmp_path: Path):
    path = demonstrated(tmp_path, NUMBERS, [(2.0, 0.3, 0), (4.0, 0.3, 0)] * 50)
    bc = trainer(NUMBERS, network={"normalize": True}, demo_path=path)
    with torch.no_grad():
        assert_close(bc.network.prepare((torch.full((1, 2), 3.0),))[0], torch.zeros(1, 2), atol=0.1, rtol=0)


@pytest.mark.parametrize(
    ("hyper", "message"),
    [
        (
            "{}",
            "x.yaml:4: behaviors.A.hyperparameters.teacher: expected either `demo_path`, .*, or `teacher`, .*; got "
            "neither",
        ),
        ("{teacher: heuristic, demo_path: d}", "hyperparameters.demo_path: expected either .*; got both"),
        ("{demo_path: d, teacher_behaviour: B}", "unknown key; did you mean 'teacher_behavior'"),
        ("{demo_path: d, teacher_plays: false}", "hyperparameters.teacher_plays: expected true with demo_path"),
        (
            "{brain_to_imitate: B, teacher_behavior: B}",
            "hyperparameters.brain_to_imitate: the old name of teacher_behavior",
        ),
    ],
)
def test_settings_without_one_teacher_are_refused(tmp_path: Path, hyper: str, message: str):
    file = tmp_path / "x.yaml"
    file.write_text(f"behaviors:\n  A:\n    trainer_type: bc\n    hyperparameters: {hyper}\n")
    with pytest.raises(ConfigError, match=message):
        load(file)


def test_the_old_name_of_a_teachers_behavior_is_known():
    made = settings(brain_to_imitate="Player").hyperparameters.model_dump()
    assert (made["teacher"], made["teacher_behavior"]) == ("heuristic", "Player")


def test_what_does_not_imitate_is_refused(tmp_path: Path):
    path = demonstrated(tmp_path, HYBRID, [(0.5, 0.3, 0)] * 8)
    with pytest.raises(
        ConfigError,
        match="bc cannot learn this: it does not learn from the reward signals curiosity, rnd, only from extrinsic",
    ):
        trainer(rest={"reward_signals": {"extrinsic": {}, "curiosity": {}, "rnd": {}}}, demo_path=path)
    with pytest.raises(
        ConfigError,
        match=r"it does nothing with network_settings\.compile: .*network_settings\.bfloat16: set it to false$",
    ):
        trainer(network={"compile": True, "bfloat16": True}, demo_path=path)
    with pytest.raises(
        ConfigError,
        match="leave out behavioral_cloning; its hyperparameters name what it imitates, as demo_path or teacher",
    ):
        trainer(rest={"behavioral_cloning": {"demo_path": path}}, demo_path=path)
    with pytest.raises(DemoError, match="recorded from other agents"):
        trainer(NUMBERS, demo_path=path)
