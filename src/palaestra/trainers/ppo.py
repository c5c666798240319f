"""Proximal policy optimization. Schulman et al. 2017, https://arxiv.org/abs/1707.06347, as implemented in ML-Agents.

`PPO.update` is one iteration of the algorithm, `PPO.loss` its loss. MA-POCA (`trainers.poca`) has another critic, and
therefore other advantages and another loss. Subclasses may override each public method
(docs/guides/extend/methods-to-override.md). Shapes: see ARCHITECTURE.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import torch
from torch import Tensor, nn

from palaestra.core.metrics import Metrics
from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Action
from palaestra.data.rollout import Minibatch, Rollout, index_minibatches
from palaestra.data.rollout_values import RolloutValues
from palaestra.data.sequences import SequenceTable
from palaestra.data.transitions import TransitionTable
from palaestra.losses.ppo import (
    HeadGradient,
    branch_part,
    clipped_surrogate,
    clipped_value,
    gaussian_part,
    squared_error,
    value_part,
)
from palaestra.models.actor_critic import ACTOR, CRITIC, ActorCritic
from palaestra.models.distributions import branch_log_probs, log_prob_and_entropy
from palaestra.models.flat_parameters import optimized
from palaestra.models.optimizer import Adam, gradient_norm, scheduled
from palaestra.models.policy import NetworkPolicy
from palaestra.parallel.rank_group import ALONE, RankGroup
from palaestra.rewards.signals import RewardSignals
from palaestra.trainers.advantages import ValueEstimates, generalized_advantages
from palaestra.trainers.behavior_settings import BehaviorSettings
from palaestra.trainers.forward import Forward, bfloat16_pays
from palaestra.trainers.group_advantages import GroupValues
from palaestra.trainers.imitation import Cloning
from palaestra.trainers.settings import LAST_BETA, LAST_EPSILON, LAST_LEARNING_RATE, POCASettings, PPOSettings
from palaestra.trainers.stale_rollouts import WEIGHT, corrected
from palaestra.trainers.trainer_setup import (
    Parts,
    actor_critic_of,
    check_overrides,
    initialized,
    on_policy_checks,
    replaces,
    seeded_generator,
    seeded_network,
)
from palaestra.trainers.update_metrics import GRADIENT_NORM, at_bounds, policy_change, value_metrics


@dataclass(frozen=True, slots=True)
class Coefficients:
    """Step size and coefficients of the loss in one update (`PPO.schedule`)."""

    learning_rate: float
    clip_range: float
    entropy_coef: float
    value_coef: float
    clip_value: bool
    joint_ratio: bool = False


@dataclass(frozen=True, slots=True)
class Losses:
    """Means over a minibatch, each (), without gradient."""

    policy: Tensor
    value: Tensor
    entropy: Tensor
    log_ratio: Tensor
    """(N, A) change of each action component's log-probability since it was drawn."""
    baseline: Tensor | None = None
    """Loss of MA-POCA's counterfactual baseline."""

    def tagged(self) -> dict[str, Tensor]:
        """Returns the losses by their TensorBoard tags."""
        baseline = {} if self.baseline is None else {"Losses/Baseline Loss": self.baseline}
        return {
            "Losses/Policy Loss": self.policy.abs(),
            "Losses/Value Loss": self.value,
            **baseline,
            "Policy/Entropy": self.entropy,
        }


