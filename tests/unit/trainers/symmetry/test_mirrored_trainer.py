from dataclasses import replace
from pathlib import Path

import pytest
import small_runs
import torch
from rollouts import rollouts_of
from tiny_envs import Stream, spec_of

import palaestra
from palaestra.core.errors import PalaestraError
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.core.timestep import Action
from palaestra.data.replay import ReplayBatch
from palaestra.parallel.rank_group import ALONE
from palaestra.parallel.rank_setup import takes_group
from palaestra.runtime.settings import load
from palaestra.trainers.base import make_trainer
from palaestra.trainers.behavior_settings import BehaviorSettings, trainer_class
from palaestra.trainers.symmetry.mirror import Mirror
from palaestra.trainers.symmetry.mirror_settings import MirrorSettings
from palaestra.trainers.symmetry.mirrored_trainer import mirrored, with_mirror_image

BALL = "3DBall"
CPU = torch.device("cpu")
MIRRORED = torch.tensor([1.0, -1.0]), torch.tensor([-1.0])
PPO = {"batch_size": 32, "buffer_size": 128, "num_epoch": 2}
SAC = {"batch_size": 16, "buffer_size": 500, "buffer_init_steps": 50}


def trained(trainer: str, run: str, **more):
    tree = small_runs.settings(
        "3DBall", mirror=BALL, trainer_type=trainer, hyperparameters=PPO if trainer == "ppo" else SAC
    )
    return palaestra.train(tree, env="3DBall", num_areas=4, run_id=run, seed=1, quiet=True, **more)


def test_rows_of_ppo_have_a_mirror_image_with_the_same_advantage_and_its_own_probability(tmp_path, monkeypatch):
    from palaestra.trainers.ppo import PPO as Base

    monkeypatch.chdir(tmp_path)
    seen = []
    gradient = Base.gradient
    monkeypatch.setattr(
        Base, "gradient", lambda self, batch, c: (seen.append((self, batch)), gradient(self, batch, c))[1]
    )
    trained("ppo", "one", max_steps=128)
    batch = seen[0][1]
    assert len(batch.advantage) == 64
    pairs = [
        column.unflatten(0, (32, 2)) for column in (batch.advantage, batch.target, batch.inputs[0], batch.continuous)
    ]
    for same in pairs[:2]:
        assert torch.equal(same[:, 0], same[:, 1])
    negated = torch.tensor([-1.0, 1, -1, 1, 1, -1, 1, 1])
    torch.testing.assert_close(pairs[2][:, 1], pairs[2][:, 0] * negated)
    torch.testing.assert_close(pairs[3][:, 1], pairs[3][:, 0] * torch.tensor([-1.0, 1.0]))
    assert not torch.allclose(batch.log_prob.unflatten(0, (32, 2))[:, 0], batch.log_prob.unflatten(0, (32, 2))[:, 1])


def test_the_images_of_ppo_have_their_own_masks_values_and_probabilities_so_that_ratios_begin_at_1():
    spec = spec_of((2,), (1,), continuous=2, branches=(3, 2))
    tree = {
        "observations": {"o0": {"negate": [1]}, "o1": {"negate": [0]}},
        "actions": {"continuous": [1, 0], "discrete": {0: [0, 2, 1]}},
    }
    block = BehaviorSettings.model_validate({"trainer_type": "ppo", "mirror": tree})
    ppo = make_trainer(spec, block, CPU, 0)
    network = ppo.network
    with torch.no_grad():
        for part in network.parameters():
            part.add_(0.2 * torch.randn_like(part))
    rollout = next(rollouts_of(Stream(3, masked=True).next, [12], ppo.policy.act))
    estimates = ppo._estimates(rollout)
    value = estimates.values()
    advantage = torch.randn(value.shape)
    rows = estimates.training_rows(advantage, value, value + 1, ALONE)
    images = estimates.mirrored(rows)
    views = [rollout.completed(obs) * sign for obs, sign in zip(rollout.obs, MIRRORED, strict=True)]
    assert torch.equal(torch.cat(images.inputs, 1), torch.cat(views, 1))
    assert torch.equal(images.continuous, rows.continuous[:, [1, 0]])
    assert torch.equal(images.discrete, torch.stack([(3 - rows.discrete[:, 0]) % 3, rows.discrete[:, 1]], 1))
    assert torch.equal(images.mask, rows.mask[:, [0, 2, 1, 3, 4]])
    assert not torch.equal(images.mask, rows.mask)
    output, said = network(network.prepare(tuple(views)))
    torch.testing.assert_close(images.value, said)
    numbers = torch.distributions.Normal(output[:, :2], network.log_std.exp()).log_prob(images.continuous)
    logits = output[:, 2:].masked_fill(~images.mask, -1e8).split([3, 2], 1)
    chosen = [part.log_softmax(1).gather(1, images.discrete[:, i : i + 1]) for i, part in enumerate(logits)]
    torch.testing.assert_close(images.log_prob, torch.cat([numbers, *chosen], 1))
    assert torch.equal(images.advantage, rows.advantage)
    assert torch.equal(images.target, rows.target)


