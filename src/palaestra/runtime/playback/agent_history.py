"""The last ticks of the agent that a person inspects: to look back at, and for a timeline."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.solids import Drawing
from palaestra.runtime.play.assigned_brains import AgentKey
from palaestra.runtime.playback.agent_slots import Moves
from palaestra.runtime.playback.played_env import PlayedEnv
from palaestra.runtime.playback.playing import Playback

MOST = 1000
"""Ticks that are kept."""
MOST_BYTES = 2**26
"""Bytes of drawings that are kept."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One agent after one tick."""

    tick: int
    obs: tuple[NDArray[np.float32], ...]
    """The agent's observations now, each in the shape of its spec."""
    mask: NDArray[np.bool_] | None
    continuous: NDArray[np.float32]
    """The action before this moment, (continuous,)."""
    discrete: NDArray[np.int64]
    reward: float
    """Reward of the tick, the group's reward included."""
    ended: bool
    """Whether an episode ended on this tick; the observation then belongs to the next episode."""
    drawing: Drawing | None


class History:
    """Keeps the last ticks of one agent of a playback; another agent, or none, clears it."""

    def __init__(self, playback: Playback) -> None:
        self._playback = playback
        self._moments: deque[Moment] = deque(maxlen=MOST)
        self._agent: AgentKey | None = None
        self._watches: PlayedEnv | None = None
        self._bytes = 0

    def follow(self) -> None:
        """Starts to record the playback's game, if the game is open."""
        game = self._playback.game
        if game is not None and game is not self._watches:
            self._watches = game
            game.watchers.append(self._note)
            game.followers.append(self._move)

    @property
    def moments(self) -> Sequence[Moment]:
        """The ticks that are kept, the oldest first."""
        return tuple(self._moments)

    def _move(self, moves: Moves) -> None:
        if self._agent is not None and self._agent in moves:
            self._agent = self._agent[0], moves[self._agent]

    def _note(
        self, before: Mapping[str, TimeStep], actions: Mapping[str, Action], after: Mapping[str, TimeStep]
    ) -> None:
        game = self._watches
        assert game is not None
        if game.looked != self._agent or not before:
            self._agent = game.looked
            self._moments.clear()
            self._bytes = 0
        if self._agent is None or not before:
            return
        behavior, slot = self._agent
        step, action = after.get(behavior), actions.get(behavior)
        if step is None or action is None or slot >= min(len(step.reward), len(action.discrete)):
            return
        drawing = game.env.drawing(np.arange(game.env.num_areas)) if game.env.traits.draws else None
        size = _size(drawing)
        while self._moments and (self._bytes + size > MOST_BYTES or len(self._moments) == MOST):
            self._bytes -= _size(self._moments.popleft().drawing)
        self._bytes += size
        self._moments.append(
            Moment(
                game.tick,
                tuple(column[slot].cpu().numpy().copy() for column in step.obs),
                None if step.action_mask is None else step.action_mask[slot].cpu().numpy().copy(),
                action.continuous[slot].cpu().numpy().copy(),
                action.discrete[slot].cpu().numpy().copy(),
                float(step.reward[slot] + step.group_reward[slot]),
                bool(step.terminated[slot] | step.truncated[slot]),
                drawing,
            )
        )


def _size(drawing: Drawing | None) -> int:
    """Returns the moving data of a drawing as bytes: positions, sizes, rotations and colors."""
    return 0 if drawing is None else sum(4 * one.position.nbytes for one in drawing.solids if not one.fixed)
