"""Plays a model in PettingZoo's board games against a player that moves at random, in PettingZoo's own loop."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import numpy as np

import palaestra


def outcomes(model: Path, game: str, games: int, seed: int, *, deterministic: bool = True) -> dict[str, int]:
    """Counts wins, draws and losses of the model, which is the first player in every other game."""
    policy, rng = palaestra.load_policy(model, seed=seed), np.random.default_rng(seed)
    env = import_module(f"pettingzoo.classic.{game}.{game}").env()
    counts = {"won": 0, "drawn": 0, "lost": 0}
    for number in range(games):
        env.reset(seed=seed + number)
        mine = env.possible_agents[number % 2]
        result = 0.0
        for agent in env.agent_iter():
            obs, reward, terminated, truncated, _ = env.last()
            if terminated or truncated:
                result += reward if agent == mine else 0
                env.step(None)
                continue
            mask = obs["action_mask"].astype(bool)
            if agent == mine:
                board = np.moveaxis(obs["observation"], -1, 0)[None].astype(np.float32)
                action = int(policy.act(board, action_mask=mask[None], deterministic=deterministic).discrete[0, 0])
            else:
                action = int(rng.choice(np.flatnonzero(mask)))
            env.step(action)
        counts["won" if result > 0 else "lost" if result < 0 else "drawn"] += 1
    return counts
