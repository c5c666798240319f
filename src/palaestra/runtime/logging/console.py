"""The console of a run: lines as ML-Agents prints them and, on a terminal, a live line for each behavior."""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, TextIO

from palaestra.core.display import PAUSE, NotebookLines, escaped, escaped_lines, flush, in_notebook, is_terminal
from palaestra.core.files import explain, silence
from palaestra.core.wording.voice import voice

if TYPE_CHECKING:
    from rich.console import Console as Terminal
    from rich.live import Live
    from rich.text import Text

REFRESH = 0.25
"""Seconds between two updates of the progress line."""
SILENCE = 60.0
"""Seconds without output after which a line about progress is printed, if there is no terminal."""
SUMMARIES = 5
"""Number of newest summaries that a notebook shows below the progress; the run's log has all of them."""
COLUMNS = 110
"""Characters of a line in a notebook, which would break longer lines within words."""
KEPT = 100
"""Number of newest lines that are kept for a log that is attached later."""
_WINDOW = 60.0  # seconds over which the rate is measured
_BARS = (8, 30)  # least and most columns of the bar
_STYLES = {"WARNING": "yellow", "ERROR": "bold red"}


@dataclass(frozen=True, slots=True)
class ProgressRow:
    """Progress of a behavior."""

    behavior: str
    step: int  # agent-steps so far
    max_steps: int | None  # None: unlimited, as in inference
    reward: float | None  # mean return of the last episodes
    whose: str = ""  # of whom, if not the policy's


