"""Runs the command `palaestra` as a process.

Little is imported before signals and streams are set up: an import interrupted by Ctrl-C may swallow it, or end in a traceback.
"""

from __future__ import annotations

import signal
import sys

TYPE_CHECKING = False  # importing typing would take longer than the rest of this module
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command. Returns the exit status: 0, 1 for an error that the message explains, 2 for a wrong command line, 128 plus its
    number for a signal. `argv` is for programs, whose streams and signals stay as they are.
    """
    if argv is not None:
        from palaestra.cli.commands import run_command

        return run_command(argv)
    at_once_on_interrupt()
    from palaestra.cli.streams import open_missing, settle, shorten_warnings

    open_missing()
    shorten_warnings()
    from palaestra.interop.import_hooks import when_imported

    when_imported("matplotlib", refuse_style_of_current_folder)
    from palaestra.cli.commands import run_command

    try:
        status = run_command(sys.argv[1:], process=True)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    at_once_on_interrupt()
    return settle(status)


def at_once_on_interrupt() -> None:
    """Makes Ctrl-C end the process as SIGTERM does, without a traceback."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def refuse_style_of_current_folder() -> None:
    """Gives pictures matplotlib's own style where it took one from the current folder: a stranger's may start LaTeX, or fill the memory."""
    import os

    import matplotlib

    if os.path.dirname(os.path.abspath(matplotlib.matplotlib_fname())) == os.getcwd():
        matplotlib.rcdefaults()
