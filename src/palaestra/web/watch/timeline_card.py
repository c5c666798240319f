"""The card with the last ticks of an agent: rewards, values, entropy and actions, and a slider to look back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nicegui import run as worker
from nicegui import ui

from palaestra.brains.player_keys import action_names
from palaestra.core.specs import ActionSpec
from palaestra.runtime.play.assigned_brains import AgentKey
from palaestra.runtime.playback.agent_history import History, Moment
from palaestra.runtime.playback.inspection import Sayings
from palaestra.web.dashboard.chart_options import GREY, LINES, PALETTE, TOOLTIP
from palaestra.web.layout import card, icon_button, marked, marked_label, within
from palaestra.web.watch.watched import WatchedPlayback

HEIGHT = 74
"""Pixels of each part of the chart."""
MOST_CHOICES = 12
"""Most choices of a branch, or continuous actions, that are drawn."""


class TimelineCard:
    """Draws an agent's rewards, values and actions since it was chosen; a slider looks back, tick by tick."""

    def __init__(self, watched: WatchedPlayback) -> None:
        self._watched = watched
        self.history = History(watched.playback)
        self._agent: AgentKey | None = None
        self._drawn: object = None
        self._at: int | None = None
        """The past tick that is shown; None: the present."""
        self._busy = False
        with card("Timeline") as self._card:
            with ui.row().classes("w-full items-center gap-1 no-wrap"):
                icon_button("chevron_left", "One tick back", lambda: self._step(-1)).props("data-mark=back")
                self._slider = ui.slider(min=0, max=1, value=1).props("aria-label=Tick data-mark=timeline")
                self._slider.on("update:model-value", lambda event: self._look(event.args), throttle=0.05)
                icon_button("chevron_right", "One tick forward", lambda: self._step(1)).props("data-mark=forward")
                now = ui.button("Now", on_click=self._now).props("flat dense no-caps")
                marked(now, "now")
            self._facts = marked_label("moment", "text-sm")
            self._chart = marked(ui.echart({}), "timeline-chart", "w-full", 'role=img aria-label="Timeline"')
        self._card.visible = False

    @property
    def moment(self) -> Moment | None:
        """The earlier moment that is shown; None: the current state."""
        if self._at is None:
            return None
        return next((one for one in self.history.moments if one.tick == self._at), None)

    async def refresh(self) -> None:
        """Draws what has come."""
        self.history.follow()
        game = self._watched.playback.game
        moments = self.history.moments
        self._card.set_visibility(bool(moments))
        if game is None or game.looked is None or not moments or self._busy:
            return
        if self._at is not None and self.moment is None:
            self._now()
        state = (game.looked, moments[0].tick, moments[-1].tick, self._at)
        if state == self._drawn:
            return
        self._drawn = state
        behavior, _ = game.looked
        self._busy = True
        try:
            said = await worker.io_bound(self._watched.inspector.of_history, behavior, moments)
        finally:
            self._busy = False
        self._slider.props(f"max={len(moments) - 1}")
        if self._at is None:
            self._slider.set_value(len(moments) - 1)
        action = game.env.behaviors[behavior].action
        options = timeline_options(moments, parts_of(moments, said, action, behavior), self._at)
        self._chart.style(f"height: {HEIGHT * len(options['grid']) + 24}px")
        self._chart.options.clear()
        self._chart.options.update(options)
        self._chart.update()
        shown = self.moment or moments[-1]
        self._facts.set_text(
            f"Tick {shown.tick:,}, reward {shown.reward:.3f}" + (", the episode ended" if shown.ended else "")
        )

    def _look(self, sent: object) -> None:
        moments = self.history.moments
        position = within(sent, 0, len(moments) - 1)
        if position is None or not moments:
            return
        self._watched.playback.pause()
        moment = moments[int(position)]
        self._at = moment.tick
        self._watched.playback.display.look_back(moment.drawing)

    def _step(self, by: int) -> None:
        moments = self.history.moments
        if not moments:
            return
        at = next((i for i, one in enumerate(moments) if one.tick == self._at), len(moments) - 1)
        to = min(max(at + by, 0), len(moments) - 1)
        self._slider.set_value(to)
        self._look(to)

    def _now(self) -> None:
        self._at = None
        self._watched.playback.display.look_back(None)
        self._watched.playback.resume()