class Console:
    """Prints a run's lines.

    If standard output is a closed pipe or a file on a full disk, the console prints nothing more and the run continues.
    A full disk is reported once on standard error.
    """

    def __init__(self, debug: bool, stream: TextIO | None = None, *, brief: bool = False) -> None:
        """Prints to `stream` (None: standard output). `debug`: also debug lines, with time and source file. `brief`: in
        a notebook, show only a bar, warnings, and lines after `close`."""
        self._debug = debug
        self._stream = sys.stdout if stream is None else stream
        self._terminal = _terminal(self._stream)
        self._notebook = NotebookBlock() if stream is None and in_notebook() else None
        self._brief = brief and not debug and self._notebook is not None
        self._live: Live | None = None
        self._paces: dict[str, Pace] = {}
        self._due = 0.0
        self._last_output = time.monotonic()
        self._silent = False
        self._voiced = voice()  # lines come from other threads too
        self._newest: deque[tuple[str, str]] = deque(maxlen=KEPT)
        self._logs: list[Callable[[str, str], object]] = []

    def attach(self, log: Callable[[str, str], object]) -> None:
        """Calls `log` with the level and the text of each line, first with the newest earlier lines."""
        for level, text in self._newest:
            log(level, text)
        self._logs.append(log)

    def debug(self, text: str) -> None:
        """Prints a line that is shown with --debug only."""
        if self._debug:
            self._say("DEBUG", text)

    def detail(self, text: str) -> None:
        """Prints a line only with --debug, but always writes it to the run's log."""
        if self._debug:
            self._say("DEBUG", text)
        else:
            self._keep("DEBUG", text)

    def info(self, text: str) -> None:
        """Prints an information line."""
        self.log("info", text)

    def summary(self, text: str) -> None:
        """Prints the line of a summary; a notebook shows only the newest lines."""
        if self._notebook is None or self._debug:
            self.info(text)
            return
        self._keep("INFO", text)
        if not self._brief and self._notebook.add(f"[INFO] {escaped_lines(self._voiced(text))}", due=self.due()):
            self._due = time.monotonic() + PAUSE

    def log(self, level: str, text: str) -> None:
        """Prints a line at a level given as text: 'info' or 'warning'."""
        if self._brief and level == "info":
            self._keep("INFO", text)
        else:
            self._say(level.upper(), text)

    def warning(self, *texts: str) -> None:
        """Prints one or several warnings."""
        for text in texts:
            self._say("WARNING", text)

    def error(self, text: str) -> None:
        """Prints an error."""
        self._say("ERROR", text)

    def due(self) -> bool:
        """Whether `progress` would print now. Lets callers avoid computing the rows."""
        return time.monotonic() >= self._due

    def progress(
        self, rows: Sequence[ProgressRow], shares: Mapping[str, float] | None = None, remarks: Sequence[str] = ()
    ) -> None:
        """Shows progress. `shares` has the share of time by part; `remarks` are lines that are shown below. Does
        nothing if the last call was less than a quarter second ago."""
        now = time.monotonic()
        if now < self._due or self._silent:
            return
        self._due = now + REFRESH
        for row in rows:
            self._paces.setdefault(row.behavior, Pace()).add(now, row.step)
        if self._terminal is not None:
            try:
                self._show(self._terminal, rows, shares or {}, remarks)
            except Exception as error:  # as in `_say`
                self._fall_silent(error)
        elif self._notebook is not None:
            self._notebook.bars = [(_share(row), sentence(row, self._paces[row.behavior].rate())) for row in rows]
            self._notebook.show()
            self._due = now + PAUSE
        elif now - self._last_output >= SILENCE:
            for row in rows:
                self.info(sentence(row, self._paces[row.behavior].rate()))
            for remark in remarks:
                self.info(remark)

    def close(self) -> None:
        """Removes the progress line; a notebook keeps the newest summaries."""
        self._brief = False
        if self._notebook is not None:
            self._notebook.end()
        if self._live is not None:
            with suppress(Exception):
                self._live.stop()
            self._live = None

    def _show(
        self, terminal: Terminal, rows: Sequence[ProgressRow], shares: Mapping[str, float], remarks: Sequence[str]
    ) -> None:
        from rich.console import Group
        from rich.live import Live
        from rich.text import Text

        widest = max((len(escaped(row.behavior)) for row in rows), default=0)
        plain = terminal.options.ascii_only
        lines = [
            live_line(
                row,
                self._paces[row.behavior].rate(),
                shares if row is rows[-1] else {},
                (terminal.width, widest),
                plain,
            )
            for row in rows
        ]
        lines += [Text(escaped(remark), "dim", no_wrap=True, overflow="ellipsis") for remark in remarks]
        if self._live is None:
            # without a thread, which would compete with training
            self._live = Live(console=terminal, auto_refresh=False, transient=True)
            self._live.start()
        self._live.update(Group(*lines), refresh=True)

    def _keep(self, level: str, text: str) -> None:
        self._newest.append((level, text))
        for log in self._logs:
            log(level, text)

    def _say(self, level: str, text: str) -> None:
        self._keep(level, text)
        if self._silent:
            return
        self._last_output = time.monotonic()
        text = escaped_lines(self._voiced(text))
        place = f"{time.strftime('%Y-%m-%d %H:%M:%S')} {level} [{_origin()}]" if self._debug else f"[{level}]"
        line = f"{place} {text}"
        if self._notebook is not None:
            line = "\n".join(part for one in line.splitlines() for part in _folded(one))
            self._notebook.leave()
        try:
            if self._terminal is not None:
                from rich.text import Text

                self._terminal.print(Text(line, _STYLES.get(level, "")), soft_wrap=True)
            elif self._stream is not None:
                self._stream.write(_encodable(line, self._stream) + "\n")
                flush(self._stream)
        except Exception as error:  # an object of the program that trains may raise anything
            self._fall_silent(error)

    def _fall_silent(self, error: Exception) -> None:
        self._silent = True
        self._live = None
        silence(self._stream)
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError) and self._stream is not sys.stderr:
            with suppress(OSError, ValueError, AttributeError):
                sys.stderr.write(
                    f"palaestra: warning: standard output cannot be written ({explain(error)}): the run continues "
                    "and prints nothing more\n"
                )
                flush(sys.stderr)


class NotebookBlock:
    """Progress bars, and below them the newest summaries, in one place below a cell."""

    def __init__(self) -> None:
        self.bars: list[tuple[float | None, str]] = []
        self._summaries: deque[tuple[None, str]] = deque(maxlen=SUMMARIES)
        self._lines = NotebookLines()

    def add(self, summary: str, *, due: bool) -> bool:
        """Adds the line of a summary. Returns whether it is shown now: if it is the first line, or if enough time has
        passed."""
        self._summaries.append((None, summary))
        shown = due or len(self._summaries) == 1
        if shown:
            self.show()
        return shown

    def show(self) -> None:
        """Shows all lines."""
        with suppress(Exception):  # a kernel that is gone
            self._lines.show([*self.bars, *self._summaries])

    def end(self) -> None:
        """Leaves the summaries alone."""
        self.bars = []
        self.show()

    def leave(self) -> None:
        """Lets the summaries shown so far stay above the next output."""
        if self._summaries:
            self.end()
            self._summaries = deque(maxlen=SUMMARIES)
            self._lines = NotebookLines()

    def clear(self) -> None:
        """Leaves nothing."""
        self._summaries.clear()
        self.end()


