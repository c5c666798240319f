"""Collects the facts that a run reports to a game's analytics: its settings as JSON, and the features in use.

Names and paths that a user chose are hashed: behaviors, observations, parameters, lessons, this run and the runs from
which it starts, brains, files, folders and classes. (ML-Agents does not hash the environment's path and arguments,
run_id and the demonstrations of rewards, and hashes results_dir by a function whose value differs from process to
process.) Settings for Palaestra's own environments and trackers are left out.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from typing import Any

import torch

from palaestra.core.versions import palaestra_version
from palaestra.envs.base import BehaviorFacts, TrainingFacts, hashed
from palaestra.runtime.settings import RunSettings
from palaestra.scenario.settings import PRIORITIZED, UNIFORM, CurriculumSettings
from palaestra.trainers.behavior_settings import BehaviorSettings

NAMES = (
    *("env_path", "env_args", "run_id", "initialize_from", "results_dir", "init_path"),
    *("demo_path", "run", "minari", "clips", "observations", "critic_only"),
    *("teacher", "teacher_behavior", "opponents"),
)
"""Settings with texts, which are sent as hashes."""
CODE = ("vis_encode_type", "body", "trainer_type", "reward_signals", "trackers")
"""Settings that may name the user's code, as `package.module:Class`."""
OURS = ("env_options", "side_channels")
"""Keys of env_settings whose values may be of any kind."""


def training_facts(settings: RunSettings, device: torch.device) -> TrainingFacts:
    """Returns the facts of a run on a device."""
    version = f"Palaestra {palaestra_version()}"
    return TrainingFacts(
        mlagents_version=version,
        mlagents_envs_version=version,
        python_version=platform.python_version(),
        torch_version=torch.__version__,
        torch_device_type=device.type,
        num_envs=settings.env_settings.num_envs,
        num_environment_parameters=len(settings.environment_parameters or {}),
        run_options=json.dumps(run_options(settings)),
    )


def behavior_facts(name: str, behavior: BehaviorSettings, settings: RunSettings) -> BehaviorFacts:
    """Returns the facts of a behavior, from its settings and the settings of its run."""
    network = behavior.network_settings
    signals = behavior.reward_signals
    return BehaviorFacts(
        behavior_name=hashed(name),
        trainer_type=_sanitized(behavior.trainer_type, "trainer_type"),
        extrinsic_reward_enabled="extrinsic" in signals,
        gail_reward_enabled="gail" in signals,
        curiosity_reward_enabled="curiosity" in signals,
        rnd_reward_enabled="rnd" in signals,
        behavioral_cloning_enabled=behavior.behavioral_cloning is not None,
        recurrent_enabled=network.memory is not None,
        visual_encoder=_sanitized(network.vis_encode_type, "vis_encode_type"),
        num_network_layers=network.num_layers,
        num_network_hidden_units=network.hidden_units,
        trainer_threaded=behavior.threaded,
        self_play_enabled=behavior.self_play is not None,
        curriculum_enabled=not _measured(settings).isdisjoint((name, None)),
        config=json.dumps(_sanitized(behavior.model_dump(mode="json"))),
    )


def _measured(settings: RunSettings) -> set[str | None]:
    """Returns the behaviors whose progress decides on lessons; None means the only learning behavior."""
    curricula = [
        each.curriculum
        for each in (settings.environment_parameters or {}).values()
        if isinstance(each, CurriculumSettings)
    ]
    criteria = [lesson.completion_criteria for lessons in curricula for lesson in lessons]
    return {one.behavior for one in criteria if one}


def run_options(settings: RunSettings) -> dict[str, Any]:
    """Returns all settings with private texts hashed."""
    tree = _sanitized(settings.model_dump(mode="json"))
    tree["trackers"] = dict.fromkeys(tree["trackers"])
    tree["env_settings"] = {key: value for key, value in tree["env_settings"].items() if key not in OURS}
    tree["behaviors"] = {hashed(name): block for name, block in tree["behaviors"].items()}
    if tree["environment_parameters"]:
        parameters = tree["environment_parameters"].items()
        tree["environment_parameters"] = {hashed(name): _parameter(form) for name, form in parameters}
    return tree


def _sanitized(value: Any, key: str = "") -> Any:
    if isinstance(value, Mapping):
        return {_sanitized(name, key): _sanitized(each, name) for name, each in value.items()}
    if isinstance(value, list):
        return [_sanitized(each, key) for each in value]
    chosen = key in NAMES and value not in (UNIFORM, PRIORITIZED)
    own = isinstance(value, str) and (chosen or (key in CODE and ":" in value))
    return hashed(value) if own else value


def _parameter(form: Any) -> Any:
    if not isinstance(form, Mapping) or "curriculum" not in form:
        return form
    lessons = [{**lesson, "name": hashed(lesson["name"])} for lesson in form["curriculum"]]
    for lesson in lessons:
        criteria = lesson["completion_criteria"]
        if criteria is not None and criteria["behavior"] is not None:  # else it is the only one that learns
            lesson["completion_criteria"] = {**criteria, "behavior": hashed(criteria["behavior"])}
    return {**form, "curriculum": lessons}
