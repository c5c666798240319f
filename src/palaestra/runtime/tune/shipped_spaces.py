"""Search spaces that come with the package, one for each trainer, and `search` blocks in separate files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from palaestra.core.errors import ConfigError
from palaestra.core.files import shipped_files
from palaestra.core.plugins import nearest
from palaestra.runtime.settings import yaml_file
from palaestra.runtime.settings.search_settings import SearchSettings
from palaestra.runtime.settings.setting_errors import config_error, problem
from palaestra.runtime.settings.sourced_settings import SourcedSettings, check_depth


def read_block(source: str | Path | Mapping[str, Any]) -> dict[str, Any]:
    """Returns a `search` block from a file, from a space that comes with the package, by its name, or from a map.
    Raises ConfigError.

    The file has the block under the key `search`, or contains only the block.
    """
    if isinstance(source, Mapping):
        check_depth(source)
        return _checked(dict(source), None, {})
    shipped = shipped_files("search")
    file = shipped.get(str(source), Path(source))
    if not file.is_file() and not file.suffix:
        raise ConfigError(
            f"there is no file '{source}', and no search space of that name{nearest(str(source), shipped)} "
            f"({_listed(shipped)})"
        )
    document = yaml_file.read(file)
    tree = document.tree
    below: tuple[str, ...] = ()
    if isinstance(tree, dict) and "search" in tree:
        tree = tree["search"]
        below = ("search",)
    if not isinstance(tree, dict):
        raise ConfigError(
            f"expected a map with the key `space`, such as {', '.join(map(str, shipped)) or 'ppo'}.yaml has", file
        )
    lines = {
        ("search", *path[len(below) :]): line
        for path, line in document.lines.items()
        if path[: len(below)] == below and path != below
    }
    return _checked(tree, file, lines)


def _listed(shipped: Mapping[str, Path]) -> str:
    return f"there are: {', '.join(shipped)}" if shipped else "this installation has none"


def _checked(block: dict[str, Any], file: Path | None, lines: dict[Any, int]) -> dict[str, Any]:
    """Returns the block. Raises ConfigError, with the lines of its file, if it cannot be used."""
    sourced = SourcedSettings(yaml_file.Document(tree={"search": block}, lines=lines), file)
    try:
        SearchSettings.model_validate(block)
    except ValidationError as error:
        found = [problem(each, None) for each in error.errors()]
        raise config_error(
            ((("search", *path), sentence) for path, sentence in found), sourced, "search settings cannot be used"
        ) from None
    return block


def space_for(trainers: set[str]) -> dict[str, Any]:
    """Returns the package's space for the trainer of all behaviors. Raises ConfigError if there is none."""
    shipped = shipped_files("search")
    if len(trainers) == 1 and (trainer := next(iter(trainers))) in shipped:
        return read_block(shipped[trainer])["space"]
    why = f"trainers {', '.join(sorted(trainers))}" if len(trainers) > 1 else f"trainer '{next(iter(trainers), '')}'"
    raise ConfigError(
        f"no search space comes with Palaestra for the {why} ({_listed(shipped)}): give the ranges under search.space"
    )
