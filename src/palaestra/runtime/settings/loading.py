"""Loads settings: combines file, flags and `--set` into one checked tree; `to_yaml` writes that tree as a file.

The order is built-in default < file < flag < `--set`. The classes are in `tree`; `NOT_YET` lists what is not available
yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

from pydantic import ValidationError

from palaestra.core.display import shortened
from palaestra.core.errors import ConfigError
from palaestra.core.files import belongs_to_run
from palaestra.core.plugins import nearest, registry
from palaestra.core.settings import IGNORED_KEY, SKIP_USER_CODE
from palaestra.runtime.settings import yaml_file
from palaestra.runtime.settings.criteria import missing_lessons, never_met
from palaestra.runtime.settings.examples import here_or_shipped
from palaestra.runtime.settings.format_versions import misplaced, refuse_old
from palaestra.runtime.settings.setting_errors import config_error, problem, warning
from palaestra.runtime.settings.sourced_settings import Setting, SourcedSettings, check_depth
from palaestra.runtime.settings.tree import RunSettings
from palaestra.runtime.settings.warnings import remarks
from palaestra.runtime.settings.yaml_file import Key
from palaestra.trainers.behavior_settings import BehaviorSettings
from palaestra.trainers.settings import BCSettings

MOST_HINTS = 50  # unknown keys that are looked up in the whole tree
RESERVED_NAME = "no behavior can have this name, which a run uses for its own files"
MOST_PLACES = 100_000  # seeds that behaviors without settings of their own share by their names
UNITY_NAME = " (in Unity: Behavior Name in the agents' Behavior Parameters)"


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings, and the warnings from loading them."""

    settings: RunSettings
    warnings: tuple[str, ...]  # one line each, for the log
    text: str  # the file's text; empty without a file
    sourced: SourcedSettings | None = field(default=None, repr=False)  # knows where each value was given
    # without a file: loads this tree instead
    with_tree: Callable[[Mapping[str, Any]], Loaded] | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()  # lines about where the settings come from

    def refusal(self, problems: Iterable[tuple[Key, str]], heading: str) -> ConfigError:
        """Returns the error for problems that are found after loading; each is a path and a sentence."""
        return config_error(problems, self.sourced or SourcedSettings(yaml_file.Document(tree={}), None), heading)


def load(
    config: Path | Mapping[str, Any] | None,
    overrides: Mapping[str, Any] | None = None,
    sets: Sequence[Setting | str] = (),
    *,
    own_code: bool = True,
) -> Loaded:
    """Reads a file, a tree of the same shape, or nothing; applies flags, then `--set`; then checks the result.

    `overrides` is a partial settings tree with the flags that were given, such as {"env_settings": {"seed": 3}}; `sets`
    are PATH=VALUE. In both, `behaviors.*` means every behavior, including default_settings. With `own_code`, the user's
    trainers are imported to check their hyperparameters; otherwise these are not checked. Raises ConfigError, which
    names all problems at once.
    """
    repeats: list[tuple[str, int]] = []
    document, sourced = _sourced(config, repeats)
    if wrong := list(misplaced(sourced.tree)):
        raise config_error(wrong, sourced, "keys are indented wrongly")
    sourced.apply_flags(overrides or {})
    for text in sets:
        sourced.apply_set(text)
    sourced.inherit(own_code)
    twice = "is given twice: this one counts, as in ML-Agents"
    warnings = [f"{sourced.file}:{line}: the key '{key}' {twice}" for key, line in repeats]
    warnings += _drop_framework(sourced)
    warnings += sourced.notes
    settings = _checked(sourced, warnings, own_code)
    if not settings.behaviors and not settings.default_settings:
        raise ConfigError("no behavior has settings; list it under `behaviors`, or add default_settings", sourced.file)
    if taken := [
        (("behaviors", name), f"{RESERVED_NAME}; rename the behavior")
        for name in settings.behaviors
        if belongs_to_run(name)
    ]:
        raise config_error(taken, sourced, "names cannot be used")
    if impossible := list(never_met(settings)):
        raise config_error(impossible, sourced, "lessons would never end")
    if missing := [*missing_lessons(settings), *_lesson_of_old_run(settings, sourced)]:
        raise config_error(missing, sourced, "lessons cannot begin")
    warnings += [warning(path, sentence, sourced) for path, sentence in remarks(settings)]
    settings = _resume_or_initialize(settings, sourced, warnings)
    with_tree = None if config is not None else lambda tree: load(tree, overrides, sets, own_code=own_code)
    notes = ()
    if isinstance(config, Path) and sourced.file != config:
        notes = (f"There is no {config} here: taking the one that comes with Palaestra",)
    return Loaded(settings, tuple(dict.fromkeys(warnings)), document.text, sourced, with_tree, notes)


def _lesson_of_old_run(settings: RunSettings, sourced: SourcedSettings) -> Iterator[tuple[Key, str]]:
    """Yields path and error of a `first_lesson` that the command line sets for a resumed run."""
    run = settings.checkpoint_settings
    path = ("env_settings", "first_lesson")
    typed = sourced.source(path).words and sourced.source(path).path == path
    if typed and settings.env_settings.first_lesson and (run.resume or run.inference):
        yield path, "only a new run can begin with another lesson: this one is in the lesson that it has reached"


