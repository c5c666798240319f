"""Subclasses of PPO, SAC and MA-POCA that change one part: each method is asked, whatever the network, and a mistake in
one is said with its name; runs resume, export and share the work as with the class above.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rollouts import collected, training_rows
from small_runs import differences, settings, state
from tiny_envs import CPU, Bandit, spec_of
from torch import Tensor
from torch.testing import assert_close

import palaestra
from palaestra.core.errors import ConfigError, PluginError
from palaestra.core.metrics import Metrics
from palaestra.core.settings import Settings
from palaestra.data.replay import ReplayBatch
from palaestra.data.rollout import Minibatch, Rollout
from palaestra.data.rollout_values import RolloutValues
from palaestra.runtime.settings import load
from palaestra.runtime.settings.fitting import fitted, preset_for
from palaestra.testing import check_trainer
from palaestra.testing.check_trainer import SPECS
from palaestra.trainers.behavior_settings import BehaviorSettings, settings_like, trainer_class
from palaestra.trainers.poca import POCA
from palaestra.trainers.ppo import PPO, Coefficients, Losses
from palaestra.trainers.sac import SAC
from palaestra.trainers.sac_gradient import DrawnActions

ROOT = Path(__file__).parents[3]
EXAMPLES = ("examples.vtrace_ppo:VTracePPO", "examples.kl_ppo:KLPenaltyPPO", "examples.replay_ppo:ReplayPPO")
MEMORY = {"sequence_length": 5, "memory_size": 8}
SMALL = {"batch_size": 16, "buffer_size": 64}
SMALL_SAC = {"batch_size": 16, "buffer_size": 500, "steps_per_update": 8.0}


@pytest.fixture(autouse=True)
def _at_root(monkeypatch: pytest.MonkeyPatch):
    """Examples are named from the project's root."""
    monkeypatch.syspath_prepend(str(ROOT))


def block(kind: str, hyper: Mapping[str, Any] = SMALL, **more: Any) -> BehaviorSettings:
    network = {"hidden_units": 16, "normalize": True, **more.pop("network_settings", {})}
    return BehaviorSettings.model_validate(
        {"trainer_type": kind, "hyperparameters": {**hyper}, "network_settings": network, **more}
    )


def name_of(kind: type) -> str:
    return f"{kind.__module__}:{kind.__name__}"


class OneStepPPO(PPO):
    """GAE(0), written for any critic."""

    def advantages(self, rollout: Rollout, values: RolloutValues) -> tuple[Tensor, Tensor]:
        target = values.reward + values.gamma * values.next_value
        return target - values.baseline, target


class OneStepPOCA(OneStepPPO, POCA): ...


class Notes:
    """Measures whatever is asked of a trainer, by its name."""

    metrics: Metrics

    def note(self, method: str) -> None:
        self.metrics.add({f"Mine/{method}": 1.0})


class Calls(Notes, PPO):
    """Notes what is asked of it, and leaves the answers to the class above."""

    def schedule(self, step: int) -> Coefficients:
        self.note("schedule")
        return super().schedule(step)

    def learn(self, rollout: Rollout, c: Coefficients, *, again: bool = False) -> None:
        self.note("learn")
        super().learn(rollout, c, again=again)

    def advantages(self, rollout: Rollout, values: RolloutValues) -> tuple[Tensor, Tensor]:
        self.note("advantages")
        return super().advantages(rollout, values)

    def loss(self, batch: Minibatch, c: Coefficients) -> tuple[Tensor, Losses]:
        self.note("loss")
        return super().loss(batch, c)

    def policy_loss(self, log_ratio: Tensor, batch: Minibatch, c: Coefficients) -> Tensor:
        self.note("policy_loss")
        assert log_ratio.shape == batch.log_prob.shape
        return super().policy_loss(log_ratio, batch, c)

    def after_update(self, rollout: Rollout, step: int) -> None:
        self.note("after_update")


class CallsPOCA(Calls, POCA): ...


