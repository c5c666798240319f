"""Explanations of timeouts: each phase of a connection has its own cause and advice."""

from __future__ import annotations

from enum import Enum

DECISIONS = (
    "give the agent a Decision Requester (or call RequestDecision), see that it is enabled in the first "
    "scene, and that its Behavior Type is Default, not Heuristic Only or Inference Only"
)


FIRST_NOTICE = 20.0
"""Seconds of silence after which the user is notified."""


class Phase(Enum):
    """Phase of a game's connection; the value says what is awaited, for messages."""

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


def explain(phase: Phase, seconds: float, *, editor: bool, needs_display: bool = False) -> str:
    """Returns a sentence on what is missing and what to do."""
    advice = (EDITOR if editor else ADVICE)[phase]
    if needs_display and phase is Phase.STARTING:
        advice += "; there is no display here: add --no-graphics, or run under xvfb-run where cameras are observed"
    return f"waited {seconds:.0f} s {phase.value}: {advice}"
