"""Agents that win and lose together."""

from __future__ import annotations

from palaestra.core.errors import EnvError
from palaestra.sdk.agents.agent import Agent, AreaRegistry, reward_of


class Group:
    """Unity's SimpleMultiAgentGroup. One that is disabled leaves it, and must be registered again where it comes back."""

    def __init__(self) -> None:
        self._agents: list[Agent] = []
        self._registry: AreaRegistry | None = None
        self._id = 0

    @property
    def agents(self) -> tuple[Agent, ...]:
        """Its members now."""
        return tuple(self._agents)

    def register_agent(self, agent: Agent) -> None:
        """One member more. Raises EnvError for an agent of another group or academy, or one that is not in the game."""
        life = agent._alive("register_agent")
        if not life.enabled:
            raise EnvError(f"{life} joins a group while it is disabled; enable it first")
        if life.group is not None and life.group is not self:
            raise EnvError(f"{life} joins a group while it is in another one; unregister it there first")
        if self._registry not in (None, life.registry):
            raise EnvError(f"{life} joins a group of another area; make one Group an area")
        if life.group is self:
            return
        if self._registry is None:
            self._registry, self._id = life.registry, life.registry.new_group()
        life.group, life.group_id = self, self._id
        self._agents.append(agent)

    def unregister_agent(self, agent: Agent) -> None:
        """One member less; nothing where it was none."""
        life = agent._alive("unregister_agent")
        if life.group is self:
            life.group, life.group_id = None, 0
            self._agents.remove(agent)

    def add_group_reward(self, reward: float) -> None:
        """More reward for every member."""
        for agent in self._agents:
            life = agent._alive("add_group_reward")
            life.group_reward += reward_of(reward, life.group_reward, self, "add_group_reward")

    def set_group_reward(self, reward: float) -> None:
        """Every member's group reward since its last decision, in place of what it was."""
        for agent in self._agents:
            agent._alive("set_group_reward").group_reward = reward_of(reward, 0.0, self, "set_group_reward")

    def end_group_episode(self) -> None:
        """The episode is over for all members, by what happened in it."""
        for agent in self.agents:
            agent.end_episode()

    def group_episode_interrupted(self) -> None:
        """The episode is over for all members, but not by what happened in it."""
        for agent in self.agents:
            agent.episode_interrupted()

    def __str__(self) -> str:
        return "the group of " + ", ".join(str(agent._alive("register_agent")) for agent in self._agents[:3])
