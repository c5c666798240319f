import copy
from itertools import islice
from typing import Any

import pytest
import torch
from rollouts import collected, experience, rollouts_of, training_rows
from tiny_envs import CPU, Bandit, Stream, behavior_settings, plainly, spec_of
from torch import Tensor, nn
from torch.testing import assert_close

from palaestra.core.timestep import Action
from palaestra.data.rollout import Rollout
from palaestra.models.actor_critic import ActorCritic
from palaestra.models.distributions import log_prob_and_entropy
from palaestra.rewards.settings import ExtrinsicSettings
from palaestra.rewards.signals import RewardSignals
from palaestra.trainers.advantages import normalized
from palaestra.trainers.poca import POCA
from palaestra.trainers.ppo import PPO

SPEC = spec_of((2,), (1,), continuous=2, branches=(2, 2))
GAMMA, LAMBDA = 0.9, 0.8


def trainer(hyper: dict[str, Any] | None = None, seed: int = 0, **settings: Any) -> PPO:
    return PPO(SPEC, behavior_settings(hyper, **settings), CPU, seed)


def values_first_number(ppo: PPO) -> PPO:
    """Makes V(obs) = obs[0][0]: far from 0, Swish is the identity."""
    network = ppo.network
    with torch.no_grad():
        for weight, bias in zip(network.body.weights, network.body.biases, strict=True):
            weight[-1].zero_()
            weight[-1, 0, 0] = 1
            bias[-1].zero_()
        network.body.biases[0][-1, 0, 0] = 100
        network.value_head.weight.zero_()
        network.value_head.weight[0, 0] = 1
        network.value_head.bias.fill_(-100)
    return ppo


def played(ppo: PPO, seed: int, ticks: int = 16) -> Rollout:
    """Experience with the trainer's own decisions."""
    with torch.no_grad():
        return next(rollouts_of(Stream(seed, steady=True).next, [ticks], ppo.policy.act, steady=True))


def slow_rows(rollout: Rollout, horizon: int) -> dict[tuple[int, int], tuple[float, float]]:
    """Value and advantage of each decision, by time and slot, where V(obs) = obs[0][0]."""
    rows = {}
    for slot, (decisions, last) in plainly(rollout).items():
        following = [row["obs"][0][0] for row in decisions[1:]] + [last[0][0]]
        count = 0
        cuts = []
        for row in decisions:
            count += 1
            ended = row["terminated"] or row["truncated"]
            cuts.append(ended or count % horizon == 0)
            count = 0 if ended else count
        later = 0.0
        for t in reversed(range(len(decisions))):
            row = decisions[t]
            after = 0.0 if row["terminated"] else row["final"][0][0] if row["truncated"] else following[t]
            value = row["obs"][0][0]
            later = (
                row["reward"] + row["group_reward"] + GAMMA * after - value + (0 if cuts[t] else GAMMA * LAMBDA * later)
            )
            rows[t, slot] = (value, later)
    return dict(sorted(rows.items()))


@pytest.mark.parametrize("steady", [True, False])
@pytest.mark.parametrize("horizon", [3, 64])
@pytest.mark.parametrize("seed", range(3))
def test_truncations_bootstrap_from_the_last_view_terminations_from_0_and_open_ends_from_what_followed(
    steady: bool, horizon: int, seed: int
):
    ppo = values_first_number(trainer({"lambd": LAMBDA}, extrinsic={"gamma": GAMMA}, time_horizon=horizon))
    rollout = experience(seed, steady, 30)
    assert rollout.terminated.any()
    assert rollout.truncated.any()
    rows = training_rows(ppo, rollout)
    value, advantage = torch.tensor(list(slow_rows(rollout, horizon).values())).unbind(1)
    assert_close(rows.value[:, 0], value, rtol=1e-4, atol=1e-3)
    assert_close(rows.target[:, 0], advantage + value, rtol=1e-4, atol=1e-3)
    assert_close(rows.advantage, normalized(advantage), rtol=1e-3, atol=1e-3)


def test_the_rows_of_slots_that_grew_are_those_of_each_decision():
    ppo = values_first_number(trainer({"lambd": LAMBDA}, extrinsic={"gamma": GAMMA}, time_horizon=4))
    rollout = experience(5, False, 30, grows_at=9)
    expected = slow_rows(rollout, 4)
    rows = training_rows(ppo, rollout)
    assert_close(rows.inputs[0][:, :2], torch.stack([rollout.obs[0][place] for place in expected]))
    assert_close(rows.target[:, 0], torch.tensor([sum(pair) for pair in expected.values()]), rtol=1e-4, atol=1e-3)


