"""Demonstrations from any source: `.demo` files, and datasets of Minari, whose spaces are converted like an
environment's.

`minari_library` finds datasets, `dataset_form` and `minari_episode` convert their arrays, `minari_reader` reads
them.
"""

from __future__ import annotations

from pathlib import Path

from palaestra.datasets.minari_library import MINARI, is_minari
from palaestra.demos import DemoSource
from palaestra.demos import read_demo as read_file

__all__ = ["MINARI", "is_minari", "read_demo"]


def read_demo(source: Path | str) -> DemoSource:
    """Opens a demonstration: a `.demo` file, or a data set of Minari.

    >>> import palaestra
    >>> demo = palaestra.read_demo("Expert.demo")
    >>> print(demo.behavior, demo.records)

    source: path of the file, "minari:ID" or "minari:FOLDER".

    Returns the opened demonstration. Raises EmptyDemo if there are no records, and DemoError for other faults.
    """
    if is_minari(source):
        from palaestra.datasets.minari_reader import read_minari

        return read_minari(str(source))
    return read_file(source)