def test_a_batch_of_a_replay_has_its_mirror_image_after_it():
    spec = BehaviorSpec((ObsSpec("own", (2,)),), ActionSpec(1, (2,)))
    tree = {"observations": {"own": {"negate": [0]}}, "actions": {"continuous": ["-0"], "discrete": {0: [1, 0]}}}
    mirror = Mirror(MirrorSettings.model_validate(tree), spec, CPU)
    batch = ReplayBatch(
        (torch.tensor([[1.0, 2.0], [3.0, 4.0]]),),
        torch.tensor([[True, False], [True, True]]),
        slice(0, 1),
        torch.tensor([1]),
        None,
        Action(torch.tensor([[0.5]]), torch.tensor([[0]])),
        torch.tensor([7.0]),
        torch.tensor([False]),
        torch.tensor([True]),
        torch.tensor([3]),
    )
    both = with_mirror_image(batch, mirror)
    assert both.obs[0][both.now].tolist() == [[1, 2], [-1, 2]]
    assert both.obs[0][both.after].tolist() == [[3, 4], [-3, 4]]
    assert both.masks[both.now].tolist() == [[True, False], [False, True]]
    assert (both.action.continuous.tolist(), both.action.discrete.tolist()) == ([[0.5], [-0.5]], [[0], [1]])
    assert both.reward.tolist() == [7, 7]
    assert both.steps.tolist() == [3, 3]


@pytest.mark.parametrize(("body", "bins"), [(None, None), ("residual", None), (None, 11), ("residual", 11)])
def test_a_batch_and_its_mirror_image_have_the_same_gradient(body, bins):
    spec = BehaviorSpec((ObsSpec("own", (2,)),), ActionSpec(1, (2,)))
    tree = {"observations": {"own": {"negate": [0]}}, "actions": {"continuous": ["-0"], "discrete": {0: [1, 0]}}}
    block = {
        "trainer_type": "sac",
        "hyperparameters": {"batch_size": 6, "buffer_size": 100, "init_entcoef": 1e-9, "critic_bins": bins},
        "network_settings": {"hidden_units": 8, "num_layers": 1, "body": body},
        "mirror": tree,
    }
    torch.manual_seed(1)
    count = 6
    row = torch.zeros(count, dtype=torch.bool)
    action = Action(torch.rand(count, 1) * 2 - 1, torch.randint(2, (count, 1)))
    at = slice(0, count), slice(count, 2 * count)
    batch = ReplayBatch((torch.randn(2 * count, 2),), None, *at, None, action, torch.randn(count), row, row)
    mirror = Mirror(MirrorSettings.model_validate(tree), spec, CPU)
    image = replace(batch, obs=mirror.obs(batch.obs), action=mirror.action(action))
    found = []
    for first in (batch, image):
        sac = make_trainer(spec, BehaviorSettings.model_validate(block), CPU, 0)
        head = sac.network.action_head
        torch.manual_seed(2)
        with torch.no_grad():
            for part in (sac.network.critics, sac.network.targets):  # which say 0 of everything at first
                for weights in part.parameters():
                    weights.add_(0.3 * torch.randn_like(weights))
            head.weight[1].zero_()  # hardly any noise, which is another in another order
            head.bias[1] = -20.0
        both = with_mirror_image(first, mirror)
        sac.gradient.fill(both, sac.signals.of_batch(both.transitions()), sac, sac.metrics)
        parameters = dict(sac.network.named_parameters())
        found.append({name: p.grad for name, p in parameters.items() if p.grad is not None and "temp" not in name})
    assert {"action_head.weight", "critics.head_weight", "body.weights.0"} <= found[0].keys()
    assert found[0]["action_head.weight"].abs().max() > 0.01
    torch.testing.assert_close(*found, atol=1e-3, rtol=1e-3)


