"""Panel of one agent: its observations, its action distribution, its value and rewards.

Its elements are built once for each form of agent; after that only their values change, twice a second.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from nicegui import ui
from nicegui.element import Element
from numpy.typing import NDArray

from palaestra.brains.player_keys import action_names
from palaestra.core.specs import ActionSpec
from palaestra.envs.ray_fans import RayFan, RayHit
from palaestra.runtime.play.assigned_brains import AgentKey
from palaestra.runtime.playback.agent_history import Moment
from palaestra.runtime.playback.annotations import color_of
from palaestra.runtime.playback.inspection import AgentInspection
from palaestra.runtime.playback.played_env import PlayedEnv
from palaestra.runtime.playback.scene_display import as_jpeg
from palaestra.web.layout import card, marked_label, quiet
from palaestra.web.watch.agents_table import agent_number, agents_in_play
from palaestra.web.watch.watched import WatchedPlayback

MOST = 60
"""Most numbers of an observation that are shown one by one."""
ALT = "What the agent observes now"
MOST_AGENTS = 256
"""Most agents of a behavior to choose from."""


class AgentPanel:
    """Shows the agent that was clicked, twice a second."""

    def __init__(self, watched: WatchedPlayback, moment: Callable[[], Moment | None]) -> None:
        """`moment`: the shown earlier moment; None: now."""
        self._watched = watched
        self._moment = moment
        self._chosen: AgentKey | None = None
        with card("Agent"):
            self._select = ui.select({}, label="Click an agent, or choose one")
            self._select.props("dense outlined data-mark=agent").classes("w-full")
            self._select.on_value_change(lambda event: self._selected(event.value))
            self._facts = marked_label("agent-facts", "text-sm whitespace-pre-line")
            self._content = ui.column().classes("w-full gap-1")
        self._form: object = None
        self._views: list[ActionsView | ObsView] = []

    def choose(self, behavior: str, slot: int) -> None:
        """Shows another agent. An empty behavior means the behavior that the slot's agent has now."""
        game = self._watched.playback.game
        if game is None or not isinstance(slot, int) or slot < 0:  # the browser may send anything
            return
        acting = (name for name, step in game.steps.items() if slot < len(step.acting) and bool(step.acting[slot]))
        name = behavior or next(acting, "")
        if name in game.steps:
            self._select.set_value(f"{name}#{slot}")

    def _selected(self, value: object) -> None:
        behavior, _, slot = str(value).rpartition("#")
        self._chosen = (behavior, int(slot)) if slot.isdecimal() else None
        game = self._watched.playback.game
        if self._chosen is not None and game is not None:
            game.looked = self._chosen
            self.refresh()

    def _options(self, game: PlayedEnv) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, step in game.steps.items():
            slots = list(range(len(step.reward))) if game.slots is None else agents_in_play(game, name)
            agents = [(name, slot) for slot in slots[:MOST_AGENTS]]
            agents += [game.looked] if game.looked is not None and game.looked[0] == name else []
            found |= {f"{name}#{slot}": f"{name}, agent {agent_number(game, name, slot)}" for _, slot in agents}
        return found

    def refresh(self) -> None:
        """Updates the panel."""
        game = self._watched.playback.game
        if game is None:
            return
        options = self._options(game)
        if self._chosen is not None and game.looked is not None and game.looked != self._chosen:
            # the agent's next episode is in another slot
            self._select.set_options(options, value=f"{game.looked[0]}#{game.looked[1]}")
        if options.keys() != (self._select.options.keys() if isinstance(self._select.options, dict) else ()):
            self._select.set_options(options)
        if self._chosen is None:
            return
        found = self._watched.inspector.look(*self._chosen)
        if found is None:
            self._facts.set_text("This agent has gone.")
            return
        moment = self._moment()
        if moment is not None:
            found = self._watched.inspector.look_back(found, moment)
        value = "unknown (no checkpoint with a critic)" if found.value is None else f"{found.value:.3f}"
        reward = f"Reward so far: {found.reward:.3f} in {found.length:,} ticks"
        if moment is not None:
            reward = f"Reward at tick {moment.tick:,}: {found.reward:.3f}"
        self._facts.set_text(f"Team {found.team}\n{reward}\nValue, the discounted reward expected from here: {value}")
        if (form := _form(found)) != self._form:
            self._form = form
            self._build(found)
        for view in self._views:
            view.show(found)

    def _build(self, found: AgentInspection) -> None:
        self._content.clear()
        with self._content:
            game = self._watched.playback.game
            assert game is not None
            actions = ActionsView(found, game.env.behaviors[found.behavior].action)
            what = ui.column().classes("w-full gap-1").style("max-height: 420px; overflow: auto")
            what.props('tabindex=0 role=region aria-label="Observations"')
            with what:
                self._views = [actions, *(ObsView(name, found) for name in found.obs)]


