"""Wrapper classes that expose the public members of the object they wrap."""

from __future__ import annotations

from collections.abc import Collection
from operator import attrgetter
from typing import TypeVar, cast

T = TypeVar("T")


def forwarding(kind: type[T], wrapped: object, exclude: Collection[str] = ()) -> type[T]:
    """Returns a subclass of `kind` with a property for each public member of `wrapped` that `kind` lacks.

    Its instances hold `wrapped` as `_env`; names in `exclude` are ones that instances set themselves. From Python 3.12
    on, `isinstance` with a protocol ignores `__getattr__`, so the members must exist on the class.
    """
    names = [
        name for name in dir(wrapped) if not name.startswith("_") and name not in exclude and not hasattr(kind, name)
    ]
    return cast(type[T], type(kind.__name__, (kind,), {name: property(attrgetter(f"_env.{name}")) for name in names}))
