from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from palaestra.cli.main import main


def test_the_page_of_a_player_opens_no_browser_where_none_is_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    opened: list[dict[str, Any]] = []
    monkeypatch.setattr("palaestra.cli.view.open_page", lambda _site, **how: opened.append(how) or 0)
    monkeypatch.chdir(tmp_path)
    assert main(["run", "Basic", "--brain=player", "--no-browser"]) == 0
    assert opened == [{"path": "/play", "browser": False}]
