"""Settings of a mirror: how observations and actions change where left and right are exchanged."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BeforeValidator, Field, field_validator, model_validator

from palaestra.core.files import read_whole_text, shipped_files
from palaestra.core.plugins import nearest
from palaestra.core.settings import Settings


def must_be_place(value: Any) -> Any:
    """Returns the value. Raises ValueError with one sentence, instead of one sentence for each accepted type."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"expected the place of a number, such as 3, or of several, such as '3-5', got {value!r}")
    return value


MINUS_ZERO = re.compile(r"(?<=[\[,\s])-0(?=[\],\s])")
"""A YAML number that has lost its minus sign when it is read."""
Place = Annotated[int | str, BeforeValidator(must_be_place)]
"""A number's place, counted from 0, or several places as '3-5'."""


class MirrorRule(Settings):
    """Change of one observation, of the continuous actions, or of a branch's choices; a list alone means `order`."""

    order: tuple[Place, ...] | None = None
    """Index of the number that moves to each position, such as [0, 2, 1], in place of swap and negate; "-1": number
    1, negated."""
    swap: tuple[tuple[Place, Place], ...] = ()
    """Positions that exchange their numbers, such as [[1, 2], ["3-5", "6-8"]]; with `size`, positions of blocks."""
    negate: tuple[Place, ...] = ()
    """Positions of the numbers that change their sign, after the exchange."""
    size: int = Field(default=1, gt=0)
    """Numbers in a block that `swap` moves as one, such as the numbers of a ray."""
    frames: int = Field(default=1, gt=0)
    """Stacked frames: the other keys describe one frame."""
    flip: Literal["columns", "rows"] | None = None
    """Images: exchange left and right (columns), or top and bottom (rows)."""

    @model_validator(mode="before")
    @classmethod
    def _listed(cls, data: Any) -> Any:
        if data == "same":
            return {}
        return {"order": data} if isinstance(data, list | tuple) else data


class MirrorActions(Settings):
    """How actions change in the mirror image."""

    continuous: MirrorRule | None = None
    """Change of the continuous actions; null: no change."""
    discrete: dict[int, MirrorRule] = Field(default={})
    """Change of choices, by the number of the branch; other branches stay as they are."""

    @field_validator("discrete", mode="before")
    @classmethod
    def _by_number(cls, rules: Any) -> Any:
        """Keys of a settings file are text."""
        return {int(k) if str(k).isdecimal() else k: v for k, v in rules.items()} if isinstance(rules, dict) else rules


class MirrorSettings(Settings):
    """A mirror of a behavior: left and right are exchanged. If it is applied twice, nothing changes."""

    observations: dict[str, MirrorRule] = Field(min_length=1)
    """Change of each observation, by its name or a pattern such as `Ray*`; `same`: no change."""
    actions: MirrorActions = MirrorActions()
    """Change of actions."""


def mirror_tree(given: Any) -> Any:
    """Returns the settings tree of a mirror that is given as a tree, by its file, or by the name of a shipped one.
    Raises ValueError."""
    if given is None or isinstance(given, dict | MirrorSettings):
        return given
    shipped = shipped_files("mirrors")
    expected = f"expected the file of a mirror, the name of a shipped one ({', '.join(shipped)}), or its keys"
    if not isinstance(given, str | Path):
        raise ValueError(f"{expected}, got {given!r}")
    path = shipped.get(str(given), Path(given))
    if not path.is_file():
        raise ValueError(f"there is no file '{given}'{nearest(str(given), shipped)}; {expected}")
    try:
        tree = yaml.safe_load(MINUS_ZERO.sub(r'"-0"', read_whole_text(path)))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ValueError(f"{path} cannot be read as a mirror: {error}") from error
    if not isinstance(tree, dict):
        raise ValueError(f"{path} is no mirror; expected the keys observations and actions")
    return tree
