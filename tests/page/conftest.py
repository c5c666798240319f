"""Fixtures of the page's tests in a browser."""

from collections.abc import Callable, Iterator

import pytest

pytest.importorskip("nicegui")
sync_api = pytest.importorskip("playwright.sync_api")

from browser import FLAGS, Visitor, chromium  # noqa: E402


@pytest.fixture(scope="module")
def browser() -> Iterator[sync_api.Browser]:
    path = chromium()
    if path is None:
        pytest.skip("no Chromium: `make test-page` installs it, or PALAESTRA_CHROMIUM names one")
    with sync_api.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=path, args=FLAGS)
        yield started
        started.close()


@pytest.fixture
def visit(browser: sync_api.Browser) -> Iterator[Callable[..., Visitor]]:
    """Opens windows, and checks at the end that no script of the page failed."""
    visitors: list[Visitor] = []

    def enter(address: str, size: str = "wide", dark: bool = False) -> Visitor:
        visitors.append(Visitor(browser, address, size, dark))
        return visitors[-1]

    yield enter
    errors = [error for visitor in visitors for error in visitor.errors]
    for visitor in visitors:
        visitor.close()
    assert errors == []
