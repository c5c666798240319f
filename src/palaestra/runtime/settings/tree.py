"""Settings tree of a run, in the key order in which ML-Agents writes it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, WithJsonSchema, field_validator, model_validator

from palaestra.core.plugins import registry
from palaestra.core.settings import Settings, field_error
from palaestra.rewards.settings import REWARDS
from palaestra.runtime.settings.search_settings import SearchSettings
from palaestra.scenario.settings import Parameter
from palaestra.trainers.behavior_settings import BehaviorSettings
from palaestra.trainers.settings import TRAINERS


class EnvSettings(Settings):
    """The environment, and the number of its copies."""

    env_path: str | None = None
    """A build, a built-in's name, `gymnasium:ID`, `envpool:TASK`, `pettingzoo:module` or `python:module:factory`; null:
    not named."""
    env_args: tuple[str, ...] | None = None
    """Command line arguments passed on to a Unity build."""
    base_port: int | None = Field(default=None, ge=0, le=65535)
    """First network port to try for Unity builds; null, or if it is taken: a free port is chosen automatically."""
    editor_port: int = Field(default=5004, ge=1, le=65535)
    """Network port of the Unity Editor."""
    bind: str | None = None
    """Address to listen on for Unity games, such as 0.0.0.0 for other machines; null: this machine only."""
    num_envs: int = Field(default=1, gt=0, le=100_000)
    """Copies of a Unity build, a Gymnasium or PettingZoo environment or `python:...`, each in its own process."""
    env_runners: int | None = Field(default=None, gt=0, le=100_000)
    """Ray actors that share the copies, on whichever machines Ray has; null: the copies run on this machine."""
    ray_address: str | None = None
    """Address of a Ray cluster, such as 10.0.0.1:6379; null: the cluster of a submitted job, else a new one on this
    machine."""
    runner_cpus: float | None = Field(default=None, gt=0)
    """CPUs that Ray reserves for each runner; null: 1, or equal shares if there are fewer."""
    ray_working_dir: str | None = None
    """Folder with the build or the Python files for Ray to bring to every machine; null: each machine has them."""
    num_areas: int | None = Field(default=None, gt=0, le=1_000_000)
    """Areas of each copy of a Unity build, else of all copies together; null: the environment's default."""
    first_lesson: int = Field(default=0, ge=0)
    """Number of the lesson that every curriculum starts with; 0: the first. A curriculum with fewer lessons starts with
    its last one."""
    stagger_episodes: bool = False
    """Let first episodes end at different times, so that a rollout contains all parts of an episode. Only for built-in
    environments."""
    timeout_wait: float | None = Field(default=None, gt=0)
    """Seconds to wait for an answer of a game or a copy; null: 60, no limit for the Editor."""
    max_message_mb: float | None = Field(default=1024.0, gt=0)
    """Largest message of a Unity game in megabytes, as received and as decoded observations; null: no limit."""
    seed: int = Field(default=-1, ge=-1, le=2**31 - 1)
    """Seed of all random numbers of the run; -1: chosen at the start."""
    max_lifetime_restarts: int | None = Field(default=None, ge=-1)
    """Total restarts of a crashed copy; -1: no limit; null: as long as the run makes progress."""
    restarts_rate_limit_n: int | None = Field(default=None, ge=-1)
    """Restarts of a crashed copy within a period; -1: no limit; null: as long as the run makes progress."""
    restarts_rate_limit_period_s: int = Field(default=60, gt=0)
    """Length of the period in seconds."""
    env_options: dict[str, Any] = Field(default={})
    """Keyword options of a built-in, Gymnasium, PettingZoo or Python environment."""
    side_channels: tuple[str, ...] | None = None
    """Your own side channels to Unity games, each as `module:Class`."""

    @model_validator(mode="after")
    def _copies_need_an_environment(self) -> EnvSettings:
        if self.env_runners is None:
            return self
        if self.env_path is None:
            raise field_error(
                EnvSettings,
                "env_runners",
                "needs an env_path (--env): the Editor runs on this machine",
                self.env_runners,
            )
        if 1 < self.num_envs < self.env_runners:
            what = (
                f"expected at most num_envs ({self.num_envs}), since each runner has one copy at least; got "
                f"{self.env_runners}"
            )
            raise field_error(EnvSettings, "env_runners", what, self.env_runners)
        return self


class EngineSettings(Settings):
    """Settings of Unity's engine; only for Unity games."""

    width: int = Field(default=84, gt=0)
    """Window width in pixels."""
    height: int = Field(default=84, gt=0)
    """Window height in pixels."""
    quality_level: int = Field(default=5, ge=0)
    """Unity's graphics quality level."""
    time_scale: float = Field(default=20.0, gt=0)
    """Simulated seconds per real second."""
    target_frame_rate: int = Field(default=-1, ge=-1)
    """Frames per second to aim at; -1: as many as possible."""
    capture_frame_rate: int = Field(default=60, ge=0)
    """Frames per simulated second."""
    no_graphics: bool = False
    """Run without a window."""
    no_graphics_monitor: bool = False
    """Run without a window, except for the first copy."""


