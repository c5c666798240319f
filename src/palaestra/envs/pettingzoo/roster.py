"""Assigns the agents of a PettingZoo environment to behaviors, teams and groups."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from gymnasium import spaces

from palaestra.core.errors import EnvError
from palaestra.core.plugins import nearest

NO_GROUP = -1
_NUMBER = re.compile(r"[_\-\s]?\d+$")

Spaces = tuple[spaces.Space, spaces.Space]


@dataclass(frozen=True, slots=True)
class AgentRole:
    """Behavior, team and group of an agent."""

    behavior: str
    team: int
    group: int  # within its area; -1: on its own


class Roster:
    """The role of each agent.

    Agents whose names differ only in a number at the end, and whose spaces are equal, share a behavior with the common
    part as its name. If the spaces of such agents differ, each kind of agent is named after its first agent.
    """

    def __init__(
        self,
        agents: Sequence[Hashable],
        spaces_of: Callable[[Hashable], Spaces],
        options: Mapping[str, Any],
        *,
        in_turns: bool,
        name: str,
        complete: bool = True,
    ) -> None:
        """`options`: those of `MAPPINGS`. `in_turns`: agents take turns, as in board games, so each agent is a team.

        `name` is for messages. `complete`: no other agents appear later. Raises EnvError for options that fit no agent.
        """
        self._name = name
        self._spaces_of = spaces_of
        self._patterns = {key: _mapping(options.get(key), key, name) for key in ("behaviors", "teams", "groups")}
        self.shares_rewards = options.get("shared_reward", False)
        """Whether the group's reward is the mean reward of its members."""
        if not isinstance(self.shares_rewards, bool):
            raise EnvError(f"{name}: env_options.shared_reward is {self.shares_rewards!r}; expected true or false")
        self._in_turns = in_turns and not (self.shares_rewards and not self._patterns["teams"])
        self._groups: dict[object, int] = {}
        self._roles: dict[Hashable, AgentRole] = {}
        self.kinds: dict[str, Hashable] = {}
        """For each behavior, an agent whose spaces are the behavior's spaces."""
        self._bases: dict[str, list[str]] = {}
        names = self._default_names(agents)
        if complete:
            self._check(agents, names)
        for agent in agents:
            self._add(agent, names[agent])

    def __getitem__(self, agent: Hashable) -> AgentRole:
        """Returns an agent's role; a new agent joins a behavior of its kind, or begins a new behavior."""
        if agent not in self._roles:
            self._add(agent, self._default_name(agent))
        return self._roles[agent]

    @property
    def num_groups(self) -> int:
        """Number of groups of an area."""
        return len(self._groups)

    def group_of(self, agent: Hashable) -> int:
        """Returns an agent's group, -1 without one."""
        return self[agent].group

    @property
    def opponents(self) -> list[str]:
        """Behaviors that can learn by self-play: all, if the agents are in several teams."""
        return list(self.kinds) if len({role.team for role in self._roles.values()}) > 1 else []

    def lines(self) -> list[str]:
        """Describes each agent's behavior, team and group, and options to change them."""
        lines = []
        for behavior in self.kinds:
            agents = [agent for agent, role in self._roles.items() if role.behavior == behavior]
            teams = sorted({self._roles[agent].team for agent in agents})
            groups = sorted({self._roles[agent].group for agent in agents} - {NO_GROUP})
            of_team = f" (team{'s' if len(teams) > 1 else ''} {', '.join(map(str, teams))})" if teams != [0] else ""
            of_group = f" (group{'s' if len(groups) > 1 else ''} {', '.join(map(str, groups))})" if groups else ""
            lines.append(f"behavior '{behavior}': {_listed(agents)}{of_team}{of_group}")
        if not self._patterns["behaviors"] and (alike := self._alike()):
            lines.append(
                f"{_listed(alike)} have equal spaces but different names; to let them share a behavior, set "
                f"env_settings.env_options.behaviors, such as {{{alike[0]}: {alike[0]}, {alike[1]}: {alike[0]}}}"
            )
        return lines

    def _alike(self) -> list[str]:
        """Returns behaviors of equal spaces, and of the same teams where the user named these."""
        for name, agent in self.kinds.items():
            alike = [
                one
                for one, other in self.kinds.items()
                if self._spaces_of(other) == self._spaces_of(agent)
                and (not self._patterns["teams"] or self._teams(one) == self._teams(name))
            ]
            if len(alike) > 1:
                return alike if name == alike[0] else []
        return []

    def _teams(self, behavior: str) -> set[int]:
        return {role.team for role in self._roles.values() if role.behavior == behavior}

    def _default_names(self, agents: Sequence[Hashable]) -> dict[Hashable, str]:
        bases: dict[str, list[list[Hashable]]] = {}
        for agent in agents:
            kinds = bases.setdefault(_base(agent), [])
            kind = next((one for one in kinds if self._spaces_of(one[0]) == self._spaces_of(agent)), None)
            if kind is None:
                kinds.append([agent])
            else:
                kind.append(agent)
        return {
            agent: base if len(kinds) == 1 else str(kind[0])
            for base, kinds in bases.items()
            for kind in kinds
            for agent in kind
        }

    def _default_name(self, agent: Hashable) -> str:
        """Returns the behavior of an agent that was not there at first."""
        base = _base(agent)
        its_spaces = self._spaces_of(agent)
        for name, other in self.kinds.items():
            if _base(other) == base and self._spaces_of(other) == its_spaces:
                return name
        return base if base not in self.kinds else str(agent)

    def _add(self, agent: Hashable, default: str) -> None:
        behavior = self._chosen("behaviors", agent, default, default)
        if not isinstance(behavior, str) or not behavior:
            raise EnvError(
                f"{self._name}: the behavior of agent '{agent}' is {behavior!r}; expected a name "
                "(env_options.behaviors)"
            )
        if behavior in self.kinds:
            self._must_fit(agent, behavior)
        self.kinds.setdefault(behavior, agent)
        team = self._chosen("teams", agent, behavior, len(self._roles) if self._in_turns else 0)
        if isinstance(team, bool) or not isinstance(team, int) or team < 0:
            raise EnvError(
                f"{self._name}: the team of agent '{agent}' is {team!r}; expected a whole number of at least 0 "
                "(env_options.teams)"
            )
        group = self._chosen(
            "groups", agent, behavior, ("team", team) if self.shares_rewards and not self._patterns["groups"] else None
        )
        if not isinstance(group, Hashable):
            raise EnvError(
                f"{self._name}: the group of agent '{agent}' is {group!r}; expected a name or number "
                "(env_options.groups)"
            )
        number = NO_GROUP if group is None else self._groups.setdefault(group, len(self._groups))
        self._roles[agent] = AgentRole(behavior, team, number)

    def _must_fit(self, agent: Hashable, behavior: str) -> None:
        first = self.kinds[behavior]
        for what, one, other in zip(
            ("observations", "actions"), self._spaces_of(first), self._spaces_of(agent), strict=True
        ):
            if one != other:
                raise EnvError(
                    f"{self._name}: agents '{first}' and '{agent}' cannot share behavior '{behavior}', because their "
                    f"{what} differ: {one} and {other}; a wrapper such as SuperSuit's pad_observations_v0 makes them "
                    "equal"
                )

    def _chosen(self, key: str, agent: Hashable, behavior: str, default: Any) -> Any:
        """Returns an option's value for an agent: by its name, the first pattern that fits, or its behavior's name."""
        patterns = self._patterns[key]
        name = str(agent)
        if name in patterns:
            return patterns[name]
        for pattern, value in patterns.items():
            if fnmatchcase(name, pattern):
                return value
        return patterns.get(behavior, default)

    def _check(self, agents: Sequence[Hashable], names: Mapping[Hashable, str]) -> None:
        """Raises EnvError for a name or pattern in the options that matches no agent."""
        known = list(dict.fromkeys([*map(str, agents), *names.values()]))
        for key, patterns in self._patterns.items():
            own = [str(one) for one in self._patterns["behaviors"].values()] if key != "behaviors" else []
            for pattern in patterns:
                if not any(one == pattern or fnmatchcase(one, pattern) for one in [*known, *own]):
                    raise EnvError(
                        f"{self._name}: env_options.{key} names '{pattern}', which fits no "
                        f"agent{nearest(pattern, known)} (agents: {_listed(agents)}; patterns such as adversary_* "
                        "name several)"
                    )


def _base(agent: Hashable) -> str:
    return _NUMBER.sub("", str(agent)) or "agent"


def _mapping(given: Any, key: str, name: str) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not given:
        raise EnvError(
            f"{name}: env_options.{key} is {given!r}; expected a map from agents to their {key}, such as {{player_*: "
            "0}"
        )
    return {str(pattern): value for pattern, value in given.items()}


def _listed(agents: Sequence[object]) -> str:
    shown = [str(agent) for agent in agents]
    return ", ".join(shown) if len(shown) <= 6 else f"{', '.join(shown[:3])} ... {shown[-1]} ({len(shown)} agents)"
