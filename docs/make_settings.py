"""Writes the pages of `docs/reference/settings` from the settings classes: `python docs/make_settings.py`.

The sentence under a field is what a page says of it. `settings_notes.yaml` adds usual values, effects and the names
that other libraries have; the values in `configs` are read from there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

import yaml
from pydantic.fields import FieldInfo

from palaestra.core.settings import Settings
from palaestra.models.settings import MemorySettings, NetworkSettings
from palaestra.rewards.settings import REWARDS, PriorDataSettings
from palaestra.runtime.settings import CheckpointSettings, EngineSettings, EnvSettings, RunSettings, TorchSettings
from palaestra.runtime.settings.search_settings import RangeSettings, SearchSettings
from palaestra.scenario.ending_settings import KeepBestSettings, StopSettings
from palaestra.scenario.settings import (
    SAMPLERS,
    CompletionCriteriaSettings,
    ExploiterSettings,
    LessonSettings,
    PrioritySettings,
    SamplerSettings,
    SelfPlaySettings,
)
from palaestra.trainers.behavior_settings import BehaviorSettings
from palaestra.trainers.settings import TRAINERS, BehavioralCloningSettings
from palaestra.trainers.symmetry.mirror_settings import MirrorActions, MirrorRule, MirrorSettings

DOCS = Path(__file__).parent
FOLDER = DOCS / "reference" / "settings"
NOTES: dict[str, Any] = yaml.safe_load((DOCS / "settings_notes.yaml").read_text(encoding="utf-8"))
MADE = "*This page is written by `docs/make_settings.py` from the settings classes.*\n"
LARGEST_BOUND = 10_000
"""Larger bounds only stop slips of the pen, and are left out."""


class Section(NamedTuple):
    """A block of a settings file: where it stands, its title on the page, and its classes by what chooses them."""

    key: str  # in settings_notes.yaml
    page: str
    path: str
    classes: Mapping[str, type[Settings]]
    title: str = ""  # none: the only one of its page
    prefix: str = ""  # of headings, where another block of the page has the same keys

    def fields(self) -> Iterator[tuple[str, dict[str, FieldInfo]]]:
        """Yields each key with its field in every class that has it."""
        names = dict.fromkeys(name for each in self.classes.values() for name in each.model_fields)
        for name in names:
            yield (
                name,
                {label: each.model_fields[name] for label, each in self.classes.items() if name in each.model_fields},
            )

    def anchor(self, name: str) -> str:
        """Returns the anchor of a key's heading."""
        return re.sub(r"[^\w -]", "", f"{self.prefix}{name}".lower()).replace(" ", "-")

    @property
    def home(self) -> str:
        """The page with the anchor of the block itself."""
        return f"{self.page}.md" + (f"#{self.title.lower().replace(' ', '-')}" if self.title else "")


def _one(key: str, page: str, path: str, settings: type[Settings], title: str = "", prefix: str = "") -> Section:
    return Section(key, page, path, {"": settings}, title, prefix)