def test_each_signal_has_values_and_targets_of_its_own_and_the_advantage_is_their_mean():
    ppo = trainer({"lambd": LAMBDA})
    rollout = experience(6, False)
    ppo.network = ActorCritic(SPEC, ppo.settings.network_settings, signals=2)
    values_first_number(ppo).network.value_head.weight.data[1, 0] = 0.5
    ppo.signals = RewardSignals(SPEC, {"extrinsic": ExtrinsicSettings(gamma=GAMMA)}, CPU, 0)
    ppo.signals.names = ("extrinsic",) * 2
    ppo.signals.gammas = (GAMMA, 0.5)
    ppo.signals._strengths = (1.0, 3.0)
    rows = training_rows(ppo, rollout)
    expected = torch.tensor([sum(pair) for pair in slow_rows(rollout, 64).values()])
    assert_close(rows.target[:, 0], expected, rtol=1e-4, atol=1e-3)
    assert_close(rows.value[:, 1], 0.5 * rows.value[:, 0] - 50, rtol=1e-4, atol=1e-3)
    advantages = rows.target - rows.value
    assert_close(rows.advantage, normalized(advantages.mean(1)), rtol=1e-4, atol=1e-4)


def test_a_masked_rollout_gives_its_masks():
    spec = spec_of((2,), (1,), continuous=2, branches=(3, 2))
    ppo = PPO(spec, behavior_settings(), CPU, 0)
    rows = training_rows(ppo, experience(2, True, masked=True))
    assert rows.mask is not None
    assert rows.mask.shape == (64, 5)
    assert not rows.mask.all()


def test_the_normalizer_stands_still_while_collecting_and_the_ratio_is_1_at_the_first_minibatch():
    ppo = trainer(network={"normalize": True})
    ppo.update(played(ppo, 1), 64)
    normalizer = ppo.network.normalizer
    assert normalizer is not None
    before = copy.deepcopy(normalizer.state_dict())
    rollout = played(ppo, 2)
    assert all(torch.equal(value, before[name]) for name, value in normalizer.state_dict().items())
    rows = training_rows(ppo, rollout)
    with torch.no_grad():
        output, value = ppo.network(rows.inputs)
        sample = Action(rows.continuous, rows.discrete)
        log_prob, _ = log_prob_and_entropy(output, ppo.network.log_std, None, sample, SPEC.action)
    assert_close(log_prob, rows.log_prob, rtol=1e-6, atol=1e-6)
    assert_close(value, rows.value, rtol=1e-5, atol=1e-6)


def test_the_normalizer_takes_in_every_settled_decision_once():
    ppo = trainer({"num_epoch": 5}, network={"normalize": True})
    rollout = experience(3, False)
    ppo.update(rollout, 64)
    normalizer = ppo.network.normalizer
    assert normalizer is not None
    assert rollout.lengths is not None
    seen = [row["obs"][0] + row["obs"][1] for rows, _ in plainly(rollout).values() for row in rows]
    assert int(normalizer.count) == 1 + len(seen)
    assert_close(normalizer.mean, torch.tensor(seen, dtype=torch.float64).sum(0) / (1 + len(seen)))


def moved(hyper: dict[str, Any], **settings: Any) -> dict[str, Tensor]:
    """Each parameter's change in one update."""
    ppo = trainer(hyper, **settings)
    before = {name: p.detach().clone() for name, p in ppo.network.named_parameters()}
    ppo.update(experience(4, True), 64)
    return {name: p.detach() - before[name] for name, p in ppo.network.named_parameters()}


def test_an_update_moves_every_parameter():
    assert all(change.any() for change in moved({}).values())


def test_without_value_loss_the_critic_stays():
    change = moved({"value_coef": 0.0})
    assert not change["value_head.weight"].any()
    assert not change["body.weights.0"][1].any()
    assert change["action_head.weight"].any()


def test_a_shared_critic_has_one_body_and_learns():
    change = moved({"shared_critic": True})
    assert change["body.weights.0"].shape[0] == 1
    assert all(part.any() for part in change.values())


def test_clipping_the_value_changes_what_is_learned():
    plain = moved({"epsilon": 0.01})
    clipped = moved({"epsilon": 0.01, "clip_value": True})
    assert not torch.equal(plain["value_head.weight"], clipped["value_head.weight"])
    assert torch.equal(plain["action_head.weight"], clipped["action_head.weight"])


@pytest.mark.parametrize("name", ["beta", "epsilon", "lambd", "learning_rate", "num_epoch"])
def test_each_setting_has_an_effect(name: str):
    changed = {"beta": 0.5, "epsilon": 0.02, "lambd": 0.1, "learning_rate": 1e-2, "num_epoch": 1}[name]
    assert not torch.equal(moved({})["action_head.weight"], moved({name: changed})["action_head.weight"])