class PPO:
    """Trains actor and critic with the clipped surrogate and generalized advantage estimation (GAE)."""

    Settings: type[PPOSettings | POCASettings] = PPOSettings

    def __init__(
        self, spec: BehaviorSpec, settings: BehaviorSettings, device: torch.device, seed: int, group: RankGroup = ALONE
    ) -> None:
        assert isinstance(settings.hyperparameters, PPOSettings | POCASettings)
        self.settings = settings
        self.hyper = settings.hyperparameters
        self.group = group
        network = self.network = seeded_network(self.make_network, spec, settings, device, seed)
        bfloat16 = settings.network_settings.bfloat16
        compiled = settings.network_settings.compile
        # in closed form the gradient of a small minibatch takes half of autograd's time
        own_loss = replaces(self, PPO, "loss", "policy_loss")
        self.has_closed_form = network.plain and not (self.hyper.joint_ratio or bfloat16 or compiled or own_loss)
        self.parameters = optimized(network.parameters(), flat=self.has_closed_form)
        self.optimizer = Adam(self.parameters, self.hyper.learning_rate)
        self.forward = Forward(
            network.forward,
            bfloat16=bfloat16_pays(network, device) if bfloat16 is None else bfloat16,
            compiled=compiled,
        )
        self.action_rng = seeded_generator(device, seed + 1, group)
        self.shuffle_rng = seeded_generator(device, seed + 2, group)
        self.policy = NetworkPolicy(network, self.action_rng, settings.network_settings.deterministic)
        self.signals = RewardSignals(network.spec, settings.reward_signals, device, seed + 3, group, network.shown)
        self.cloning: Cloning | None = None
        if settings.behavioral_cloning is not None:
            self.cloning = Cloning(network, self.parameters, settings, device, seed + 4, group)
        self.rollout_size = group.share(self.hyper.buffer_size)
        self.needs = self.signals.needs
        self.batch_size = group.share(self.hyper.batch_size)
        """Decisions of this rank in a minibatch."""
        self.metrics = Metrics()
        """Measurements of the update under way; overridden methods may add theirs, by TensorBoard tag."""
        self._to_learn = 0  # decisions of all passes of the newest update, which may be under way
        self._learned = 0
        self.parts = Parts(  # a subclass may add its own
            network=network,
            optimizer=self.optimizer,
            signals=self.signals,
            behavioral_cloning=self.cloning,
            action_rng=self.action_rng,
            shuffle_rng=self.shuffle_rng,
        )
        check_overrides(self, on_policy_checks(Coefficients, Losses))

    @staticmethod
    def make_network(spec: BehaviorSpec, settings: BehaviorSettings) -> ActorCritic:
        """Returns an actor and a critic with a value for each reward signal."""
        hyper = settings.hyperparameters
        assert isinstance(hyper, PPOSettings)
        network = actor_critic_of(spec, settings, hyper.shared_critic)
        assert isinstance(network.value_head, nn.Linear)
        return initialized(network, network.value_head, settings)

    def update(self, rollout: Rollout, step: int) -> Metrics:
        """Makes one iteration of the paper's algorithm 1 after the policy has collected a rollout, and updates the
        other parts that learn: cloning, and the normalizer."""
        self.metrics = Metrics()
        c = self.schedule(step)
        self.optimizer.learning_rate = c.learning_rate
        self._to_learn = self._learned = 0
        self.learn(rollout, c)
        if self.cloning is not None:
            self.metrics.add(self.cloning.update(step))
        # the normalizer changes after learning, which sees the same numbers as acting did
        vectors = tuple(rollout.completed(rollout.obs[i]) for i in self.network.measured)
        self.network.learn_statistics(vectors, self.group)
        self.after_update(rollout, step)
        return self.metrics

    def schedule(self, step: int) -> Coefficients:
        """Returns the learning rate and the loss's coefficients for the update after `step` decisions."""
        hyper, most = self.hyper, self.settings.max_steps
        return Coefficients(
            learning_rate=scheduled(hyper.learning_rate_schedule, hyper.learning_rate, LAST_LEARNING_RATE, step, most),
            clip_range=scheduled(hyper.epsilon_schedule, hyper.epsilon, LAST_EPSILON, step, most),
            entropy_coef=scheduled(hyper.beta_schedule, hyper.beta, LAST_BETA, step, most),
            value_coef=hyper.value_coef,
            clip_value=isinstance(hyper, PPOSettings) and hyper.clip_value,
            joint_ratio=hyper.joint_ratio,
        )

    def learn(self, rollout: Rollout, c: Coefficients, *, again: bool = False) -> None:
        """Makes `num_epoch` passes over a rollout, with a step of Adam for each minibatch; then reward signals learn.

        `again`: the rollout is an earlier one, which is already in the signals' statistics and from which they have
        learned.
        """
        with torch.no_grad():
            estimates = self._estimates(rollout)
            reward = estimates.reward()
            transitions = None
            if self.signals.learned:
                transitions = TransitionTable(rollout, self.network.for_environment(rollout.sample), reward)
            rewards = self.signals.of_rollout(rollout, reward, transitions, again=again)
            values = estimates.of(rewards, self.signals, self.settings.time_horizon)
            advantage, target = self.advantages(rollout, values)
            rows = estimates.training_rows(advantage, values.value, target, self.group)
            if self.settings.threaded:
                rows, weights = corrected(rows, estimates.outputs(), self.network)
                self.metrics.add({WEIGHT: weights.mean()})
        epochs = self.hyper.num_epoch
        self._to_learn += len(rows.advantage) * epochs
        log_ratios: list[Tensor] = []
        for minibatches in estimates.passes(rows, self.batch_size, epochs, self.shuffle_rng, self.group):
            log_ratios.clear()
            for batch in minibatches:
                losses = self.gradient(batch, c)
                self.group.average_gradients(self.parameters, len(batch.advantage))
                norm = clip_gradients(self.parameters, self.hyper.max_grad_norm)
                self.optimizer.step()
                self.metrics.add(losses.tagged() | {GRADIENT_NORM: norm})
                log_ratios.append(losses.log_ratio)
                self._learned += len(batch.advantage)
        baseline = None if values.baseline is values.value else rollout.completed(values.baseline)
        self.metrics.add(value_metrics(self.signals.names, rows, baseline))
        rates = {"Learning Rate": self.optimizer.learning_rate, "Epsilon": c.clip_range, "Beta": c.entropy_coef}
        self.metrics.add({f"Policy/{name}": rate for name, rate in rates.items()})
        self.metrics.add(
            at_bounds(rollout, self.network.for_environment(rollout.sample)) | policy_change(log_ratios, c.clip_range)
        )
        if transitions is not None and not again:
            self._learn_rewards(rollout, transitions)

    def advantages(self, rollout: Rollout, values: RolloutValues) -> tuple[Tensor, Tensor]:
        """Returns the advantage of each decision and the target of the critic, each (T, S, K), for each reward signal.

        Called without gradients. Advantages are then averaged over the signals and normalized over all rows and ranks.
        """
        advantage = generalized_advantages(values, self.signals.gammas, self.hyper.lambd)
        return advantage, advantage + values.value

    def gradient(self, batch: Minibatch, c: Coefficients) -> Losses:
        """Fills every parameter's `.grad` with the gradient of `loss`; returns the losses, before the step."""
        if self.has_closed_form:
            return closed_form_gradient(self.network, batch, c)
        loss, losses = self.loss(batch, c)
        self.network.zero_grad()
        loss.backward()
        return losses

    def loss(self, batch: Minibatch, c: Coefficients) -> tuple[Tensor, Losses]:
        """Returns policy loss + value_coef * value loss - entropy_coef * entropy, (), and the three parts.

        All are means over the N rows of the minibatch. The paper maximizes eq. 9; this loss is its negative.
        """
        output, value = self.forward(batch.inputs, batch.sequences)
        log_ratio, entropy = log_ratio_and_entropy(self.network, output, batch)
        policy = self.policy_loss(log_ratio, batch, c)
        if c.clip_value:
            value_loss = clipped_value(value, batch.value, batch.target, clip_range=c.clip_range).mean()
        else:
            value_loss = squared_error(value, batch.target).mean()
        loss = policy + c.value_coef * value_loss - c.entropy_coef * entropy
        return loss, Losses(policy.detach(), value_loss.detach(), entropy.detach(), log_ratio.detach())

    def policy_loss(self, log_ratio: Tensor, batch: Minibatch, c: Coefficients) -> Tensor:
        """Returns the policy's part of the loss, (): PPO's clipped surrogate.

        `log_ratio` (N, A): new minus old log-probability of each action component, with gradient; advantages (N,) are
        in the `batch`.
        """
        return clipped_surrogate(log_ratio, batch.advantage, clip_range=c.clip_range, joint=c.joint_ratio).mean()

    def after_update(self, rollout: Rollout, step: int) -> None:
        """Called at the end of each update. The rollout is overwritten afterwards: see `KeptRollout`."""

    def _estimates(self, rollout: Rollout) -> ValueEstimates | GroupValues:
        """Returns the object that evaluates the network over a rollout."""
        memory = self.settings.network_settings.memory
        table = None if memory is None else SequenceTable(rollout, memory.sequence_length)
        return ValueEstimates(self.network, rollout, table)

    def _learn_rewards(self, rollout: Rollout, transitions: TransitionTable) -> None:
        """Takes gradient steps with the learned reward signals."""
        count, size, epochs = len(transitions), self.batch_size, self.hyper.num_epoch
        for part in index_minibatches(count, size=size, epochs=epochs, generator=self.shuffle_rng, group=self.group):
            self.metrics.add(self.signals.learn(transitions.take(part)))
        self.signals.learn_statistics(tuple(map(rollout.completed, rollout.obs)))
        self.metrics.add(self.signals.measured())

    @property
    def progress(self) -> float:
        """Share of the newest update's passes that is done, 0 to 1."""
        return min(1.0, self._learned / max(self._to_learn, 1))

    def state_dict(self) -> dict[str, Any]:
        """Returns everything on which the next decision and update depend."""
        return self.parts.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a saved state, so that training continues bit for bit."""
        self.parts.load_state_dict(state)


def log_ratio_and_entropy(network: ActorCritic, output: Tensor, batch: Minibatch) -> tuple[Tensor, Tensor]:
    """Returns log-ratios of new to old probability, (N, A), and the mean entropy, (), from actor output (N, ...)."""
    sample = Action(batch.continuous, batch.discrete)
    log_prob, entropy = log_prob_and_entropy(output, network.log_std, batch.mask, sample, network.spec.action)
    return log_prob - batch.log_prob, entropy.mean()


@torch.no_grad()
def closed_form_gradient(network: ActorCritic, batch: Minibatch, c: Coefficients) -> Losses:
    """Fills every parameter's `.grad` with the gradient of `PPO.loss` of a plain network (`ActorCritic.plain`) by the
    chain rule; only if each action component has its own policy ratio.

    Training on 3DBall with its official settings is 1.4 times as fast as with autograd.
    """
    body = getattr(network, "both", network.body)  # of an AsymmetricActorCritic both are modules of their own
    features, trace = body.trace(network.stacked(batch.inputs))
    actor = network.action_head
    critic = network.value_head
    assert isinstance(critic, nn.Linear)
    output = torch.addmm(actor.bias, features[ACTOR], actor.weight.t())
    value = torch.addmm(critic.bias, features[CRITIC], critic.weight.t())

    policy = _policy_gradient(network, output, batch, c)
    clip_range = c.clip_range if c.clip_value else None
    value_loss, value_grad = value_part(
        value, batch.value, batch.target, value_coef=c.value_coef, clip_range=clip_range
    )

    features_grad = torch.empty_like(features)
    torch.mm(policy.grad, actor.weight, out=features_grad[ACTOR])
    if network.networks == 1:
        features_grad[CRITIC].addmm_(value_grad, critic.weight)
    else:
        torch.mm(value_grad, critic.weight, out=features_grad[CRITIC])
    for head, x, grad in ((actor, features[ACTOR], policy.grad), (critic, features[CRITIC], value_grad)):
        torch.mm(grad.t(), x, out=head.weight.grad)
        torch.sum(grad, 0, out=head.bias.grad)
    body.backward(trace, features_grad)
    return Losses(policy.loss, value_loss, policy.entropy, policy.log_ratio)


def _policy_gradient(network: ActorCritic, output: Tensor, batch: Minibatch, c: Coefficients) -> HeadGradient:
    """Returns the loss of all action components and its gradient with respect to the packed output."""
    action = network.spec.action
    shared = {"clip_range": c.clip_range, "entropy_coef": c.entropy_coef, "components": batch.log_prob.shape[1]}
    n = action.continuous
    parts = []
    if n:
        old = batch.log_prob[:, :n]
        parts.append(gaussian_part(output[:, :n], network.log_std, batch.continuous, old, batch.advantage, **shared))
    for i, log_probs in enumerate(branch_log_probs(output, batch.mask, action) if action.branches else ()):
        choice = batch.discrete[:, i : i + 1]
        old = batch.log_prob[:, n + i : n + i + 1]
        parts.append(branch_part(log_probs, choice, old, batch.advantage, **shared))
    if len(parts) == 1:
        return parts[0]
    return HeadGradient(
        reduce(add, (part.loss for part in parts)),
        reduce(add, (part.entropy for part in parts)),
        torch.cat([part.grad for part in parts], 1),
        torch.cat([part.log_ratio for part in parts], 1),
    )


def clip_gradients(parameters: Sequence[Tensor], max_norm: float | None) -> Tensor:
    """Scales gradients down to a norm of at most `max_norm` (None: leaves them) and returns the norm before, ()."""
    return gradient_norm(parameters) if max_norm is None else nn.utils.clip_grad_norm_(parameters, max_norm)
