"""Keys of a person who plays: which key sets a choice of a branch, or moves a continuous action to a value.

A file of keys (YAML) for `--brain BEHAVIOR=player:KEYS.yaml`:
    keys:
      W: {branch: 0, choice: 1, name: forward}
      Left: {axis: 0, value: -1}
      Space: {branch: 1, choice: 1}
    idle: [0, 0]                             # choice of each branch while none of its keys is held
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palaestra.core.errors import ConfigError
from palaestra.core.files import read_whole_text
from palaestra.core.plugins import nearest
from palaestra.core.specs import ActionSpec

ARROWS = {"Up": "ArrowUp", "Down": "ArrowDown", "Left": "ArrowLeft", "Right": "ArrowRight", "Space": " "}
"""Names of arrow keys in files and in a browser (`KeyboardEvent.key`); all other keys have the same name in both."""
SHOWN = {"ArrowUp": "↑", "ArrowDown": "↓", "ArrowLeft": "←", "ArrowRight": "→", " ": "Space"}
PADS = {
    "w": ("ArrowUp", "pad:up"),
    "s": ("ArrowDown", "pad:down"),
    "a": ("ArrowLeft", "pad:left"),
    "d": ("ArrowRight", "pad:right"),
}
"""Buttons and directions of a gamepad that act like a letter key, unless they have an action of their own."""
BUTTONS = {" ": "pad:0", "e": "pad:5", "q": "pad:4"}
"""Buttons of a gamepad, by their numbers in browsers, that act like a key."""


@dataclass(frozen=True, slots=True)
class KeyAction:
    """Effect of one key while it is held: a choice of a branch, or a value of a continuous action."""

    name: str
    branch: int | None = None
    choice: int = 0
    axis: int | None = None
    value: float = 1.0


def choices(branch: int, first: int = 1, /, **names: str) -> dict[str, KeyAction]:
    """Returns effects of keys on a branch: its choices from `first` on, one after another."""
    return {key: KeyAction(name, branch=branch, choice=k) for k, (key, name) in enumerate(names.items(), first)}


def axis(number: int, /, **names: str) -> dict[str, KeyAction]:
    """Returns the effect of a key that raises a continuous action, and, if named, of a key that lowers it."""
    values = zip((1.0, -1.0), names.items(), strict=False)
    return {key: KeyAction(name, axis=number, value=value) for value, (key, name) in values}


DRIVE = choices(0, 0, w="forward", s="back", d="turn right", a="turn left")
DRIVE_OR_STAY = choices(0, w="forward", s="back", d="turn right", a="turn left")
PUSH = DRIVE_OR_STAY | choices(0, 5, q="step left", e="step right")
TURN = choices(2, a="turn left", d="turn right")
SOCCER = choices(0, w="forward", s="back") | choices(1, e="step right", q="step left") | TURN
WALL = (
    choices(0, w="forward", s="back")
    | choices(1, a="turn left", d="turn right")
    | choices(2, q="step left", e="step right")
    | choices(3, **{" ": "jump"})
)
BALL = axis(1, w="tilt back", s="tilt forward") | axis(0, a="tilt left", d="tilt right")
BEHAVIORS: Mapping[str, Mapping[str, KeyAction]] = {
    **dict.fromkeys(("3DBall", "3DBallHard", "Visual3DBall"), BALL),
    "Basic": choices(0, a="left", d="right"),
    "CartPole": choices(0, 0, a="left", d="right"),
    "GridWorld": choices(0, w="up", s="down", a="left", d="right"),
    **dict.fromkeys(("Hallway", "Pyramids"), DRIVE_OR_STAY),
    **dict.fromkeys(("PushBlock", "DungeonEscape", "CooperativePushBlock", "PushBlockCollab"), PUSH),
    **dict.fromkeys(("SoccerTwos", "Striker", "Goalie", "Sorter"), SOCCER),
    **dict.fromkeys(("SmallWallJump", "BigWallJump", "WallJump"), WALL),
    "FoodCollector": (
        axis(0, w="forward", s="back")
        | axis(2, a="turn left", d="turn right")
        | axis(1, e="step right", q="step left")
        | choices(0, **{" ": "laser"})
    ),
    "Tennis": (
        axis(0, d="to the net", a="from the net") | axis(1, **{" ": "jump"}) | axis(2, s="racket down", w="racket up")
    ),
    "RingOut": choices(0, d="0°", e="45°", w="90°", q="135°", a="180°", z="225°", s="270°", c="315°"),
}
"""Keys of the built-in environments by behavior: Unity's own keys if Unity's scene has keys."""
PAIRS = (("d", "a"), ("w", "s"), ("e", "q"), ("l", "j"), ("i", "k"), ("o", "u"))
"""Keys for continuous actions whose meaning is not known: one key raises the value, one lowers it."""
ROWS = ("wsadqe", "ikjluo", "tgfhry")
"""Keys for the choices of branches whose meaning is not known."""


def action_names(behavior: str, action: ActionSpec) -> tuple[list[str], list[list[str]]]:
    """Returns a name for each continuous action, and for each choice of each branch: names from its keys, else numbers.

    A continuous action has the names of its keys for up and for down.
    """
    keys = list(BEHAVIORS.get(behavior, {}).values())
    continuous = []
    for number in range(action.continuous):
        ways = [key.name for key in sorted(keys, key=lambda key: -key.value) if key.axis == number]
        continuous.append(" / ".join(ways) or f"action {number}")
    branches = []
    for branch, size in enumerate(action.branches):
        named = {key.choice: key.name for key in keys if key.branch == branch}
        rest = "none" if named and len(named) == size - 1 else ""
        branches.append([named.get(choice, rest or str(choice)) for choice in range(size)])
    return continuous, branches


class KeyMap:
    """Turns the keys that are held into an action."""

    def __init__(self, action: ActionSpec, keys: Mapping[str, KeyAction], idle: Iterable[int] = ()) -> None:
        self.action = action
        self.idle = np.array([*idle, *([0] * len(action.branches))][: len(action.branches)], np.int64)
        """`idle` is the choice of each branch while none of its keys is held."""
        self.keys: dict[str, KeyAction] = dict(keys)
        for key, other in (*((key, other) for key, others in PADS.items() for other in others), *BUTTONS.items()):
            if key in keys:
                self.keys.setdefault(other, keys[key])

    def decide(
        self, held: Iterable[str], mask: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Returns the continuous (n,) and discrete (b,) action for keys in the order in which they were pressed.

        Values of several keys for one axis are added, within -1..1; of several keys for one branch, the last one that
        is not masked counts. `mask` (choices,) is true where a choice is allowed; a masked idle choice becomes the
        first allowed one.
        """
        continuous = np.zeros(self.action.continuous, np.float32)
        discrete = self.idle.copy()
        starts = np.cumsum((0, *self.action.branches[:-1]))
        for branch, (start, size) in enumerate(
            zip(starts, self.action.branches, strict=True) if self.action.branches else ()
        ):
            allowed = np.ones(size, np.bool_) if mask is None else mask[start : start + size]
            if not allowed[discrete[branch]] and allowed.any():
                discrete[branch] = int(allowed.argmax())
        for key in held:
            one = self.keys.get(key)
            if one is None:
                continue
            if one.axis is not None:
                continuous[one.axis] += one.value
            elif one.branch is not None and (mask is None or mask[starts[one.branch] + one.choice]):
                discrete[one.branch] = one.choice
        return continuous.clip(-1, 1), discrete

    @property
    def missing(self) -> int:
        """Number of choices that no key makes, without the idle choices."""
        reached = {(one.branch, one.choice) for one in self.keys.values() if one.branch is not None}
        reached |= set(enumerate(self.idle.tolist()))
        return sum(self.action.branches) - len(reached)

    def table(self) -> list[tuple[str, str]]:
        """Returns the keys and their effects, as names."""
        named: dict[KeyAction, list[str]] = {}
        for key, one in self.keys.items():
            if not key.startswith("pad:"):
                named.setdefault(one, []).append(SHOWN.get(key, key.upper()))
        return [(" or ".join(keys), one.name) for one, keys in named.items()]


