"""Steps one PettingZoo environment, an area, until its agents await actions, and restarts it when its episode is over.

In a ParallelEnv all living agents act on every tick; in an AECEnv one agent acts on a tick, when its turn comes.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces
from pettingzoo.utils.env import AECEnv, ParallelEnv
from pettingzoo.utils.wrappers import OrderEnforcingWrapper

from palaestra.core.errors import STOPS, EnvError, PalaestraError, exception_summary
from palaestra.envs.pettingzoo.shared_rewards import SharedRewards
from palaestra.envs.spaces.action_masks import KEY
from palaestra.envs.spaces.mask_source import METHODS, arguments

Agent: TypeAlias = Hashable
"""An agent's name in its environment, nearly always text."""
MOST_DEAD_TURNS = 100_000
"""Turns of dead agents in a row after which a game is taken to repeat one of them forever."""
PARTS = ("observations", "rewards", "terminations", "truncations", "infos")
"""Values that a parallel environment's step returns, in their order."""
ALL, COMMON = "__all__", "__common__"
"""Names of other libraries for what is so of all agents, in flags and in infos."""
ZERO = 1e-9
"""Share of a reward below which the rest is taken for a rounding error, once the group's part is subtracted."""


@dataclass(frozen=True, slots=True)
class AgentView:
    """One agent after a tick, as its environment describes it."""

    agent: Agent
    obs: Any
    info: Mapping[str, Any]
    reward: float = 0.0
    group_reward: float = 0.0
    truncated: bool = False  # of an ended episode: it was cut; else it terminated


@dataclass(slots=True)
class AreaTick:
    """Agents whose episode ended on a tick, and agents that await an action; some may be in both."""

    ended: list[AgentView] = field(default_factory=list)
    asking: list[AgentView] = field(default_factory=list)


