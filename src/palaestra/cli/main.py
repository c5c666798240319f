"""Runs the command `palaestra` as a process.

Few modules are imported before signals and streams are set up: an import that Ctrl-C interrupts may lose the signal, or
end in a traceback.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys

PATIENCE = 60.0
"""Seconds that threads and exit hooks of other code have to end after a command."""
NOTEBOOKS = ("module://matplotlib_inline", "module://ipykernel", "module://ipympl")
"""Begin of the matplotlib backends that a notebook sets for its own process in MPLBACKEND."""

TYPE_CHECKING = False  # importing typing would take longer than the rest of this module
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command. Returns the exit status: 0, 1 for an error that the message explains, 2 for a wrong command
    line, 128 plus its number for a signal. Programs pass `argv`; their streams and signals stay as they are."""
    if argv is not None:
        from palaestra.cli.commands import run_command
        from palaestra.cli.streams import whole_streams

        with whole_streams():
            return run_command(argv)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends the process as SIGTERM does, without a traceback
    atexit.register(ignore_signals)  # the first hook runs last
    from palaestra.cli.streams import open_missing, settle, shorten_warnings
    from palaestra.core.thread_waits import shorten_thread_waits

    shorten_thread_waits()
    open_missing()
    shorten_warnings()
    if os.environ.get("MPLBACKEND", "").startswith(NOTEBOOKS):
        del os.environ["MPLBACKEND"]
    if os.path.exists("matplotlibrc"):
        refuse_style_of_current_folder()
    from palaestra.cli.commands import run_command

    try:
        status = run_command(sys.argv[1:], process=True)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    status = settle(status)
    end_in_time(status)
    return status


def ignore_signals() -> None:
    """Keeps signals from changing the exit status while Python ends."""
    from palaestra.runtime.control.os_signals import numbers

    for number in numbers():
        signal.signal(number, signal.SIG_IGN)


def end_in_time(status: int, patience: float = PATIENCE) -> None:
    """Ends the process with its status at a signal or after `patience` seconds if threads or exit hooks go on."""
    import threading
    import time

    from palaestra.runtime.control.os_signals import numbers, say

    def end(*_: object) -> None:
        os._exit(status)

    def watch() -> None:
        time.sleep(patience)
        names = [one.name for one in threading.enumerate() if not one.daemon and one is not threading.main_thread()]
        what = f"threads of other code ({', '.join(names)})" if names else "exit hooks of other code"
        say(f"palaestra: {what} do not end: the process ends without them\n")
        end()

    for number in numbers():
        signal.signal(number, end)
    threading.Thread(target=watch, daemon=True).start()


def refuse_style_of_current_folder() -> None:
    """Undoes a matplotlib style file of the current folder: a stranger's style may start LaTeX, or fill the memory."""
    from palaestra.runtime.plots.chart_style import load_matplotlib

    matplotlib = load_matplotlib()
    if os.path.dirname(os.path.abspath(matplotlib.matplotlib_fname())) == os.getcwd():
        matplotlib.rcdefaults()
