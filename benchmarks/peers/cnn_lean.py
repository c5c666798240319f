"""PPO's update on images in plain torch, in the manner of the single-file libraries. usage: cnn_lean.py MINIBATCH
THREADS BITS
"""

from __future__ import annotations

import sys

import torch
from lstm_lean import loss_of
from torch import Tensor, nn
from updates import ACTIONS, EPOCHS, FEATURES, IMAGE, IMAGES, report


class Agent(nn.Module):
    """Actor and critic that share an encoder."""

    def __init__(self) -> None:
        super().__init__()
        convolutions = [
            nn.Conv2d(3, 32, 8, 4),
            nn.ReLU(),
            nn.Conv2d(32, 64, 4, 2),
            nn.ReLU(),
            nn.Conv2d(64, 64, 3, 1),
            nn.ReLU(),
        ]
        self.encoder = nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(3136, FEATURES), nn.ReLU())
        self.mean, self.value, self.log_std = (
            nn.Linear(FEATURES, ACTIONS),
            nn.Linear(FEATURES, 1),
            nn.Parameter(torch.zeros(ACTIONS)),
        )

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Returns means and values."""
        features = self.encoder(images)
        return self.mean(features), self.value(features)


def main(minibatch: int, threads: int, bits: int) -> None:
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    agent = Agent()
    optimizer = torch.optim.Adam(agent.parameters(), 3e-4, fused=True)
    obs, action = torch.rand(IMAGES, *IMAGE), torch.randn(IMAGES, ACTIONS)
    old = torch.distributions.Normal(0.0, 1.0).log_prob(action).sum(1)
    advantage, target = torch.randn(IMAGES), torch.randn(IMAGES)

    def learn() -> None:
        for _ in range(EPOCHS):
            for rows in torch.randperm(IMAGES).split(minibatch):
                with torch.autocast("cpu", torch.bfloat16, enabled=bits == 16):
                    mean, value = agent(obs[rows])
                loss = loss_of(
                    mean.float(),
                    agent.log_std,
                    value.float(),
                    [column[rows] for column in (action, old, advantage, target)],
                )
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()

    report("lean", learn, EPOCHS * IMAGES, minibatch=minibatch, threads=threads, bits=bits)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