ON_POLICY = {name: TRAINERS[name] for name in ("ppo", "poca")}
HYPER = "behaviors.NAME.hyperparameters"
PARAMETER = "environment_parameters.NAME"
SECTIONS = (
    _one("run", "run", "the top level", RunSettings),
    _one("behavior", "behaviors", "behaviors.NAME", BehaviorSettings),
    Section("ppo", "ppo", HYPER, ON_POLICY),
    _one("sac", "sac", HYPER, TRAINERS["sac"]),
    _one("prior_data", "prior-data", f"{HYPER}.prior_data", PriorDataSettings),
    _one("bc", "imitation", HYPER, TRAINERS["bc"], "The trainer bc"),
    _one(
        "behavioral_cloning",
        "imitation",
        "behaviors.NAME.behavioral_cloning",
        BehavioralCloningSettings,
        "Cloning beside a trainer",
        "behavioral_cloning: ",
    ),
    _one("network_settings", "networks", "behaviors.NAME.network_settings", NetworkSettings, "Layers and encoders"),
    _one("memory", "networks", "behaviors.NAME.network_settings.memory", MemorySettings, "Memory of a network"),
    Section("reward_signals", "reward-signals", "behaviors.NAME.reward_signals.SIGNAL", REWARDS),
    _one("stop_when", "ending", "behaviors.NAME.stop_when", StopSettings, "Ending a run", "stop_when: "),
    _one("keep_best", "ending", "behaviors.NAME.keep_best", KeepBestSettings, "The best model", "keep_best: "),
    _one("mirror", "symmetry", "behaviors.NAME.mirror", MirrorSettings, "The mirror"),
    _one("mirror_rule", "symmetry", "behaviors.NAME.mirror.observations.NAME", MirrorRule, "A rule"),
    _one("mirror_actions", "symmetry", "behaviors.NAME.mirror.actions", MirrorActions, "Rules of actions"),
    _one("self_play", "self-play", "behaviors.NAME.self_play", SelfPlaySettings, "Opponents of the past"),
    _one(
        "priority",
        "self-play",
        "behaviors.NAME.self_play.priority",
        PrioritySettings,
        "Weights of opponents",
        "priority: ",
    ),
    _one(
        "exploiter", "self-play", "behaviors.NAME.self_play.exploiter", ExploiterSettings, "An exploiter", "exploiter: "
    ),
    _one("sampler", "parameters", PARAMETER, SamplerSettings, "A sampler"),
    Section("sampler_parameters", "parameters", f"{PARAMETER}.sampler_parameters", SAMPLERS, "Its distribution"),
    _one("lesson", "parameters", f"{PARAMETER}.curriculum[]", LessonSettings, "A lesson", "lesson: "),
    _one(
        "completion_criteria",
        "parameters",
        f"{PARAMETER}.curriculum[].completion_criteria",
        CompletionCriteriaSettings,
        "The end of a lesson",
    ),
    _one("env_settings", "environment", "env_settings", EnvSettings),
    _one("engine_settings", "engine", "engine_settings", EngineSettings),
    _one("checkpoint_settings", "checkpoints", "checkpoint_settings", CheckpointSettings, "The run"),
    _one("torch_settings", "checkpoints", "torch_settings", TorchSettings, "Processors"),
    _one("search", "search", "search", SearchSettings, "The search itself"),
    _one("range", "search", "search.space.PATH", RangeSettings, "A range"),
)
CHOOSERS = {"ppo": "trainer", "reward_signals": "signal", "sampler_parameters": "sampler"}
"""What the labels of a block's classes are names of."""

INDEX = """\
# Settings

These pages explain every key of a settings file: what it does, its usual values, and its name in other libraries. They
are for everyone who changes a run.

## How settings are read

Settings files are YAML with the keys of Unity ML-Agents, so files of ML-Agents work as they are. A file has these
blocks, all of them optional:

```yaml
{example}```

- A key that is left out has its default. `palaestra config FILE` prints a file with every default.
- An unknown key, a wrong type or a number out of range is an error, with the line and the nearest key. In the blocks in
    which ML-Agents ignores unknown keys, such as `network_settings`, an unknown key is a warning.
- A flag, such as `--max-steps`, overrides the file. `--set PATH=VALUE` overrides both:
    `--set hyperparameters.batch_size=256` for every behavior,
    `--set behaviors.3DBall.hyperparameters.batch_size=256` for one.
- In Python the same keys are in [`settings`](../python/train.md#train) of `palaestra.train`.
- Numbers may be written as `1e6`. `null` switches an option off.
- `palaestra schema` writes a JSON schema, with which an editor completes and explains the keys.
- Steps are decisions: one decision is one action of one agent.

On the pages, **Usual** is a range to start from: ML-Agents' documentation and users of these algorithms recommend it.
**Our files** is the range in the files of [`configs`](../../../configs/README.md). **Elsewhere** is the name in
Stable-Baselines3 (SB3) and CleanRL; a key without it has no counterpart there. *Not in ML-Agents* marks keys that
ML-Agents refuses or ignores.

## Pages

| page | keys | what for |
|---|---|---|
{pages}

## All keys

| key | in |
|---|---|
{keys}

Next: [PPO and MA-POCA](ppo.md), [Environment](environment.md), [Commands](../commands/README.md)

{made}"""


def pages() -> dict[Path, str]:
    """Returns the text of each page."""
    texts = {FOLDER / f"{name}.md": _page(name, head) for name, head in NOTES["pages"].items()}
    return {FOLDER / "README.md": _index(), **texts}


def _page(name: str, head: Mapping[str, Any]) -> str:
    sections = [section for section in SECTIONS if section.page == name]
    parts = [f"# {head['title']}", head["lead"].strip(), f"```yaml\n{head['example']}```"]
    for section in sections:
        parts += [*_section_head(section, alone=len(sections) == 1)]
        parts += [_key(section, name, fields) for name, fields in section.fields()]
    return "\n\n".join([*parts, f"Next: {', '.join([*head['next'], '[all settings](README.md)'])}", MADE])


