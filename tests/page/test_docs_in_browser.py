"""The site of the documentation in a browser, opened from its folder: `make docs` builds it without a warning."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import SHOTS, SIZES, SPILLS, Visitor, sync_api, until
from test_accessible import violations

pytest.importorskip("material", reason="the extra `docs` is not installed")
ROOT = Path(__file__).parents[2]
SITE = ROOT / "site"
FINDS = {
    "--resume": "guides/training/keep-and-stop",
    "--stop-at": "guides/training/keep-and-stop",
    "action mask": "reference/spaces",
    "actions": "reference/python/interface",
    "batch size": "reference/settings/ppo",
    "buffer_size is more than max_steps": "guides/training/it-does-not-learn",
    "checkpoint": "guides/training/keep-and-stop",
    "compatibility": "explanation/stability",
    "compatible": "coming-from/ml-agents",
    "CUDA driver": "guides/machines/gpu",
    "curriculum learning": "guides/training/curriculum",
    "custom environment": "guides/environments/custom-gymnasium",
    "distributed training": "guides/machines/processes",
    "early stopping": "guides/training/keep-and-stop",
    "entropy coefficient": "guides/training/it-does-not-learn",
    "exit code": "reference/commands/index",
    "exit status": "reference/commands/index",
    "has no settings": "reference/errors/agents",
    "headless": "guides/environments/unity-cameras",
    "how do I cite": "faq",
    "how to write a callback": "guides/extend/callbacks",
    "hyperparameter tuning": "guides/training/tune",
    "imitation learning": "guides/training/imitation",
    "it does not learn": "guides/training/it-does-not-learn",
    "learning_rate": "reference/settings/ppo",
    "mlagents difference": "coming-from/ml-agents-differences",
    "multi-GPU": "guides/machines/processes",
    "not learning": "guides/training/it-does-not-learn",
    "observation normalization": "reference/settings/networks",
    "ONNX Runtime": "guides/results/onnx",
    "Optuna": "guides/training/tune",
    "python versions": "install",
    "resume": "guides/training/keep-and-stop",
    "reward does not rise": "guides/training/it-does-not-learn",
    "self play settings": "reference/settings/self-play",
    "side channel": "guides/environments/side-channels",
    "soft actor-critic": "explanation/algorithms/sac",
    "standard error": "guides/training/compare",
    "SubprocVecEnv": "coming-from/stable-baselines3-tools",
    "TensorBoard": "guides/results/trackers",
    "throughput": "benchmarks",
    "time_horizon": "reference/settings/behaviors",
    "TimeLimit": "reference/spaces",
    "truncation": "reference/spaces",
}
"""What is typed into the search, and a page that is among the first three that it finds."""
FIRST = "[...document.querySelectorAll('.md-search-result__item')].slice(0, 3).map(one => one.querySelector('a').href)"
BROKEN = "[...document.images].filter(one => one.complete && !one.naturalWidth).map(one => one.src)"


@pytest.fixture(scope="module")
def pages() -> list[str]:
    """Addresses of the built site's pages, without those that only show a file."""
    commands = [
        [sys.executable, "docs/site/prepare.py"],
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--config-file", "build/site/mkdocs.yml"],
    ]
    for command in commands:
        environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        assert (done.returncode, done.stdout + done.stderr) == (0, "")
    found = sorted(path for path in SITE.rglob("*.html") if "source" not in path.relative_to(SITE).parts)
    return [path.as_uri() for path in found if path.name != "404.html"]


@pytest.fixture(params=[(size, dark) for size in SIZES for dark in (False, True)], ids=str)
def window(request: pytest.FixtureRequest, browser: sync_api.Browser) -> Iterator[Any]:
    size, dark = request.param
    context = browser.new_context(viewport=SIZES[size], color_scheme="dark" if dark else "light")
    yield context.new_page()
    context.close()


@pytest.mark.slow
def test_every_page_opens_without_errors_and_fits_the_window(pages: list[str], window: Any):
    errors, beyond = list[str](), list[str]()
    window.on("pageerror", lambda error: errors.append(str(error)))
    window.on("request", lambda asked: beyond.append(asked.url) if asked.url.startswith("http") else None)
    for page in pages:
        window.goto(page)
        assert window.evaluate(BROKEN) == [], page
        spilled = [one for one in window.evaluate(SPILLS) if "md-select" not in one and "md-nav" not in one]
        assert [one for one in spilled if one.startswith("beyond")] == [], page
    assert (errors, beyond) == ([], [])


@pytest.mark.slow
def test_search_finds_what_people_type(pages: list[str], visit: Callable[..., Visitor]):
    someone = visit((SITE / "index.html").as_uri())
    field = someone.page.locator(".md-search__input")
    for typed, place in FINDS.items():
        field.fill(typed)
        field.press("End")  # only a key starts the search
        wanted = f"/{place}.html"
        until(lambda wanted=wanted: any(wanted in one for one in someone.page.evaluate(FIRST)), 30, f"{typed}: {place}")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["index", "guides/training/it-does-not-learn", "reference/settings/index"])
def test_a_page_is_accessible_and_has_a_neighbour(pages: list[str], window: Any, name: str):
    window.goto((SITE / f"{name}.html").as_uri())
    assert violations(window) == []
    assert window.locator(".md-footer__link--next").count() == 1
    SHOTS.mkdir(parents=True, exist_ok=True)
    window.screenshot(path=SHOTS / f"site-{name.replace('/', '-')}.png")