def key_map(behavior: str, action: ActionSpec) -> KeyMap:
    """Returns the keys of the built-in behavior of that name, if they fit, else keys made from the actions."""
    own = BEHAVIORS.get(behavior.partition("?")[0], {})
    if own is DRIVE and action.branches == (5,):
        own = DRIVE_OR_STAY  # Unity's can also stand still
    return KeyMap(action, own if own and fits(action, own.values()) else made_keys(action))


def fits(action: ActionSpec, effects: Iterable[KeyAction]) -> bool:
    """Whether the effects are all among the actions."""
    return all(
        one.axis < action.continuous
        if one.axis is not None
        else (one.branch or 0) < len(action.branches) and one.choice < action.branches[one.branch or 0]
        for one in effects
    )


def made_keys(action: ActionSpec) -> dict[str, KeyAction]:
    """Returns default keys for actions without descriptions: a pair for each continuous action, a key for each choice
    but the first.

    A single branch of two choices usually has no idle choice, so both choices have a key. Actions that outnumber the
    keys get no key.
    """
    keys: dict[str, KeyAction] = {}
    for number in range(min(action.continuous, len(PAIRS))):
        up, down = PAIRS[number]
        keys |= axis(number, **{up: f"action {number} up", down: f"action {number} down"})
    rows = iter(ROWS if not action.continuous else ROWS[1:])
    digits = iter("1234567890")
    for branch, size in enumerate(action.branches):
        if size == 2 and len(action.branches) == 1:
            names = dict(zip("ad", range(2), strict=True)) if "a" not in keys else {" ": 1}
        elif size == 2:
            names = {" " if " " not in keys else next(digits, ""): 1}
        else:
            row = next(rows, "")
            names = {(row[k - 1] if k <= len(row) else next(digits, "")): k for k in range(1, size)}
        keys |= {
            key: KeyAction(f"branch {branch}: {number}", branch=branch, choice=number)
            for key, number in names.items()
            if key and key not in keys
        }
    return keys


