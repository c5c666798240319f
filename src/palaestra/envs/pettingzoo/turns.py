"""Steps one PettingZoo environment, an area, until its agents await actions, and restarts it when its episode is over.

In a ParallelEnv all living agents act on every tick; in an AECEnv one agent acts on a tick, when its turn comes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from pettingzoo.utils.env import AECEnv, ParallelEnv
from pettingzoo.utils.wrappers import OrderEnforcingWrapper

from palaestra.core.errors import EnvError
from palaestra.envs.pettingzoo.area import Agent, AgentView, Area, AreaTick, read_state

MOST_DEAD_TURNS = 100_000
"""Turns of dead agents in a row after which a game is taken to repeat one of them forever."""
PARTS = ("observations", "rewards", "terminations", "truncations", "infos")
"""Values that the `step` of a parallel environment returns, in their order."""
ALL, COMMON = "__all__", "__common__"
"""Names in other libraries for what holds for all agents, in flags and in infos."""
ZERO = 1e-9
"""Share of a reward below which what is left after the group's part is taken for a rounding error."""


class ParallelArea(Area):
    """Steps a ParallelEnv: all living agents act at once."""

    env: ParallelEnv

    def __init__(self, env: ParallelEnv, number: int, name: str) -> None:
        super().__init__(env, number, name)
        self._living: list[Agent] = []
        self._last: Mapping[Agent, Any] = {}

    def reset(self, seed: int | None) -> AreaTick:
        """Starts an episode."""
        given = self.begin(seed)
        if not isinstance(given, tuple) or len(given) != 2 or not isinstance(given[0], Mapping):
            raise self.wrong(
                f"reset returned {_form(given)}; expected observations (by agent) and infos, as in PettingZoo 1.24 "
                "and later"
            )
        if not isinstance(given[1], Mapping | None):
            raise self.wrong(
                f"reset returned a {type(given[1]).__name__} as infos; expected a dict with an entry for each agent"
            )
        self._living = self.names("agents")
        self._last = given[0]
        read_state(self)
        if not self._living:
            raise self.wrong("no agent is there after reset; expected at least one in `agents`")
        infos = self._infos(given[1])
        return AreaTick(asking=[self._view(agent, given[0], infos) for agent in self._living])

    def step(self, actions: Mapping[Agent, Any]) -> AreaTick:
        """Steps the environment once."""
        given = self.guarded("step", self.env.step, actions)
        if not isinstance(given, tuple) or len(given) != 5:
            raise self.wrong(
                f"step returned {_form(given)}; expected observations, rewards, terminations, truncations and infos"
            )
        for what, values in zip(PARTS, given, strict=True):
            if not isinstance(values, Mapping) and not (values is None and what == "infos"):
                raise self.wrong(
                    f"step returned {type(values).__name__} as {what}; expected a dict with an entry for each agent"
                )
        obs, rewards, terminations, truncations, infos = given
        read_state(self)
        infos = self._infos(infos)
        over = self._flags(terminations, PARTS[2])
        cut = self._flags(truncations, PARTS[3])
        living = [agent for agent in self.env.agents if not over.get(agent, False) and not cut.get(agent, False)]
        now = set(living)
        acted = set(self._living)
        earned = {agent: self.number_of(self._of(rewards, agent, "rewards"), agent) for agent in self._living}
        if any(rewards[agent] for agent in rewards if agent not in acted and agent not in now):
            self.warn("an agent whose episode ended got a reward on a later step; such rewards are lost")
        shared = self.group_parts(earned)
        tick = AreaTick()
        for agent in self._living:
            part = shared.get(agent, 0.0)
            if agent in now:
                tick.asking.append(self._view(agent, obs, infos, earned[agent] - part, part))
                continue
            terminated = over.get(agent, False)
            truncated = cut.get(agent, False)
            if not terminated and not truncated:
                self.unflagged(agent)
            last = self._last[agent] if obs.get(agent) is None else obs[agent]  # some games show nothing to the dead
            tick.ended.append(
                AgentView(agent, last, infos.get(agent) or {}, earned[agent] - part, part, not terminated, self.state)
            )
        if not living:
            tick.asking = self.reset(None).asking
            return tick
        tick.asking += [self._view(agent, obs, infos) for agent in living if agent not in acted]
        self._living = living
        self._last = obs
        return tick

    def _view(
        self, agent: Agent, obs: Mapping[Agent, Any], infos: Mapping[Agent, Any], own: float = 0.0, part: float = 0.0
    ) -> AgentView:
        """Returns the view of an agent that awaits an action."""
        seen = self._of(obs, agent, "observations")
        return AgentView(agent, seen, self.info(infos.get(agent), agent), own, part, state=self.state)

    def _flags(self, given: Mapping[Agent, Any], what: str) -> dict[Agent, bool]:
        """Returns the flag of each agent that acted or is present. Raises EnvError for a missing flag or another value.

        Those that have left `agents` may be missing. An entry for all agents counts for each agent, with or without its
        own entry.
        """
        every = self.flag(given[ALL], ALL, what) if ALL in given else False
        there = dict.fromkeys((*self._living, *self.env.agents))
        if ALL not in given:
            for agent in self._living:
                if agent in self.env.agents:
                    self._of(given, agent, what)
        return {agent: every or (agent in given and self.flag(given[agent], agent, what)) for agent in there}

    def _infos(self, given: Mapping[Agent, Any] | None) -> Mapping[Agent, Any]:
        """Returns infos. Raises EnvError if none of the infos' names is an agent's, as they would be lost."""
        known = {*self.env.agents, *self._living, *(getattr(self.env, "possible_agents", None) or ()), ALL, COMMON}
        if given and known.isdisjoint(given):
            raise self.wrong(
                f"the infos are of {', '.join(map(str, given))}, and no agent has such a name "
                f"({_names(self.env.agents)})"
            )
        return given or {}

    def _of(self, given: Mapping[Agent, Any], agent: Agent, what: str) -> Any:
        if agent not in given:
            raise self.wrong(f"the {what} lack agent '{agent}', which is in `agents` (there are: {_names(given)})")
        return given[agent]


