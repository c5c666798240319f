"""Groups of cooperating agents."""

from __future__ import annotations

from palaestra.core.errors import EnvError
from palaestra.sdk.agents.academy import Academy, Agent
from palaestra.sdk.agents.agent_state import reward_of


class Group:
    """Group of agents with shared rewards, as Unity's SimpleMultiAgentGroup. A disabled agent leaves its group."""

    def __init__(self) -> None:
        self._agents: list[Agent] = []
        self._academy: Academy | None = None
        self._id = 0

    @property
    def agents(self) -> tuple[Agent, ...]:
        """Members of the group."""
        states = ((agent, agent._agent_state) for agent in self._agents)
        return tuple(agent for agent, state in states if state is not None and state.group is self)

    def register_agent(self, agent: Agent) -> None:
        """Adds a member. Raises EnvError for a disabled agent, or an agent of another group or area."""
        state = agent._require_state("register_agent")
        if not state.enabled:
            raise EnvError(f"{state} joins a group while it is disabled; enable it first")
        if state.group is not None and state.group is not self:
            raise EnvError(f"{state} joins a group while it is in another one; unregister it there first")
        if self._academy not in (None, state.academy):
            raise EnvError(f"{state} joins a group of another area; make one Group for each area")
        if state.group is self:
            return
        if self._academy is None:
            self._academy = agent.academy
            self._id = agent.academy.observation_queue.new_group()
        self._agents = [*self.agents, agent]  # before the agent is a member: one that comes back is still in the list
        state.group = self
        state.group_id = self._id

    def unregister_agent(self, agent: Agent) -> None:
        """Removes a member; ignores other agents."""
        state = agent._require_state("unregister_agent")
        if state.group is self:
            state.group = None
            state.group_id = 0

    def add_group_reward(self, reward: float) -> None:
        """Adds to the group reward of each member."""
        for agent in self.agents:
            state = agent._require_state("add_group_reward")
            state.group_reward += reward_of(reward, state.group_reward, self, "add_group_reward")

    def set_group_reward(self, reward: float) -> None:
        """Sets the group reward of each member since its last decision."""
        for agent in self.agents:
            agent._require_state("set_group_reward").group_reward = reward_of(reward, 0.0, self, "set_group_reward")

    def end_group_episode(self) -> None:
        """Ends the episode of all members as terminated."""
        for agent in self.agents:
            agent.end_episode()

    def group_episode_interrupted(self) -> None:
        """Ends the episode of all members as truncated."""
        for agent in self.agents:
            agent.episode_interrupted()

    def __str__(self) -> str:
        return "the group of " + ", ".join(str(agent._require_state("register_agent")) for agent in self.agents[:3])
