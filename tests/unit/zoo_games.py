"""PettingZoo games small enough to follow by hand, played through Palaestra and by PettingZoo's own loops."""

import sys
from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv

from palaestra.core.specs import ActionSpec
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.pettingzoo.env import PettingZooEnv


class Stored(NamedTuple):
    """One decision of an agent, what came of it, and the final observation if the episode ended with it."""

    obs: tuple
    action: int
    reward: float
    end: str
    final: tuple | None


class Crowd(ParallelEnv):
    """Agent i lives from tick i - 1 to tick 2i + 2: odd ones terminate, even ones are truncated; the last one remains
    until tick 9.
    """

    metadata = {"name": "crowd", "render_modes": ["rgb_array"], "render_fps": 5}  # noqa: RUF012

    def __init__(self, count: int = 4, render_mode: str | None = None, wrong: str = "") -> None:
        self.possible_agents = [f"cell_{i}" for i in range(count)]
        self.render_mode = render_mode
        self.wrong = wrong
        self.got = list[dict]()

    def observation_space(self, agent):
        return spaces.Dict({"clock": spaces.Box(-np.inf, np.inf, (2,), np.float32), "me": spaces.Discrete(8)})

    def action_space(self, agent):
        return spaces.Discrete(3)

    def reset(self, seed=None, options=None):
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.tick, self.luck = 0, float(self.rng.integers(100))
        self.agents = [agent for agent in self.possible_agents if self._number(agent) <= 1]
        return self._views(self.agents), {agent: {} for agent in self.agents}

    def step(self, actions):
        assert set(actions) == set(self.agents)
        assert all(self.action_space(agent).contains(action) for agent, action in actions.items())
        self.got.append(actions)
        self.tick += 1
        if self.wrong == "raise" and self.tick == 2:
            raise ZeroDivisionError("the clock stood still")
        if self.wrong == "exit" and self.tick == 2:
            sys.exit("no more coins")
        acted = self.agents
        rewards = {
            agent: self.luck
            + 10 * self.tick
            + float(np.sum(spaces.flatten(self.action_space(agent), action) if isinstance(action, dict) else action))
            for agent, action in actions.items()
        }
        done = {
            agent: self.tick == (9 if agent == self.possible_agents[-1] else 2 * self._number(agent) + 2)
            for agent in acted
        }
        if self.wrong == "vanish":
            self.agents = [agent for agent in acted if not done[agent]]
            done = dict.fromkeys(acted, False)
        if self.wrong == "nan" and self.tick == 2:
            rewards["cell_1"] = np.nan
        terminated = {agent: done[agent] and self._number(agent) % 2 == 1 for agent in acted}
        truncated = {agent: done[agent] and not terminated[agent] for agent in acted}
        new = [agent for agent in self.possible_agents if self._number(agent) == self.tick + 1]
        self.agents = [agent for agent in self.agents if not done[agent]] + new
        return self._views([*acted, *new]), rewards, terminated, truncated, {agent: {} for agent in [*acted, *new]}

    def render(self):
        return np.full((4, 6, 3), self.tick, np.uint8)

    def _number(self, agent: str) -> int:
        return int(agent.rpartition("_")[2])

    def _views(self, agents):
        return {
            agent: {"clock": np.array([self.tick, self.luck], np.float32), "me": self._number(agent)}
            for agent in agents
        }


class Duel(AECEnv):
    """Two or three players in turn; each earns as others act. Player 1 dies on player 0's third turn and earns on until
    its own turn.
    """

    metadata = {"name": "duel", "is_parallelizable": False}  # noqa: RUF012

    def __init__(self, players: int = 3) -> None:
        self.possible_agents = [f"player_{i}" for i in range(players)]

    def observation_space(self, agent):
        return spaces.Dict(
            {"observation": spaces.Box(0, 99, (2,), np.float32), "action_mask": spaces.Box(0, 1, (3,), np.int8)}
        )

    def action_space(self, agent):
        return spaces.Discrete(3)

    def observe(self, agent):
        turn = self.turn % 3
        return {"observation": np.array([self.turn, turn], np.float32), "action_mask": np.arange(3) != turn}

    def reset(self, seed=None, options=None):
        self.agents = list(self.possible_agents)
        self.turn = 0
        zero = dict.fromkeys(self.agents, 0.0)
        self.rewards = dict(zero)
        self._cumulative_rewards = dict(zero)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}
        self.agent_selection = self.agents[0]

    def step(self, action):
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        assert action != self.turn % 3, "masked"
        self._cumulative_rewards[agent] = 0.0
        self.turn += 1
        self.rewards = {one: self.turn + 0.25 * i for i, one in enumerate(self.agents)}
        if self.turn == 7:
            self.terminations["player_1"] = True
        living = [one for one in self.agents if not self.terminations[one]]
        self.agent_selection = living[(living.index(agent) + 1) % len(living)]
        if self.turn == 7:
            self._deads_step_first()
        if self.turn == 12:
            self.truncations = dict.fromkeys(self.agents, True)
        self._accumulate_rewards()


