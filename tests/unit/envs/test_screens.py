import os
import sys

import pytest

from palaestra.envs.screens import draw_in_memory

DRIVERS = ("SDL_VIDEODRIVER", "SDL_AUDIODRIVER")


@pytest.fixture
def linux(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A Linux machine without a screen, on which nobody has chosen drivers for pygame."""
    monkeypatch.setattr(sys, "platform", "linux")
    for name in (*DRIVERS, "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    return monkeypatch


def test_pygame_needs_no_screen_and_no_sound_card(linux: pytest.MonkeyPatch):
    draw_in_memory()
    assert [os.environ[name] for name in DRIVERS] == ["dummy", "dummy"]


def test_a_screen_and_drivers_of_the_user_are_kept(linux: pytest.MonkeyPatch):
    linux.setenv("SDL_VIDEODRIVER", "offscreen")
    draw_in_memory()
    assert os.environ["SDL_VIDEODRIVER"] == "offscreen"
    linux.delenv("SDL_AUDIODRIVER")
    linux.setenv("DISPLAY", ":0")
    draw_in_memory()
    assert "SDL_AUDIODRIVER" not in os.environ
