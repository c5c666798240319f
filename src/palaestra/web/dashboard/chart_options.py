"""Options of ECharts for curves and heat maps.

Charts and their tooltips draw on a canvas: names of runs and metrics are text there, never HTML. Keys of options must
come from Palaestra alone, since NiceGUI evaluates values whose key begins with a colon.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from palaestra.core.display import escaped, shortened
from palaestra.runtime.monitor.run_facts import LeagueTable
from palaestra.web.dashboard.run_rows import short

PALETTE = ("#4275c4", "#e08a2e", "#3ea062", "#d05046", "#8a68ba", "#2aa5a5", "#c65b9a", "#9a7b4f", "#7f8a99", "#a5a52a")
GREY = "#8b93a1"
"""Color of texts and axes: readable on light and on dark ground."""
LINES = "#8b93a133"
LEGEND_MARK = "path://M0,0h.01v.01h-.01zM0,7h26v4h-26zM0,18h.01v-.01h-.01z"
"""A flat mark in a box as high as a line of text: ECharts cuts texts that are higher than their mark."""
TOOLTIP = {
    "trigger": "axis",
    "renderMode": "richText",
    "confine": True,
    "backgroundColor": "#262b34",
    "borderWidth": 0,
    "textStyle": {"color": "#f3f4f6", "fontSize": 12},
}
_COUNT = (
    "v => { const a = Math.abs(v), short = x => +x.toPrecision(6); return a >= 1e6 ? short(v / 1e6) + 'M' : a >= "
    "1e4 || a >= 1e3 && a % 100 == 0 ? short(v / 1e3) + 'k' : short(v); }"
)
_VALUE = "v => v == null ? '' : typeof v == 'number' ? String(+v.toPrecision(5)) : String(v)"


@dataclass(frozen=True, slots=True)
class CurveLine:
    """A curve of a chart."""

    name: str
    data: Sequence[Sequence[float]]
    color: int = 0
    ends: Sequence[Sequence[float]] = ()
    """Lower and upper end of a band at each point; empty: no band."""


def curve_options(lines: Sequence[CurveLine], *, over_time: bool, log: bool, small: bool = False) -> dict[str, Any]:
    """Returns a chart of curves over steps, or over hours. A small chart has neither legend nor zoom."""
    axis = {
        "axisLabel": {"color": GREY, "fontSize": 11},
        "axisLine": {"lineStyle": {"color": GREY}},
        "splitLine": {"lineStyle": {"color": LINES}},
    }
    across = "hours" if over_time else "steps"
    options: dict[str, Any] = {
        "animation": False,
        "color": list(PALETTE),
        "textStyle": {"color": GREY},
        "grid": {"left": 8, "right": 18, "top": 12, "bottom": 4 if small else 84, "containLabel": True},
        "tooltip": {
            **TOOLTIP,
            "order": "valueDesc",
            ":valueFormatter": _VALUE,
            "axisPointer": {"label": {":formatter": f"p => ({_COUNT})(p.value) + ' {across}'"}},
        },
        "xAxis": {
            **axis,
            "type": "value",
            "scale": True,
            "splitLine": {"show": False},
            "splitNumber": 3 if small else 6,
            "axisLabel": {"color": GREY, "fontSize": 11, "hideOverlap": True, ":formatter": _COUNT},
            **(
                {}
                if small
                else {"name": across, "nameLocation": "middle", "nameGap": 26, "nameTextStyle": {"color": GREY}}
            ),
        },
        "yAxis": {**axis, "type": "log" if log else "value", "scale": True, "splitNumber": 3 if small else 5},
        "series": [
            *(_series(i, line, small) for i, line in enumerate(lines)),
            *(part for i, line in enumerate(lines) if line.ends and not log for part in _band(i, line)),
        ],
    }
    options["yAxis"]["axisLabel"] = {"color": GREY, "fontSize": 11, ":formatter": _COUNT}
    options["dataZoom"] = [{"type": "inside", "zoomOnMouseWheel": "shift"}]
    if not small:
        options["legend"] = {
            "type": "scroll",
            "bottom": 0,
            "data": [curve_name(line.name) for line in lines],
            "icon": LEGEND_MARK,
            "itemWidth": 26,
            "itemHeight": 18,
            "textStyle": {"color": GREY},
            "pageTextStyle": {"color": GREY},
        }
        options["dataZoom"] = [
            {
                "type": "slider",
                "height": 14,
                "bottom": 28,
                "borderColor": LINES,
                "brushSelect": False,
                "showDetail": False,
            },
            *options["dataZoom"],
        ]
    return options


def _series(index: int, line: CurveLine, small: bool) -> dict[str, Any]:
    return {
        "id": f"s{index}",  # by place, so that another choice of runs takes the place of this one
        "name": curve_name(line.name),
        "type": "line",
        "showSymbol": len(line.data) == 1,
        "symbolSize": 5,
        "lineStyle": {"width": 1.5 if small else 2},
        "itemStyle": {"color": PALETTE[line.color % len(PALETTE)]},
        "data": list(line.data),
    }


def _band(index: int, line: CurveLine) -> list[dict[str, Any]]:
    """Returns the lower end of a band, which is not drawn, and on top of it an area as high as the band."""
    plain = {
        "type": "line",
        "stack": f"band{index}",
        "stackStrategy": "all",
        "silent": True,
        "showSymbol": False,
        "lineStyle": {"opacity": 0},
        "tooltip": {"show": False},
        "itemStyle": {"color": PALETTE[line.color % len(PALETTE)]},
    }
    across = [point[0] for point in line.data]
    low = [[x, ends[0]] for x, ends in zip(across, line.ends, strict=True)]
    high = [[x, ends[1] - ends[0]] for x, ends in zip(across, line.ends, strict=True)]
    return [
        {**plain, "id": f"low{index}", "data": low},
        {**plain, "id": f"band{index}", "data": high, "areaStyle": {"opacity": 0.18}},
    ]


def curve_name(text: str) -> str:
    """Returns a name as it is shown in a legend."""
    return shortened(escaped(text), 60)


def league_options(table: LeagueTable) -> dict[str, Any]:
    """Returns a heat map of scores: rows against columns."""
    axis = {
        "type": "category",
        "axisLabel": {"color": GREY, "fontSize": 11, "hideOverlap": True},
        "axisTick": {"show": False},
    }
    cells = len(table.rows) * len(table.columns)
    return {
        "animation": False,
        "textStyle": {"color": GREY},
        "grid": {"left": 8, "right": 12, "top": 8, "bottom": 48, "containLabel": True},
        "tooltip": {"renderMode": "richText", "confine": True, ":formatter": "p => p.value[2] + ' %'"},
        "xAxis": {**axis, "data": [short(step) for step in table.columns]},
        "yAxis": {**axis, "data": [short(step) for step in table.rows], "inverse": True},
        "visualMap": {
            "min": 0,
            "max": 100,
            "orient": "horizontal",
            "left": "center",
            "bottom": 0,
            "itemHeight": 90,
            "itemWidth": 12,
            "text": ["row wins", "row loses"],
            "textStyle": {"color": GREY},
            "inRange": {"color": ["#d05046", "#f1efe9", "#4275c4"]},
        },
        "series": [
            {
                "type": "heatmap",
                "data": [[x, y, round(100 * score)] for x, y, score in table.scores],
                "label": {"show": cells <= 150, "color": "#1f2430", "fontSize": 11},
            }
        ],
    }
