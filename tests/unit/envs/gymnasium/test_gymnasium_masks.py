"""Masks of Gymnasium environments: from infos or a method, of single and vector environments, and where they are missing."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from palaestra.core.errors import EnvError
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.gymnasium import GymnasiumEnv

LENGTH = 3


class Door(gymnasium.Env):
    """Allows one choice: the number of the tick. `gives`: ticks on which it gives a mask; 0 is `reset`."""

    observation_space = spaces.Box(0, 9, (1,), np.float32)
    action_space: spaces.Space = spaces.Discrete(4)

    def __init__(self, gives: tuple[int, ...] = (0, 1, 2, 3), length: int = LENGTH, **metadata: Any) -> None:
        self.gives, self.length, self.tick = gives, length, 0
        self.metadata = {**self.metadata, **metadata}

    def reset(self, *, seed=None, options=None):
        self.tick = 0
        return np.zeros(1, np.float32), self._info()

    def step(self, action):
        if self.tick in self.gives:
            assert int(action) == self.tick
        self.tick += 1
        return np.full(1, self.tick, np.float32), 1.0, self.tick == self.length, False, self._info()

    def _info(self) -> dict[str, Any]:
        return {"action_mask": np.eye(4, dtype=np.int8)[self.tick]} if self.tick in self.gives else {}


class AsksMethod(Door):
    def _info(self) -> dict[str, Any]:
        return {}

    def action_masks(self) -> np.ndarray:
        return np.arange(4) == self.tick


class HasProperty(AsksMethod):
    @property
    def action_masks(self) -> np.ndarray:
        return np.arange(4) == self.tick


class Sync(SyncVectorEnv):
    """Goes through the adapters of vector environments; a SyncVectorEnv itself is stepped one by one."""


def play(env: GymnasiumEnv, ticks: int) -> list[TimeStep]:
    """Takes the last choice that is allowed."""
    steps = [env.reset(0)[env.behavior]]
    for _ in range(ticks):
        mask = steps[-1].action_mask
        allowed = torch.ones(env.num_areas, 4, dtype=torch.bool) if mask is None else mask
        choice = (allowed * torch.arange(1, 5)).argmax(1, keepdim=True)
        steps.append(env.step({env.behavior: Action(torch.zeros(env.num_areas, 0), choice)})[env.behavior])
    return steps


def choices(steps: list[TimeStep], area: int = 0) -> list[list[int]]:
    return [step.action_mask[area].nonzero().squeeze(1).tolist() for step in steps if step.action_mask is not None and step.acting[area]]


KINDS = {
    "single": lambda *kinds: GymnasiumEnv.wrap([kind() for kind in kinds]),
    **{mode.name: lambda *kinds, mode=mode: GymnasiumEnv.wrap(Sync(kinds, autoreset_mode=mode)) for mode in AutoresetMode},
}


@pytest.mark.parametrize("kind", [Door, AsksMethod, HasProperty])
@pytest.mark.parametrize("made", KINDS)
def test_masks_follow_the_episodes_wherever_they_come_from(made: str, kind: type[Door]):
    steps = play(KINDS[made](kind, lambda: kind(length=2)), 9)
    assert choices(steps, 0)[:7] == [[0], [1], [2], [0], [1], [2], [0]]
    assert choices(steps, 1)[:6] == [[0], [1], [0], [1], [0], [1]]


@pytest.mark.parametrize("made", KINDS)
def test_where_a_mask_is_missing_every_choice_is_allowed_and_a_warning_says_so_once(made: str):
    env = KINDS[made](lambda: Door(gives=(0, 2)))
    with pytest.warns(UserWarning, match="an info has no 'action_mask', though others have: every choice is allowed there") as told:
        steps = play(env, 8)
    assert choices(steps)[:4] == [[0], [0, 1, 2, 3], [2], [0]]
    assert len(told) == 1


@pytest.mark.parametrize("made", KINDS)
def test_masks_that_begin_after_reset_are_refused_with_what_to_do(made: str):
    with pytest.raises(EnvError, match=r"in `step` but not in `reset`.*env_options.missing_mask_allows_all=true"):
        play(KINDS[made](lambda: Door(gives=(1, 2))), 8)


@pytest.mark.parametrize("made", KINDS)
def test_masks_may_begin_after_reset_where_the_environment_says_that_all_is_allowed_until_then(made: str):
    steps = play(KINDS[made](lambda: Door(gives=(1, 2), missing_mask_allows_all=True)), 8)
    assert choices(steps)[:4] == [[0, 1, 2, 3], [1], [2], [0, 1, 2, 3]]


def test_an_option_says_the_same_for_an_id():
    gymnasium.register("Door-v0", Door, kwargs={"gives": (1, 2)})
    try:
        env = GymnasiumEnv("Door-v0", 2, missing_mask_allows_all=True)
        assert choices(play(env, 3)) == [[0, 1, 2, 3], [1], [2], [0, 1, 2, 3]]
        with pytest.raises(EnvError, match="missing_mask_allows_all is 'yes'; expected true or false"):
            GymnasiumEnv("Door-v0", 2, missing_mask_allows_all="yes")
    finally:
        del gymnasium.registry["Door-v0"]


class ForbidsAll(Door):
    def __init__(self) -> None:
        super().__init__(gives=())

    def _info(self) -> dict[str, Any]:
        return {"action_mask": np.zeros(4, np.int8) if self.tick else np.ones(4, np.int8)}


def test_a_mask_that_forbids_everything_is_refused():
    with pytest.raises(EnvError, match=r"area 0: the mask info\['action_mask'\] forbids all 4 choices of branch 0"):
        play(GymnasiumEnv.wrap([ForbidsAll()]), 2)


class Odd(AsksMethod):
    """Gives an odd mask on the second tick."""

    def __init__(self, mask: Any = None, length: int = LENGTH) -> None:
        super().__init__(gives=(), length=length)
        self.mask = mask

    def action_masks(self) -> Any:
        if self.tick != 2:
            return np.ones(4)
        if self.mask is None:
            raise RuntimeError("no mask today")
        return self.mask


@pytest.mark.parametrize("mask", [np.array([1, np.nan, 0, 0]), [1.0, float("nan"), 0, 0], [True, "x", True, True]], ids=str)
@pytest.mark.parametrize("made", KINDS)
def test_a_mask_that_holds_no_number_is_refused_with_its_area(made: str, mask: Any):
    with pytest.raises(EnvError, match=r"area 1: the mask (env\.)?action_masks\(\) holds '?(nan|True|x)'?; expected True or False"):
        play(KINDS[made](lambda: Odd(np.ones(4)), lambda: Odd(mask)), 3)


@pytest.mark.parametrize("made", KINDS)
def test_an_exception_of_the_mask_method_names_the_area(made: str):
    with pytest.raises(EnvError, match=r"broke off in action_masks, area 1: RuntimeError: no mask today \(.*test_gymnasium_masks.py, line"):
        play(KINDS[made](lambda: Odd(np.ones(4)), Odd), 3)


class TwoHands(Door):
    action_space = spaces.Dict(left=spaces.Discrete(2), right=spaces.MultiDiscrete([2, 3]), turn=spaces.Box(-1, 1, (1,)))


@pytest.mark.parametrize(
    "mask",
    [
        {"left": [0, 1], "right": ([1, 1], [0, 0, 1])},
        {"right": np.array([1, 1, 0, 0, 1]), "left": np.array([False, True])},
        [0, 1, 1, 1, 0, 0, 1],
    ],
    ids=["by key", "flat by key", "all in one"],
)
def test_masks_of_nested_actions_may_have_any_of_the_forms_in_use(mask: Any):
    class Masked(TwoHands):
        def _info(self) -> dict[str, Any]:
            return {"action_mask": mask}

    step = GymnasiumEnv.wrap([Masked()]).reset(0)["Masked"]
    assert step.action_mask is not None
    assert step.action_mask.tolist() == [[False, True, True, True, False, False, True]]