def _form(found: AgentInspection) -> object:
    shapes = [(name, values.shape) for name, values in found.obs.items()]
    return (
        len(found.continuous),
        [len(branch) for branch in found.discrete],
        shapes,
        [(fan, len(hits)) for fan, hits in found.rays],
        found.unseen,
    )


class ActionsView:
    """Mean and deviation of each continuous action, and the probability of each choice."""

    def __init__(self, found: AgentInspection, action: ActionSpec) -> None:
        names, branches = action_names(found.behavior, action)
        self._means: list[tuple[SignedBar, ui.label]] = []
        if found.continuous:
            with ui.grid(columns="fit-content(55%) 1fr auto").classes("w-full gap-x-2 gap-y-0 items-center"):
                for name in names[: len(found.continuous)]:
                    ui.label(name).classes("text-xs")
                    self._means.append((SignedBar(), ui.label().classes("text-xs")))
        self._choices: list[list[tuple[ui.linear_progress, ui.label]]] = []
        for branch in range(len(found.discrete)):
            quiet("Choices" if len(found.discrete) == 1 else f"Branch {branch}")
            rows: list[tuple[ui.linear_progress, ui.label]] = []
            for name in branches[branch]:
                with ui.row().classes("w-full items-center gap-2 no-wrap"):
                    ui.label(name).classes("text-xs w-20 p-ellipsis")
                    rows.append((_bar(), ui.label().classes("text-xs w-10")))
            self._choices.append(rows)

    def show(self, found: AgentInspection) -> None:
        """Shows the agent's current distributions."""
        for (bar, text), (mean, deviation) in zip(self._means, found.continuous, strict=True):
            text.set_text(f"{round(mean, 2) + 0.0:+.2f} ± {deviation:.2f}")  # no -0.00
            bar.show(mean, deviation)
        for rows, probabilities in zip(self._choices, found.discrete, strict=True):
            for (bar, text), probability in zip(rows, probabilities, strict=True):
                _fill(bar, probability)
                text.set_text(f"{probability:.2f}")


class ObsView:
    """One observation: rays, a picture, or numbers, whose bars are full at 1 or the largest so far."""

    def __init__(self, name: str, found: AgentInspection) -> None:
        self._name = name
        values = found.obs[name]
        seen = " (its policy does not see it)" if name in found.unseen else ""
        quiet(f"{name} {'x'.join(map(str, values.shape))}{seen}").classes("p-message")
        self._rays = [RaysView(fan, hits) for fan, hits in found.rays if fan.obs == name]
        self._numbers: list[tuple[SignedBar, ui.label]] = []
        self._picture: Element | None = None
        self._largest = 1.0
        if values.ndim != 3 and values.size <= MOST:
            with ui.grid(columns="auto 1fr auto").classes("w-full gap-x-2 gap-y-0 items-center"):
                for number in range(values.size):
                    ui.label(f"{number}").classes("text-xs p-quiet")
                    self._numbers.append((SignedBar(), ui.label().classes("text-xs")))
        else:
            # not ui.image, which fades, and is empty until it has loaded each new picture
            self._picture = Element("img").style("max-width: 100%").props(f'alt="{ALT}" data-mark=seen')

    def show(self, found: AgentInspection) -> None:
        """Shows the agent's current observation."""
        values = found.obs[self._name]
        for rays, hits in zip(self._rays, (hits for fan, hits in found.rays if fan.obs == self._name), strict=True):
            rays.show(hits)
        if self._picture is not None:
            self._picture.props["src"] = _image(values)
            self._picture.update()
        if self._numbers:
            self._largest = max(self._largest, float(np.abs(values[np.isfinite(values)]).max(initial=0.0)))
        for (bar, text), value in zip(self._numbers, values.ravel().tolist(), strict=False):
            bar.show(value / self._largest)
            text.set_text(f"{value:.3f}")


