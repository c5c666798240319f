"""The game of the fuzz test: everything that agents of a Unity game may do to a trainer, out of one seed, with its
ledger.
"""

from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
from unity_client import actions, brain, entities, header, info, old_actions, vector
from unity_games import Game, Wrong

InfoAndInput = tuple[Any, float | None]  # an agent's info, and its x (see Crowd) where it asks


@dataclass(frozen=True)
class Kind:
    """A behavior key of the crowd."""

    key: str
    continuous: int = 0
    branches: tuple[int, ...] = ()
    goal: bool = False
    entities: bool = False
    groups: bool = False
    legacy: bool = False
    from_message: float = 0.0  # share of the messages before it appears

    def see(self, first: float, random: Random) -> list[Any]:
        """Observations, of which the first begins with `first`."""
        made = [vector([first, random.uniform(-1, 1), 1.0], "a")]
        if self.goal:
            made.append(vector([0.0, 1.0], "goal", goal=True))
        if self.entities:
            seen = random.randint(0, 3)
            made.append(
                entities([[random.uniform(-1, 1), 1.0] if i < seen else [0.0, 0.0] for i in range(3)], "others")
            )
        return made


KINDS = (
    Kind("Walker?team=0", continuous=2),
    Kind("Chooser?team=0", branches=(3, 2), goal=True),
    Kind("Duel?team=0", continuous=1, branches=(4,), groups=True),
    Kind("Duel?team=1", continuous=1, branches=(4,), groups=True),
    Kind("Late?team=0", continuous=1, entities=True, from_message=0.2),
    Kind("Old?team=3", branches=(2, 3), legacy=True, from_message=0.4),
)


@dataclass
class Habits:
    """How probable each thing is, for every agent (or as noted) in every message."""

    end: float = 0.1
    truncated: float = 0.5  # of the ends
    ask_at_once: float = 0.5  # of the ends: asks again in the same message
    twice: float = 0.05  # of the ends: ends a second time in the same message
    leave: float = 0.2  # of the ends: its id is free for others
    change: float = 0.2  # of the ends: goes on, with its id, in another behavior
    vanish: float = 0.0005  # without an end; its id never comes back
    skip: float = 0.2  # says nothing this time
    reuse: float = 0.5  # of new agents: take an id that is free
    join: float = 0.3  # a message: somebody new
    stranger: float = 0.05  # a message: an end of an agent never seen
    nobody: float = 0.05  # a message: without agents
    mask: float = 0.5  # of the asking, where there is something to mask


@dataclass
class _Agent:
    id: int
    kind: Kind
    group: int


