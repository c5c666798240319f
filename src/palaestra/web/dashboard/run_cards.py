"""Cards of one run: lessons, ratings and the league, use of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nicegui import ui

from palaestra.core.display import escaped
from palaestra.runtime.monitor.run_facts import LeagueTable, LessonStatus, TimeShares
from palaestra.web.dashboard.chart_options import league_options
from palaestra.web.dashboard.run_rows import short
from palaestra.web.layout import card, quiet

MOST_RATED = 8


def show_lessons(place: ui.column, found: Sequence[LessonStatus]) -> None:
    """Shows the current lesson of each parameter, and the progress toward the next one."""
    place.clear()
    if not found:
        return
    with place, card("Lessons"):
        for each in found:
            with ui.column().classes("w-full gap-1"):
                with ui.row().classes("w-full items-baseline gap-2"):
                    ui.label(escaped(each.parameter)).classes("text-sm font-medium")
                    ui.label(f"lesson {each.number + 1} of {each.count}: {escaped(each.name)}").classes("text-sm")
                    if each.value:
                        quiet(f"value {escaped(each.value)}")
                if each.share is not None:
                    ui.linear_progress(each.share, show_value=False, size="5px").props(
                        'rounded instant-feedback aria-label="To the next lesson"'
                    )
                quiet(escaped(each.needs) if each.needs else "the last lesson")


def show_ratings(place: ui.column, ratings: Mapping[str, str], run_id: str, table: LeagueTable | None) -> None:
    """Shows the ratings of each behavior in self-play, and the league or the command that plays a league."""
    place.clear()
    if not ratings and table is None:
        return
    with place, card("Self-play"):
        for name, rating in ratings.items():
            ui.label(f"{escaped(name)}: {rating}").classes("text-sm")
        if table is None:
            quiet("A league plays all snapshots against each other and shows which are strongest:")
            ui.label(f"palaestra league {escaped(run_id)}").classes("p-log")
            return
        quiet(
            f"Score in percent of {escaped(table.behavior)} (rows, by step) against {escaped(table.opponent)} (columns)"
        )
        ui.echart(league_options(table)).classes("w-full").style("height: 380px").props(
            'role=img aria-label="Scores of the league" data-mark=league'
        )
        best = [f"{short(step)}: {skill:.1f} ± {spread:.1f}" for _, step, skill, spread in table.ratings[:MOST_RATED]]
        quiet("Strongest snapshots, by skill: " + ", ".join(best))


def show_times(place: ui.column, found: TimeShares | None) -> None:
    """Shows which share of a run's time each part takes."""
    place.clear()
    if found is None:
        return
    with place, card("Where time goes"):
        if found.bottleneck:
            ui.label(escaped(found.bottleneck[:1].upper() + found.bottleneck[1:])).classes("text-sm")
        with ui.element("div").style(
            "display: grid; grid-template-columns: minmax(90px, auto) 1fr 48px; gap: 4px 12px; width: 100%; "
            "align-items: center"
        ):
            for name, share in found.shares.items():
                ui.label(escaped(name)).classes("text-sm")
                ui.linear_progress(share, show_value=False, size="8px").props(
                    "rounded instant-feedback aria-hidden=true"
                )
                ui.label(f"{100 * share:.0f} %").classes("text-sm p-quiet").style("text-align: right")
