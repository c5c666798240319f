"""Two ways to end a run early: `stop_when`, and callbacks of the program that trains."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from palaestra.core.errors import STOPS, CallbackError, exception_summary
from palaestra.runtime.collect.learner import Learner
from palaestra.runtime.control.goals import Course, Goals
from palaestra.runtime.control.stopping import StopAtReward
from palaestra.runtime.logging.tracker import Summary
from palaestra.runtime.parts.part import RunPart
from palaestra.runtime.parts.run_context import RunContext


class StopWhen(RunPart):
    """Ends a run once all its behaviors are good enough or no longer improve, according to their `stop_when`."""

    name = "stop_when"

    def __init__(
        self, context: RunContext, still_training: Callable[[], Iterable[str]], lessons_are_over: Callable[[], bool]
    ) -> None:
        """`still_training`: behaviors below max_steps. `lessons_are_over`: every curriculum is in its last lesson."""
        self.goals = Goals(context.console.warning)
        self._context = context
        self._still_training = still_training
        self._lessons_are_over = lessons_are_over

    @property
    def idle(self) -> bool:
        """Whether no behavior has a goal."""
        return not any(learner.settings.stop_when for learner in self._context.learners.values())

    def summarized(self, learner: Learner, summary: Summary) -> None:
        """Records whether a behavior needs no more training."""
        wanted = learner.settings.stop_when if learner.training else None
        ended = self.goals.note(summary, wanted, last_lesson=self._lessons_are_over())
        if ended is not None:
            self._context.console.info(f"'{learner.name}' needs no more training ({ended.ending}): {ended.reason}")
            self._context.status.set_ending(learner.name, ended.ending, ended.reason)

    def started(self) -> None:
        """Forgets the reasons of behaviors that had ended and now train again."""
        self._context.status.forget_endings(name for name in self._context.learners if not self.goals.met(name))

    def lesson_began(self) -> None:
        """Forgets earlier measurements."""
        self._context.status.forget_endings(self.goals.begin_lesson(self._context.learners))

    def endings(self) -> Mapping[str, Course]:
        """Returns the behaviors that need no more training; empty while others still train."""
        if any(not self.goals.met(name) for name in self._still_training()):
            return {}
        return {name: course for name, course in self.goals.courses.items() if course.ending}

    def report(self) -> Iterator[tuple[str, str]]:
        """Yields the behaviors that had too few episodes to end by their `stop_when`."""
        learners = self._context.learners
        for name, learner in learners.items():
            wanted, course = learner.settings.stop_when, self.goals.courses.get(name)
            if wanted is not None and course is not None and (sentence := course.lacking(wanted)):
                yield "note", sentence if len(learners) == 1 else f"{name}: {sentence}"

    def state_dict(self) -> Mapping[str, Any]:
        """Returns measurements, except of behaviors that end the run, because a resumed run checks them again."""
        return self.goals.state_dict(ended=bool(self.endings()))

    def load_state_dict(self, state: Mapping[str, Any], *, restored: bool) -> None:
        """Restores the courses."""
        self.goals.load_state_dict(state)


Callback = Callable[[Summary], object]
"""Called with every summary; a callback that returns True ends the run, saved."""


class Callbacks(RunPart):
    """Calls the callbacks on rank 0; a callback that stops rank 0 stops all ranks."""

    def __init__(self, callbacks: Sequence[Callback], stop: Callable[[], object]) -> None:
        self._callbacks = callbacks
        self._stop = stop

    @property
    def idle(self) -> bool:
        """Whether there are none."""
        return not self._callbacks

    def summarized(self, learner: Learner, summary: Summary) -> None:
        """Calls the callbacks until one returns True (Python's or NumPy's)."""
        if any(type(done) in (bool, np.bool_) and done for done in (called(one, summary) for one in self._callbacks)):
            self._stop()

    def report(self) -> Iterator[tuple[str, str]]:
        """Yields a sentence for each `stop_at_reward` that had too few episodes."""
        for callback in self._callbacks:
            if isinstance(callback, StopAtReward) and (sentence := callback.lacking()):
                yield "note", sentence


def called(callback: Callback, summary: Summary) -> object:
    """Calls a callback. Raises CallbackError for any exception of a callback."""
    try:
        return callback(summary)
    except STOPS:
        raise
    except Exception as error:
        name = getattr(callback, "__name__", type(callback).__name__)
        raise CallbackError(f"the callback {name} raised {exception_summary(error)}") from error
