"""Settings before they are checked: a tree of plain values, with the source of each value.

The file, flags and `--set` are applied in this order; `inherit` then merges each behavior with default_settings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palaestra.core.display import shortened
from palaestra.core.errors import ConfigError, PluginError
from palaestra.core.plugins import nearest
from palaestra.core.settings import unusable_text
from palaestra.runtime.settings import yaml_file
from palaestra.runtime.settings.tree import DEFAULT_TRACKERS
from palaestra.runtime.settings.yaml_file import Document, Key
from palaestra.runtime.settings.yaml_limits import MAX_DEPTH
from palaestra.trainers.behavior_settings import BehaviorSettings, hyperparameters_class, settings_like

_KEYS = re.compile(r"(?<=reward_signals\.)[\w.]+:\w+|(?<=trackers\.)[\w.]+:\w+|[^.]+")
"""Keys of a path: names between dots, and `package.module:Class`."""
_PARAMETER_FORMS = ("curriculum", "sampler_type", "sampler_parameters")
_FLAGS = {
    "env_path": "--env",
    "trainer_type": "--trainer",
    "load_model": "--load",
    "train_model": "--train",
    "device": "--torch-device",
    "threads": "--torch-threads",
    "first_lesson": "--lesson",
    "at_least": "--stop-at",
    "no_progress": "--stop-without-progress",
    "checkpoint_interval": "--save-freq",
}


@dataclass(frozen=True, slots=True)
class Source:
    """Place where a value was given: a line of a file, a flag or `--set`."""

    path: Key
    """Path in the file. For a behavior's value it may be in default_settings."""
    file: Path | None = None
    line: int | None = None
    words: str = ""
    """The flag or `--set`; empty for a file."""

    @property
    def where(self) -> str:
        """'file:line', or the flag."""
        return f"{self.file}:{self.line}" if self.line else str(self.file) if self.file else self.words


@dataclass(frozen=True, slots=True)
class Setting:
    """A value for a setting, as `--set` or a program gives it."""

    path: str
    """Path of the setting. A name in it may contain dots; `behaviors.*` means all listed behaviors, and so does a
    behavior's key without a block."""
    value: Any
    words: str
    """The setting as the user wrote it."""

    @classmethod
    def parse(cls, text: str) -> Setting:
        """Reads PATH=VALUE. Raises ConfigError."""
        path, equals, value = text.partition("=")
        words = f"--set {shortened(text, 200)}"
        if what := unusable_text(text):
            raise ConfigError(f"{words}: a text with {what}")
        if not equals or not all(path.split(".")):
            raise ConfigError(f"{words}: expected PATH=VALUE, such as behaviors.3DBall.max_steps=1e6")
        try:
            return cls(of_every_behavior(path.strip()), yaml_file.parse(value).tree, words)
        except ConfigError as error:
            raise ConfigError(f"{words}: the value {error}") from None


def of_every_behavior(path: str) -> str:
    """Returns a path with `behaviors.*` in front if it begins with a key of a behavior, such as `max_steps`."""
    return f"behaviors.*.{path}" if path.partition(".")[0] in BehaviorSettings.model_fields else path