class Crowd(Game):
    """At most `agents` agents at a time come, end, leave, change and vanish through `messages` messages; then the game
    is over.

    Raises Wrong where an answer does not fit what was asked. `echo`: and where the trainer's actions are not, for every
    agent, made of its own first observation's first number x: the first continuous action x, the first branch round(64
    |x|) modulo its size.
    `masks_bind`: and where a forbidden choice was made. Rewards are multiples of 1/8, so that sums of them are exact in
    float32 up to two million.
    """

    def __init__(
        self,
        seed: int = 0,
        messages: int = 200,
        agents: int = 16,
        habits: Habits | None = None,
        echo: bool = False,
        masks_bind: bool = False,
        **talk: Any,
    ) -> None:
        super().__init__(**talk)
        self.random = Random(seed)
        self.messages = messages
        self.most = agents
        self.habits = habits or Habits()
        self.echo = echo
        self.masks_bind = masks_bind
        self.brains = {kind.key: brain(kind.key, kind.continuous, kind.branches, kind.legacy) for kind in KINDS}
        self.agents: list[_Agent] = []
        self._free: list[int] = []
        self._last_id = 0
        self._told = 0
        self._asked: dict[
            str, list[tuple[float, list[bool]]]
        ] = {}  # by key, in order: the number x of each that asked, and its mask

    def reset(self) -> Any:
        """Whoever lives goes on with a new episode."""
        return self._tell()

    def step(self, reply: Any) -> Any:
        self._check(reply)
        return self._tell() if self._told < self.messages else None

    def _tell(self) -> Any:
        self._told += 1
        self._asked = {}
        if self._happens(self.habits.nobody):
            return self._nobody()
        if not self.agents or self._happens(self.habits.join):
            self._join()
        sent: list[tuple[str, list[InfoAndInput]]] = []  # under a key, of one agent, in order
        for agent in list(self.agents):
            sent += self._turn(agent)
        if self._happens(self.habits.stranger):
            kind = self.random.choice(self._kinds())
            sent.append((kind.key, [self._end(_Agent(self._fresh(), kind, 0))]))
        self.random.shuffle(sent)
        infos: dict[str, list[Any]] = {}
        for key, some in sent:
            for one, x in some:
                infos.setdefault(key, []).append(one)
                if x is not None:
                    self._asked.setdefault(key, []).append((x, list(one.action_mask)))
        return self.say(infos, self.brains)

    def _nobody(self) -> Any:
        """A message without agents: a header alone, a key with none, or no key."""
        if self._happens(0.3):
            self.expected.sent({})
            return header()
        return self.say({KINDS[0].key: []} if self._happens(0.5) else {}, self.brains)

    def _turn(self, agent: _Agent) -> list[tuple[str, list[InfoAndInput]]]:
        habits = self.habits
        if self._happens(habits.vanish):
            self.agents.remove(agent)
            return []
        if self._happens(habits.skip):
            return []
        if not self._happens(habits.end):
            return [(agent.kind.key, [self._ask(agent)])]
        before = agent.kind.key
        ends = [self._end(agent) for _ in range(2 if self._happens(habits.twice) else 1)]
        if self._happens(habits.leave):
            self.agents.remove(agent)
            self._free.append(agent.id)
            return [(before, ends)]
        if self._happens(habits.change):
            self._change(agent)
        if not self._happens(habits.ask_at_once):
            return [(before, ends)]
        if agent.kind.key == before:
            return [(before, [*ends, self._ask(agent)])]
        return [(before, ends), (agent.kind.key, [self._ask(agent)])]

    def _ask(self, agent: _Agent) -> InfoAndInput:
        x = self.random.randint(-64, 64) / 64
        mask = self._mask(agent.kind) if agent.kind.branches and self._happens(self.habits.mask) else None
        reward, group_reward = self._rewards(agent)
        return info(
            agent.id, agent.kind.see(x, self.random), reward, mask=mask, group=agent.group, group_reward=group_reward
        ), x

    def _end(self, agent: _Agent) -> InfoAndInput:
        truncated = self._happens(self.habits.truncated)
        reward, group_reward = self._rewards(agent)
        seen = agent.kind.see(self.random.randint(-64, 64) / 64, self.random)
        return info(
            agent.id, seen, reward, done=True, truncated=truncated, group=agent.group, group_reward=group_reward
        ), None

    def _rewards(self, agent: _Agent) -> tuple[float, float]:
        return self.random.randint(-8, 8) / 8, self.random.randint(-8, 8) / 8 if agent.group else 0.0

    def _mask(self, kind: Kind) -> list[bool]:
        """Leaves at least one choice of every branch."""
        mask: list[bool] = []
        for size in kind.branches:
            branch = [self._happens(0.4) for _ in range(size)]
            branch[self.random.randrange(size)] = False
            mask += branch
        return mask

    def _join(self) -> None:
        if len(self.agents) >= self.most:
            return
        kind = self.random.choice(self._kinds())
        known = self._free and self._happens(self.habits.reuse)
        id = self._free.pop(self.random.randrange(len(self._free))) if known else self._fresh()
        self.agents.append(_Agent(id, kind, self._group(kind)))

    def _change(self, agent: _Agent) -> None:
        agent.kind = self.random.choice(self._kinds())
        agent.group = self._group(agent.kind)

    def _group(self, kind: Kind) -> int:
        """None, or one of two of its team."""
        group = self.random.choice((0, 1, 2)) if kind.groups else 0
        return group and group + 2 * KINDS.index(kind)

    def _kinds(self) -> list[Kind]:
        return [kind for kind in KINDS if self._told > kind.from_message * self.messages]

    def _fresh(self) -> int:
        self._last_id += self.random.randint(1, 5)
        return self._last_id

    def _happens(self, probability: float) -> bool:
        return self.random.random() < probability

    def _check(self, reply: Any) -> None:
        strangers = [
            key
            for key, list_ in reply.unity_input.rl_input.agent_actions.items()
            if list_.value and key not in self._asked
        ]
        if strangers:
            raise Wrong(f"message {self._told}: actions for {strangers}, of whom nobody asked")
        for kind in KINDS:
            if asked := self._asked.get(kind.key):
                self._check_kind(kind, asked, *self._taken(reply, kind))

    def _taken(self, reply: Any, kind: Kind) -> tuple[np.ndarray, np.ndarray]:
        continuous, discrete = actions(reply, kind.key)
        old = old_actions(reply, kind.key)
        if (
            old.shape != (len(continuous), continuous.shape[1] + discrete.shape[1])
            or (old != np.hstack([continuous, discrete])).any()
        ):
            raise Wrong(
                f"message {self._told}: {kind.key}: the deprecated actions are not the continuous ones, then the "
                "discrete ones"
            )
        return continuous, discrete

    def _check_kind(
        self, kind: Kind, asked: list[tuple[float, list[bool]]], continuous: np.ndarray, discrete: np.ndarray
    ) -> None:
        where = f"message {self._told}: {kind.key}"
        if continuous.shape != (len(asked), kind.continuous) or discrete.shape != (len(asked), len(kind.branches)):
            raise Wrong(f"{where}: {len(asked)} asked and got continuous {continuous.shape}, discrete {discrete.shape}")
        if not np.isfinite(continuous).all():
            raise Wrong(f"{where}: continuous actions that are not finite")
        if (discrete < 0).any() or (discrete >= np.array(kind.branches)).any():
            raise Wrong(f"{where}: choices outside the branches {kind.branches}: {discrete.tolist()}")
        for row, (x, mask) in enumerate(asked):
            starts = np.cumsum((0, *kind.branches[:-1]))[: len(kind.branches)]
            if (
                self.masks_bind
                and mask
                and any(mask[start + choice] for start, choice in zip(starts, discrete[row], strict=True))
            ):
                raise Wrong(f"{where}: agent {row} of the message took {discrete[row].tolist()}, forbidden by {mask}")
            if self.echo and kind.continuous and continuous[row, 0] != x:
                raise Wrong(f"{where}: agent {row} of the message saw {x} and got {continuous[row, 0]}")
            if self.echo and kind.branches and discrete[row, 0] != round(64 * abs(x)) % kind.branches[0]:
                raise Wrong(f"{where}: agent {row} of the message saw {x} and got choice {discrete[row, 0]}")