def choice(agent: str, number: int, allowed: np.ndarray) -> int:
    """Action of an agent's decision `number`, of those allowed."""
    open_ = np.flatnonzero(allowed)
    return int(open_[(number * 7 + int(agent.rpartition("_")[2])) % len(open_)])


def flat(obs: Any) -> tuple:
    """Numbers of an observation without its mask."""
    if not isinstance(obs, dict):
        return tuple(np.ravel(obs).astype(np.float32).tolist())
    planes = {
        key: np.moveaxis(value, -1, 0) if np.ndim(value) == 3 else value
        for key, value in obs.items()
        if key != "action_mask"
    }
    parts = [np.eye(8)[value] if key == "me" else np.ravel(value) for key, value in planes.items()]
    return tuple(np.concatenate(parts).astype(np.float32).tolist())


def through_palaestra(env: PettingZooEnv, agents: list[str], ticks: int, seed: int) -> dict[str, list[Stored]]:
    """Decisions of the first area's agents in their order, `agents` being those of the only behavior, by slot."""
    (name,) = env.behaviors
    waiting: dict[int, tuple[tuple, int]] = {}
    stored = defaultdict[str, list[Stored]](list)
    numbers = defaultdict[str, int](int)
    step = env.reset(seed)[name]
    spec = env.behaviors[name].action
    for _ in range(ticks):
        finals = dict(
            zip(
                step.final_obs.slots.tolist(),
                zip(*(x.flatten(1).tolist() for x in step.final_obs.obs), strict=True),
                strict=True,
            )
        )
        discrete = torch.zeros(len(step.acting), 1, dtype=torch.int64)
        if step.action_mask is not None:
            discrete[:, 0] = step.action_mask.byte().argmax(1)
        for slot, agent in enumerate(agents):
            ended = bool(step.terminated[slot] | step.truncated[slot])
            if slot in waiting and (ended or step.acting[slot]):
                end = "terminated" if step.terminated[slot] else "truncated" if step.truncated[slot] else ""
                final = tuple(np.concatenate(finals[slot]).tolist()) if ended else None
                stored[agent].append(
                    Stored(*waiting.pop(slot), float(step.reward[slot] + step.group_reward[slot]), end, final)
                )
            if step.acting[slot]:
                mask = np.ones(spec.choices, bool) if step.action_mask is None else step.action_mask[slot].numpy()
                discrete[slot] = choice(agent, numbers[agent], mask)
                numbers[agent] += 1
                waiting[slot] = (tuple(torch.cat([x[slot].flatten() for x in step.obs]).tolist()), int(discrete[slot]))
        step = env.step({name: Action(torch.zeros(len(step.acting), 0), discrete)})[name]
    return stored


def first_seed(seed: int) -> int:
    """Seed of the first area."""
    return int(np.random.SeedSequence(seed).generate_state(1)[0] >> 1)


def parallel_by_hand(env: ParallelEnv, choices: int, steps: int, seed: int) -> dict[str, list[Stored]]:
    stored = defaultdict[str, list[Stored]](list)
    numbers = defaultdict[str, int](int)
    obs, _ = env.reset(seed=first_seed(seed))
    for _ in range(steps):
        if not env.agents:
            obs, _ = env.reset()
        actions = {agent: choice(agent, numbers[agent], np.ones(choices)) for agent in env.agents}
        for agent in actions:
            numbers[agent] += 1
        before, (obs, rewards, terminated, truncated, _) = obs, env.step(actions)
        for agent, action in actions.items():
            end = "terminated" if terminated[agent] else "truncated" if truncated[agent] else ""
            final = flat(obs[agent]) if end else None
            stored[agent].append(Stored(flat(before[agent]), action, float(np.float32(rewards[agent])), end, final))
    return stored


def aec_by_hand(env: AECEnv, episodes: int, seed: int) -> dict[str, list[Stored]]:
    """Plays whole episodes in the loop of PettingZoo's documentation."""
    stored = defaultdict[str, list[Stored]](list)
    numbers = defaultdict[str, int](int)
    for episode in range(episodes):
        env.reset(seed=first_seed(seed) if episode == 0 else None)
        waiting: dict[str, tuple[tuple, int]] = {}
        for agent in env.agent_iter():
            obs, reward, terminated, truncated, _ = env.last()
            end = "terminated" if terminated else "truncated" if truncated else ""
            if agent in waiting:
                stored[agent].append(
                    Stored(*waiting.pop(agent), float(np.float32(reward)), end, flat(obs) if end else None)
                )
            action = None
            if not end:
                mask = obs["action_mask"] if isinstance(obs, dict) else np.ones(env.action_space(agent).n)
                action = choice(agent, numbers[agent], mask)
                numbers[agent] += 1
                waiting[agent] = (flat(obs), action)
            env.step(action)
    return stored


def zeros(step: TimeStep, spec: ActionSpec) -> Action:
    """Actions 0 for every slot."""
    return Action(
        torch.zeros(len(step.acting), spec.continuous),
        torch.zeros(len(step.acting), len(spec.branches), dtype=torch.int64),
    )
