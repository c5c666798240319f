"""Element of the page that shows a scene."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nicegui.element import Element
from nicegui.elements import scene as _three  # noqa: F401  registers three.js, which lies in NiceGUI's wheel
from nicegui.events import GenericEventArguments


class SceneCanvas(Element, component="canvas.js", default_classes="p-scene"):
    """Shows one stream: solids with three.js, or pictures. Drag turns the view; wheel or two fingers zoom."""

    def __init__(self, key: str, on_pick: Callable[[str, int], Any] | None = None) -> None:
        """`key`: the stream's. `on_pick` is called with the group and the number of the solid that was clicked."""
        super().__init__()
        self._props["stream"] = f"/scene/{key}"
        self.props('role=img aria-label="The scene"')
        if on_pick is not None:
            self.on("pick", lambda event: _pick(event, on_pick))

    def focus(self, area: int | None) -> None:
        """Looks at one area, or at all."""
        self.run_method("focus", area)

    def highlight(self, groups: tuple[str, ...], number: int | None) -> None:
        """Shows one solid of each group larger; None: no solid."""
        self.run_method("highlight", list(groups), number)

    def haunt(self, key: str | None) -> None:
        """Shows the moving solids of another stream as a ghost in this scene; None: no ghost."""
        self._props["ghost"] = "" if key is None else f"/scene/{key}"
        self.update()

    def record(self) -> None:
        """Records the browser's picture for some seconds, and downloads it as a WebM file."""
        self.run_method("record", 6.0)

    def watch(self, key: str) -> None:
        """Shows another stream."""
        self._props["stream"] = f"/scene/{key}"
        self.update()


def _pick(event: GenericEventArguments, on_pick: Callable[[str, int], Any]) -> None:
    group = event.args.get("group")
    number = event.args.get("number")
    if isinstance(group, str) and isinstance(number, int) and number >= 0:
        on_pick(group, number)
