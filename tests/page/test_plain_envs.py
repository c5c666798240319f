"""The page with environments that draw nothing: an environment of one's own, and a game in Python."""

from collections.abc import Callable
from pathlib import Path

import pytest
from browser import Visitor, until, viewing

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("env", ["python:examples.own_env:Reach", "python:examples.sdk_tag:tag"])
def test_agents_of_an_environment_that_draws_nothing_are_a_table_and_a_click_looks_into_one(env, visit):
    with viewing(ROOT, env) as (_, address):
        visitor = visit(address)
        page = visitor.page
        visitor.open(f"/watch?env={env}&areas=4")
        table = page.locator("[data-mark=agents]")
        table.wait_for(timeout=60_000)
        until(lambda: table.locator("tbody tr").count() >= 4, what="four rows")
        first = table.locator("tbody tr").first
        before = first.inner_text()
        until(lambda: first.inner_text() != before, what="a row that changes")
        first.click()
        facts = page.locator("[data-mark=agent-facts]")
        until(lambda: "Reward so far" in facts.inner_text(), what="the agent's facts")
        assert visitor.spills() == []
        visitor.shoot(f"table-{env.rpartition(':')[2]}")


def test_a_game_in_python_that_draws_itself_is_shown_as_pictures(visit: Callable[..., Visitor]):
    with viewing(ROOT, "python:examples.sdk_roll:roll") as (_, address):
        visitor = visit(address)
        visitor.open("/watch?env=python:examples.sdk_roll:roll&areas=4")
        picture = visitor.page.locator("[data-mark=scene] img")
        picture.wait_for(timeout=60_000)
        before = picture.get_attribute("src")
        until(lambda: picture.get_attribute("src") != before, what="the next picture")
        assert not visitor.page.locator("[data-mark=agents]").is_visible()
        visitor.shoot("picture-roll")
