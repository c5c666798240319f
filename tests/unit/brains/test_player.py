"""A person as a brain: keys to actions."""

from pathlib import Path

import numpy as np
import pytest

from palaestra.brains.base import Role, Seen
from palaestra.brains.player import PlayerBrain
from palaestra.brains.player_keys import KeyAction, KeyMap, axis, choices, key_map, made_keys, read_keys
from palaestra.core.errors import ConfigError
from palaestra.core.plugins import registry
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.runtime.environments.make import make_env

BALL = ActionSpec(continuous=2)
SOCCER = ActionSpec(branches=(3, 3, 3))


def numbers(keys: KeyMap, *held: str, mask: list[bool] | None = None) -> tuple[list[float], list[int]]:
    continuous, discrete = keys.decide(held, None if mask is None else np.array(mask))
    return continuous.tolist(), discrete.tolist()


def player(behavior: str, action: ActionSpec, argument: str = "") -> PlayerBrain:
    spec = BehaviorSpec((ObsSpec("vector", (1,)),), action)
    return PlayerBrain(Role(behavior, spec, argument, None, 0, False))  # pyright: ignore[reportArgumentType]


def seen(rows: int = 1, mask: list[bool] | None = None) -> Seen:
    masks = None if mask is None else np.array([mask] * rows)
    return Seen(np.arange(rows), (np.zeros((rows, 1), np.float32),), masks, np.zeros(rows, np.int64))


def test_without_keys_nothing_is_done():
    assert numbers(key_map("3DBall", BALL)) == ([0, 0], [])
    assert numbers(key_map("SoccerTwos", SOCCER)) == ([], [0, 0, 0])


def test_several_keys_act_at_once():
    assert numbers(key_map("SoccerTwos", SOCCER), "w", "d", "q") == ([], [1, 2, 2])
    assert numbers(key_map("3DBall", BALL), "d", "w") == ([-1, 1], [])


def test_opposite_keys_of_an_axis_cancel_and_equal_ones_do_not_exceed_it():
    keys = KeyMap(BALL, axis(0, d="right", a="left") | {"f": KeyAction("a bit", axis=0, value=0.5)})
    assert numbers(keys, "a", "d")[0] == [0, 0]
    assert numbers(keys, "d", "f")[0] == [1, 0]
    assert numbers(keys, "a", "f")[0] == [-0.5, 0]


def test_of_two_keys_of_a_branch_the_last_pressed_counts():
    assert numbers(key_map("SoccerTwos", SOCCER), "w", "s")[1] == [2, 0, 0]
    assert numbers(key_map("SoccerTwos", SOCCER), "s", "w")[1] == [1, 0, 0]


def test_a_masked_choice_is_not_taken():
    keys = KeyMap(ActionSpec(branches=(3,)), choices(0, w="one", s="two"))
    assert numbers(keys, "w", "s", mask=[True, True, False])[1] == [1]
    assert numbers(keys, mask=[False, False, True])[1] == [2]  # idle is masked: the first allowed one


def test_arrows_and_a_gamepad_do_what_letters_do():
    keys = key_map("3DBall", BALL)
    assert numbers(keys, "ArrowRight") == numbers(keys, "d") == numbers(keys, "pad:right")
    assert ("D or →", "tilt right") in keys.table()


MANY_JOINTED = {"Crawler", "Walker", "Worm"}
"""Bodies with more joints than a person has keys for."""


