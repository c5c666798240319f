"""What the critic alone sees reaches no action, whatever the network: `network_settings.critic_only`."""

import copy
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from pydantic import ValidationError
from tiny_envs import CPU, table
from torch import Tensor

from palaestra.brains.base import Seen
from palaestra.brains.model import load_policy
from palaestra.brains.trained import ModelBrain
from palaestra.core.errors import ConfigError
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.core.timestep import Action, TimeStep
from palaestra.data.transitions import Transitions
from palaestra.models.actor_critic import ActorCritic
from palaestra.models.critic_only.sight import narrowed, shown_to_actor
from palaestra.models.sac_networks import SoftActorCritic
from palaestra.models.settings import NetworkSettings
from palaestra.onnx_export.check import compare
from palaestra.onnx_export.onnx import export
from palaestra.parallel.rank_group import ALONE, RankGroup
from palaestra.rewards.settings import SignalSettings
from palaestra.rewards.signals import RewardSignals
from palaestra.testing import check_trainer
from palaestra.trainers.base import make_trainer
from palaestra.trainers.behavior_settings import BehaviorSettings, trainer_class
from palaestra.trainers.ppo import PPO

MEMORY = {"memory": {"sequence_length": 4, "memory_size": 8}}
SPECS = {
    "vectors": BehaviorSpec((ObsSpec("truth_a", (3,)), ObsSpec("own", (5,))), ActionSpec(continuous=2), steady=True),
    "all kinds": BehaviorSpec(
        (
            ObsSpec("image", (1, 20, 20)),
            ObsSpec("truth_image", (1, 20, 20)),
            ObsSpec("own", (5,)),
            ObsSpec("truth_entities", (4, 3)),
            ObsSpec("entities", (4, 3)),
            ObsSpec("truth_goal", (2,), goal=True),
        ),
        ActionSpec(continuous=1, branches=(3,)),
    ),
    "goal": BehaviorSpec(
        (ObsSpec("truth_image", (1, 20, 20)), ObsSpec("goal", (2,), goal=True), ObsSpec("own", (5,))),
        ActionSpec(branches=(3, 2)),
    ),
    "no vector of the policy's": BehaviorSpec(
        (ObsSpec("entities", (4, 3)), ObsSpec("truth", (2,))), ActionSpec(branches=(3,))
    ),
}


def settings(trainer: str, network: Mapping[str, Any] | None = None, **rest: Any) -> BehaviorSettings:
    hyper = {
        "batch_size": 16,
        "buffer_size": 500 if trainer == "sac" else 64,
        **({"teacher": "heuristic"} if trainer == "bc" else {}),
    }
    shape = {"critic_only": ["truth*"], "hidden_units": 16, "num_layers": 1, "normalize": True, **(network or {})}
    return BehaviorSettings.model_validate(
        {
            "trainer_type": trainer,
            "network_settings": shape,
            **rest,
            "hyperparameters": {**hyper, **rest.get("hyperparameters", {})},
        }
    )


SIGNALS = {"extrinsic": {}, **{name: {"network_settings": {"hidden_units": 8}} for name in ("rnd", "curiosity")}}


def random_table(spec: BehaviorSpec, rows: int = 6) -> TimeStep:
    mask = torch.ones(rows, spec.action.choices, dtype=torch.bool) if spec.action.branches else None
    return table(tuple(torch.rand(rows, *obs.shape) for obs in spec.obs), mask=mask)


def with_lies(step: TimeStep, spec: BehaviorSpec) -> TimeStep:
    """The same table with other numbers for the critic."""
    pairs = zip(spec.obs, step.obs, strict=True)
    return replace(step, obs=tuple(torch.rand_like(x) if one.name.startswith("truth") else x for one, x in pairs))


def values(network: Any, inputs: tuple[Tensor, ...], state: Tensor) -> Tensor:
    """What the critic says of these inputs, or makes of them."""
    if isinstance(network, SoftActorCritic):
        critics = network.critics
        return critics.after(inputs, network.of_critics(state)) if state.numel() else critics.encoding(inputs)
    return network.value_head(network.remember(-1, inputs, state)[0] if state.numel() else network.features(-1, inputs))


