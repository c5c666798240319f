import pytest
import torch
from tiny_envs import network_settings, spec_of
from torch.testing import assert_close

from palaestra.core.specs import BehaviorSpec
from palaestra.models.actor_critic import ActorCritic
from palaestra.models.conditioned_bodies import goal_columns

SPECS = {
    "vector": spec_of((4,), continuous=2),
    "vectors": spec_of((4,), (3,), branches=(3, 2)),
    "image": spec_of((3, 84, 84), continuous=1),
    "image and vector": spec_of((1, 20, 24), (4,), continuous=1, branches=(2,)),
    "goal": spec_of((4,), (2,), continuous=2, goals=(1,)),
    "goal image": spec_of((4,), (1, 20, 20), continuous=2, goals=(1,)),
}


def some_obs(spec: BehaviorSpec, rows: int) -> tuple[torch.Tensor, ...]:
    return tuple(torch.rand(rows, *obs.shape) for obs in spec.obs)


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("shared", [False, True])
def test_outputs_have_a_column_for_each_number_choice_and_signal(name: str, shared: bool):
    spec = SPECS[name]
    network = ActorCritic(spec, network_settings(normalize=True), signals=3, shared_critic=shared)
    inputs = network.prepare(some_obs(spec, 5))
    output, value = network(inputs)
    assert output.shape == (5, spec.action.continuous + spec.action.choices)
    assert value.shape == (5, 3)
    assert_close(network.act(inputs), output)
    assert_close(network.value(inputs), value)


@pytest.mark.parametrize(("name", "plain"), [("vector", True), ("vectors", True), ("image", False), ("goal", False)])
def test_only_networks_without_images_and_goals_are_plain(name: str, plain: bool):
    assert ActorCritic(SPECS[name], network_settings()).plain is plain


def test_actor_and_critic_have_bodies_of_their_own_unless_shared():
    inputs = (torch.rand(6, 4),)
    for shared in (False, True):
        network = ActorCritic(SPECS["vector"], network_settings(), shared_critic=shared)
        torch.nn.init.ones_(network.value_head.weight)  # through weights of zero no gradient reaches the body
        network.value(inputs).sum().backward()
        reached = network.body.weights[0].grad
        assert reached is not None
        assert bool(reached[0].any()) is shared


def test_all_vectors_are_joined_and_images_follow():
    spec = spec_of((2,), (1, 20, 20), (3,), continuous=1)
    network = ActorCritic(spec, network_settings())
    obs = some_obs(spec, 4)
    vector, image = network.prepare(obs)
    assert torch.equal(vector, torch.cat([obs[0], obs[2]], 1))
    assert torch.equal(image, obs[1])


def test_the_normalizer_works_on_the_joined_vectors_and_not_on_images():
    spec = spec_of((2,), (1, 20, 20), (3,), continuous=1)
    network = ActorCritic(spec, network_settings(normalize=True))
    obs = some_obs(spec, 40)
    network.learn_statistics((obs[0], obs[2]))
    vector, image = network.prepare(obs)
    assert network.normalizer is not None
    assert_close(vector, network.normalizer(torch.cat([obs[0], obs[2]], 1)))
    assert torch.equal(image, obs[1])


def test_images_alone_have_no_vector_and_no_normalizer():
    network = ActorCritic(SPECS["image"], network_settings(normalize=True))
    assert network.normalizer is None
    network.learn_statistics(())
    assert network.prepare((torch.rand(2, 3, 84, 84),))[0].shape == (2, 0)


def test_goal_columns_are_those_of_the_encoding():
    assert goal_columns(spec_of((4,), (2,), (1,), continuous=1, goals=(1,)), 16) == [4, 5]
    # vectors come first, so that the image's 16 columns lie behind 4 + 1
    assert goal_columns(spec_of((1, 20, 20), (4,), (1,), continuous=1, goals=(0, 2)), 16) == [4, *range(5, 21)]
    assert goal_columns(spec_of((1, 20, 20), (3, 20, 20), continuous=1, goals=(1,)), 16) == list(range(16, 32))


def test_a_goal_conditions_the_network_only_where_the_settings_say_so():
    plain = ActorCritic(SPECS["goal"], network_settings(goal_conditioning_type="none"))
    assert not plain.conditioned
    assert plain.plain
    hyper = ActorCritic(SPECS["goal"], network_settings(goal_conditioning_type="hyper"))
    inputs = hyper.prepare((torch.rand(3, 4), torch.rand(3, 2)))
    assert_close(hyper.act(inputs), hyper.action_head(hyper.bodies[0](inputs[0], inputs[0][:, 4:])))
    assert_close(hyper.value(inputs), hyper.value_head(hyper.bodies[1](inputs[0], inputs[0][:, 4:])))


def test_heads_start_small_for_actions_and_at_zero_for_values():
    torch.manual_seed(0)
    network = ActorCritic(spec_of((4,), continuous=200, branches=(200,)), network_settings(hidden_units=256), signals=4)
    weight = network.action_head.weight
    assert weight[:200].std().item() == pytest.approx(0.2 / 16, rel=0.02)
    assert weight[200:].std().item() == pytest.approx(0.1 / 16, rel=0.02)
    assert not network.value_head.weight.any()
    assert not network.action_head.bias.any()
    assert not network.value_head.bias.any()
    assert not network.log_std.any()
