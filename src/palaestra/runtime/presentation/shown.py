"""The base of what functions of the Python API return: it prints as a table, and shows itself in a notebook."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from palaestra.core.display import escaped
from palaestra.runtime.presentation.result_tables import ResultTable


class Shown(ABC):
    """A result with tables: `print` gives these, a prompt one line, a notebook the tables and a picture."""

    __slots__ = ()

    @abstractmethod
    def _line(self) -> str:
        """Returns it in a few words."""

    def _tables(self) -> Sequence[ResultTable]:
        """Returns its tables."""
        return ()

    def _inline(self) -> str:
        """Returns HTML that stands below the tables, such as a small curve."""
        return ""

    def __str__(self) -> str:
        return "\n\n".join(table.text() for table in self._tables())

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {escaped(self._line())}>"

    def _repr_html_(self) -> str:  # of notebooks
        return "".join([*(table.html() for table in self._tables()), self._inline()])
