"""A short look at the page in a browser; part of the fast tests where a Chromium is found."""

from collections.abc import Callable
from pathlib import Path

from browser import Visitor, viewing


def test_the_page_opens_without_internet_and_says_how_to_begin(tmp_path: Path, visit: Callable[..., Visitor]):
    with viewing(tmp_path) as (_, address):
        someone = visit(address)
        asked: list[str] = []
        someone.page.on("request", lambda request: asked.append(request.url))
        someone.open("/")
        someone.page.get_by_text("palaestra learn").first.wait_for(timeout=20_000)
        assert [url for url in asked if not url.startswith((someone.home, "data:", "blob:", "ws:"))] == []
        assert "token" not in someone.page.url
