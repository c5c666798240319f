"""Timeouts of games that do not answer: each phase of a connection has its own limit, cause and advice."""

from __future__ import annotations

import os
from collections.abc import Callable
from enum import Enum
from time import monotonic

from palaestra.envs.copies import Log
from palaestra.envs.unity.options import UnityOptions
from palaestra.envs.unity.process import needs_display

DECISIONS = (
    "give the agent a Decision Requester (or call RequestDecision), see that it is enabled in the first "
    "scene, and that its Behavior Type is Default, not Heuristic Only or Inference Only"
)


FIRST_NOTICE = 20.0
"""Seconds of silence after which the user is notified."""


class Phase(Enum):
    """Phase of a game's connection; for messages, the value says what the run waits for."""

    DOWN = "for it to be started again"
    STARTING = "for it to connect"
    GREETED = "for it to ask for its first command"
    RESET = "for a first message after its reset"
    EMPTY = "for an agent"
    UNDECIDED = "for a decision to be asked for"
    RUNNING = "for the next tick"


PAUSES = (Phase.EMPTY, Phase.UNDECIDED)
"""Phases in which a game answers, but asks for no decision."""

ADVICE = {
    Phase.STARTING: (
        "it runs but has not connected: is it still loading, does a window wait for a click, is its first scene one "
        "with agents and built with com.unity.ml-agents? Its log tells more; --timeout-wait gives it more time"
    ),
    Phase.GREETED: "it connected but never asked for a command: it hangs while its first scene loads; its log tells "
    "more",
    Phase.RESET: f"it connected and was reset, but no agent has asked for a decision: {DECISIONS}",
    Phase.EMPTY: f"it connected and answers, but without any behavior: no agent is enabled in its scene; {DECISIONS}",
    Phase.UNDECIDED: f"its agents end their episodes but none asks for a decision: {DECISIONS}",
    Phase.RUNNING: (
        "it has stopped answering: an endless loop, a dialog that waits for a click, or a very slow tick; its log "
        "tells more, --timeout-wait gives it more time"
    ),
}

EDITOR = {
    Phase.STARTING: "press Play in the Unity Editor",
    Phase.GREETED: "the Editor connected but asks for no command: does an error in its Console stop the scene?",
    Phase.RESET: f"the Editor connected, but no agent has asked for a decision: {DECISIONS}",
    Phase.EMPTY: f"the Editor answers, but without any behavior: no agent is enabled in the scene; {DECISIONS}",
    Phase.UNDECIDED: f"agents end their episodes but none asks for a decision: {DECISIONS}",
    Phase.RUNNING: "the Editor has stopped answering: it is paused, in a breakpoint, or a tick is very slow",
}


def explain(phase: Phase, seconds: float, *, editor: bool, no_display: bool = False) -> str:
    """Returns a sentence that says what the game has not done, and what to do."""
    advice = (EDITOR if editor else ADVICE)[phase]
    if no_display and phase is Phase.STARTING:
        advice += "; there is no display here: add --no-graphics, or run under xvfb-run where cameras are observed"
    return f"waited {seconds:.0f} s {phase.value}: {advice}"


class Silence:
    """Measures how long a game has been silent in each phase, and informs the user."""

    def __init__(self, options: UnityOptions, entered: Callable[[Phase], None], log: Log) -> None:
        """`entered` is called when another phase begins."""
        self._options = options
        self._entered = entered
        self._log = log
        self._editor = options.executable is None
        self.phase = Phase.DOWN
        self._since = monotonic()
        self._answered_at: float | None = None
        """When the request before the next one was answered."""
        self.reminders = 0
        """Number of reminders sent about the current silence."""
        self._notice_after = FIRST_NOTICE
        """Seconds of silence until the user is first notified of it."""
        self._noticed_since = 0.0
        """Start of the silence last reported."""

    def enter(self, phase: Phase) -> None:
        """Begins a phase; its silence is measured from now on."""
        self._since = monotonic()
        if phase is Phase.STARTING:
            self.reminders = 0
        self._change(phase)

    def note(self, phase: Phase) -> None:
        """Records a sign of life of the game; a phase without decisions is reported only if it lasts."""
        if phase is Phase.RUNNING:
            self.reminders = 0
        elif self.phase is Phase.RUNNING:
            self._since = monotonic()
        self._change(phase)

    def _change(self, phase: Phase) -> None:
        if phase is not self.phase:
            self.phase = phase
            self._entered(phase)

    def ends(self, at: float) -> float:
        """Records that a request has arrived. Returns the seconds since the last answer."""
        answered = at if self._answered_at is None else self._answered_at
        self._answered_at = None
        return at - answered

    def begins(self, requested_at: float) -> None:
        """Records that a request is answered; the time for which the game waited for the answer does not count."""
        now = monotonic()
        if self.phase is Phase.RUNNING:
            self._since = now
        else:
            reported = self._noticed_since == self._since
            self._since += now - requested_at
            if reported:  # it is the same silence
                self._noticed_since = self._since
        self._answered_at = now

    def check(self, requested_at: float | None, decided: bool, title: str) -> str:
        """Returns why a game has failed; '' if it has not failed (the user may get a reminder that it is silent).

        `requested_at`: the time of a request that still waits for its answer. `decided`: whether an agent has ever
        requested a decision. `title`: the game's name.
        """
        if self.phase is Phase.DOWN or (requested_at is not None and self.phase is not Phase.UNDECIDED):
            return ""  # the game waits for us; in UNDECIDED that is its normal state
        options = self._options
        timeout = options.wait_for()
        phase, since = self._awaited(min(timeout, FIRST_NOTICE), decided)
        waited = (monotonic() if requested_at is None else requested_at) - since
        explanation = explain(phase, waited, editor=self._editor, no_display=needs_display(options, os.environ))
        reminds = (self._editor and options.timeout_wait is None) or (decided and phase in PAUSES)
        if waited >= timeout * (self.reminders + 1 if reminds else 1):
            if not reminds:
                return explanation
            self.reminders += 1
            self._log("warning", f"{title}: {explanation}")
        elif waited >= self._notice_after and self._noticed_since != since:
            # once for each silence before it is an error, and later each time if slow ticks repeat
            self._noticed_since = since
            self._notice_after *= 2 if phase is Phase.RUNNING else 1
            self._log("info", f"{title}: {explanation}")
        return ""

    def _awaited(self, pause: float, decided: bool) -> tuple[Phase, float]:
        """Returns what is awaited, and since when.

        A game that has played may pause without decisions while it answers; if it does not answer for `pause` seconds,
        it hangs.
        """
        answered = self._answered_at
        if decided and self.phase in PAUSES and answered is not None and monotonic() - answered >= pause:
            return Phase.RUNNING, answered
        return self.phase, self._since