class CallsSAC(Notes, SAC):
    """Notes what is asked of it, and leaves the answers to SAC."""

    def schedule(self, step: int) -> float:
        self.note("schedule")
        return super().schedule(step)

    def targets(self, batch: ReplayBatch, reward: Tensor, after: DrawnActions) -> Tensor:
        self.note("targets")
        assert not torch.is_grad_enabled()
        assert after.value.shape == reward.shape
        return super().targets(batch, reward, after)

    def critic_loss(self, taken: Tensor, target: Tensor, batch: ReplayBatch) -> Tensor:
        self.note("critic_loss")
        assert taken.shape == (2, *target.shape)
        return super().critic_loss(taken, target, batch)

    def actor_loss(self, now: DrawnActions, batch: ReplayBatch) -> Tensor:
        self.note("actor_loss")
        return super().actor_loss(now, batch)

    def temperature_loss(self, excess: Tensor, counts: Tensor) -> Tensor:
        self.note("temperature_loss")
        return super().temperature_loss(excess, counts)

    def after_update(self, rollout: Rollout, step: int) -> None:
        self.note("after_update")


def learned(kind: type[PPO | SAC], given: BehaviorSettings, updates: int = 3) -> Any:
    """A trainer after a few updates from its own decisions, discrete and continuous."""
    trainer: Any = kind(spec_of((2,), continuous=1, branches=(3,)), given, CPU, 0)
    rollouts = collected(Bandit(8, continuous=1, branches=(3,)), trainer)
    for update in range(updates):
        trainer.update(next(rollouts), 64 * update)
    return trainer


def weights(trainer: Any) -> dict[str, Tensor]:
    return {name: weight.clone() for name, weight in trainer.network.state_dict().items()}


@pytest.mark.parametrize(("own", "base"), [(Calls, PPO), (CallsPOCA, POCA), (CallsSAC, SAC)])
def test_methods_that_leave_it_to_the_class_above_are_all_asked_and_measured_and_change_no_digit(
    own: type[Calls | CallsSAC], base: type[PPO | SAC]
):
    kind = {PPO: "ppo", POCA: "poca", SAC: "sac"}[base]
    given = block(kind, SMALL_SAC if base is SAC else SMALL, network_settings={"memory": MEMORY})
    mine, theirs = learned(own, given, 8), learned(base, given, 8)
    asked = {name.removeprefix("Mine/") for name in mine.metrics.read() if name.startswith("Mine/")}
    expected = {name for kind in (Calls, CallsSAC) for name in vars(kind) if name in vars(own.__mro__[-2])}
    assert asked == expected - {"__module__", "__doc__"}
    for name, weight in weights(theirs).items():
        assert torch.equal(weights(mine)[name], weight), name


def test_an_own_loss_is_not_passed_over_by_the_gradient_in_closed_form():
    class Zero(PPO):
        def policy_loss(self, log_ratio: Tensor, batch: Minibatch, c: Coefficients) -> Tensor:
            return 0 * log_ratio.sum()

    class Doubled(PPO):
        def loss(self, batch: Minibatch, c: Coefficients) -> tuple[Tensor, Losses]:
            loss, parts = super().loss(batch, c)
            return 2 * loss, parts

    class Scheduled(PPO):
        def schedule(self, step: int) -> Coefficients:
            return super().schedule(step)

    given = block("ppo", {**SMALL, "beta": 0.0})
    assert learned(PPO, given, 1).has_closed_form
    assert learned(Scheduled, given, 1).has_closed_form
    assert not learned(Doubled, given, 1).has_closed_form
    still, first = learned(Zero, given, 1), learned(Zero, given, 0)
    assert torch.equal(still.network.action_head.weight, first.network.action_head.weight)
    assert not torch.equal(still.network.value_head.weight, first.network.value_head.weight)


@pytest.mark.parametrize(
    ("name", "memory", "spec"),
    [
        (EXAMPLES[0], None, SPECS[1]),
        (EXAMPLES[0], MEMORY, SPECS[1]),
        (EXAMPLES[1], None, SPECS[2]),
        (EXAMPLES[2], MEMORY, SPECS[0]),
    ],
)
def test_an_example_keeps_the_contract_whatever_the_network(name: str, memory: dict[str, int] | None, spec: Any):
    check_trainer(trainer_class(name), block(name, network_settings={"memory": memory}), spec)