class TurnArea(Area):
    """Steps an AECEnv: one agent acts; everything up to the next agent's turn happens on the same tick.

    An agent's reward is the value of `last()` at its turn: the sum since its previous turn. An agent that died gets its
    reward, with its final observation, at its turn with the action None.
    """

    env: AECEnv

    def __init__(self, env: AECEnv, number: int, name: str) -> None:
        while type(env) is OrderEnforcingWrapper:  # it costs as much as a board game, and the order here is right
            env = env.env
        super().__init__(env, number, name)
        self._turn: Agent = None
        self._open: dict[Agent, AgentView] = {}
        """The last view of each agent whose episode goes on, in the order of their first turns."""
        self._parts: dict[Agent, float] = {}
        """Group reward of each agent since its last turn."""

    def reset(self, seed: int | None) -> AreaTick:
        """Starts an episode."""
        self.begin(seed)
        self._open = {}
        self._parts = {}
        tick = AreaTick()
        if not self.names("agents") or not self._advance(tick):
            raise self.wrong("no agent has a turn after reset; expected a living one as `agent_selection`")
        return AreaTick(asking=tick.asking)

    def step(self, actions: Mapping[Agent, Any]) -> AreaTick:
        """Lets the agent act that has its turn."""
        tick = AreaTick()
        self._act(self._turn, actions[self._turn])
        if not self._advance(tick):
            tick.asking = self.reset(None).asking
        return tick

    def _act(self, agent: Agent, action: Any) -> None:
        if self.group_of is None:
            self.guarded("step", self.env.step, action)
            return
        before = {**self.env._cumulative_rewards, agent: 0.0}
        self.guarded("step", self.env.step, action)
        earned = {one: float(total - before.get(one, 0.0)) for one, total in self.env._cumulative_rewards.items()}
        for one, part in self.group_parts(earned).items():
            self._parts[one] = self._parts.get(one, 0.0) + part

    def _advance(self, tick: AreaTick) -> bool:
        """Takes the turns of dead agents until a living agent's turn. Returns False if the episode is over."""
        env = self.env
        read_state(self)
        turns = 0
        while agents := env.agents:
            if len(self._open) > len(agents) or not self._open.keys() <= set(agents):
                self._collect_gone(tick, agents)
            if getattr(env, "agent_selection", None) is None:
                raise self.wrong(
                    "`agent_selection` is not set; expected `reset` and `step` to set it to the agent whose turn it is"
                )
            self._turn = agent = env.agent_selection
            obs, reward, terminated, truncated, info = self._last_of(agent)
            part = self._parts.pop(agent, 0.0)
            own = self.number_of(reward, agent) - part
            own = 0.0 if abs(own) <= ZERO * abs(part) else own
            terminated = self.flag(terminated, agent, PARTS[2])
            truncated = self.flag(truncated, agent, PARTS[3])
            is_over = terminated or truncated  # the dead have no mask
            info = {} if is_over else self.info(info, agent)
            view = AgentView(agent, obs, info, own, part, truncated=not terminated, state=self.state)
            if not terminated and not truncated:
                self._open[agent] = view
                tick.asking.append(view)
                return True
            if (before := self._open.pop(agent, None)) is not None:
                tick.ended.append(replace(view, obs=before.obs) if obs is None else view)
            self.guarded("step(None)", env.step, None)
            turns += 1
            if turns > MOST_DEAD_TURNS:
                raise self.wrong(
                    f"agent '{agent}' is dead, and still has its turn after step(None); a dead agent leaves `agents`"
                )
        self._collect_gone(tick, ())
        return False

    def _last_of(self, agent: Agent) -> Any:
        """Returns what `last` does. Raises EnvError if a dictionary lacks the agent whose turn it is."""
        try:
            return self.guarded("last", self.env.last)
        except EnvError as error:
            if not isinstance(error.__cause__, KeyError | TypeError | AttributeError):
                raise
            for name in ("terminations", "truncations", "_cumulative_rewards", "infos"):
                has = getattr(self.env, name, None)
                if has is None:
                    continue  # a wrapper keeps it to itself
                if not isinstance(has, Mapping):
                    raise self.wrong(
                        f"`{name}` is {has!r:.80}; expected a dictionary with an entry for each agent"
                    ) from None
                if agent not in has:
                    raise self.wrong(
                        f"the {name} lack agent '{agent}', whose turn it is (there are: {_names(has)})"
                    ) from None
            raise

    def _collect_gone(self, tick: AreaTick, agents: Collection[Agent]) -> None:
        """Ends the episodes of agents that left without a turn, with their last flags and rewards."""
        ends, cuts, sums = (
            getattr(self.env, name, {}) for name in ("terminations", "truncations", "_cumulative_rewards")
        )
        for agent in [agent for agent in self._open if agent not in agents]:
            terminated = bool(ends.get(agent, False))
            truncated = bool(cuts.get(agent, False))
            if not terminated and not truncated:
                self.unflagged(agent)
            last = self._open.pop(agent)
            part = self._parts.pop(agent, 0.0)
            own = self.number_of(sums.get(agent, part), agent) - part
            tick.ended.append(AgentView(agent, last.obs, last.info, own, part, not terminated, self.state))


def _form(given: Any) -> str:
    """Describes what a method returned: a tuple by the types in it."""
    if not isinstance(given, tuple):
        return "None (does it end without `return`?)" if given is None else f"one value of type {type(given).__name__}"
    return f"{len(given)} values of types {', '.join(type(one).__name__ for one in given)}"


def _names(given: Collection[Agent]) -> str:
    return ", ".join(map(str, given)) or "none"
