"""One agent after the other, in the manner of PettingZoo before 1.22: `last` tells of the one whose turn it is, `step` acts for it."""

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
    """Each agent of a BaseEnv has a turn in every tick; after the last one's the environment goes on.

    One that ended takes None. If it goes on at once, it has a second turn in the same tick, with the first view of its new episode.
    """

    def __init__(self, env: BaseEnv, seed: int | None = None) -> None:
        super().__init__(env, seed)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begins all episodes anew. Neither argument does anything: PettingZoo's own wrappers pass them on."""
        super().reset()

    def step(self, action: Any) -> None:
        """Acts for `agent_selection`, and zeroes `rewards` until the next tick.

        Raises gymnasium.error.Error for an action outside its space, of one that ended, and before the first `reset`.
        """
        self._check_begun()
        if not self._turns:
            self._tick()
            return
        agent = self._turns[0]
        if not self._dones[agent]:
            self._act(agent, action)
        elif action is not None:
            raise error.Error(f"agent {agent} ended its episode and takes no action but None; {action!r} was given")
        self._turns.popleft()
        self._rewards = dict.fromkeys(self._rewards, 0.0)
        if self._dones[agent] and agent in self._new_episodes:
            self._begin_anew(agent)
        elif self._dones[agent]:
            self._forget(agent)
        if not self._turns:
            self._tick()

    def observe(self, agent: str) -> tuple[Any, Any, bool, dict[str, Any]]:
        """What an agent sees, earned since its last turn, whether it ended, and its info. Raises KeyError."""
        return self._observations[agent], self._earned[agent], self._dones[agent], self._infos[agent]

    def last(self, observe: bool = True) -> tuple[Any, Any, bool, dict[str, Any]]:
        """The same of `agent_selection`; without `observe` it sees None."""
        obs, reward, done, info = self.observe(self.agent_selection)
        return obs if observe else None, reward, done, info

    @property
    def agent_selection(self) -> str:
        """Whose turn it is. Raises gymnasium.error.Error where nobody is there: `step(None)` goes on."""
        if not self._begun:
            raise error.Error("nobody is there before the first reset()")
        if not self._turns:
            raise error.Error("no agent asks or ended in this tick; step(None) goes on to the next")
        return self._turns[0]

    def agent_iter(self, max_iter: int = 2**63) -> Iterator[str]:
        """Whose turn it is, again and again, at most that many turns."""
        self._check_begun()
        for _ in range(max_iter):
            while not self._turns:
                self._tick()
            yield self.agent_selection

    def _read_steps(self) -> None:
        super()._read_steps()
        self._turns = deque(self._agents)

    def _begin_anew(self, agent: str) -> None:
        self._observations[agent], self._infos[agent] = self._new_episodes.pop(agent)
        self._rewards[agent], self._earned[agent], self._dones[agent] = 0.0, 0.0, False
        self._turns.append(agent)
