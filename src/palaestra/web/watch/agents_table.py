"""Table of the agents of an environment that draws nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nicegui import ui

from palaestra.core.timestep import Action
from palaestra.runtime.playback.cameras import has_cameras
from palaestra.runtime.playback.played_env import PlayedEnv
from palaestra.runtime.playback.playing import Playback
from palaestra.web.layout import marked, quiet, table_column

MOST = 64
"""Most agents in the table."""
NUMBERS = 6
"""Most numbers of an action that are shown."""
COLUMNS = [
    table_column("agent", "Agent", "left", sortable=False),
    table_column("team", "Team", sortable=False),
    table_column("ticks", "Ticks", sortable=False),
    table_column("reward", "Reward so far", sortable=False),
    table_column("last", "Last reward", sortable=False),
    table_column("action", "Last action", "left", sortable=False),
]


class AgentsTable:
    """The first agents in play, if there is neither a scene nor a picture; a click on a row chooses its agent."""

    def __init__(self, playback: Playback, choose: Callable[[str, int], object]) -> None:
        self._playback = playback
        with ui.column().classes("w-full gap-2") as self.whole:
            self._why = quiet("This environment draws nothing here: this is what its agents do.")
            table = ui.table(columns=COLUMNS, rows=[], row_key="key")
            marked(table, "agents", "w-full", "dense flat hide-pagination")
            table.props["pagination"] = {"rowsPerPage": 0}
            table.on(
                "rowClick",
                lambda event: choose(event.args["behavior"], event.args["slot"]),
                js_handler="(_, row) => emit(row)",
            )
        self._table = table
        self.whole.set_visibility(False)

    @property
    def is_needed(self) -> bool:
        """Whether the environment has been opened and the page can show neither a scene nor pictures of it."""
        game = self._playback.game
        display = self._playback.display
        return game is not None and game.tick > 0 and display.drawing() is None and not display.draws

    def refresh(self) -> None:
        """Updates the rows."""
        game = self._playback.game
        if game is None:
            return
        if has_cameras(game.env.behaviors):
            self._why.set_text("Nothing is drawn here: above is what its agents see, and here is what they do.")
        self._table.rows = agent_rows(game)
        self._table.update()


def agent_rows(game: PlayedEnv) -> list[dict[str, Any]]:
    """Returns a row for each of the first agents in play."""
    rows: list[dict[str, Any]] = []
    returns = game.tally.returns
    lengths = game.tally.lengths
    for name, step in game.steps.items():
        for slot in agents_in_play(game, name)[: MOST - len(rows)]:
            number = agent_number(game, name, slot)
            rows.append(
                {
                    "key": f"{name}#{number}",
                    "behavior": name,
                    "slot": slot,
                    "agent": f"{name}, agent {number}",
                    "team": int(step.team[slot]),
                    "ticks": int(lengths[name][slot]) if name in lengths else 0,
                    "reward": f"{float(returns[name][slot]) if name in returns else 0.0:.3f}",
                    "last": f"{float(step.reward[slot]):.3f}",
                    "action": action_text(game.actions.get(name), slot),
                }
            )
    return rows


def agents_in_play(game: PlayedEnv, behavior: str) -> list[int]:
    """Returns the slots that have an agent, if agents come and go; else the slots that act on this tick."""
    step = game.steps[behavior]
    if game.slots is None:
        return step.acting.nonzero().squeeze(1).tolist()
    slots: list[int] = game.slots.present(behavior, len(step.acting)).nonzero()[0].tolist()
    return sorted(slots, key=lambda slot: agent_number(game, behavior, slot))


def agent_number(game: PlayedEnv, behavior: str, slot: int) -> int:
    """Returns the number of an agent, which stays the same if agents change their slots."""
    return slot if game.slots is None else game.slots.number(behavior, slot)


def action_text(action: Action | None, slot: int) -> str:
    """Returns an agent's action in a few numbers; empty before its first action."""
    if action is None or slot >= max(len(action.continuous), len(action.discrete)):
        return ""
    numbers = [f"{value:+.2f}" for value in action.continuous[slot].tolist()] if action.continuous.numel() else []
    numbers += [str(choice) for choice in action.discrete[slot].tolist()] if action.discrete.numel() else []
    return "  ".join(numbers[:NUMBERS]) + (" ..." if len(numbers) > NUMBERS else "")
