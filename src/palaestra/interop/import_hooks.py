"""Calls a function when another package is imported, without importing it."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # typing would be most of the time that `import palaestra` takes
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any


def when_imported(package: str, call: Callable[[], object]) -> None:
    """Calls `call` at once if `package` is imported, else right after its first import."""
    if package in sys.modules:
        call()
    else:
        sys.meta_path.insert(0, _Finder(package, call))


class _Finder:
    """Finds the package as Python would, and makes its loader call a function after the package has run."""

    def __init__(self, package: str, call: Callable[[], object]) -> None:
        self._package = package
        self._call = call
        self._searching = False

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns None for other packages, which leaves them to Python."""
        if name != self._package or self._searching:
            return None
        from importlib.util import find_spec

        self._searching = True  # the other finders are asked, not this one again
        try:
            spec = find_spec(name)
        finally:
            self._searching = False
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            execute = loader.exec_module

            def execute_and_call(module: ModuleType) -> None:
                execute(module)
                if (
                    self in sys.meta_path
                ):  # some programs only look whether there is such a package: the finder stays until it runs
                    sys.meta_path.remove(self)
                    self._call()

            loader.exec_module = execute_and_call
        return spec
