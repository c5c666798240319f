"""PettingZoo's AEC API (before 1.22), in which agents act one after another."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gymnasium import error

from palaestra.unity.base_env import BaseEnv
from palaestra.unity.envs.unity_pettingzoo_base_env import UnityPettingzooBaseEnv

if TYPE_CHECKING:
    AECEnv: Any = object
else:
    try:
        from pettingzoo.utils.env import AECEnv
    except ImportError:
        AECEnv = object


class UnityAECEnv(UnityPettingzooBaseEnv, AECEnv):
    """AEC environment of a BaseEnv: each agent has a turn in every tick, and after the last turn the environment steps.

    An agent that is done takes None as its action. If its next episode begins at once, it has a second turn in the same
    tick, with the first observation of that episode.
    """

    def __init__(self, env: BaseEnv, seed: int | None = None) -> None:
        super().__init__(env, seed)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begins new episodes for all agents. The arguments are ignored; PettingZoo's wrappers pass them."""
        super().reset()

    def step(self, action: Any) -> None:
        """Acts for `agent_selection`; `rewards` are zero until the next tick. Raises gymnasium.error.Error."""
        self._opened()
        if not self._turns:
            self._tick()
            return
        agent = self._turns[0]
        if not self.dones[agent]:
            self._act(agent, action)
        elif action is not None:
            raise error.Error(f"agent {agent} ended its episode and takes no action but None; {action!r} was given")
        self._turns.popleft()
        self.rewards = dict.fromkeys(self.rewards, 0.0)
        if self.dones[agent] and agent in self._new_episodes:
            self._begin_anew(agent)
        elif self.dones[agent]:
            self.agents.remove(agent)
            for kept in (self._observations, self.rewards, self._cumulative_rewards, self.dones, self.infos):
                del kept[agent]
        if not self._turns:
            self._tick()

    def observe(self, agent: str) -> tuple[Any, Any, bool, dict[str, Any]]:
        """Returns an agent's observation, reward since its last turn, done flag and info. Raises KeyError."""
        return self._observations[agent], self._cumulative_rewards[agent], self.dones[agent], self.infos[agent]

    def last(self, observe: bool = True) -> tuple[Any, Any, bool, dict[str, Any]]:
        """Returns the same values as `observe` for the agent `agent_selection`; without `observe`, no observation."""
        obs, reward, done, info = self.observe(self.agent_selection)
        return obs if observe else None, reward, done, info

    @property
    def agent_selection(self) -> str:
        """Agent whose turn it is. Raises gymnasium.error.Error if there are no agents; `step(None)` continues then."""
        if not self._begun:
            raise error.Error("there are no agents before the first reset()")
        if not self._turns:
            raise error.Error("no agent requested a decision or ended in this tick; step(None) continues to the next")
        return self._turns[0]

    def agent_iter(self, max_iter: int = 2**63) -> Iterator[str]:
        """Yields the agent whose turn it is, for at most `max_iter` turns."""
        self._opened()
        for _ in range(max_iter):
            while not self._turns:
                self._tick()
            yield self.agent_selection

    def _read_steps(self) -> None:
        super()._read_steps()
        self._turns = deque(self._observations)

    def _begin_anew(self, agent: str) -> None:
        self._observations[agent], self.infos[agent] = self._new_episodes.pop(agent)
        self.rewards[agent] = 0.0
        self._cumulative_rewards[agent] = 0.0
        self.dones[agent] = False
        self._turns.append(agent)