def _section_head(section: Section, *, alone: bool) -> Iterator[str]:
    if not alone:
        yield f"## {section.title}"
        path = section.path if section.path.startswith("the ") else f"`{section.path}`"
        yield f"{path}: {_said(next(iter(section.classes.values())).__doc__)}" if _single(section) else path
    if not _single(section):
        kind = CHOOSERS[section.key]
        rows = [f"| `{label}` | {_said(each.__doc__)} |" for label, each in section.classes.items()]
        yield "\n".join([f"| {kind} | what it is |", "|---|---|", *rows])
    if section.key not in NOTES["ml_agents"]:
        yield "ML-Agents does not have this block."
    if alone:
        yield "## Keys"


def _single(section: Section) -> bool:
    return len(section.classes) == 1


def _key(section: Section, name: str, fields: Mapping[str, FieldInfo]) -> str:
    """Returns a key's heading, its type and default, its sentence, and what the notes say."""
    notes = NOTES["notes"].get(section.key, {}).get(name, {})
    only = "" if len(fields) == len(section.classes) else f"Only with {_all(f'`{label}`' for label in fields)}. "
    said = _by_label({label: _said(field.description) for label, field in fields.items()})
    what, labelled = (f"{only}{said}", []) if "\n" not in said else (only, said.splitlines())
    lines = [*labelled, f"- **Type:** {_typed(fields)}"]
    if "typical" in notes:
        lines.append(f"- **Usual:** {notes['typical']}")
    if found := _in_our_files(section, name):
        lines.append(f"- **Our files:** {found}")
    if "effect" in notes:
        lines.append(f"- **Effect:** {' '.join(notes['effect'].split())}")
    names = [f"{library} {notes[key]}" for key, library in (("sb3", "SB3"), ("cleanrl", "CleanRL")) if key in notes]
    if names:
        lines.append(f"- **Elsewhere:** {'; '.join(names)}")
    if section.key in NOTES["ml_agents"] and name not in NOTES["ml_agents"][section.key]:
        lines.append("- *Not in ML-Agents*")
    parts = (f"### {section.prefix}{name}", what.strip(), "\n".join(lines))
    return "\n\n".join(part for part in parts if part)


def _by_label(texts: Mapping[str, str]) -> str:
    """Returns what all labels have in common, or a list of what each has."""
    if len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    return "\n".join(f"- `{label}`: {text}" for label, text in texts.items())


def _typed(fields: Mapping[str, FieldInfo]) -> str:
    kinds = list(dict.fromkeys(kind(field) for field in fields.values()))
    defaults: dict[str, list[str]] = {}
    for label, field in fields.items():
        defaults.setdefault(default(field), []).append(label)
    if len(defaults) == 1:
        usual = next(iter(defaults))
    else:
        usual = ", ".join(f"{value} ({_all(f'`{label}`' for label in labels)})" for value, labels in defaults.items())
    usual = usual if usual == "required" else f"default {usual}"
    return f"{' or '.join(kinds)}; {usual}"


def kind(field: FieldInfo) -> str:
    """Returns a field's type and range in words."""
    words = list(dict.fromkeys(_kinds(field.annotation)))
    limits = [key for key in ("gt", "ge", "lt", "le") if any(hasattr(rule, key) for rule in field.metadata)]
    bounds = {key: next(getattr(rule, key) for rule in field.metadata if hasattr(rule, key)) for key in limits}
    bounds = {key: value for key, value in bounds.items() if value <= LARGEST_BOUND}
    if "whole number" in words and "gt" in bounds:
        bounds["ge"] = bounds.pop("gt") + 1
    if {"ge", "le"} <= set(bounds):
        words[0] += f" from {bounds['ge']} to {bounds['le']}"
    else:
        said = {"gt": "above {}", "ge": "{} or more", "lt": "below {}", "le": "up to {}"}
        words[0] = ", ".join([words[0], *(said[key].format(bounds[key]) for key in said if key in bounds)])
    return ", or ".join(words) if "," in words[0] else " or ".join(words)


def _kinds(annotation: Any) -> Iterator[str]:
    words = {bool: "`true` or `false`", int: "whole number", float: "number", str: "text", NoneType: "`null`"}
    origin = get_origin(annotation)
    if annotation in words:
        yield words[annotation]
    elif origin is Literal:
        yield _all([f"`{choice}`" for choice in get_args(annotation)], "or")
    elif origin in (Union, UnionType):
        kinds = [each for arg in get_args(annotation) for each in _kinds(arg)]
        yield from (each for each in kinds if each != "`null`")
        yield from ["`null`"] * ("`null`" in kinds)
    elif origin is tuple:
        yield "list"
    elif hasattr(annotation, "__metadata__"):  # Annotated
        yield from _kinds(annotation.__origin__)
    else:
        yield _block(annotation)