@dataclass(frozen=True, slots=True)
class TimelinePart:
    """A part of the chart: lines over ticks, or stacked shares."""

    title: str
    lines: Sequence[tuple[str, Sequence[float]]]
    stacked: bool = False


def parts_of(moments: Sequence[Moment], said: Sayings | None, action: ActionSpec, behavior: str) -> list[TimelinePart]:
    """Returns the parts of a timeline; values, probabilities and entropy only if they are known."""
    continuous, branches = action_names(behavior, action)
    parts = [TimelinePart("reward", [("reward", [one.reward for one in moments])])]
    if said is not None:
        parts.append(TimelinePart("value", [("value", said.value.tolist())]))
        for number, (names, table) in enumerate(zip(branches, said.choices, strict=True)):
            title = "probabilities" if len(branches) == 1 else f"probabilities of branch {number}"
            lines = [(name, column.tolist()) for name, column in zip(names, table.T, strict=True)]
            parts.append(TimelinePart(title, lines[:MOST_CHOICES], stacked=True))
    if continuous:
        table = [one.continuous.tolist() for one in moments]
        lines = [(name, [row[i] for row in table]) for i, name in enumerate(continuous)]
        parts.append(TimelinePart("actions", lines[:MOST_CHOICES]))
    if said is not None:
        parts.append(TimelinePart("entropy", [("entropy", said.entropy.tolist())]))
    return parts


def timeline_options(moments: Sequence[Moment], parts: Sequence[TimelinePart], at: int | None) -> dict[str, Any]:
    """Returns a chart over ticks, with parts one below another. Ends of episodes and the tick `at` are marked."""
    ticks = [one.tick for one in moments]
    marks = [{"xAxis": one.tick, "lineStyle": {"color": GREY, "type": "dotted"}} for one in moments if one.ended]
    if at is not None:
        marks.append({"xAxis": at, "lineStyle": {"color": PALETTE[1], "type": "solid", "width": 1.5}})
    marked_ticks = {"symbol": "none", "silent": True, "animation": False, "label": {"show": False}, "data": marks}
    small = {"color": GREY, "fontSize": 10}
    text = {"fontSize": 11, "color": GREY, "fontWeight": "normal"}
    tops = [HEIGHT * place + 20 for place in range(len(parts))]
    last = len(parts) - 1
    span = {"min": ticks[0], "max": max(ticks[-1], ticks[0] + 1)}
    return {
        "animation": False,
        "textStyle": {"color": GREY},
        "axisPointer": {"link": [{"xAxisIndex": "all"}]},
        "tooltip": TOOLTIP,
        "title": [
            {"text": part.title, "left": 38, "top": top - 20, "textStyle": text}
            for part, top in zip(parts, tops, strict=True)
        ],
        "grid": [{"left": 44, "right": 12, "top": top, "height": HEIGHT - 26} for top in tops],
        "xAxis": [
            {
                "type": "value",
                "gridIndex": place,
                **span,
                "axisLabel": {"show": place == last, **small},
                "axisTick": {"show": place == last},
                "axisLine": {"lineStyle": {"color": GREY}},
                "splitLine": {"show": False},
            }
            for place in range(len(parts))
        ],
        "yAxis": [
            {
                "type": "value",
                "gridIndex": place,
                "splitNumber": 2,
                **({"min": 0, "max": 1} if part.stacked else {"scale": True}),
                "axisLabel": small,
                "splitLine": {"lineStyle": {"color": LINES}},
            }
            for place, part in enumerate(parts)
        ],
        "series": [
            {
                "name": name,
                "type": "line",
                "xAxisIndex": place,
                "yAxisIndex": place,
                "showSymbol": False,
                "data": [[tick, round(value, 5)] for tick, value in zip(ticks, values, strict=True)],
                "lineStyle": {"width": 0 if part.stacked else 1.5},
                "itemStyle": {"color": PALETTE[number % len(PALETTE)]},
                **({"stack": part.title, "areaStyle": {"opacity": 0.75}} if part.stacked else {}),
                **({} if number else {"markLine": marked_ticks}),
            }
            for place, part in enumerate(parts)
            for number, (name, values) in enumerate(part.lines)
        ],
    }
