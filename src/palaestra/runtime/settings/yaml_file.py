"""Reads YAML with the line of every key. Numbers such as `1e3` are numbers, and a duplicate key is an error or is
recorded.

Time and memory are limited for any file: its bytes, nesting and values (with aliases expanded) are checked first.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from palaestra.core.errors import ConfigError
from palaestra.core.files import near_files, regular
from palaestra.core.settings import unusable_text
from palaestra.runtime.settings.examples import example_like
from palaestra.runtime.settings.look_alikes import syntax_hint
from palaestra.runtime.settings.yaml_limits import MAX_BYTES, check_limits

Key = tuple[str | int, ...]
"""Path of a value: keys, and positions in lists."""

_FLOAT = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)[eE][-+]?[0-9]+$")
_FIRST = list("-+.0123456789")
_MAX_DIGITS = 400  # characters of a number: more than any float has
_SMALL = 20_000  # characters up to which the slower parser, which explains mistakes better, is fast enough
_MINDED = re.compile("[\t?\ufeff]")  # where libyaml takes what YAML forbids
_COMMENT = re.compile(rb"(?<![^\s])#[^\r\n]*")
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_TAG = "tag:yaml.org,2002:"
_KINDS = {"int": "whole number", "float": "number", "bool": "true or false"}
_TEXT = {f"{_TAG}{kind}" for kind in ("str", "merge", "value")}


class _Loader(yaml.SafeLoader):
    """YAML 1.1 as ML-Agents reads it, with the floats of YAML 1.2, and dates left as text."""


class _FastLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # pyright: ignore[reportGeneralTypeIssues]
    """`_Loader` with libyaml, if PyYAML was built with it."""


class _Dumper(yaml.SafeDumper):
    """Dumper that puts quotes around text that `_Loader` would read as a number."""


class _FastDumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # pyright: ignore[reportGeneralTypeIssues]
    """`_Dumper` with libyaml, which writes some characters, such as emoji, as codes."""


for _class in (_Loader, _FastLoader):
    _class.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in rules if not tag.endswith(":timestamp")]
        for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    _class.yaml_implicit_resolvers["-"].insert(0, (f"{_TAG}str", re.compile("-0$")))  # of mirrors: a sign of its own
    _class.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, _FIRST)
for _class in (_Dumper, _FastDumper):
    _class.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, _FIRST)
    # paths and NumPy's numbers, which programs give
    _class.add_multi_representer(object, lambda to, it: to.represent_data(getattr(it, "item", it.__str__)()))


@dataclass(frozen=True, slots=True)
class Document:
    """Content of a file."""

    text: str = ""
    tree: Any = None  # maps (their keys as text), lists, numbers, text, booleans, None
    lines: dict[Key, int] = field(default_factory=dict)  # line of each key and list item, the first being 1


def read(path: Path, repeats: list[tuple[str, int]] | None = None) -> Document:
    """Reads a file; `repeats`: see `parse`. Raises ConfigError if it is missing, too large, not UTF-8 or not YAML."""
    try:
        opener = None if path.is_relative_to("/dev") else regular  # the shell's <(...) is a pipe
        with open(path, "rb", opener=opener) as file:
            data = file.read(MAX_BYTES + 1)
        text = _decoded(data) if len(data) <= MAX_BYTES else ""
    except FileNotFoundError:
        near = near_files(path, [".yaml", ".yml"]) or ("" if path.is_absolute() else f" in {Path.cwd()}")
        raise ConfigError(f"there is no settings file {path}{near}{_shipped(path)}") from None
    except IsADirectoryError:
        raise ConfigError("is a folder; expected a YAML file of settings", path) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        begin = error.object.rfind(b"\n", 0, error.start) + 1
        column = f"column {error.start - begin + 1}: byte {error.object[error.start]:#04x}"
        raise ConfigError(f"is not UTF-8 text ({column}); save it with the encoding UTF-8", path, line) from None
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", path) from None
    except ValueError:  # a NUL
        raise ConfigError(f"no file can be named {str(path)!r}") from None
    if len(data) > MAX_BYTES:
        raise ConfigError(
            f"is larger than {MAX_BYTES // 2**20} MB; expected a YAML file of settings, usually a few kilobytes", path
        )
    return parse(text.replace("\t", " ") if path.suffix == ".json" else text, path, repeats)


def _decoded(data: bytes) -> str:
    """Returns a file's text: UTF-8, or the UTF-16 and UTF-32 that editors and shells of Windows write.

    Other bytes are accepted in comments, where nothing depends on them. Raises UnicodeDecodeError.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data.decode(encoding)
    if len(data) > 1 and 0 in data[:2] and any(data[:2]):  # UTF-16 without a byte order mark
        return data.decode("utf-16-be" if data[0] == 0 else "utf-16-le")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        bare = _COMMENT.sub(b"#", data)
        bare.decode("utf-8-sig")
        return data.decode("utf-8-sig", errors="replace")