class CheckpointSettings(Settings):
    """Name and folder of the run, and the run from which it starts."""

    run_id: str = Field(default="ppo", min_length=1)
    """Name of the run and of its folder."""
    initialize_from: str | None = None
    """Run whose policies this run starts from, at step 0; `hub:user/repository` names a run on the Hugging Face Hub."""
    load_model: bool = False
    """Deprecated, and without effect: use resume."""
    resume: bool = False
    """Resume a run."""
    force: bool = False
    """Start again although the run exists."""
    train_model: bool = False
    """Deprecated, and without effect: training is the default."""
    inference: bool = False
    """Act without learning."""
    results_dir: str = Field(default="results", min_length=1)
    """Folder of all runs."""

    # ML-Agents' names, which plug-ins written for it read

    @property
    def write_path(self) -> str:
        """Folder of this run: `results_dir`/`run_id`."""
        return os.path.join(self.results_dir, self.run_id)

    @property
    def maybe_init_path(self) -> str | None:
        """Folder of the run from which this run starts."""
        return None if self.initialize_from is None else os.path.join(self.results_dir, self.initialize_from)

    @property
    def run_logs_dir(self) -> str:
        """Folder of the run's logs."""
        return os.path.join(self.write_path, "run_logs")


class TorchSettings(Settings):
    """Device and threads of PyTorch."""

    ignores_unknown: ClassVar[bool] = True

    device: str | None = None
    """cpu, cuda, cuda:0 ...; null: cuda if a GPU is available."""
    threads: int | None = Field(default=None, gt=0)
    """CPU threads; null: chosen by the amount of work."""
    processes: int | None = Field(default=None, gt=0, le=10_000)
    """Processes on CPUs that train the run together; null: one, or as many as torchrun starts."""
    gpus: int | None = Field(default=None, ge=-1)
    """GPUs that train the run together, one process for each; -1: all; null: one, or one for each torchrun process."""
    rank_timeout: float = Field(default=600.0, gt=0)
    """With several processes: seconds after which a process that does not join a common update counts as lost."""


def _options_by_name(value: Any) -> Any:
    """Turns a list of trackers into a map of their options; empty options become an empty map."""
    if isinstance(value, list | tuple):
        if not all(isinstance(name, str) for name in value):
            raise ValueError("expected a list of names, or a map of names to options")
        return {name: {} for name in value}
    return (
        {name: {} if options is None else options for name, options in value.items()}
        if isinstance(value, dict)
        else value
    )


_OPTIONS_SCHEMA = {"anyOf": [{"type": "object"}, {"type": "null"}]}
Trackers = Annotated[
    dict[str, dict[str, Any]],
    BeforeValidator(_options_by_name),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "array", "items": {"type": "string"}},
                {"type": "object", "additionalProperties": _OPTIONS_SCHEMA},
            ]
        }
    ),
]
DEFAULT_TRACKERS: dict[str, dict[str, Any]] = {"console": {}, "tensorboard": {}, "jsonl": {}}


