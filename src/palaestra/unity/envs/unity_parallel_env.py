"""PettingZoo's parallel API (before 1.22), in which all agents act at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from palaestra.unity.base_env import BaseEnv
from palaestra.unity.envs.unity_pettingzoo_base_env import UnityPettingzooBaseEnv

if TYPE_CHECKING:
    ParallelEnv: Any = object
else:
    try:
        from pettingzoo.utils.env import ParallelEnv
    except ImportError:
        ParallelEnv = object


class UnityParallelEnv(UnityPettingzooBaseEnv, ParallelEnv):
    """Parallel environment of a BaseEnv.

    If an agent's next episode begins at once, the agent is done and observes the first observation of that episode;
    `final_observation` in its info is the last observation of the old episode.
    """

    def __init__(self, env: BaseEnv, seed: int | None = None) -> None:
        super().__init__(env, seed)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> dict[str, Any]:
        """Begins new episodes and returns the first observations by agent. The arguments are ignored."""
        super().reset()
        return self._show()

    def step(
        self, actions: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, bool], dict[str, dict[str, Any]]]:
        """Steps with actions by agent; agents without an action get zeros. Raises gymnasium.error.Error."""
        self._opened()
        for agent, action in actions.items():
            if agent in self._new_episodes or not self.dones.get(agent, True):
                self._act(agent, action)
        self._tick()
        shown = self._show()
        self.agents = [agent for agent in self.agents if agent in self._new_episodes or not self.dones[agent]]
        return shown, self.rewards, self.dones, self.infos

    def _show(self) -> dict[str, Any]:
        for agent, (obs, _) in self._new_episodes.items():
            self.infos[agent]["final_observation"] = self._observations[agent]
            self._observations[agent] = obs
        return self._observations
