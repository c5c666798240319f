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
    """Finds the package as Python would, once, and makes its loader call a function after it."""

    def __init__(self, package: str, call: Callable[[], object]) -> None:
        self._package, self._call = package, call

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Returns None for other packages, which leaves them to Python."""
        if name != self._package:
            return None
        from importlib.util import find_spec

        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            execute = loader.exec_module

            def execute_and_call(module: ModuleType) -> None:
                execute(module)
                self._call()

            loader.exec_module = execute_and_call
        return spec
