"""Masks of Gymnasium environments: from infos or a method, of single and vector environments, and where they are
missing.
"""

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
        self.gives = gives
        self.length = length
        self.tick = 0
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
    return [
        step.action_mask[area].nonzero().squeeze(1).tolist()
        for step in steps
        if step.action_mask is not None and step.acting[area]
    ]


KINDS = {
    "single": lambda *kinds: GymnasiumEnv.wrap([kind() for kind in kinds]),
    **{
        mode.name: lambda *kinds, mode=mode: GymnasiumEnv.wrap(Sync(kinds, autoreset_mode=mode))
        for mode in AutoresetMode
    },
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
    with pytest.warns(
        UserWarning, match="an info has no 'action_mask', though others have: every choice is allowed there"
    ) as told:
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
    with pytest.raises(EnvError, match=r"area 0: the mask in info\['action_mask'\] forbids all 4 choices of branch 0"):
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


@pytest.mark.parametrize(
    "mask", [np.array([1, np.nan, 0, 0]), [1.0, float("nan"), 0, 0], [True, "x", True, True]], ids=str
)
@pytest.mark.parametrize("made", KINDS)
def test_a_mask_that_holds_no_number_is_refused_with_its_area(made: str, mask: Any):
    with pytest.raises(
        EnvError, match=r"area 1: the mask (env\.)?action_masks\(\) holds '?(nan|True|x)'?; expected True or False"
    ):
        play(KINDS[made](lambda: Odd(np.ones(4)), lambda: Odd(mask)), 3)


@pytest.mark.parametrize("made", KINDS)
def test_an_exception_of_the_mask_method_names_the_area(made: str):
    with pytest.raises(
        EnvError,
        match=r"raised an error in action_masks, area 1: RuntimeError: no mask today \(.*test_gymnasium_masks.py, line",
    ):
        play(KINDS[made](lambda: Odd(np.ones(4)), Odd), 3)


class TwoHands(Door):
    action_space = spaces.Dict(
        left=spaces.Discrete(2), right=spaces.MultiDiscrete([2, 3]), turn=spaces.Box(-1, 1, (1,))
    )


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


class Shows(Door):
    """Shows the mask as an entry of the observation; `keys` lead to it."""

    keys: tuple[str, ...] = ("action_mask",)
    mask_space: spaces.Space = spaces.Box(0, 1, (4,), np.float32)

    def __init__(self, *arguments: Any, **metadata: Any) -> None:
        super().__init__(*arguments, **metadata)
        space = self.mask_space
        for key in reversed(self.keys):
            space = spaces.Dict({key: space})
        self.observation_space = spaces.Dict({"tick": Door.observation_space, **space.spaces})

    def reset(self, *, seed=None, options=None):
        obs, _ = super().reset()
        return self._shown(obs), {}

    def step(self, action):
        obs, *rest, _ = super().step(action)
        return self._shown(obs), *rest, {}

    def _shown(self, obs: np.ndarray) -> dict[str, Any]:
        mask: Any = np.eye(4, dtype=np.float32)[self.tick]
        for key in reversed(self.keys):
            mask = {key: mask}
        return {"tick": obs, **mask}


@pytest.mark.parametrize("kind", KINDS)
def test_an_entry_of_the_observation_masks_the_actions_and_is_not_observed(kind: str):
    env = KINDS[kind](Shows, Shows)
    assert [obs.name for obs in env.behaviors[env.behavior].obs] == ["tick"]
    assert choices(play(env, 5))[:3] == [[0], [1], [2]]
    assert "'action_mask' in the observation is the mask" in env.traits.notes[0]


@pytest.mark.parametrize("keys", [("mask",), ("legal_actions",), ("avail_actions",), ("board", "action_mask")])
def test_the_mask_of_an_observation_has_the_names_that_other_libraries_give_it(keys: tuple[str, ...]):
    env = GymnasiumEnv.wrap(type("Named", (Shows,), {"keys": keys})())
    assert choices(play(env, 2)) == [[0], [1], [2]]


def test_an_entry_of_another_form_stays_an_observation():
    class Embedded(Shows):  # as in RLlib's example of parametric actions, one row for each action
        keys = ("avail_actions",)
        mask_space = spaces.Box(-1, 1, (4, 1), np.float32)

        def _shown(self, obs: np.ndarray) -> dict[str, Any]:
            return {"tick": obs, "avail_actions": np.full((4, 1), 0.5, np.float32)}

    env = GymnasiumEnv.wrap(Embedded())
    assert {obs.name for obs in env.behaviors[env.behavior].obs} == {"tick", "avail_actions"}
    assert play(env, 0)[0].action_mask is None


def renamed(key: str, form: Any) -> type[Door]:
    return type("Renamed", (Door,), {"_info": lambda self: {key: form(self.tick)}})


@pytest.mark.parametrize("key", ["mask", "legal_actions", "avail_actions", "valid_action_mask"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_info_has_the_mask_under_the_names_that_other_libraries_give_it(kind: str, key: str):
    made = renamed(key, lambda tick: np.arange(4) == tick)
    assert choices(play(KINDS[kind](made, made), 2)) == [[0], [1], [2]]


def test_an_info_may_list_the_numbers_of_the_allowed_choices():
    assert choices(play(GymnasiumEnv.wrap(renamed("legal_actions", lambda tick: [tick])()), 2)) == [[0], [1], [2]]
    ambiguous = renamed("legal_actions", lambda tick: [0, 1])()
    ambiguous.action_space = spaces.Discrete(2)
    with pytest.raises(EnvError, match=r"is \[0, 1\], which may be a mask or the numbers of the allowed choices"):
        GymnasiumEnv.wrap(ambiguous).reset(0)


def test_an_info_that_only_has_the_name_of_a_mask_is_no_mask():
    assert play(GymnasiumEnv.wrap(renamed("mask", lambda tick: np.zeros((9, 9)))()), 0)[0].action_mask is None
    with pytest.warns(
        UserWarning,
        match=r"area 0: info\['legal_actions'\] is no mask of the actions, and is ignored: expected 4 times",
    ):
        assert (
            GymnasiumEnv.wrap(renamed("legal_actions", lambda tick: ["left"])()).reset(0)["Renamed"].action_mask is None
        )


@pytest.mark.parametrize("name", ["valid_action_mask", "get_action_mask", "action_mask"])
def test_a_method_gives_the_mask_under_each_of_its_usual_names(name: str):
    asked = type("Asked", (Door,), {"_info": lambda self: {}, name: lambda self: np.arange(4) == self.tick})
    assert choices(play(GymnasiumEnv.wrap(asked()), 2)) == [[0], [1], [2]]
    # as Taxi's, which asks for a state
    needy = type("Needy", (Door,), {"_info": lambda self: {}, name: lambda self, state: None})
    assert play(GymnasiumEnv.wrap(needy()), 0)[0].action_mask is None


def test_the_name_of_the_mask_may_be_said():
    assert choices(
        play(GymnasiumEnv.wrap(renamed("possible", lambda tick: np.arange(4) == tick)(mask_key="possible")), 1)
    ) == [[0], [1]]
    env = GymnasiumEnv.wrap(Shows(mask_key=False))
    assert {obs.name for obs in env.behaviors[env.behavior].obs} == {"tick", "action_mask"}
    assert play(env, 0)[0].action_mask is None


def test_a_mask_for_each_branch_of_the_observation_masks_a_multi_discrete():
    class Levers(Shows):
        action_space = spaces.MultiDiscrete([2, 2])
        mask_space = spaces.Tuple([spaces.MultiBinary(2), spaces.MultiBinary(2)])

        def _shown(self, obs: np.ndarray) -> dict[str, Any]:
            return {"tick": obs, "action_mask": (np.array([0, 1], np.int8), np.array([1, 1], np.int8))}

    for env in (
        GymnasiumEnv.wrap(Levers()),
        GymnasiumEnv.wrap(Sync([Levers, Levers], autoreset_mode=AutoresetMode.SAME_STEP)),
    ):
        mask = env.reset(0)[env.behavior].action_mask
        assert mask is not None
        assert mask[-1].tolist() == [False, True, True, True]