class Area:
    """Base class of the two kinds of areas."""

    def __init__(self, env: Any, number: int, name: str, shared: SharedRewards) -> None:
        """`name` is for messages. `shared` finds the rewards that a group shares."""
        self.env = env
        self.number = number
        self.name = name
        self.shared = shared
        self._warned = set[str]()
        self.mask_method: tuple[str, Callable[..., Any]] | None = None
        """The name of the method that returns the masks of actions, and the method, if there is one."""

    @property
    def agents(self) -> list[Agent]:
        """All agents that may appear, as far as the environment says; else those that are there after a reset.

        Raises EnvError for a name that is there twice.
        """
        listed = "possible_agents" if getattr(self.env, "possible_agents", None) else "agents"
        if listed == "agents":
            self.guarded("reset", self.env.reset, seed=0)  # some make their random numbers only when they get a seed
        agents = list(getattr(self.env, listed))
        twice = next((agent for agent, times in Counter(agents).items() if times > 1), None)
        if twice is not None:
            raise self.wrong(
                f"`{listed}` has '{twice}' {agents.count(twice)} times; expected a name of its own for each agent"
            )
        return agents

    def reset(self, seed: int | None) -> AreaTick:
        """Starts an episode. Agents that await an action are in the result."""
        raise NotImplementedError

    def step(self, actions: Mapping[Agent, Any]) -> AreaTick:
        """Lets the agents act that asked last, and starts the next episode if this one is over."""
        raise NotImplementedError

    def render(self) -> np.ndarray:
        """Returns an image (H, W, 3). Raises EnvError if the environment cannot draw."""
        if getattr(self.env, "render_mode", None) != "rgb_array":
            raise EnvError(
                f"{self.name} can only be drawn if it is made with render_mode='rgb_array' (the option render=True)"
            )
        frame = self.guarded("render", self.env.render)
        if not isinstance(frame, np.ndarray) or frame.ndim != 3:
            raise EnvError(
                f"{self.name}, area {self.number}: render returned a {type(frame).__name__}; expected an array (H, W, "
                "3)"
            )
        return np.array(frame, np.uint8)

    def guarded(self, what: str, method: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Calls a method of the environment. Raises EnvError, which names the area, for any exception."""
        try:
            return method(*arguments, **options)
        except (PalaestraError, *STOPS):
            raise
        except BaseException as error:  # whatever a user's environment does
            raise EnvError(
                f"{self.name}, area {self.number}: {what} raised {exception_summary(error)}; --debug shows the whole "
                "traceback"
            ) from error

    def space(self, what: str, agent: Agent) -> spaces.Space:
        """Returns the `observation_space` or `action_space` of an agent. Raises EnvError where it is none."""
        method = getattr(self.env, what, None)
        if not callable(method):
            is_space = isinstance(method, spaces.Space)
            came = f"the space {method} itself" if is_space else f"{method!r:.80}"
            raise self.wrong(
                f"`{what}` is {came}; expected a method {what}(self, agent) that returns a space of gymnasium.spaces"
            )
        given = self.guarded(what, method, agent)
        if not isinstance(given, spaces.Space):
            raise self.wrong(f"`{what}('{agent}')` returned {given!r:.80}; expected a space of gymnasium.spaces")
        return given

    def warn(self, text: str, subject: str | None = None) -> None:
        """Warns once in this area of a subject, by default of what the text says."""
        if (subject or text) not in self._warned and self.number == 0:
            self._warned.add(subject or text)
            warnings.warn(f"{self.name}: {text}", stacklevel=4)

    def wrong(self, text: str) -> EnvError:
        """Returns an error that names the area."""
        return EnvError(f"{self.name}, area {self.number}: {text}")

    def number_of(self, reward: Any, agent: Agent) -> float:
        """Returns a reward as a number. Raises EnvError for anything else."""
        try:
            return float(reward)
        except (TypeError, ValueError):
            if isinstance(reward, np.ndarray) and reward.size == 1:
                return float(reward.item())
            raise self.wrong(f"the reward of agent '{agent}' is {reward!r}; expected a number") from None

    def flag(self, value: Any, agent: Agent, what: str) -> bool:
        """Returns a flag. Raises EnvError for anything but True and False, or 1 and 0."""
        if type(value) is bool:
            return value
        array = np.asarray(value)
        if array.size != 1 or array.dtype.kind not in "biuf" or array.item() not in (0, 1):
            raise self.wrong(f"the {what} have {value!r} for '{agent}'; expected True or False")
        return bool(array.item())

    def info(self, given: Any, agent: Agent) -> Mapping[str, Any]:
        """Returns an agent's info, with what the method that returns masks says of it if there is one."""
        given = given if isinstance(given, Mapping) else {}
        if self.mask_method is None:
            return given
        name, method = self.mask_method
        key = KEY if name in METHODS else name
        if key in given:
            return given
        masks = self.guarded(name, method, *([agent] if arguments(method) else []))
        return {**given, key: masks.get(agent) if isinstance(masks, Mapping) and agent in masks else masks}

    def unflagged(self, agent: Agent) -> None:
        """Warns, once for all agents, of one that left without an end."""
        self.warn(
            f"agent '{agent}' was no longer in `agents` although it neither terminated nor was truncated; such an "
            "episode counts as truncated. Set one of the two on the step with which an agent leaves",
            "left without an end",
        )


class ParallelArea(Area):
    """Steps a ParallelEnv: all living agents act at once."""

    env: ParallelEnv

    def __init__(self, env: ParallelEnv, number: int, name: str, shared: SharedRewards) -> None:
        super().__init__(env, number, name, shared)
        self._living: list[Agent] = []
        self._last: Mapping[Agent, Any] = {}

    def reset(self, seed: int | None) -> AreaTick:
        """Starts an episode."""
        given = self.guarded("reset", self.env.reset, seed=seed)
        if not isinstance(given, tuple) or len(given) != 2 or not isinstance(given[0], Mapping):
            raise self.wrong(
                f"reset returned {_form(given)}; expected observations (by agent) and infos, as in PettingZoo 1.24 "
                "and later"
            )
        if not isinstance(given[1], Mapping | None):
            raise self.wrong(
                f"reset returned a {type(given[1]).__name__} as infos; expected a dict with an entry for each agent"
            )
        self._living = list(self.env.agents)
        self._last = given[0]
        if not self._living:
            raise self.wrong("no agent is there after reset; expected at least one in `agents`")
        obs = given[0]
        infos = self._infos(given[1])
        views = [
            AgentView(agent, self._of(obs, agent, "observations"), self.info(infos.get(agent), agent))
            for agent in self._living
        ]
        return AreaTick(asking=views)

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
        infos = self._infos(infos)
        over = self._flags(terminations, PARTS[2])
        cut = self._flags(truncations, PARTS[3])
        living = [agent for agent in self.env.agents if not over.get(agent, False) and not cut.get(agent, False)]
        now = set(living)
        acted = set(self._living)
        earned = {agent: self.number_of(self._of(rewards, agent, "rewards"), agent) for agent in self._living}
        if any(rewards[agent] for agent in rewards if agent not in acted and agent not in now):
            self.warn("an agent whose episode ended got a reward on a later step; such rewards are lost")
        shared = self.shared.parts(earned)
        tick = AreaTick()
        for agent in self._living:
            part = shared.get(agent, 0.0)
            if agent in now:
                info = self.info(infos.get(agent), agent)
                tick.asking.append(
                    AgentView(agent, self._of(obs, agent, "observations"), info, earned[agent] - part, part)
                )
                continue
            terminated = over.get(agent, False)
            truncated = cut.get(agent, False)
            if not terminated and not truncated:
                self.unflagged(agent)
            last = self._last[agent] if obs.get(agent) is None else obs[agent]  # some games show nothing to the dead
            tick.ended.append(
                AgentView(agent, last, infos.get(agent) or {}, earned[agent] - part, part, not terminated)
            )
        if not living:
            tick.asking = self.reset(None).asking
            return tick
        new = [agent for agent in living if agent not in acted]
        tick.asking += [
            AgentView(agent, self._of(obs, agent, "observations"), self.info(infos.get(agent), agent)) for agent in new
        ]
        self._living = living
        self._last = obs
        return tick

    def _flags(self, given: Mapping[Agent, Any], what: str) -> dict[Agent, bool]:
        """Returns the flag of each agent that acted or is there. Raises EnvError for one that is missing or is no flag.

        Those that have left `agents` may be missing. An entry for all of them counts for each, beside or without its
        own.
        """
        every = self.flag(given[ALL], ALL, what) if ALL in given else False
        there = dict.fromkeys((*self._living, *self.env.agents))
        if ALL not in given:
            for agent in self._living:
                if agent in self.env.agents:
                    self._of(given, agent, what)
        return {agent: every or (agent in given and self.flag(given[agent], agent, what)) for agent in there}

    def _infos(self, given: Mapping[Agent, Any] | None) -> Mapping[Agent, Any]:
        """Returns infos. Raises EnvError if none of their names is an agent's, because what they say would be lost."""
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
    """Steps an AECEnv: one agent acts, then all that follows up to the next agent's turn happens on the same tick.

    An agent's reward is what `last()` gives at its turn: the sum since its turn before. An agent that died gets it,
    with its final observation, when its turn for the action None comes.
    """

    env: AECEnv

    def __init__(self, env: AECEnv, number: int, name: str, shared: SharedRewards) -> None:
        while type(env) is OrderEnforcingWrapper:  # it costs as much as a board game, and the order here is right
            env = env.env
        super().__init__(env, number, name, shared)
        self._turn: Agent = None
        self._open: dict[Agent, AgentView] = {}
        """The last view of each agent whose episode goes on, in the order of their first turns."""
        self._parts: dict[Agent, float] = {}
        """Group reward of each agent since its last turn."""

    def reset(self, seed: int | None) -> AreaTick:
        """Starts an episode."""
        self.guarded("reset", self.env.reset, seed=seed)
        self._open = {}
        self._parts = {}
        tick = AreaTick()
        if not self.env.agents or not self._advance(tick):
            raise self.wrong("no agent has a turn after reset; expected a living one as `agent_selection`")
        return AreaTick(asking=tick.asking)

    def step(self, actions: Mapping[Agent, Any]) -> AreaTick:
        """Lets the agent act whose turn it is."""
        tick = AreaTick()
        self._act(self._turn, actions[self._turn])
        if not self._advance(tick):
            tick.asking = self.reset(None).asking
        return tick

    def _act(self, agent: Agent, action: Any) -> None:
        if not self.shared.groups:
            self.guarded("step", self.env.step, action)
            return
        before = {**self.env._cumulative_rewards, agent: 0.0}
        self.guarded("step", self.env.step, action)
        earned = {one: float(total - before.get(one, 0.0)) for one, total in self.env._cumulative_rewards.items()}
        for one, part in self.shared.parts(earned).items():
            self._parts[one] = self._parts.get(one, 0.0) + part

    def _advance(self, tick: AreaTick) -> bool:
        """Takes the turns of dead agents up to that of a living one. Returns False if the episode is over."""
        env = self.env
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
            view = AgentView(agent, obs, {} if is_over else self.info(info, agent), own, part, truncated=not terminated)
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
            names = {
                "terminations": PARTS[2],
                "truncations": PARTS[3],
                "_cumulative_rewards": "_cumulative_rewards",
                "infos": PARTS[4],
            }
            for name, what in names.items():
                has = getattr(self.env, name, None)
                if has is None:
                    continue  # a wrapper keeps it to itself
                if not isinstance(has, Mapping):
                    raise self.wrong(
                        f"`{name}` is {has!r:.80}; expected a dictionary with an entry for each agent"
                    ) from None
                if agent not in has:
                    raise self.wrong(
                        f"the {what} lack agent '{agent}', whose turn it is (there are: {_names(has)})"
                    ) from None
            raise

    def _collect_gone(self, tick: AreaTick, agents: Collection[Agent]) -> None:
        """Ends the episodes of agents that left without a turn, with the ends and rewards that are still said."""
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
            tick.ended.append(AgentView(agent, last.obs, last.info, own, part, truncated=not terminated))


def _form(given: Any) -> str:
    """Describes what a method returned: a tuple by the types in it."""
    if not isinstance(given, tuple):
        return "None (does it end without `return`?)" if given is None else f"one value of type {type(given).__name__}"
    return f"{len(given)} values of types {', '.join(type(one).__name__ for one in given)}"


def _names(given: Collection[Agent]) -> str:
    return ", ".join(map(str, given)) or "none"
