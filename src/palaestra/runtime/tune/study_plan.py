"""The plan of a study: settings that all trials share, settings that differ, and how values become a trial's
settings."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from palaestra.core.errors import ConfigError
from palaestra.core.metrics import REWARD
from palaestra.runtime.settings import Loaded, RunSettings, load, yaml_file
from palaestra.runtime.settings.search_settings import RangeSettings, SearchSettings
from palaestra.runtime.settings.sourced_settings import Setting, SourcedSettings, of_every_behavior
from palaestra.runtime.settings.warnings import FOR_TUNE
from palaestra.runtime.storage.trust import Code, learning_code
from palaestra.runtime.tune.dimensions import Dimension
from palaestra.runtime.tune.shipped_spaces import read_block, space_for

OF_A_STUDY = ("trials", "jobs")
"""Keys of `search` that may change when a study is continued."""
HEADING = "ranges cannot be searched"
OWN_PLACE = ("run_id", "results_dir", "resume", "force", "inference", "load_model", "train_model")
"""Keys of checkpoint_settings that each trial sets for itself."""


@dataclass(frozen=True)
class StudyPlan:
    """Settings of a study."""

    tree: Mapping[str, Any]
    """Settings that all trials share, as in their file, without `search`."""
    settings: RunSettings
    """The settings in `tree`, checked and complete."""
    search: SearchSettings
    dimensions: tuple[Dimension, ...]
    notes: tuple[str, ...] = ()
    """Lines for the user."""
    start: Mapping[str, Any] | None = field(default=None)
    """The file's own values by path, also values outside the ranges; without values that differ between behaviors.
    None: no trial uses them."""

    def tree_of(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a trial's settings tree with these values by path. Raises ConfigError for an unknown path."""
        sourced = SourcedSettings(yaml_file.Document(tree=deepcopy(dict(self.tree))), None)
        for path, value in values.items():
            sourced.apply_set(f"{path}={json.dumps(value)}")
        return sourced.tree

    def text_of(self, values: Mapping[str, Any], comment: str = "") -> str:
        """Returns the settings of a trial as a complete settings file in YAML, which starts with a comment."""
        head = "".join(f"# {line}\n" for line in comment.splitlines())
        return head + yaml_file.dump(self.tree_of(values), 120)

    def as_tree(self) -> dict[str, Any]:
        """Returns the whole study as a settings tree, from which it can be resumed."""
        block = self.search.model_dump(mode="json", exclude_defaults=True)
        ranges = {each.path: each.range for each in self.dimensions}
        block["space"] = {path: one.model_dump(mode="json", exclude_defaults=True) for path, one in ranges.items()}
        return {**deepcopy(dict(self.tree)), "search": block}

    @property
    def longest(self) -> int:
        """Largest max_steps of all behaviors."""
        return max(lengths_of(self.settings).values())

    def seeds(self) -> list[int]:
        """Returns the seed of each training of a trial."""
        given = self.settings.env_settings.seed
        first = self.search.seed if given == -1 else given
        return list(range(first, first + self.search.seeds))

    def sets(self, settings: RunSettings) -> list[str]:
        """Returns further settings of a trial's process: threads, trackers, the end of the training."""
        found = ["torch_settings.threads=1"] if settings.torch_settings.threads is None else []
        if "jsonl" not in settings.trackers:
            found.append("trackers.jsonl={}")
        search = self.search
        if "reward" not in search.wanted:  # nothing is to be seen after the bar
            keys = {"metric": search.metric, "at_least": search.bar, "episodes": search.episodes}
            names = [search.behavior] if search.behavior else ["*"]
            stops = {f"{name}.stop_when.{key}": value for name in names for key, value in keys.items()}
            found += [f"behaviors.{path}={json.dumps(value)}" for path, value in stops.items()]
        return found


def lengths_of(settings: RunSettings) -> dict[str, int]:
    """Returns the max_steps of each behavior; '*' for behaviors that are not listed."""
    found = {name: block.max_steps for name, block in settings.behaviors.items()}
    return found | ({"*": settings.default_settings.max_steps} if settings.default_settings else {})


