"""One PettingZoo environment, called an area: the base of parallel environments and of environments with turns."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv

from palaestra.core.errors import STOPS, EnvError, PalaestraError, exception_summary
from palaestra.envs.spaces.action_masks import KEY
from palaestra.envs.spaces.drawn import picture, prepare_drawing
from palaestra.envs.spaces.episode_parameters import EpisodeParameters
from palaestra.envs.spaces.mask_source import METHODS, arguments

Agent: TypeAlias = Hashable
"""An agent's name in its environment, nearly always text."""


@dataclass(frozen=True, slots=True)
class AgentView:
    """One agent after a tick, in the form of its environment."""

    agent: Agent
    obs: Any
    info: Mapping[str, Any]
    reward: float = 0.0
    group_reward: float = 0.0
    truncated: bool = False  # of an ended episode: it was cut; else it terminated
    state: Any = None
    """The environment's `state()`, if agents observe it."""


@dataclass(slots=True)
class AreaTick:
    """Agents whose episode ended on a tick, and agents that wait for an action; an agent may be in both."""

    ended: list[AgentView] = field(default_factory=list)
    asking: list[AgentView] = field(default_factory=list)


def undefined(env: Any) -> str:
    """Returns what is wrong with a class that lacks a required method of environments; '' if it lacks none."""
    base = AECEnv if isinstance(env, AECEnv) else ParallelEnv
    forms = {"reset": "reset(self, seed=None, options=None)"}
    more = {"step": "step(self, action)", "observe": "observe(self, agent)"}
    forms |= more if base is AECEnv else {"step": "step(self, actions)"}
    for method, form in forms.items():
        if getattr(type(env), method, None) is getattr(base, method) and method not in vars(env):
            return f"its class defines no `{method}` (expected a method {form})"
    return ""


