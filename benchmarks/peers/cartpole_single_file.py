"""PPO as the single-file libraries write it, with RL Zoo's settings for CartPole-v1. usage: cartpole_single_file.py
SEED

Eager torch, Gymnasium's vector environment, one network call a tick, autograd, plain Adam: what a reader of the paper
would write.
"""

from __future__ import annotations

import sys

import gymnasium
import torch
from race import Race
from torch import Tensor, nn
from torch.distributions.categorical import Categorical

COPIES, TICKS, EPOCHS, BUDGET = 8, 32, 20, 150_000
GAMMA, LAMBDA, RATE, CLIP = 0.98, 0.8, 1e-3, 0.2


def net(outputs: int, gain: float) -> nn.Sequential:
    layers = [nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs)]
    for layer, scale in zip(layers[::2], (2**0.5, 2**0.5, gain), strict=True):
        nn.init.orthogonal_(layer.weight, scale)  # type: ignore[arg-type]
        nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
    return nn.Sequential(*layers)


class Learner:
    """Actor, critic and the rollout (TICKS, COPIES, ...) between two updates."""

    def __init__(self, race: Race) -> None:
        self.race = race
        games = gymnasium.make_vec(
            "CartPole-v1", COPIES, vectorization_mode="sync", vector_kwargs={"autoreset_mode": "SameStep"}
        )
        self.games = gymnasium.wrappers.vector.RecordEpisodeStatistics(games)
        self.actor, self.critic = net(2, 0.01), net(1, 1.0)
        self.optimizer = torch.optim.Adam([*self.actor.parameters(), *self.critic.parameters()], lr=RATE, eps=1e-5)
        self.view = torch.from_numpy(self.games.reset(seed=race.seed)[0])

    @torch.no_grad()
    def collect(self) -> tuple[Tensor, ...]:
        """Plays TICKS ticks. Returns obs, action, log_prob, advantage and return of each decision, in rows."""
        obs, actions, log_probs = torch.zeros(TICKS, COPIES, 4), torch.zeros(TICKS, COPIES), torch.zeros(TICKS, COPIES)
        values, rewards, ends = torch.zeros(TICKS + 1, COPIES), torch.zeros(TICKS, COPIES), torch.zeros(TICKS, COPIES)
        for t in range(TICKS):
            law = Categorical(logits=self.actor(self.view))
            action = law.sample()
            obs[t], actions[t], log_probs[t], values[t] = (
                self.view,
                action,
                law.log_prob(action),
                self.critic(self.view)[:, 0],
            )
            view, reward, terminated, truncated, infos = self.games.step(action.numpy())
            rewards[t], ends[t] = torch.from_numpy(reward), torch.from_numpy(terminated | truncated)
            for s in truncated.nonzero()[0]:
                rewards[t, s] += GAMMA * self.critic(torch.from_numpy(infos["final_obs"][s]))[0]
            if "episode" in infos:
                for length in infos["episode"]["r"][infos["_episode"]]:
                    self.race.ended(float(length))
            self.view = torch.from_numpy(view)
            self.race.took(COPIES)
        values[TICKS] = self.critic(self.view)[:, 0]
        advantages, later = torch.zeros(TICKS, COPIES), torch.zeros(COPIES)
        for t in reversed(range(TICKS)):
            alive = 1 - ends[t]
            later = rewards[t] + GAMMA * alive * values[t + 1] - values[t] + GAMMA * LAMBDA * alive * later
            advantages[t] = later
        returns = advantages + values[:-1]
        return obs.flatten(0, 1), actions.flatten(), log_probs.flatten(), advantages.flatten(), returns.flatten()

    def update(self, rows: tuple[Tensor, ...], left: float) -> None:
        """Takes EPOCHS gradient steps, each over all rows (the zoo's minibatch is the whole rollout)."""
        obs, actions, old, advantages, returns = rows
        self.optimizer.param_groups[0]["lr"] = RATE * left
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        for _ in range(EPOCHS):
            ratio = (Categorical(logits=self.actor(obs)).log_prob(actions) - old).exp()
            clipped = ratio.clamp(1 - CLIP * left, 1 + CLIP * left)
            policy_loss = -torch.min(ratio * advantages, clipped * advantages).mean()
            value_loss = (self.critic(obs)[:, 0] - returns).square().mean()
            self.optimizer.zero_grad()
            (policy_loss + 0.5 * value_loss).backward()
            nn.utils.clip_grad_norm_([*self.actor.parameters(), *self.critic.parameters()], 0.5)
            self.optimizer.step()


def main(seed: int) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    race = Race("single_file", seed, max_env_steps=BUDGET)
    learner = Learner(race)
    race.start()
    while not race.over:
        rows = learner.collect()
        if not race.over:
            learner.update(rows, 1 - race.env_steps / BUDGET)
    race.finish()


if __name__ == "__main__":
    main(int(sys.argv[1]))
