from typing import Any

import torch
from any_transitions import CPU, EVERYTHING, seen_as, transitions, vector_spec
from torch.testing import assert_close

from palaestra.core.specs import BehaviorSpec
from palaestra.rewards.rnd import RND
from palaestra.rewards.settings import RNDSettings

VECTOR = vector_spec(3, continuous=1)


def rnd(spec: BehaviorSpec = VECTOR, rate: float = 1e-3, seed: int = 0, **network: Any) -> RND:
    settings = {"learning_rate": rate, "network_settings": {"hidden_units": 16, "num_layers": 2, **network}}
    return RND(RNDSettings.model_validate(settings), spec, CPU, seed)


def test_the_reward_is_the_squared_distance_of_both_networks_features_and_the_loss_its_mean():
    signal = rnd(EVERYTHING, rate=0)
    batch = transitions(EVERYTHING, 6)
    features = [
        network.features(0, signal.predictor.prepare(batch.obs)) for network in (signal.predictor, signal.target)
    ]
    expected = (features[0] - features[1]).square().sum(1)
    assert_close(signal.reward(batch), expected)
    assert_close(signal.learn(batch)["Losses/RND Loss"], expected.mean().detach())


def test_what_is_seen_again_and_again_pays_less_and_less_and_what_is_new_pays_on():
    signal = rnd()
    often = seen_as(torch.tensor([[1.0, 0.0, 0.0]]))
    never = seen_as(torch.tensor([[0.0, 2.0, -1.0]]))
    first = [signal.reward(batch).item() for batch in (often, never)]
    for _ in range(300):
        signal.learn(often)
    with torch.no_grad():
        assert signal.reward(often).item() < 0.01 * first[0]
        assert signal.reward(never).item() > 0.3 * first[1]


def test_the_target_never_moves():
    signal = rnd(EVERYTHING, normalize=True)
    before = {name: tensor.clone() for name, tensor in signal.target.state_dict().items()}
    for seed in range(3):
        batch = transitions(EVERYTHING, 8, seed)
        signal.learn(batch)
        signal.learn_statistics(batch.obs)
    assert all(torch.equal(before[name], tensor) for name, tensor in signal.target.state_dict().items())


def test_with_normalize_the_range_of_an_observation_does_not_matter():
    small = rnd(normalize=True)
    large = rnd(normalize=True)
    obs = torch.randn(1000, 3, generator=torch.Generator().manual_seed(0))
    scale = torch.tensor([1.0, 1000.0, 0.1])
    for signal, seen in ((small, obs), (large, obs * scale)):
        for _ in range(50):
            signal.learn_statistics((seen,))
    assert_close(large.reward(seen_as(obs * scale)), small.reward(seen_as(obs)), rtol=0.02, atol=0.02)
    apart = (small.reward(seen_as(obs)) - rnd().reward(seen_as(obs * scale))).abs()
    assert apart.max() > 100  # without it, the thousand decides