def behavior_settings(settings: RunSettings, name: str, present: Iterable[str] = ()) -> BehaviorSettings:
    """Returns the settings of a behavior, or default_settings. `present`: all behaviors of the environment, for the
    error message.

    Raises ConfigError without either.
    """
    if name in settings.behaviors:
        return settings.behaviors[name]
    if settings.default_settings:
        return settings.default_settings
    of_team = next((other for other in settings.behaviors if other.partition("?team=")[0] == name), None)
    if of_team is not None:
        raise ConfigError(f"rename '{of_team}' to '{name}' in the settings: all teams of a behavior share its settings")
    near = next((other for other in settings.behaviors if nearest(name, [other])), None)
    listed = ", ".join(repr(other) for other in settings.behaviors if other != near)
    more = ", ".join(repr(other) for other in dict.fromkeys(present) if other != name)
    facts = [f"the settings list {listed}{' too' * (near is not None)}"] * bool(listed)
    facts += [f"the environment also has {more}"] * bool(more)
    env = settings.env_settings.env_path or ""
    in_unity = "" if ":" in env or env in registry("envs") else UNITY_NAME
    what = f"list it under behaviors by this exact name{in_unity}, or add default_settings"
    if near is not None:
        what = f"is it '{near}' in the settings? Both names must be equal{in_unity}"
    around = f" ({'; '.join(facts)})" if facts else ""
    raise ConfigError(f"the environment has the behavior '{name}', which has no settings{around}; {what}")


def whose_reward(settings: RunSettings, name: str) -> str:
    """Returns "the teacher's" for a behavior that a teacher plays while the student watches, '' for any other."""
    own = behavior_settings(settings, name).hyperparameters
    if not isinstance(own, BCSettings) or own.teacher is None or settings.checkpoint_settings.inference:
        return ""
    return "the teacher's" if own.teacher_plays and own.teacher_behavior in (None, name) else ""


def behavior_seed(behavior: str, settings: RunSettings) -> int:
    """Returns the seed of a behavior: by its position in the settings, or by its name if it has only default_settings,
    so that the seed does not depend on when the behavior appears."""
    names = list(settings.behaviors)
    place = names.index(behavior) if behavior in names else len(names) + crc32(behavior.encode()) % MOST_PLACES
    return settings.env_settings.seed + 1000 * place


def to_yaml(settings: RunSettings) -> str:
    """Returns the whole tree as YAML in ML-Agents' key order, including defaults and nulls; `load` of this text gives
    an equal tree.

    `search` is left out if it is null, because no run reads it.
    """
    tree = settings.model_dump()
    return yaml_file.dump({key: value for key, value in tree.items() if key != "search" or value is not None})


def _sourced(
    config: Path | Mapping[str, Any] | None, repeats: list[tuple[str, int]]
) -> tuple[yaml_file.Document, SourcedSettings]:
    if config is None:
        document = yaml_file.Document(tree={"default_settings": {"trainer_type": "ppo"}})
        file = None
    elif isinstance(config, Mapping):
        check_depth(config)
        document = yaml_file.Document(tree=deepcopy(dict(config)))
        file = None
    else:
        file = here_or_shipped(Path(config))
        document = yaml_file.read(file, repeats)
        if isinstance(document.tree, dict):
            refuse_old(document.tree, file)
    tree = document.tree
    if tree is None:
        raise ConfigError("is empty; expected a map with the key `behaviors`", file)
    if not isinstance(tree, dict):
        raise ConfigError(
            f"holds {'a list' if isinstance(tree, list) else shortened(repr(tree))}; expected a map with the key "
            "`behaviors`",
            file,
        )
    return document, SourcedSettings(document, file)


def _drop_framework(sourced: SourcedSettings) -> list[str]:
    """Removes the key `framework`, which ML-Agents had while it still used TensorFlow, and returns warnings."""
    behaviors = sourced.tree.get("behaviors")
    blocks = {("behaviors", name): block for name, block in behaviors.items()} if isinstance(behaviors, dict) else {}
    blocks = {("default_settings",): sourced.tree.get("default_settings"), **blocks}
    old = [(*at, "framework") for at, block in blocks.items() if isinstance(block, dict) and "framework" in block]
    for path in old:
        sourced.remove(path)
    return [warning(path, "ignored: PyTorch is the only framework", sourced) for path in old]


def _checked(sourced: SourcedSettings, warnings: list[str], own_code: bool) -> RunSettings:
    """Validates the settings. A key in a file that ML-Agents would ignore is removed with a warning."""
    while True:
        try:
            return RunSettings.model_validate(sourced.tree, context={SKIP_USER_CODE: not own_code})
        except ValidationError as error:
            errors = error.errors()
        ignored = [error for error in errors if error["type"] == IGNORED_KEY and sourced.source(error["loc"]).file]
        if not ignored:
            raise config_error(
                (problem(error, sourced if i < MOST_HINTS else None) for i, error in enumerate(errors)),
                sourced,
                "settings cannot be used",
            )
        for error in ignored:
            path, sentence = problem(error, sourced)
            warnings.append(warning(path, f"ignored: {sentence}", sourced))
            sourced.remove(path)


def _resume_or_initialize(settings: RunSettings, sourced: SourcedSettings, warnings: list[str]) -> RunSettings:
    """Picks one if both are requested: the command line wins over the file, and resuming over initializing."""
    run = settings.checkpoint_settings
    if run.resume and sourced.source(("checkpoint_settings", "force")).words and run.force:
        warnings.append(
            "the run is to be resumed and started again (resume, force): it is resumed, as in ML-Agents; leave out "
            "resume to start it again"
        )
    if not (run.resume and run.initialize_from):
        return settings
    resume_typed, initialize_typed = (
        bool(sourced.source(("checkpoint_settings", key)).words) for key in ("resume", "initialize_from")
    )
    initialize = initialize_typed and not resume_typed
    winner, change = ("initialize_from", {"resume": False}) if initialize else ("resume", {"initialize_from": None})
    warnings.append(f"both resume and initialize_from ('{run.initialize_from}') are set: {winner} is followed")
    return settings.model_copy(update={"checkpoint_settings": run.model_copy(update=change)})