@torch.no_grad()
@pytest.mark.parametrize("memory", [{}, MEMORY], ids=["", "memory"])
@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("kind", ["ppo", "poca", "sac"])
def test_hidden_numbers_change_values_and_nothing_of_the_policy(kind: str, name: str, memory: dict[str, Any]):
    spec = SPECS[name]
    trainer: Any = make_trainer(spec, settings(kind, memory), CPU, 3)
    network = trainer.network
    if kind != "sac":
        head = network.value_head if kind == "ppo" else network.value_head.own_head
        torch.nn.init.normal_(head.weight)  # values start at 0
    told, lied = (copy.deepcopy(trainer.policy) for _ in range(2))
    for _ in range(3):
        step = random_table(spec)
        other = with_lies(step, spec)
        a, b = told.act(step), lied.act(other)
        assert torch.equal(a.action.continuous, b.action.continuous)
        assert torch.equal(a.action.discrete, b.action.discrete)
        assert torch.equal(a.log_prob, b.log_prob)
        if memory:
            actors = network.memory.size
            mine, theirs = told.recurrent_state, lied.recurrent_state
            assert torch.equal(mine[:, :actors], theirs[:, :actors])
            assert not torch.equal(mine[:, actors:], theirs[:, actors:])
        state = told.recurrent_state
        assert not torch.equal(*(values(network, network.prepare(one.obs), state) for one in (step, other)))
        trained, misled = copy.deepcopy(network), copy.deepcopy(network)
        trained.learn_statistics(tuple(step.obs[i] for i in network.measured))
        misled.learn_statistics(tuple(other.obs[i] for i in network.measured))
        if network.normalizer is not None:
            assert torch.equal(trained.normalizer.mean, misled.normalizer.mean)
        if any(spec.obs[i].name.startswith("truth") for i in network.measured):
            means = [(one.critics if kind == "sac" else one.critic).normalizer.mean for one in (trained, misled)]
            assert not torch.equal(*means)


@pytest.mark.slow
@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("kind", ["ppo", "poca", "sac"])
def test_trainers_keep_the_contract_with_memory_and_other_signals(kind: str, name: str):
    check_trainer(trainer_class(kind), settings(kind, MEMORY, reward_signals=SIGNALS), SPECS[name])


@pytest.fixture(params=["ppo", "poca", "sac"])
def network(request: pytest.FixtureRequest) -> Any:
    """One that has memory, and sees observations of all kinds."""
    return make_trainer(SPECS["all kinds"], settings(request.param, MEMORY), CPU, 3).network


def test_a_model_file_takes_only_what_the_policy_sees(network: Any, tmp_path: Path):
    path = tmp_path / "model.onnx"
    export(network, SPECS["all kinds"], path)
    inputs = {one.name: one.shape[1:] for one in onnxruntime.InferenceSession(str(path)).get_inputs()}
    seen = {"obs_0": [1, 20, 20], "obs_1": [5], "obs_2": [4, 3]}
    assert inputs == {**seen, "action_masks": [3], "recurrent_in": [1, 8]}
    compare(network, SPECS["all kinds"], path, rows=40)


def test_a_model_for_unity_has_inputs_by_the_sensors_numbers_and_reads_the_policys(network: Any, tmp_path: Path):
    spec, path = SPECS["all kinds"], tmp_path / "model.onnx"
    export(network, spec, path, for_unity=True)
    session = onnxruntime.InferenceSession(str(path))
    numbered = {f"obs_{i}": list(obs.shape) for i, obs in enumerate(spec.obs)}
    assert {one.name: one.shape[1:] for one in session.get_inputs()} == {
        **numbered,
        "action_masks": [3],
        "recurrent_in": [1, 8],
    }
    read = {name for node in onnx.load(path).graph.node for name in node.input}
    assert {name for name in numbered if name not in read} == {"obs_1", "obs_3", "obs_5"}
    compare(network, spec, path, rows=40)


@pytest.mark.parametrize("for_unity", [False, True])
def test_a_model_plays_with_and_without_what_its_critic_saw(network: Any, for_unity: bool, tmp_path: Path):
    spec, path = SPECS["all kinds"], tmp_path / "model.onnx"
    export(network, spec, path, for_unity=for_unity)
    policy = load_policy(path, seed=1)
    assert policy.observations == ("image", "own", "entities")
    step = random_table(spec)
    by_name = {obs.name: x.numpy() for obs, x in zip(spec.obs, step.obs, strict=True)}
    own = {name: by_name[name] for name in policy.observations}
    expected = policy.act(own, deterministic=True)
    given = [by_name, list(own.values()), *([list(by_name.values())] if for_unity else [])]
    played = [policy.act(obs, deterministic=True) for obs in given]
    mask = np.ones((6, 3), np.bool_)
    for seen, there in ((tuple(by_name.values()), spec), (tuple(own.values()), narrowed(spec, network.shown))):
        brain = ModelBrain(policy, "Thing", there, deterministic=True)
        played.append(brain.decide(Seen(np.arange(6), seen, mask, np.zeros(6, np.int64))))
    for action in played:
        assert np.array_equal(action.continuous, expected.continuous)
        assert np.array_equal(action.discrete, expected.discrete)


