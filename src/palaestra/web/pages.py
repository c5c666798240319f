"""The pages by address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palaestra.web.layout import ICON, page

if TYPE_CHECKING:
    from fastapi import FastAPI

    from palaestra.web.server import Site

__all__ = ["ICON", "add", "close"]


def add(site: Site, app: FastAPI) -> None:
    """Registers every page, and the WebSockets they need."""
    from nicegui import ui

    @ui.page("/")
    def runs() -> None:
        with page("Runs", "Runs"):
            ui.label(str(site.results))


def close() -> None:
    """Ends what pages have opened: environments that play, threads."""
