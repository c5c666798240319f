"""Every trainer at hand keeps the contract, and `check_trainer` sees one that does not."""

import itertools
from collections.abc import Mapping
from typing import Any

import pytest
import torch

from palaestra.core.errors import PluginError
from palaestra.core.metrics import Metrics
from palaestra.core.plugins import registry
from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Action, Decision, TimeStep
from palaestra.data.rollout import Rollout
from palaestra.testing import check_trainer
from palaestra.testing.check_trainer import SPECS
from palaestra.trainers.behavior_settings import BehaviorSettings
from palaestra.trainers.ppo import PPO


def settings(trainer: str = "ppo", **network: Any) -> BehaviorSettings:
    hyper = {"batch_size": 16, "buffer_size": 64, **({"teacher": "heuristic"} if trainer == "bc" else {})}
    return BehaviorSettings.model_validate(
        {
            "trainer_type": trainer,
            "hyperparameters": hyper,
            "network_settings": {"hidden_units": 16, "normalize": True, **network},
        }
    )


@pytest.mark.parametrize("name", registry("trainers").names())
def test_a_trainer_keeps_the_contract(name: str):
    check_trainer(registry("trainers").get(name), settings(name))


@pytest.mark.few(1)
@pytest.mark.parametrize("shared", [False, True])
def test_ppo_with_memory_keeps_the_contract(shared: bool):
    tree = settings(memory={"sequence_length": 5, "memory_size": 8}).model_dump(exclude_unset=True)
    tree["hyperparameters"] |= {"shared_critic": shared}
    check_trainer(PPO, BehaviorSettings.model_validate(tree))


def test_ppo_keeps_the_contract_with_its_further_settings():
    tree = settings().model_dump(exclude_unset=True)
    tree["hyperparameters"] |= {"shared_critic": True, "clip_value": True, "joint_ratio": True, "max_grad_norm": 0.5}
    tree["reward_signals"] = {"extrinsic": {"normalize": True}}
    check_trainer(PPO, BehaviorSettings.model_validate(tree))


class Forgets(PPO):
    """Saves all but the random stream that orders minibatches."""

    def state_dict(self) -> dict[str, Any]:
        return {key: value for key, value in super().state_dict().items() if key != "shuffle_rng"}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict({**state, "shuffle_rng": self.shuffle_rng.get_state()})


class Unseeded(PPO):
    """Its seed is another each time it is made."""

    seeds = itertools.count()

    def __init__(self, spec: BehaviorSpec, settings: BehaviorSettings, device: torch.device, seed: int) -> None:
        super().__init__(spec, settings, device, seed + next(self.seeds))


class Overdoes(PPO):
    """Answers with numbers out of range."""

    def __init__(self, spec: BehaviorSpec, settings: BehaviorSettings, device: torch.device, seed: int) -> None:
        super().__init__(spec, settings, device, seed)
        act = self.policy.act

        def more(step: TimeStep) -> Decision:
            decision = act(step)
            action = Action(decision.action.continuous + 2, decision.action.discrete)
            return Decision(action, decision.sample, decision.log_prob, decision.recurrent_state)

        self.policy.act = more


class Diverges(PPO):
    """Its losses are no numbers."""

    def update(self, rollout: Rollout, step: int) -> Metrics:
        metrics = super().update(rollout, step)
        metrics.add({"Losses/Policy Loss": float("nan")})
        return metrics


class KeepsAnObject(PPO):
    """Its state holds what no file can."""

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "settings": self.settings}


@pytest.mark.parametrize(
    ("trainer", "message"),
    [
        (Forgets, "a state that was loaded|continues as without a stop"),
        (Unseeded, "the same seed and experience give the same state"),
        (Overdoes, "expected numbers within -1..1"),
        (Diverges, "Losses/Policy Loss as nan"),
        (KeepsAnObject, "state_dict cannot be saved: .settings is a BehaviorSettings"),
    ],
)
def test_a_broken_trainer_is_told_what_it_breaks(trainer: type[PPO], message: str):
    with pytest.raises(PluginError, match=message):
        check_trainer(trainer, settings(), SPECS[0])