def _shipped(path: Path) -> str:
    """Returns a hint if a missing file has the name of an example, which lies elsewhere."""
    example = example_like(path)
    out = f"{path.stem}.yaml"
    return (
        ""
        if example is None
        else f"\n  An example of that name comes with Palaestra: palaestra config --example {example} --out {out}"
    )


def parse(
    text: str, file: Path | None = None, repeats: list[tuple[str, int]] | None = None, *, quick: bool = False
) -> Document:
    """Parses a text. Raises ConfigError with line and column.

    A duplicate key is an error. With `repeats`, the key is added to that list instead, with the line of its last value,
    and this value is used. If a small text has a mistake, it is read again with the slower parser, which explains the
    mistake better and also rejects some characters; not for a text that a program wrote (`quick`).
    """
    explained = not quick and len(text) <= _SMALL
    try:
        try:
            return _document(_Loader if explained and _MINDED.search(text) else _FastLoader, text, file, repeats)
        except (yaml.YAMLError, ValueError):
            if not explained:
                raise
            return _document(_Loader, text, file, repeats)
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, file, text) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1 if isinstance(error.position, int) else None
        raise ConfigError(f"is not YAML: {str(error).splitlines()[0]}", file, line) from None
    except (yaml.YAMLError, ValueError) as error:  # libyaml raises ValueError for half a surrogate pair
        raise ConfigError(f"is not YAML: {(str(error).splitlines() or ['?'])[0]}", file) from None


def _document(kind: Any, text: str, file: Path | None, repeats: list[tuple[str, int]] | None) -> Document:
    check_limits(kind(text), file)
    loader = kind(text)
    node = loader.get_single_node()
    lines: dict[Key, int] = {}
    return Document(text, None if node is None else _Reader(loader, lines, file, repeats).value(node, ()), lines)


def dump(tree: Any, width: int = 80) -> str:
    """Returns YAML with the keys in order and lines wrapped at `width` columns; `parse` of it gives the same values."""
    form: Any = {"sort_keys": False, "allow_unicode": True, "default_flow_style": False, "width": width}
    text = yaml.dump(tree, Dumper=_FastDumper, **form)
    return yaml.dump(tree, Dumper=_Dumper, **form) if "\\U" in text else text


