"""YAML with the line of every key. Numbers such as `1e3` are numbers, and a key given twice is an error."""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from palaestra.core.errors import ConfigError
from palaestra.runtime.settings.examples import example_like

Key = tuple[str | int, ...]
"""Where a value lies: keys, and positions in lists."""

_FLOAT = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)[eE][-+]?[0-9]+$")
_FIRST = list("-+.0123456789")


class _Loader(yaml.SafeLoader):
    """YAML 1.1 as ML-Agents reads it, with the floats of YAML 1.2, and dates left as text."""


class _Dumper(yaml.SafeDumper):
    """Puts quotes around text that `_Loader` would take for a number."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in rules if not tag.endswith(":timestamp")]
    for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, _FIRST)
_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, _FIRST)


@dataclass(frozen=True, slots=True)
class Document:
    """What a file holds."""

    text: str = ""
    tree: Any = None  # maps (their keys as text), lists, numbers, text, booleans, None
    lines: dict[Key, int] = field(default_factory=dict)  # line of each key and list item, the first being 1


def read(path: Path, repeats: list[tuple[str, int]] | None = None) -> Document:
    """Raises ConfigError for a file that is not there, not a file, not UTF-8 or not YAML. For `repeats` see `parse`."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(f"no settings file is at {path.absolute()}{_shipped(path)}") from None
    except IsADirectoryError:
        raise ConfigError("is a folder; expected a YAML file of settings", path) from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"is not UTF-8 text (byte {error.start}); save it as UTF-8", path) from None
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", path) from None
    return parse(text.replace("\t", " ") if path.suffix == ".json" else text, path, repeats)


def _shipped(path: Path) -> str:
    """A hint for the path of an example, which a package that was installed from a wheel has elsewhere."""
    example = example_like(path)
    out = f"{path.stem}.yaml"
    return "" if example is None else f"\nAn example of that name comes with Palaestra: palaestra config --example {example} --out {out}"


def parse(text: str, file: Path | None = None, repeats: list[tuple[str, int]] | None = None) -> Document:
    """Raises ConfigError with line and column. A key that is given twice is an error, or else goes into `repeats`, with the
    line where it stands last, which then counts."""
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        lines: dict[Key, int] = {}
        return Document(text, None if node is None else _Reader(loader, lines, file, repeats).value(node, ()), lines)
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, file) from None
    except yaml.YAMLError as error:
        raise ConfigError(f"is not YAML: {str(error).splitlines()[0]}", file) from None
    except RecursionError:
        raise ConfigError("is nested too deeply, or refers to itself", file) from None
    except ValueError as error:  # what YAML takes for a number may not be one, such as 0b
        raise ConfigError(f"is not YAML: {error}", file) from None


def dump(tree: Any, width: int = 80) -> str:
    """YAML in the order of the keys, which `parse` reads back to the same values. Text is folded beyond `width` columns."""
    return yaml.dump(tree, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=width)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Nodes to values, noting lines."""

    loader: _Loader
    lines: dict[Key, int]
    file: Path | None
    repeats: list[tuple[str, int]] | None

    def value(self, node: yaml.Node, at: Key) -> Any:
        if isinstance(node, yaml.MappingNode):
            return self._map(node, at)
        if isinstance(node, yaml.SequenceNode):
            return [self._item(item, (*at, i)) for i, item in enumerate(node.value)]
        value: Any = self.loader.construct_object(node)
        return value

    def _item(self, node: yaml.Node, at: Key) -> Any:
        self.lines[at] = node.start_mark.line + 1
        return self.value(node, at)

    def _map(self, node: yaml.MappingNode, at: Key) -> dict[str, Any]:
        self._refuse_repeats(node)
        self.loader.flatten_mapping(node)
        result: dict[str, Any] = {}
        for key, value in node.value:
            name = self._name(key)
            self.lines[(*at, name)] = key.start_mark.line + 1
            result[name] = self.value(value, (*at, name))
        return result

    def _refuse_repeats(self, node: yaml.MappingNode) -> None:
        """Before merge keys (`<<`) are resolved, which a map may well override."""
        first: dict[Hashable, int] = {}
        for key, _ in node.value:
            name, line = self._name(key), key.start_mark.line + 1
            if name in first and self.repeats is None:
                raise ConfigError(f"the key '{name}' is given twice (first in line {first[name]})", self.file, line)
            if name in first and self.repeats is not None:
                self.repeats.append((name, line))
            first[name] = line

    def _name(self, key: yaml.Node) -> str:
        if not isinstance(key, yaml.ScalarNode):
            raise ConfigError("a key must be text, not a map or a list", self.file, key.start_mark.line + 1)
        return key.value


def _syntax_error(error: yaml.MarkedYAMLError, file: Path | None) -> ConfigError:
    mark = error.problem_mark or error.context_mark
    begun = error.context_mark and mark is not error.context_mark and f"(begun in line {error.context_mark.line + 1})"
    what = " ".join(part for part in (error.context, begun, error.problem) if part)
    hint = "; indent with spaces, not tabs" if r"'\t'" in what else ""
    if mark is None:
        return ConfigError(f"is not YAML: {what}{hint}", file)
    return ConfigError(f"is not YAML (column {mark.column + 1}): {what}{hint}", file, mark.line + 1)
