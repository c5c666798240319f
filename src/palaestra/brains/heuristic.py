"""Brain `heuristic`: the environment's own rule."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from palaestra.brains.base import Choice, Role, Seen
from palaestra.core.errors import EnvError, PolicyError
from palaestra.envs.wrapper import EnvWrapper


class RuleBrain:
    """Plays the environment's own rule (`EnvWrapper.heuristic`)."""

    def __init__(self, role: Role) -> None:
        if role.argument:
            raise PolicyError(f"behavior '{role.behavior}': 'heuristic' takes no argument; got '{role.argument}'")
        self._env = EnvWrapper.of(role.env)
        self._behavior = role.behavior

    def begin(self, slots: NDArray[np.int64]) -> None:
        """Does nothing: the rule depends on the state only."""

    def decide(self, seen: Seen) -> Choice:
        """Returns the rule's actions for these agents. Raises EnvError if the environment has no rule for them."""
        action = self._env.heuristic(self._behavior, seen.slots)
        if action is None:
            raise EnvError(_advice(self._env, self._behavior))
        return Choice(action.continuous.cpu().numpy()[seen.slots], action.discrete.cpu().numpy()[seen.slots])


def _advice(env: EnvWrapper, behavior: str) -> str:
    known = [name for name in env.behaviors if env.heuristic(name) is not None]
    instead = "use model:FILE.onnx, random or python:module:function"
    if known:
        return f"the environment has no heuristic for behavior '{behavior}', only for {', '.join(known)}; {instead}"
    if env.traits.real_time:
        return (
            f"behavior '{behavior}': a Unity game does not share its heuristics (an agent uses its own heuristic if "
            "its Behavior Type is 'Heuristic Only', and then asks no trainer; a game in Python is asked if it plays in "
            f"process: python:module:game); {instead}"
        )
    return f"behavior '{behavior}': the environment has no heuristic, a rule of its own; {instead}"