class RunSettings(Settings):
    """Settings of a run."""

    default_settings: BehaviorSettings | None = None
    """Settings that every behavior starts from. A behavior that is not listed uses only these."""
    behaviors: dict[str, BehaviorSettings] = Field(default={})
    """One block for each behavior, by its name in the environment."""
    env_settings: EnvSettings = EnvSettings()
    """The environment, and how many copies of it."""
    engine_settings: EngineSettings = EngineSettings()
    """Settings of Unity's engine."""
    environment_parameters: dict[str, Parameter] | None = None
    """Numbers that configure the environment: constant, sampled, or changing as the agents learn."""
    checkpoint_settings: CheckpointSettings = CheckpointSettings()
    """Name and folder of the run, and what it starts from."""
    torch_settings: TorchSettings = TorchSettings()
    """Device and threads of PyTorch."""
    debug: bool = False
    """Log in detail."""
    trackers: Trackers = DEFAULT_TRACKERS
    """Where metrics go: `console`, `tensorboard`, `jsonl`, `wandb`, a plug-in's name, or your own `module:Class`, as a
    list, or as a map with the options of each. Default: console, tensorboard and jsonl."""
    search: SearchSettings | None = None
    """The search of `palaestra tune`; `palaestra learn` does not read it."""

    def as_dict(self) -> dict[str, Any]:
        """Returns the whole tree as plain values, under ML-Agents' key for the run."""
        return self.model_dump(mode="json")

    @field_validator("behaviors", mode="before")
    @classmethod
    def _blocks(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {name: {} if block is None else block for name, block in value.items()}


def blocks_of(settings: RunSettings) -> Iterator[tuple[tuple[str | int, ...], BehaviorSettings]]:
    """Yields the path and the block of every behavior, and of default_settings."""
    for name, block in settings.behaviors.items():
        yield ("behaviors", name), block
    if settings.default_settings:
        yield ("default_settings",), settings.default_settings


PACE = {"max_steps", "summary_freq", "checkpoint_interval", "keep_checkpoints", "stop_when", "keep_best"}
"""Settings of a behavior that may change when a run is resumed."""
SHAPE = {"trainer_type", "network_settings", "critic_bins", "critic_hidden_units", "critic_num_layers", "shared_critic"}
"""Settings of a behavior that networks depend on; also the reward signals, if one was added or removed."""


def changes(before: RunSettings, now: RunSettings, *, of_shape: bool = False) -> list[str]:
    """Returns a line for each setting of a behavior that differs and on which checkpoints depend, with both values.
    `of_shape`: only settings on which the shapes of networks depend."""
    old, new = (dict(_of_behaviors(settings.model_dump(mode="json"))) for settings in (before, now))
    paths = [
        path
        for path in dict.fromkeys((*new, *old))
        if not PACE.intersection(path[1:]) and old.get(path) != new.get(path)
    ]
    if of_shape:
        signals = [path for path in paths if "reward_signals" in path and not (path in old and path in new)]
        paths = [path for path in paths if path in signals or SHAPE.intersection(path)]
    return [f"{'.'.join(path)} is {_shown(new, path)}, was {_shown(old, path)}" for path in paths]


def _of_behaviors(tree: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, block in tree["behaviors"].items():
        yield from _leaves(block, (f"behaviors.{name}",))
    yield from _leaves(tree["default_settings"] or {}, ("default_settings",))


def _shown(leaves: Mapping[tuple[str, ...], Any], path: tuple[str, ...]) -> str:
    return json.dumps(leaves[path]) if path in leaves else "not there"


def _leaves(tree: Any, at: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from _leaves(value, (*at, str(key)))
    else:
        yield at, tree


OPEN = {"type": ["object", "null"]}
"""Schema of a section whose keys only a user-defined class knows."""
TEXT = {"type": "string"}
SHORT_RULES = [{"const": "same"}, {"type": "array", "items": {"type": ["integer", "string"]}}]
"""Schemas of a mirror's rule that is given as a word or a list."""


def json_schema() -> dict[str, Any]:
    """Returns the schema: every key with its type, range, default and description. Settings of plug-ins may have any
    keys."""
    plugins = [name for name in registry("rewards").names() if name not in REWARDS]
    schema = RunSettings.model_json_schema()
    definitions = schema["$defs"]
    for base in ("Settings", "SignalSettings", "UnreadSignalSettings"):
        definitions.pop(base, None)
    behavior = definitions["BehaviorSettings"]
    behavior["properties"]["hyperparameters"] = {
        "description": behavior["properties"]["hyperparameters"]["description"],
        "type": "object",
    }
    behavior["allOf"] = [_where_trainer_is(name, settings.__name__) for name, settings in TRAINERS.items()]
    behavior["properties"]["trainer_type"]["examples"] = list(TRAINERS)
    behavior["properties"]["reward_signals"].pop("additionalProperties")
    behavior["properties"]["reward_signals"] |= {
        "properties": {name: _or_empty(settings.__name__) for name, settings in REWARDS.items()}
        | dict.fromkeys(plugins, OPEN),
        "patternProperties": {".:.": OPEN},
        "additionalProperties": False,
        "minProperties": 1,
    }
    behavior["properties"]["mirror"]["anyOf"].append(TEXT)
    definitions["AMPSettings"]["properties"]["observations"]["anyOf"].append(TEXT)
    for group, key in (("MirrorSettings", "observations"), ("MirrorActions", "discrete")):
        rule = definitions[group]["properties"][key]
        rule["additionalProperties"] = {"anyOf": [rule["additionalProperties"], *SHORT_RULES]}
    definitions["MirrorActions"]["properties"]["continuous"]["anyOf"] += SHORT_RULES
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Palaestra settings"}


def _where_trainer_is(name: str, definition: str) -> dict[str, Any]:
    return {
        "if": {"properties": {"trainer_type": {"const": name}}, "required": ["trainer_type"]},
        "then": {"properties": {"hyperparameters": {"$ref": f"#/$defs/{definition}"}}},
    }


def _or_empty(definition: str) -> dict[str, Any]:
    return {"anyOf": [{"$ref": f"#/$defs/{definition}"}, {"type": "null"}]}
