import math

import pytest
import torch
from any_transitions import CPU, EVERYTHING, transitions, vector_spec
from torch.testing import assert_close

from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Action
from palaestra.data.transitions import Transitions
from palaestra.rewards.curiosity import Curiosity
from palaestra.rewards.settings import CuriositySettings

HYBRID = vector_spec(2, continuous=1, branches=(2,))


def curiosity(
    spec: BehaviorSpec, strength: float = 1.0, rate: float = 3e-4, hidden: int = 8, seed: int = 0
) -> Curiosity:
    tree = {"strength": strength, "learning_rate": rate, "network_settings": {"hidden_units": hidden, "num_layers": 1}}
    return Curiosity(CuriositySettings.model_validate(tree), spec, CPU, seed)


def one_step(seen: list[float], then: list[float], number: float, choice: int) -> Transitions:
    none = torch.zeros(1, dtype=torch.bool)
    action = Action(torch.tensor([[number]]), torch.tensor([[choice]]))
    return Transitions((torch.tensor([seen]),), action, (torch.tensor([then]),), torch.zeros(1), none, none)


def with_known_weights(signal: Curiosity) -> Curiosity:
    """phi(s) = 100 + s, as far from 0 Swish is the identity; the forward model expects 103, the inverse model guesses
    0.5 and 3 : 1.
    """
    model = signal.model
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.trunk.body.weights[0][0] = torch.eye(2)
        model.trunk.body.biases[0].fill_(100.0)
        model.forward_model[2].bias.fill_(103.0)
        model.inverse[2].bias.copy_(torch.tensor([0.5, math.log(3), 0.0]))
    return signal


def test_the_losses_are_those_of_known_weights():
    signal = with_known_weights(curiosity(HYBRID, hidden=2, rate=0))
    losses = signal.learn(one_step([0.0, 0.0], [1.0, 5.0], number=-1.0, choice=1))
    # ½ ((1 - 3)² + (5 - 3)²); (0.5 + 1)² - ln ¼
    assert_close(losses["Losses/Curiosity Forward Loss"], torch.tensor(4.0))
    assert_close(losses["Losses/Curiosity Inverse Loss"], torch.tensor(2.25 + math.log(4)))


@pytest.mark.parametrize(("strength", "paid"), [(1.0, 1.0), (0.5, 2.0), (0.01, 4.0), (0.0, 4.0)])
def test_a_surprise_pays_at_most_1_after_strength(strength: float, paid: float):
    signal = with_known_weights(curiosity(HYBRID, strength, hidden=2, rate=0))
    batch = one_step([0.0, 0.0], [1.0, 5.0], number=-1.0, choice=1)
    assert_close(signal.learn(batch)["Losses/Curiosity Forward Loss"], torch.tensor(4.0))  # nothing is cut off there
    assert_close(signal.reward(batch), torch.tensor([paid]))


def test_the_gradient_is_that_of_10_times_a_fifth_forward_and_four_fifths_inverse():
    signal = curiosity(EVERYTHING, rate=0)
    batch = transitions(EVERYTHING, 6)
    model = signal.model
    now, after = model.features(batch)
    forward = model.surprise(now, after, batch.action).mean()
    inverse = model.inverse_loss(now, after, batch.action).mean()
    parameters = [p for p in model.parameters() if p.numel()]
    expected = torch.autograd.grad(2 * forward + 8 * inverse, parameters, allow_unused=True)
    signal.learn(batch)
    for parameter, grad in zip(parameters, expected, strict=True):
        assert parameter.grad is not None
        assert_close(parameter.grad, torch.zeros_like(parameter) if grad is None else grad)


def test_nothing_is_paid_before_anything_was_learned_and_a_resumed_signal_pays_on():
    batch = transitions(EVERYTHING, 5)
    signal = curiosity(EVERYTHING)
    resumed = curiosity(EVERYTHING, seed=1)
    assert signal.reward(batch).tolist() == [0.0] * 5
    signal.learn(batch)
    resumed.load_state_dict(signal.state_dict())
    paid = resumed.reward(batch)
    assert (paid > 0).all()
    assert torch.equal(paid, signal.reward(batch))


def test_surprise_falls_where_the_world_is_lawful_and_stays_where_it_is_not():
    spec = vector_spec(3, branches=(3,))
    signal = curiosity(spec, strength=0.01, rate=3e-3, hidden=16)
    generator = torch.Generator().manual_seed(0)

    def batch(lawful: bool) -> Transitions:
        choice = torch.randint(3, (64, 1), generator=generator)
        seen = torch.eye(3)[choice if lawful else torch.randint(3, (64, 1), generator=generator)].squeeze(1)
        none = torch.zeros(64, dtype=torch.bool)
        action = Action(torch.zeros(64, 0), choice)
        return Transitions((torch.zeros(64, 3),), action, (seen,), torch.zeros(64), none, none)

    for _ in range(300):
        signal.learn(batch(lawful=True))
    with torch.no_grad():
        assert signal.reward(batch(lawful=False)).mean() > 20 * signal.reward(batch(lawful=True)).mean()


def test_it_learns_statistics_only_of_vectors():
    signal = Curiosity(CuriositySettings.model_validate({"network_settings": {"normalize": True}}), EVERYTHING, CPU, 0)
    obs = transitions(EVERYTHING, 9).obs
    signal.learn_statistics(obs)
    normalizer = signal.model.trunk.normalizer
    assert normalizer is not None
    # with one row of zeros
    assert_close(normalizer.mean.float(), torch.cat([obs[0], obs[2]], 1).mean(0) * 0.9, rtol=1e-4, atol=1e-5)