class Area:
    """Base class of the two kinds of areas."""

    def __init__(self, env: Any, number: int, name: str) -> None:
        """`name` is for messages."""
        self.env = env
        self.number = number
        self.name = name
        if what := undefined(env):
            raise self.wrong(what)
        self.group_of: Callable[[Agent], int] | None = None
        """Returns the group that an agent shares rewards with, -1 without one; None: nothing is shared."""
        self.observes_state = False
        """Whether agents observe what `state()` returns."""
        self.state: Any = None
        """The newest value of `state()`."""
        self._warned = set[str]()
        self.parameters: EpisodeParameters | None = None
        """Parameters of all areas; None until the environment is open."""
        self.mask_method: tuple[str, Callable[..., Any]] | None = None
        """The name of the method that returns the masks of actions, and the method; None if there is none."""

    @property
    def agents(self) -> list[Agent]:
        """All agents that may appear, if the environment lists them; else the agents after a reset.

        Raises EnvError for a name that occurs twice.
        """
        listed = "possible_agents" if getattr(self.env, "possible_agents", None) else "agents"
        if listed == "agents":
            self.guarded("reset", self.env.reset, seed=0)  # some make their random numbers only when they get a seed
        agents = self.names(listed)
        twice = next((agent for agent, times in Counter(agents).items() if times > 1), None)
        if twice is not None:
            raise self.wrong(
                f"`{listed}` has '{twice}' {agents.count(twice)} times; expected a name of its own for each agent"
            )
        return agents

    def names(self, listed: str) -> list[Agent]:
        """Returns the agents that an environment's attribute lists. Raises EnvError if the attribute is no list."""
        found = self.guarded(f"`{listed}`", getattr, self.env, listed)
        if isinstance(found, str) or not isinstance(found, Iterable):
            raise self.wrong(f"`{listed}` is {found!r:.80}; expected a list of names")
        return list(found)

    def reset(self, seed: int | None) -> AreaTick:
        """Starts an episode. The result has the agents that wait for an action."""
        raise NotImplementedError

    def step(self, actions: Mapping[Agent, Any]) -> AreaTick:
        """Lets the agents act that asked on the last tick, and starts the next episode if this one is over."""
        raise NotImplementedError

    def begin(self, seed: int | None) -> Any:
        """Calls the environment's `reset` with the parameters of the next episode, and returns its result."""
        options = {} if self.parameters is None else self.parameters.begin(self.number)
        given = self.guarded("reset", self.env.reset, seed=seed, **options)
        if self.parameters is not None:
            self.parameters.began(self.number)
        return given

    def render(self) -> np.ndarray:
        """Returns an image (H, W, 3). Raises EnvError if the environment cannot draw."""
        prepare_drawing(self.env, (AECEnv, ParallelEnv), self.name)
        return picture(self.guarded("render", self.env.render), self.name)

    def guarded(self, what: str, method: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Calls a method of the environment. Raises EnvError, which names the area, for any exception."""
        try:
            return method(*arguments, **options)
        except (PalaestraError, *STOPS):
            raise
        except BaseException as error:  # whatever a user's environment does
            if isinstance(error, TypeError) and "unexpected keyword argument 'seed'" in str(error):
                raise self.wrong("`reset` takes no seed; expected reset(self, seed=None, options=None)") from error
            raise self.wrong(f"{what} raised {exception_summary(error)}; --debug shows the whole traceback") from error

    def space(self, what: str, agent: Agent) -> spaces.Space:
        """Returns the `observation_space` or `action_space` of an agent. Raises EnvError if it is no space."""
        method = getattr(self.env, what, None)
        base = AECEnv if isinstance(self.env, AECEnv) else ParallelEnv
        is_base = getattr(type(self.env), what, None) is getattr(base, what) and what not in vars(self.env)
        if is_base and not hasattr(self.env, f"{what}s"):  # else it looks there
            raise self.wrong(f"its class defines no `{what}` (expected a method {what}(self, agent))")
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
        """Warns once in this area about a subject; the default subject is the text itself."""
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
        """Returns a flag. Raises EnvError for any value but True and False, or 1 and 0."""
        if type(value) is bool:
            return value
        array = np.asarray(value)
        if array.size != 1 or array.dtype.kind not in "biuf" or array.item() not in (0, 1):
            raise self.wrong(f"the {what} have {value!r} for '{agent}'; expected True or False")
        return bool(array.item())

    def info(self, given: Any, agent: Agent) -> Mapping[str, Any]:
        """Returns an agent's info, with the mask from the environment's mask method if there is one."""
        given = given if isinstance(given, Mapping) else {}
        if self.mask_method is None:
            return given
        name, method = self.mask_method
        key = KEY if name in METHODS else name
        if key in given:
            return given
        masks = self.guarded(name, method, *([agent] if arguments(method) else []))
        return {**given, key: masks.get(agent) if isinstance(masks, Mapping) and agent in masks else masks}

    def group_parts(self, earned: Mapping[Agent, float]) -> dict[Agent, float]:
        """Returns each agent's group reward: the mean over the members present, exact if all earned the same."""
        if self.group_of is None:
            return {}
        members: dict[int, list[Agent]] = {}
        for agent in earned:
            members.setdefault(self.group_of(agent), []).append(agent)
        members.pop(-1, None)
        parts = {}
        for agents in members.values():
            rewards = [earned[agent] for agent in agents]
            alike = np.allclose(rewards, rewards[0], atol=0.0)
            parts |= dict.fromkeys(agents, rewards[0] if alike else sum(rewards) / len(rewards))
        return parts

    def unflagged(self, agent: Agent) -> None:
        """Warns, once for all agents, that an agent left without an end of its episode."""
        self.warn(
            f"agent '{agent}' was no longer in `agents` although it neither terminated nor was truncated; such an "
            "episode counts as truncated. Set one of the two on the step with which an agent leaves",
            "left without an end",
        )


def read_state(area: Area) -> None:
    """Asks for the environment's state, if it is observed."""
    if area.observes_state:
        area.state = deepcopy(area.guarded("state", area.env.state))  # some return an array that they change


def state_space_of(area: Area) -> spaces.Space:
    """Returns the space of the environment's state. Raises EnvError if there is no state."""
    inner = area.env.unwrapped
    if getattr(type(inner), "state", None) in (AECEnv.state, ParallelEnv.state) and "state" not in vars(inner):
        raise area.wrong(
            "its class defines no `state`, which env_options.state=true asks for (expected a method state(self) that "
            "returns an array, and its space as `state_space`)"
        )
    if isinstance(space := getattr(area.env, "state_space", None), spaces.Space):
        return space
    area.guarded("reset", area.env.reset, seed=0)
    return spaces.Box(-np.inf, np.inf, np.shape(area.guarded("state", area.env.state)))
