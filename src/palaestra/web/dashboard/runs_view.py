"""Choices on the page of runs; they are part of its address, so that reloading and sharing keep them."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import QueryParams

from palaestra.core.metrics import REWARD


@dataclass(frozen=True, slots=True)
class RunsView:
    """Choices on the page of runs."""

    run: tuple[str, ...] = ()
    """Chosen runs, in the order in which they were chosen."""
    pin: tuple[str, ...] = ()
    """Runs that stay on top of the table, and in the chart."""
    hide: tuple[str, ...] = ()
    """Runs that are left out of the chart."""
    column: tuple[str, ...] = ()
    """Settings that have a column in the table."""
    metric: str = REWARD
    axis: str = "steps"
    smooth: float = 0.0
    log: bool = False
    bands: bool = True
    """Whether the seeds of one setting are drawn as one line with a band."""
    find: str = ""

    @staticmethod
    def of(query: QueryParams) -> RunsView:
        """Reads an address; unknown or impossible values are ignored."""
        given: dict[str, Any] = {}
        for field in fields(RunsView):
            texts = query.getlist(field.name)
            if not texts:
                continue
            if isinstance(field.default, tuple):
                given[field.name] = tuple(dict.fromkeys(texts))[:100]
            elif isinstance(field.default, bool):
                given[field.name] = texts[-1] == "1"
            elif isinstance(field.default, float):
                with suppress(ValueError):
                    number = float(texts[-1])
                    given[field.name] = min(max(number, 0.0), 0.99) if math.isfinite(number) else field.default
            else:
                given[field.name] = texts[-1]
        view = RunsView(**given)
        return view if view.axis in ("steps", "time") else replace(view, axis="steps")

    @property
    def address(self) -> str:
        """Returns the page's address with the values that differ from the defaults."""
        pairs: list[tuple[str, str]] = []
        for field in fields(self):
            value = getattr(self, field.name)
            if value == field.default:
                continue
            values = value if isinstance(value, tuple) else (int(value) if isinstance(value, bool) else value,)
            pairs += [(field.name, str(one)) for one in values]
        return f"/?{urlencode(pairs)}" if pairs else "/"
