"""Panel of one agent: its observations, its action distribution, its value and rewards."""

from __future__ import annotations

import base64
import math

import numpy as np
from nicegui import ui
from numpy.typing import NDArray

from palaestra.envs.ray_fans import RayFan, RayHit
from palaestra.runtime.playback.annotations import color_of
from palaestra.runtime.playback.inspection import AgentInspection
from palaestra.runtime.playback.playing import encoded
from palaestra.web.layout import card, quiet
from palaestra.web.watch.agents_table import agent_number, agents_in_play
from palaestra.web.watch.watched import WatchedPlayback

MOST = 60
"""Numbers of an observation that are shown one by one."""
MOST_AGENTS = 256
"""Agents of a behavior to choose from."""


class AgentPanel:
    """Shows the agent that was clicked, twice a second."""

    def __init__(self, watched: WatchedPlayback) -> None:
        self._watched = watched
        self._chosen: tuple[str, int] | None = None
        with card("Agent"):
            self._select = (
                ui.select({}, label="Click an agent, or choose one").props("dense outlined").classes("w-full").props("data-mark=agent")
            )
            self._select.on_value_change(lambda event: self._selected(event.value))
            self._facts = ui.label().classes("text-sm whitespace-pre-line").props("data-mark=agent-facts")
            self._actions = ui.column().classes("w-full gap-1")
            self._obs = ui.column().classes("w-full gap-1").style("max-height: 420px; overflow: auto")

    def choose(self, behavior: str, slot: int) -> None:
        """Shows another agent. An empty behavior means the one that the slot's agent has now."""
        steps = self._watched.playback.steps
        if not isinstance(slot, int) or slot < 0:  # the browser may send anything
            return
        name = behavior or next((name for name, step in steps.items() if slot < len(step.acting) and bool(step.acting[slot])), "")
        if name in steps:
            self._select.set_value(f"{name}#{slot}")

    def _label(self, behavior: str, slot: int) -> str:
        return f"{behavior}, agent {agent_number(self._watched.playback, behavior, slot)}"

    def _slots(self, behavior: str) -> list[int]:
        playback = self._watched.playback
        return agents_in_play(playback, behavior) if playback.presence else list(range(len(playback.steps[behavior].reward)))

    def _follow(self, options: dict[str, str]) -> None:
        """Shows the same agent in the slot in which its next episode is."""
        looked = self._watched.playback.looked
        if self._chosen is not None and looked is not None:
            key = f"{looked[0]}#{looked[1]}"
            options.setdefault(key, self._label(*looked))
            if looked != self._chosen:
                self._select.set_options(options, value=key)

    def _selected(self, value: object) -> None:
        behavior, _, slot = str(value).rpartition("#")
        self._chosen = (behavior, int(slot)) if slot.isdecimal() else None
        if self._chosen is not None:
            self._watched.playback.look_at(*self._chosen)
            self.refresh()

    def refresh(self) -> None:
        """Updates the panel."""
        steps = self._watched.playback.steps
        options = {f"{name}#{slot}": self._label(name, slot) for name in steps for slot in self._slots(name)[:MOST_AGENTS]}
        self._follow(options)
        if options.keys() != (self._select.options.keys() if isinstance(self._select.options, dict) else ()):
            self._select.set_options(options)
        if self._chosen is None:
            return
        found = self._watched.inspector.look(*self._chosen)
        if found is None:
            self._facts.set_text("This agent has gone.")
            return
        value = "unknown (no checkpoint with a critic)" if found.value is None else f"{found.value:.3f}"
        self._facts.set_text(
            f"Team {found.team}\nReward so far: {found.reward:.3f} in {found.length:,} ticks\nExpected from here (value): {value}"
        )
        self._show_actions(found)
        self._show_obs(found)

    def _show_actions(self, found: AgentInspection) -> None:
        self._actions.clear()
        with self._actions:
            for number, (mean, deviation) in enumerate(found.continuous):
                quiet(f"Action {number}: {mean:+.2f} ± {deviation:.2f}")
                _bar((mean + 1) / 2)
            for branch, probabilities in enumerate(found.discrete):
                quiet(f"Branch {branch}")
                for choice, probability in enumerate(probabilities):
                    with ui.row().classes("w-full items-center gap-2 no-wrap"):
                        ui.label(f"{choice}").classes("text-xs w-6")
                        _bar(probability)
                        ui.label(f"{probability:.2f}").classes("text-xs w-10")

    def _show_obs(self, found: AgentInspection) -> None:
        self._obs.clear()
        with self._obs:
            for name, values in found.obs.items():
                quiet(f"{name} {'x'.join(map(str, values.shape))}")
                for fan, hits in found.rays:
                    if fan.obs == name:
                        _rays(fan, hits)
                if values.ndim == 3:
                    _picture(values)
                else:
                    _numbers(values)


