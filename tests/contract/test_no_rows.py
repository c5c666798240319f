"""Every encoder, body, critic, reward signal and loss called with no rows: where no episode ends in a rollout, nothing
has a final one.
"""

from pathlib import Path

import pytest
import torch
from any_env import Anything
from any_transitions import CPU, EVERYTHING, transitions
from demo_files import episodes, write
from small_runs import settings
from torch import Tensor, nn

import palaestra
from palaestra.core.plugins import registry
from palaestra.core.row_index import Groups, Sequences
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.core.timestep import Action, TimeStep
from palaestra.losses import ppo, sac
from palaestra.models.actor_critic import ActorCritic
from palaestra.models.custom import own_body
from palaestra.models.distributions import log_prob_and_entropy
from palaestra.models.encoders import OURS
from palaestra.models.groups.group_critic import GroupCritic
from palaestra.models.sac_networks import SoftActorCritic
from palaestra.models.settings import NetworkSettings
from palaestra.rewards.settings import REWARDS
from palaestra.runtime.storage.networks import load_networks

OBS = {
    "vector": (ObsSpec("vector", (5,)),),
    "vector, goal": (ObsSpec("vector", (5,)), ObsSpec("goal", (2,), goal=True)),
    "image, goal": (ObsSpec("image", (1, 5, 5)), ObsSpec("goal", (2,), goal=True)),
    "vector, entities": (ObsSpec("vector", (5,)), ObsSpec("entities", (4, 3))),
    "entities": (ObsSpec("entities", (4, 3)),),
    "everything": EVERYTHING.obs,
}
ACTIONS = {"continuous": ActionSpec(2), "discrete": ActionSpec(branches=(3, 2)), "hybrid": ActionSpec(2, (3, 2))}
HYBRID = ACTIONS["hybrid"]
EMPTY = torch.zeros(0)
NOBODY = torch.zeros(0, dtype=torch.int64)


def no_rows(spec: BehaviorSpec) -> tuple[tuple[Tensor, ...], Action, Tensor | None]:
    """Observations, actions and masks."""
    mask = torch.ones(0, spec.action.choices, dtype=torch.bool) if spec.action.branches else None
    action = Action(
        torch.zeros(0, spec.action.continuous), torch.zeros(0, len(spec.action.branches), dtype=torch.int64)
    )
    return tuple(torch.zeros(0, *obs.shape) for obs in spec.obs), action, mask


def moves_nothing(network: nn.Module, outputs: list[Tensor]) -> None:
    """Each output has no rows, and none of them has a gradient."""
    assert all(len(output) == 0 for output in outputs)
    sum((output.sum() for output in outputs), torch.zeros(())).backward()
    assert all(not parameter.grad.any() for parameter in network.parameters() if parameter.grad is not None)


@pytest.mark.parametrize("encoder", OURS, ids=lambda encoder: encoder.__name__)
def test_an_encoder_takes_no_images(encoder: type[nn.Module]):
    made = encoder((3, 36, 40), 8)
    moves_nothing(made, [features := made(torch.zeros(0, 3, 36, 40))])
    assert features.shape == (0, 8)


class Flat(nn.Linear):
    """A body that needs a row to know the width of the others."""

    def __init__(self, inputs: int, hidden: int, layers: int) -> None:
        super().__init__(inputs, hidden)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.view(len(x), -1))


def test_a_body_of_the_user_is_not_called_without_rows():
    body = own_body(f"{__name__}:Flat", 5, 8, 1)
    assert body(torch.zeros(0, 5)).shape == (0, 8)
    assert body(torch.zeros(3, 5)).shape == (3, 8)


@pytest.mark.parametrize("memory", [None, {"memory_size": 8, "sequence_length": 4}], ids=["no memory", "memory"])
@pytest.mark.parametrize(
    ("seen", "action"), [*((seen, "hybrid") for seen in OBS), ("vector", "continuous"), ("vector", "discrete")]
)
@pytest.mark.parametrize("kind", [ActorCritic, SoftActorCritic])
def test_a_network_takes_no_rows(kind: type[ActorCritic | SoftActorCritic], seen: str, action: str, memory: object):
    network_settings = {
        "hidden_units": 8,
        "num_layers": 2,
        "normalize": True,
        "vis_encode_type": "fully_connected",
        "memory": memory,
    }
    settings = NetworkSettings.model_validate(network_settings)
    spec = BehaviorSpec(OBS[seen], ACTIONS[action])
    generator = torch.Generator()
    network, (obs, numbers, mask) = kind(spec, settings), no_rows(spec)
    inputs = network.prepare(obs)
    state = torch.zeros(0, network.memory_size)
    sequences = Sequences(0, NOBODY, state)
    output, after = network.decide(inputs, state)
    sample, branches = network.draw(output, mask, generator, False)
    log_prob = network.drawn_log_prob(output, sample, branches)
    outputs = [output, after, log_prob, network.played(output), network.outputs(inputs, sequences)]
    if isinstance(network, ActorCritic):
        outputs += [network.value(inputs, sequences), network.value_with(inputs, state), *network(inputs, sequences)]
        outputs.append(log_prob_and_entropy(output, network.log_std, mask, numbers, spec.action)[0])
    else:
        of_critics = Sequences(0, NOBODY, network.of_critics(state))
        outputs += network.critics(network.critics.encoding(inputs, of_critics), numbers.continuous).unbind()
    moves_nothing(network, outputs)
    network.learn_statistics(tuple(obs[i] for i in network.vectors))
    assert all(values.isfinite().all() for values in network.state_dict().values())