class _Reader:
    """Converts nodes to values, recording lines."""

    def __init__(
        self, loader: Any, lines: dict[Key, int], file: Path | None, repeats: list[tuple[str, int]] | None
    ) -> None:
        self.loader = loader
        self.lines = lines
        self.file = file
        self.repeats = repeats
        self._flattened: set[int] = set()  # maps whose merge keys are resolved: several aliases may stand for one

    def value(self, node: yaml.Node, at: Key) -> Any:
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        kind = "map" if isinstance(node, yaml.MappingNode) else "seq"
        if node.tag != _TAG + kind:
            raise self._error(f"the tag {_tag(node)} has no meaning in settings; leave it out", node)
        if isinstance(node, yaml.MappingNode):
            return self._map(node, at)
        return [self._item(item, (*at, i)) for i, item in enumerate(node.value)]

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        if node.tag in _TEXT:
            return self._text(node)
        kind = node.tag.removeprefix(_TAG)
        if kind == "null":
            return None
        if kind not in _KINDS:
            raise self._error(f"the tag {_tag(node)} has no meaning in settings; leave it out", node)
        if len(node.value) > _MAX_DIGITS:
            raise self._error(f"the number has {len(node.value):,} characters; expected at most {_MAX_DIGITS}", node)
        try:
            return self.loader.construct_object(node)
        except (ValueError, LookupError, ArithmeticError):  # what looks like a number may be none, such as 0b
            raise self._error(f"is not YAML: {node.value!r} is no {_KINDS[kind]}", node) from None

    def _text(self, node: yaml.ScalarNode) -> str:
        if what := unusable_text(node.value):
            raise self._error(f"a text with {what}, which names and paths cannot contain", node)
        return node.value

    def _item(self, node: yaml.Node, at: Key) -> Any:
        self.lines[at] = node.start_mark.line + 1
        return self.value(node, at)

    def _map(self, node: yaml.MappingNode, at: Key) -> dict[str, Any]:
        self._flatten(node)
        result: dict[str, Any] = {}
        for key, value in node.value:
            name = self._name(key)
            self.lines[(*at, name)] = key.start_mark.line + 1
            result[name] = self.value(value, (*at, name))
        return result

    def _flatten(self, node: yaml.MappingNode) -> None:
        """Resolves merge keys (`<<`), after checking both sides for duplicate keys."""
        if id(node) in self._flattened:
            return
        self._flattened.add(id(node))
        self._refuse_repeats(node)
        own: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        merged: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        for key, value in node.value:
            if key.tag != f"{_TAG}merge":
                own[self._name(key)] = (key, value)
                continue
            listed: dict[str, tuple[yaml.Node, yaml.Node]] = {}  # of several maps with a key, the first one's counts
            for source in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                if not isinstance(source, yaml.MappingNode):
                    raise self._error("a merge key (<<) takes a map or a list of maps", source)
                self._flatten(source)
                for pair in source.value:
                    listed.setdefault(self._name(pair[0]), pair)
            merged |= listed
        node.value = list((merged | own).values())

    def _refuse_repeats(self, node: yaml.MappingNode) -> None:
        first: dict[Hashable, int] = {}
        for key, _ in node.value:
            name = self._name(key)
            line = key.start_mark.line + 1
            if name in first and self.repeats is None:
                raise ConfigError(
                    f"the key '{name}' is given twice (first in line {first[name]}); remove one", self.file, line
                )
            if name in first and self.repeats is not None:
                self.repeats.append((name, line))
            first[name] = line

    def _name(self, key: yaml.Node) -> str:
        if not isinstance(key, yaml.ScalarNode):
            raise self._error("a key must be text, not a map or a list", key)
        return self._text(key)

    def _error(self, sentence: str, node: yaml.Node) -> ConfigError:
        return ConfigError(sentence, self.file, node.start_mark.line + 1)


def _tag(node: yaml.Node) -> str:
    return node.tag.replace(_TAG, "!!")


def _syntax_error(error: yaml.MarkedYAMLError, file: Path | None, text: str) -> ConfigError:
    mark = error.problem_mark or error.context_mark
    start = error.context_mark and mark is not error.context_mark and f"(begun in line {error.context_mark.line + 1})"
    what = " ".join(part for part in (error.context, start, error.problem) if part)
    if mark is None:
        return ConfigError(f"is not YAML: {what}", file)
    is_key = error.context_mark is not None and error.context == "while scanning a simple key"
    first = error.context_mark.line if is_key and error.context_mark else mark.line
    hint, line = syntax_hint(text, first + 1, mark.line + 1)
    if hint and line:
        return ConfigError(f"is not YAML: {hint}", file, line)
    return ConfigError(f"is not YAML (column {mark.column + 1}): {what}", file, mark.line + 1)
