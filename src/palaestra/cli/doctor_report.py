"""Prints the report of `palaestra doctor`: stages as they pass, then tables, then findings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from textwrap import wrap
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.status import Status
from rich.table import Table

from palaestra.core.display import escaped
from palaestra.core.specs import shape_text
from palaestra.runtime.doctor import CheckStage, Examination, Finding, ScaleComparison
from palaestra.runtime.doctor.examination import Timing
from palaestra.runtime.doctor.findings import FAILED
from palaestra.runtime.doctor.meters import FAR, BehaviorReport, ObservationReport, RewardReport
from palaestra.runtime.doctor.stages import counted

COLUMNS = 100
"""Width of the report in characters if there is no terminal."""
INDENT = 9
STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}


class DoctorReport:
    """Visitor that prints the examination."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False)
        if not self.console.is_terminal:
            self.console.width = COLUMNS
        self._status: Status | None = None

    def begins(self, stage: str) -> None:
        """Shows the stage while it lasts, on a terminal."""
        self.close()
        if self.console.is_terminal:
            self._status = self.console.status(f"{stage} ...")
            self._status.start()

    def ended(self, stage: CheckStage) -> None:
        """Prints a line for the stage, and its details below."""
        self.close()
        mark = "[green]ok[/]    " if stage.ok else "[bold red]failed[/]"
        self.console.print(f"{mark}   {escape(stage.name):<26}{stage.seconds:8.2f} s")
        for line in stage.details:
            self._below(line, "dim" if stage.ok else "red")

    def says(self, text: str) -> None:
        """Prints a line of text that the environment itself has given."""
        self._below(text, "")

    def close(self) -> None:
        """Removes the line that is shown while waiting."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    def show(self, found: Examination) -> None:
        """Prints everything but the stages."""
        if found.timing is not None:
            for behavior in found.behaviors.values():
                self._behavior(behavior)
            self._times(found.timing, found.behaviors)
        if found.copies is not None:
            self.console.print(f"\n[bold]copies[/]  {copies(found.copies.number)}")
            self._below(found.copies.why, "dim")
        self._findings(found.findings)

    def show_comparison(self, found: ScaleComparison) -> None:
        """Prints a column for each time scale, then all findings."""
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
        table.add_column("")
        for scale in found.scales:
            table.add_column(f"time scale {scale:g}", justify="right")
        for row in comparison_rows(found):
            table.add_row(*row)
        self.console.print()
        self._table(table, 0)
        several = [finding for each in found.found for finding in each.findings]
        self._findings((*found.findings, *{(each.what, each.advice): each for each in several}.values()))
        if found.healthy and not found.findings and len(found.scales) > 1:
            self.console.print(
                f"the game behaves the same at time scales {', '.join(f'{scale:g}' for scale in found.scales)}"
            )

    def _behavior(self, report: BehaviorReport) -> None:
        self.console.print(f"\n[bold]behavior[/] [bold cyan]{escape(escaped(report.name))}[/]")
        facts = Table.grid(padding=(0, 2))
        facts.add_column(style="bold", no_wrap=True)
        facts.add_column()
        for name, text in (
            ("agents", agents(report)),
            ("episodes", episodes(report)),
            ("reward", reward(report.reward)),
            ("group reward", "" if report.group_reward is None else reward(report.group_reward)),
            ("masks", masks(report)),
        ):
            if text:
                facts.add_row(name, escape(text))
        self._table(facts, 2)
        self._table(_observations(report.observations), 2)

    def _times(self, timing: Timing, behaviors: Mapping[str, BehaviorReport]) -> None:
        decisions = sum(report.decisions for report in behaviors.values())
        at = "" if timing.time_scale is None else f" at time scale {timing.time_scale:g}"
        seconds = max(timing.seconds, 1e-9)
        self.console.print(
            f"\n[bold]time[/]     {timing.ticks} ticks: {timing.ticks / seconds:,.0f} ticks/s, "
            f"{decisions / seconds:,.0f} decisions/s{at}"
        )
        table = Table.grid(padding=(0, 2))
        table.add_column(style="bold")
        table.add_column(justify="right")
        table.add_column(justify="right")
        for part, took in timing.parts.items():
            table.add_row(part, f"{1000 * took / timing.ticks:.3f} ms a tick", f"{took / seconds:.0%}")
        self._table(table, INDENT)
        if timing.received is not None and timing.sent is not None:
            self._below(f"{timing.received:,} bytes received and {timing.sent:,} sent a tick", "")

    def _table(self, table: Table, indent: int) -> None:
        """Prints a table; where it is not shown but written, without blanks at the ends of lines."""
        shown = Padding(table, (0, 0, 0, indent), expand=False)
        if self.console.is_terminal:
            self.console.print(shown)
            return
        with self.console.capture() as text:
            self.console.print(shown)
        for line in text.get().splitlines():
            self.console.out(line.rstrip())

    def _below(self, text: str, style: str) -> None:
        room = max(40, self.console.width - INDENT)
        for line in wrap(text, room, break_long_words=False, break_on_hyphens=False):
            self.console.print(" " * INDENT + escape(line), style=style, soft_wrap=True)

    def _findings(self, findings: tuple[Finding, ...]) -> None:
        self.console.print()
        failed, findings = len(findings), tuple(each for each in findings if not each.what.endswith(FAILED))
        if not findings:
            end = "[bold red]the rest could not be examined[/]" if failed else "[bold green]everything is in order[/]"
            self.console.print(end)
            return
        self.console.print(f"[bold]{counted(len(findings), 'finding')}[/]")
        table = Table.grid(padding=(0, 1))
        table.add_column(justify="right", min_width=3)
        table.add_column(no_wrap=True)
        table.add_column(ratio=1)
        rank = list(STYLES)
        for i, finding in enumerate(sorted(findings, key=lambda finding: rank.index(finding.level)), 1):
            table.add_row(f"{i}.", f"[{STYLES[finding.level]}]{finding.level}[/]", _finding(finding))
        self._table(table, 0)


def _finding(finding: Finding) -> str:
    return escape(finding.what) + (f"\n[dim]{escape(finding.advice)}[/]" if finding.advice else "")


def _observations(observations: tuple[ObservationReport, ...]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in ("observation", "kind", "shape"):
        table.add_column(name)
    for name in ("range", "mean", "std", "never changed", f"beyond ±{FAR:g}"):
        table.add_column(name, justify="right")
    for seen in observations:
        constant = f"{len(seen.constant):,} of {seen.elements:,}" if seen.constant else "none"
        kind = seen.kind if seen.entities is None else f"{seen.kind} ({_span(*seen.entities)} rows)"
        kind += ", a goal" if seen.goal else ""
        table.add_row(
            escape(seen.name),
            kind,
            shape_text(seen.shape),
            f"{seen.low:.4g} .. {seen.high:.4g}",
            f"{seen.mean:.3g}",
            f"{seen.std:.3g}",
            "one color" if seen.one_color else constant,
            str(seen.far or "none"),
        )
    return table


def comparison_rows(found: ScaleComparison) -> list[list[str]]:
    """Returns rows of measurements and speed, with a cell for each time scale."""
    rows = []
    for name in dict.fromkeys(name for each in found.found for name in each.behaviors):
        reports = [each.behaviors.get(name) for each in found.found]
        for what, text in (
            ("decisions", lambda report: f"{report.decisions:,}"),
            ("episodes that ended", lambda report: f"{report.terminated + report.truncated:,}"),
            ("mean length", lambda report: "-" if report.mean_length is None else f"{report.mean_length:.1f}"),
            ("mean return", lambda report: "-" if report.mean_return is None else f"{report.mean_return:.3f}"),
        ):
            rows.append([escape(f"{name}: {what}"), *("-" if report is None else text(report) for report in reports)])
    timings = [each.timing for each in found.found]
    rows.append(
        [
            "ticks a second",
            *("-" if each is None else f"{each.ticks / max(each.seconds, 1e-9):,.0f}" for each in timings),
        ]
    )
    return rows


def agents(report: BehaviorReport) -> str:
    """Returns the number of agents that decided."""
    parts = [f"{_span(*report.agents)} a tick, {report.decisions:,} decisions"]
    if report.teams not in ((), (0,)):
        parts.append(f"teams {', '.join(map(str, report.teams))}")
    if report.groups:
        parts.append(counted(report.groups, "group"))
    return "; ".join(parts)


def episodes(report: BehaviorReport) -> str:
    """Returns the number of episodes, and how they ended."""
    ended = report.terminated + report.truncated
    text = (
        f"{ended:,} ended ({report.terminated:,} terminated, {report.truncated:,} truncated)" if ended else "none ended"
    )
    if report.mean_length is not None:
        text += f"; mean length {report.mean_length:.1f} decisions, mean return {report.mean_return:.3f}"
    return text + (f"; {report.lost} broke off" if report.lost else "")


def reward(report: RewardReport | None) -> str:
    """Returns the statistics of one kind of reward."""
    if report is None:
        return "none has come"
    if report.low == report.high:
        return f"always {report.low:.4g}"
    return f"{report.low:.4g} .. {report.high:.4g}, mean {report.mean:.4g}, {report.nonzero:.0%} not zero"


def masks(report: BehaviorReport) -> str:
    """Returns the statistics of action masks; empty where no mask forbade a choice."""
    return "" if report.masked is None else f"{report.masked:.1%} of choices forbidden"


def copies(number: int) -> str:
    """Returns the number of copies to start."""
    several = f"up to {number} are worth starting on this machine: --num-envs={number}"
    return several if number > 1 else "one alone is worth starting on this machine"


def _span(least: int, most: int) -> str:
    return str(least) if least == most else f"{least} to {most}"


def as_json(value: Any) -> Any:
    """Returns records, mappings and tuples as plain values; numbers that are not finite as None."""
    if isinstance(value, Examination | ScaleComparison):
        return {
            "healthy": value.healthy,
            **{field.name: as_json(getattr(value, field.name)) for field in fields(value)},
        }
    if is_dataclass(value):
        return {field.name: as_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {key: as_json(each) for key, each in value.items()}
    if isinstance(value, tuple):
        return [as_json(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