class VTracePOCA(trainer_class(EXAMPLES[0]), POCA): ...


class ReplayPOCA(trainer_class(EXAMPLES[2]), POCA): ...


@pytest.mark.parametrize("kind", [VTracePOCA, ReplayPOCA, OneStepPOCA])
def test_a_change_of_ppo_is_one_of_poca_too(kind: type[POCA]):
    check_trainer(kind, block(name_of(kind)), SPECS[1])


def test_vtrace_of_the_present_policys_decisions_is_the_lambda_return():
    vtrace: Any = trainer_class(EXAMPLES[0])(spec_of((2,), continuous=2), block("ppo"), CPU, 0)
    ppo = PPO(spec_of((2,), continuous=2), block("ppo"), CPU, 0)
    rollout = next(collected(Bandit(8, continuous=2), ppo))
    mine, theirs = training_rows(vtrace, rollout), training_rows(ppo, rollout)
    assert_close(mine.target, theirs.target, rtol=1e-4, atol=1e-5)


def test_two_signals_have_values_and_rewards_of_their_own_and_rows_that_end_go_on_nowhere():
    signals = {"extrinsic": {"gamma": 0.9, "strength": 2.0}, "rnd": {"gamma": 0.5, "strength": 1.0}}
    seen = list[RolloutValues]()

    class Looks(PPO):
        def advantages(self, rollout: Rollout, values: RolloutValues) -> tuple[Tensor, Tensor]:
            seen.append(values)
            assert values.log_ratio().shape == rollout.log_prob.shape
            assert values.log_ratio().abs().max() < 1e-5
            assert not (values.goes_on[..., 0] & (rollout.terminated | rollout.truncated)).any()
            assert not values.goes_on[-1].any()
            return super().advantages(rollout, values)

    learned(Looks, block("ppo", reward_signals=signals), 1)
    assert seen[0].reward.shape == seen[0].next_value.shape == (*seen[0].goes_on.shape[:2], 2)
    assert_close(seen[0].gamma, torch.tensor([0.9, 0.5]))
    assert (seen[0].next_value[..., 1] != 0).all()  # novelty goes on where an episode ends
    assert (seen[0].next_value[..., 0] == 0).any()


class NoReturn(PPO):
    def advantages(self, rollout: Rollout, values: RolloutValues) -> Any: ...


class OneSignal(PPO):
    def advantages(self, rollout: Rollout, values: RolloutValues) -> Any:
        return values.value.mean(-1), values.value


class NotFinite(PPO):
    def advantages(self, rollout: Rollout, values: RolloutValues) -> Any:
        return values.value / 0, values.value


class EachRow(PPO):
    def policy_loss(self, log_ratio: Tensor, batch: Minibatch, c: Coefficients) -> Any:
        return log_ratio.sum(1).exp() * batch.advantage


class Detached(PPO):
    def policy_loss(self, log_ratio: Tensor, batch: Minibatch, c: Coefficients) -> Any:
        return log_ratio.detach().mean()


class LossAlone(PPO):
    def loss(self, batch: Minibatch, c: Coefficients) -> Any:
        return super().loss(batch, c)[0]


class OnlyARate(PPO):
    def schedule(self, step: int) -> Any:
        return 1e-3


class Misspells(PPO):
    def advantages(self, rollout: Rollout, values: Any) -> Any:
        return values.rewards


class PassesOver(PPO):
    """Its loss leaves out its policy loss."""

    def loss(self, batch: Minibatch, c: Coefficients) -> tuple[Tensor, Losses]:
        value = self.forward(batch.inputs, batch.sequences)[1].mean()
        none = value.detach()
        return value, Losses(none, none, none, torch.zeros_like(batch.log_prob))

    def policy_loss(self, log_ratio: Tensor, batch: Minibatch, c: Coefficients) -> Tensor:
        return log_ratio.mean()


class Misnamed(PPO):
    """Its methods are a helper of a name nearly that of `loss`, which is called, and a misspelled one."""

    def losses(self, loss: Tensor) -> Tensor:
        return 2 * loss

    def loss(self, batch: Minibatch, c: Coefficients) -> tuple[Tensor, Losses]:
        loss, parts = super().loss(batch, c)
        return self.losses(loss), parts

    def policy_los(self, log_ratio: Tensor, batch: Minibatch, c: Coefficients) -> Tensor:
        return log_ratio.mean()


