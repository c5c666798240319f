"""Loads users' code: modules, and objects that a setting names as `package.module:Name` or by entry point.

The current folder may hold a stranger's files, so it is on the import path (as the last entry) only while a user's
module is imported.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from palaestra.core.display import listed, shown_path
from palaestra.core.errors import STOPS, EnvError, PalaestraError, PluginError, exception_summary, user_code_location

_NEAR = 0.66  # least share of equal characters: 'batch' is near 'batch_size' (0.67), 'mass' not near 'max_steps' (0.62)

PIP_NAMES = {
    "Box2D": "'palaestra[box2d]'",
    "mujoco": "'palaestra[mujoco]'",
    "ale_py": "'palaestra[atari]'",
    "pygame": "'palaestra[classic]'",
    "jax": "'gymnasium[jax]'",
    "cv2": "opencv-python",
}
"""Packages that pip installs for modules of other names."""


STARTER = (
    "import sys; sys.path[:] = [*filter(None, sys.path), {home!r}]; import runpy; "
    "runpy.run_module(sys.argv.pop(1), None, '__main__', True)"
)
"""Code that runs a module as `python -m` does, but without the current folder on the import path, which `python -m`
puts first."""


def own_python(module: str, *arguments: str) -> list[str]:
    """Returns the command that runs one of Palaestra's modules in a process without the current folder in its path."""
    return [sys.executable, "-c", STARTER.format(home=str(Path(__file__).parents[2])), module, *arguments]


def find_plugin(kind: str, title: str, name: str) -> Any:
    """Loads `package.module:Name`, or an entry point of the group `palaestra.<kind>`. Raises PluginError.

    `title` begins error messages.
    """
    place, colon, attribute = name.partition(":")
    if not colon:
        return registry(kind).get(name)
    module = import_user_module(place, title, PluginError)
    found = getattr(module, attribute, None)
    if found is None and place == "__main__":
        raise PluginError(
            f"{title}: {attribute} was defined in a notebook or a script, which this process does not run; save it in "
            f"a file of its own, such as mine.py, and name it mine:{attribute}"
        )
    if found is None:
        raise PluginError(f"{title}: {lacks(module, attribute)}")
    return found


def class_name(kind: type) -> str:
    """Returns the `package.module:Name` by which a class is found again. Raises ValueError if that name does not lead
    to the class."""
    if "<locals>" in kind.__qualname__:
        raise ValueError(
            f"{kind.__name__} is defined within a function, where it cannot be found by its name; define it at the top "
            "level of a module or of a notebook"
        )
    return f"{kind.__module__}:{kind.__qualname__}"


def find_class(kind: str, title: str, name: str, members: Sequence[str], guide: str, base: type) -> type[Any]:
    """Loads a class as `find_plugin` does. Raises PluginError if it is no class, lacks one of `members` (`guide`
    explains them), or has `Settings` that do not inherit from `base`."""
    found = find_plugin(kind, title, name)
    if not isinstance(found, type):
        raise PluginError(f"{title} is {found!r}; expected a class")
    must_have(found, members, title, guide)
    settings = found.Settings
    if not (isinstance(settings, type) and issubclass(settings, base)):
        expected = f"{base.__module__}.{base.__name__}"
        raise PluginError(f"{title}: its Settings is {settings!r}; expected a class that inherits from {expected}")
    return found


def must_have(found: object, members: Sequence[str], title: str, guide: str) -> None:
    """Raises PluginError, beginning with `title`, if an object lacks one of the members, which `guide` explains."""
    if missing := [name for name in members if not hasattr(found, name)]:
        raise PluginError(f"{title} lacks {', '.join(missing)}; {guide} explains each of them")


@cache
def registry(kind: str) -> Registry:
    """Returns the registry of a group, built once."""
    return Registry(kind)


def installed(group: str) -> Sequence[EntryPoint]:
    """Returns the entry points of a group, whatever their names."""
    return list(all_entry_points().select(group=group))


@cache
def all_entry_points() -> Any:  # EntryPoints, but before Python 3.12 a class that is gone since
    """Returns the entry points of all installed packages, read only once, as reading takes 20 milliseconds."""
    return entry_points()


def import_user_module(module: str, name: str, error_class: type[PalaestraError] = EnvError) -> Any:
    """Imports a user's module, installed or in the current folder. Raises `error_class`; `name` begins the message."""
    with _current_folder_on_path(module):
        return import_installed_module(module, name, error_class)


