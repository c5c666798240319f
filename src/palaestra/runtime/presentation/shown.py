"""The base class of results of the Python API: a result prints as a table, and a notebook shows it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from inspect import isfunction

from palaestra.core.display import escaped
from palaestra.core.wording.short_errors import short_errors
from palaestra.runtime.presentation.result_tables import ResultTable


class Shown(ABC):
    """A result with tables: `print` shows these lines, a prompt shows one line, a notebook shows the tables and a
    picture. Errors in methods of a result have a short traceback."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        for name, member in [*vars(cls).items()]:
            if name.startswith("_") and name != "__getitem__":
                continue
            if isinstance(member, property) and member.fget is not None:
                setattr(cls, name, property(short_errors(member.fget)))
            elif isfunction(member):
                setattr(cls, name, short_errors(member))

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