def make_plan(
    config: Path | Mapping[str, Any],
    overrides: Mapping[str, Any],
    sets: Sequence[Setting | str] = (),
    block: str | Path | Mapping[str, Any] | None = None,
    *,
    own_code: bool = True,
) -> StudyPlan:
    """Reads a study's settings. `block`: a `search` block that replaces the block in the file. Raises ConfigError."""
    flags = overrides.get("search", {})
    if block is not None:
        whole = {**read_block(block), **flags}
        overrides = {key: value for key, value in overrides.items() if key != "search"}
        sets = [f"search={json.dumps(whole)}", *sets]
    loaded = load(config, overrides, sets, own_code=own_code)
    assert loaded.sourced is not None
    search = loaded.settings.search or SearchSettings()
    tree = deepcopy({key: value for key, value in loaded.sourced.tree.items() if key != "search"})
    _drop_place(tree, loaded)
    results = Path(loaded.settings.checkpoint_settings.results_dir)
    tree = _with_folders(tree, results)
    settings = loaded.settings.model_copy(update={"search": None})
    _refuse_several_processes(settings)
    _refuse_unknown_behavior(search, settings, loaded)
    given = {of_every_behavior(path): found for path, found in search.space.items()}
    if len(given) < len(search.space):
        raise loaded.refusal([(("search", "space"), "gives a setting twice: with `behaviors.*` and without")], HEADING)
    if not given:
        blocks = settings.behaviors.values() or filter(None, [settings.default_settings])
        trainers = {block.trainer_type for block in blocks}
        given = dict(SearchSettings.model_validate({"space": space_for(trainers)}).space)
        given = _with_own_choices(given, StudyPlan(tree, settings, search, ()))
    notes = [*loaded.notes, *(warning for warning in loaded.warnings if FOR_TUNE not in warning)]
    dimensions = tuple(
        Dimension(path, found.model_copy(update={"choice": _with_folders(found.choice, results, path)}))
        for path, found in given.items()
    )
    plan = StudyPlan(tree, settings, search, dimensions)
    start = check_ranges(plan, loaded, own_code)
    return replace(plan, notes=tuple(notes), start=start if search.start_values else None)


def check_ranges(plan: StudyPlan, loaded: Loaded, own_code: bool = True) -> dict[str, Any]:
    """Returns the settings' own values, by path. Raises ConfigError for an unknown path or too large a range."""
    problems: list[tuple[tuple[str, ...], str]] = []
    for each in plan.dimensions:
        values = each.values if each.kind == "choice" else (each.values[0], each.values[1])
        for value in values:
            try:
                load(plan.tree_of({each.path: value}), own_code=own_code)
            except ConfigError as error:
                problems.append((("search", "space", each.path), f"with the value {json.dumps(value)}: {error}"))
                break
    if problems:
        raise loaded.refusal(problems, HEADING)
    found: dict[str, Any] = {}
    for each in plan.dimensions:
        values = list(values_at(plan, each.path))
        if values and all(value == values[0] for value in values):
            found[each.path] = values[0]
    return found


def values_at(plan: StudyPlan, path: str) -> list[Any]:
    """Returns the values at a path, one for each behavior that it matches; empty if a behavior has no such section."""
    marker = "palaestra-marker"
    found = places(plan.tree_of({path: marker}), marker)
    whole = plan.settings.model_dump(mode="json")
    there = all(at(whole, keys[:-1]) is not None for keys in found)
    return [at(whole, keys) for keys in found] if there else []


def at(tree: Any, keys: Sequence[str | int]) -> Any:
    """Returns the value at a path of keys; None if there is none."""
    for key in keys:
        if isinstance(tree, Mapping):
            tree = tree.get(key)
        elif isinstance(tree, list) and isinstance(key, int) and key < len(tree):
            tree = tree[key]
        else:
            return None
    return tree