@pytest.mark.parametrize("individual", [False, True])
def test_the_critic_of_groups_takes_no_group_step_and_no_decision(individual: bool):
    critic = GroupCritic(8, 2, HYBRID, individual)
    groups = Groups(torch.zeros(0, 3, dtype=torch.int64), torch.zeros(0, 3, dtype=torch.bool))
    features, (_, action, _) = torch.zeros(0, 8), no_rows(BehaviorSpec(OBS["vector"], HYBRID))
    context, difference = critic.context_and_difference(features, action, groups, NOBODY, NOBODY)
    own = critic.own_value(features, groups.agents_at(NOBODY))
    moves_nothing(critic, [critic(features), critic.value(features, groups), own, context, difference])


@pytest.mark.parametrize("name", ["curiosity", "rnd", "gail", "amp"])
def test_a_reward_signal_judges_and_learns_from_no_transition(name: str, tmp_path: Path):
    tree: dict[str, object] = {"network_settings": {"hidden_units": 8, "num_layers": 1, "normalize": True}}
    if name == "gail":
        demo = write(tmp_path / "a.demo", episodes(3, spec=EVERYTHING), EVERYTHING)
        tree |= {"use_actions": True, "use_vail": True, "demo_path": str(demo)}
    if name == "amp":
        tree["clips"] = str(write(tmp_path / "a.demo", episodes(3, spec=EVERYTHING), EVERYTHING))
    signal = registry("rewards").get(name)(REWARDS[name].model_validate(tree), EVERYTHING, CPU, 0)
    batch = transitions(EVERYTHING, 0)
    assert signal.reward(batch).shape == (0,)
    signal.learn(batch)
    signal.learn_statistics(batch.obs)
    assert all(values.isfinite().all() for values in signal.state_dict()["weights"].values())
    assert signal.reward(transitions(EVERYTHING, 3)).isfinite().all()


def test_ppos_losses_in_closed_form_have_no_gradient_without_rows():
    log_std = torch.zeros(2)
    log_std.grad = torch.ones(2)
    shared = {"clip_range": 0.2, "entropy_coef": 0.0, "components": 4}
    numbers = ppo.gaussian_part(torch.zeros(0, 2), log_std, torch.zeros(0, 2), torch.zeros(0, 2), EMPTY, **shared)
    branch = ppo.branch_part(
        torch.zeros(0, 3), torch.zeros(0, 1, dtype=torch.int64), torch.zeros(0, 1), EMPTY, **shared
    )
    for part, width in ((numbers, 2), (branch, 3)):
        assert part.loss == 0
        assert part.grad.shape == (0, width)
    assert not log_std.grad.any()
    none = torch.zeros(0, 2)
    for clip_range in (None, 0.2):
        assert ppo.value_part(none, none, none, value_coef=0.5, clip_range=clip_range)[1].shape == (0, 2)
    assert ppo.clipped_surrogate(none, EMPTY, clip_range=0.2, joint=True).shape == (0, 1)
    assert ppo.clipped_surrogate(none, EMPTY, clip_range=0.2).shape == (0, 2)
    assert ppo.squared_error(none, none).shape == ppo.clipped_value(none, none, none, clip_range=0.2).shape == (0, 2)


@pytest.mark.parametrize("name", ACTIONS)
def test_sacs_losses_take_no_rows(name: str):
    action = ACTIONS[name]
    signals = 2
    _, taken, mask = no_rows(BehaviorSpec(OBS["vector"], action))
    branches = [torch.zeros(0, size) for size in action.branches]
    values = torch.zeros(0, signals, max(action.choices, 1))
    log_prob = torch.zeros(0, action.continuous)
    temperatures = torch.zeros(bool(action.continuous) + len(action.branches))
    assert sac.value_of_taken(values, taken.discrete, action.branches).shape == (0, signals)
    assert sac.soft_value(values, log_prob, branches, temperatures.exp()).shape == (0, signals)
    ends = torch.zeros(0, dtype=torch.bool)
    gamma = torch.tensor([0.9, 0.99])
    assert sac.backup(values[..., 0], values[..., 0], ends, gamma, torch.tensor([False, True])).shape == (0, signals)
    excess, counts = sac.entropy_excess(log_prob, branches, mask)
    assert sac.temperature_loss(temperatures, excess, counts) == 0


class Endless(Anything):
    """No episode ends."""

    def reset(self, seed: int) -> dict[str, TimeStep]:
        tables = super().reset(seed)
        self.left.fill_(1 << 40)
        return tables


@pytest.mark.parametrize("memory", [False, True])
@pytest.mark.parametrize("trainer", ["poca", *(pytest.param(name, marks=pytest.mark.slow) for name in ("ppo", "sac"))])
def test_a_game_with_a_goal_signal_is_learned_through_rollouts_in_which_no_episode_ends(
    trainer: str, memory: bool, tmp_path: Path
):
    env = Endless(OBS["vector, goal"], HYBRID, mates=3 if trainer == "poca" else 0)
    hyper = {"batch_size": 24, "buffer_size": 48} | (
        {"buffer_init_steps": 24} if trainer == "sac" else {"num_epoch": 1}
    )
    shape = {"hidden_units": 8, "num_layers": 1, "memory": {"memory_size": 8, "sequence_length": 4} if memory else None}
    signals = {
        "extrinsic": {},
        "rnd": {"network_settings": {"hidden_units": 8}},
        "curiosity": {"network_settings": {"hidden_units": 8}},
    }
    tree = settings(
        "Any", 96, trainer_type=trainer, hyperparameters=hyper, network_settings=shape, reward_signals=signals
    )
    result = palaestra.train(tree, env=env, results_dir=str(tmp_path), seed=1, quiet=True)
    assert result.finished
    network, _ = load_networks(result.folder)["Any"]
    assert all(values.isfinite().all() for values in network.state_dict().values())