def _block(annotation: Any) -> str:
    """Returns 'block of KEY' with a link to the section of a settings class."""
    for section in SECTIONS:
        if annotation in section.classes.values():
            return f"[block of {_short(section)}]({section.home})"
    return "block"


def default(field: FieldInfo) -> str:
    """Returns a field's default as YAML."""
    value = field.get_default(call_default_factory=True)
    if field.is_required():
        return "required"
    if isinstance(value, Settings):
        return "each key has its own"
    if isinstance(value, dict):
        return f"`{json.dumps({key: {} for key in value})}`".replace('"', "")
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


def _said(text: str | None) -> str:
    """Returns a sentence on one line, with values of YAML as code."""
    line = " ".join((text or "").split())
    line = re.sub(r"(?<![\w`])(https?://[^\s,;]*[^\s,;.])", r"<\1>", line)
    parts = re.split(r"(`[^`]*`|<[^>]*>)", line)
    return "".join(part if part[:1] in ("`", "<") else _names_as_code(part) for part in parts)


def _names_as_code(text: str) -> str:
    return re.sub(r"(?<![\w.])(null|\w+_\w+(?:\.\w+)*)(?![\w(])", r"`\1`", text)


def _all(words: Iterable[str], last: str = "and") -> str:
    listed = list(words)
    return f" {last} ".join(listed) if len(listed) < 3 else f"{', '.join(listed[:-1])} {last} {listed[-1]}"


def _in_our_files(section: Section, name: str) -> str:
    """Returns the range of a key's numbers in our files; '' where fewer than three have it."""
    if section.key == "behavioral_cloning" or "typical" not in NOTES["notes"].get(section.key, {}).get(name, {}):
        return ""
    values = sorted(_shipped().get((section.key, name), []))
    if len(values) < 3 or name in ("strength", "demo_path"):
        return ""
    ends = dict.fromkeys(f"{value:.10g}" for value in (values[0], values[-1]))
    return " to ".join(ends)


@cache
def _shipped() -> dict[tuple[str, str], list[float]]:
    """Returns the numbers of each key in the files of `configs`, by section and name."""
    found: dict[tuple[str, str], list[float]] = {}
    places = {"self_play": "self_play", "network_settings": "network_settings", "stop_when": "stop_when"}
    for path in sorted((DOCS.parent / "configs").glob("*/*.yaml")):
        for behavior in (yaml.safe_load(path.read_text(encoding="utf-8")).get("behaviors") or {}).values():
            trainer = behavior.get("trainer_type", "ppo").replace("poca", "ppo")
            blocks = [("behavior", behavior), (trainer, behavior.get("hyperparameters"))]
            blocks += [(section, behavior.get(key)) for key, section in places.items()]
            blocks += [("reward_signals", signal) for signal in (behavior.get("reward_signals") or {}).values()]
            for section, block in blocks:
                for key, value in (block or {}).items():
                    if (number := _number(value)) is not None:
                        found.setdefault((section, key), []).append(number)
    return found


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None


def _index() -> str:
    rows = []
    for name, head in NOTES["pages"].items():
        sections = [section for section in SECTIONS if section.page == name]
        paths = [f"`{each.path}`" if not each.path.startswith("the ") else each.path for each in sections]
        lead = head["lead"].strip().partition(". ")[0].rstrip(".")
        rows.append(f"| [{head['title']}]({name}.md) | {'<br>'.join(paths)} | {lead} |".replace("<br>", ", "))
    places: dict[str, list[str]] = {}
    for section in SECTIONS:
        for key, _ in section.fields():
            places.setdefault(key, []).append(f"[{_short(section)}]({section.page}.md#{section.anchor(key)})")
    keys = [f"| `{key}` | {', '.join(places[key])} |" for key in sorted(places)]
    example = (
        "default_settings:        # for all behaviors\n"
        "behaviors:               # one block for each behavior, by its name\n"
        "  3DBall:\n"
        "    trainer_type: ppo\n"
        "environment_parameters:  # numbers of the environment, curricula\n"
        "env_settings:            # which environment, how many copies\n"
        "engine_settings:         # of Unity games\n"
        "checkpoint_settings:     # name and folder of the run\n"
        "torch_settings:          # processors\n"
    )
    return INDEX.format(example=example, pages="\n".join(rows), keys="\n".join(keys), made=MADE)


def _short(section: Section) -> str:
    """Returns a section's name in the index: that of its block, or of its trainers."""
    names = {"ppo": "ppo, poca", "run": "the file", "behavior": "behaviors.NAME", "range": "search.space"}
    return names.get(section.key, section.key.replace("mirror_", "mirror: "))


if __name__ == "__main__":
    from written_pages import write_folder

    write_folder(FOLDER, pages())
