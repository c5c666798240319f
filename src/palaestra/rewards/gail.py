"""Adversarial imitation: what a discriminator takes for the demonstrator's is worth doing. Ho and Ermon 2016, https://arxiv.org/abs/1606.03476."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Action
from palaestra.data.transitions import Transitions
from palaestra.models.trunk import Inputs
from palaestra.rewards.demonstrations import load_demonstrations
from palaestra.rewards.descent import Descent
from palaestra.rewards.discriminator import Discriminator, steepness
from palaestra.rewards.settings import GAILSettings

PENALTY = 10.0
"""Weight of the penalty on D's slope. Gulrajani et al. 2017."""
MOST_NATS, BETA_STEP = 0.5, 5e-4
"""What a bottleneck may let through, and how fast its weight beta follows: those of ML-Agents."""
MOST = -math.log(1e-7)
"""The largest reward: D = 1 would be infinitely good."""


class GAIL:
    """Pays -ln(1 - D), ln 2 where nothing tells the policy from the demonstrations."""

    ignores_ends = False

    def __init__(self, settings: GAILSettings, spec: BehaviorSpec, device: torch.device, seed: int) -> None:
        """Raises DemoError where a demonstration cannot be read or is of other agents."""
        self.demonstrations = load_demonstrations(settings.demo_path, spec, device)
        shape, actions, bottleneck = settings.network_settings, settings.use_actions, settings.use_vail
        self.descent = Descent(lambda: Discriminator(spec, shape, actions, bottleneck), device, settings.learning_rate, seed)
        self.model = self.descent.network
        self.drawing = torch.Generator(device).manual_seed(seed + 1)
        self.beta = torch.zeros((), device=device)
        """Weight of the bottleneck's divergence."""

    def reward(self, batch: Transitions) -> Tensor:
        """-ln(1 - D), (N,)."""
        evidence = self.model.evidence(batch.obs, batch.action, batch.ended)
        return functional.softplus(self.model.logit(self.model.features(evidence))).clamp(max=MOST)

    def learn(self, batch: Transitions) -> dict[str, Tensor]:
        """A step of the discriminator, on these decisions and as many drawn from the demonstrations."""
        model, both = self.model, self._with_theirs(batch)
        features = model.features(both)
        ours, theirs = model.logit(features, self.drawing).chunk(2)
        loss = functional.softplus(ours).mean() + functional.softplus(-theirs).mean()
        n = len(batch)
        penalty = PENALTY * steepness(model, tuple(x[:n] for x in both), tuple(x[n:] for x in both), self.drawing)
        measured = {
            "Losses/GAIL Loss": loss,
            "Policy/GAIL Policy Estimate": ours.sigmoid().mean(),
            "Policy/GAIL Expert Estimate": theirs.sigmoid().mean(),
            "Policy/GAIL Grad Mag Loss": penalty,
        }
        total = loss + penalty
        if model.bottleneck is not None:
            excess = model.bottleneck.nats(features) - MOST_NATS
            total = total + self.beta * excess
            measured |= {"Policy/GAIL Beta": self.beta, "Losses/GAIL KL Loss": excess + MOST_NATS}
            self.beta = (self.beta + BETA_STEP * excess.detach()).clamp(min=0)  # eq. 9: dual gradient ascent
        self.descent.step(total)
        return {tag: value.detach() for tag, value in measured.items()}

    def _with_theirs(self, batch: Transitions) -> Inputs:
        """What these decisions are judged by, and then as many of the demonstrations', drawn with replacement."""
        demos, n = self.demonstrations, len(batch)
        rows = torch.randint(len(demos), (n,), generator=self.drawing, device=self.drawing.device)
        theirs = demos.decisions.take(rows)
        obs = tuple(torch.cat(both) for both in zip(batch.obs, theirs.obs, strict=True))
        continuous, discrete, ended = (
            torch.cat(both)
            for both in (
                (batch.action.continuous, theirs.action.continuous),
                (batch.action.discrete, theirs.action.discrete),
                (batch.ended, demos.ended.index_select(0, rows)),
            )
        )
        return self.model.evidence(obs, Action(continuous, discrete), ended)

    def learn_statistics(self, obs: tuple[Tensor, ...]) -> None:
        """Takes all observations of a rollout into the normalizer, where there is one."""
        self.model.trunk.learn_statistics(tuple(obs[i] for i in self.model.trunk.vectors))

    def state_dict(self) -> dict[str, Any]:
        """Weights, optimizer, statistics, beta, and the stream that demonstrations are drawn with."""
        return {**self.descent.state_dict(), "beta": self.beta, "drawing": self.drawing.get_state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from there."""
        self.descent.load_state_dict(state)
        self.beta = state["beta"].to(self.beta.device)
        self.drawing.set_state(state["drawing"].cpu())