def _bar(share: float) -> None:
    ui.linear_progress(value=min(max(share, 0.0), 1.0), show_value=False, size="8px").props("instant-feedback rounded").classes("grow")


def _rays(fan: RayFan, hits: list[RayHit]) -> None:
    """Shows what each ray hit, from the left to the right, in the color that the ray has in the scene."""
    with ui.grid(columns="auto auto 1fr auto").classes("w-full gap-x-2 gap-y-0 items-center").props("data-mark=rays"):
        for hit in sorted(hits, key=lambda hit: -hit.angle):
            name = "nothing" if not hit.hit else "untagged" if hit.tag is None else fan.tags[hit.tag]
            red, green, blue = color_of(hit)
            ui.element("div").style(f"width: 10px; height: 10px; border-radius: 5px; background: rgb({red}, {green}, {blue})")
            ui.label(f"{math.degrees(hit.angle):.0f}°").classes("text-xs p-quiet text-right")
            ui.label(name).classes("text-xs")
            ui.label(f"{hit.distance:.1f} m" if hit.hit else "").classes("text-xs")


def _numbers(values: NDArray[np.float32]) -> None:
    """Shows numbers one by one, each with a bar from -1 to 1; a long observation as a strip of shades."""
    flat = values.ravel()
    if len(flat) <= MOST:
        with ui.grid(columns="auto 1fr auto").classes("w-full gap-x-2 gap-y-0 items-center"):
            for number, value in enumerate(flat.tolist()):
                ui.label(f"{number}").classes("text-xs p-quiet")
                _bar((value + 1) / 2)
                ui.label(f"{value:.3f}").classes("text-xs")
        return
    width = 32
    rows = np.pad(flat, (0, -len(flat) % width)).reshape(-1, width)
    _image((np.clip((rows + 1) / 2, 0, 1) * 255).astype(np.uint8)[..., None].repeat(3, 2), 8)


def _picture(values: NDArray[np.float32]) -> None:
    """Shows an image as the agent sees it: colors, or one color for each channel of a grid."""
    channels, height, width = values.shape
    if channels == 3:
        image = np.moveaxis(values, 0, -1)
    elif channels == 1:
        image = np.moveaxis(values, 0, -1).repeat(3, 2)
    else:
        hues = np.stack([np.cos(2 * np.pi * (np.arange(channels) / channels + shift)) / 2 + 0.5 for shift in (0, 1 / 3, 2 / 3)], 1)
        image = np.einsum("chw,cr->hwr", np.clip(values, 0, 1), hues)
    _image((np.clip(image, 0, 1) * 255).astype(np.uint8), max(1, 260 // max(height, width)))


def _image(picture: NDArray[np.uint8], scale: int) -> None:
    large = picture.repeat(scale, 0).repeat(scale, 1)
    data = base64.b64encode(encoded(large) or b"").decode()
    ui.image(f"data:image/jpeg;base64,{data}").style(f"width: {large.shape[1]}px; max-width: 100%").props("no-spinner no-transition")