def places(tree: Any, value: Any, above: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Returns the paths at which a tree has this value."""
    if isinstance(tree, Mapping):
        return [place for key, each in tree.items() for place in places(each, value, (*above, key))]
    if isinstance(tree, list):
        return [place for i, each in enumerate(tree) for place in places(each, value, (*above, i))]
    return [above] if tree == value else []


def code_of(plan: StudyPlan) -> list[Code]:
    """Returns the code that trials run, including code that choices name, and the machines to which they connect."""
    found = learning_code(plan.settings.model_copy(update={"search": plan.search}))
    return list(dict.fromkeys([*found, *code_of_choices(plan)]))


def code_of_choices(plan: StudyPlan) -> list[Code]:
    """Returns the code that choices of the search name."""
    found: list[Code] = []
    for each in plan.dimensions:
        for value in each.values:
            if isinstance(value, str):
                found += learning_code(load(plan.tree_of({each.path: value}), own_code=False).settings)
    own = learning_code(plan.settings)
    return [one for one in dict.fromkeys(found) if one not in own]


def differences(before: StudyPlan, now: StudyPlan) -> list[str]:
    """Returns the paths of settings that differ from the saved plan but must not change when a study is resumed."""
    trees = [plan.as_tree() for plan in (before, now)]
    for tree in trees:
        tree["search"] = {key: value for key, value in tree["search"].items() if key not in OF_A_STUDY}
    old, new = (dict(_leaves(tree)) for tree in trees)
    return [
        ".".join(map(str, path))
        for path in dict.fromkeys((*old, *new))
        if old.get(path, _leaves) != new.get(path, _leaves)
    ]


def _leaves(tree: Any, above: tuple[Any, ...] = ()) -> list[tuple[tuple[Any, ...], Any]]:
    if isinstance(tree, Mapping) and tree:
        return [leaf for key, value in tree.items() for leaf in _leaves(value, (*above, key))]
    return [(above, list(tree) if isinstance(tree, tuple) else tree)]


def _drop_place(tree: dict[str, Any], loaded: Loaded) -> None:
    """Removes name and folder of a run, because each trial has its own. Raises ConfigError for `initialize_from`."""
    place = tree.get("checkpoint_settings")
    if loaded.settings.checkpoint_settings.initialize_from:
        sentence = "trials lie in folders of their own: name the run's folder as init_path of the behavior instead"
        raise loaded.refusal([(("checkpoint_settings", "initialize_from"), sentence)], HEADING)
    if isinstance(place, dict):
        tree["checkpoint_settings"] = {key: value for key, value in place.items() if key not in OWN_PLACE}
        if not tree["checkpoint_settings"]:
            del tree["checkpoint_settings"]


def _with_folders(tree: Any, results: Path, path: str = "") -> Any:
    """Returns a tree, or the values at a path, in which runs for replays, teachers and opponents are named by their
    folders, since trials are in another folder."""
    if isinstance(tree, Mapping):
        return {key: _with_folders(each, results, f"{path}.{key}") for key, each in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(_with_folders(each, results, path) for each in tree)
    kind = "" if path.endswith(".prior_data.run") else "model:"
    if not isinstance(tree, str) or not path.endswith((".prior_data.run", ".teacher", ".opponents")):
        return str(tree) if isinstance(tree, Path) else tree
    run = tree.removeprefix(kind)
    names = {run, run.rpartition("@")[0]} - {""}
    there = tree.startswith(kind) and any((results / name).is_dir() for name in names)
    return f"{kind}{results / run}" if there else tree


def _refuse_several_processes(settings: RunSettings) -> None:
    torch = settings.torch_settings
    if (torch.processes or 1) > 1 or torch.gpus not in (None, 0, 1):
        raise ConfigError(
            "a trial trains in one process: leave out torch_settings.processes and gpus; search.jobs trains trials "
            "side by side"
        )


def _refuse_unknown_behavior(search: SearchSettings, settings: RunSettings, loaded: Loaded) -> None:
    if search.behavior is None or search.behavior in settings.behaviors or settings.default_settings:
        return
    sentence = f"no behavior is named '{search.behavior}' (there are: {', '.join(settings.behaviors)})"
    raise loaded.refusal([(("search", "behavior"), sentence)], HEADING)


def _with_own_choices(given: dict[str, RangeSettings], plan: StudyPlan) -> dict[str, RangeSettings]:
    """Returns a shipped space in which the file's own number is one of the choices."""
    found: dict[str, RangeSettings] = {}
    for path, each in given.items():
        own = values_at(plan, path)[:1]
        numbers = {*(each.choice or ()), *(value for value in own if isinstance(value, int | float))}
        found[path] = each if each.choice is None else RangeSettings(choice=tuple(sorted(numbers, key=float)))
    return found


def measures(search: SearchSettings) -> str:
    """Describes the objectives for tables: 'reward', 'decisions to 90'."""
    what = "reward" if search.metric == REWARD else search.metric
    names = {"reward": what, "decisions": f"decisions to {search.bar:g}" if search.bar is not None else ""}
    names["cpu_seconds"] = f"CPU seconds to {search.bar:g}" if search.bar is not None else ""
    return ", ".join(names[objective] for objective in search.wanted)