class Motionless(PPO):
    def loss(self, batch: Minibatch, c: Coefficients) -> tuple[Tensor, Losses]:
        value = self.forward(batch.inputs, batch.sequences)[1].mean()
        none = value.detach()
        return value, Losses(none, none, none, torch.zeros_like(batch.log_prob))


class Counts(PPO):
    """Has a state that it does not save."""

    count = 0

    def schedule(self, step: int) -> Coefficients:
        self.count += 1
        return replace(super().schedule(step), learning_rate=1e-2 / self.count)


class OneCritic(SAC):
    def critic_loss(self, taken: Tensor, target: Tensor, batch: ReplayBatch) -> Any:
        return (taken - target).square().mean()


class NoSignal(SAC):
    def targets(self, batch: ReplayBatch, reward: Tensor, after: DrawnActions) -> Any:
        return reward[:, 0] + after.value[:, 0]


class HeldActor(SAC):
    def actor_loss(self, now: DrawnActions, batch: ReplayBatch) -> Any:
        return -now.value.mean().item()


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (NoReturn, r"NoReturn.advantages returned None; expected advantages and targets, each a tensor \(4, 16, 1\)"),
        (OneSignal, r"OneSignal.advantages returned \(a tensor \(4, 16\) of float32, a tensor \(4, 16, 1\)"),
        (NotFinite, "NotFinite.advantages returned numbers that are not finite"),
        (EachRow, r"EachRow.policy_loss returned a tensor \(16,\) of float32; expected a tensor \(\), the mean"),
        (Detached, "Detached.policy_loss returned .* with a gradient, which detach"),
        (
            LossAlone,
            "LossAlone.loss returned a tensor .* expected the loss, a tensor .*, and its parts, a .*Losses",
        ),
        (OnlyARate, "OnlyARate.schedule returned 0.001; expected a palaestra.trainers.ppo.Coefficients"),
        (Misspells, "Misspells.advantages raised AttributeError: .* no attribute 'rewards' .*test_overrides.py, line"),
        (PassesOver, "PassesOver.policy_loss was never called"),
        (Misnamed, "Misnamed.policy_los overrides no method of PPO, and is never called; did you mean 'policy_loss'"),
        (Motionless, "three updates have not changed the policy"),
        (Counts, "continues as without a stop|a state that was loaded"),
        (OneCritic, r"OneCritic.critic_loss returned a tensor \(\) of float32; expected a tensor \(2,\)"),
        (NoSignal, r"NoSignal.targets returned a tensor \(16,\) .* \(16, 1\) of float32: N decisions, K reward"),
        (HeldActor, r"HeldActor.actor_loss returned -?\d.*; expected a tensor \(\)"),
    ],
)
def test_a_mistake_in_a_method_is_said_with_its_name(kind: type[PPO | SAC], message: str):
    given = block("sac", SMALL_SAC) if issubclass(kind, SAC) else block("ppo")
    with pytest.raises(PluginError, match=f"^{kind.__name__}, observations vector .*{message}"):
        check_trainer(kind, given, SPECS[0])


class Unrelated(Settings): ...


class OtherSettings(PPO):
    Settings: Any = Unrelated


def test_settings_of_a_subclass_are_those_of_its_class_and_more():
    given = block(EXAMPLES[1], {"kl_coef": 2, "beta": 0.1})
    assert given.model_dump(exclude_unset=True)["hyperparameters"] == {"kl_coef": 2, "beta": 0.1}
    with pytest.raises(ValueError, match=r"hyperparameters.kl_coeff\n.*unknown key; did you mean 'kl_coef'"):
        block(EXAMPLES[1], {"kl_coeff": 2})
    with pytest.raises(ValueError, match=r"expected a class that inherits from .*settings\.PPOSettings"):
        block(name_of(OtherSettings), {})


