"""Objects that stand for another one, and show what it has."""

from __future__ import annotations

from collections.abc import Collection
from operator import attrgetter
from typing import TypeVar, cast

T = TypeVar("T")


def forwarding(kind: type[T], behind: object, own: Collection[str] = ()) -> type[T]:
    """`kind`, with a property for each public member of `behind` that it lacks; its instances hold `behind` as `_env`.

    `isinstance` with a protocol looks members up without `__getattr__` from Python 3.12 on: what only that finds is not there. `own` are
    names that instances set themselves.
    """
    names = [name for name in dir(behind) if not name.startswith("_") and name not in own and not hasattr(kind, name)]
    return cast(type[T], type(kind.__name__, (kind,), {name: property(attrgetter(f"_env.{name}")) for name in names}))