@pytest.mark.parametrize("name", sorted(set(registry("envs").names()) - MANY_JOINTED))
def test_every_choice_and_both_directions_of_every_builtin_have_a_key(name: str):
    env = make_env(name, areas=1, options={})
    for behavior, spec in env.behaviors.items():
        if max(spec.action.branches, default=0) > 40:
            continue  # Match3: moves are chosen from a list
        keys = key_map(behavior, spec.action)
        effects = list(keys.keys.values())
        for number in range(spec.action.continuous):
            values = {np.sign(one.value) for one in effects if one.axis == number}
            assert values == {-1, 1} or behavior == "Tennis", (behavior, number)  # Tennis: a jump has one direction
            assert values
        for branch, size in enumerate(spec.action.branches):
            reached = {one.choice for one in effects if one.branch == branch} | {int(keys.idle[branch])}
            assert reached == set(range(size)), (behavior, branch)


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (ActionSpec(branches=(2,)), {"a": 0, "d": 1}),
        (ActionSpec(branches=(4,)), {"w": 1, "s": 2, "a": 3}),
        (ActionSpec(branches=(3, 2)), {"w": 1, "s": 2, " ": 1}),
    ],
)
def test_keys_are_made_from_discrete_actions(action: ActionSpec, expected: dict[str, int]):
    assert {key: one.choice for key, one in made_keys(action).items()} == expected


def test_keys_are_made_from_hybrid_actions_without_using_one_twice():
    keys = made_keys(ActionSpec(continuous=3, branches=(2, 4)))
    assert {key for key, one in keys.items() if one.axis is not None} == set("dawseq")
    assert [(one.branch, one.choice) for one in keys.values() if one.axis is None] == [(0, 1), (1, 1), (1, 2), (1, 3)]


def test_a_key_that_is_pressed_and_released_between_two_ticks_acts_once():
    brain = player("SoccerTwos", SOCCER)
    brain.press("W")
    brain.release("w")
    assert brain.decide(seen()).discrete.tolist() == [[1, 0, 0]]
    assert brain.decide(seen()).discrete.tolist() == [[0, 0, 0]]


def test_held_keys_act_on_every_tick_until_all_are_released():
    brain = player("3DBall", BALL)
    brain.press("ArrowLeft")
    brain.press("ArrowLeft")  # a keyboard repeats
    assert [brain.decide(seen()).continuous.tolist() for _ in range(2)] == [[[1, 0]], [[1, 0]]]
    brain.release_all()
    assert brain.decide(seen(2)).continuous.tolist() == [[0, 0], [0, 0]]


def test_a_file_of_keys_is_read(tmp_path: Path):
    file = tmp_path / "keys.yaml"
    file.write_text(
        "keys:\n  W: forward\n  Left: {branch: 2, choice: 1}\n  Space: {branch: 1, choice: 2, name: kick}\nidle: [0, "
        "1, 0]\n"
    )
    keys = read_keys(file, "SoccerTwos", SOCCER)
    assert numbers(keys, "w", "ArrowLeft", " ")[1] == [1, 2, 1]
    assert numbers(keys)[1] == [0, 1, 0]
    brain = player("SoccerTwos", SOCCER, str(file))
    brain.press(" ")
    assert brain.decide(seen()).discrete.tolist() == [[0, 2, 0]]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("keys: {W: foward}", "key W does 'foward', which is unknown; did you mean 'forward'"),
        ("keys: {W: {branch: 3, choice: 0}}", r"branches of \[3, 3, 3\] choices"),
        ("keys: {W: {branch: 0, choice: 3}}", "key W is"),
        ("keys: {W: {axis: 0}}", "0 continuous actions"),
        ("keys: {W: {branch: 0, chioce: 1}}", "'chioce' is unknown; did you mean 'choice'"),
        ("keys: {W: {branch: x}}", "'branch' is 'x'; expected a number"),
        ("keys: {W: 3}", "expected a name"),
        ("keys: {W: {branch: -1}}", "counted from 0"),
        ("kyes: {}", "expected 'keys"),
        ("keys: {}\nidel: [1]", "'idel' is unknown"),
        ("keys: {}\nidle: [7]", "'idle' is"),
        ("keys: [", "is no YAML"),
    ],
)
def test_a_wrong_file_is_refused_with_the_place(tmp_path: Path, text: str, why: str):
    file = tmp_path / "keys.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=why) as caught:
        read_keys(file, "SoccerTwos", SOCCER)
    assert str(file) in str(caught.value)


def test_a_file_that_is_missing_is_named(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"none\.yaml cannot be read: No such file"):
        player("SoccerTwos", SOCCER, str(tmp_path / "none.yaml"))
