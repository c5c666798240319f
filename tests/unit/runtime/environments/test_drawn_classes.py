from __future__ import annotations

import pytest

from palaestra.runtime.environments.custom_envs import call


class Drawing:
    """A user's class that takes a render mode."""

    def __init__(self, size: int = 3, render_mode: str | None = None) -> None:
        self.size = size
        self.render_mode = render_mode


class Blind:
    """A user's class that does not draw."""


@pytest.mark.parametrize(
    ("options", "mode"), [({}, None), ({"render": True}, "rgb_array"), ({"render": True, "render_mode": "x"}, "x")]
)
def test_a_class_that_takes_a_render_mode_is_given_it_where_it_is_to_be_drawn(options, mode):
    assert call(Drawing, "mine", None, "cpu", options).render_mode == mode


def test_a_class_without_a_render_mode_is_made_all_the_same():
    assert isinstance(call(Blind, "mine", None, "cpu", {"render": True}), Blind)
