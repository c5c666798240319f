"""A trainer of one's own that learns from values: DQN, double, dueling and n-step, for discrete actions:
`examples/dqn.yaml`.

Mnih et al. 2015, https://doi.org/10.1038/nature14236; double, https://arxiv.org/abs/1509.06461; dueling,
https://arxiv.org/abs/1511.06581; of several branches, https://arxiv.org/abs/1711.08946. What a trainer must have stands
in docs/guides/extend/own-trainer.md.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn

from palaestra.core.metrics import Metrics
from palaestra.core.settings import Settings
from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Action
from palaestra.data.n_step import NStepReplay, n_step
from palaestra.data.rollout import Rollout, RolloutNeeds
from palaestra.models.distributions import draw
from palaestra.models.optimizer import Adam, scheduled
from palaestra.models.policy import NetworkPolicy
from palaestra.models.trunk import Inputs, Trunk
from palaestra.rewards.signals import RewardSignals
from palaestra.trainers.base import refuse
from palaestra.trainers.behavior_settings import BehaviorSettings
from palaestra.trainers.trainer_setup import Parts


class DQNSettings(Settings):
    """The `hyperparameters` in the YAML, checked as ours are."""

    batch_size: int = Field(default=128, gt=0)
    buffer_size: int = Field(default=50000, gt=0)  # decisions in the replay
    rollout_size: int = Field(default=256, gt=0)  # decisions of an update; sums of n_steps end with them
    steps_per_update: int = Field(default=4, gt=0)  # decisions for each gradient step
    n_steps: int = Field(default=3, gt=0)
    learning_rate: float = Field(default=1e-3, gt=0)  # falls to 0 until max_steps
    tau: float = Field(default=0.01, gt=0, le=1)  # how far the target network follows at each gradient step
    epsilon: float = Field(default=0.02, ge=0, le=1)  # chance of a random choice, to which it falls from 1 ...
    epsilon_steps: int = Field(default=10000, gt=0)  # ... over so many decisions


class QNetwork(Trunk):
    """Network of action values. Its `action_head`, which a model file has, gives each choice's advantage."""

    epsilon: Tensor
    greedy = True

    def __init__(self, spec: BehaviorSpec, settings: BehaviorSettings) -> None:
        super().__init__(spec, settings.network_settings, networks=1)
        self.action_head = nn.Linear(self.width, spec.action.choices)
        self.value_head = nn.Linear(self.width, 1)
        self.register_buffer("epsilon", torch.ones(()))  # saved with the weights: a resumed run explores as before

    def worth(self, inputs: Inputs, choices: Tensor) -> Tensor:
        """Returns Q of each branch's choice, (N, B): the value, and its advantage over the branch's mean."""
        features = self.features(0, inputs)
        branches = enumerate(self.action_head(features).split(self.spec.action.branches, 1))
        return self.value_head(features) + torch.cat(
            [a.gather(1, choices[:, i : i + 1]) - a.mean(1, keepdim=True) for i, a in branches], 1
        )

    def decide(self, inputs: Inputs, recurrent_state: Tensor) -> tuple[Tensor, Tensor]:
        """Returns advantages (N, choices), of which the greatest is the best choice; the state does not change."""
        return self.action_head(self.features(0, inputs)), recurrent_state

    def draw(
        self, output: Tensor, mask: Tensor | None, generator: torch.Generator, deterministic: bool
    ) -> tuple[Action, list[Tensor]]:
        """Draws the best choice of each branch, or with probability epsilon any that the mask allows."""
        best, branches = draw(output, output, mask, self.spec.action, generator, deterministic=True)
        if deterministic:
            return best, branches
        anything, _ = draw(torch.zeros_like(output), output, mask, self.spec.action, generator, deterministic=False)
        explores = torch.empty(best.discrete.shape, device=output.device).uniform_(generator=generator) < self.epsilon
        return Action(best.continuous, torch.where(explores, anything.discrete, best.discrete)), branches

    def drawn_log_prob(self, output: Tensor, sample: Action, branches: list[Tensor]) -> Tensor:
        """Returns nothing, (N, 0), as nothing here learns from it."""
        return output[:, :0]

    def for_environment(self, sample: Action) -> Action:
        """Returns the sample as it is."""
        return sample