class Pace:
    """Measures steps per second over the last minute."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def add(self, now: float, step: int) -> None:
        """Records that `step` was reached at `now`, in seconds of any one clock."""
        self._seen.append((now, step))
        while now - self._seen[0][0] > _WINDOW:
            self._seen.popleft()

    def rate(self) -> float | None:
        """Returns steps per second; None until there are enough measurements."""
        (begin, first), (end, last) = self._seen[0], self._seen[-1]
        return (last - first) / (end - begin) if end - begin >= 2 * REFRESH else None


def sentence(row: ProgressRow, rate: float | None) -> str:
    """Returns progress as a line of text."""
    parts = [f"step {row.step:,}"]
    if row.max_steps:
        parts[0] += f" of {row.max_steps:,} ({_share(row):.0%})"
    if rate is not None:
        parts.append(f"{rate:,.0f} agent-steps/s")
    if row.reward is not None:
        parts.append(f"mean reward {row.reward:.3f}{f' ({row.whose})' if row.whose else ''}")
    if left := _left(row, rate):
        parts.append(f"{left} left")
    return f"{escaped(row.behavior)}: {', '.join(parts)}"


def live_line(
    row: ProgressRow, rate: float | None, shares: Mapping[str, float], room: tuple[int, int], plain: bool
) -> Text:
    """Returns progress for a terminal, the most important first; `room`: columns of the terminal, and for the name."""
    from rich.text import Text

    columns, name = room
    left = _left(row, rate)
    parts = {  # in the order shown: (rank, text, style); the highest rank goes first
        "name": (0, f"{escaped(row.behavior):<{name}}", "bold"),
        "bar": (4, " " * _BARS[0] if row.max_steps else "", "cyan"),
        "share": (1, f"{_share(row):.0%}" if row.max_steps else "", ""),
        "step": (5, f"{row.step:,}/{row.max_steps:,}" if row.max_steps else f"{row.step:,}", "dim"),
        "rate": (3, f"{rate:,.0f} agent-steps/s" if rate is not None else "", ""),
        "reward": (1, f"{row.whose} reward {row.reward:.3f}".lstrip() if row.reward is not None else "", "green"),
        "left": (2, f"{left} left" if left else "", ""),
        "shares": (6, " ".join(f"{name} {share:.0%}" for name, share in shares.items()), "dim"),
    }
    parts = {key: part for key, part in parts.items() if part[1]}
    while (spare := columns - sum(len(text) + 2 for _, text, _ in parts.values()) + 2) < 0 and len(parts) > 1:
        del parts[max(parts, key=lambda key: parts[key][0])]
    if "bar" in parts:
        parts["bar"] = (0, _bar(_share(row), min(_BARS[1], _BARS[0] + spare), plain), "cyan")
    line = Text("  ").join(Text(text, style) for _, text, style in parts.values())
    line.no_wrap = True
    line.overflow = "ellipsis"
    return line


def _bar(share: float, columns: int, plain: bool) -> str:
    done = int(share * columns)
    full, empty = ("=", "-") if plain else ("━", "┄")
    return full * done + empty * (columns - done)


def _share(row: ProgressRow) -> float:
    return min(1.0, row.step / row.max_steps) if row.max_steps else 0.0


def _left(row: ProgressRow, rate: float | None) -> str:
    if not rate or not row.max_steps or row.step >= row.max_steps:
        return ""
    seconds = int((row.max_steps - row.step) / rate)
    minutes = seconds // 60
    hours = seconds // 3600
    days = seconds // 86400
    if days:
        return f"{days} d {hours % 24} h"
    return f"{hours}:{minutes % 60:02}:{seconds % 60:02}" if hours else f"{minutes}:{seconds % 60:02}"


def _terminal(stream: TextIO) -> Terminal | None:
    """Returns a console of rich, which reads NO_COLOR, if `stream` is a terminal that can move its cursor."""
    if not is_terminal(stream) or os.environ.get("TERM") == "dumb":
        return None
    from rich.console import Console as Terminal

    return Terminal(file=stream)


def _folded(line: str) -> list[str]:
    """Returns the lines that a long one becomes in a notebook."""
    inner = len(line) - len(line.lstrip()) + 2
    return wrap(line, COLUMNS, subsequent_indent=" " * inner, break_long_words=False, break_on_hyphens=False) or [line]


def _encodable(line: str, stream: TextIO) -> str:
    encoding = getattr(stream, "encoding", None)
    encoding = encoding if isinstance(encoding, str) and encoding else "utf-8"
    return line.encode(encoding, "backslashreplace").decode(encoding)


def _origin() -> str:
    """Returns file and line of the code that printed the line."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
