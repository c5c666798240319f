"""Checks a brain's actions before they reach an environment; exceptions of a brain become PolicyErrors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from palaestra.brains.base import Brain, Choice, Seen
from palaestra.brains.trained import ModelBrain
from palaestra.core.errors import PalaestraError, PolicyError, exception_summary
from palaestra.core.specs import BehaviorSpec


class CheckedBrain:
    """Checks another brain, which may lack `begin`."""

    def __init__(self, brain: Brain, name: str, behavior: str, spec: BehaviorSpec) -> None:
        """Wraps `brain`; `name` is its name on the command line."""
        self.brain = brain
        self._action = spec.action
        self._where = f"behavior '{behavior}', brain {name}"

    @property
    def memory(self) -> NDArray[np.float32]:
        """The model's memory of each slot, (S, L); None for brains without a model."""
        return self.brain.memory if isinstance(self.brain, ModelBrain) else np.zeros((0, 0), np.float32)

    @memory.setter
    def memory(self, memory: NDArray[np.float32]) -> None:
        if isinstance(self.brain, ModelBrain):
            self.brain.memory = memory

    @property
    def rng(self) -> np.random.Generator | None:
        """Random generator of the brain, if its `rng` is a NumPy generator; else None."""
        rng = getattr(self.brain, "rng", None)
        return rng if isinstance(rng, np.random.Generator) and isinstance(rng.bit_generator, np.random.PCG64) else None

    def begin(self, slots: NDArray[np.int64]) -> None:
        """Begins new episodes in these slots."""
        begin = getattr(self.brain, "begin", None)
        if begin is not None:
            try:
                begin(slots)
            except PalaestraError:
                raise
            except (Exception, SystemExit) as error:  # a user's brain may raise anything
                raise PolicyError(f"{self._where} raised an error in begin: {exception_summary(error)}") from error

    def decide(self, seen: Seen) -> Choice:
        """Returns the brain's own actions. Raises PolicyError for invalid actions, naming the agent's slot."""
        try:
            choice = self.brain.decide(seen)
        except PalaestraError:
            raise
        except (Exception, SystemExit) as error:  # a user's brain may raise anything
            raise PolicyError(f"{self._where} raised an error: {exception_summary(error)}") from error
        if not isinstance(choice, Choice):
            raise PolicyError(f"{self._where} returned an instance of {type(choice).__name__}; expected a Choice")
        return Choice(self._numbers(choice.continuous, seen), self._choices(choice.discrete, seen))

    def _numbers(self, given: NDArray[np.float32], seen: Seen) -> NDArray[np.float32]:
        self._fits(given, (len(seen.slots), self._action.continuous), "continuous actions")
        try:
            numbers = np.asarray(given, np.float32)
        except (TypeError, ValueError) as error:
            raise PolicyError(f"{self._where}: its continuous actions are no numbers: {error}") from error
        wrong = np.argwhere(~(np.abs(numbers) <= 1))  # NaN is outside too
        if len(wrong):
            row, i = wrong[0].tolist()
            raise PolicyError(
                f"{self._where}: continuous action {i} of slot {seen.slots[row]} is {numbers[row, i]}; expected -1 to 1"
            )
        return numbers

    def _choices(self, given: NDArray[np.int64], seen: Seen) -> NDArray[np.int64]:
        branches = self._action.branches
        self._fits(given, (len(seen.slots), len(branches)), "discrete actions")
        choices = np.asarray(given)
        if choices.dtype.kind not in "iub" and choices.size:
            raise PolicyError(
                f"{self._where}: its discrete actions are of type {choices.dtype}; expected whole numbers"
            )
        wrong = np.argwhere((choices < 0) | (choices >= np.array(branches, np.int64)))
        if len(wrong):
            row, branch = wrong[0].tolist()
            raise PolicyError(
                f"{self._where}: slot {seen.slots[row]} chose {choices[row, branch]} in branch {branch}; "
                f"expected 0 to {branches[branch] - 1}"
            )
        if seen.mask is not None and choices.size:
            self._allowed(choices, seen, seen.mask)
        return choices.astype(np.int64)

    def _allowed(self, choices: NDArray[np.int64], seen: Seen, mask: NDArray[np.bool_]) -> None:
        starts = np.cumsum((0, *self._action.branches[:-1]))
        wrong = np.argwhere(~np.take_along_axis(mask, choices + starts, 1))
        if len(wrong):
            row, branch = wrong[0].tolist()
            start = starts[branch]
            size = self._action.branches[branch]
            allowed = np.flatnonzero(mask[row, start : start + size]).tolist()
            chosen = f"slot {seen.slots[row]} chose {choices[row, branch]} in branch {branch}"
            raise PolicyError(f"{self._where}: {chosen}, which is masked; allowed: {allowed}")

    def _fits(self, given: Any, shape: tuple[int, int], what: str) -> None:
        if np.shape(given) != shape:
            raise PolicyError(
                f"{self._where}: its {what} have shape {np.shape(given)}; expected {shape}, a row an agent"
            )


def unseen(brain: object, spec: BehaviorSpec) -> frozenset[str]:
    """Returns the names of the observations that a model does not see, such as those for its critic alone."""
    model = brain.brain if isinstance(brain, CheckedBrain) else brain
    names = {obs.name for obs in spec.obs}
    seen = {*model.policy.observations} if isinstance(model, ModelBrain) else names
    return frozenset(names - seen if seen < names else ())
