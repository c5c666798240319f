"""Names with HTML are shown as text, and no address leads out of the results; part of the fast tests where a Chromium
is found.
"""

import json
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from browser import Visitor, viewing

EVIL = "<img src=x onerror=window.hacked=1>"


def make_run(folder: Path, name: str, words: str = EVIL) -> None:
    run = folder / name
    (run / "run_logs").mkdir(parents=True)
    parameters = {words: {"curriculum": [{"name": words, "value": 1.0}]}}
    settings = {
        "env_settings": {"env_path": words},
        "behaviors": {words: {"trainer_type": words}},
        "environment_parameters": parameters,
    }
    (run / "configuration.yaml").write_text(json.dumps(settings))
    lines = [
        {
            "behavior": words,
            "step": step,
            "time": 1e9 + step,
            "elapsed": float(step),
            "Environment/Cumulative Reward": 1.0,
            words: 2.0,
        }
        for step in (10, 20)
    ]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (run / "run_logs" / "console.log").write_text(f"[WARNING] {words}\n<script>window.hacked = 1</script>\n")
    (run / "run_logs" / "requests.jsonl").write_text(
        json.dumps({"action": words, "name": words, "done": True, "text": words}) + "\n"
    )


@pytest.mark.slow
def test_names_with_html_are_text(tmp_path: Path, visit: Callable[..., Visitor]):
    make_run(tmp_path / "results", EVIL)
    make_run(tmp_path / "results", "<b>other</b>")
    with viewing(tmp_path) as (_, address):
        someone = visit(address)
        someone.open("/")
        someone.page.get_by_text(EVIL).first.wait_for(timeout=20_000)
        someone.open(f"/run?id={quote(EVIL)}")
        someone.page.locator("[data-mark=log]").get_by_text("<script>").wait_for(timeout=20_000)
        someone.page.wait_for_timeout(1500)  # charts and their labels
        assert someone.page.locator("img[src=x]").count() == 0
        assert someone.page.evaluate("window.hacked") is None


@pytest.mark.slow
def test_no_address_opens_what_lies_outside(tmp_path: Path, visit: Callable[..., Visitor]):
    make_run(tmp_path, "secret", "TOPSECRET")
    make_run(tmp_path / "results", "a", "harmless")
    started = tmp_path / "started"
    game = tmp_path / "game.x86_64"
    game.write_text(f"#!/bin/sh\ntouch {started}\n")
    game.chmod(0o755)
    with viewing(tmp_path) as (_, address):
        someone = visit(address)
        for path in (
            f"/run?id={quote('../secret')}",
            f"/watch?run={quote('../secret')}",
            f"/play?run={quote('../secret')}",
            f"/watch?env={quote(str(game))}",
            f"/play?env={quote(str(game))}",
        ):
            someone.open(path)
            someone.page.get_by_text("All runs").first.wait_for(timeout=20_000)
            assert "TOPSECRET" not in someone.page.content()
        for path in (
            "/..%2fsecret/configuration.yaml",
            "/%2e%2e/secret/configuration.yaml",
            "/results/a/configuration.yaml",
        ):
            answer = someone.page.request.get(someone.home + path)
            assert answer.status == 404
            assert "SECRET" not in answer.text()
        assert not started.exists()
