"""Finds the example settings files that come with the package, such as `ppo/3DBall`."""

from __future__ import annotations

from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path

from palaestra.core.errors import ConfigError
from palaestra.core.files import configs_folder
from palaestra.core.plugins import nearest, registry
from palaestra.trainers.behavior_settings import settings_like

FOLDERS = ("ppo", "poca", "sac", "bc", "imitation")
"""Folders of examples. A name without a folder means the first folder that contains it."""
ALONE = ("ppo", "poca", "sac")
"""Folders whose examples need nothing besides the environment."""


def example_names() -> list[str]:
    """Returns all examples as `folder/name`. Empty if the package was installed without them."""
    return [
        f"{folder}/{path.stem}"
        for folder in FOLDERS
        for path in sorted((configs_folder() / folder).glob("*.yaml"), key=lambda path: path.stem.casefold())
    ]


def find_example(name: str) -> Path:
    """Returns the file of an example. The folder and the suffix .yaml may be left out; case does not matter.

    Raises ConfigError, which suggests the nearest name.
    """
    names = example_names()
    found = _match(name, names)
    if found is None:
        first = {one.rpartition("/")[2].casefold(): one for one in reversed(names)}  # of each short name
        short = [] if "/" in _plain(name) else get_close_matches(_plain(name), first, n=1)
        hint = f"; did you mean '{first[short[0]]}'?" if short else nearest(name, names)
        known = "\n    ".join(", ".join(one for one in names if one.startswith(f"{folder}/")) for folder in FOLDERS)
        raise ConfigError(
            f"there is no example '{name}'{hint}\n  "
            + (f"there are:\n    {known}" if names else "this installation has none")
        )
    return configs_folder() / f"{found}.yaml"


def example_like(path: Path) -> str | None:
    """Returns the example that a path such as `configs/ppo/3DBall.yaml` most likely means; None if there is none."""
    names = example_names()
    return _match("/".join(path.parts[-2:]), names) or _match(path.name, names)


def here_or_shipped(file: Path) -> Path:
    """Returns a settings file; outside a clone, `configs/ppo/3DBall.yaml` is the shipped file."""
    shipped = configs_folder().parent / file
    with suppress(OSError):  # of a folder that may not be read: reading the file says so
        if file.parts[:1] == ("configs",) and not file.exists() and shipped.is_file():
            return shipped
    return file


def made_for(name: str, trainer: str | None = None) -> Path | None:
    """Returns the example for an environment, by its name; if there are several, the one for groups; None if there is
    none.

    `trainer`: the required trainer.
    """
    names = sorted(example_names(), key=lambda one: not one.startswith("poca/"))
    folders = ALONE if trainer is None else [folder for folder in ALONE if folder == settings_like(trainer)]
    found = _match(name, [one for one in names if one.partition("/")[0] in folders])
    return None if found is None else configs_folder() / f"{found}.yaml"


def example_environment(example: Path, env_path: str | None) -> str | None:
    """Returns the built-in environment of an example; None if settings name another (`env_path`) or none fits."""
    alike = [name for name in registry("envs").names() if example.stem.startswith(name)]
    return None if env_path else max(alike, key=len, default=None)


def _match(name: str, names: list[str]) -> str | None:
    wanted = _plain(name)
    if "/" not in wanted:
        return next(
            (one for alias in _aliases(wanted) for one in names if one.rpartition("/")[2].casefold() == alias), None
        )
    folder, _, rest = wanted.rpartition("/")
    return next((one for alias in _aliases(rest) for one in names if one.casefold() == f"{folder}/{alias}"), None)


def _aliases(name: str) -> list[str]:
    """Returns the name, then the other names of the same built-in environment."""
    envs = registry("envs")
    places = {one: envs.place(one) for one in envs.names()}
    place = next((place for one, place in places.items() if one.casefold() == name), None)
    return [name, *(one.casefold() for one in places if places[one] == place and one.casefold() != name)]


def _plain(name: str) -> str:
    return name.replace("\\", "/").strip("/").removeprefix("configs/").removesuffix(".yaml").casefold()