class DQN:
    """Moves Q of a choice towards n steps' reward plus a target copy's estimate for the best choice after them."""

    Settings = DQNSettings

    def __init__(self, spec: BehaviorSpec, settings: BehaviorSettings, device: torch.device, seed: int) -> None:
        refuse("DQN", spec, settings, continuous=False)
        assert isinstance(settings.hyperparameters, DQNSettings)
        self.hyper = settings.hyperparameters
        self.max_steps = settings.max_steps
        torch.manual_seed(seed)
        self.network = self.make_network(spec, settings).to(device)
        self.target = copy.deepcopy(self.network).requires_grad_(False)
        self.optimizer = Adam(list(self.network.parameters()), self.hyper.learning_rate)
        self.action_rng = torch.Generator(device).manual_seed(seed + 1)
        self.policy = NetworkPolicy(self.network, self.action_rng, settings.network_settings.deterministic)
        self.signals = RewardSignals(spec, settings.reward_signals, device, seed)
        self.replay = NStepReplay(spec, self.hyper.buffer_size, device)
        self.rollout_size = self.hyper.rollout_size
        self.needs = RolloutNeeds()

    @staticmethod
    def make_network(spec: BehaviorSpec, settings: BehaviorSettings) -> QNetwork:
        """Returns a fresh network, like `network`."""
        return QNetwork(spec, settings)

    def update(self, rollout: Rollout, step: int) -> Metrics:
        """Takes the rollout into the replay, then a gradient step for every `steps_per_update` decisions of it."""
        hyper = self.hyper
        metrics = Metrics()
        before = self.replay.seen
        (reward,) = self.signals.of_rollout(rollout, rollout.reward + rollout.group_reward, None)
        self.replay.add(n_step(rollout, reward, gamma=self.signals.gammas[0], steps=hyper.n_steps))
        self.network.learn_statistics(tuple(rollout.completed(rollout.obs[i]) for i in self.network.vectors))
        self.optimizer.learning_rate = scheduled("linear", hyper.learning_rate, 0.0, step, self.max_steps)
        for _ in range(self.replay.seen // hyper.steps_per_update - before // hyper.steps_per_update):
            metrics.add(self._learn())
        self.network.epsilon.fill_(scheduled("linear", 1.0, hyper.epsilon, step, hyper.epsilon_steps))
        metrics.add({"Policy/Exploration": self.network.epsilon, "Policy/Learning Rate": self.optimizer.learning_rate})
        return metrics

    def _learn(self) -> dict[str, Tensor]:
        network = self.network
        batch = self.replay.draw(self.hyper.batch_size, self.action_rng)
        with torch.no_grad():
            for slow, fast in zip(self.target.parameters(), network.parameters(), strict=True):
                slow.lerp_(fast, self.hyper.tau)
            after = network.prepare(batch.next_obs)
            output, _ = network.decide(after, after[0])
            best, _ = network.draw(output, batch.next_mask, self.action_rng, deterministic=True)
            goal = batch.reward + batch.discount * self.target.worth(after, best.discrete).mean(1)
        worth = network.worth(network.prepare(batch.obs), batch.choices)
        loss = nn.functional.smooth_l1_loss(worth, goal.unsqueeze(1).expand_as(worth))
        network.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 10.0)
        self.optimizer.step()
        return {"Losses/Value Loss": loss.detach(), "Policy/Extrinsic Value Estimate": worth.detach().mean()}

    def state_dict(self) -> dict[str, Any]:
        """Returns everything that the next decision and update depend on."""
        return self._parts().state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a saved state."""
        self._parts().load_state_dict(state)

    def _parts(self) -> Parts:
        return Parts(
            network=self.network,
            target=self.target,
            optimizer=self.optimizer,
            signals=self.signals,
            replay=self.replay,
            action_rng=self.action_rng,
        )