def import_installed_module(module: str, name: str, error_class: type[PalaestraError] = EnvError) -> Any:
    """Imports an installed module, never one of the current folder. Raises `error_class`; `name` begins the message."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name and (module == error.name or module.startswith(error.name + ".")):
            raise error_class(
                f"{name}: there is no module '{module}', neither in {Path.cwd()} nor installed{near_module(module)}"
            ) from error
        if (needed := missing_package(error)) is not None:
            raise error_class(f"{name}: module '{module}' {needed}") from error
        raise error_class(f"{name}: module '{module}' cannot be imported: {exception_summary(error)}") from error
    except STOPS:
        raise
    except BaseException as error:  # a user's module may raise anything
        raise error_class(f"{name}: module '{module}' cannot be imported: {exception_summary(error)}") from error


def near_module(missing: str) -> str:
    """Returns "; did you mean 'X'?" for a module of a similar name in the current folder, or ''."""
    package, dot, _ = missing.removesuffix(".py").rpartition(".")
    with suppress(OSError, ValueError):
        paths = [*Path(*package.split(".")).glob("*.py"), *Path(*package.split(".")).glob("*/__init__.py")]
        names = [path.parent.name if path.stem == "__init__" else path.stem for path in paths]
        return nearest(missing.removesuffix(".py"), [f"{package}{dot}{name}" for name in names])
    return ""


def missing_package(error: BaseException) -> str | None:
    """Returns "needs the package X, which is not installed" with the pip command; None if `error` has another cause."""
    cause: BaseException | None = error
    while cause is not None and not (isinstance(cause, ModuleNotFoundError) and cause.name):
        cause = cause.__cause__ or cause.__context__
    if not isinstance(cause, ModuleNotFoundError) or cause.name is None:
        return None
    module = cause.name.partition(".")[0]
    if find_spec(module) is not None:
        return None
    place = "" if module in PIP_NAMES else user_code_location(error)
    return f"needs the package {module}, which is not installed{place}: pip install {PIP_NAMES.get(module, module)}"


@contextmanager
def _current_folder_on_path(module: str) -> Iterator[None]:
    """Puts the current folder last on the import path while `module` is imported.

    The folder stays in the path if the module came from it, since the module may import its neighbors later. Otherwise
    a file of that folder, perhaps a stranger's, could replace a library that is imported later.
    """
    here = str(Path.cwd())
    if here in sys.path:
        yield
        return
    sys.path.append(here)
    try:
        yield
    finally:
        if not is_from(sys.modules.get(module.partition(".")[0]), here):
            with suppress(ValueError):
                sys.path.remove(here)


def is_from(module: Any, folder: str | Path) -> bool:
    """Whether a top-level module or package lies directly in a folder."""
    places = list(getattr(module, "__path__", ())) or [getattr(module, "__file__", None) or ""]
    return any(Path(place).resolve().parent == Path(folder).resolve() for place in places if place)


def lacks(module: Any, attribute: str) -> str:
    """Returns the end of a message that a user's module lacks a name; says so if a file of the current folder was
    meant."""
    top = module.__name__.partition(".")[0]
    here = Path.cwd()
    hidden = any((here / name).exists() for name in (f"{top}.py", top)) and not is_from(sys.modules.get(top), here)
    note = (
        f"; the '{top}' in the current folder is hidden by the installed one, so give it another name" if hidden else ""
    )
    place = shown_path(getattr(module, "__file__", None) or module.__name__)
    names = [name for name, value in vars(module).items() if callable(value) and name[0] != "_"]
    own = [name for name in names if getattr(vars(module)[name], "__module__", "") == module.__name__]
    hint = nearest(attribute, names) or (f" (it has: {listed(own)})" if own and not hidden else "")
    return f"module '{module.__name__}' ({place}) has no '{attribute}'{hint}{note}"


class Registry:
    """The entry points of one group. Nothing is imported until its name is asked for."""

    def __init__(self, kind: str) -> None:
        """`kind` is the group's last part: 'envs' reads `palaestra.envs`."""
        self.kind = kind
        self._points: dict[str, EntryPoint] = {point.name: point for point in installed(f"palaestra.{kind}")}

    def __contains__(self, name: str) -> bool:
        return name in self._points

    def names(self) -> list[str]:
        """Returns all names of the group, sorted."""
        return sorted(self._points)

    def place(self, name: str) -> str:
        """Returns an entry point's `package.module:Name`; several names may share one. Raises KeyError if unknown."""
        return self._points[name].value

    def get(self, name: str) -> Any:
        """Loads the object of an entry point. Raises PluginError if the name is unknown or the import fails."""
        if name not in self._points:
            hint = nearest(name, self._points)
            raise PluginError(
                f"no {self.kind.removesuffix('s')} is named '{name}'{hint} (there are: {', '.join(self.names())})"
            )
        point = self._points[name]
        try:
            return point.load()
        except (ImportError, AttributeError) as error:
            raise PluginError(
                f"{self.kind.removesuffix('s')} '{name}' ({point.value}) cannot be loaded: {error}"
            ) from error


def nearest(name: object, known: Any) -> str:
    """Returns "; did you mean 'X'?" for the closest known name, or '' if none is close."""
    written = str(name)
    near = get_close_matches(written, list(known), n=1, cutoff=_NEAR) or get_close_matches(
        written.lower(), list(known), n=1, cutoff=_NEAR
    )
    return f"; did you mean '{near[0]}'?" if near else ""


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Stops Python's garbage collector within the block, and exempts all objects that exist at its end.

    It is meant for imports in Palaestra's own processes. It shortens importing PyTorch by a quarter, and a later
    collection, which would take a tenth of a second during an update, skips PyTorch's objects.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
