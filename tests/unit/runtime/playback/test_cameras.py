"""Pictures of what agents see."""

from dataclasses import replace

import numpy as np
import torch
from runtime.playback.test_agent_slots import table

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.runtime.playback.cameras import GAP, HEIGHT, camera_pictures, has_cameras

BLIND = BehaviorSpec((ObsSpec("numbers", (2,)), ObsSpec("grid", (5, 4, 4))), ActionSpec(1, ()))
SEES = BehaviorSpec((ObsSpec("camera", (3, 20, 30)), ObsSpec("depth", (1, 10, 10))), ActionSpec(1, ()))
FACTOR = HEIGHT // 20


def seen(acting: str) -> dict[str, object]:
    slots = len(acting)
    camera = torch.arange(slots)[:, None, None, None].expand(slots, 3, 20, 30) / 4
    sees = replace(table(acting), obs=(camera, torch.ones(slots, 1, 10, 10)))
    return {"Sees": sees, "Blind": replace(table("x"), obs=(torch.zeros(1, 2), torch.zeros(1, 5, 4, 4)))}


def test_what_chosen_agents_see_is_shown_enlarged_side_by_side():
    steps = seen("xxx")
    behaviors = {"Blind": BLIND, "Sees": SEES}
    picture = camera_pictures(behaviors, steps, [("Sees", 2)])  # type: ignore[arg-type]
    assert picture.shape == (HEIGHT, 30 * FACTOR + GAP + 240, 3)
    assert (picture[:, : 30 * FACTOR] == int(0.5 * 255)).all()
    assert (picture[:, -240:] == 255).all()


def test_without_a_chosen_agent_with_a_camera_the_first_that_act_are_shown():
    steps = seen("-x")
    behaviors = {"Blind": BLIND, "Sees": SEES}
    picture = camera_pictures(behaviors, steps, [("Blind", 0)])  # type: ignore[arg-type]
    assert (picture[:, : 30 * FACTOR] == int(0.25 * 255)).all()
    assert camera_pictures({"Blind": BLIND}, steps, []) is None  # type: ignore[arg-type]
    assert has_cameras(behaviors)
    assert not has_cameras({"Blind": BLIND})
    assert np.isin(picture[:, 30 * FACTOR : 30 * FACTOR + GAP], 0).all()
