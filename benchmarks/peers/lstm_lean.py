"""PPO's update of an LSTM in plain torch, in the manner of the single-file libraries. usage: lstm_lean.py MINIBATCH
THREADS NETWORKS
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor, nn
from updates import ACTIONS, EPOCHS, NUMBERS, SLOTS, STEPS, UNITS, report


class Body(nn.Module):
    """A hidden layer and an LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.lstm = nn.Linear(NUMBERS, UNITS), nn.LSTM(UNITS, UNITS)

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor]) -> Tensor:
        """Maps (T, N, numbers) to (T * N, units)."""
        return self.lstm(nn.functional.silu(self.layer(x)), state)[0].flatten(0, 1)


class Agent(nn.Module):
    """Actor and critic with separate bodies or a shared one."""

    def __init__(self, networks: int) -> None:
        super().__init__()
        self.bodies = nn.ModuleList(Body() for _ in range(networks))
        self.mean, self.value, self.log_std = (
            nn.Linear(UNITS, ACTIONS),
            nn.Linear(UNITS, 1),
            nn.Parameter(torch.zeros(ACTIONS)),
        )

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Returns means and values."""
        features = [body(x, state) for body in self.bodies]
        return self.mean(features[0]), self.value(features[-1])


def loss_of(mean: Tensor, log_std: Tensor, value: Tensor, batch: list[Tensor]) -> Tensor:
    """Returns the clipped loss with its value and entropy terms."""
    action, old_log_prob, advantage, target = batch
    normal = torch.distributions.Normal(mean, log_std.exp(), validate_args=False)
    ratio = (normal.log_prob(action).sum(1) - old_log_prob).exp()
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    policy = torch.max(-advantage * ratio, -advantage * ratio.clamp(0.8, 1.2)).mean()
    return policy + 0.25 * (value.squeeze(1) - target).square().mean() - 0.01 * normal.entropy().sum(1).mean()


def main(minibatch: int, threads: int, networks: int) -> None:
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    agent = Agent(networks)
    optimizer = torch.optim.Adam(agent.parameters(), 3e-4, fused=True)
    obs, action = torch.randn(STEPS, SLOTS, NUMBERS), torch.randn(STEPS, SLOTS, ACTIONS)
    old = torch.distributions.Normal(0.0, 1.0).log_prob(action).sum(2)
    advantage, target, state = torch.randn(STEPS, SLOTS), torch.randn(STEPS, SLOTS), torch.zeros(1, SLOTS, UNITS)
    few = minibatch // STEPS

    def learn() -> None:
        for _ in range(EPOCHS):
            for slots in torch.randperm(SLOTS).split(few):
                mean, value = agent(obs[:, slots], (state[:, slots], state[:, slots]))
                loss = loss_of(
                    mean,
                    agent.log_std,
                    value,
                    [column[:, slots].flatten(0, 1) for column in (action, old, advantage, target)],
                )
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()

    report("lean", learn, EPOCHS * STEPS * SLOTS, minibatch=minibatch, threads=threads, networks=networks)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
