"""What holds for every signal that has a network."""

from pathlib import Path
from typing import Any

import pytest
import torch
from any_transitions import CPU, EVERYTHING, transitions
from demo_files import episodes, write

from palaestra.core.metrics import Metrics
from palaestra.core.plugins import registry
from palaestra.core.specs import ActionSpec, BehaviorSpec
from palaestra.rewards.base import RewardSignal
from palaestra.rewards.settings import REWARDS
from palaestra.rewards.signal_optimizer import flat
from palaestra.testing import check_trainer
from palaestra.testing.check_trainer import SPECS
from palaestra.trainers.behavior_settings import BehaviorSettings
from palaestra.trainers.ppo import PPO

LEARNED = ("curiosity", "rnd", "gail", "amp")


def tree(name: str, spec: BehaviorSpec, folder: Path, **network: Any) -> dict[str, Any]:
    settings: dict[str, Any] = {"network_settings": {"hidden_units": 16, "num_layers": 2, "normalize": True, **network}}
    if name == "gail":
        demo = write(folder / "a.demo", episodes(6, 4, spec=spec), spec)
        settings |= {"use_actions": True, "use_vail": True, "demo_path": str(demo)}
    if name == "amp":
        settings |= {"clips": str(write(folder / "a.demo", episodes(6, 4, spec=spec), spec)), "kept_pairs": 5}
    return settings


def signal(name: str, spec: BehaviorSpec, folder: Path, seed: int = 0, **network: Any) -> RewardSignal:
    return registry("rewards").get(name)(
        REWARDS[name].model_validate(tree(name, spec, folder, **network)), spec, CPU, seed
    )


@pytest.mark.parametrize("name", LEARNED)
@pytest.mark.parametrize(
    "spec", [*SPECS, EVERYTHING], ids=lambda spec: f"{'-'.join(obs.name for obs in spec.obs)} {spec.action.components}"
)
def test_it_goes_on_from_its_state_with_the_same_digits(name: str, spec: BehaviorSpec, tmp_path: Path):
    old, new = (signal(name, spec, tmp_path, seed) for seed in (0, 1))
    batch = transitions(spec, 12)
    metrics = Metrics()
    metrics.add(old.learn(batch))
    least = -2 if name == "amp" else 0  # what its discriminator says of pairs is about -1 to 1
    assert all(least <= value < 1e6 for value in metrics.read().values())
    old.learn_statistics(batch.obs)
    new.load_state_dict(old.state_dict())
    for seed in (1, 2):
        batch = transitions(spec, 12, seed)
        assert old.learn(batch) == new.learn(batch)
        assert torch.equal(old.reward(batch), new.reward(batch))


@pytest.mark.parametrize("name", LEARNED)
def test_its_weights_are_its_seeds_and_the_global_stream_stays_where_it_is(name: str, tmp_path: Path):
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = signal(name, EVERYTHING, tmp_path, seed=2)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(3)
    again, other = (signal(name, EVERYTHING, tmp_path, seed) for seed in (2, 4))
    batch = transitions(EVERYTHING, 12)
    losses = [one.learn(batch) for one in (first, again, other)]
    assert losses[0] == losses[1]
    assert losses[0] != losses[2]


@pytest.mark.parametrize(("name", "ignores"), [("curiosity", True), ("rnd", True), ("gail", False), ("amp", False)])
def test_novelty_is_worth_something_beyond_an_end_and_imitation_is_not(name: str, ignores: bool, tmp_path: Path):
    assert signal(name, SPECS[0], tmp_path).ignores_ends is ignores


@pytest.mark.parametrize("name", LEARNED)
def test_judging_changes_nothing(name: str, tmp_path: Path):
    one = signal(name, EVERYTHING, tmp_path)
    batch = transitions(EVERYTHING, 12)
    one.learn(batch)
    before = {str(key): value.clone() for key, value in one.state_dict()["weights"].items()}
    assert torch.equal(one.reward(batch), one.reward(batch))
    assert all(torch.equal(before[key], value) for key, value in one.state_dict()["weights"].items())


@pytest.mark.parametrize("name", LEARNED)
def test_memory_in_its_network_settings_is_left_out(name: str, tmp_path: Path):
    one, plain = (signal(name, EVERYTHING, tmp_path, **more) for more in ({"memory": {"memory_size": 8}}, {}))
    assert one.state_dict()["weights"].keys() == plain.state_dict()["weights"].keys()
    one.learn(transitions(EVERYTHING, 12))


def test_all_of_them_at_once_keep_the_contract_of_a_trainer(tmp_path: Path):
    spec = SPECS[2]
    signals = {"extrinsic": {}, **{name: {"strength": 0.1, **tree(name, spec, tmp_path)} for name in LEARNED}}
    settings = {
        "reward_signals": signals,
        "network_settings": {"hidden_units": 16},
        "hyperparameters": {"batch_size": 16, "buffer_size": 64},
    }
    check_trainer(PPO, BehaviorSettings.model_validate({"trainer_type": "ppo", **settings}), spec)


def test_an_action_as_numbers_has_its_branches_one_hot():
    batch = transitions(EVERYTHING, 4)
    rows = [
        [*numbers, *(float(i == first) for i in range(3)), *(float(i == second) for i in range(2))]
        for numbers, (first, second) in zip(
            batch.action.continuous.tolist(), batch.action.discrete.tolist(), strict=True
        )
    ]
    assert flat(batch.action, EVERYTHING.action).tolist() == rows
    assert flat(batch.action, ActionSpec(2)).tolist() == batch.action.continuous.tolist()