def test_a_subclass_takes_the_settings_that_are_made_for_the_class_above_it():
    own = [*EXAMPLES, name_of(OneStepPOCA), name_of(CallsSAC), "examples.dqn:DQN", "nowhere:Nobody"]
    assert [settings_like(name) for name in own] == ["ppo"] * 3 + ["poca", "sac", *own[-2:]]
    shipped = preset_for("gymnasium:CartPole-v1", "ppo")
    assert preset_for("gymnasium:CartPole-v1", EXAMPLES[1]) == shipped is not None
    overrides = {"behaviors": {"*": {"trainer_type": EXAMPLES[1]}}}
    mine, theirs = (load(shipped, given).settings.behaviors["CartPole-v1"] for given in (overrides, {}))
    assert mine.trainer_type == EXAMPLES[1]
    assert mine.hyperparameters.model_dump() == {**theirs.hyperparameters.model_dump(), "kl_coef": 1.0}
    blocks = [fitted({"Any": SPECS[0]}, 16, name)["behaviors"]["Any"] for name in (EXAMPLES[1], "ppo")]
    assert blocks[0] == {**blocks[1], "trainer_type": EXAMPLES[1]}


def play(kind: Any, results: Path, run_id: str, until: int | None = None, **more: Any) -> palaestra.Result:
    """A game of single decisions; stops at the first summary from `until` on."""
    stop = [] if until is None else [lambda summary: summary.step >= until]
    hyper = SMALL_SAC if isinstance(kind, type) and issubclass(kind, SAC) else SMALL
    more_of_block = {"max_steps": 512, **more.pop("block", {})}
    tree = settings("Bandit", trainer_type=kind, hyperparameters=hyper, summary_freq=128, **more_of_block)
    env = Bandit(16, continuous=1)
    return palaestra.train(
        tree, env=env, results_dir=str(results), run_id=run_id, seed=1, quiet=True, callbacks=stop, **more
    )


@pytest.mark.parametrize("threaded", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", [EXAMPLES[2], CallsSAC])
def test_a_subclass_resumes_to_the_same_digits_and_its_model_plays(kind: Any, threaded: bool, tmp_path: Path):
    more = {"block": {"threaded": threaded}}
    whole = play(kind, tmp_path, "whole", **more)
    assert not play(kind, tmp_path, "parts", until=256, **more).finished
    resumed = play(kind, tmp_path, "parts", resume=True, **more)
    assert differences(state(whole.folder), state(resumed.folder)) == []
    policy = palaestra.load_policy(resumed.models["Bandit"], seed=0)
    assert policy.act([torch.ones(3, 2).numpy()]).continuous.shape == (3, 1)


def test_a_class_of_a_notebook_trains_in_its_process_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    own = type("OfANotebook", (OneStepPPO,), {"__module__": "__main__"})
    monkeypatch.setattr(sys.modules["__main__"], "OfANotebook", own, raising=False)
    result = play(own, tmp_path, "notebook")
    assert "trainer_type: __main__:OfANotebook" in (result.folder / "configuration.yaml").read_text()
    assert play(own, tmp_path, "notebook", resume=True, block={"max_steps": 768}).finished
    with pytest.raises(ConfigError, match="cannot import OfANotebook from a notebook or script: save it in a file"):
        play(own, tmp_path, "threaded", block={"threaded": True})
    monkeypatch.delattr(sys.modules["__main__"], "OfANotebook")
    with pytest.raises(ConfigError, match="OfANotebook was defined in a notebook or a script, which this process"):
        play("__main__:OfANotebook", tmp_path, "elsewhere")
    with pytest.raises(palaestra.PalaestraError, match=r"behaviors\.Bandit\.trainer_type.*mine:OfANotebook") as refused:
        palaestra.train(
            run_id="notebook", results_dir=str(tmp_path), env=Bandit(16, continuous=1), resume=True, quiet=True
        )
    assert "these are the run's own settings: settings={...} changes one" in str(refused.value)


def test_a_class_within_a_function_has_no_name_to_find_it_by(tmp_path: Path):
    class Inner(PPO): ...

    with pytest.raises(ConfigError, match=r"Inner is defined within a function.* top level of a module or of a note"):
        play(Inner, tmp_path, "inner")
    assert block(PPO).trainer_type == "ppo"  # type: ignore[arg-type]