def test_a_mirror_image_earns_what_the_original_does_of_learned_signals_too():
    spec = BehaviorSpec((ObsSpec("own", (2,)),), ActionSpec(1))
    block = {
        "trainer_type": "sac",
        "hyperparameters": {"batch_size": 4, "buffer_size": 100},
        "reward_signals": {"extrinsic": {}, "rnd": {}},
        "mirror": {"observations": {"own": {"negate": [0]}}, "actions": {"continuous": ["-0"]}},
    }
    sac = make_trainer(spec, BehaviorSettings.model_validate(block), CPU, 0)
    row = torch.zeros(3, dtype=torch.bool)
    action = Action(torch.rand(3, 1), torch.zeros((3, 0), dtype=torch.int64))
    at = slice(0, 3), slice(3, 6)
    batch = ReplayBatch((torch.randn(6, 2),), None, *at, None, action, torch.randn(3), row, row)
    given = []
    sac.gradient.fill = lambda batch, reward, losses, metrics: given.append(reward)
    sac.gradient.optimizer.step = sac.gradient.temperature_adam.step = lambda: None
    for parameter in sac.network.parameters():
        parameter.grad = torch.zeros_like(parameter)
    sac.gradient(with_mirror_image(batch, sac._mirror), sac, sac.metrics)
    torch.testing.assert_close(given[0], sac.signals.of_batch(batch.transitions()).repeat(2, 1), atol=0, rtol=0)


@pytest.mark.parametrize("trainer", ["ppo", "sac"])
def test_a_run_that_was_resumed_has_the_same_digits(tmp_path, monkeypatch, trainer):
    monkeypatch.chdir(tmp_path)
    constant = {"learning_rate_schedule": "constant"}
    whole = trained(trainer, "whole", max_steps=256, settings={"hyperparameters": constant})
    trained(trainer, "halves", max_steps=128, settings={"hyperparameters": constant})
    halves = palaestra.train(run_id="halves", resume=True, max_steps=256, quiet=True)
    files = [next(iter(result.models.values())).read_bytes() for result in (whole, halves)]
    assert files[0] == files[1]
    assert "mirror:" in Path("results/whole/configuration.yaml").read_text("utf-8")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"trainer_type": "poca"}, "poca judges whole groups"),
        ({"trainer_type": "bc", "hyperparameters": {"teacher": "heuristic"}}, "only ppo, sac"),
        ({"network_settings": {"memory": {"sequence_length": 8}}, "hyperparameters": PPO}, "network_settings.memory"),
    ],
)
def test_what_cannot_be_mirrored_is_refused_before_training(tmp_path, monkeypatch, changes, message):
    monkeypatch.chdir(tmp_path)
    tree = {"behaviors": {"3DBall": {"trainer_type": "ppo", **changes, "mirror": BALL}}}
    with pytest.raises(PalaestraError, match=message):
        palaestra.train(tree, env="3DBall", run_id="no", quiet=True)


@pytest.mark.parametrize("changes", [{}, {"threaded": True}, {"reward_signals": {"extrinsic": {}, "rnd": {}}}])
def test_other_features_go_on_beside_it(tmp_path, monkeypatch, changes):
    monkeypatch.chdir(tmp_path)
    tree = small_runs.settings("3DBall", mirror=BALL, hyperparameters=PPO, **changes)
    assert palaestra.train(tree, env="3DBall", num_areas=4, run_id="beside", quiet=True).finished


@pytest.mark.parametrize("trainer", ["ppo", "sac"])
def test_a_mirrored_trainer_has_its_classs_name_and_learns_with_other_ranks_as_that_does(trainer):
    settings = BehaviorSettings.model_validate({"trainer_type": trainer})
    kind = mirrored(trainer_class(trainer), settings)
    assert takes_group(kind)
    assert kind.__name__ == trainer_class(trainer).__name__  # which messages give


@pytest.mark.parametrize("trainer", ["ppo", "sac"])
def test_what_the_critic_alone_sees_is_mirrored_too(trainer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = {"critic_only": ["truth"], "hidden_units": 8}
    tree = small_runs.settings(
        "GridWorld", trainer_type=trainer, hyperparameters=PPO if trainer == "ppo" else SAC, network_settings=given
    )
    spec = BehaviorSpec((ObsSpec("seen", (2,)), ObsSpec("truth", (1,))), ActionSpec(continuous=1))
    block = BehaviorSettings.model_validate(
        {
            **tree["behaviors"]["GridWorld"],
            "mirror": {
                "observations": {"seen": {"negate": [1]}, "truth": {"negate": [0]}},
                "actions": {"continuous": {"negate": [0]}},
            },
        }
    )
    made = make_trainer(spec, block, CPU, 1)
    seen = made._mirror.obs((torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0]])))
    assert [x.tolist() for x in seen] == [[[1.0, -2.0]], [[-3.0]]]


def test_branches_of_a_mirror_in_a_settings_file_are_numbers(tmp_path):
    tree = small_runs.settings("GridWorld")
    mirror = {"observations": {"*": "same"}, "actions": {"discrete": {0: {"swap": [[1, 2]]}}}}
    tree["behaviors"]["GridWorld"]["mirror"] = mirror
    loaded = load(small_runs.write(str(tmp_path / "a.yaml"), tree)).settings.behaviors["GridWorld"].mirror
    assert loaded is not None
    assert list(loaded.actions.discrete) == [0]