def read_keys(file: Path, behavior: str, action: ActionSpec) -> KeyMap:
    """Reads a file of keys. Raises ConfigError with the file and the key that is wrong."""
    import yaml

    try:
        whole = yaml.safe_load(read_whole_text(file))
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror or error}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is no YAML: {error}") from error
    expected = f"{file}: expected 'keys: {{W: forward, ...}}', and 'idle: [0, ...]' if wanted"
    if not isinstance(whole, dict) or not isinstance(whole.get("keys"), dict):
        raise ConfigError(expected)
    if unknown := set(whole) - {"keys", "idle"}:
        raise ConfigError(f"{expected}; '{min(map(str, unknown))}' is unknown")
    known = {one.name: one for one in key_map(behavior, action).keys.values()}
    keys: dict[str, KeyAction] = {}
    for key, value in whole["keys"].items():
        where = f"{file}: key {key}"
        keys[ARROWS.get(str(key), str(key).lower() if len(str(key)) == 1 else str(key))] = _effect(
            value, known, where, action
        )
    idle = whole.get("idle", [])
    if not isinstance(idle, list) or any(
        not isinstance(k, int) or not 0 <= k < size for k, size in zip(idle, action.branches, strict=False)
    ):
        raise ConfigError(
            f"{file}: 'idle' is {idle}; expected a choice of each of the branches {list(action.branches)}, such as [0]"
        )
    return KeyMap(action, keys, idle)


def _effect(value: Any, known: Mapping[str, KeyAction], where: str, action: ActionSpec) -> KeyAction:
    if isinstance(value, str):
        if value not in known:
            raise ConfigError(
                f"{where} does '{value}', which is unknown{nearest(value, known)} (there are: {', '.join(known)})"
            )
        return known[value]
    fields = {"branch": int, "choice": int, "axis": int, "value": (int, float), "name": str}
    if not isinstance(value, dict) or ("axis" in value) == ("branch" in value):
        raise ConfigError(f"{where} is {value!r}; expected a name, {{axis: 0, value: -1}} or {{branch: 0, choice: 1}}")
    for field, given in value.items():
        if field not in fields:
            raise ConfigError(
                f"{where}: '{field}' is unknown{nearest(str(field), fields)} (there are: {', '.join(fields)})"
            )
        if not isinstance(given, fields[field]) or isinstance(given, bool):
            raise ConfigError(f"{where}: '{field}' is {given!r}; expected a {'text' if field == 'name' else 'number'}")
    named: dict[str, Any] = {"name": ", ".join(f"{field} {given}" for field, given in value.items())} | value
    effect = KeyAction(**named)
    negative = min(effect.branch or 0, effect.axis or 0, effect.choice) < 0
    if negative or not fits(action, [effect]) or abs(effect.value) > 1:
        raise ConfigError(
            f"{where} is {value}, but the agents take {action.continuous} continuous actions within -1..1 and "
            f"branches of {list(action.branches)} choices, all counted from 0"
        )
    return effect