class Watching:
    """A reward signal that notes what it is shown."""

    Settings = SignalSettings
    ignores_ends = False

    def __init__(
        self, settings: SignalSettings, spec: BehaviorSpec, device: torch.device, seed: int, group: RankGroup = ALONE
    ) -> None:
        self.names = [obs.name for obs in spec.obs]
        self.shapes = [obs.shape for obs in spec.obs]

    def reward(self, batch: Transitions) -> Tensor:
        self._look(batch.obs)
        self._look(batch.next_obs)
        return torch.zeros_like(batch.reward)

    def learn(self, batch: Transitions) -> dict[str, Tensor]:
        self._look(batch.obs)
        return {}

    def learn_statistics(self, obs: tuple[Tensor, ...]) -> None:
        self._look(obs)

    def _look(self, obs: tuple[Tensor, ...]) -> None:
        assert self.names == ["image", "own", "entities"]
        assert [tuple(x.shape[1:]) for x in obs] == self.shapes

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        pass


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ppo", "poca", "sac"])
def test_reward_signals_of_a_trainer_see_what_its_policy_sees(kind: str):
    signals = {"extrinsic": {}, "test_critic_only:Watching": {}}
    check_trainer(trainer_class(kind), settings(kind, reward_signals=signals), SPECS["all kinds"])


def test_reward_signals_see_what_the_policy_sees():
    spec = SPECS["all kinds"]
    shown = (0, 2, 4)
    given = settings("ppo", reward_signals={"test_critic_only:Watching": {}}).reward_signals
    signals = RewardSignals(narrowed(spec, shown), given, CPU, 0, shown=shown)
    obs = random_table(spec).obs
    none = torch.zeros(6)
    batch = Transitions(
        obs, Action(torch.zeros(6, 1), torch.zeros(6, 1, dtype=torch.int64)), obs, none, none > 0, none > 0
    )
    signals.of_batch(batch)
    signals.learn(batch)
    signals.learn_statistics(obs)


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        (
            ["truht_a"],
            r"critic_only: no observation is named 'truht_a'; did you mean 'truth_a'\? \(it has: truth_a, own\)",
        ),
        (["nothing_*"], r"no observation is named 'nothing_\*' \(it has: truth_a, own\)"),
        (["truth_a", "o*"], r"truth_a, o\* would leave the policy no observation at all \(it has: truth_a, own\)"),
    ],
)
@pytest.mark.parametrize("kind", ["ppo", "poca", "sac", "bc"])
def test_patterns_that_fit_no_behavior_are_refused(kind: str, patterns: list[str], message: str):
    with pytest.raises(ConfigError, match=message):
        make_trainer(SPECS["vectors"], settings(kind, {"critic_only": patterns}), CPU, 0)


def test_a_name_with_brackets_is_itself_before_it_is_a_pattern():
    spec = BehaviorSpec(tuple(ObsSpec(name, (2,)) for name in ("ray[0]", "ray0", "own")), ActionSpec(1))
    for patterns, shown in ((["ray[0]"], (1, 2)), (["ray[01]", "own"], (0,)), (["ray[[]0]"], (1, 2))):
        assert shown_to_actor(spec, NetworkSettings(critic_only=patterns)) == shown


@pytest.mark.parametrize("given", [[], "truth", [1], [""], {"truth": 1}])
def test_critic_only_is_a_list_of_names(given: object):
    with pytest.raises(ValidationError, match="expected a list of observations' names or patterns"):
        settings("ppo", {"critic_only": given})


def test_a_shared_critic_sees_nothing_of_its_own():
    with pytest.raises(ValidationError, match=r"set hyperparameters.shared_critic to false, or leave out critic_only"):
        settings("ppo", hyperparameters={"shared_critic": True})


def test_a_reward_signal_has_no_critic():
    with pytest.raises(ValidationError, match="rnd has no critic: give critic_only in the behavior's own"):
        settings("ppo", reward_signals={"rnd": {"network_settings": {"critic_only": ["truth_a"]}}})


def test_a_trainer_whose_network_shows_its_policy_everything_is_refused():
    class Leaks(PPO):
        @staticmethod
        def make_network(spec: BehaviorSpec, settings: BehaviorSettings) -> ActorCritic:
            return ActorCritic(spec, settings.network_settings)

    sys.modules[__name__].Leaks = Leaks  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="the network of trainer 'test_critic_only:Leaks' shows its policy all"):
        make_trainer(SPECS["vectors"], settings("test_critic_only:Leaks"), CPU, 0)
