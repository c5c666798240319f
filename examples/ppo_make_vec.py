"""PPO in one file on 3DBall, through Gymnasium's vector interface alone: nothing of our trainers is used.

python examples/ppo_make_vec.py [SEED]
"""

from __future__ import annotations

import sys
import time

import gymnasium
import torch
from torch import Tensor, nn

import palaestra.gymnasium  # noqa: F401 - Gymnasium knows its environments from here on

AGENTS, STEPS, EPOCHS, BATCH = 256, 32, 4, 1024
GAMMA, LAMBDA, CLIP, BAR = 0.99, 0.95, 0.2, 95.0


def network(outputs: int) -> nn.Sequential:
    """Returns a network with two hidden layers."""
    return nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs))


def main(seed: int = 0, most_steps: int = 6_000_000) -> float:
    """Trains until the mean of the last 100 episodes reaches BAR, and returns it."""
    torch.manual_seed(seed)
    envs = gymnasium.make_vec("palaestra/3DBall-v0", num_envs=AGENTS, tensors=True)
    scale = nn.BatchNorm1d(8, momentum=None, affine=False)  # by mean and spread of all observations so far
    actor, critic = network(2), network(1)
    log_std = nn.Parameter(torch.full((2,), -0.5))
    parameters = [*actor.parameters(), *critic.parameters(), log_std]
    optimizer = torch.optim.Adam(parameters, lr=3e-4)
    obs = scale(envs.reset(seed=seed)[0])
    sums, returns = torch.zeros(AGENTS), list[float]()
    begin = time.perf_counter()
    mean, updates = 0.0, 0
    while updates * AGENTS * STEPS < most_steps and mean < BAR:
        rows: list[list[Tensor]] = []
        for _ in range(STEPS):
            with torch.no_grad():
                policy = torch.distributions.Normal(actor(obs), log_std.exp())
                action = policy.sample()
                value = critic(obs)[:, 0]
                after, reward, terminated, truncated, infos = envs.step(action)
                ended = terminated | truncated
                scale.train()(after)
                after = scale.eval()(after)
                following = critic(after)[:, 0]
                if "final_obs" in infos:  # the episode that goes on is another one
                    following = torch.where(ended, critic(scale(infos["final_obs"]))[:, 0], following)
            delta = reward + GAMMA * following * ~terminated - value
            rows.append([obs, action, policy.log_prob(action).sum(1), value, delta, ended])
            sums += reward
            returns += sums[ended].tolist()
            sums[ended] = 0.0
            obs = after
        advantage = torch.zeros(AGENTS)
        advantages = list[Tensor]()
        for *_, delta, ended in reversed(rows):
            advantage = delta + GAMMA * LAMBDA * advantage * ~ended
            advantages.insert(0, advantage)
        seen, acted, before, values, *_ = (torch.cat(column) for column in zip(*rows, strict=True))
        gains = torch.cat(advantages)
        for _ in range(EPOCHS):
            for part in torch.randperm(len(gains)).split(BATCH):
                policy = torch.distributions.Normal(actor(seen[part]), log_std.exp())
                ratio = (policy.log_prob(acted[part]).sum(1) - before[part]).exp()
                gain = (gains[part] - gains[part].mean()) / (gains[part].std() + 1e-8)
                surrogate = torch.minimum(ratio * gain, ratio.clamp(1 - CLIP, 1 + CLIP) * gain).mean()
                error = (critic(seen[part])[:, 0] - values[part] - gains[part]).square().mean()
                optimizer.zero_grad()
                (0.5 * error - surrogate).backward()
                nn.utils.clip_grad_norm_(parameters, 0.5)
                optimizer.step()
        updates += 1
        mean = sum(returns[-100:]) / max(1, len(returns[-100:]))
    print(f"mean reward {mean:.1f} after {updates * AGENTS * STEPS:,} steps and {time.perf_counter() - begin:.0f} s")
    envs.close()
    return mean


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