def dotted(path: Key) -> str:
    """Returns a path as text, such as 'a.b[0].c'."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{shortened(key)}" for key in path).lstrip(".")


class SourcedSettings:
    """Tree of settings, and the source of each of its keys."""

    def __init__(self, document: Document, file: Path | None) -> None:
        self.tree: dict[str, Any] = document.tree
        self.file = file
        self.notes: list[str] = []
        """A line about each value that a flag made useless, and that is therefore left out."""
        self._of_every_behavior: dict[Key, str] = {}  # the flag of each setting that one set in all behaviors
        self._sources = {path: Source(path, file, document.lines.get(path)) for path in _paths(document.tree)}
        for section in ("behaviors", "default_settings"):
            if section in self.tree and self.tree[section] is None:
                del self.tree[section]

    def source(self, path: Key) -> Source:
        """Returns the source of a value, or of the nearest key above it."""
        for end in range(len(path), 0, -1):
            head = path[:end]
            inherited = ("default_settings", *head[2:]) if head[0] == "behaviors" and len(head) > 2 else head
            if found := self._sources.get(head) or self._sources.get(inherited):
                return found
        return Source(path, self.file)

    def apply_flags(self, overrides: Mapping[str, Any]) -> None:
        """Writes the partial tree of the flags that were given."""
        for name, options in overrides.get("trackers", {}).items():
            self._add_tracker(name, options)
        leaves = _leaves({section: part for section, part in overrides.items() if section != "trackers"})
        for path, value in sorted(leaves, key=lambda leaf: leaf[0][-1] != "trainer_type"):  # has its hyperparameters
            words = _flag(path)
            if path[:2] == ("behaviors", "*"):
                self._of_every_behavior[path[2:]] = words
            for concrete in self._concrete(list(path), words):
                if path[-1] == "trainer_type":
                    self._leave_other_hyperparameters(concrete[:-1], value, words)
                self._need_no_trainer_type(concrete)
                if value != {} or not isinstance(self._found(concrete), dict):  # a section that the file has stays
                    self._put(concrete, value, words)

    def _leave_other_hyperparameters(self, block_path: Key, trainer: Any, words: str) -> None:
        """Removes the hyperparameters of a block, those of another trainer, if a flag chooses one."""
        block = self._found(block_path)
        suited = (trainer, settings_like(str(trainer)))
        if not isinstance(block, dict) or block.get("trainer_type", trainer) in suited:
            return
        if isinstance(block.get("hyperparameters"), dict) and block["hyperparameters"]:
            path = (*block_path, "hyperparameters")
            self.notes.append(
                f"{self.source(path).where}: {dotted(path)}: values of {block['trainer_type']} are left out, "
                f"since "
                f"{words}={trainer} is given; {trainer} has its defaults, which flags and --set change"
            )
            self.remove(path)

    def _found(self, path: Key) -> Any:
        found: Any = self.tree
        for key in path:
            found = found.get(key) if isinstance(found, dict) else None
        return found

    def _add_tracker(self, name: str, options: Mapping[str, Any]) -> None:
        """Adds a tracker to the file's trackers, or options to one of them."""
        words = f"--track {name}"
        listed = self._trackers_by_name()
        if isinstance(listed, dict) and listed.get(name) is None:
            self._put(("trackers", name), {}, words)
        for key, value in options.items():
            self._put(("trackers", name, key), value, words)

    def _trackers_by_name(self) -> Any:
        """Turns a list of trackers into a map, to which one can be added; without any it has the default ones."""
        listed = self.tree.setdefault("trackers", list(DEFAULT_TRACKERS))
        if isinstance(listed, list) and all(isinstance(name, str) for name in listed):
            self.tree["trackers"] = dict.fromkeys(listed)
        return self.tree["trackers"]

    def _need_no_trainer_type(self, path: Key) -> None:
        """Sets the default trainer in a block that names none, so that one of its hyperparameters can be set."""
        at = 2 if path[0] == "behaviors" else 1
        if path[at : at + 1] != ("hyperparameters",):
            return
        default = self.tree.get("default_settings")
        blocks = [default if isinstance(default, dict) else {}]
        if at == 2:
            blocks.append(self._found(path[:2]))
        if not any(isinstance(block, dict) and {"trainer_type", "hyperparameters"} & block.keys() for block in blocks):
            self._put((*path[:at], "trainer_type"), "ppo", "")

    def apply_set(self, given: Setting | str) -> None:
        """Writes the value of one setting."""
        setting = Setting.parse(given) if isinstance(given, str) else given
        words = setting.words
        keys = _KEYS.findall(setting.path)
        if len(keys) > MAX_DEPTH:
            raise ConfigError(f"{words}: PATH has {len(keys)} keys, more than any setting")
        if keys[:2] == ["behaviors", "*"] and (flag := self._of_every_behavior.get(tuple(keys[2:]))):
            raise ConfigError(f"{words}: {flag} already sets {keys[-1]} of every behavior; leave out one of the two")
        if keys[0] == "trackers" and len(keys) > 1 and not keys[1].isdigit():
            self._trackers_by_name()
        for concrete in self._concrete(keys, words):
            self._need_no_trainer_type(concrete)
            self._put(concrete, deepcopy(setting.value), words)

    def inherit(self, own_code: bool = True) -> None:
        """Merges each listed behavior with default_settings, leaving out hyperparameters that its trainer does not
        have.

        `own_code`: import the user's modules, to find out the hyperparameters of their trainers.
        """
        default = self.tree.get("default_settings")
        behaviors = self.tree.get("behaviors")
        if isinstance(default, dict) and isinstance(behaviors, dict):
            self.tree["behaviors"] = {
                name: _over(default, {} if block is None else block, own_code) for name, block in behaviors.items()
            }

    def remove(self, path: Key) -> None:
        """Removes a key."""
        at: Any = self.tree
        for key in path[:-1]:
            at = at[key]
        del at[path[-1]]

    def _put(self, path: Key, value: Any, words: str) -> None:
        """Replaces the value at `path`, making missing maps."""
        at: Any = self.tree
        above: Key = ()
        for key in path[:-1]:
            key = _within(at, key, above, words)
            above = (*above, key)
            if isinstance(at, dict) and at.get(key) is None:
                at[key] = {}
                self._sources[above] = Source(above, words=words)
            at = at[key]
        last = _within(at, path[-1], above, words)
        at[last] = value
        path = (*above, last)
        self._sources = {known: source for known, source in self._sources.items() if known[: len(path)] != path}
        self._sources[path] = Source(path, words=words)

    def _concrete(self, parts: list[str], words: str) -> Iterator[Key]:
        """Yields the paths that `parts` mean. Joins names that contain dots; `*` stands for every behavior."""
        if len(parts) < 2 or parts[0] not in ("behaviors", "environment_parameters"):
            yield tuple(parts)
            return
        section = self.tree.get(parts[0]) or {}
        rest = parts[1:]
        known = list(section) if isinstance(section, dict) else []
        if parts[0] == "behaviors" and rest[0] == "*":
            if "default_settings" in self.tree:
                yield ("default_settings", *rest[1:])
            yield from (("behaviors", name, *rest[1:]) for name in known)
            return
        size = _name_size(rest, known, BehaviorSettings.model_fields if parts[0] == "behaviors" else _PARAMETER_FORMS)
        name = ".".join(rest[:size])
        if parts[0] == "behaviors" and name not in known and "default_settings" not in self.tree:
            raise ConfigError(
                f"{words}: no behavior is named '{name}'{nearest(name, known)} (there are: {', '.join(known)})"
            )
        yield (parts[0], name, *rest[size:])