def grad_norm(hyper: dict[str, Any]) -> float:
    ppo = trainer({"learning_rate": 0.0, "num_epoch": 1, **hyper})
    ppo.update(experience(4, True), 64)
    return float(torch.cat([p.grad.flatten() for p in ppo.network.parameters() if p.grad is not None]).norm())


def test_max_grad_norm_bounds_the_norm_of_all_gradients_together():
    assert grad_norm({}) > 1
    assert grad_norm({"max_grad_norm": 0.01}) == pytest.approx(0.01, rel=1e-3)
    assert grad_norm({"max_grad_norm": 1e6}) == pytest.approx(grad_norm({}))


def test_schedules_follow_the_step():
    ppo = trainer(
        {"learning_rate_schedule": "linear", "learning_rate": 1e-2, "epsilon": 0.3, "beta": 1e-2}, max_steps=1000
    )
    metrics = ppo.update(experience(4, True), 500).read()
    assert metrics["Policy/Learning Rate"] == pytest.approx(0.5e-2)
    assert metrics["Policy/Epsilon"] == pytest.approx(0.2)
    assert metrics["Policy/Beta"] == pytest.approx(0.5 * (1e-2 + 1e-5))
    assert ppo.optimizer.learning_rate == metrics["Policy/Learning Rate"]


@pytest.mark.parametrize(
    "action",
    [
        {"branches": (2,)},
        {"branches": (2, 2)},
        {"continuous": 1},
        {"continuous": 2},
        {"continuous": 1, "branches": (2,)},
    ],
    ids=str,
)
def test_it_learns_what_is_best_in_a_bandit(action: dict[str, Any]):
    env = Bandit(64, **action)
    hyper = {"buffer_size": 512, "batch_size": 128, "learning_rate": 1e-3, "beta": 1e-3, "num_epoch": 4}
    ppo = PPO(env.behaviors["Bandit"], behavior_settings(hyper), CPU, 0)
    first = mean_reward(ppo, env)
    for rollout in islice(collected(env, ppo), 20):
        ppo.update(rollout, 0)
    best = len(action)
    assert first < 0.8 * best
    assert mean_reward(ppo, env) > 0.9 * best


@torch.no_grad()
@pytest.mark.parametrize("memory", [None, {"sequence_length": 4, "memory_size": 8}])
def test_the_setting_deterministic_has_it_act_by_the_likeliest_action(memory: dict[str, int] | None):
    step = Stream(0, slots=20, steady=True).next()
    drawn, likeliest = (trainer(network={"memory": memory, "deterministic": chosen}).policy for chosen in (False, True))
    means = likeliest.act(step).sample.continuous
    likeliest.forget()
    assert torch.equal(likeliest.act(step).sample.continuous, means)
    assert not torch.equal(drawn.act(step).sample.continuous, means)


@torch.no_grad()
def mean_reward(ppo: PPO, env: Bandit) -> float:
    """Of the likeliest actions."""
    step = env.reset(1)["Bandit"]
    ppo.policy.deterministic = True
    decision = ppo.policy.act(step)
    ppo.policy.deterministic = False
    return float(env.step({"Bandit": decision.action})["Bandit"].reward.mean())


@pytest.mark.parametrize("kind", [PPO, POCA])
def test_values_of_rewards_that_are_learned_start_at_random_and_those_of_the_environments_at_zero(
    kind: type[PPO] | type[POCA],
):
    signals = {"curiosity": {}, "extrinsic": {}, "rnd": {}}
    settings = behavior_settings(reward_signals=signals, trainer_type=kind.__name__.lower())
    network = kind(SPEC, settings, CPU, 0).network
    head = network.value_head.own_head if kind is POCA else network.value_head
    assert isinstance(head, nn.Linear)
    assert (
        head.weight.any(1).tolist() == [name != "extrinsic" for name in settings.reward_signals] == [False, True, True]
    )
    assert not torch.equal(head.weight[1], head.weight[2])
    assert head.weight.abs().max() < (6 / (1 + network.width)) ** 0.5  # Glorot and Bengio 2010, eq. 16
    assert not head.bias.any()


@pytest.mark.parametrize("make", [PPO, POCA])
def test_continuous_actions_first_spread_as_the_settings_say(make: type[PPO] | type[POCA]):
    trained = make(SPEC, behavior_settings({"initial_deviation": 3.0}, trainer_type=make.__name__.lower()), CPU, 0)
    plain = make(SPEC, behavior_settings(trainer_type=make.__name__.lower()), CPU, 0)
    assert_close(trained.network.log_std.exp(), torch.full((2,), 3.0))
    assert_close(plain.network.log_std.exp(), torch.ones(2))
    assert_close(trained.network.action_head.weight, plain.network.action_head.weight)
    plain.load_state_dict(trained.state_dict())  # resumed: what was learned counts
    assert_close(plain.network.log_std.exp(), torch.full((2,), 3.0))