class RaysView:
    """Hits of each ray of a sensor, from the left to the right, in the color that the ray has in the scene."""

    def __init__(self, fan: RayFan, hits: list[RayHit]) -> None:
        self._fan = fan
        self._rows: list[tuple[Element, ui.label, ui.label]] = []
        with (
            ui.grid(columns="auto auto 1fr auto").classes("w-full gap-x-2 gap-y-0 items-center").props("data-mark=rays")
        ):
            for hit in _in_order(hits):
                dot = ui.element("div").style("width: 10px; height: 10px; border-radius: 5px")
                ui.label(f"{math.degrees(hit.angle):.0f}°").classes("text-xs p-quiet text-right")
                self._rows.append((dot, ui.label().classes("text-xs"), ui.label().classes("text-xs")))

    def show(self, hits: list[RayHit]) -> None:
        """Shows the rays' current hits."""
        for (dot, name, far), hit in zip(self._rows, _in_order(hits), strict=True):
            dot.style(f"background: rgb{color_of(hit)}")
            name.set_text("nothing" if not hit.hit else "untagged" if hit.tag is None else self._fan.tags[hit.tag])
            far.set_text(f"{hit.distance:.1f} m" if hit.hit else "")


def _in_order(hits: list[RayHit]) -> list[RayHit]:
    return sorted(hits, key=lambda hit: -hit.angle)


class SignedBar:
    """A bar that grows from its middle line: to the right for positive numbers. The bar is full at 1.

    A paler bar around its end shows a deviation.
    """

    def __init__(self) -> None:
        with ui.element("div").classes("p-signed grow").props("aria-hidden=true"):
            self._spread = ui.element("div").classes("p-spread")
            self._bar = ui.element("div")

    def show(self, value: float, deviation: float = 0.0) -> None:
        """Draws the bar up to `value`, and the paler bar as far as `deviation` on both sides."""
        _stretch(self._bar, 0.0, value)
        _stretch(self._spread, value - deviation, value + deviation)


def _stretch(part: Element, begin: float, end: float) -> None:
    """Lays a part of a signed bar between two numbers."""
    low, high = (50 + 50 * min(max(at, -1.0), 1.0) for at in sorted((begin, end)))
    part.style(f"left: {low:.1f}%; width: {high - low:.1f}%")


def _bar() -> ui.linear_progress:
    bar = ui.linear_progress(0.0, show_value=False, size="8px")
    return bar.props("instant-feedback rounded aria-hidden=true").classes("grow")


def _fill(bar: ui.linear_progress, share: float) -> None:
    bar.set_value(round(min(max(share, 0.0), 1.0), 4))


def _image(values: NDArray[np.float32]) -> str:
    """Returns an observation as the address of a picture: its colors, a color for each channel, or shades."""
    if values.ndim != 3:
        width = 32
        rows = np.pad(values.ravel(), (0, -values.size % width)).reshape(-1, width)
        return _address(((rows + 1) / 2)[..., None].repeat(3, 2), 8)
    channels, height, width = values.shape
    if channels in (1, 3):
        image = np.broadcast_to(np.moveaxis(values, 0, -1), (height, width, 3))
    else:
        hues = np.stack(
            [np.cos(2 * np.pi * (np.arange(channels) / channels + shift)) / 2 + 0.5 for shift in (0, 1 / 3, 2 / 3)], 1
        )
        image = np.einsum("chw,cr->hwr", np.clip(values, 0, 1), hues)
    return _address(image, max(1, 260 // max(height, width)))


def _address(image: NDArray[np.floating[Any]], scale: int) -> str:
    large = (np.clip(image, 0, 1) * 255).astype(np.uint8).repeat(scale, 0).repeat(scale, 1)
    return f"data:image/jpeg;base64,{base64.b64encode(as_jpeg(large)).decode()}"
