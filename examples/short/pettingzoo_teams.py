"""A PettingZoo environment of your own: two hunters who share a reward chase a runner, and both sides learn.

python pettingzoo_teams.py
"""

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

import palaestra

SIZE, MOST_STEPS = 7, 30
MOVES = np.array([(0, 0), (-1, 0), (1, 0), (0, -1), (0, 1)])


class Chase(ParallelEnv):
    """Three agents on a board; each sees where all of them are. The hunters win on the runner's square."""

    metadata = {"name": "chase"}
    possible_agents = ["hunter_0", "hunter_1", "runner_0"]

    def observation_space(self, agent):
        return spaces.Box(0, 1, (8,), np.float32)  # its own place, then everyone's

    def action_space(self, agent):
        return spaces.Discrete(len(MOVES))

    def reset(self, seed=None, options=None):
        if seed is not None or not hasattr(self, "random"):
            self.random = np.random.default_rng(seed)
        self.agents, self.age = list(self.possible_agents), 0
        self.places = {agent: self.random.integers(0, SIZE, 2) for agent in self.agents}
        return self.seen(), {agent: {} for agent in self.agents}

    def step(self, actions):
        for agent, action in actions.items():
            self.places[agent] = np.clip(self.places[agent] + MOVES[action], 0, SIZE - 1)
        self.age += 1
        caught = any((self.places[f"hunter_{i}"] == self.places["runner_0"]).all() for i in range(2))
        over, agents, seen = caught or self.age >= MOST_STEPS, self.agents, self.seen()
        won = (1.0 if caught else -1.0) if over else 0.0
        rewards = {agent: won if agent.startswith("hunter") else -won for agent in agents}
        self.agents = [] if over else agents
        return seen, rewards, dict.fromkeys(agents, over), dict.fromkeys(agents, False), {agent: {} for agent in agents}

    def seen(self):
        everyone = np.concatenate([self.places[agent] for agent in self.possible_agents]) / SIZE
        return {agent: np.float32([*(self.places[agent] / SIZE), *everyone]) for agent in self.agents}


if __name__ == "__main__":
    teams = {"groups": {"hunter_*": "pack"}, "shared_reward": True, "teams": {"hunter_*": 0, "runner_*": 1}}
    settings = {"self_play": {"save_steps": 5_000}, "behaviors.hunter.trainer_type": "poca"}
    run = {"env_options": teams, "run_id": "chase", "force": True}
    result = palaestra.train(env=Chase, max_steps=40_000, settings=settings, **run)
    palaestra.plot(result, metric=["Group Cumulative Reward", "ELO"], out="pettingzoo_teams.png", force=True)
