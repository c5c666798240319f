"""Reads the sections of a flat trainer file: each behavior's values, merged with those of `default`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from palaestra.core.plugins import nearest
from palaestra.runtime.settings import RunSettings
from palaestra.runtime.settings.yaml_file import Key
from palaestra.runtime.upgrade.new_tree import UpgradeReport
from palaestra.runtime.upgrade.old_file import OldFile

DEFAULT = "default"


class Section:
    """Section of a behavior, with the values inherited from `default`. Keys never taken are unknown or unused."""

    def __init__(self, old: OldFile, at: Key, values: Mapping[str, Any], default: Mapping[str, Any]) -> None:
        self._old = old
        self._at = at
        self._own = dict(values)
        self._left: dict[str, Any] = {**default, **values}

    def __contains__(self, key: str) -> bool:
        return key in self._left

    def __iter__(self) -> Iterator[str]:
        """Yields the keys that were not taken yet."""
        return iter(list(self._left))

    def peek(self, key: str) -> Any:
        """Returns the value of a key; None if it is not given."""
        return self._left.get(key)

    def take(self, key: str) -> Any:
        """Removes a key and returns its value; None if it is not given."""
        return self._left.pop(key, None)

    def has_own(self, key: str) -> bool:
        """Whether a key is given in the section itself, not only in `default`."""
        return key in self._own

    def place(self, *path: str | int) -> str:
        """Returns 'file:line' of a key's value, in the section or in `default`; without a key, of the section."""
        return self._old.place(*(self._at if not path or self.has_own(str(path[0])) else (DEFAULT,)), *path)


def sections(old: OldFile, report: UpgradeReport) -> dict[str, Section]:
    """Returns the sections by name, including `default`. A section may refer to another section by name.

    Raises ConfigError if the other section does not exist.
    """
    above: Key = ("behaviors",) if "behaviors" in old.tree else ()
    there = {
        name: value
        for name, value in (old.tree["behaviors"] if above else old.tree).items()
        if above or (name not in RunSettings.model_fields and (value is None or isinstance(value, Mapping | str)))
    }
    if not above:
        for name in old.tree.keys() - there.keys() - RunSettings.model_fields.keys():
            report.warn(old.place(name), f"'{name}' is not a section: left out")
    default = _values(old, there, above, DEFAULT, report) if DEFAULT in there else {}
    found = {}
    for name in there:
        at = (*above, _end_of(old, there, above, name))
        values = _values(old, there, above, str(at[-1]), report)
        found[name] = Section(old, at, values, {} if at[-1] == DEFAULT else default)
    return found


def _end_of(old: OldFile, there: Mapping[str, Any], above: Key, name: str) -> str:
    """Returns the section that a name refers to, directly or through other names."""
    passed = [name]
    while isinstance(there[name], str):
        following = there[name]
        if following not in there or following in passed:
            what = "refers back to itself" if following in passed else f"is not a section{nearest(following, there)}"
            raise old.error(f"'{name}' refers to '{following}', which {what}", *above, name)
        passed.append(name := following)
    return name


def _values(old: OldFile, there: Mapping[str, Any], above: Key, name: str, report: UpgradeReport) -> dict[str, Any]:
    values = there[name]
    if values is None:
        return {}
    if not isinstance(values, Mapping):
        raise old.error(f"'{name}' is {values!r}; expected a map of keys", *above, name)
    for key, value in values.items():
        if value is None:
            report.warn(old.place(*above, name, key), f"'{key}' is empty: left out")
    return {key: value for key, value in values.items() if value is not None}