def _within(at: Any, key: str | int, above: Key, words: str) -> Any:
    """Returns the key for indexing `at`: a number if `at` is a list. Raises ConfigError if it has no such key."""
    if isinstance(at, dict):
        return key
    if not isinstance(at, list):
        raise ConfigError(f"{words}: {dotted(above)} is {shortened(repr(at))}, not a map with a key '{key}'")
    if not str(key).isdigit() or int(key) >= len(at):
        raise ConfigError(
            f"{words}: {dotted(above)} is a list; expected a position within 0..{len(at) - 1}, got '{key}'"
        )
    return int(key)


def _name_size(parts: list[str], known: list[str], keys: Any) -> int:
    """Returns how many of the first parts form a name: a known name, else all parts before a known key."""
    for size in range(len(parts), 0, -1):
        if ".".join(parts[:size]) in known:
            return size
    return next(
        (i for i, part in enumerate(parts) if i and part in keys),
        1 if keys is BehaviorSettings.model_fields else len(parts),
    )


def check_depth(tree: Any) -> None:
    """Raises ConfigError for a tree that is nested too deeply or contains itself."""
    if any(len(path) > MAX_DEPTH for path in _paths(tree)):
        raise ConfigError(f"the settings are nested too deeply: more than {MAX_DEPTH} maps or lists within one another")


def _paths(tree: Any, above: Key = ()) -> Iterator[Key]:
    """Yields the path of every key and list item."""
    children = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in children:
        yield (*above, key)
        yield from _paths(value, (*above, key))


def _leaves(tree: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yields each value with its path; an empty map is a value if it is a setting, such as keep_best."""
    for key, value in tree.items():
        path = (*above, key)
        if isinstance(value, Mapping) and (value or len(path) < (3 if path[0] == "behaviors" else 2)):
            yield from _leaves(value, path)
        else:
            yield path, value


def _flag(path: tuple[str, ...]) -> str:
    """Returns the flag that sets a value; for a value in a map, such as env_options, the flag of the map."""
    key = "keep_best" if "keep_best" in path else path[-1] if path[0] == "behaviors" else path[:2][-1]
    return _FLAGS.get(key) or "--" + key.replace("_", "-")


def _over(default: dict[str, Any], block: Any, own_code: bool) -> Any:
    if not isinstance(block, dict):
        return block
    hyperparameters = default.get("hyperparameters")
    trainer = block.get("trainer_type", default.get("trainer_type"))
    if isinstance(hyperparameters, dict) and trainer != default.get("trainer_type"):
        try:
            known = hyperparameters_class(str(trainer), own_code).model_fields
        except PluginError:
            known = {}  # validation names the unknown trainer
        default = {**default, "hyperparameters": {key: value for key, value in hyperparameters.items() if key in known}}
    return _merged(default, block)


def _merged(below: Any, above: Any) -> Any:
    if isinstance(below, dict) and isinstance(above, dict):
        return {**deepcopy(below), **{key: _merged(below.get(key), value) for key, value in above.items()}}
    return deepcopy(above)
