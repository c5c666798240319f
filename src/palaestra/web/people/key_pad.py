"""Keys of the keyboard, and buttons for those who have none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nicegui.element import Element
from nicegui.events import GenericEventArguments

from palaestra.brains.player_keys import SHOWN, KeyMap


class KeyPad(Element, component="pad.js"):
    """Calls `on_hold` with each key that is pressed (True) or released (False), and with "" when all are released."""

    def __init__(self, keys: KeyMap | None, on_hold: Callable[[str, bool], Any]) -> None:
        super().__init__()
        self._props["buttons"] = [] if keys is None else buttons(keys)
        self._on_hold = on_hold
        self.on("hold", self._hold)

    def _hold(self, event: GenericEventArguments) -> None:
        key = event.args.get("key")
        down = event.args.get("down")
        if isinstance(key, str) and isinstance(down, bool):  # the browser may send anything
            self._on_hold(key, down)


def buttons(keys: KeyMap) -> list[dict[str, str]]:
    """Returns a button for each effect of a key, labeled with its first key."""
    first: dict[object, str] = {}
    for key, effect in keys.keys.items():
        if not key.startswith("pad:"):
            first.setdefault(effect, key)
    return [
        {"key": key, "shown": SHOWN.get(key, key.upper()), "name": getattr(effect, "name", "")}
        for effect, key in first.items()
    ]
