"""A PettingZoo environment, Parallel or AEC, as an `Env`: each copy of the environment is an area."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from pettingzoo.utils.env import AECEnv, ParallelEnv
from torch import Tensor

from palaestra.core.errors import EnvError, exception_summary
from palaestra.core.plugins import nearest
from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.given_actions import unknown
from palaestra.envs.pettingzoo.agent_spaces import AgentSpaces, check_left_out
from palaestra.envs.pettingzoo.agent_table import AgentTable, Member
from palaestra.envs.pettingzoo.area import AgentView, Area, AreaTick, state_space_of
from palaestra.envs.pettingzoo.roster import Roster, Spaces
from palaestra.envs.pettingzoo.turns import ParallelArea, TurnArea
from palaestra.envs.spaces.conventions import Conventions, tick_seconds
from palaestra.envs.spaces.episode_parameters import EpisodeParameters
from palaestra.envs.spaces.option_names import OF_RUN, STATE, ZOO_OPTIONS
from palaestra.envs.traits import EnvTraits
from palaestra.parallel.closing import close_all

COOPERATIVE = ("hanabi",)
"""Games of PettingZoo whose players act in turn but form one team."""


class PettingZooEnv:
    """Steps several copies of a PettingZoo environment. It cannot be saved."""

    def __init__(
        self, envs: Sequence[ParallelEnv | AECEnv], name: str, options: Mapping[str, Any] | None = None
    ) -> None:
        """`options`: `behaviors`, `teams` and `groups` map agents or patterns of their names; `shared_reward` and
        `state` are switches; `Conventions` has the others.

        `name` is for messages. Raises EnvError for options that fit no agent and for unsupported spaces.
        """
        options = {} if options is None else dict(options)
        for key in options:
            if key not in (*ZOO_OPTIONS, OF_RUN):
                raise EnvError(
                    f"{name} takes no option '{key}'{nearest(key, ZOO_OPTIONS)} (it takes: {', '.join(ZOO_OPTIONS)})"
                )
        self.name = name
        self._envs = list(envs)
        self.device = torch.device("cpu")
        self.num_areas = len(envs)
        first = envs[0]
        metadata = _metadata(first, name)
        self._conventions = Conventions.taken_from(options).completed(metadata)
        self.tick_seconds = tick_seconds(metadata)
        self._areas: list[Area] = [
            ParallelArea(env, i, name) if isinstance(env, ParallelEnv) else TurnArea(env, i, name)
            for i, env in enumerate(envs)
        ]
        agents = self._areas[0].agents
        lasting = agents if getattr(first, "possible_agents", None) else []
        self._roster = Roster(
            agents, self._spaces, options, in_turns=_opposed(first), name=name, complete=bool(lasting)
        )
        if self._roster.shares_rewards:
            for area in self._areas:
                area.group_of = self._roster.group_of
        self._parameters = EpisodeParameters([area.env for area in self._areas], self._conventions.parameters, name)
        for area in self._areas:
            area.parameters = self._parameters
        targets = self._parameters.targets
        self.parameters: Mapping[str, float] = targets.defaults
        self.traits = EnvTraits(
            name=name,
            summary=f"{'An AEC' if isinstance(first, AECEnv) else 'A parallel'} environment of PettingZoo.",
            notes=(*self._roster.lines(), *targets.notes),
            refused_parameters=targets.refused,
            opponents=tuple(self._roster.opponents),
            timed=True,
        )
        self._state_space = state_space_of(self._areas[0]) if _state_wanted(options, name) else None
        for area in self._areas:
            area.observes_state = self._state_space is not None
        self._tables: dict[str, AgentTable] = {}
        self._specs: dict[str, BehaviorSpec] = {}
        self.behaviors: Mapping[str, BehaviorSpec] = self._specs
        check_left_out(self._conventions, [self._spaces(agent)[0] for agent in self._roster.kinds.values()], name)
        for behavior in self._roster.kinds:
            members = [
                (i, agent) for i in range(len(envs)) for agent in lasting if self._roster[agent].behavior == behavior
            ]
            self._add(behavior, members)

    def reset(self, seed: int) -> dict[str, TimeStep]:
        """Resets every area, each with its own seed."""
        seeds = np.random.SeedSequence(seed).generate_state(self.num_areas) >> 1  # below 2**31, which all games take
        for table in self._tables.values():
            table.restart()
        return self._steps([area.reset(int(one)) for area, one in zip(self._areas, seeds, strict=True)])

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        """Simulates one tick: one step of each area.

        Raises NotFinite for a number that is NaN or infinite, EnvError for missing actions and for exceptions.
        """
        if not actions.keys() <= self._tables.keys():
            raise unknown(actions, self._tables)
        chosen: list[dict[Hashable, Any]] = [{} for _ in self._areas]
        for table in self._tables.values():
            for (area, agent), action in table.actions(actions):
                chosen[area][agent] = action
        return self._steps([area.step(one) for area, one in zip(self._areas, chosen, strict=True)])

    def set_parameters(self, values: Mapping[str, Tensor]) -> None:
        """Sets a value for each area, from its next episode on. Raises EnvError for an unknown parameter."""
        self._parameters.set(values)

    def render(self, area: int) -> np.ndarray:
        """Returns an image of an area. Raises EnvError if it was made without the render mode rgb_array."""
        return self._areas[area].render()

    def state_dict(self) -> dict[str, Tensor]:
        """Returns an empty state: a PettingZoo environment cannot be saved."""
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Raises EnvError for any state but the empty one."""
        if state:
            raise EnvError(
                f"{self.name} cannot be restored from a saved state (it has none; this one has {', '.join(state)})"
            )

    def close(self) -> None:
        """Closes every environment. Closes all areas, then raises the first error."""
        close_all([partial(area.guarded, "close", area.env.close) for area in self._areas])

    def _spaces(self, agent: Hashable) -> Spaces:
        area = self._areas[0]
        for env in self._envs:  # an agent that appears later may be known only where it appeared
            if agent in (getattr(env, "possible_agents", None) or env.agents):
                area = self._areas[self._envs.index(env)]
                break
        return area.space("observation_space", agent), area.space("action_space", agent)

    def _add(self, behavior: str, members: Sequence[Member]) -> None:
        observation, action = self._spaces(self._roster.kinds[behavior])
        where = f"{self.name}, behavior '{behavior}'"
        spaces = AgentSpaces(observation, action, where, self._conventions, self._state_space)
        self._tables[behavior] = table = AgentTable(behavior, spaces, self._roster, members)
        self._specs[behavior] = table.spaces.spec
        for area in self._areas:
            area.mask_method = area.mask_method or spaces.mask_method(area.env)

    def _steps(self, ticks: Sequence[AreaTick]) -> dict[str, TimeStep]:
        ended = self._by_behavior([tick.ended for tick in ticks])
        asking = self._by_behavior([tick.asking for tick in ticks])
        return {name: table.tick(ended.get(name, ()), asking.get(name, ())) for name, table in self._tables.items()}

    def _by_behavior(self, views: Sequence[Sequence[AgentView]]) -> dict[str, list[tuple[int, AgentView]]]:
        found: dict[str, list[tuple[int, AgentView]]] = {}
        for area, of_area in enumerate(views):
            for view in of_area:
                behavior = self._roster[view.agent].behavior
                if behavior not in self._tables:
                    self._add(behavior, ())
                found.setdefault(behavior, []).append((area, view))
        return found


def _state_wanted(options: Mapping[str, Any], name: str) -> bool:
    """Whether agents are to observe the environment's state. Raises EnvError for anything but true and false."""
    if not isinstance(wanted := options.get(STATE, False), bool):
        raise EnvError(f"{name}: env_options.state is {wanted!r}; expected true or false")
    return wanted


def _metadata(env: ParallelEnv | AECEnv, name: str) -> Mapping[str, Any]:
    """Returns an environment's metadata, {} for anything but a dictionary. Raises EnvError if they cannot be read."""
    try:
        given: Any = getattr(env, "metadata", None)
    except Exception as error:  # a property may raise anything
        raise EnvError(f"{name}: `metadata` cannot be read: {exception_summary(error)}") from error
    return given if isinstance(given, Mapping) else {}


def _opposed(env: ParallelEnv | AECEnv) -> bool:
    """Whether each agent is a team by default, as in games in which players take turns."""
    if not isinstance(env, AECEnv):
        return False
    metadata = _metadata(env, type(env).__name__)
    return (
        bool(metadata)
        and not metadata.get("is_parallelizable", True)
        and not str(metadata.get("name", "")).startswith(COOPERATIVE)
    )
