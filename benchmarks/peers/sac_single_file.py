"""SAC gradient steps as single-file libraries take them: plain torch, a backward pass and an Adam for each of actor,
critics and temperature, critics called one by one. A minimal one of our own. usage: sac_single_file.py GAME THREADS
"""

from __future__ import annotations

import copy
import sys
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional
from updates import GAMMA, SOFT, STORED, TAU, Soft, report


def encoder(shape: Soft) -> tuple[nn.Module, int]:
    if len(shape.obs) == 1:
        return nn.Identity(), shape.obs[0]
    first, second = nn.Conv2d(shape.obs[0], 16, 8, 4), nn.Conv2d(16, 32, 4, 2)
    rest = (nn.LeakyReLU(), second, nn.LeakyReLU(), nn.Flatten(), nn.Linear(288, 256), nn.LeakyReLU())
    return nn.Sequential(first, *rest), 256


def body(inputs: int, shape: Soft, outputs: int) -> nn.Sequential:
    sizes = [inputs] + [shape.units] * shape.layers
    layers = [x for pair in pairwise(sizes) for x in (nn.Linear(*pair), nn.SiLU())]
    return nn.Sequential(*layers, nn.Linear(shape.units, outputs))


class Critic(nn.Module):
    def __init__(self, shape: Soft) -> None:
        super().__init__()
        self.encoder, width = encoder(shape)
        self.body = body(width + shape.actions, shape, 1)

    def forward(self, obs: Tensor, action: Tensor) -> Tensor:
        return self.body(torch.cat([self.encoder(obs), action], 1))


class Actor(nn.Module):
    def __init__(self, shape: Soft) -> None:
        super().__init__()
        self.encoder, width = encoder(shape)
        self.body = body(width, shape, 2 * shape.actions)

    def draw(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = self.body(self.encoder(obs)).chunk(2, 1)
        normal = torch.distributions.Normal(mean, log_std.clamp(-20, 2).exp())
        raw = normal.rsample()
        action = raw.tanh()
        return action, (normal.log_prob(raw) - torch.log(1 - action.square() + 1e-6)).sum(1, keepdim=True)


class Learner:
    def __init__(self, shape: Soft) -> None:
        self.shape, self.actor, self.critics = shape, Actor(shape), [Critic(shape) for _ in range(2)]
        self.targets = copy.deepcopy(self.critics)
        self.log_heat = torch.zeros(1, requires_grad=True)
        self.critic_adam = torch.optim.Adam([p for c in self.critics for p in c.parameters()], shape.rate)
        self.actor_adam = torch.optim.Adam(self.actor.parameters(), shape.rate)
        self.heat_adam = torch.optim.Adam([self.log_heat], shape.rate)
        image = len(shape.obs) == 3
        noise = torch.randn(2, STORED, *shape.obs)
        self.obs = noise.gt(2.3).byte().mul_(255) if image else noise
        self.actions, self.rewards = torch.rand(STORED, shape.actions) * 2 - 1, torch.rand(STORED, 1)
        self.scale = 255 if image else 1

    def step(self) -> None:
        rows = torch.randint(STORED, (self.shape.batch,))
        obs, after = (x[rows].float() / self.scale for x in self.obs)
        action, reward, heat = self.actions[rows], self.rewards[rows], self.log_heat.exp().detach()
        with torch.no_grad():
            drawn, log_prob = self.actor.draw(after)
            target = reward + GAMMA * (torch.min(*(c(after, drawn) for c in self.targets)) - heat * log_prob)
        loss = sum(functional.mse_loss(c(obs, action), target) for c in self.critics)
        self._move(self.critic_adam, loss)
        drawn, log_prob = self.actor.draw(obs)
        self._move(self.actor_adam, (heat * log_prob - torch.min(*(c(obs, drawn) for c in self.critics))).mean())
        self._move(self.heat_adam, (-self.log_heat.exp() * (log_prob.detach() - self.shape.actions)).mean())
        with torch.no_grad():
            for critic, slow in zip(self.critics, self.targets, strict=True):
                for one, other in zip(critic.parameters(), slow.parameters(), strict=True):
                    other.lerp_(one, TAU)

    def _move(self, adam: torch.optim.Optimizer, loss: Tensor) -> None:
        adam.zero_grad()
        loss.backward()
        adam.step()


def main(game: str, threads: int) -> None:
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    learner = Learner(SOFT[game])
    steps = SOFT[game].steps

    def learn() -> None:
        for _ in range(steps):
            learner.step()

    report("single_file", learn, steps, rounds=9, game=game, threads=threads)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
